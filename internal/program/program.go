// Package program tells what a regular expression will cost before it is compiled.
package program

import "regexp/syntax"

// MaxSize is how large the program of a pattern from outside may be, in
// instructions. Plain text of ten thousand bytes fits.
const MaxSize = 10_000

// Size is at least how many instructions an expression is compiled to. It is counted
// before that is done, for a short pattern makes millions.
func Size(re *syntax.Regexp) int {
	return 2 + instructions(re) // the beginning and the match
}

func instructions(re *syntax.Regexp) int {
	sum := 0
	for _, sub := range re.Sub {
		sum += instructions(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		return max(1, len(re.Rune))
	case syntax.OpConcat:
		return max(1, sum)
	case syntax.OpAlternate:
		return sum + len(re.Sub)
	case syntax.OpRepeat:
		if re.Max < 0 {
			return max(1, re.Min)*sum + 2
		}
		return max(1, re.Max*sum+re.Max-re.Min)
	}
	if len(re.Sub) == 0 {
		return 1
	}
	return sum + 2 // a group, a star; for others it is one too many
}
