package form

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestDidYouMean(t *testing.T) {
	valid := []string{"plugins", "permissions", "env", "filesystem:read"}
	for name, want := range map[string]string{
		"perrmissions":           ` (did you mean "permissions"?)`,
		"pluigns":                ` (did you mean "plugins"?)`, // two letters swapped
		"PLUGINS":                ` (did you mean "plugins"?)`,
		"plugin":                 ` (did you mean "plugins"?)`,
		"evn":                    ` (did you mean "env"?)`,
		"filesystem:raed":        ` (did you mean "filesystem:read"?)`,
		"enviromment":            "",
		"x":                      "",
		"":                       "",
		strings.Repeat("p", 100): "",
	} {
		if got := DidYouMean(name, valid); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
	if got := DidYouMean("abd", []string{"abc", "abe"}); got != ` (did you mean "abc"?)` {
		t.Errorf("of two the first: got %q", got)
	}
}

func TestDistanceIsAMetric(t *testing.T) {
	word := rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 0, 6, -1)
	rapid.Check(t, func(t *rapid.T) {
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		d := distance(a, b)
		if d != distance(b, a) || (d == 0) != (a == b) || d > max(len(a), len(b)) || d < max(len(a), len(b))-min(len(a), len(b)) {
			t.Fatalf("%q to %q: %d", a, b, d)
		}
	})
}

func TestQuote(t *testing.T) {
	for text, want := range map[string]string{
		"a\n\"":                 `"a\n\""`,
		strings.Repeat("é", 60): `"` + strings.Repeat("é", 60) + `"`,
		strings.Repeat("é", 61): `"` + strings.Repeat("é", 60) + `…"`,
	} {
		if got := Quote(text); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
