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
		"a\u3164b":          `"a\u3164b"`,
		"e\u0301":           `"e\u0301"`,
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
		Review: "r\n  always   *", Diff: "@@ -1,2 +1 @@\n+x\r\n  always   *\n-\ty\x1b[2J\n", Metadata: map[string]string{"k\nk": "v\nv"}, Save: []string{"x\n*"}, Input: []byte("{\"a\":\n\"\u001b\"}"), Effects: []string{"read"},
	}
	shown := r.Text(0)
	if got, want := strings.Count(shown, "\n"), 18; got != want {
		t.Errorf("it has %d lines, want %d:\n%s", got, want, shown)
	}
	if strings.Count(shown, "\n  always ") != 1 || strings.Contains(shown, "\x1b") || !strings.Contains(shown, `- →   y\u001b[2J`) {
		t.Errorf("something looks like what it is not:\n%q", shown)
	}
}

// No line of what is shown begins where a label does, however a terminal breaks it; and
// what an input holds is seen.
//
// Seen to fail: without wrapping; with an input whose spaces run together.
func TestLaw34NothingBeginsALine(t *testing.T) {
	r := Request{
		Tool: "a/b", Action: "a/b", Resources: []string{"x"}, Review: strings.Repeat("x", 69) + "  always   notes.txt" + strings.Repeat("\u2800", 300) + "always",
		Diff:  "+" + strings.Repeat("x", 67) + "  always   notes.txt\n  always   other.txt\n",
		Input: []byte(`{"path":"a  b\u00a0c` + "\u00a0\u3164" + `"}`), Save: []string{"x"},
	}
	for i, line := range strings.Split(strings.TrimSuffix(r.Text(80), "\n"), "\n") {
		if len(line) > 80 && !strings.ContainsRune(line, '\uFFFD') {
			t.Errorf("line %d has %d columns: %s", i, len(line), line)
		}
		label := strings.TrimSpace(line[:min(11, len(line))])
		if label == "always" && !strings.HasSuffix(line, "always   x") {
			t.Errorf("line %d looks like what it is not: %s", i, line)
		}
	}
	if got := r.Text(80); !strings.Contains(got, `{"path":"a  b\u00a0c\u00a0\u3164"}`) || strings.ContainsRune(got, '\u2800') {
		t.Errorf("not seen:\n%s", got)
	}
}
