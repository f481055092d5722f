package output

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// A measure goes through the text of a call: it counts, and remembers as much of
// its head and tail as may be shown.
type measure struct {
	terminal
	limits   Limits
	head     excerpt // the first MaxBytes
	tail     excerpt // at least the last MaxBytes/2
	shown    int64   // bytes of what a terminal shows
	open     bool    // the last line has not ended
	streamed int64   // raw bytes that came before the settlement
}

func newMeasure(limits Limits) *measure {
	m := &measure{limits: limits}
	m.show = m.add
	return m
}

// separate ends the line of the last text before another one.
func (m *measure) separate() {
	if m.raw > 0 && m.last != '\n' {
		m.endLine()
	}
}

// add receives what is shown.
func (m *measure) add(text []byte, raw, rawLen int64) {
	m.shown += int64(len(text))
	m.open = text[len(text)-1] != '\n'
	same := int64(len(text)) == rawLen
	switch room := m.limits.MaxBytes - len(m.head.text); {
	case room >= len(text):
		m.head.add(text, raw, rawLen)
	case room > 0 && same:
		m.head.add(text[:room], raw, int64(room))
	case room > 0:
		m.head.add(text[:room], raw, 0)
	}
	half := m.limits.MaxBytes / 2
	switch far := len(text) - half; {
	case far <= 0:
		m.tail.add(text, raw, rawLen)
	case same:
		m.tail.add(text[far:], raw+int64(far), rawLen-int64(far))
	default:
		m.tail.add(text[far:], raw+rawLen, 0)
	}
	if len(m.tail.text) > 2*half {
		m.tail.keepEnd(half)
	}
}

// A verdict says what of a text is shown.
type verdict struct {
	unchanged  bool    // all, as it came
	fits       bool    // all
	all        excerpt // if fits
	head, tail excerpt // of what does not; they may be one and the same
	lines      int64   // ends of lines in all
	raw        int64
}

// verdict ends the measure.
func (m *measure) verdict() verdict {
	m.finish()
	v := verdict{lines: m.terminal.lines, raw: m.raw}
	lines := v.lines
	if m.open {
		lines++
	}
	if m.shown > int64(m.limits.MaxBytes) {
		half := m.limits.MaxBytes / 2
		m.tail.keepEnd(half)
		v.head = m.head.beginning(half)
		v.head = v.head.beginning(wholeEnd(v.head.text))
		m.tail.keepEnd(len(m.tail.text) - wholeStart(m.tail.text))
		v.head, _ = v.head.printable()
		v.tail, _ = m.tail.printable()
		return v
	}
	all, changed := m.head.printable()
	v.fits = len(all.text) <= m.limits.MaxBytes && lines <= int64(m.limits.MaxLines)
	v.unchanged = v.fits && !changed && !m.altered && m.raw <= int64(m.limits.MaxBytes)
	v.all, v.head, v.tail = all, all, all
	return v
}

// wholeEnd is how long a text is without a character that is cut at its end.
func wholeEnd(text []byte) int {
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if at := len(text) - i; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				return at
			}
			break
		}
	}
	return len(text)
}

// wholeStart is how long the rest of a character is at a text's beginning.
func wholeStart(text []byte) int {
	n := 0
	for n < len(text) && n < utf8.UTFMax-1 && !utf8.RuneStart(text[n]) {
		n++
	}
	return n
}

// preview is head and tail under the limits, with the mark between them, which
// counts as well. Where there is no room for more it is the mark alone.
func (v *verdict) preview(limits Limits, m mark) string {
	room := limits.MaxBytes - len(m.text(v.raw, 2*v.raw, v.lines+1)) - 2 // no mark is longer
	rows := limits.MaxLines - 1
	head, tail := 0, len(v.tail.text)
	if room > 0 && rows > 0 {
		head = headCut(v.head.text, (room+1)/2, (rows+1)/2)
		tail = tailCut(v.tail.text, room/2, rows/2)
	}
	begin, end := v.head.text[:head], v.tail.text[tail:]
	from, to := v.head.endsAt(head), v.raw
	if len(end) > 0 {
		to = v.tail.beginsAt(tail)
	}
	missing := v.lines - int64(linesIn(begin)) - int64(linesIn(end))
	var out strings.Builder
	out.Write(begin)
	if head > 0 && begin[head-1] != '\n' {
		out.WriteByte('\n')
	}
	out.WriteString(m.text(from, to, missing))
	if len(end) > 0 {
		out.WriteByte('\n')
		out.Write(end)
	}
	return out.String()
}

// A mark stands in a preview for what is missing there.
type mark struct {
	handle string
	bytes  int64 // of the whole
	lost   int64 // by the tool itself
	blocks int   // of text, that are one now
}

// text is the mark where what is missing is the raw text from one offset to another,
// with so many ends of lines. It is one line, and says how to read on.
func (m mark) text(from, to, lines int64) string {
	var text strings.Builder
	fmt.Fprintf(&text, "[… %d of %d bytes", to-from, m.bytes)
	if m.blocks > 1 {
		fmt.Fprintf(&text, " in %d blocks", m.blocks)
	}
	fmt.Fprintf(&text, " are left out here, %d lines.", lines)
	if m.lost > 0 {
		fmt.Fprintf(&text, " The tool itself dropped %d more, which nobody has.", m.lost)
	}
	fmt.Fprintf(&text, ` To read on: output_read {"handle": %q, "offset": %d}; to search: output_search {"handle": %q, "pattern": "…"}]`, m.handle, from, m.handle)
	return text.String()
}

// linesIn counts the ends of lines.
func linesIn(text []byte) int { return bytes.Count(text, []byte{'\n'}) }
