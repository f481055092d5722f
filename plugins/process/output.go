package process

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toolhost/toolhost/plugin/sdk"
)

const outputDescription = `Read what a process that process_start started has written, standard output and standard error together as they came, and whether it still runs. The first call, without since, begins at the beginning; a note in square brackets below the text says with which since to go on. A negative since asks for so many bytes of the end. With wait_ms the call waits for more output, or for the end of the process, rather than asking again and again.
At most 47 KiB and 1,990 lines at once. Of a long output only the beginning and the end are kept, and a note says how much is missing.`

type outputInput struct {
	ID     string `json:"id" jsonschema:"The process, as process_start and process_list name it."`
	Since  int64  `json:"since,omitempty" jsonschema:"The byte of the output to begin at, as the last answer named it; -2000 is the last 2000 bytes. Left out: the beginning."`
	WaitMS int64  `json:"wait_ms,omitempty" jsonschema:"How many milliseconds to wait at most if there is nothing more yet, up to 60000. Left out: not at all."`
}

func (in outputInput) process() string { return in.ID }

type outputOutput struct {
	Process process `json:"process" jsonschema:"the process, and how it ended if it did"`
	Text    string  `json:"text" jsonschema:"what it wrote from the byte from on, with its control sequences; a byte that is no character is U+FFFD"`
	From    int64   `json:"from" jsonschema:"the byte of the output that the text begins at"`
	Next    int64   `json:"next" jsonschema:"the byte of the output that follows the text: the next since"`
	Dropped int64   `json:"dropped_bytes,omitempty" jsonschema:"how many bytes before the text are not kept any more"`
	Raw     bool    `json:"raw,omitempty" jsonschema:"true when there are bytes in it that are no characters"`

	Notes []string `json:"notes,omitempty" jsonschema:"the state of the process, what is missing, and how to go on"`

	more bool // there is more to be shown now
}

func (t tools) output(ctx context.Context, _ sdk.Call, in outputInput) (outputOutput, error) {
	if in.WaitMS < 0 || in.WaitMS > maxWait {
		return outputOutput{}, sdk.Failuref("wait_ms is %d: give 1 to %d, or leave it out", in.WaitMS, maxWait)
	}
	query := sdk.OutputQuery{ID: in.ID, Since: in.Since, Wait: time.Duration(in.WaitMS) * time.Millisecond}
	part, shown, err := t.part(ctx, query)
	if began := time.Now(); err == nil && len(shown) == 0 && len(part.Data) > 0 && query.Wait > 0 { // of a character that has not ended
		rest := sdk.OutputQuery{ID: in.ID, Since: part.Next, Wait: query.Wait}
		if _, err := t.processes.Output(ctx, rest); err != nil {
			return outputOutput{}, sdk.ToFailure(err)
		}
		query.Since, query.Wait = part.From, max(0, query.Wait-time.Since(began))
		part, shown, err = t.part(ctx, query)
	}
	if err != nil {
		return outputOutput{}, sdk.ToFailure(err)
	}
	out := outputOutput{
		Process: processOf(part.Process), Text: string([]rune(string(shown))), // each byte that is no character is one
		From: part.From, Next: part.From + int64(len(shown)), Dropped: part.Dropped, Raw: !utf8.Valid(shown),
	}
	_, cut := page(part.Data, false)
	out.more = cut || part.Next < part.Process.Written
	return out, nil
}

// part gives a part of an output, and what is shown of it.
func (t tools) part(ctx context.Context, query sdk.OutputQuery) (sdk.ProcessOutput, []byte, error) {
	part, err := t.processes.Output(ctx, query)
	if err != nil {
		return sdk.ProcessOutput{}, nil, err
	}
	shown, _ := page(part.Data, part.Process.Result != nil && part.Next >= part.Process.Written)
	return part, shown, nil
}

// What one answer shows, which leaves the notes room within 50 KiB and 2,000 lines.
const (
	textBytes = 47 << 10
	textLines = 1990
)

// page is the beginning of the data that an answer shows: as many whole lines as fit, or of a
// line that is too long as much as does; cut says that it is not all. A character, or a
// sequence that controls a terminal, whose rest may follow is left to the next page, unless this
// is the end.
func page(data []byte, whole bool) (shown []byte, cut bool) {
	end := len(data)
	for i, lines := 0, 0; i < end; i++ {
		if data[i] == '\n' {
			if lines++; lines == textLines {
				end = i + 1
			}
		}
	}
	switch {
	case end > textBytes:
		if end = bytes.LastIndexByte(data[:textBytes], '\n') + 1; end == 0 {
			end = textBytes - unfinished(data[:textBytes])
		}
	case end == len(data):
		if !whole {
			end -= unfinished(data)
		}
		return data[:end], false
	}
	return data[:end], true
}

// unfinished is how many bytes at the end are the beginning of a character, or of a sequence
// that controls a terminal.
func unfinished(data []byte) int {
	const longest = 256 // bytes of a sequence that is waited for
	if at := bytes.LastIndexByte(data, escape); at >= 0 && len(data)-at < longest && !complete(data[at+1:]) {
		return len(data) - at
	}
	for n := 1; n < utf8.UTFMax && n <= len(data); n++ {
		if last := data[len(data)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}

const escape = 0x1b

// complete reports whether what stands behind an escape is a whole sequence, or none.
func complete(rest []byte) bool {
	if len(rest) == 0 {
		return false
	}
	ends := func(c byte) bool { return c < 0x20 || 0x30 <= c } // behind intermediate bytes
	switch rest[0] {
	case '[':
		rest, ends = rest[1:], func(c byte) bool { return c < 0x20 || 0x40 <= c }
	case ']', 'P', 'X', '^', '_': // to a bell, the end of the line, or the next escape
		rest, ends = rest[1:], func(c byte) bool { return c == 0x07 || c == '\n' }
	}
	return bytes.ContainsFunc(rest, func(r rune) bool { return r > 0x7f || ends(byte(r)) })
}

func projectOutput(_ outputInput, out outputOutput) (outputOutput, []sdk.Content) {
	var notes []string
	if out.Dropped > 0 {
		notes = append(notes, fmt.Sprintf("%d bytes before this are not kept any more", out.Dropped))
	}
	if out.Raw {
		notes = append(notes, "not valid UTF-8: bytes that are no characters are shown as \ufffd")
	}
	state := out.Process.label() + ": " + out.Process.state()
	switch running := out.Process.Result == nil; {
	case out.more:
		state += fmt.Sprintf("; more of its output follows: since=%d", out.Next)
	case running && out.Text == "":
		state += fmt.Sprintf("; no output from since=%d on yet", out.Next)
	case running:
		state += fmt.Sprintf("; go on with since=%d", out.Next)
	case out.Process.Written == 0:
		state += "; it wrote nothing"
	case out.Text == "":
		state += fmt.Sprintf("; no output from since=%d on", out.Next)
	default:
		state += "; this is the end of its output"
	}
	notes = append(notes, state)
	if r := out.Process.Result; r != nil {
		notes = append(notes, r.left()...)
	}
	out.Notes = notes
	var content []sdk.Content
	if out.Text != "" {
		content = append(content, sdk.Text(out.Text))
	}
	return out, append(content, sdk.Text(bracketed(notes)))
}

const listDescription = `List the processes that process_start started in this session, the oldest first, one a line: the id, the name, whether it runs or how it ended, the directory and the command. Those that ended are kept for a while, so that their output can be read with process_output.`

type listInput struct{}

type listOutput struct {
	Processes []process `json:"processes" jsonschema:"the processes of this session, the oldest first"`
}

func (t tools) list(ctx context.Context, _ sdk.Call, _ listInput) (listOutput, error) {
	list, err := t.processes.List(ctx)
	if err != nil {
		return listOutput{}, sdk.ToFailure(err)
	}
	out := listOutput{Processes: make([]process, 0, len(list))}
	for _, info := range list {
		out.Processes = append(out.Processes, processOf(info))
	}
	return out, nil
}

func projectList(_ listInput, out listOutput) (listOutput, []sdk.Content) {
	if len(out.Processes) == 0 {
		return out, []sdk.Content{sdk.Text("[this session has started no processes]")}
	}
	var text strings.Builder
	for _, p := range out.Processes {
		fmt.Fprintf(&text, "%s: %s; in %s: %s\n", p.label(), p.state(), short(p.Directory), short(p.Command))
	}
	return out, []sdk.Content{sdk.Text(text.String())}
}
