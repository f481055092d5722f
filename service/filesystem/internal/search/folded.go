package search

import (
	"bytes"
	"strings"
)

// A folded finds ASCII text without regard to case: it looks for the rarest of
// the text's bytes, in both cases, and compares around it.
type folded struct {
	text  string // in lower case
	rare  int    // the position of the rarest byte
	lower byte   // that byte
	upper byte   // in upper case; the same when it is no letter
	// twins says that the text has a letter that characters beyond ASCII are equal
	// to when case is ignored.
	twins bool
}

// The characters beyond ASCII that are equal to one within, k and s, when case is
// ignored.
const (
	kelvin = "\u212a"
	longS  = "\u017f"
)

// frequent is the bytes that are common in texts and programs, the commonest
// first.
const frequent = " etaoinsrlcdupmhfg.,_()=\"-/*:;b{}[]'vwy0x1k2<>3#&5j4|8+6%q!7z9\\$@^~?`"

func newFolded(text string) folded {
	f := folded{text: strings.ToLower(text)}
	rarest := -1
	for i := range len(f.text) {
		rank := strings.IndexByte(frequent, f.text[i])
		if rank < 0 {
			rank = len(frequent)
		}
		if rank > rarest {
			rarest, f.rare = rank, i
		}
	}
	f.lower = f.text[f.rare]
	f.upper = upper(f.lower)
	f.twins = strings.ContainsAny(f.text, "ks")
	return f
}

func upper(c byte) byte {
	if 'a' <= c && c <= 'z' {
		return c - 'a' + 'A'
	}
	return c
}

// in implements needle.
func (f folded) in(text []byte) finder {
	if f.twins && (bytes.Contains(text, []byte(kelvin)) || bytes.Contains(text, []byte(longS))) {
		return nil
	}
	return &foldedFinder{folded: f, text: text, nextLower: -1, nextUpper: -1}
}

type foldedFinder struct {
	folded
	text []byte
	// Where the rare byte stands next in each case, at or after what was asked for
	// last; len(text) when nowhere.
	nextLower, nextUpper int
}

func (f *foldedFinder) next(from int) int {
	for at := from + f.rare; ; at++ {
		if f.nextLower < at {
			f.nextLower = indexFrom(f.text, f.lower, at)
		}
		if f.nextUpper < at {
			f.nextUpper = f.nextLower
			if f.upper != f.lower {
				f.nextUpper = indexFrom(f.text, f.upper, at)
			}
		}
		at = min(f.nextLower, f.nextUpper)
		start := at - f.rare
		if start+len(f.folded.text) > len(f.text) {
			return -1
		}
		if f.equal(f.text[start : start+len(f.folded.text)]) {
			return start
		}
	}
}

// indexFrom is where c stands at or after a place, or the length of the text.
func indexFrom(text []byte, c byte, from int) int {
	if from >= len(text) {
		return len(text)
	}
	i := bytes.IndexByte(text[from:], c)
	if i < 0 {
		return len(text)
	}
	return from + i
}

func (f *foldedFinder) equal(b []byte) bool {
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != f.folded.text[i] {
			return false
		}
	}
	return true
}
