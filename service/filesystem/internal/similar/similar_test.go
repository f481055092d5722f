package similar

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestKinship(t *testing.T) {
	for _, tt := range []struct {
		name, other string
		want        Kinship
	}{
		{"a", "A", Twin}, {"e\u0301", "\u00c9", Twin}, {"a b", "a\u202fb", Twin},
		{"a.go", "a.rs", Cousin}, {"test", "tests", Cousin}, {"boxes.txt", "box", Cousin}, {".env", ".env.local", Cousin},
		{"a", "b", Stranger}, {"ab", "ba", Stranger}, {"abc", "acb", Lookalike}, {"abc", "abx", Lookalike},
		{"config", "cofnig", Lookalike}, {"config", "conifg2", Stranger}, {"some_longer_name", "some-longer-nam", Lookalike},
		{"", "a", Stranger}, {"as", "a", Stranger}, {".x", ".y", Stranger},
		{"short", strings.Repeat("short", 50), Stranger},
	} {
		if got, _ := NewSpelling(tt.name).Kinship(tt.other); got != tt.want {
			t.Errorf("%q and %q: got %d, want %d", tt.name, tt.other, got, tt.want)
		}
	}
}

// Seen to fail: without the swap.
func TestDistance(t *testing.T) {
	// As it is defined.
	var plain func(a, b []rune) int
	plain = func(a, b []rune) int {
		if len(a) == 0 || len(b) == 0 {
			return len(a) + len(b)
		}
		cost := 1
		if a[0] == b[0] {
			cost = 0
		}
		d := min(plain(a[1:], b)+1, plain(a, b[1:])+1, plain(a[1:], b[1:])+cost)
		if len(a) > 1 && len(b) > 1 && a[0] == b[1] && a[1] == b[0] {
			d = min(d, plain(a[2:], b[2:])+1)
		}
		return d
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[abé]{0,6}`)
		a, b, most := name.Draw(t, "a"), name.Draw(t, "b"), rapid.IntRange(0, 4).Draw(t, "most")
		if letters := []rune(a); len(letters) > 1 && rapid.Bool().Draw(t, "swapped") {
			i := rapid.IntRange(1, len(letters)-1).Draw(t, "where")
			letters[i-1], letters[i] = letters[i], letters[i-1]
			b = string(letters)
		}
		want := min(plain([]rune(a), []rune(b)), most+1)
		if got := NewSpelling(a).distance(b, most); got != want {
			t.Fatalf("got %d, want %d", got, want)
		}
	})
}
