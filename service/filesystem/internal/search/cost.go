package search

import (
	"context"
	"io"
	"unicode/utf8"
)

const (
	// stepsUnasked is how many steps matching may take, at most, until ctx is
	// looked at: some ten milliseconds. A step is an instruction at a rune.
	stepsUnasked = 1 << 19
	// runesUnasked is the same in runes, for small programs.
	runesUnasked = 4096
	// lineSteps is what looking at a line costs beside matching it.
	lineSteps = stepsUnasked / 512
	// siftBytes is how much the sieve reads at once; a byte is a step.
	siftBytes = 64 << 10
)

// steps is what matching a line may cost.
func (m *Matcher) steps(line []byte) int { return m.size * len(line) }

// match gives where the first match in the line begins, or -1. The line has
// nothing of its end. A line that may cost much is left when ctx is done; what is
// given then is of no use.
func (m *Matcher) match(ctx context.Context, line []byte) int {
	if m.steps(line) <= stepsUnasked {
		if found := m.re.FindIndex(line); found != nil {
			return found[0]
		}
		return -1
	}
	if found := m.findRunes(ctx, line); found != nil {
		return found[0]
	}
	return -1
}

// findRunes gives the first match in a text that may cost much.
func (m *Matcher) findRunes(ctx context.Context, content []byte) []int {
	interval := max(1, min(runesUnasked, stepsUnasked/m.size))
	return m.re.FindReaderIndex(&runes{ctx: ctx, rest: content, interval: interval})
}

// runes reads a line until ctx is done, which it looks at every interval runes.
type runes struct {
	ctx            context.Context //nolint:containedctx // it lives for one match
	rest           []byte
	read, interval int
}

// ReadRune implements [io.RuneReader].
func (r *runes) ReadRune() (rune, int, error) {
	if r.read++; len(r.rest) == 0 || r.read%r.interval == 0 && r.ctx.Err() != nil {
		return 0, 0, io.EOF
	}
	c, size := utf8.DecodeRune(r.rest)
	r.rest = r.rest[size:]
	return c, size, nil
}
