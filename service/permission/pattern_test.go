package permission

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// TestPatternTable is the documented table of the wildcard language.
func TestPatternTable(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"*", "", true},
		{"*", "a/b\nc", true},
		{"?", "", false},
		{"?", "é", true},
		{"?", "\xff", true},
		{"??", "é", false},
		{"??", "\xffa", true},
		{"a?c", "a/c", true},
		{"a?c", "a\nc", true},
		{"a*c", "ac", true},
		{"a*c", "a/x/y/c", true},
		{"a*c", "abcd", false},
		{"*.env", ".env", true},
		{"*.env", "a/b/.env", true},
		{"*.env", ".env.local", false},
		{"secret/*", "secret/a/b", true},
		{"secret/*", "secret", false},
		{"secret/**", "secret/a/b", true},
		{"**/f", "d/e/f", true},
		{"**/f", "f", false},
		{"*needle*", "hay\nneedle\nhay", true},
		{"*a*b*c*", "xxaxxbxxcxx", true},
		{"*a*b*c*", "xxcxxbxxaxx", false},
		{"*?*", "", false},
		{"*?*", "é", true},
		{"?*?", "é", false},
		{"?*?", "éé", true},
		{"*é?", "aééb", true},
		{"ab*ba", "aba", false},
		{"ab*ba", "abba", true},
		{"[ab]", "a", false},
		{"[ab]", "[ab]", true},
		{"{a,b}", "a", false},
		{`\*`, "*", true},
		{`\*`, "x", false},
		{`\*`, `\x`, false},
		{`\?*`, "?x", true},
		{`\\*`, `\x`, true},
		{`\\\*`, `\*`, true},
		{`\x`, `\x`, true},
		{`a\`, `a\`, true},
		{"A", "a", false},
		{"a.c", "abc", false},
		{"x", "x\n", false},
	} {
		p, err := ParsePattern(c.pattern)
		if err != nil {
			t.Fatalf("ParsePattern(%q): %v", c.pattern, err)
		}
		if got := p.Match(c.text); got != c.want {
			t.Errorf("%q matches %q: got %v, want %v", c.pattern, c.text, got, c.want)
		}
		if p.String() != c.pattern {
			t.Errorf("String: got %q, want %q", p.String(), c.pattern)
		}
	}
}

func TestPatternErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", `pattern is empty; "*" matches everything`},
		{strings.Repeat("a", MaxPattern+1), "pattern has 4097 bytes; at most 4096"},
		{"a\xff", `pattern "a\xff" is not UTF-8`},
	} {
		if _, err := ParsePattern(c.text); err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	if _, err := ParsePattern(strings.Repeat("a", MaxPattern)); err != nil {
		t.Errorf("a pattern of MaxPattern bytes: %v", err)
	}
}

// TestCaseC07WildcardSpansLineBreaks: a star stops at nothing. Seen to fail with
// a matcher whose star stopped at a line break.
func TestCaseC07WildcardSpansLineBreaks(t *testing.T) {
	policy := &Policy{Lists: []List{list(deny("*/shell", "*curl*"), deny("read", "**"), deny("edit", "tmp/*"))}}
	for _, c := range []struct{ action, resource string }{
		{"process/shell", "cat <<E\nhi\nE\ncurl x"},
		{"read", "dir/odd\nname"},
		{"edit", "tmp/odd\nname"},
	} {
		if v := policy.Evaluate(c.action, c.resource, ""); v.Effect != Deny {
			t.Errorf("%s of %q: got %s, want denied", c.action, c.resource, v)
		}
	}
}

// naiveMatch says what the language means, character by character.
func naiveMatch(pattern []rune, text string) bool {
	if len(pattern) == 0 {
		return text == ""
	}
	size := characterLen(text)
	switch {
	case pattern[0] == '\\' && len(pattern) > 1 && strings.ContainsRune(`*?\`, pattern[1]):
		literal := string(pattern[1])
		return strings.HasPrefix(text, literal) && naiveMatch(pattern[2:], text[1:])
	case pattern[0] == '*':
		return naiveMatch(pattern[1:], text) || (text != "" && naiveMatch(pattern, text[size:]))
	case text == "":
		return false
	case pattern[0] == '?':
		return naiveMatch(pattern[1:], text[size:])
	default:
		literal := string(pattern[0])
		return strings.HasPrefix(text, literal) && naiveMatch(pattern[1:], text[len(literal):])
	}
}

func TestPatternMeansWhatTheNaiveMatcherSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("ab/é\n*\\")), 0, 12, -1).Draw(t, "text")
		pattern := rapid.StringOfN(rapid.RuneFrom([]rune("ab/é*?\\")), 1, 8, -1).Draw(t, "pattern")
		p, err := ParsePattern(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := p.Match(text), naiveMatch([]rune(pattern), text); got != want {
			t.Fatalf("%q matches %q: got %v, want %v", pattern, text, got, want)
		}
		if p.Match(text) && text != "" {
			cut := rapid.IntRange(0, len(text)-1).Draw(t, "cut")
			if utf8.RuneStart(text[cut]) && !p.matchesBelow(text[:cut]) {
				t.Fatalf("%q matches %q, but nothing that begins with %q", pattern, text, text[:cut])
			}
		}
	})
}

func FuzzPattern(f *testing.F) {
	f.Add("*a?b*", "xxa\nbxx")
	f.Add("*é?", "é\xff\xc3\xa9")
	f.Add("?*?", "\xe2\x82")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		p, err := ParsePattern(pattern)
		if err != nil || len(pattern) > 12 || len(text) > 24 {
			return
		}
		if got, want := p.Match(text), naiveMatch([]rune(pattern), text); got != want {
			t.Errorf("%q matches %q: got %v, want %v", pattern, text, got, want)
		}
	})
}

// TestPatternTakesBoundedTime: a pattern that makes a backtracking matcher take
// exponential time ends at once.
func TestPatternTakesBoundedTime(t *testing.T) {
	p, err := ParsePattern(strings.Repeat("*a", 200) + "*b?")
	if err != nil {
		t.Fatal(err)
	}
	if p.Match(strings.Repeat("a", 20000)) {
		t.Error("a text without b matches")
	}
}
