package output

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/toolhost/toolhost/internal/program"
	"github.com/toolhost/toolhost/tool"
)

const (
	defaultMatches = 50
	maxPattern     = 4 << 10 // bytes
	// A line up to shortLine is shown whole, and is one match. Of a longer one a window
	// around each match is shown.
	shortLine  = 400
	windowSide = 120
	// searchBuffer is how much of an output is looked at in memory.
	searchBuffer = 256 << 10

	// stepsUnasked is how many steps matching may take, at most, until ctx is
	// looked at: some ten milliseconds. A step is an instruction at a rune.
	stepsUnasked = 1 << 19
	// lineSteps is what looking at a line costs beside matching it.
	lineSteps = stepsUnasked / 512
)

// found is the structured value of output_search.
type found struct {
	Handle string `json:"handle"`
	// Shown and More count the matches that are shown and that are not.
	Shown int   `json:"shown"`
	More  int   `json:"more"`
	Size  int64 `json:"size"`
}

func (k *Keeper) searchTool() tool.Tool {
	described := json.RawMessage(`{"type":"object","properties":{"handle":{"type":"string"},"shown":{"type":"integer"},` +
		`"more":{"type":"integer"},"size":{"type":"integer"}},"required":["handle","shown","more","size"]}`)
	return tool.Tool{
		Title: "Search a kept output",
		Description: "Search an output that was too long to be shown whole, by a regular expression in RE2 syntax that is matched " +
			"line by line. Each match is shown as line:offset: text, where offset is the byte at which it begins, for output_read; " +
			"of a long line there is what stands around the match.",
		Input: json.RawMessage(`{"type":"object","properties":{` +
			`"handle":{"type":"string","description":"of the shortened output"},` +
			`"pattern":{"type":"string","description":"a regular expression, RE2 syntax"},` +
			`"limit":{"type":"integer","minimum":1,"description":"the most matches; 50 without it"}},` +
			`"required":["handle","pattern"],"additionalProperties":false}`),
		Output: described, Structured: described,
		Effects: tool.Read,
		Execute: k.search,
	}
}

func (k *Keeper) search(ctx context.Context, call tool.Call) (tool.Result, error) {
	var in struct {
		Handle  string `json:"handle"`
		Pattern string `json:"pattern"`
		Limit   number `json:"limit"`
	}
	if err := json.Unmarshal(call.Input, &in); err != nil {
		return tool.Result{}, fmt.Errorf("decode the input of output_search: %w", err)
	}
	p, err := compile(in.Pattern)
	if err != nil {
		return tool.Result{}, err
	}
	kept, err := k.open(ctx, call, in.Handle)
	if err != nil {
		return tool.Result{}, err
	}
	defer func() { _ = kept.Close() }() // it is only read
	s := searching{pattern: p, kept: kept, most: defaultMatches, limits: k.limits(call.Tool)}
	if in.Limit > 0 {
		s.most = int(in.Limit)
	}
	noted := s.limits.MaxBytes > 2*noteBytes // else there is room for a match only
	if noted {
		s.limits.MaxBytes -= noteBytes
		s.limits.MaxLines = max(1, s.limits.MaxLines-1)
	}
	if err := s.lines(ctx); err != nil {
		return tool.Result{}, err
	}
	text, note := s.text.String(), fmt.Sprintf("[%d matches; %d more are not shown]", s.shown, s.more)
	switch {
	case s.shown == 0:
		text = note
	case noted && k.limits(call.Tool).MaxLines < 2:
		text = strings.TrimSuffix(text, "\n") + " " + note
	case noted:
		text += note
	}
	return result(found{in.Handle, s.shown, s.more, kept.meta.Bytes}, text)
}

// A pattern is a regular expression whose program is bounded.
type pattern struct {
	// re finds the first match of a line.
	re *regexp.Regexp
	// rest finds the first match behind the first character of what it is given, which
	// stands there so that anchors and borders of words hold; its only group is the match.
	rest *regexp.Regexp
	// literal is what every match begins with, and all of it is one if whole.
	literal []byte
	whole   bool
	// size is at least how many instructions either has. A rune costs no more steps.
	size int
}

// compile reads a pattern. An error is a [*tool.Failure].
func compile(text string) (*pattern, error) {
	if len(text) > maxPattern {
		return nil, &tool.Failure{Message: fmt.Sprintf("the pattern has %d bytes: at most %d", len(text), maxPattern)}
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, notRE2(err)
	}
	p := &pattern{size: program.Size(tree)}
	if p.size > program.MaxSize {
		return nil, &tool.Failure{Message: fmt.Sprintf("the pattern is too large: it makes %d instructions, and at most %d are allowed; "+
			"shorten its repetitions, such as {0,999}", p.size, program.MaxSize)}
	}
	if p.re, err = regexp.Compile(text); err != nil {
		return nil, notRE2(err)
	}
	tree = withoutGroups(tree)
	if p.rest, err = regexp.Compile(`\A(?s:.)(?s:.*?)(` + tree.String() + `)`); err != nil {
		return nil, notRE2(err)
	}
	p.size += 8 // of rest
	compiled, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, notRE2(err)
	}
	// That of regexp.Regexp forgets an anchor.
	literal, whole := compiled.Prefix()
	p.literal, p.whole = []byte(literal), whole && literal != ""
	return p, nil
}

func notRE2(err error) error {
	return &tool.Failure{Message: fmt.Sprintf("the pattern is no regular expression of RE2 syntax: %v", err)}
}

// withoutGroups takes the groups out of an expression, in place: what they capture
// is not asked for, and each would cost memory at every step.
func withoutGroups(re *syntax.Regexp) *syntax.Regexp {
	for re.Op == syntax.OpCapture {
		re = re.Sub[0]
	}
	for i, sub := range re.Sub {
		re.Sub[i] = withoutGroups(sub)
	}
	return re
}

// A searching is one search, in bounded memory.
type searching struct {
	pattern *pattern
	kept    *Kept
	most    int
	limits  Limits // of text
	steps   int    // since ctx was looked at

	text        strings.Builder
	shown, more int
}

// spend counts steps, and looks at ctx where they are many.
func (s *searching) spend(ctx context.Context, steps int) error {
	if s.steps += steps; s.steps < stepsUnasked {
		return nil
	}
	s.steps = 0
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// lines searches line by line: in memory where that is cheap.
func (s *searching) lines(ctx context.Context) error {
	size := s.kept.meta.Bytes
	buffer := make([]byte, 0, searchBuffer)
	number, at := int64(1), int64(0) // of the buffer's first line
	for at < size {
		if err := s.spend(ctx, stepsUnasked); err != nil {
			return err
		}
		buffer = buffer[:min(searchBuffer, size-at)]
		if err := s.read(buffer, at); err != nil {
			return err
		}
		used := 0
		for used < len(buffer) {
			n := bytes.IndexByte(buffer[used:], '\n')
			if n < 0 && at+int64(len(buffer)) == size {
				n = len(buffer) - used
			}
			if n < 0 {
				break
			}
			if err := s.line(ctx, buffer[used:used+n], number, at+int64(used)); err != nil {
				return err
			}
			used += n + 1
			number++
		}
		if used == 0 { // the line is longer than the buffer
			end, err := s.lineEnd(ctx, at)
			if err != nil {
				return err
			}
			if err := s.long(ctx, number, at, end); err != nil {
				return err
			}
			used = int(end-at) + 1
			number++
		}
		at += int64(used)
	}
	return nil
}

// read reads all of p.
func (s *searching) read(p []byte, at int64) error {
	if n, err := s.kept.ReadAt(p, at); n < len(p) {
		return err
	}
	return nil
}

// lineEnd is where the line ends that at is in.
func (s *searching) lineEnd(ctx context.Context, at int64) (int64, error) {
	return s.index(ctx, []byte{'\n'}, at, s.kept.meta.Bytes)
}

// index is where something stands first in a range of the output, or else the end of
// the range.
func (s *searching) index(ctx context.Context, what []byte, at, end int64) (int64, error) {
	buffer := make([]byte, min(searchBuffer, end-at))
	for end-at >= int64(len(what)) {
		if err := s.spend(ctx, stepsUnasked/8); err != nil {
			return 0, err
		}
		part := buffer[:min(int64(len(buffer)), end-at)]
		if err := s.read(part, at); err != nil {
			return 0, err
		}
		if i := bytes.Index(part, what); i >= 0 {
			return at + int64(i), nil
		}
		at += int64(len(part) - len(what) + 1)
	}
	return end, nil
}

// line searches a line that is in memory, and stands in the output at an offset.
func (s *searching) line(ctx context.Context, text []byte, number, at int64) error {
	if err := s.spend(ctx, lineSteps+s.pattern.size*len(text)); err != nil {
		return err
	}
	if s.pattern.size*len(text) > stepsUnasked {
		return s.long(ctx, number, at, at+int64(len(text)))
	}
	text = bytes.TrimSuffix(text, []byte{'\r'})
	match := s.pattern.re.FindIndex(text)
	if match == nil {
		return nil
	}
	if len(text) <= shortLine {
		s.show(number, at+int64(match[0]), text, match[0])
		return nil
	}
	start, end := match[0], match[1]
	for {
		from := max(end, s.window(number, at, text, start))
		if start == len(text) {
			return nil
		}
		if err := s.spend(ctx, s.pattern.size*(len(text)-from)); err != nil {
			return err
		}
		_, before := utf8.DecodeLastRune(text[:from])
		match := s.pattern.rest.FindSubmatchIndex(text[from-before:])
		if match == nil {
			return nil
		}
		start, end = match[2]+from-before, match[3]+from-before
	}
}

// window shows what stands around a match in a text, and gives where that ends.
func (s *searching) window(number, at int64, text []byte, start int) int {
	left, right := max(0, start-windowSide), min(len(text), start+windowSide)
	if left > 0 {
		left += wholeStart(text[left:])
	}
	if right < len(text) {
		right = left + wholeEnd(text[left:right])
	}
	s.show(number, at+int64(start), text[left:right], start-left)
	return right
}

// long searches a line that is too long, or too costly, to be searched in one go.
func (s *searching) long(ctx context.Context, number, at, end int64) error {
	if end > at {
		last := make([]byte, 1)
		if err := s.read(last, end-1); err != nil {
			return err
		}
		if last[0] == '\r' {
			end--
		}
	}
	for from := at; ; {
		start, stop, err := s.next(ctx, at, from, end)
		if err != nil || start < 0 {
			return err
		}
		left, right := max(at, start-windowSide-utf8.UTFMax), min(end, start+windowSide+utf8.UTFMax)
		if end-at <= shortLine {
			left, right = at, end
		}
		text := make([]byte, right-left)
		if err := s.read(text, left); err != nil {
			return err
		}
		if end-at <= shortLine {
			s.show(number, start, text, int(start-left))
			return nil
		}
		from = max(stop, left+int64(s.window(number, left, text, int(start-left))))
		if start == end {
			return nil
		}
	}
}

// next gives the first match of a line that begins at an offset or behind it, or a
// start below 0.
func (s *searching) next(ctx context.Context, at, from, end int64) (start, stop int64, err error) {
	if len(s.pattern.literal) > 0 {
		if from, err = s.index(ctx, s.pattern.literal, from, end); err != nil || from == end {
			return -1, 0, err
		}
		if s.pattern.whole {
			return from, from + int64(len(s.pattern.literal)), nil
		}
	}
	r := runes{ctx: ctx, s: s, at: from, end: end, interval: max(1, stepsUnasked/s.pattern.size)}
	var match []int
	if from == at {
		match = s.pattern.re.FindReaderIndex(&r)
	} else {
		before := make([]byte, min(utf8.UTFMax, from-at))
		if err := s.read(before, from-int64(len(before))); err != nil {
			return -1, 0, err
		}
		_, size := utf8.DecodeLastRune(before)
		from -= int64(size)
		r.at = from
		if match = s.pattern.rest.FindReaderSubmatchIndex(&r); match != nil {
			match = match[2:]
		}
	}
	if r.err != nil || match == nil {
		return -1, 0, r.err
	}
	return from + int64(match[0]), from + int64(match[1]), nil
}

// runes reads a range of the output until ctx is done, which it looks at every
// interval runes and every piece that it reads.
type runes struct {
	ctx            context.Context //nolint:containedctx // it lives for one match
	s              *searching
	at, end        int64 // what is not read into rest yet
	rest           []byte
	buffer         []byte
	read, interval int
	err            error // why it ended before the end
}

// runesPiece is how much is read at a time: a match may begin and end close by.
const runesPiece = 8 << 10

// ReadRune implements [io.RuneReader].
func (r *runes) ReadRune() (rune, int, error) {
	if r.read++; r.read%r.interval == 0 && r.ctx.Err() != nil {
		r.err, r.rest, r.at = context.Cause(r.ctx), nil, r.end
	}
	if len(r.rest) < utf8.UTFMax && r.at < r.end {
		r.fill()
	}
	if len(r.rest) == 0 {
		return 0, 0, io.EOF
	}
	c, size := utf8.DecodeRune(r.rest)
	r.rest = r.rest[size:]
	return c, size, nil
}

// fill reads on behind what is left.
func (r *runes) fill() {
	if r.buffer == nil {
		r.buffer = make([]byte, min(runesPiece, r.end-r.at+utf8.UTFMax))
	}
	held := copy(r.buffer, r.rest)
	n := min(int64(len(r.buffer)-held), r.end-r.at)
	r.rest = r.buffer[:held+int(n)]
	r.err = r.s.read(r.rest[held:], r.at)
	if r.err == nil && r.ctx.Err() != nil {
		r.err = context.Cause(r.ctx)
	}
	if r.at += n; r.err != nil {
		r.rest, r.at = nil, r.end
	}
}

// show shows a match, which begins at a place in the text, or counts it where there
// is no room. The first is cut to the room that there is.
func (s *searching) show(number, offset int64, text []byte, start int) {
	if s.shown >= s.most || s.more > 0 {
		s.more++
		return
	}
	place := fmt.Sprintf("%d:%d: ", number, offset)
	visible, _ := escaped(text, len(text), true, Limits{MaxBytes: 4 * shortLine, MaxLines: 1})
	room := s.limits.MaxBytes - s.text.Len() - len(place) - len("\n")
	if s.shown == 0 && len(visible) > room {
		visible, _ = escaped(text[start:], len(text)-start, true, Limits{MaxBytes: room, MaxLines: 1})
	} else if len(visible) > room || s.shown >= s.limits.MaxLines {
		s.more++
		return
	}
	s.shown++
	s.text.WriteString(place + visible + "\n")
}

var _ io.RuneReader = (*runes)(nil)
