package patch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/internal/document"
	"github.com/toolhost/toolhost/service/filesystem/internal/near"
)

const (
	// patience is how many bytes are searched for all hunks of a file together.
	patience = 1 << 30
	// stopBytes is for how many bytes each place counts where a search stops: to stop
	// takes as long as to search them, where bytes are made to be searched slowly.
	stopBytes = 8
	// stopLines is how many lines are gone over between two looks at a context.
	stopLines = 4 << 10
)

// A locator finds the hunks of a file, one after the other, in a view of it. When the
// context that a method is given ends, what it gives means nothing.
type locator struct {
	view  []byte
	exact bool // the view has the ends of lines as they are
	at    int  // where the hunk before ended
	line  int  // the number of that line
	drift int  // by how many lines the hunk before was not where its number says
	work  *int // how many more bytes are searched
}

// What is wrong with a hunk; told to people by explain.
var (
	errMiss      = errors.New("miss")
	errAnchor    = errors.New("anchor")
	errAmbiguous = errors.New("ambiguous")
	errNoPlace   = errors.New("no place")
	errWork      = errors.New("work")
)

func isMiss(err error) bool { return errors.Is(err, errMiss) || errors.Is(err, errAnchor) }

// all gives what the hunks change, or an error and the hunk that it is about.
func (l *locator) all(ctx context.Context, hunks []Hunk) ([]run, int, error) {
	var runs []run
	for i, h := range hunks {
		at, err := l.find(ctx, h)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return nil, i, err
		}
		of := l.runs(h, at)
		l.pass(h, at)
		runs = append(runs, of...)
	}
	return runs, 0, nil
}

// pass goes on to the end of a hunk that was found.
func (l *locator) pass(h Hunk, at int) {
	l.line += bytes.Count(l.view[l.at:at], newline)
	b := l.block(h)
	if h.Numbered {
		said := h.At
		if b.lines == 0 {
			said++
		}
		l.drift = l.line - said
	}
	if b.lines > 0 {
		end := min(at+len(b.text)+1, len(l.view))
		l.line += bytes.Count(l.view[at:end], newline)
		at = end
	}
	l.at = at
}

var newline = []byte("\n")

// A block is the old lines of a hunk.
type block struct {
	text  string // without the end of the last
	lines int
	last  string
	atEnd bool // it ends where the file does
	bare  bool // and the file's last line has no end
}

func (l *locator) block(h Hunk) block {
	b := block{atEnd: h.AtEnd}
	var text strings.Builder
	for _, line := range h.Lines {
		b.atEnd = b.atEnd || line.Bare
		if line.Op == Insert {
			continue
		}
		if b.lines > 0 {
			text.WriteByte('\n')
		}
		b.last = l.old(line)
		text.WriteString(b.last)
		b.bare = line.Bare
		b.lines++
	}
	b.text = text.String()
	return b
}

// find gives the place of a hunk, not before the end of the one before it.
func (l *locator) find(ctx context.Context, h Hunk) (int, error) {
	b := l.block(h)
	switch {
	case b.lines == 0:
		return l.placeless(ctx, h, b.atEnd)
	case h.Numbered:
		return l.nearest(ctx, b, h.At+l.drift)
	}
	first, second := -1, -1
	for at := range l.places(ctx, b, l.at) {
		if first >= 0 {
			second = at
			break
		}
		first = at
	}
	switch {
	case *l.work < 0:
		return 0, errWork
	case first < 0:
		return 0, errMiss
	case len(h.Anchors) == 0 && second >= 0:
		return 0, errAmbiguous
	case len(h.Anchors) == 0:
		return first, nil
	case second < 0:
		if end, _, ok := l.anchor(ctx, h.Anchors, 0); !ok || end > first {
			return 0, errAnchor
		}
		return first, nil
	}
	end, unique, ok := l.anchor(ctx, h.Anchors, l.at)
	switch {
	case !ok:
		return 0, errAnchor
	case !unique:
		return 0, errAmbiguous
	}
	for at := range l.places(ctx, b, end) {
		return at, nil
	}
	return 0, errMiss
}

// placeless gives the place of a hunk that has no old lines.
func (l *locator) placeless(ctx context.Context, h Hunk, atEnd bool) (int, error) {
	switch {
	case h.AtEnd || len(l.view) == 0:
		return len(l.view), nil
	case h.Numbered:
		at, ok := l.lineStart(ctx, h.At+1+l.drift)
		if !ok || atEnd && at < len(l.view) {
			return 0, errMiss
		}
		return at, nil
	case len(h.Anchors) == 0:
		return 0, errNoPlace
	}
	end, unique, ok := l.anchor(ctx, h.Anchors, l.at)
	switch {
	case !ok:
		return 0, errAnchor
	case !unique:
		return 0, errAmbiguous
	}
	if atEnd && end < len(l.view) {
		return 0, errMiss
	}
	return end, nil
}

// nearest gives the place that is nearest to a line.
func (l *locator) nearest(ctx context.Context, b block, line int) (int, error) {
	hint, inside := l.lineStart(ctx, line)
	if inside && l.fits(b, hint) {
		return hint, nil
	}
	before, after := -1, -1
	for at := range l.places(ctx, b, l.at) {
		if at > hint {
			after = at
			break
		}
		before = at
	}
	switch {
	case *l.work < 0:
		return 0, errWork
	case before < 0 && after < 0:
		return 0, errMiss
	case before < 0:
		return after, nil
	case after < 0:
		return before, nil
	}
	up, down := bytes.Count(l.view[before:hint], newline), bytes.Count(l.view[hint:after], newline)
	switch {
	case up < down:
		return before, nil
	case up > down:
		return after, nil
	}
	return 0, errAmbiguous
}

// lineStart gives where a line begins, which is not before the end of the hunk
// before. Beyond the last it is the end, and no line.
func (l *locator) lineStart(ctx context.Context, line int) (at int, ok bool) {
	at = l.at
	if line < l.line {
		return at, false
	}
	for n := line - l.line; n > 0; n-- {
		if *l.work < 0 || n%stopLines == 0 && ctx.Err() != nil {
			return at, false
		}
		i := bytes.IndexByte(l.view[at:], '\n')
		if i < 0 { // right after a last line without an end is a line that there could be
			l.spend(len(l.view) - at)
			return len(l.view), n == 1 && at < len(l.view)
		}
		l.spend(i + 1 + stopBytes)
		at += i + 1
	}
	return at, true
}

func (l *locator) spend(n int) { *l.work -= n }

// fits says that a block stands at a place where a line begins.
func (l *locator) fits(b block, at int) bool {
	rest := l.view[at:]
	if len(rest) < len(b.text) || string(rest[:len(b.text)]) != b.text {
		return false
	}
	rest = rest[len(b.text):]
	if len(rest) == 0 { // a line without an end, unless it is empty
		return b.last != ""
	}
	return rest[0] == '\n' && !b.bare && (!b.atEnd || len(rest) == 1)
}

// places gives the places where a block stands, from one on, in order.
func (l *locator) places(ctx context.Context, b block, from int) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		starts := func(at int) bool { return at == 0 || l.view[at-1] == '\n' }
		if !b.bare {
			passed := from
			for i := range document.Find(ctx, l.view[from:], b.text+"\n") {
				at := from + i
				l.spend(at - passed + stopBytes)
				if passed = at; *l.work < 0 {
					return
				}
				if starts(at) && (!b.atEnd || at+len(b.text)+1 == len(l.view)) && !yield(at) {
					return
				}
			}
			l.spend(len(l.view) - passed)
		}
		at := len(l.view) - len(b.text)
		if at >= from && b.last != "" && starts(at) && bytes.HasSuffix(l.view, []byte(b.text)) {
			yield(at)
		}
	}
}

// anchor gives where the line after the last anchor begins, each anchor looked for
// after the one before it, and whether the first stands there only once.
func (l *locator) anchor(ctx context.Context, anchors []string, from int) (end int, unique, ok bool) {
	end, unique = from, true
	for i, anchor := range anchors {
		found := -1
		for at := end; at < len(l.view) && *l.work >= 0 && ctx.Err() == nil; {
			line, _, _ := bytes.Cut(l.view[at:], newline)
			at = min(at+len(line)+1, len(l.view))
			l.spend(len(line) + 1 + stopBytes)
			if string(bytes.TrimSpace(line)) != anchor {
				continue
			}
			if found >= 0 {
				unique = false
				break
			}
			if found = at; i > 0 {
				break
			}
		}
		if found < 0 {
			return 0, false, false
		}
		end = found
	}
	return end, unique, true
}

// about says which hunk an error is about.
func (f File) about(i int, err error) error {
	known, ok := errors.AsType[*service.FileError](err)
	if !ok {
		return err
	}
	return &service.FileError{
		Kind:   known.Kind,
		Detail: fmt.Sprintf("hunk %d, at line %d of the patch: %s", i+1, f.Hunks[i].Line, known.Detail),
	}
}

// explain makes an error for a tool of what is wrong with a hunk.
func (l *locator) explain(ctx context.Context, err error, h Hunk, reveal bool) error {
	kind, said := service.FileNoMatch, "its lines do not stand in the file"
	b := l.block(h)
	switch {
	case errors.Is(err, errWork), *l.work < 0:
		return &service.FileError{Kind: service.FileTooLarge, Detail: "too many hunks are not where their line numbers say, for so large a file"}
	case errors.Is(err, errNoPlace):
		return &service.FileError{
			Kind:   service.FileBadQuery,
			Detail: fmt.Sprintf("it says no place: give lines that stand around it, or %q to add at the end", endOfFile),
		}
	case errors.Is(err, errAmbiguous):
		kind, said = service.FileAmbiguous, "its lines stand in more than one place; give more of the lines around it"
		if reveal {
			said += l.several(ctx, b, h)
		}
	case errors.Is(err, errAnchor):
		said = `the line after "@@" does not stand in the file before it`
	case b.lines == 0:
		said = "its place is not at the end of the file as the patch says, or beyond it"
	case !reveal:
	default:
		said += l.missed(ctx, b, h)
	}
	return &service.FileError{Kind: kind, Detail: said}
}

// several names the first lines where a block stands.
func (l *locator) several(ctx context.Context, b block, h Hunk) string {
	if b.lines == 0 {
		return ""
	}
	said, n, line, counted := "", 0, 1, 0
	for at := range l.places(ctx, b, l.at) {
		if n++; n > 5 {
			said += " and others"
			break
		}
		line += bytes.Count(l.view[counted:at], newline)
		counted = at
		said += fmt.Sprintf(", line %d", line)
	}
	if len(h.Anchors) > 0 {
		said += fmt.Sprintf("; or give the lines after %q that lead to it", "@@")
	}
	return " (" + strings.TrimPrefix(said, ", ") + ")"
}

// missed says what is like a block that does not stand in the file.
func (l *locator) missed(ctx context.Context, b block, h Hunk) string {
	free := b
	free.atEnd, free.bare = false, false
	for at := range l.places(ctx, free, 0) {
		line := document.LineAt(l.view, at)
		switch {
		case at < l.at:
			return fmt.Sprintf(": they stand at line %d, before the end of the hunk before it; put the hunks in the order of the file", line)
		case h.AtEnd:
			return fmt.Sprintf(": they stand at line %d, but the file does not end there", line)
		default:
			return fmt.Sprintf(`: they stand at line %d, but not as the last of the file as "\ No newline at end of file" says`, line)
		}
	}
	if like := near.Describe(ctx, l.view, b.text); like != "" {
		return ": " + like
	}
	return ", nor does anything like them; read the file again"
}
