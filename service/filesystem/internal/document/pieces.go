package document

import (
	"context"
	"iter"
	"unicode/utf8"
)

// pieceBytes is how much of a text is worked on between two looks at a context: at
// most about a millisecond.
const pieceBytes = 256 << 10

// Pieces gives a text in pieces, cut neither within a "\r\n" nor, where the text is
// UTF-8, within a character. It ends early when ctx does.
func Pieces(ctx context.Context, content []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(content) > 0 && ctx.Err() == nil {
			n := cut(content)
			if !yield(content[:n]) {
				return
			}
			content = content[n:]
		}
	}
}

// cut is the length of the next piece.
func cut(content []byte) int {
	n := min(len(content), pieceBytes)
	for range utf8.UTFMax {
		if n == len(content) || utf8.RuneStart(content[n]) && (content[n] != '\n' || content[n-1] != '\r') {
			break
		}
		n--
	}
	return n
}

// ended is the cause of a context's end, or nil.
func ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}
