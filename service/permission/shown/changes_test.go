package shown

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The first column of changes says what a line is: what goes on from the line before
// looks like no other, and what is in a file like no name of another one. What an empty
// line is before is another file (law 34).
//
// Seen to fail: without the arrow; with lines of a file as they are in the diff; with
// another file that is not told by the empty line.
func TestLaw34ChangesAreNotForged(t *testing.T) {
	long := "+" + strings.Repeat("x", 19) + "+rm -rf /" + strings.Repeat("y", 9) + "-safe"
	diff := "new file: 1 line\n--- /dev/null\n+++ b/f\n@@ -0,0 +1,4 @@\n" + long + "\n-- a/other\n++ b/other\n \n[1 line of the diff left out]\n\\ No newline\n" +
		"@@ -8 +8 @@\n--- a/third\n+++ b/third\n\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n- a\n+\tb\n\nmoved: a -> b\nremoved: c\n"
	want := []string{
		"new file: 1 line", "--- /dev/null", "+++ b/f", "@@ -0,0 +1,4 @@", "+ " + strings.Repeat("x", 18), "↳ x+rm -rf /yyyyyy", "↳ yyy-safe",
		"- - a/other", "+ + b/other", "  ", "[1 line of the diff ", "↳ left out]", `\ No newline`, "@@ -8 +8 @@", "- -- a/third", "+ ++ b/third",
		"", "--- a/g", "+++ b/g", "@@ -1 +1 @@", "-  a", "+ →   b", "", "moved: a -> b", "removed: c",
	}
	if diff := cmp.Diff(want, Changes(diff, 20)); diff != "" {
		t.Error(diff)
	}
}

// Whatever a file holds, and however wide the terminal is, each line that a person sees
// is one that the diff has, or is marked as what goes on from it; nothing is lost.
//
// Seen to fail: with what goes on as wide as what it goes on from; without wrapping
// where there are few columns.
func TestLaw34ChangesOfAnyWidth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.StringOfN(rapid.RuneFrom([]rune("+- @\\[↳→日x")), 0, 200, -1).Draw(t, "line")
		width := rapid.IntRange(8, 120).Draw(t, "columns")
		lines := Changes("@@ -1 +1 @@\n+"+body+"\n", width)
		for _, line := range lines {
			columns := 0
			for _, r := range line {
				columns += min(2, utf8.RuneLen(r))
			}
			if columns > width {
				t.Fatalf("%q has %d columns of %d", line, columns, width)
			}
		}
		joined := ""
		for i, line := range lines[len(Changes("@@ -1 +1 @@\n", width)):] {
			rest, goes := strings.CutPrefix(line, "↳ ")
			if goes != (i > 0) {
				t.Fatalf("line %d: %q", i, line)
			}
			joined += rest
		}
		if want := "+ " + body; joined != want {
			t.Fatalf("got %q, want %q", joined, want)
		}
	})
	// In the whole of a request, changes begin in their column, also where no width is known.
	for _, width := range []int{0, 1, 20, 30, 31, 80} {
		r := Request{Tool: "t", Diff: "@@ -1 +1 @@\n+" + strings.Repeat(" ", 300) + "+x\n"}
		for line := range strings.Lines(r.Text(width)) {
			line = strings.TrimSuffix(line, "\n")
			if most := max(width, indent+narrow); width == 0 && len(line) > Columns+2 || width > 0 && len(line) > most+2 {
				t.Errorf("of %d columns: %q", width, line)
			}
			if strings.HasPrefix(strings.TrimSpace(line), "+x") {
				t.Errorf("of %d columns: a forged line: %q", width, line)
			}
		}
	}
}

// What Unicode has that is not seen is escaped, beyond the first plane as JSON does it
// (law 34).
//
// Seen to fail: with the letters and symbols without ink that were known by chance.
func TestLaw34NothingIsUnseen(t *testing.T) {
	for _, r := range []rune{'\u00ad', '\u034f', '\u061c', '\u17b4', '\u180e', '\u200b', '\u2028', '\u2066', '\u303f', '\u3164', '\ufe0f', '\ufff9', 0x13430, 0x13441, 0x1d159, 0x1d173, 0xe0001, 0xe0100} {
		text := "a" + string(r) + "b"
		if got := Changes("@@ -1 +1 @@\n+"+text+"\n", 80)[1]; strings.ContainsRune(got, r) || !strings.Contains(got, `\u`) {
			t.Errorf("%U: changes show %q", r, got)
		}
		if got := Exact(text); strings.ContainsRune(got, r) {
			t.Errorf("%U: exactly it is %q", r, got)
		}
		if got := words(text); r != '\u2028' && got != "a\ufffdb" {
			t.Errorf("%U: in words it is %q", r, got)
		}
	}
	if got, want := visible("\U0001d159"), fmt.Sprintf(`\u%x\u%x`, 0xd834, 0xdd59); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
