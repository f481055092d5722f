package permission

import (
	"testing"

	"pgregory.net/rapid"
)

// TestIndexHidesNoMatch: a rule that matches a text may match it by its letters.
func TestIndexHidesNoMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringOfN(rapid.RuneFrom([]rune("abé*?")), 1, 14, -1).Draw(t, "pattern")
		text := rapid.StringOfN(rapid.RuneFrom([]rune("abé")), 0, 20, -1).Draw(t, "text")
		l := List{Rules: []Rule{deny("edit", pattern)}}.indexed([]string{"edit"})
		if e := &l.entries["edit"][0]; e.rule.Resource.Match(text) && !e.may(lettersOf(text)) {
			t.Fatalf("%q matches %q, but not by its letters", pattern, text)
		}
	})
}
