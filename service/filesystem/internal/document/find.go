package document

import (
	"bytes"
	"context"
	"iter"
)

const (
	// headBytes is how much of a text the first search is for; the standard library
	// takes at most a constant for each byte of a text to find so short a one.
	headBytes = 32
	// patience is how many bytes, for each byte of the text, are compared behind the
	// places where a head stands, before the search becomes one whose time does not
	// depend on the bytes.
	patience = 4
)

// Find gives each place in a text where another stands, in order; they may
// overlap. Its time is linear in both, also where the text is made to be searched
// slowly. Nothing is found of an empty text. It ends early when ctx does: what was
// not found by then may stand there all the same.
func Find(ctx context.Context, content []byte, wanted string) iter.Seq[int] {
	return func(yield func(int) bool) {
		if wanted == "" || len(wanted) > len(content) {
			return
		}
		old := []byte(wanted)
		head := old[:min(len(old), headBytes)]
		left := patience * len(content)
		for at := 0; ctx.Err() == nil; at++ {
			i := bytes.Index(content[at:], head)
			if i < 0 {
				return
			}
			at += i
			if len(old) > len(head) {
				if left -= len(old); left < 0 {
					findSteadily(ctx, content, old, at, yield)
					return
				}
				if !bytes.HasPrefix(content[at:], old) {
					continue
				}
			}
			if !yield(at) {
				return
			}
		}
	}
}

// findSteadily is the search of Knuth, Morris and Pratt, from a place on.
func findSteadily(ctx context.Context, content, old []byte, from int, yield func(int) bool) {
	// border[n] is the length of the longest proper beginning of old[:n] that is its
	// end too.
	border := make([]int32, len(old)+1)
	border[0] = -1
	for n, b := int32(0), int32(-1); int(n) < len(old); {
		for b >= 0 && old[n] != old[b] {
			b = border[b]
		}
		n, b = n+1, b+1
		border[n] = b
		if n%pieceBytes == 0 && ctx.Err() != nil {
			return
		}
	}
	n := int32(0)
	for i := from; i < len(content); i++ {
		if i%pieceBytes == 0 && ctx.Err() != nil {
			return
		}
		for n >= 0 && (int(n) == len(old) || content[i] != old[n]) {
			n = border[n]
		}
		n++
		if int(n) == len(old) && !yield(i+1-len(old)) {
			return
		}
	}
}
