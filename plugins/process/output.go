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
}

func (t tools) output(ctx context.Context, _ sdk.Call, in outputInput) (outputOutput, error) {
	if in.WaitMS < 0 || in.WaitMS > maxWait {
		return outputOutput{}, sdk.Failuref("wait_ms is %d: give 1 to %d, or leave it out", in.WaitMS, maxWait)
	}
	wait, _ := within(ctx, time.Duration(in.WaitMS)*time.Millisecond)
	part, err := t.processes.Output(ctx, sdk.OutputQuery{ID: in.ID, Since: in.Since, Wait: wait})
	if err != nil {
		return outputOutput{}, sdk.ToFailure(err)
	}
	whole := part.Process.Result != nil && part.Next >= part.Process.Written
	shown := page(part.Data, whole)
	return outputOutput{
		Process: processOf(part.Process), Text: string([]rune(string(shown))), // each byte that is no character is one
		From: part.From, Next: part.From + int64(len(shown)), Dropped: part.Dropped, Raw: !utf8.Valid(shown),
	}, nil
}

// What one answer shows, which leaves the notes room within 50 KiB and 2,000 lines.
const (
	textBytes = 47 << 10
	textLines = 1990
)

// page is the beginning of the data that an answer shows: as many whole lines as fit, or of a
// line that is too long as much as does. A character whose rest may follow is left to the
// next page, unless this is the end.
func page(data []byte, whole bool) []byte {
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
	case end == len(data) && !whole:
		end -= unfinished(data)
	}
	return data[:end]
}

// unfinished is how many bytes at the end are the beginning of a character.
func unfinished(data []byte) int {
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
	case out.Next < out.Process.Written:
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
