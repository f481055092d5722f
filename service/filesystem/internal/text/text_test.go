package text

import (
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestProbe(t *testing.T) {
	for _, tt := range []struct {
		name, head string
		want       Nature
	}{
		{"nothing", "", Nature{Encoding: UTF8}},
		{"plain", "hello\n", Nature{Encoding: UTF8}},
		{"utf-8 with a mark", "\xef\xbb\xbfx", Nature{Encoding: UTF8, BOM: 3}},
		{"a zero byte", "a\x00b", Nature{Binary: true}},
		{"utf-16, little end first", "\xff\xfeh\x00i\x00", Nature{Encoding: UTF16LE, BOM: 2}},
		{"utf-16, big end first", "\xfe\xff\x00h\x00i", Nature{Encoding: UTF16BE, BOM: 2}},
		{"utf-16 without a mark", "h\x00i\x00", Nature{Binary: true}},
		{"utf-32", "\xff\xfe\x00\x00h\x00\x00\x00", Nature{Binary: true}},
		{"latin-1", "caf\xe9 ok", Nature{Encoding: Unknown8Bit}},
		{"a character that is cut", "caf\xc3", Nature{Encoding: UTF8}},
		{"four bytes, cut", "\xf0\x9f\x98", Nature{Encoding: UTF8}},
		{"bad bytes before a cut", "\xffcaf\xc3", Nature{Encoding: Unknown8Bit}},
		{"bytes that only continue", "abc\x80\x80\x80\x80", Nature{Encoding: Unknown8Bit}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Probe([]byte(tt.head)); got != tt.want {
				t.Errorf("Probe(%q) = %+v, want %+v", tt.head, got, tt.want)
			}
		})
	}
}

// The standard library's decoder is the oracle.
func TestFromUTF16(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		units := rapid.SliceOf(rapid.OneOf(
			rapid.Uint16(), rapid.Uint16Range(0xd800, 0xdfff), rapid.Uint16Range('a', 'z'),
		)).Draw(t, "units")
		odd := rapid.Bool().Draw(t, "odd")
		var little, big []byte
		for _, u := range units {
			little = append(little, byte(u), byte(u>>8))
			big = append(big, byte(u>>8), byte(u))
		}
		want := string(utf16.Decode(units))
		if odd {
			little, big = append(little, 'x'), append(big, 'x')
			want += "\ufffd"
		}
		if got := string(FromUTF16(little, UTF16LE)); got != want {
			t.Errorf("little: got %q, want %q", got, want)
		}
		if got := string(FromUTF16(big, UTF16BE)); got != want {
			t.Errorf("big: got %q, want %q", got, want)
		}
	})
}

func TestValid(t *testing.T) {
	for in, want := range map[string]string{
		"":              "",
		"é":             "é",
		"caf\xe9 ok":    "caf\ufffd ok",
		"\xff\xfe":      "\ufffd\ufffd",
		"a\ufffdb":      "a\ufffdb",
		"\xe2\x82 euro": "\ufffd\ufffd euro",
	} {
		if got := Valid([]byte(in)); got != want {
			t.Errorf("Valid(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOf(rapid.RuneFrom([]rune{'a', 'é', '€', '😀'})).Draw(t, "s")
		n := rapid.IntRange(0, len(s)+2).Draw(t, "n")
		end := CutEnd([]byte(s), n)
		if end > n || end < min(n, len(s))-3 || !utf8.ValidString(s[:end]) {
			t.Errorf("CutEnd(%q, %d) = %d", s, n, end)
		}
		n = min(n, len(s))
		start := CutStart([]byte(s), n)
		if start < n || start > n+3 || !utf8.ValidString(s[start:]) {
			t.Errorf("CutStart(%q, %d) = %d", s, n, start)
		}
	})
	// Of what is no text, everything is kept that there is room for.
	junk := []byte(strings.Repeat("\x80", 10))
	if got := CutEnd(junk, 5); got != 5 {
		t.Errorf("CutEnd of junk = %d, want 5", got)
	}
	if got := CutStart(junk, 5); got != 5 {
		t.Errorf("CutStart of junk = %d, want 5", got)
	}
}
