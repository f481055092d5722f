package unseen

import (
	"strings"
	"testing"
	"unicode"

	"golang.org/x/text/unicode/runenames"
)

// What Unicode says is not shown, by any of its properties for that, is not seen; and
// what people write is.
//
// Seen to fail: without the default-ignorable characters; without marks.
func TestIs(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		hidden := unicode.In(r,
			unicode.C, unicode.Z, unicode.Mn, unicode.Me, unicode.White_Space, unicode.Bidi_Control, unicode.Join_Control, unicode.Pattern_White_Space,
			unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point, unicode.Noncharacter_Code_Point)
		if r != ' ' && hidden && !Is(r) {
			t.Errorf("%U is seen", r)
		}
	}
	for _, r := range "aZ0 ~\"\\éßЖש日本한कা→│😀\uFFFD𓀀𝅗𝅥"[:] {
		if Is(r) && !unicode.In(r, unicode.Mc, unicode.Mn) {
			t.Errorf("%U is not seen", r)
		}
	}
	for _, r := range []rune{'\u115f', '\u3164', '\uffa0', '\u2065', '\u180f', '\U000e0041', '\U000e01ef', '\U00013430', '\U0001d173', -1, 0xd800, unicode.MaxRune + 1} {
		if !Is(r) {
			t.Errorf("%U is seen", r)
		}
	}
}

// What has a name of emptiness, and ink, is known: a later version of Unicode that has
// more of it makes this test fail.
//
// Seen to fail: without those that have no ink.
func TestNamesOfNothing(t *testing.T) {
	ink := map[string]bool{
		"SYMBOL FOR NULL": true, "SYMBOL FOR SPACE": true, "BLANK SYMBOL": true, "DEVANAGARI GAP FILLER": true, "MANICHAEAN PUNCTUATION LINE FILLER": true,
		"NEWA GAP FILLER": true, "DIVES AKURU GAP FILLER": true, "BHAIKSUKI GAP FILLER-1": true, "BHAIKSUKI GAP FILLER-2": true,
		"KAWI PUNCTUATION SPACE FILLER": true, "SIGNWRITING LOCATION-WALLPLANE SPACE": true, "SIGNWRITING LOCATION-FLOORPLANE SPACE": true,
	}
	for r := '\x7f'; r <= unicode.MaxRune; r++ {
		name := runenames.Name(r)
		for _, word := range []string{"BLANK", "FILLER", "NULL", "INVISIBLE", "ZERO WIDTH", "JOINER", "SELECTOR", " SPACE"} {
			if strings.Contains(name, word) && !Is(r) && !ink[name] {
				t.Errorf("%U %s is seen", r, name)
			}
		}
	}
}

// Seen to fail: with quotes that leave what can be printed.
func TestQuote(t *testing.T) {
	for text, want := range map[string]string{
		"ä\n":           `"ä\n"`,
		"ä\u3164":       `"\u00e4\u3164"`,
		"a\U0001d159\"": `"a\U0001d159\""`,
		"\xff\u200b":    `"\xff\u200b"`,
	} {
		if got := Quote(text); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
