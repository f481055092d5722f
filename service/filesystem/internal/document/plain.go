package document

import (
	"bytes"
	"context"
	"strings"
)

// Plain is the text with "\n" for each "\r\n". It must not be changed.
func (d *Document) Plain(ctx context.Context) ([]byte, error) {
	switch {
	case d.plain != nil:
	case !bytes.Contains(d.text, pair):
		d.plain = d.text
	default:
		plain := make([]byte, 0, len(d.text))
		for piece := range Pieces(ctx, d.text) {
			plain = append(plain, bytes.ReplaceAll(piece, pair, feed)...)
		}
		if err := ended(ctx); err != nil {
			return nil, err
		}
		d.plain = plain
	}
	return d.plain, nil
}

var pair, feed = []byte("\r\n"), []byte("\n")

// Plain is a text with "\n" for each "\r\n".
func Plain(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }

// FromPlain turns the places of changes of the plain text, which are in order,
// into those of the text. A place before the end of a line is before all of it.
func (d *Document) FromPlain(ctx context.Context, changes []Change) error {
	w := walker{text: d.text, next: -1}
	for i := range changes {
		changes[i].Start = w.to(ctx, changes[i].Start)
		changes[i].End = w.to(ctx, changes[i].End)
		if err := ended(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Offset gives the place in a text of a place in its plain text; when ctx ends, one
// that means nothing.
func Offset(ctx context.Context, content []byte, plain int) int {
	w := walker{text: content, next: -1}
	return w.to(ctx, plain)
}

// A walker goes through a text beside its plain text.
type walker struct {
	text   []byte
	next   int // where the next "\r\n" is, len(text) if there is none, -1 at first
	passed int // how many were passed
}

// to gives the place of a place in the plain text, not before the last one; when ctx
// ends, one that means nothing.
func (w *walker) to(ctx context.Context, plain int) int {
	if w.next < 0 {
		w.find(0)
	}
	for w.next < len(w.text) && w.next-w.passed < plain {
		if w.passed%pieceLines == 0 && ctx.Err() != nil {
			break
		}
		w.passed++
		w.find(w.next + 2)
	}
	return plain + w.passed
}

func (w *walker) find(from int) {
	i := bytes.Index(w.text[from:], pair)
	if i < 0 {
		w.next = len(w.text)
		return
	}
	w.next = from + i
}

// Ending is how most lines of the text end, "\r\n" or "\n"; how the first does when
// there are as many of both; "" when no line has an end.
func (d *Document) Ending(ctx context.Context) (string, error) {
	pairs, feeds, err := d.Ends(ctx)
	if err != nil {
		return "", err
	}
	first := bytes.IndexByte(d.text, '\n')
	switch {
	case pairs+feeds == 0:
		return "", nil
	case pairs > feeds, pairs == feeds && first > 0 && d.text[first-1] == '\r':
		return "\r\n", nil
	}
	return "\n", nil
}

// Ends is how many lines of the text end in "\r\n", and how many in "\n" alone.
func (d *Document) Ends(ctx context.Context) (pairs, feeds int, err error) {
	for piece := range Pieces(ctx, d.text) {
		lines, both := bytes.Count(piece, feed), bytes.Count(piece, pair)
		pairs, feeds = pairs+both, feeds+lines-both
	}
	return pairs, feeds, ended(ctx)
}

// pieceLines is how many lines are gone over between two looks at a context.
const pieceLines = 4 << 10

// End writes a plain text that takes the place of a part of a text: each of its
// lines ends as the line does that it replaces, counted from the first, and those
// beyond end as given (case A08). When ctx ends, what it gives means nothing.
func End(ctx context.Context, plain string, replaced []byte, ending string) string {
	if !strings.Contains(plain, "\n") {
		return plain
	}
	var out strings.Builder
	out.Grow(len(plain) + 16)
	for n := 1; ; n++ {
		if n%pieceLines == 0 && ctx.Err() != nil {
			return ""
		}
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
