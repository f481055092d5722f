package search

import (
	"bytes"
	"context"
)

// block finds the next match of a pattern that may span lines. The expression is
// asked once where it matches: it needs no lines, and what it passes over it passes
// over at its own speed, so the needle or the sieve says first whether there is
// anything at all.
func (s *scanner) block(ctx context.Context) (line, bool, error) {
	if s.at >= len(s.content) {
		return line{}, false, causeOf(ctx)
	}
	place := s.place(ctx)
	if place < 0 {
		return line{}, false, causeOf(ctx)
	}
	start, end := place, place
	if s.m.exact {
		end += len(s.m.needle.(plain))
	} else {
		found := s.m.find(ctx, s.content[s.at:])
		s.steps = stepsUnasked // it may have been much
		if found == nil || s.stops(ctx, 0) {
			return line{}, false, causeOf(ctx)
		}
		start, end = s.at+found[0], s.at+found[1]
	}
	if start == len(s.content) && s.content[start-1] == '\n' {
		return line{}, false, causeOf(ctx) // after the last line there is none
	}
	last := end
	if end > start && s.content[end-1] == '\n' {
		last-- // the line ends there, and the next one has nothing of the match
	}
	l := line{start: s.at + bytes.LastIndexByte(s.content[s.at:start], '\n') + 1}
	l.end, s.at = lineEnd(s.content, l.start, last)
	l.end = max(l.end, start) // of a match that begins with the end of a line
	l.match = start - l.start
	return l, true, nil
}

func causeOf(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// find gives the first match in a text that begins at the beginning of a line. When
// ctx is done, what it gives is of no use.
func (m *Matcher) find(ctx context.Context, content []byte) []int {
	if m.steps(content) <= stepsUnasked {
		return m.re.FindIndex(content)
	}
	return m.findRunes(ctx, content)
}
