package ignore

import (
	"fmt"
	"strings"
	"testing"
)

// Ignore files of a hostile tree cost a bounded time: those over the bound are not
// used, whether one file is too large or many add up. Broken by hand: with no
// bound.
func TestLaw14IgnoreFilesAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "**/a/**/a/**/a/**/a/**/b%d\n", i)
	}
	kilo := b.String()
	l := (*Level)(nil).Enter("", Files{GitIgnore: Parse([]byte("*.log\nx\n"))})
	l = l.Enter("a/", Files{GitIgnore: Parse([]byte(strings.Repeat(kilo, 3)))})
	if l.Unused() != 1 || l.Match("a/a/a/a/a/b1", false) != None || l.Match("a/a/f.log", false) != Ignored {
		t.Errorf("%d unused; the large file alone is not used", l.Unused())
	}
	l = l.Enter("a/b/", Files{GitIgnore: TooLarge(), DotIgnore: Parse([]byte("!x"))})
	if l.Unused() != 2 || l.Match("a/b/x", false) != Included {
		t.Errorf("%d unused, want 2", l.Unused())
	}
	dir := "a/b/"
	for range 10 {
		dir += "a/"
		l = l.Enter(dir, Files{GitIgnore: Parse([]byte(kilo))})
	}
	if l.Unused() != 10 || l.wild > MaxWildcardBytes {
		t.Errorf("%d unused and %d bytes; 2 of the ten fit", l.Unused(), l.wild)
	}
	// Names as such, however many, are no cost.
	b.Reset()
	for i := range 50_000 {
		fmt.Fprintf(&b, "name%d\n*.x%d\n/dir/name%d\n", i, i, i)
	}
	if l = (*Level)(nil).Enter("", Files{GitIgnore: Parse([]byte(b.String()))}); l.Unused() != 0 || l.Match("dir/name7", false) != Ignored {
		t.Error("a long list of names is not used")
	}
}

// Asterisks that cross slashes look at each place once. Broken by hand: without
// remembering from where on they find nothing.
func TestLaw14CrossingStarsAreBounded(t *testing.T) {
	pattern := strings.Repeat("**/a/", 200) + "b"
	text := strings.Repeat("a/", 2000) + "c"
	m := matcher{pattern: pattern, text: text, path: true}
	if m.match(0, 0) {
		t.Fatal("matched")
	}
	if most := len(pattern) * len(text); m.steps > most {
		t.Errorf("%d attempts, want at most %d", m.steps, most)
	}
}
