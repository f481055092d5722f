package search

import (
	"bytes"
	"context"
	"unicode/utf8"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/internal/text"
)

// Limits bound what is kept of a text.
type Limits struct {
	// Context is how many lines before and after a match are kept.
	Context int
	// Matches is how many matching lines are kept, and Bytes how much text.
	Matches, Bytes int
	// Count is how many matching lines are counted, those that are kept included.
	Count int
}

// A Result is what was found in a text.
type Result struct {
	// Matches are the lines that are kept, without a path.
	Matches []service.Match
	// Lines is how many lines match, as far as they were counted.
	Lines int
	// Bytes is how much text Matches hold.
	Bytes int
}

// Lines finds the matching lines of a text, which is UTF-8 or 8-bit and without a
// mark; of a pattern that spans lines, the matches, of which none begins in the last
// line of another. ctx ends it between two lines and within a long one, with the
// context's cause.
func (m *Matcher) Lines(ctx context.Context, content []byte, limits Limits) (Result, error) {
	var r Result
	s := m.scan(content)
	defer s.release()
	for r.Lines < limits.Count {
		l, ok, err := s.next(ctx)
		if err != nil || !ok {
			return r, err
		}
		r.Lines++
		if r.Lines > limits.Matches || r.Bytes >= limits.Bytes {
			continue
		}
		match := s.show(l, limits.Context)
		size := Size(match)
		if len(r.Matches) > 0 && r.Bytes+size > limits.Bytes {
			r.Bytes = limits.Bytes // so that nothing that comes after it fits either
			continue
		}
		r.Bytes += size
		r.Matches = append(r.Matches, match)
	}
	return r, nil
}

// Size is how many bytes of text a match holds.
func Size(m service.Match) int {
	n := len(m.Path) + len(m.Text)
	for _, line := range m.Before {
		n += len(line)
	}
	for _, line := range m.After {
		n += len(line)
	}
	return n
}

// A scanner goes through the matching lines of a text.
type scanner struct {
	m       *Matcher
	finder  finder
	engine  *engine // of the sieve, or nil
	content []byte
	at      int // where the next line to look at begins
	steps   int // what was done since ctx was looked at

	shown   original // what the content was made of
	counted int      // up to where line feeds were counted in it
	number  int      // how many there are
}

// scan begins to go through a text. The caller releases the scanner.
func (m *Matcher) scan(content []byte) *scanner {
	s := &scanner{m: m, content: content, shown: original{content: content}}
	if m.beyond && !utf8.Valid(content) {
		s.content = widen(content)
		s.shown.widened = true
		content = s.content
	}
	if m.needle != nil {
		s.finder = m.needle.in(content)
	}
	if m.sieve != nil {
		s.engine = m.sieve.engines.Get().(*engine)
	}
	return s
}

func (s *scanner) release() {
	if s.engine != nil {
		s.m.sieve.engines.Put(s.engine)
	}
}

// sieved says whether the sieve is of use.
func (s *scanner) sieved() bool { return s.engine != nil && !s.m.sieve.spent.Load() }

// A line is a line that matches, or several of one match.
type line struct {
	start, end int // without its end
	match      int // where the match begins, in the line
}

func (s *scanner) next(ctx context.Context) (line, bool, error) {
	if s.m.across {
		return s.block(ctx)
	}
	for s.at < len(s.content) {
		if s.stops(ctx, lineSteps) {
			break
		}
		place := s.place(ctx)
		if place < 0 {
			break
		}
		l := line{start: s.at + bytes.LastIndexByte(s.content[s.at:place], '\n') + 1}
		var next int
		l.end, next = lineEnd(s.content, l.start, place)
		s.at = next
		if s.m.exact {
			l.match = place - l.start
		} else if l.match = s.match(ctx, s.content[l.start:l.end]); l.match < 0 {
			continue
		}
		return l, true, nil
	}
	if ctx.Err() != nil {
		return line{}, false, context.Cause(ctx)
	}
	return line{}, false, nil
}

// stops counts what was done, and says whether ctx is done; it looks now and then.
func (s *scanner) stops(ctx context.Context, steps int) bool {
	if s.steps += steps; s.steps < stepsUnasked {
		return false
	}
	s.steps = 0
	return ctx.Err() != nil
}

// place is in the next line that may match; -1 when there is none.
func (s *scanner) place(ctx context.Context) int {
	switch {
	case s.finder != nil:
		return s.finder.next(s.at)
	case s.sieved():
		if place := s.sift(ctx, s.content[s.at:]); place >= 0 {
			return s.at + place
		}
		return -1
	}
	return s.at
}

// sift gives a place in, or at the end of, the first line that the sieve lets
// through, or -1.
func (s *scanner) sift(ctx context.Context, content []byte) int {
	row := s.engine.start()
	for at := 0; at < len(content); {
		var n int
		row, n = s.engine.scan(row, content[at:min(len(content), at+siftBytes)])
		if at += n; row == matched {
			return at
		}
		if s.stops(ctx, n) {
			return -1
		}
	}
	// After a line feed at the very end there is no line more.
	if n := len(content); (s.m.across || n == 0 || content[n-1] != '\n') && s.engine.ends(row) {
		return n
	}
	return -1
}

// match gives where the match in a line begins, or -1.
func (s *scanner) match(ctx context.Context, content []byte) int {
	if s.finder != nil && s.sieved() && s.sift(ctx, content) < 0 {
		return -1
	}
	s.steps += s.m.steps(content)
	return s.m.match(ctx, content)
}

// lineEnd gives where the line ends that begins at start and that a place is in, and
// where the next one begins.
func lineEnd(content []byte, start, place int) (end, next int) {
	end, next = len(content), len(content)
	if i := bytes.IndexByte(content[place:], '\n'); i >= 0 {
		end, next = place+i, place+i+1
	}
	if end > start && content[end-1] == '\r' {
		end--
	}
	return end, next
}

// show makes a match of a line: all of it, or a window around what matches. The
// lines come in order.
func (s *scanner) show(l line, around int) service.Match {
	l = s.shown.line(l)
	content := s.shown.content[l.start:l.end]
	s.number += bytes.Count(s.shown.content[s.counted:l.start], newline)
	s.counted = l.start
	lines, width := 0, service.MatchLineBytes
	if n := bytes.Count(content, newline); n > 0 {
		lines, width = n+1, service.MatchBlockBytes
	}
	from, to := window(content, l.match, width)
	return service.Match{
		Line:      s.number + 1,
		Column:    l.match + 1,
		Lines:     lines,
		Text:      text.Valid(content[from:to]),
		CutBefore: from,
		CutAfter:  len(content) - to,
		Before:    before(s.shown.content, l.start, around),
		After:     after(s.shown.content, l.end, around),
	}
}

var newline = []byte("\n")

// window is the part of a line that is shown: a third of its width before the
// match, the rest from the match on.
func window(content []byte, match, width int) (from, to int) {
	if len(content) <= width {
		return 0, len(content)
	}
	from = max(0, min(match-width/3, len(content)-width))
	from = min(text.CutStart(content, from), match)
	return from, from + text.CutEnd(content[from:], width)
}

// before gives the lines before a place, the nearest last.
func before(content []byte, start, n int) []string {
	first := start
	for range n {
		if first == 0 {
			break
		}
		first = bytes.LastIndexByte(content[:first-1], '\n') + 1
	}
	return surroundings(content, first, start, n)
}

// after gives the lines after the line that ends at a place.
func after(content []byte, end, n int) []string {
	_, next := lineEnd(content, end, end)
	return surroundings(content, next, len(content), n)
}

func surroundings(content []byte, from, to, n int) []string {
	var lines []string
	for len(lines) < n && from < to {
		end, next := lineEnd(content, from, from)
		line := content[from:end]
		lines = append(lines, text.Valid(line[:text.CutEnd(line, service.MatchLineBytes)]))
		from = next
	}
	return lines
}
