package edit

import (
	"context"
	"fmt"
	"strings"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/internal/document"
	"github.com/toolhost/toolhost/service/filesystem/internal/near"
)

// shownLines is how many lines an error of an ambiguous text names.
const shownLines = 5

// changes gives what the replacement changes in the text.
func (r Replacement) changes(ctx context.Context, d *document.Document, reveal bool) ([]document.Change, error) {
	found, err := r.find(ctx, d, reveal)
	if err != nil {
		return nil, err
	}
	if err := d.Accepts(ctx, r.Old, r.New); err != nil {
		return nil, err
	}
	changed := false
	content, size := d.Text(), 0
	ending, err := d.Ending(ctx)
	if err != nil {
		return nil, err
	}
	put := r.writer(ending)
	for i := range found {
		found[i] = put(ctx, content, found[i])
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		size += len(found[i].New)
		if err := document.CheckSize(size); err != nil {
			return nil, err
		}
		changed = changed || string(content[found[i].Start:found[i].End]) != found[i].New
	}
	if !changed {
		return nil, failure(service.FileBadQuery, "the new text already stands where the old text was found, so nothing would change")
	}
	return found, nil
}

// find gives the places in the text where the old text stands.
func (r Replacement) find(ctx context.Context, d *document.Document, reveal bool) ([]document.Change, error) {
	content := d.Text()
	if strings.Contains(r.Old, "\r\n") {
		found, err := r.places(ctx, content, r.Old, reveal)
		if err != nil || found != nil {
			return found, err
		}
	}
	old := document.Plain(r.Old)
	if !strings.ContainsAny(old, "\r\n") {
		found, err := r.places(ctx, content, old, reveal)
		if err != nil || found != nil {
			return found, err
		}
		return nil, r.missing(ctx, d, reveal)
	}
	plain, err := d.Plain(ctx)
	if err != nil {
		return nil, err
	}
	found, err := r.places(ctx, plain, old, reveal)
	switch {
	case err != nil:
		return nil, err
	case found == nil:
		return nil, r.missing(ctx, d, reveal)
	}
	return found, d.FromPlain(ctx, found)
}

// places gives the places of a text in a view: one, or all.
func (r Replacement) places(ctx context.Context, content []byte, old string, reveal bool) ([]document.Change, error) {
	var found []document.Change
	var lines []int
	count, line, counted := 0, 1, 0
	for at := range document.Find(ctx, content, old) {
		if end := at + len(old); at > 0 && content[at-1] == '\r' && content[at] == '\n' ||
			end < len(content) && content[end-1] == '\r' && content[end] == '\n' {
			continue // it begins or ends within the end of a line
		}
		if r.All {
			if n := len(found); n > 0 && found[n-1].End > at {
				continue
			}
			if len(found) == MaxPlaces {
				return nil, failure(service.FileTooLarge, "more than %d places would be replaced", MaxPlaces)
			}
		}
		if count++; !r.All && reveal && len(lines) < shownLines {
			line += document.LineAt(content[counted:], at-counted) - 1
			counted = at
			lines = append(lines, line)
		}
		if r.All || count == 1 {
			found = append(found, document.Change{Start: at, End: at + len(old)})
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if r.All || count <= 1 {
		return found, nil
	}
	if !reveal {
		return nil, failure(service.FileAmbiguous, "the old text stands in the file more than once; give more of what stands around it")
	}
	return nil, failure(service.FileAmbiguous,
		"the old text stands in %d places, at %s; give more of what stands around it, or ask for all of them to be replaced",
		count, listed(lines, count))
}

func listed(lines []int, count int) string {
	var out strings.Builder
	out.WriteString("lines ")
	for i, line := range lines {
		switch {
		case i == 0:
		case i == len(lines)-1 && count == len(lines):
			out.WriteString(" and ")
		default:
			out.WriteString(", ")
		}
		fmt.Fprint(&out, line)
	}
	if count > len(lines) {
		out.WriteString(" and others")
	}
	return out.String()
}

func (r Replacement) missing(ctx context.Context, d *document.Document, reveal bool) error {
	const miss = "the old text does not stand in the file"
	switch {
	case !reveal:
		return failure(service.FileNoMatch, "%s", miss)
	case d.Marked() && strings.HasPrefix(r.Old, "\ufeff"):
		return failure(service.FileNoMatch, "%s: its byte order mark is no part of the text; leave it out of the old and the new text", miss)
	}
	plain, err := d.Plain(ctx)
	if err != nil {
		return err
	}
	if like := near.Describe(ctx, plain, document.Plain(r.Old)); like != "" {
		return failure(service.FileNoMatch, "%s: %s", miss, like)
	}
	return failure(service.FileNoMatch, "%s, nor does anything like it; read the file again", miss)
}

// writer gives what makes a change of a place: whole lines at the beginning and the
// end of the old text that are in the new one too are left as they are, and so are
// their ends.
func (r Replacement) writer(ending string) func(ctx context.Context, content []byte, at document.Change) document.Change {
	before, after := document.Plain(r.Old), document.Plain(r.New)
	if before == after || ending == "" {
		return func(_ context.Context, _ []byte, at document.Change) document.Change {
			at.New = r.New
			return at
		}
	}
	head := sameHead(before, after)
	tail := sameTail(before[head:], after[head:], head > 0)
	after = after[head : len(after)-tail]
	return func(ctx context.Context, content []byte, at document.Change) document.Change {
		place := content[at.Start:at.End]
		from := document.Offset(ctx, place, head)
		to := from + document.Offset(ctx, place[from:], len(before)-tail-head)
		return document.Change{
			Start: at.Start + from,
			End:   at.Start + to,
			New:   document.End(ctx, after, place[from:to], ending),
		}
	}
}

// sameHead is the length of the whole lines that two texts begin with.
func sameHead(a, b string) int {
	n, head := min(len(a), len(b)), 0
	for i := 0; i < n && a[i] == b[i]; i++ {
		if a[i] == '\n' {
			head = i + 1
		}
	}
	return head
}

// sameTail is the length of what two texts end with, from the beginning of a line
// on. Both begin with a line if it is said so.
func sameTail(a, b string, lines bool) int {
	begins := func(s string, at int) bool { return at > 0 && s[at-1] == '\n' || at == 0 && lines }
	n, tail := min(len(a), len(b)), 0
	for i := 1; i <= n && a[len(a)-i] == b[len(b)-i]; i++ {
		if begins(a, len(a)-i) && begins(b, len(b)-i) {
			tail = i
		}
	}
	return tail
}
