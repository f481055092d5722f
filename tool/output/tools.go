package output

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
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
	described := json.RawMessage(`{"type":"object","properties":{"handle":{"type":"string"},"offset":{"type":"integer"},` +
		`"next_offset":{"type":"integer"},"size":{"type":"integer"},"end":{"type":"boolean"}},` +
		`"required":["handle","offset","size","end"]}`)
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
		Output: described, Structured: described,
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

// UnmarshalJSON takes 3, 3.0 and 3e0 alike, as the schema does, and 1e400 too.
func (n *number) UnmarshalJSON(text []byte) error {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
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
	if kept.meta.Session != exact(call.Identity.Session) || kept.meta.Location != exact(k.options.Location) {
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
		if _, size := utf8.DecodeRune(around[i:]); i+size > at { // never for what is no UTF-8, whose size is 1
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
