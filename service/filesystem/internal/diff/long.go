package diff

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/internal/text"
)

// A span is a part of a line, from one byte up to another.
type span struct{ from, to int }

const (
	// longLineBytes is how much of a long line is shown, if so much of it changes.
	longLineBytes = 4 * service.LineBytes
	// aroundBytes is at least how much is shown around each change of a long line.
	aroundBytes = 24
	// pieceBytes is at least how many bytes the pieces have that long lines are compared
	// by, on average, and pieces about how many both lines have at most.
	pieceBytes = 4
	pieces     = 8000
)

// removed gives what of a line is not in the one that takes its place. All of it is not
// if there is none.
func (w *writer) removed(ctx context.Context, old, now []byte) []span {
	if now == nil {
		return []span{{0, len(old)}}
	}
	was, _ := w.differences(ctx, old, now)
	return was
}

// added gives what of a line is not in the one whose place it takes.
func (w *writer) added(ctx context.Context, old, now []byte) []span {
	if old == nil {
		return []span{{0, len(now)}}
	}
	_, is := w.differences(ctx, old, now)
	return is
}

// differences gives what of two lines is not in the other one, in order. Both have as
// many spans, of which one may be empty, and are the same between them. When ctx ends,
// they mean nothing.
func (w *writer) differences(ctx context.Context, old, now []byte) (was, is []span) {
	head := commonStart(ctx, old, now)
	tail := commonEnd(ctx, old[head:], now[head:])
	whole := block{old: lineRange{head, len(old) - tail}, now: lineRange{head, len(now) - tail}}
	old, now = old[head:len(old)-tail], now[head:len(now)-tail]
	total := len(old) + len(now)
	if total == 0 {
		return nil, nil
	}
	asOne := func() (was, is []span) { return []span{span(whole.old)}, []span{span(whole.now)} }
	if total > compareBytes || w.patience <= 0 {
		return asOne()
	}
	every := pieceBytes + total/pieces
	oldPieces, ok := chop(ctx, old, every)
	nowPieces, okNow := chop(ctx, now, every)
	if !ok || !okNow {
		return asOne()
	}
	r := refiner{old: oldPieces, now: nowPieces, left: w.patience}
	r.refine(ctx, block{old: lineRange{0, len(oldPieces)}, now: lineRange{0, len(nowPieces)}})
	w.patience = r.left
	oldAt, nowAt := ruler{pieces: oldPieces, at: head}, ruler{pieces: nowPieces, at: head}
	for _, b := range r.blocks {
		was = append(was, span{oldAt.to(b.old.from), oldAt.to(b.old.to)})
		is = append(is, span{nowAt.to(b.now.from), nowAt.to(b.now.to)})
	}
	return was, is
}

// A ruler tells at which byte a piece begins.
type ruler struct {
	pieces []string
	piece  int
	at     int
}

func (r *ruler) to(piece int) int {
	for ; r.piece < piece; r.piece++ {
		r.at += len(r.pieces[r.piece])
	}
	return r.at
}

// chop cuts a text into pieces where the bytes before say so, so that the same text is
// cut alike wherever it stands. Too many pieces are none, and so is what is not done
// when ctx ends.
func chop(ctx context.Context, b []byte, every int) (cut []string, ok bool) {
	var last uint32 // four bytes
	from := 0
	for i, c := range b {
		if i%stride == 0 && ctx.Err() != nil {
			return nil, false
		}
		if i > from && utf8.RuneStart(c) && int(last*2654435761>>16)%every == 0 {
			if len(cut) == compareLines {
				return nil, false
			}
			cut = append(cut, string(b[from:i]))
			from = i
		}
		last = last<<8 | uint32(c)
	}
	if from < len(b) {
		cut = append(cut, string(b[from:]))
	}
	return cut, true
}

// commonStart is the length of what two texts begin with, which does not end within a
// character. When ctx ends, it is less.
func commonStart(ctx context.Context, a, b []byte) int {
	n, most := 0, min(len(a), len(b))
	for n+stride <= most && ctx.Err() == nil && bytes.Equal(a[n:n+stride], b[n:n+stride]) {
		n += stride
	}
	most = min(most, n+stride)
	for n < most && a[n] == b[n] {
		n++
	}
	within := func(s []byte) bool { return n < len(s) && !utf8.RuneStart(s[n]) }
	for range utf8.UTFMax - 1 {
		if n == 0 || !within(a) && !within(b) {
			break
		}
		n--
	}
	return n
}

// commonEnd is the length of what two texts end with, which does not begin within a
// character. When ctx ends, it is less.
func commonEnd(ctx context.Context, a, b []byte) int {
	n, most := 0, min(len(a), len(b))
	for n+stride <= most && ctx.Err() == nil && bytes.Equal(a[len(a)-n-stride:len(a)-n], b[len(b)-n-stride:len(b)-n]) {
		n += stride
	}
	most = min(most, n+stride)
	for n < most && a[len(a)-n-1] == b[len(b)-n-1] {
		n++
	}
	for range utf8.UTFMax - 1 {
		if n == 0 || utf8.RuneStart(a[len(a)-n]) {
			break
		}
		n--
	}
	return n
}

// excerpt is what is shown of a long line: the spans and what is around them, or the
// beginning if there are none, with the lengths of what is left out. It reports whether
// not all of the spans are in it.
func excerpt(line []byte, spans []span) (shown string, hidden bool) {
	var out strings.Builder
	end := 0
	for i, window := range windows(line, spans) {
		if window.from > end {
			fmt.Fprintf(&out, "%s[%d bytes left out] ", []string{"", " "}[min(i, 1)], window.from-end)
		}
		out.WriteString(text.Valid(line[window.from:window.to]))
		end = window.to
	}
	for _, s := range spans {
		hidden = hidden || s.to > end
	}
	if end < len(line) {
		fmt.Fprintf(&out, " [%d bytes left out%s]", len(line)-end, map[bool]string{true: ", with changes"}[hidden])
	}
	return out.String(), hidden
}

// windows are the parts of a long line that are shown, in order and apart.
func windows(line []byte, spans []span) []span {
	if len(spans) == 0 {
		return []span{{0, text.CutEnd(line, service.LineBytes)}}
	}
	changed := 0
	for _, s := range spans {
		changed += s.to - s.from
	}
	around := min(max((service.LineBytes-changed)/(2*len(spans)), aroundBytes), service.LineBytes/3)
	var shown []span
	room := longLineBytes
	for _, s := range spans {
		if s.from = max(0, s.from-around); s.from > 0 { // a line may begin within a character, which is shown then
			s.from = text.CutStart(line, s.from)
		}
		s.to += text.CutEnd(line[s.to:], around)
		last := len(shown) - 1
		if last >= 0 && s.from <= shown[last].to+aroundBytes { // not worth leaving out what is between
			s.from = shown[last].to
		} else {
			shown = append(shown, span{s.from, s.from})
			last++
		}
		if s.to <= s.from {
			continue
		}
		fits := text.CutEnd(line[s.from:s.to], room)
		room -= fits
		shown[last].to = s.from + fits
		if shown[last].to < s.to {
			break
		}
	}
	return shown
}
