package form

import (
	"encoding/json"
	"math/big"
	"testing"

	"github.com/toolhost/toolhost/config/internal/document"
)

func TestNumber(t *testing.T) {
	f := Form{Kind: Size, Min: 1, Max: 1 << 40}
	for _, c := range []struct {
		kind document.Kind
		text string
		want int64 // 0: refused
	}{
		{document.Number, "1", 1}, {document.Number, "1e3", 1000}, {document.Number, "1.5E1", 15}, {document.Number, "20.0", 20},
		{document.Number, "0", 0}, {document.Number, "-1", 0}, {document.Number, "0.5", 0}, {document.Number, "1e31", 0}, {document.Number, "1e-31", 0},
		{document.Number, "1e99999999999999999999", 0}, {document.Number, "1099511627776", 1 << 40}, {document.Number, "1099511627777", 0},
		{document.Text, "1B", 1}, {document.Text, "1 kB", 1000}, {document.Text, "1KiB", 1024}, {document.Text, "1TiB", 1 << 40}, {document.Text, "2TiB", 0},
		{document.Text, "1", 0}, {document.Text, "1kiB", 0}, {document.Text, "1  MB", 0}, {document.Text, "-1MB", 0}, {document.Text, "1MB\n", 0},
		{document.Text, "999999999999999999TB", 0}, {document.Text, "9999999999999999999B", 0}, {document.Text, "", 0}, {document.Text, "MB", 0},
	} {
		got, err := f.Number(&document.Node{Kind: c.kind, Text: c.text})
		if got != c.want || (err == nil) != (c.want != 0) {
			t.Errorf("%q: got %d, %v, want %d", c.text, got, err, c.want)
		}
	}
}

func TestDecimal(t *testing.T) {
	f := Form{Kind: Decimal, Least: 0.1, Utmost: 8}
	for text, want := range map[string]float64{ // 0: refused
		"0.1": 0.1, "1e-1": 0.1, "1.5": 1.5, "8": 8, "8.0": 8, "80e-1": 8, "0.10000000000000000000001": 0.1,
		"0": 0, "-1": 0, "0.0999999999999999999999": 0, "8.0000000000000000000001": 0, "1e999999999": 0, "1e-999999999": 0,
	} {
		got, err := f.Decimal(&document.Node{Kind: document.Number, Text: text})
		if got != want || (err == nil) != (want != 0) {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
	}
}

// FuzzNumber: what is taken is within the bounds, and is the number that was
// written.
func FuzzNumber(f *testing.F) {
	for _, text := range []string{"1", "1e3", "1.50", "1e400", "-0", "500MB", "1 GiB", "01"} {
		f.Add(text, true)
		f.Add(text, false)
	}
	form := Form{Kind: Size, Min: 10, Max: 1 << 40}
	f.Fuzz(func(t *testing.T, text string, isText bool) {
		n := document.Node{Kind: document.Number, Text: text}
		if isText {
			n.Kind = document.Text
		} else if !json.Valid([]byte(text)) {
			return // the document has made no such node
		}
		got, err := form.Number(&n)
		if err != nil {
			return
		}
		if got < form.Min || got > form.Max {
			t.Errorf("%q: got %d", text, got)
		}
		if isText {
			return
		}
		if written, ok := new(big.Rat).SetString(text); !ok || written.Cmp(new(big.Rat).SetInt64(got)) != 0 {
			t.Errorf("%q: got %d", text, got)
		}
	})
}
