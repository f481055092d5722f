package document

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/toolhost/toolhost/service"
)

func open(t testing.TB, content string) *Document {
	t.Helper()
	d, err := Open(t.Context(), []byte(content))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestOpen(t *testing.T) {
	for _, tt := range []struct{ name, content, text, plain, ending string }{
		{"nothing", "", "", "", ""},
		{"mark", "\xef\xbb\xbfa\r\nb\n", "a\r\nb\n", "a\nb\n", "\r\n"},
		{"most", "a\nb\nc\r\n", "a\nb\nc\r\n", "a\nb\nc\n", "\n"},
		{"lone carriage returns", "a\rb\r\r\nc", "a\rb\r\r\nc", "a\rb\r\nc", "\r\n"},
		{"latin-1", "caf\xe9\n", "caf\xe9\n", "caf\xe9\n", "\n"},
		{"UTF-16LE", "\xff\xfea\x00\r\x00\n\x00\x3d\xd8\x00\xde", "a\r\n😀", "a\n😀", "\r\n"},
		{"UTF-16BE", "\xfe\xff\x00a\x00\n\xd8\x3d\xde\x00", "a\n😀", "a\n😀", "\n"},
		{"half a pair", "\xfe\xff\xd8\x3d\x00a", "\xed\xa0\xbda", "\xed\xa0\xbda", ""},
		{"the other half", "\xfe\xff\xde\x00\xd8\x3d", "\xed\xb8\x80\xed\xa0\xbd", "\xed\xb8\x80\xed\xa0\xbd", ""},
		{"half a unit", "\xfe\xff\x00a\x00", "a", "a", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := open(t, tt.content)
			if got := string(d.Text()); got != tt.text {
				t.Errorf("text %q, want %q", got, tt.text)
			}
			if got, err := d.Plain(t.Context()); err != nil || string(got) != tt.plain {
				t.Errorf("plain text %q, want %q", got, tt.plain)
			}
			if got, err := d.Ending(t.Context()); err != nil || got != tt.ending {
				t.Errorf("ending %q, want %q", got, tt.ending)
			}
		})
	}
}

func TestOpenErrors(t *testing.T) {
	for _, tt := range []struct {
		content []byte
		kind    service.FileErrorKind
	}{
		{[]byte("a\x00b"), service.FileBinary},
		{[]byte("\xff\xfe\x00\x00a\x00\x00\x00"), service.FileBinary},
		{make([]byte, MaxBytes+1), service.FileTooLarge},
	} {
		_, err := Open(t.Context(), tt.content)
		if got := (*service.FileError)(nil); !errors.As(err, &got) || got.Kind != tt.kind {
			t.Errorf("%.10q: got %v, want %s", tt.content, err, tt.kind)
		}
	}
}

// drawContent draws a file: of any encoding, with ends of lines of both kinds.
func drawContent(t *rapid.T) string {
	parts := []string{"a", "b", " ", "\n", "\r\n", "\r", "é", "\ufffd", "日本", "😀", "\xe9", "\xff"}
	text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 40).Draw(t, "text"), "")
	switch rapid.IntRange(0, 3).Draw(t, "encoding") {
	case 1:
		return "\xef\xbb\xbf" + text
	case 2, 3:
		units := utf16.Encode([]rune(text))
		for i := range units {
			if rapid.IntRange(0, 15).Draw(t, "half") == 0 {
				units[i] = uint16(rapid.IntRange(0xd800, 0xdfff).Draw(t, "surrogate"))
			}
		}
		little := rapid.Bool().Draw(t, "little")
		out := []byte{0xfe, 0xff}
		if little {
			out = []byte{0xff, 0xfe}
		}
		for _, u := range units {
			if little {
				out = append(out, byte(u), byte(u>>8))
			} else {
				out = append(out, byte(u>>8), byte(u))
			}
		}
		if rapid.Bool().Draw(t, "odd") {
			out = append(out, 'x')
		}
		if _, err := Open(t.Context(), out); err != nil { // UTF-32, by its looks
			return text
		}
		return string(out)
	}
	return text
}

// What is put into a text is in it, and all other bytes of the file are as they
// were: beginning and end, and nothing else is lost. Seen to fail: with half a pair
// counted as two bytes of the text.
func TestSplice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		content := drawContent(t)
		d, err := Open(t.Context(), []byte(content))
		if err != nil {
			t.Fatal(err)
		}
		plain, err := d.Plain(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		starts := []int{0, len(plain)}
		for i := range plain {
			if utf8.RuneStart(plain[i]) && utf8.RuneStart(plain[max(i-1, 0)]) && plain[max(i-1, 0)] < utf8.RuneSelf {
				starts = append(starts, i)
			}
		}
		slices.Sort(starts)
		from := rapid.SampledFrom(starts).Draw(t, "from")
		to := rapid.SampledFrom(starts).Draw(t, "to")
		from, to = min(from, to), max(from, to)
		put := rapid.SampledFrom([]string{"", "x", "é\n", "😀"}).Draw(t, "new")
		changes := []Change{{Start: from, End: to, New: put}}
		if err := d.FromPlain(t.Context(), changes); err != nil {
			t.Fatal(err)
		}
		got, err := d.Splice(t.Context(), changes)
		if err != nil {
			t.Fatal(err)
		}
		text := d.Text()
		if put != "" { // without it, two halves of a pair may meet
			again, err := Open(t.Context(), got)
			if want := string(text[:changes[0].Start]) + put + string(text[changes[0].End:]); err != nil || string(again.Text()) != want {
				t.Fatalf("got %q of %q, %v; want the text %q", got, content, err, want)
			}
		}
		if Plain(string(text[changes[0].Start:changes[0].End])) != string(plain[from:to]) {
			t.Fatalf("%d to %d of the plain text became %v", from, to, changes)
		}
		// The bytes before and after are those of the file.
		head := d.forward(t.Context(), place{raw: d.mark}, changes[0].Start).raw
		tail := len(content) - d.forward(t.Context(), place{raw: d.mark}, changes[0].End).raw
		if string(got[:head]) != content[:head] || string(got[len(got)-tail:]) != content[len(content)-tail:] ||
			string(got[head:len(got)-tail]) != string(d.encode(nil, put)) {
			t.Fatalf("got %q of %q", got, content)
		}
	})
}

func TestSpliceTooLarge(t *testing.T) {
	d := open(t, "ab\n")
	big := strings.Repeat("x", MaxBytes/2)
	_, err := d.Splice(t.Context(), []Change{{0, 0, big}, {1, 1, big}})
	if got := (*service.FileError)(nil); !errors.As(err, &got) || got.Kind != service.FileTooLarge {
		t.Errorf("got %v, want an error of the size", err)
	}
}

func TestAccepts(t *testing.T) {
	for _, tt := range []struct {
		content, before, after string
		want                   bool
	}{
		{"a", "a", "é", true},
		{"a\xe9", "a", "b", true},
		{"a\xe9", "a", "é", false},
		{"é\xe9", "é", "è", true},
		{"a", "a", "b\x00", false},
		{"a", "a", "b\xff", false},
		{"\xff\xfea\x00\x00\xd8", "a", "é\x00", true},
		{"\xff\xfea\x00", "a", "b\xff", false},
	} {
		err := open(t, tt.content).Accepts(t.Context(), tt.before, tt.after)
		if got := (*service.FileError)(nil); (err == nil) != tt.want || err != nil && (!errors.As(err, &got) || got.Kind != service.FileBadQuery) {
			t.Errorf("%q for %q into %q: got %v, want %v", tt.after, tt.before, tt.content, err, tt.want)
		}
	}
}

func TestEnd(t *testing.T) {
	for _, tt := range []struct{ plain, replaced, ending, want string }{
		{"a\nb\nc", "x\r\ny\nz", "\n", "a\r\nb\nc"},
		{"a\nb\n", "x\n", "\r\n", "a\nb\r\n"},
		{"a\nb", "", "\r\n", "a\r\nb"},
		{"\n\n", "\n", "\r\n", "\n\r\n"},
		{"a", "\r\n", "\n", "a"},
	} {
		if got := End(t.Context(), tt.plain, []byte(tt.replaced), tt.ending); got != tt.want {
			t.Errorf("%q for %q: got %q, want %q", tt.plain, tt.replaced, got, tt.want)
		}
	}
}

// Both searches find what a plain one does. Seen to fail: with the steady one
// begun anew behind each match.
func TestFind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.StringMatching(`[ab]{0,200}`)
		content := strings.Repeat(letters.Draw(t, "content"), rapid.IntRange(1, 5).Draw(t, "times"))
		wanted := rapid.StringMatching(`[ab]{1,80}`).Draw(t, "wanted")
		if from := rapid.IntRange(0, len(content)).Draw(t, "from"); rapid.Bool().Draw(t, "part") && from < len(content) {
			wanted = content[from : from+min(len(content)-from, rapid.IntRange(1, 100).Draw(t, "length"))]
		}
		var want, steadily []int
		for i := range len(content) {
			if strings.HasPrefix(content[i:], wanted) {
				want = append(want, i)
			}
		}
		if got := slices.Collect(Find(t.Context(), []byte(content), wanted)); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		findSteadily(t.Context(), []byte(content), []byte(wanted), 0, func(i int) bool { steadily = append(steadily, i); return true })
		if !slices.Equal(steadily, want) {
			t.Fatalf("steadily: got %v, want %v", steadily, want)
		}
	})
}

// Texts that are made to be searched slowly take no longer, by far, than those that
// are not: in quadratic time, this would take hours.
func TestFindHostile(t *testing.T) {
	content := bytes.Repeat([]byte("a"), MaxBytes/4)
	start := time.Now()
	for _, wanted := range []string{
		strings.Repeat("a", 1<<20),
		strings.Repeat("a", 1<<20) + "b",
		"b" + strings.Repeat("a", 1<<20),
		strings.Repeat("a", 1<<19) + "b" + strings.Repeat("a", 1<<19),
	} {
		n := 0
		for range Find(t.Context(), content, wanted) {
			n++
		}
		if want := len(content) - len(wanted) + 1; n != 0 && n != want {
			t.Errorf("got %d places, want %d", n, want)
		}
	}
	t.Log(time.Since(start))
}

// What is gone over in pieces is what it is as a whole: no piece ends within the end of
// a line or within a character.
//
// Seen to fail: with pieces that are cut anywhere.
func TestPieces(t *testing.T) {
	for _, unit := range []string{"\r\n", "a\r\n", "ab\r\n", "é", "aé", "€", "a€", "aa€", "😀", "a😀", "aa😀", "aaa😀", "\x80", "\r\n\x80", "\xe2\x82"} {
		text := strings.Repeat(unit, 3*pieceBytes/len(unit))
		d := open(t, text)
		if got, err := d.Plain(t.Context()); err != nil || string(got) != Plain(text) {
			t.Errorf("%q: the plain text has %d bytes, %v", unit, len(got), err)
		}
		if pairs, feeds, err := d.Ends(t.Context()); err != nil || pairs != strings.Count(text, "\r\n") || feeds != 0 {
			t.Errorf("%q: %d and %d, %v", unit, pairs, feeds, err)
		}
		if got, err := d.Valid(t.Context()); err != nil || got != utf8.ValidString(text) {
			t.Errorf("%q: valid is %t, %v", unit, got, err)
		}
		length := 0
		for piece := range Pieces(t.Context(), d.Text()) {
			if length += len(piece); len(piece) < pieceBytes-utf8.UTFMax && length < len(text) || len(piece) > pieceBytes {
				t.Errorf("%q: a piece of %d bytes", unit, len(piece))
			}
		}
		if length != len(text) {
			t.Errorf("%q: pieces of %d bytes, want %d", unit, length, len(text))
		}
	}
}

// When its context ends, whatever takes long ends with the cause, and nothing else.
//
// Seen to fail: with what Ends had counted by then, and no error.
func TestEnded(t *testing.T) {
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	d := open(t, strings.Repeat("é\r\n", 100))
	for name, err := range map[string]error{
		"Open":      second(Open(ctx, []byte("\xff\xfea\x00"))),
		"Plain":     second(d.Plain(ctx)),
		"Ending":    second(d.Ending(ctx)),
		"Valid":     second(d.Valid(ctx)),
		"Accepts":   d.Accepts(ctx, "a", "é"),
		"Splice":    second(d.Splice(ctx, []Change{{0, 1, "a"}})),
		"FromPlain": d.FromPlain(ctx, []Change{{100, 200, ""}}),
	} {
		if !errors.Is(err, why) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for range Find(ctx, []byte("aa"), "a") {
		t.Error("something is found")
	}
}

func second[T any](_ T, err error) error { return err }
