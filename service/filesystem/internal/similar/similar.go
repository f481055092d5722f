// Package similar says how much names are alike. Everything is a function of its
// arguments.
package similar

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Fold is a name without what is easily lost when it is copied: which kind of
// space it has, whether accents are composed, and case.
func Fold(name string) string {
	if !strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return strings.ToLower(name)
	}
	spaced := strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Zs, r) {
			return ' '
		}
		return r
	}, norm.NFC.String(name))
	return strings.ToLower(spaced)
}

// A Kinship is how two names belong together, the nearest first.
type Kinship int

// The kinships that there are.
const (
	Twin      Kinship = iota // they differ in spaces, accents or case alone
	Cousin                   // but for an extension or a plural they are twins
	Lookalike                // a few letters differ
	Stranger
)

// A Spelling is a name that others are compared with.
type Spelling struct {
	folded  string
	stem    string
	letters []rune
	most    int   // how many letters may differ
	rows    []int // for distance
}

// NewSpelling makes one of a name.
func NewSpelling(name string) Spelling {
	s := Spelling{folded: Fold(name)}
	s.stem, s.letters = stem(s.folded), []rune(s.folded)
	// Of short names nearly every other one is a few letters away.
	s.most = min(3, (len(s.letters)+1)/4)
	s.rows = make([]int, 3*(len(s.letters)+1))
	return s
}

// Kinship says how another name belongs to this one, and how far it is away among those
// of the same kind. It is not for concurrent use.
func (s Spelling) Kinship(name string) (Kinship, int) {
	if len(name) > 4*len(s.folded)+16 {
		return Stranger, 0 // before it is worth folding
	}
	folded := Fold(name)
	if folded == s.folded {
		return Twin, 0
	}
	distance := s.distance(folded, s.most)
	switch {
	case related(s.stem, stem(folded)):
		return Cousin, distance
	case distance <= s.most:
		return Lookalike, distance
	default:
		return Stranger, 0
	}
}

// stem is a folded name without its extension; a dot at the beginning begins none.
func stem(folded string) string {
	name := strings.TrimPrefix(folded, ".")
	if dot := strings.LastIndexByte(name, '.'); dot > 0 {
		name = name[:dot]
	}
	return name
}

// related says that two stems are equal, or one is the plural of the other.
func related(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	rest, ok := strings.CutPrefix(b, a)
	return ok && a != "" && (rest == "" || len(a) > 2 && (rest == "s" || rest == "es"))
}

// distance is how many letters have to be put in, taken out, replaced, or swapped with
// the next one to make one name of the other; more than most is most+1.
func (s Spelling) distance(folded string, most int) int {
	n := utf8.RuneCountInString(folded)
	if n-len(s.letters) > most || len(s.letters)-n > most {
		return most + 1
	}
	width := len(s.letters) + 1
	before, last, row := s.rows[:width], s.rows[width:2*width], s.rows[2*width:]
	for j := range last {
		last[j] = j
	}
	var previous rune
	i := 0
	for _, r := range folded {
		i++
		row[0] = i
		nearest := i
		for j := 1; j < width; j++ {
			cost := 1
			if s.letters[j-1] == r {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && s.letters[j-1] == previous && s.letters[j-2] == r {
				row[j] = min(row[j], before[j-2]+1)
			}
			nearest = min(nearest, row[j])
		}
		if nearest > most+1 { // a swap reaches two rows back
			return most + 1
		}
		previous = r
		before, last, row = last, row, before
	}
	return min(last[width-1], most+1)
}
