package process

import (
	"context"
	"fmt"
	"strings"

	"github.com/toolhost/toolhost/plugin/sdk"
)

const startDescription = `Start a command line that goes on when this call is over, such as a server or a watcher, and give its id. process_output reads what it writes and how it ended, process_input writes to it, process_stop ends it, process_list shows what there is. For a command whose end is to be waited for use shell.
It runs as with shell, but without a timeout: it ends by itself, by process_stop, or with this session, and everything that it started ends with it. Its standard input stays open. At most 16 may run at once.`

type startInput struct {
	Command string `json:"command" jsonschema:"The command line, exactly as the shell is to read it. At most 64 KiB."`
	Cwd     string `json:"cwd,omitempty" jsonschema:"The directory it runs in, relative to the project's root. Left out: the root."`
	Name    string `json:"name,omitempty" jsonschema:"A name for people to know it by, at most 64 bytes."`
	Pty     bool   `json:"pty,omitempty" jsonschema:"true: give it a terminal, for a program that does not work without one, such as a debugger or an editor."`
	Columns int    `json:"columns,omitempty" jsonschema:"The width of the terminal, 1 to 1000. Left out: 80."`
	Rows    int    `json:"rows,omitempty" jsonschema:"The height of the terminal, 1 to 1000. Left out: 24."`
}

type startOutput struct {
	Process process `json:"process" jsonschema:"what was started"`
}

func (t tools) start(ctx context.Context, _ sdk.Call, in startInput) (sdk.Preparation[startOutput], error) {
	if len(in.Name) > maxName {
		return sdk.Preparation[startOutput]{}, sdk.Failuref("name has %d bytes: at most %d", len(in.Name), maxName)
	}
	size, err := terminal(in.Pty, in.Columns, in.Rows)
	if err != nil {
		return sdk.Preparation[startOutput]{}, err
	}
	command := sdk.Command{Line: in.Command, Directory: in.Cwd, Shell: t.run.shell, Terminal: size, Name: in.Name}
	return prepare(ctx, t, command, true, func(ctx context.Context, command sdk.Command) (startOutput, error) {
		info, err := t.processes.Start(ctx, command)
		if err != nil {
			return startOutput{}, sdk.ToFailure(err)
		}
		return startOutput{processOf(info)}, nil
	})
}

func projectStart(_ startInput, out startOutput) (startOutput, []sdk.Content) {
	return out, []sdk.Content{sdk.Text(fmt.Sprintf("[started %s in %s; process_output with id=%s shows what it writes, process_stop ends it]",
		out.Process.label(), short(out.Process.Directory), out.Process.ID))}
}

const inputDescription = `Write text to the standard input of a process that process_start started. The text is written exactly as it is given: most programs read lines, so end it with "\n". With end, standard input is closed behind it, which tells many programs that this is all; a program that reads no input is told by process_stop.
In a process with a terminal, control characters do what they do in any: "\u0003" interrupts what runs, "\u0004" is the end of the input. Use process_output, with the since that the answer names, to read what the process says to it.`

type inputInput struct {
	ID   string `json:"id" jsonschema:"The process, as process_start and process_list name it."`
	Text string `json:"text,omitempty" jsonschema:"What is written, with its line end. At most 64 KiB at a time."`
	End  bool   `json:"end,omitempty" jsonschema:"true: close standard input behind the text."`
}

type inputOutput struct {
	ID    string `json:"id" jsonschema:"the process"`
	Bytes int    `json:"bytes" jsonschema:"how many bytes were written"`
	Ended bool   `json:"ended" jsonschema:"true when standard input was closed"`
	Since int64  `json:"since" jsonschema:"where the output stood when this was called; process_output shows what came from there on"`
}

// interrupt is what ends a command at a terminal, and runs nothing.
const interrupt = "\x03"

// input prepares a text for a process, which is asked for as a line in the directory of the
// process is, with what stands in the same line already. Who only closes the input, or interrupts,
// says nothing to it that was not asked for.
func (t tools) input(ctx context.Context, _ sdk.Call, in inputInput) (sdk.Preparation[inputOutput], error) {
	switch {
	case in.Text == "" && !in.End:
		return sdk.Preparation[inputOutput]{}, sdk.Failure("text is empty: give what is to be written, or end to close the input")
	case len(in.Text) > maxLine:
		return sdk.Preparation[inputOutput]{}, sdk.Failuref("text has %d bytes: at most %d at a time; write what is longer to a file", len(in.Text), maxLine)
	}
	info, err := t.find(ctx, in.ID)
	if err != nil {
		return sdk.Preparation[inputOutput]{}, err
	}
	if info.Result != nil {
		return sdk.Preparation[inputOutput]{}, sdk.Failuref("process %s has ended (%s): it reads nothing any more", info.ID, endingOf(*info.Result).words())
	}
	p := sdk.Preparation[inputOutput]{
		Irreversible: true,
		Targets:      []string{info.Directory},
		Commit: func(ctx context.Context, _ sdk.Call) (inputOutput, error) {
			if err := t.processes.Input(ctx, sdk.ProcessInput{ID: in.ID, Data: []byte(in.Text), Last: in.End, At: info.At}); err != nil {
				return inputOutput{}, sdk.ToFailure(err)
			}
			return inputOutput{ID: in.ID, Bytes: len(in.Text), Ended: in.End, Since: info.Written}, nil
		},
	}
	if strings.Trim(in.Text, interrupt) != "" {
		p.Requests = []sdk.PermissionRequest{{Action: "shell", Resources: []string{info.Unfinished + in.Text}, Metadata: map[string]string{
			"directory": info.Directory, "process": processOf(info).label() + ": " + short(info.Line),
		}}}
	}
	return p, nil
}

func projectInput(_ inputInput, out inputOutput) (inputOutput, []sdk.Content) {
	what := fmt.Sprintf("%d %s written to process %s", out.Bytes, plural(out.Bytes, "byte", "bytes"), out.ID)
	switch {
	case out.Ended && out.Bytes == 0:
		what = "the input of process " + out.ID + " is closed"
	case out.Ended:
		what += ", and its input is closed"
	}
	return out, []sdk.Content{sdk.Text(fmt.Sprintf("[%s; process_output with since=%d shows what it wrote from then on]", what, out.Since))}
}

const stopDescription = `End a process that process_start started, with everything that it started. It is asked to end and, if it does not do so soon, killed; when the answer comes nothing of it runs any more. Its output can still be read with process_output. Stopping one that has ended is no error.`

type stopInput struct {
	ID string `json:"id" jsonschema:"The process, as process_start and process_list name it."`
}

func (in stopInput) process() string { return in.ID }

type stopOutput struct {
	Process process `json:"process" jsonschema:"the process, and how it ended"`
}

func (t tools) stop(ctx context.Context, _ sdk.Call, in stopInput) (stopOutput, error) {
	info, err := t.processes.Stop(ctx, in.ID)
	if err != nil {
		return stopOutput{}, sdk.ToFailure(err)
	}
	return stopOutput{processOf(info)}, nil
}

func projectStop(_ stopInput, out stopOutput) (stopOutput, []sdk.Content) {
	notes := []string{out.Process.label() + ": " + out.Process.state()}
	if r := out.Process.Result; r != nil && r.Survivors != "" {
		notes = append(notes, "not all could be ended: "+r.Survivors)
	}
	return out, []sdk.Content{sdk.Text(bracketed(notes))}
}
