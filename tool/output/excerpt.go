package output

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// An excerpt is text that is shown, and where in the raw text it came from.
type excerpt struct {
	text  []byte
	spans []span // in order, and every byte of the text is in one
}

// A span is where the text from at to the next span came from. If it is as long as
// what it came from it is the same byte by byte.
type span struct {
	at          int
	raw, rawLen int64
}

// add appends text. The excerpt keeps a copy.
func (e *excerpt) add(text []byte, raw, rawLen int64) {
	if len(text) == 0 {
		return
	}
	if n := len(e.spans); n > 0 && int64(len(text)) == rawLen {
		last := &e.spans[n-1]
		if int64(len(e.text)-last.at) == last.rawLen && last.raw+last.rawLen == raw {
			last.rawLen += rawLen
			e.text = append(e.text, text...)
			return
		}
	}
	e.spans = append(e.spans, span{len(e.text), raw, rawLen})
	e.text = append(e.text, text...)
}

// keepEnd drops the beginning of the text, all but size bytes.
func (e *excerpt) keepEnd(size int) {
	n := len(e.text) - size
	if n <= 0 {
		return
	}
	if size == 0 {
		e.text, e.spans = e.text[:0], e.spans[:0]
		return
	}
	first := e.spanAt(n)
	s := e.spans[first]
	switch dropped := int64(n - s.at); {
	case e.same(first):
		s.raw, s.rawLen = s.raw+dropped, s.rawLen-dropped
	case dropped > 0:
		s.raw, s.rawLen = s.raw+s.rawLen, 0
	}
	s.at = n
	e.spans = slices.Delete(e.spans, 0, first)
	e.spans[0] = s
	for i := range e.spans {
		e.spans[i].at -= n
	}
	e.text = slices.Delete(e.text, 0, n)
}

// beginning is the excerpt of the first n bytes. It shares their memory.
func (e *excerpt) beginning(n int) excerpt {
	if n >= len(e.text) {
		return *e
	}
	if n == 0 {
		return excerpt{}
	}
	last := e.spanAt(n - 1)
	cut := excerpt{text: e.text[:n:n], spans: slices.Clone(e.spans[:last+1])}
	switch {
	case e.same(last):
		cut.spans[last].rawLen = int64(n - e.spans[last].at)
	case n < e.end(last):
		cut.spans[last].rawLen = 0
	}
	return cut
}

// spanAt is the span that the byte at i is in.
func (e *excerpt) spanAt(i int) int {
	n, found := slices.BinarySearchFunc(e.spans, i, func(s span, i int) int { return s.at - i })
	if found {
		return n
	}
	return n - 1
}

// end is where the text of a span ends.
func (e *excerpt) end(i int) int {
	if i+1 < len(e.spans) {
		return e.spans[i+1].at
	}
	return len(e.text)
}

// same reports whether the span's text is what it came from.
func (e *excerpt) same(i int) bool { return int64(e.end(i)-e.spans[i].at) == e.spans[i].rawLen }

// endsAt is where in the raw text what is not in text[:n] begins, or something
// before that.
func (e *excerpt) endsAt(n int) int64 {
	if n == 0 {
		return 0
	}
	i := e.spanAt(n - 1)
	s := e.spans[i]
	switch {
	case n == e.end(i):
		return s.raw + s.rawLen
	case e.same(i):
		return s.raw + int64(n-s.at)
	}
	return s.raw
}

// beginsAt is where in the raw text what is not in text[n:] ends, or something
// after that.
func (e *excerpt) beginsAt(n int) int64 {
	i := e.spanAt(n)
	s := e.spans[i]
	switch {
	case s.at == n:
		return s.raw
	case e.same(i):
		return s.raw + int64(n-s.at)
	}
	return s.raw + s.rawLen
}

// printable is the excerpt without control characters, but for ends of lines and
// tabs, and as valid UTF-8. It says whether that changed anything.
func (e *excerpt) printable() (excerpt, bool) {
	if i := firstUnprintable(e.text); i == len(e.text) {
		return *e, false
	}
	var out excerpt
	state := ground
	for i, s := range e.spans {
		end, same := e.end(i), e.same(i)
		var shown []byte // of a span that is not the same anyway
		for at := s.at; at < end; {
			n := 0
			if state == ground {
				n = firstUnprintable(e.text[at:end])
			}
			text := e.text[at : at+n]
			if n == 0 {
				text, n, state = unprintable(e.text[at:end], state)
			}
			if same {
				out.add(text, s.raw+int64(at-s.at), int64(n))
			} else {
				shown = append(shown, text...)
			}
			at += n
		}
		out.add(shown, s.raw, s.rawLen)
	}
	return out, true
}

// firstUnprintable is how long the text is that can be shown as it is.
func firstUnprintable(text []byte) int {
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			if c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
				return i
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 || r < 0xa0 {
			return i
		}
		i += size
	}
	return len(text)
}

// unprintable takes what is at the beginning of text and cannot be shown as it is:
// it gives what is shown instead, how long it was, and the state behind it. C1
// controls may begin a sequence; those that begin with ESC are gone.
func unprintable(text []byte, in state) (shown []byte, n int, out state) {
	r, size := utf8.DecodeRune(text)
	switch {
	case r == '\n':
		return text[:size], size, ground
	case in == csi && 0x20 <= r && r < 0x40, in == controlString && r != 0x07 && r != 0x9c:
		return nil, size, in
	case in == csi && (r < 0x40 || 0x7f <= r):
		return nil, 0, ground
	case in != ground: // its end
		return nil, size, ground
	case r == utf8.RuneError && size == 1:
		return []byte(string(utf8.RuneError)), size, ground
	case r == 0x9b:
		return nil, size, csi
	case r == 0x90, r == 0x98, 0x9d <= r && r <= 0x9f:
		return nil, size, controlString
	}
	return nil, size, ground
}

// headCut is where the head of a text ends that has at most so many bytes and lines:
// at the end of a line, or of a character where the line is long.
func headCut(text []byte, maxBytes, maxLines int) int {
	n := min(len(text), max(maxBytes, 0))
	if end := linesFromStart(text[:n], maxLines); end < n {
		return end
	}
	if n == len(text) {
		return n
	}
	if line := bytes.LastIndexByte(text[:n], '\n') + 1; line > 0 && line >= n/2 {
		return line
	}
	return boundary(text, n, -1)
}

// tailCut is where the tail of a text begins, likewise.
func tailCut(text []byte, maxBytes, maxLines int) int {
	n := max(0, len(text)-max(maxBytes, 0))
	if start := linesFromEnd(text, maxLines); start > n {
		return start
	}
	if n == 0 || n == len(text) || text[n-1] == '\n' {
		return n
	}
	if line := bytes.IndexByte(text[n:], '\n') + 1; line > 0 && n+line < len(text) && line <= (len(text)-n)/2 {
		return n + line
	}
	return boundary(text, n, 1)
}

// linesFromStart is how long the first lines are.
func linesFromStart(text []byte, lines int) int {
	n := 0
	for range lines {
		end := bytes.IndexByte(text[n:], '\n') + 1
		if end == 0 {
			return len(text)
		}
		n += end
	}
	return n
}

// linesFromEnd is where the last lines begin.
func linesFromEnd(text []byte, lines int) int {
	n := len(text)
	for range lines {
		if n == 0 {
			break
		}
		n = bytes.LastIndexByte(text[:n-1], '\n') + 1
	}
	return n
}

// boundary is the next place from n on, in a direction, where no character is cut,
// nor a cluster of them unless it is huge.
func boundary(text []byte, n, direction int) int {
	const far = 256
	first := -1
	for i := n; i > 0 && i < len(text); i += direction {
		if !utf8.RuneStart(text[i]) {
			continue
		}
		if first < 0 {
			first = i
		}
		if between(text, i) {
			return i
		}
		if i-n > far || n-i > far {
			return first
		}
	}
	if direction < 0 {
		return 0
	}
	return len(text)
}

// between reports whether no cluster is cut at i, where a character begins.
func between(text []byte, i int) bool {
	next, _ := utf8.DecodeRune(text[i:])
	last, size := utf8.DecodeLastRune(text[:i])
	if joins(next) || last == joiner {
		return false
	}
	if !isFlag(next) || !isFlag(last) {
		return true
	}
	flags := 0
	for ; isFlag(last); last, size = utf8.DecodeLastRune(text[:i]) {
		flags++
		i -= size
	}
	return flags%2 == 0
}

// isFlag reports whether the character is half a flag.
func isFlag(r rune) bool { return 0x1f1e6 <= r && r <= 0x1f1ff }
