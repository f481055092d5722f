package output

import (
	"bytes"
	"slices"
	"unicode"
	"unicode/utf8"
)

const (
	esc = 0x1b
	// overwriteLimit is the longest line in which a carriage return overwrites. Lines
	// that are redrawn are as wide as a terminal.
	overwriteLimit = 4 << 10
	// Plain text is looked for in steps that grow, and stay within a processor's cache:
	// what is redrawn has little between its special bytes.
	shortStep, minStep, maxStep = 16, 256, 32 << 10
)

// A terminal turns raw text into what a terminal would show: without escape
// sequences, and with lines overwritten. What else it shows or does not is for
// [excerpt.printable]. It may be given the text in any pieces.
type terminal struct {
	show  func(text []byte, raw, rawLen int64) // receives what is shown, and where in the raw text it was
	lines int64                                // ends of lines shown

	raw     int64 // bytes decided
	last    byte
	altered bool // something other than the ends of lines is not shown as it came

	state  state
	params []byte // the beginning of a CSI's parameters
	before byte   // in a string: the last byte

	cr    bool    // a carriage return is not decided yet
	line  excerpt // the line so far, unless it is long: what stands before the cursor
	under []byte  // what stands at the cursor and behind it, which is overwritten
	room  []byte  // whose end under is, so that going back moves only what was written since
	start int64   // where in the raw text the line begins that under is of
	part  []byte  // of a character that overwrites
	erase bool    // the line was erased while the cursor stood behind it
	long  bool    // the line is over overwriteLimit and goes through
}

// state is where in an escape sequence the next byte stands.
type state uint8

const (
	ground        state = iota
	escape              // behind ESC
	intermediate        // behind ESC and bytes that are not final
	csi                 // behind ESC [
	controlString       // of OSC, DCS, SOS, PM and APC
	stringEscape        // behind ESC in a control string
)

// write takes the next piece.
func (t *terminal) write(p []byte) {
	if len(p) > 0 {
		t.last = p[len(p)-1]
	}
	for len(p) > 0 {
		var n int
		switch {
		case t.cr:
			n = t.afterReturn(p[0])
		case t.state != ground:
			n = t.sequence(p[0])
		default:
			if n = t.plainPrefix(p); n == 0 {
				n = t.special(p[0])
			}
		}
		p = p[n:]
	}
}

// endLine ends a text that does not end with its line, before another one.
func (t *terminal) endLine() {
	if t.cr {
		t.afterReturn(0)
	}
	t.write([]byte{'\n'})
}

// finish shows what is still held.
func (t *terminal) finish() {
	if t.cr {
		t.altered = true
	}
	t.showLine()
}

// plainPrefix takes the text before the next byte that is special, and says how
// long it was.
func (t *terminal) plainPrefix(p []byte) int {
	n, lines := plainStart(p)
	step := minStep
	for n >= shortStep && n < len(p) {
		chunk := p[n:min(len(p), n+step)]
		step = min(2*step, maxStep)
		whole := len(chunk)
		if i := bytes.IndexByte(chunk, esc); i >= 0 {
			chunk = chunk[:i]
		}
		if i := bytes.IndexByte(chunk, '\r'); i >= 0 {
			chunk = chunk[:i]
		}
		lines += bytes.Count(chunk, []byte{'\n'})
		n += len(chunk)
		if len(chunk) < whole {
			break
		}
	}
	t.lines += int64(lines)
	t.plain(p[:n], lines > 0)
	return n
}

// plainStart is how long the text before the next special byte is, at most shortStep,
// and its ends of lines.
func plainStart(p []byte) (n, lines int) {
	for n < min(len(p), shortStep) && p[n] != esc && p[n] != '\r' {
		if p[n] == '\n' {
			lines++
		}
		n++
	}
	return n, lines
}

// plain takes text without special bytes, whose lines are counted.
func (t *terminal) plain(p []byte, lines bool) {
	if len(t.under) > 0 {
		p = p[t.overwrite(p):]
	}
	if t.long {
		end := bytes.IndexByte(p, '\n') + 1
		if end == 0 {
			t.pass(p)
			return
		}
		t.pass(p[:end])
		t.startLine()
		p = p[end:]
	}
	if lines {
		if end := bytes.LastIndexByte(p, '\n') + 1; end > 0 {
			t.showLine()
			t.pass(p[:end])
			t.startLine()
			p = p[end:]
		}
	}
	if len(p) == 0 {
		return
	}
	if len(t.line.text)+len(p) > overwriteLimit {
		t.showLine()
		t.long = true
		t.pass(p)
		return
	}
	t.line.add(p, t.raw, int64(len(p)))
	t.raw += int64(len(p))
}

// pass shows text as it is.
func (t *terminal) pass(p []byte) {
	if len(p) > 0 {
		t.show(p, t.raw, int64(len(p)))
		t.raw += int64(len(p))
	}
}

// showLine shows the line so far, and holds it no longer.
func (t *terminal) showLine() {
	t.flushPart()
	t.join(t.raw)
	for i, s := range t.line.spans {
		t.show(t.line.text[s.at:t.line.end(i)], s.raw, s.rawLen)
	}
	t.clear()
}

// join puts the cursor behind the line, which ends at an offset of the raw text.
func (t *terminal) join(end int64) {
	if len(t.under) > 0 {
		t.line.text = append(t.line.text, t.under...)
		t.under = nil
		t.redrawn(end)
	}
}

// rewind puts the cursor at the line's beginning.
func (t *terminal) rewind() {
	n := len(t.line.text)
	if n == 0 {
		return
	}
	t.start = t.line.spans[0].raw
	if size := n + len(t.under); size > len(t.room) {
		room := make([]byte, max(2*size, overwriteLimit))
		copy(room[len(room)-len(t.under):], t.under)
		t.room = room
	}
	begin := len(t.room) - len(t.under) - n
	copy(t.room[begin:], t.line.text)
	t.under = t.room[begin:]
	t.line.text, t.line.spans = t.line.text[:0], t.line.spans[:0]
}

// redrawn says that the line so far came from all of the raw text until an offset.
func (t *terminal) redrawn(end int64) {
	t.line.spans = t.line.spans[:0]
	if len(t.line.text) > 0 {
		t.line.spans = append(t.line.spans, span{0, t.start, end - t.start})
	}
}

// clear makes the line empty.
func (t *terminal) clear() {
	t.line.text, t.line.spans, t.under = t.line.text[:0], t.line.spans[:0], nil
}

func (t *terminal) startLine() { t.long, t.erase = false, false }

// special takes ESC or a carriage return.
func (t *terminal) special(c byte) int {
	t.flushPart()
	t.raw++
	if c == '\r' {
		t.cr = true
	} else {
		t.altered = true
		t.state = escape
	}
	return 1
}

// afterReturn decides what a carriage return was, now that c follows. It takes c
// if that is the end of the line.
func (t *terminal) afterReturn(c byte) int {
	t.cr = false
	if c == '\n' {
		t.lines++
		t.raw++
		t.join(t.raw - 2)
		t.line.add([]byte{'\n'}, t.raw-2, 2)
		t.showLine()
		t.startLine()
		return 1
	}
	t.altered = true
	switch {
	case t.long:
		t.lines++
		t.show([]byte{'\n'}, t.raw-1, 1)
		t.startLine()
	case t.erase:
		t.clear()
	}
	t.erase = false
	t.rewind()
	return 0
}

// sequence takes the next byte of an escape sequence, or says that it is none of it.
func (t *terminal) sequence(c byte) int {
	if t.state == stringEscape {
		if c == '\\' {
			return t.taken(ground)
		}
		t.state = escape // it ended the string and begins another sequence
	}
	switch {
	case c == esc && t.state == controlString:
		return t.taken(stringEscape)
	case c == esc:
		return t.taken(escape)
	case t.state == controlString:
		return t.inString(c)
	case t.state == escape && c == '[':
		t.params = t.params[:0]
		return t.taken(csi)
	case t.state == escape && bytes.IndexByte([]byte("]PX^_"), c) >= 0:
		t.before = 0
		return t.taken(controlString)
	case t.state == csi && 0x20 <= c && c < 0x40:
		if len(t.params) < 2 {
			t.params = append(t.params, c)
		}
		return t.taken(csi)
	case t.state == csi && 0x40 <= c && c < 0x7f:
		if c == 'K' {
			t.eraseLine(string(t.params))
		}
		return t.taken(ground)
	case t.state != csi && 0x20 <= c && c < 0x30:
		return t.taken(intermediate)
	case t.state != csi && 0x30 <= c && c < 0x7f:
		return t.taken(ground)
	}
	t.state = ground
	return 0
}

func (t *terminal) inString(c byte) int {
	c1 := t.before == 0xc2 && c == 0x9c // ST
	t.before = c
	switch {
	case c == '\n':
		t.state = ground
		return 0
	case c == 0x07, c == 0x18, c == 0x1a, c1: // BEL, CAN, SUB
		return t.taken(ground)
	}
	return t.taken(controlString)
}

func (t *terminal) taken(next state) int {
	t.state = next
	t.raw++
	return 1
}

// eraseLine erases to the end of the line, or all of it. What is erased while the
// cursor stands behind it goes when it is redrawn, and stays when it is not.
func (t *terminal) eraseLine(params string) {
	switch {
	case t.long:
	case params == "" || params == "0":
		if len(t.under) > 0 {
			t.under = nil
			t.redrawn(t.raw)
		}
	case params == "2" && len(t.line.text) == 0:
		t.clear()
	case params == "2":
		t.erase = true
	}
}

// overwrite puts characters of one line in place of those at the cursor, as long as
// there are any, and says how many bytes it took. It leaves an end of the line.
func (t *terminal) overwrite(p []byte) int {
	held := len(t.part)
	text := p
	if held > 0 {
		text = slices.Concat(t.part, p)
		t.part = t.part[:0]
	}
	n := 0
	for n < len(text) && text[n] != '\n' && len(t.under) > 0 {
		if same := singles(text[n:], t.under); same > 0 {
			t.line.text = append(t.line.text, text[n:n+same]...)
			t.under = t.under[same:]
			n += same
			continue
		}
		if !utf8.FullRune(text[n:]) {
			t.part = append(t.part, text[n:]...)
			break
		}
		_, size := utf8.DecodeRune(text[n:])
		t.put(text[n : n+size])
		n += size
	}
	t.raw += int64(n)
	t.redrawn(t.raw)
	if len(t.part) > 0 {
		return len(p)
	}
	if n < held { // it was no character, and the line is at its end
		t.line.add(text[n:held], t.raw, int64(held-n))
		t.raw += int64(held - n)
		n = held
	}
	if len(t.line.text)+len(t.under) > utf8.UTFMax*overwriteLimit { // joined to without end
		t.showLine()
		t.long = true
	}
	return n - held
}

// singles is how many characters at the beginning of a text, and of what it
// overwrites, have one byte each, with nothing joined to them.
func singles(text, under []byte) int {
	n, most := 0, min(len(text), len(under))
	for n < most && text[n] < utf8.RuneSelf && text[n] != '\n' && under[n] < utf8.RuneSelf {
		n++
	}
	if n > 0 && n < len(under) && under[n] >= utf8.RuneSelf {
		n--
	}
	return n
}

// put puts one character at the cursor.
func (t *terminal) put(char []byte) {
	if r, _ := utf8.DecodeRune(char); !joins(r) && len(t.under) > 0 {
		t.under = t.under[cellEnd(t.under):]
	}
	t.line.text = append(t.line.text, char...)
}

// flushPart overwrites with a character that never became whole.
func (t *terminal) flushPart() {
	if len(t.part) == 0 {
		return
	}
	for _, c := range t.part {
		t.put([]byte{c})
	}
	t.raw += int64(len(t.part))
	t.part = t.part[:0]
	t.redrawn(t.raw)
}

// cellEnd is where the first character of a line ends, with what is joined to it.
func cellEnd(line []byte) int {
	_, i := utf8.DecodeRune(line)
	for i < len(line) && line[i] >= utf8.RuneSelf {
		r, size := utf8.DecodeRune(line[i:])
		if !joins(r) {
			break
		}
		i += size
	}
	return i
}

const joiner = '\u200d'

// joins reports whether the character belongs to the one before it.
func joins(r rune) bool {
	switch {
	case r < 0x300:
		return false
	case r < 0x370: // the block of combining marks
		return true
	}
	return r == joiner || 0x1f3fb <= r && r <= 0x1f3ff || unicode.In(r, unicode.Mn, unicode.Me)
}
