package client

import (
	"bytes"
	"strings"
	"sync"

	"github.com/toolhost/toolhost/plugin/client/internal/lines"
)

// A Tail is the end of what a plugin wrote, up to 64 KiB: on its standard streams, and to
// its log. The incarnations of a plugin have one together, so that whoever follows it
// sees what came before a crash and after it. The zero value is empty. It is safe for
// concurrent use, and who reads it is never waited for.
type Tail struct {
	mu      sync.Mutex
	kept    []byte        // under mu: whole lines, raw, up to twice logTail
	written int64         // under mu: how many bytes there ever were
	changed chan struct{} // under mu: closed with the next line; nil if nobody waits
}

// add takes a line. It does as little as it can: who floods pays for what is read only.
func (t *Tail) add(line []byte) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(append(t.kept, line...), '\n')
	t.written += int64(len(line)) + 1
	if len(t.kept) > 2*logTail {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-logTail:]...)
	}
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// Since gives what was written from a byte on, 0 being the first, in lines that are
// cleaned of what could control a terminal; where that ends; and how many bytes of it are
// not kept any more. A byte that is to come is taken for the end.
func (t *Tail) Since(at int64) (text string, next, lost int64) {
	t.mu.Lock()
	first := t.written - int64(min(len(t.kept), logTail))
	next = t.written
	from := min(max(at, first), next)
	raw := bytes.Clone(t.kept[int64(len(t.kept))-(next-from):])
	t.mu.Unlock()
	if at < first { // what is left of a line is none
		_, whole, found := bytes.Cut(raw, []byte("\n"))
		if found && first > 0 {
			from += int64(len(raw) - len(whole))
			raw = whole
		}
		lost = from - max(at, 0)
	}
	var b strings.Builder
	for line := range bytes.Lines(raw) {
		b.WriteString(lines.Clean(bytes.TrimSuffix(line, []byte("\n"))))
		b.WriteByte('\n')
	}
	return b.String(), next, lost
}

// Changed gives a channel that is closed when there is more than up to a byte: at once
// where there is already.
func (t *Tail) Changed(at int64) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.written > at {
		over := make(chan struct{})
		close(over)
		return over
	}
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return t.changed
}
