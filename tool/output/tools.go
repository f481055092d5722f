package output

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toolhost/toolhost/tool"
)

// noteBytes is the most bytes of the line below an answer, its end included.
const noteBytes = 240

// page is the structured value of output_read.
type page struct {
	Handle string `json:"handle"`
	// Offset is where the page begins, moved back to where a character begins.
	Offset int64 `json:"offset"`
	// NextOffset is where the next page begins; absent at the end.
	NextOffset *int64 `json:"next_offset,omitempty"`
	// Size is the bytes of the whole.
	Size int64 `json:"size"`
	// End is true of the last page.
	End bool `json:"end"`
}

func (k *Keeper) readTool() tool.Tool {
	return tool.Tool{
		Title: "Read a kept output",
		Description: "Read on in an output that was too long to be shown whole. The mark in the shortened output has the handle and " +
			"the offset at which the missing part begins; the answer says where the next page begins. Offset and limit count " +
			"bytes. Control characters are shown escaped, such as \\x1b.",
		Input: json.RawMessage(`{"type":"object","properties":{` +
			`"handle":{"type":"string","description":"of the shortened output"},` +
			`"offset":{"type":"integer","minimum":0,"description":"the first byte; 0 without it"},` +
			`"limit":{"type":"integer","minimum":1,"description":"the most bytes; as many as fit without it"}},` +
			`"required":["handle"],"additionalProperties":false}`),
		Output: json.RawMessage(`{"type":"object","properties":{"handle":{"type":"string"},"offset":{"type":"integer"},` +
			`"next_offset":{"type":"integer"},"size":{"type":"integer"},"end":{"type":"boolean"}},` +
			`"required":["handle","offset","size","end"]}`),
		Effects: tool.Read,
		Execute: k.read,
	}
}

func (k *Keeper) read(ctx context.Context, call tool.Call) (tool.Result, error) {
	var in struct {
		Handle string `json:"handle"`
		Offset number `json:"offset"`
		Limit  number `json:"limit"`
	}
	if err := json.Unmarshal(call.Input, &in); err != nil {
		return tool.Result{}, fmt.Errorf("decode the input of output_read: %w", err)
	}
	kept, err := k.open(ctx, call, in.Handle)
	if err != nil {
		return tool.Result{}, err
	}
	defer func() { _ = kept.Close() }() // it is only read
	p := page{Handle: in.Handle, Offset: int64(in.Offset), Size: kept.meta.Bytes}
	if p.Offset > p.Size {
		return tool.Result{}, &tool.Failure{Message: fmt.Sprintf("offset %d is behind the end: the output has %d bytes", p.Offset, p.Size)}
	}
	if p.Offset, err = characterAt(kept, p.Offset); err != nil {
		return tool.Result{}, err
	}
	limits := k.limits(call.Tool)
	noted := limits.MaxBytes > 2*noteBytes && limits.MaxLines > 1 // else there is room for the text only
	if noted {
		limits.MaxBytes -= noteBytes
		limits.MaxLines--
	}
	raw := make([]byte, min(int64(max(limits.MaxBytes, utf8.UTFMax)), p.Size-p.Offset))
	if _, err := kept.ReadAt(raw, p.Offset); err != nil && !errors.Is(err, io.EOF) {
		return tool.Result{}, err
	}
	asked := len(raw)
	if in.Limit > 0 {
		asked = int(min(int64(asked), int64(in.Limit)))
	}
	text, n := escaped(raw, asked, p.Offset+int64(len(raw)) == p.Size, limits)
	next := p.Offset + int64(n)
	p.End = next == p.Size
	note := fmt.Sprintf("[bytes %d to %d of %d; this is the end]", p.Offset, next, p.Size)
	if !p.End {
		p.NextOffset = &next
		note = fmt.Sprintf(`[bytes %d to %d of %d; to read on: output_read {"handle": %q, "offset": %d}]`, p.Offset, next, p.Size, in.Handle, next)
	}
	if noted {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		text += note
	}
	return result(p, text)
}

// result is an answer whose text is small enough to be given.
func result(structured any, text string) (tool.Result, error) {
	out, err := json.Marshal(structured)
	if err != nil {
		return tool.Result{}, err
	}
	return tool.Result{Output: out, Content: []tool.Content{tool.Text(text)}}, nil
}

// number is a JSON integer of any size and form; what is too large for the host's
// is the largest.
type number int64

// UnmarshalJSON takes 3, 3.0 and 3e0 alike, as the schema does.
func (n *number) UnmarshalJSON(text []byte) error {
	var f float64
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	const most = 1 << 53
	*n = number(min(f, most))
	return nil
}

// open opens an output of the caller's own session in this Location. Whatever else
// the handle may be, the answer is the same.
func (k *Keeper) open(ctx context.Context, call tool.Call, handle string) (*Kept, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	gone := &tool.Failure{Message: fmt.Sprintf("there is no output %.64q of this session: it may have expired; run the tool again that made it", handle)}
	if k.options.Store == nil {
		return nil, gone
	}
	kept, err := k.options.Store.Open(handle)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, gone
	}
	if err != nil {
		return nil, err
	}
	if kept.meta.Session != call.Identity.Session || kept.meta.Location != k.options.Location {
		_ = kept.Close() // it was only read
		return nil, gone
	}
	return kept, nil
}

// characterAt is the offset, or where the character begins that it is in.
func characterAt(kept *Kept, offset int64) (int64, error) {
	from := max(0, offset-utf8.UTFMax+1)
	around := make([]byte, min(kept.meta.Bytes-from, 2*utf8.UTFMax))
	if _, err := kept.ReadAt(around, from); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	at := int(offset - from)
	for i := at - 1; i >= 0; i-- {
		if !utf8.RuneStart(around[i]) {
			continue
		}
		if r, size := utf8.DecodeRune(around[i:]); r != utf8.RuneError && i+size > at {
			return from + int64(i), nil
		}
		break
	}
	return offset, nil
}

// escaped shows the beginning of raw text, at most so many bytes of it, with control
// characters and what is not UTF-8 escaped, and says how many bytes it shows. It is
// within the limits, but at least one character. The end of raw is that of the
// output, or not, and then no character is cut there.
func escaped(raw []byte, most int, isEnd bool, limits Limits) (string, int) {
	var text strings.Builder
	n, lines := 0, 0
	for n < len(raw) {
		if !isEnd && n > 0 && (!utf8.FullRune(raw[n:]) || n+1 == len(raw) && raw[n] == '\r') {
			break // what follows decides what it is
		}
		size, shown := escape1(raw[n:])
		if n > 0 && (n+size > most || text.Len()+len(shown) > limits.MaxBytes || lines >= limits.MaxLines) {
			break
		}
		if raw[n] == '\n' {
			lines++
		}
		text.WriteString(shown)
		n += size
	}
	return text.String(), n
}

// escape1 is how the first character is shown, and its size. CRLF is one character.
func escape1(raw []byte) (size int, shown string) {
	r, size := utf8.DecodeRune(raw)
	switch {
	case r == '\r' && len(raw) > 1 && raw[1] == '\n':
		return 2, "\r\n"
	case r == utf8.RuneError && size == 1:
		return 1, fmt.Sprintf(`\x%02x`, raw[0])
	case r == '\n', r == '\t', !unicode.IsControl(r):
		return size, string(raw[:size])
	case r < 0x80:
		return size, fmt.Sprintf(`\x%02x`, r)
	}
	return size, fmt.Sprintf(`\u%04x`, r)
}

const (
	defaultMatches = 50
	maxPattern     = 4 << 10 // bytes
	// A line up to shortLine is shown whole, and is one match. Of a longer one a window
	// around each match is shown.
	shortLine  = 400
	windowSide = 120
	// A line over searchPiece is searched in pieces that overlap: a match over
	// searchOverlap may be missed there.
	searchPiece   = 256 << 10
	searchOverlap = 4 << 10
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
		Output: json.RawMessage(`{"type":"object","properties":{"handle":{"type":"string"},"shown":{"type":"integer"},` +
			`"more":{"type":"integer"},"size":{"type":"integer"}},"required":["handle","shown","more","size"]}`),
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
	if len(in.Pattern) > maxPattern {
		return tool.Result{}, &tool.Failure{Message: fmt.Sprintf("the pattern has %d bytes: at most %d", len(in.Pattern), maxPattern)}
	}
	pattern, err := regexp.Compile(in.Pattern)
	if err != nil {
		return tool.Result{}, &tool.Failure{Message: fmt.Sprintf("the pattern is no regular expression of RE2 syntax: %v", err)}
	}
	kept, err := k.open(ctx, call, in.Handle)
	if err != nil {
		return tool.Result{}, err
	}
	defer func() { _ = kept.Close() }() // it is only read
	s := searching{pattern: pattern, most: defaultMatches, limits: k.limits(call.Tool)}
	if in.Limit > 0 {
		s.most = int(in.Limit)
	}
	s.limits.MaxBytes -= noteBytes
	s.limits.MaxLines--
	if err := s.lines(ctx, kept); err != nil {
		return tool.Result{}, err
	}
	fmt.Fprintf(&s.text, "[%d matches; %d more are not shown]", s.shown, s.more)
	return result(found{in.Handle, s.shown, s.more, kept.meta.Bytes}, s.text.String())
}

// A searching is one search, in bounded memory.
type searching struct {
	pattern *regexp.Regexp
	most    int
	limits  Limits // of text

	text        strings.Builder
	shown, more int
}

// lines searches line by line.
func (s *searching) lines(ctx context.Context, kept *Kept) error {
	size := kept.meta.Bytes
	buffer := make([]byte, 0, searchPiece)
	line, at := int64(1), int64(0) // of the buffer's first byte
	var after int64                // matches before it were seen
	for at < size {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n := min(int64(cap(buffer)), size-at)
		buffer = buffer[:n]
		if _, err := kept.ReadAt(buffer, at); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		isEnd := at+n == size
		used := 0
		for used < len(buffer) {
			end := bytes.IndexByte(buffer[used:], '\n')
			whole := end >= 0
			switch {
			case whole:
				end += used
			case isEnd:
				end = len(buffer)
			}
			if end < 0 {
				break
			}
			s.line(buffer[used:end], line, at+int64(used), after, false)
			used = end
			if whole {
				used++
				line++
			}
		}
		if used == 0 { // the line is longer than the buffer
			after = s.line(buffer, line, at, after, true)
			used = len(buffer) - searchOverlap
		}
		at += int64(used)
	}
	return nil
}

// line searches a line, or a piece of one that goes on, for matches from an offset
// on. It says where those that it leaves to the next piece begin.
func (s *searching) line(text []byte, number, at, after int64, goesOn bool) int64 {
	if !goesOn {
		text = bytes.TrimSuffix(text, []byte{'\r'})
	}
	if len(text) <= shortLine && at >= after {
		if match := s.pattern.FindIndex(text); match != nil {
			s.show(number, at+int64(match[0]), text)
		}
		return after
	}
	from := int(max(0, after-at))
	for _, match := range s.pattern.FindAllIndex(text, -1) {
		start, end := match[0], match[1]
		if start < from {
			continue
		}
		if goesOn && start >= len(text)-searchOverlap {
			break // the next piece sees all of it
		}
		left, right := max(0, start-windowSide), min(len(text), start+windowSide)
		left += wholeStart(text[left:])
		right = left + wholeEnd(text[left:right])
		s.show(number, at+int64(start), text[left:right])
		from = max(right, end)
	}
	if !goesOn {
		return after
	}
	return at + int64(len(text)-searchOverlap)
}

// show shows a match, or counts it where there is no room.
func (s *searching) show(number, offset int64, text []byte) {
	if s.shown >= s.most || s.more > 0 {
		s.more++
		return
	}
	visible, _ := escaped(text, len(text), true, Limits{MaxBytes: 4 * shortLine, MaxLines: 1})
	row := fmt.Sprintf("%d:%d: %s\n", number, offset, visible)
	if s.shown >= s.limits.MaxLines || s.text.Len()+len(row) > s.limits.MaxBytes {
		s.more++
		return
	}
	s.shown++
	s.text.WriteString(row)
}
