package shown

import (
	"strings"
	"testing"
)

// What is asked about is shown as it is, or quoted when it could be taken for something
// else: nobody approves what they were not shown (law 34).
//
// Seen to fail: with what cannot be printed shown as it is; with runs of spaces, and a
// quote at the beginning, taken for plain.
func TestLaw34ShownExactly(t *testing.T) {
	for text, want := range map[string]string{
		"git status":        "git status",
		"rm a\nrm b":        `"rm a\nrm b"`,
		"a  b":              `"a  b"`,
		" a":                `" a"`,
		"a ":                `"a "`,
		"":                  `""`,
		"a\x1b[31m":         `"a\x1b[31m"`,
		"a\u202eb":          `"a\u202eb"`,
		"a\u200bb":          `"a\u200bb"`,
		"a\u00a0b":          `"a\u00a0b"`,
		`"a\nb"`:            `"\"a\\nb\""`,
		"\xff":              `"\xff"`,
		"\uFFFD":            "\"\uFFFD\"",
		"naïve/日本":          "naïve/日本",
		"a\tb":              `"a\tb"`,
		"x\n  always   all": `"x\n  always   all"`,
	} {
		if got := Exact(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
	r := Request{
		Tool: "a/b\n  always   *", Root: "/p", Agent: "a\nb", Session: "s", Action: "a/b", Resources: []string{"x\n  always   *", "y"}, Why: "w\nw",
		Review: "r\n  always   *", Metadata: map[string]string{"k\nk": "v\nv"}, Save: []string{"x\n*"}, Input: []byte("{\"a\":\n\"\u001b\"}"), Effects: []string{"read"},
	}
	shown := r.Text()
	if got, want := strings.Count(shown, "\n"), 12; got != want {
		t.Errorf("it has %d lines, want %d:\n%s", got, want, shown)
	}
	if strings.Count(shown, "\n  always ") != 1 || strings.Contains(shown, "\x1b") {
		t.Errorf("something looks like what it is not:\n%q", shown)
	}
}
