package diff

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/internal/text"
)

// contextLines is how many lines that stay are shown around those that do not.
const contextLines = 3

// A writer writes hunks up to a limit.
type writer struct {
	out   *strings.Builder
	limit int
	full  bool // a line did not fit, so none after it is tried
	left  int  // how many lines were left out since the last that was written
	stat  *Stat
	// patience is what is left of it for the comparing of long lines.
	patience int
}

// hunks writes what changed between two texts, or less of it when ctx ends.
func (w *writer) hunks(ctx context.Context, old, now []byte, c comparison) {
	if len(c.blocks) == 0 {
		return
	}
	a := start(ctx, old, c.head)
	b := start(ctx, now, c.head)
	for i := 0; i < len(c.blocks) && ctx.Err() == nil; {
		n := i + 1
		for n < len(c.blocks) && c.blocks[n].old.from-c.blocks[n-1].old.to <= 2*contextLines {
			n++
		}
		w.hunk(ctx, &a, &b, c.blocks[i:n], c.oldLines)
		i = n
	}
	w.resume()
}

// start gives a cursor a context's length before a line.
func start(ctx context.Context, content []byte, line int) cursor {
	c := cursor{text: content}
	skip := max(0, line-contextLines)
	for ; c.line < skip && ctx.Err() == nil; c.line++ {
		c.at += bytes.IndexByte(c.text[c.at:], '\n') + 1
	}
	return c
}

// hunk writes blocks, and what stays around them.
func (w *writer) hunk(ctx context.Context, a, b *cursor, blocks []block, lines int) {
	first, last := blocks[0], blocks[len(blocks)-1]
	before := min(contextLines, first.old.from-a.line)
	after := min(contextLines, lines-last.old.to)
	a.to(ctx, first.old.from-before)
	b.to(ctx, first.now.from-before)
	w.raw(fmt.Sprintf("@@ -%s +%s @@\n",
		numbers(a.line, last.old.to+after-a.line), numbers(b.line, last.now.to+after-b.line)))
	for _, block := range blocks {
		w.stays(ctx, a, b, block.old.from)
		w.block(ctx, a, b, block)
	}
	w.stays(ctx, a, b, last.old.to+after)
}

// numbers writes the lines of a hunk as diff does.
func numbers(from, n int) string {
	switch n {
	case 0:
		return fmt.Sprintf("%d,0", from)
	case 1:
		return fmt.Sprint(from + 1)
	}
	return fmt.Sprintf("%d,%d", from+1, n)
}

func (w *writer) stays(ctx context.Context, a, b *cursor, to int) {
	for a.line < to && ctx.Err() == nil {
		line, ending := a.next()
		b.next()
		w.line(' ', line, ending, nil, w.limit)
	}
}

// block writes the removed lines and then the added ones. The removed ones leave
// half of the room, if the added ones need it.
func (w *writer) block(ctx context.Context, a, b *cursor, block block) {
	was, is := *a, *b // for what the other side has in its place
	end := *b
	end.to(ctx, block.now.to)
	room, full := w.limit-w.out.Len(), w.full
	allowed := w.limit - min(end.at-b.at+2*(end.line-b.line), room/2)
	for a.line < block.old.to && ctx.Err() == nil {
		facing := facingIn(&is, block.now.to)
		line, ending := a.next()
		w.line('-', line, ending, func() []span { return w.removed(ctx, line, facing) }, allowed)
	}
	if w.full && !full && b.line < block.now.to {
		w.resume()
		w.full = false
	}
	for b.line < block.now.to && ctx.Err() == nil {
		facing := facingIn(&was, block.old.to)
		line, ending := b.next()
		w.line('+', line, ending, func() []span { return w.added(ctx, facing, line) }, w.limit)
	}
}

// facingIn is the next line of the other side, or nil if it has none.
func facingIn(other *cursor, to int) []byte {
	if other.line >= to {
		return nil
	}
	line, _ := other.next()
	return line
}

// line writes a line of the diff, of a long one what changes and what is around that.
func (w *writer) line(mark byte, line []byte, ending string, changes func() []span, limit int) {
	if w.full || w.out.Len()+min(len(line), service.LineBytes) > limit {
		w.leave()
		return
	}
	var shown string
	shortened, hidden := len(line) > service.LineBytes, false
	if shortened {
		var spans []span
		if changes != nil {
			spans = changes()
		}
		shown, hidden = excerpt(line, spans)
	} else {
		shown = text.Valid(line)
	}
	shown = string(mark) + shown + "\n"
	if ending == "" {
		shown += "\\ No newline at end of file\n"
	}
	if w.out.Len()+len(shown) > limit {
		w.leave()
		return
	}
	if shortened {
		w.stat.Shortened++
	}
	if hidden {
		w.stat.Hidden++
	}
	w.out.WriteString(shown)
}

// raw writes a line that is none of the files'.
func (w *writer) raw(line string) {
	if w.full || w.out.Len()+len(line) > w.limit {
		w.full = true
		return
	}
	w.out.WriteString(line)
}

func (w *writer) leave() {
	w.full = true
	w.left++
	w.stat.Cut++
}

// resume says how many lines were left out.
func (w *writer) resume() {
	if w.left > 0 {
		fmt.Fprintf(w.out, "[%s of the diff left out]\n", count(w.left, "line"))
	}
	w.left = 0
}
