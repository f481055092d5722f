package patch

import (
	"bytes"
	"context"
	"strings"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/internal/document"
)

// Apply gives the bytes of the file after the patch, from those before it; of an
// Add, those of the new file, whatever content is. A Delete gives nothing, if its
// hunks take out all that there is. The result shares no memory with content.
//
// A hunk is where its kept and removed lines stand, after the hunk before it. If
// they stand in several places, it is the one nearest to its line number; without a
// number, the first one after its anchors; without either, or with two that are as
// near, it is refused. Kept lines keep their bytes. Inserted lines are written as
// they are where the old lines are found with the ends that the patch gives them;
// otherwise, and where the old lines have no ends, they end as the lines do that
// they replace, and those beyond as most in the file.
//
// An error is a [*service.FileError] without a path: FileNoMatch, FileAmbiguous,
// FileBadQuery for a hunk that gives no place, FileBinary or FileTooLarge. It names
// the hunk. With reveal, it tells what stands in the file that is like it, and
// where: it quotes the file. Without it, it tells nothing of the file.
//
// Time is linear in content for each hunk that is not where its number says, and
// bounded for all of them together: a patch beyond that is refused with
// FileTooLarge. When ctx ends, Apply does too, soon, with the cause.
func (f File) Apply(ctx context.Context, content []byte, reveal bool) ([]byte, error) {
	out, err := f.apply(ctx, content, reveal)
	if ctx.Err() != nil { // what an error says is not so then
		return nil, context.Cause(ctx)
	}
	return out, err
}

func (f File) apply(ctx context.Context, content []byte, reveal bool) ([]byte, error) {
	switch {
	case f.Kind == Add:
		out := []byte(f.added())
		return out, document.CheckSize(len(out))
	case len(f.Hunks) == 0 && f.Kind == Delete:
		return nil, nil
	case len(f.Hunks) == 0:
		return bytes.Clone(content), nil
	}
	d, err := document.Open(ctx, content)
	if err != nil {
		return nil, err
	}
	if err := f.accepted(ctx, d); err != nil {
		return nil, err
	}
	changes, err := f.changes(ctx, d, reveal)
	if err != nil {
		return nil, err
	}
	out, err := d.Splice(ctx, changes)
	if err != nil {
		return nil, err
	}
	if f.Kind == Delete && len(out) > 0 && !d.Only(out) {
		return nil, &service.FileError{
			Kind:   service.FileNoMatch,
			Detail: "there is more in the file than the patch deletes; read it again",
		}
	}
	if f.Kind == Delete {
		return nil, nil
	}
	return out, nil
}

// added is the text of a new file.
func (f File) added() string {
	var out strings.Builder
	for _, h := range f.Hunks {
		for _, l := range h.Lines {
			out.WriteString(l.Text)
			if !l.Bare {
				out.WriteByte('\n')
			}
		}
	}
	return out.String()
}

// accepted refuses lines that cannot be put into the file.
func (f File) accepted(ctx context.Context, d *document.Document) error {
	for i, h := range f.Hunks {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var before, after strings.Builder
		for _, l := range h.Lines {
			switch l.Op {
			case Insert:
				after.WriteString(l.Text)
			default:
				before.WriteString(l.Text)
			}
		}
		if err := d.Accepts(ctx, before.String(), after.String()); err != nil {
			return f.about(i, err)
		}
	}
	return nil
}

// changes gives what the hunks change in the text. They are looked for with the
// ends of lines as the patch has them, and if that fails, without.
func (f File) changes(ctx context.Context, d *document.Document, reveal bool) ([]document.Change, error) {
	work := patience
	l := locator{view: d.Text(), exact: true, line: 1, work: &work}
	runs, i, err := l.all(ctx, f.Hunks)
	if err != nil && isMiss(err) && (bytes.IndexByte(d.Text(), '\r') >= 0 || f.hasPairs()) {
		plain, ended := d.Plain(ctx)
		if ended != nil {
			return nil, ended
		}
		l = locator{view: plain, line: 1, work: &work}
		runs, i, err = l.all(ctx, f.Hunks)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, f.about(i, l.explain(ctx, err, f.Hunks[i], reveal))
	}
	changes := make([]document.Change, len(runs))
	for i, r := range runs {
		changes[i] = r.Change
	}
	if !l.exact {
		if err := d.FromPlain(ctx, changes); err != nil {
			return nil, err
		}
	}
	ending, err := d.Ending(ctx)
	if err != nil {
		return nil, err
	}
	if ending == "" {
		ending = "\n"
	}
	for i, r := range runs {
		changes[i].New = r.text(ctx, d.Text()[changes[i].Start:changes[i].End], ending)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return changes, nil
}

func (f File) hasPairs() bool {
	for _, h := range f.Hunks {
		for _, l := range h.Lines {
			if strings.HasSuffix(l.Text, "\r") {
				return true
			}
		}
	}
	return false
}

// A run is lines of a hunk that follow each other and of which none is kept. Its
// change has no text yet.
type run struct {
	document.Change
	lines []string
	// literal says that the lines have their own ends.
	literal bool
	// lead says that the line before the run has no end and gets one.
	lead bool
	// bare says that the last line gets no end.
	bare bool
}

// text is what the run puts in the place of the replaced part. When ctx ends, it
// means nothing.
func (r run) text(ctx context.Context, replaced []byte, ending string) string {
	if len(r.lines) == 0 {
		return ""
	}
	var out strings.Builder
	if r.lead {
		out.WriteByte('\n')
	}
	for i, line := range r.lines {
		if !r.literal {
			line = strings.TrimSuffix(line, "\r")
		}
		out.WriteString(line)
		if i < len(r.lines)-1 || !r.bare {
			out.WriteByte('\n')
		}
	}
	if r.literal {
		return out.String()
	}
	return document.End(ctx, out.String(), replaced, ending)
}

// runs gives what a hunk changes, of which the old lines stand at a place in the
// view.
func (l *locator) runs(h Hunk, at int) []run {
	var runs []run
	open := false
	start, pairs := at, false
	for _, line := range h.Lines {
		pairs = pairs || line.Op == Insert && strings.HasSuffix(line.Text, "\r")
		if line.Op == Keep {
			open = false
		} else if !open {
			open = true
			runs = append(runs, run{Change: document.Change{Start: at, End: at}})
		}
		if line.Op == Insert {
			r := &runs[len(runs)-1]
			r.lines = append(r.lines, line.Text)
			r.bare = line.Bare
			continue
		}
		at = min(at+len(l.old(line))+1, len(l.view))
		if open {
			runs[len(runs)-1].End = at
		}
	}
	ended := bytes.IndexByte(l.view[start:at], '\n') >= 0
	for i := range runs {
		runs[i].literal = l.exact && (ended || pairs)
		l.finish(&runs[i], h)
	}
	return runs
}

// finish settles how a run ends that is at the end of the file: as the patch says,
// or else as the file did (case A17).
func (l *locator) finish(r *run, h Hunk) {
	if r.End < len(l.view) {
		return
	}
	bare := len(l.view) > 0 && l.view[len(l.view)-1] != '\n'
	said := false
	for _, line := range h.Lines {
		said = said || line.Bare
	}
	if !said {
		r.bare = bare
	}
	r.lead = bare && r.Start == len(l.view)
}

// old is a line of the hunk as the view has it.
func (l *locator) old(line Line) string {
	if l.exact {
		return line.Text
	}
	return strings.TrimSuffix(line.Text, "\r")
}
