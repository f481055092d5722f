package document

import (
	"bytes"
	"strings"
)

// Plain is the text with "\n" for each "\r\n". It must not be changed.
func (d *Document) Plain() []byte {
	switch {
	case d.plain != nil:
	case !bytes.Contains(d.text, []byte("\r\n")):
		d.plain = d.text
	default:
		d.plain = bytes.ReplaceAll(d.text, []byte("\r\n"), []byte("\n"))
	}
	return d.plain
}

// Plain is a text with "\n" for each "\r\n".
func Plain(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }

// FromPlain turns the places of changes of the plain text, which are in order,
// into those of the text. A place before the end of a line is before all of it.
func (d *Document) FromPlain(changes []Change) {
	w := walker{text: d.text, next: -1}
	for i := range changes {
		changes[i].Start = w.to(changes[i].Start)
		changes[i].End = w.to(changes[i].End)
	}
}

// Offset gives the place in a text of a place in its plain text.
func Offset(content []byte, plain int) int {
	w := walker{text: content, next: -1}
	return w.to(plain)
}

// A walker goes through a text beside its plain text.
type walker struct {
	text   []byte
	next   int // where the next "\r\n" is, len(text) if there is none, -1 at first
	passed int // how many were passed
}

// to gives the place of a place in the plain text, not before the last one.
func (w *walker) to(plain int) int {
	if w.next < 0 {
		w.find(0)
	}
	for w.next < len(w.text) && w.next-w.passed < plain {
		w.passed++
		w.find(w.next + 2)
	}
	return plain + w.passed
}

func (w *walker) find(from int) {
	i := bytes.Index(w.text[from:], []byte("\r\n"))
	if i < 0 {
		w.next = len(w.text)
		return
	}
	w.next = from + i
}

// Ending is how most lines of the text end, "\r\n" or "\n"; how the first does when
// there are as many of both; "" when no line has an end.
func (d *Document) Ending() string {
	lines, pairs := bytes.Count(d.text, []byte("\n")), bytes.Count(d.text, []byte("\r\n"))
	first := bytes.IndexByte(d.text, '\n')
	switch {
	case lines == 0:
		return ""
	case pairs*2 > lines, pairs*2 == lines && first > 0 && d.text[first-1] == '\r':
		return "\r\n"
	}
	return "\n"
}

// End writes a plain text that takes the place of a part of a text: each of its
// lines ends as the line does that it replaces, counted from the first, and those
// beyond end as given (case A08).
func End(plain string, replaced []byte, ending string) string {
	if !strings.Contains(plain, "\n") {
		return plain
	}
	var out strings.Builder
	out.Grow(len(plain) + 16)
	for {
		line, rest, more := strings.Cut(plain, "\n")
		out.WriteString(line)
		if !more {
			return out.String()
		}
		plain = rest
		i := bytes.IndexByte(replaced, '\n')
		switch {
		case i > 0 && replaced[i-1] == '\r':
			out.WriteString("\r\n")
		case i >= 0:
			out.WriteString("\n")
		default:
			out.WriteString(ending)
		}
		if i < 0 {
			i = len(replaced) - 1
		}
		replaced = replaced[i+1:]
	}
}

// LineAt is the number, from 1, of the line that a place in a text is in.
func LineAt(content []byte, at int) int {
	return bytes.Count(content[:min(at, len(content))], []byte("\n")) + 1
}
