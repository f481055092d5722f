package program

import (
	"regexp/syntax"
	"testing"
)

// The count that the bounds rest on is never below what is compiled, and near it.
//
// Seen to fail: with instructions of repetitions not multiplied.
func TestSize(t *testing.T) {
	for _, pattern := range []string{
		"", "a", "abc", "(?i)abc", "[a-z]", ".", "^a$", `\bx\b`, "(a)(?:b)", "a*", "(a*)*", "(|a)*", "a+", "a?", "a|b|cd", "a|", "(?:|)", `[^\x00-\x{10FFFE}]`,
		"a{0}", "a{0,1}", "a{3}", "a{3,}", "a{0,}", "a{1,}", "a{2,7}", "(a{2,3}|b){4,5}", "(?:){5}", "[^z]{0,999}", "(foo|bar|(a|b){3})+?x*?",
		"(?:ab){3,7}", `\pL{20}`, "(?:(?:x?){30}y){30}",
	} {
		tree, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		got := Size(tree)
		compiled, err := syntax.Compile(tree.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		if want := len(compiled.Inst); got < want || got > 2*want+4 {
			t.Errorf("%s: %d, and %d are compiled", pattern, got, want)
		}
	}
}
