package lines

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestClean(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"plain", "naïve 日本 🙂 −", "naïve 日本 🙂 −"},
		{"tab", "a\tb", "a b"},
		{"line ends", "a\nb\rc\u2028d\u2029e\u0085f\vg\fh", "a�b�c�d�e�f�g�h"},
		{"terminal", "\x1b[2J\x1b]0;x\x07\x9b1m", "�[2J�]0;x��1m"},
		{"C1 as a rune", "\u009b1m", "�1m"},
		{"hidden", "a\u202eb\u200bc\ufeffd\u2066e\u00ade\U000e0041", "a�b�c�d�e�e�"},
		{"private use", "\ue000", "�"},
		{"NUL", "\x00\x00", "��"},
		{"invalid", "caf\xe9 \xff\xfe", "caf� ��"},
		{"surrogate", "\xed\xa0\x80", "���"},
		{"wide spaces", "a\u00a0b\u3000c", "a\u00a0b\u3000c"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Clean(tt.in); got != tt.want {
				t.Errorf("Clean(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
	if got := CleanText("a\nb\r\n\x1bc"); got != "a\nb�\n�c" {
		t.Errorf("CleanText = %q", got)
	}
	if got := CleanShort("日本", 5); got != "日"+cutMark {
		t.Errorf("CleanShort = %q", got)
	}
}

// What cleaning gives is valid, bounded, and stays as it is when it is cleaned
// again.
func TestCleanIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := string(rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "in"))
		most := rapid.IntRange(0, 100).Draw(t, "most")
		got := CleanShort(in, most)
		if len(got) > most+len(cutMark) || !utf8.ValidString(got) || strings.ContainsAny(got, "\x00\n\r\t\x1b\u2028") {
			t.Fatalf("CleanShort(%q, %d) = %q", in, most, got)
		}
		if again := Clean(got); again != got {
			t.Fatalf("cleaned again: %q", again)
		}
	})
	for _, in := range []string{strings.Repeat("\x00", 1<<20), strings.Repeat("x", 1<<20), strings.Repeat("日", 1<<20)} {
		if got := Clean(in); len(got) > Max+len(cutMark) || !strings.HasSuffix(got, cutMark) {
			t.Errorf("a line of %d bytes has %d after cleaning", len(in), len(got))
		}
	}
}

// Lines as they were taken apart, each with a mark when it was cut.
func taken(list *[]string) func([]byte, bool) {
	return func(text []byte, cut bool) {
		if len(text) > 40 {
			text = fmt.Appendf(nil, "%c×%d", text[0], len(text))
		}
		*list = append(*list, fmt.Sprint(string(text), cut))
	}
}

func TestEach(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	tests := []struct {
		name, in string
		want     []string
	}{
		{"nothing", "", nil},
		{"lines", "a\nb\r\n\nc", []string{"afalse", "bfalse", "false", "cfalse"}},
		{"largest", long(Max-1) + "\nb", []string{fmt.Sprintf("x×%dfalse", Max-1), "bfalse"}},
		{"too long", long(Max) + "\nb", []string{fmt.Sprintf("x×%dtrue", Max), "bfalse"}},
		{"far too long", long(10*Max+3) + "\nb\n", []string{fmt.Sprintf("x×%dtrue", Max), "bfalse"}},
		{"without end", long(3 * Max), []string{fmt.Sprintf("x×%dtrue", Max)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(tt.in), iotest.OneByteReader(strings.NewReader(tt.in)), iotest.DataErrReader(strings.NewReader(tt.in))} {
				var got []string
				Each(r, taken(&got))
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("Each (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// A writer takes lines apart as Each does, however they are cut into pieces.
func TestWriterIsLikeEach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var in []byte
		for _, n := range rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 2, 100, Max - 2, Max - 1, Max + 1, 2*Max + 5}), 0, 6).Draw(t, "lines") {
			in = append(append(in, bytes.Repeat([]byte("x"), n)...), '\n')
		}
		in = append(in, rapid.SampledFrom([]string{"", "tail", strings.Repeat("y", Max+1)}).Draw(t, "tail")...)
		var want, got []string
		Each(bytes.NewReader(in), taken(&want))
		w := NewWriter(taken(&got))
		for rest := in; len(rest) > 0; {
			n := min(len(rest), rapid.SampledFrom([]int{1, 7, 1000, Max, 3 * Max}).Draw(t, "piece"))
			if n == 1 {
				n = min(len(rest), 2)
			}
			if wrote, err := w.Write(rest[:n]); wrote != n || err != nil {
				t.Fatalf("Write = %d, %v", wrote, err)
			}
			rest = rest[n:]
		}
		w.Flush()
		w.Flush()
		if !slices.Equal(want, got) {
			t.Fatalf("the writer gave %q, want %q", got, want)
		}
	})
}

func TestParseHclog(t *testing.T) {
	tests := []struct {
		in   string
		want *Record // nil when it is no line of hclog's
	}{
		{`{"@level":"warn","@message":"low","@timestamp":"t","b":12345678901234567890,"a":"x","c":{"d":[1]}}`,
			&Record{slog.LevelWarn, "low", []string{"a", "x", "b", "12345678901234567890", "c", "map[d:[1]]"}}},
		{`{"@level":"trace","@message":""}`, &Record{slog.LevelDebug, "", nil}},
		{`{"@level":"ERROR"}`, &Record{slog.LevelError, "", nil}},
		{`{"@level":1}`, &Record{slog.LevelInfo, "", nil}},
		{`{"@message":1}`, &Record{slog.LevelInfo, "1", nil}},
		{`{"@message":null,"@level":{}}`, &Record{slog.LevelInfo, "<nil>", nil}},
		{`{"@message":"a\u001b[2J","k\n":"v\n"}`, &Record{slog.LevelInfo, "a�[2J", []string{"k�", "v�"}}},
		{`{"message":"x"}`, nil},
		{`{"@message":"x"} and more`, nil},
		{`{"@message":`, nil},
		{`[]`, nil},
		{``, nil},
		{`panic: x`, nil},
	}
	for _, tt := range tests {
		got, ok := ParseHclog([]byte(tt.in))
		if ok != (tt.want != nil) {
			t.Errorf("ParseHclog(%s) is ok: %t", tt.in, ok)
			continue
		}
		if ok {
			if diff := cmp.Diff(*tt.want, got); diff != "" {
				t.Errorf("ParseHclog(%s) (-want +got):\n%s", tt.in, diff)
			}
		}
	}
}

func TestRecordIsBounded(t *testing.T) {
	var many []string
	for range 1000 {
		many = append(many, strings.Repeat("k", 1000), strings.Repeat("\x00", 100))
	}
	for name, r := range map[string]Record{
		"many attributes": {Message: "m", Attributes: many},
		"odd":             {Message: "m", Attributes: []string{"k"}},
		"large message":   {Message: strings.Repeat("m", 1<<20), Attributes: []string{"k", "v"}},
		"large attribute": {Message: "m", Attributes: []string{"k", strings.Repeat("v", 1<<20), "l", "w"}},
	} {
		got := r.Bounded()
		size := len(got.Message)
		for _, text := range got.Attributes {
			size += len(text)
		}
		if len(got.Attributes)%2 != 0 || len(got.Attributes) > 2*MaxAttributes || size > Max+2*MaxAttributes*len(cutMark) {
			t.Errorf("%s: %d attributes, %d bytes", name, len(got.Attributes), size)
		}
	}
}

// Nothing that a plugin writes on standard error can break its reader.
func FuzzStderr(f *testing.F) {
	for _, seed := range []string{
		`{"@level":1}`, `{"@message":1}`, `{"@message":"x","@level":"info","a":[{}]}`, "panic: x\n\ngoroutine 1", "\x00\xff\n\n", `{"@level":"warn","a":1e999}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		Each(bytes.NewReader(in), func(text []byte, _ bool) {
			if r, ok := ParseHclog(text); ok {
				for _, said := range append(r.Attributes, r.Message) {
					if !utf8.ValidString(said) || strings.ContainsAny(said, "\n\x1b") {
						t.Errorf("record of %q has %q", text, said)
					}
				}
			}
			if s := Clean(text); !utf8.ValidString(s) || len(s) > Max+len(cutMark) {
				t.Errorf("Clean(%q) = %q", text, s)
			}
		})
	})
}
