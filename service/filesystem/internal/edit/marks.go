package edit

import (
	"cmp"
	"context"
	"slices"

	"github.com/toolhost/toolhost/service/filesystem/internal/document"
)

// marks are the parts of a text that were put in, sorted, at most MaxSpans.
type marks []mark

type mark struct{ start, end int }

// move takes the marks over to the text that changes lead to, and adds those of the
// changes. When ctx ends, they mean nothing.
func (m *marks) move(ctx context.Context, changes []document.Change) {
	i, shift := 0, 0
	for k := range *m {
		if ctx.Err() != nil {
			return
		}
		// A mark moves by all that stands before it, and takes in what overlaps it.
		for ; i < len(changes) && changes[i].End <= (*m)[k].start; i++ {
			shift += len(changes[i].New) - (changes[i].End - changes[i].Start)
		}
		start, end, within := (*m)[k].start+shift, (*m)[k].end+shift, shift
		for j := i; j < len(changes) && changes[j].Start < (*m)[k].end; j++ {
			if changes[j].Start < (*m)[k].start {
				start = changes[j].Start + shift
			}
			grown := len(changes[j].New) - (changes[j].End - changes[j].Start)
			end = max(end, changes[j].End+within) + grown
			within += grown
		}
		(*m)[k] = mark{start, end}
	}
	shift = 0
	for _, c := range changes {
		if len(*m) == MaxSpans {
			break
		}
		*m = append(*m, mark{c.Start + shift, c.Start + shift + len(c.New)})
		shift += len(c.New) - (c.End - c.Start)
	}
	slices.SortFunc(*m, func(a, b mark) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end)) })
}

// spans gives the lines of the marks.
func (m marks) spans(ctx context.Context, content []byte) ([]Span, error) {
	var spans []Span
	line, counted := 1, 0
	for _, k := range m {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		start := min(k.start, len(content))
		last := start
		if k.end > start {
			last = min(k.end, len(content)) - 1 // the end of a line is in the line
		}
		line += document.LineAt(content[counted:], start-counted) - 1
		counted = start
		span := Span{First: line, Last: line + document.LineAt(content[start:], last-start) - 1}
		if n := len(spans); n == 0 || spans[n-1] != span {
			spans = append(spans, span)
		}
	}
	return spans, nil
}
