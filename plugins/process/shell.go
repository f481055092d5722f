package process

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/toolhost/toolhost/plugin/sdk"
)

// shellDescription tells the model the bounds that the settings make.
func (t tools) shellDescription() string {
	return `Run a command line in a shell and wait for its end. The answer is what it wrote, standard output and standard error together in the order of writing, and below that, in square brackets, how it ended and how long it took. Another exit status than 0, a signal and a timeout are failures, whose text has the output too.
Each call has a new shell, so cd and variables do not last: give cwd. The status is the shell's own, of a pipe that of its last command; no options are set. Standard input is empty unless stdin is given, there is no terminal unless pty is true, and no network unless the project's configuration gives it.
When the line is over, all that it left running is ended: for a server, a watcher, or what takes long, use process_start. A command is ended after ` + seconds(t.run.timeout) + ` unless timeout_ms says otherwise.`
}

type shellInput struct {
	Command   string `json:"command" jsonschema:"The command line, exactly as the shell is to read it. At most 64 KiB."`
	Cwd       string `json:"cwd,omitempty" jsonschema:"The directory it runs in, relative to the project's root. Left out: the root."`
	Stdin     string `json:"stdin,omitempty" jsonschema:"What it reads from its standard input, at most 8 MiB. Left out: nothing, standard input is at its end."`
	TimeoutMS int64  `json:"timeout_ms,omitempty" jsonschema:"After how many milliseconds it is ended, with all that it started."`
	Pty       bool   `json:"pty,omitempty" jsonschema:"true: give it a terminal, for a program that does not work without one."`
	Columns   int    `json:"columns,omitempty" jsonschema:"The width of the terminal, 1 to 1000. Left out: 80."`
	Rows      int    `json:"rows,omitempty" jsonschema:"The height of the terminal, 1 to 1000. Left out: 24."`
}

type shellOutput struct {
	Directory string `json:"directory" jsonschema:"where it ran, relative to the root and without links; . is the root"`
	ending
	Notes []string `json:"notes,omitempty" jsonschema:"what is to be known of the output and of how it ended; the output itself is in the content"`
}

// shell prepares a command that runs to its end. The time that it may take is counted when
// it runs, since waiting for an approval spends none.
func (t tools) shell(ctx context.Context, _ sdk.Call, in shellInput) (sdk.Preparation[shellOutput], error) {
	timeout, err := t.timeout(in.TimeoutMS)
	if err != nil {
		return sdk.Preparation[shellOutput]{}, err
	}
	if len(in.Stdin) > maxStdin {
		return sdk.Preparation[shellOutput]{}, sdk.Failuref("stdin has %d bytes: at most %d; write it to a file and let the command read that", len(in.Stdin), maxStdin)
	}
	size, err := terminal(in.Pty, in.Columns, in.Rows)
	if err != nil {
		return sdk.Preparation[shellOutput]{}, err
	}
	command := sdk.Command{
		Line: in.Command, Directory: in.Cwd, Shell: t.run.shell, Stdin: []byte(in.Stdin), Idle: t.run.idle, Terminal: size,
	}
	return prepare(ctx, t, command, false, func(ctx context.Context, command sdk.Command) (shellOutput, error) {
		command.Timeout = timeout
		result, err := t.processes.Run(ctx, command, nil)
		if err != nil {
			return shellOutput{}, sdk.ToFailure(err)
		}
		notes := t.notes(command, result)
		if !succeeded(result) {
			return shellOutput{}, sdk.Failure(bracketed(notes))
		}
		return shellOutput{Directory: command.Directory, ending: endingOf(result), Notes: notes}, nil
	})
}

// timeout is how long the command may take.
func (t tools) timeout(ms int64) (time.Duration, error) {
	switch most := t.run.max.Milliseconds(); {
	case ms == 0:
		return t.run.timeout, nil
	case ms < 0 || ms > most:
		return 0, sdk.Failuref("timeout_ms is %d: give 1 to %d, or leave it out for %s; for what takes longer use process_start",
			ms, most, seconds(t.run.timeout))
	default:
		return time.Duration(ms) * time.Millisecond, nil
	}
}

// prepare plans a command that a shell is to read, and says what permission it needs; beside
// says that it is to go on when its call is over. The action runs what was planned: the line,
// in the directory that was found (law 27).
func prepare[Out any](
	ctx context.Context, t tools, command sdk.Command, beside bool, run func(context.Context, sdk.Command) (Out, error),
) (sdk.Preparation[Out], error) {
	if err := checkLine(command.Line); err != nil {
		return sdk.Preparation[Out]{}, err
	}
	plan, err := t.processes.Plan(ctx, command)
	if err != nil {
		return sdk.Preparation[Out]{}, sdk.ToFailure(err)
	}
	if beside && plan.CannotStart != "" {
		return sdk.Preparation[Out]{}, sdk.Failure(plan.CannotStart)
	}
	command.Directory, command.Place = plan.Directory, plan.Place
	metadata := map[string]string{"directory": plan.Directory}
	if plan.Confined != "" {
		metadata["confined"] = plan.Confined
	}
	if len(command.Stdin) > 0 {
		metadata["stdin"] = fmt.Sprintf("%s, of %d bytes", quoted(string(command.Stdin)), len(command.Stdin))
	}
	return sdk.Preparation[Out]{
		Irreversible: true, // of what a program does nobody knows
		Requests:     []sdk.PermissionRequest{{Action: "shell", Resources: []string{command.Line}, Metadata: metadata}},
		Targets:      []string{plan.Directory},
		Commit:       func(ctx context.Context, _ sdk.Call) (Out, error) { return run(ctx, command) },
	}, nil
}

// succeeded reports whether a command did what it was to do, as far as it says so itself.
func succeeded(r sdk.CommandResult) bool {
	return r.Ending == sdk.EndedItself && r.Signal == "" && r.Code == 0
}

// notes are what stands below the output of a command.
func (t tools) notes(command sdk.Command, r sdk.CommandResult) []string {
	var notes []string
	if r.Stdout+r.Stderr == 0 {
		notes = append(notes, "no output")
	}
	if r.Lost > 0 {
		notes = append(notes, strconv.FormatInt(r.Lost, 10)+" bytes in the middle of the output were dropped, and nobody has them: write to a file what is needed whole")
	}
	over := ": the command and all that it started were ended"
	if r.Survivors != "" {
		over = ": the command was ended"
	}
	switch {
	case r.Ending == sdk.EndedByCall:
		notes = append(notes, "timed out after "+seconds(r.Duration)+", as long as this call may take"+over+"; use process_start for what takes longer")
	case r.Ending == sdk.EndedByTimeout:
		notes = append(notes, "timed out after "+seconds(command.Timeout)+over+
			"; give timeout_ms, at most "+strconv.FormatInt(t.run.max.Milliseconds(), 10)+", or use process_start for what goes on")
	case r.Ending == sdk.EndedByIdle:
		notes = append(notes, "wrote nothing for "+seconds(command.Idle)+over+"; use process_start for what waits")
	default:
		notes = append(notes, endingOf(r).words()+", "+seconds(r.Duration))
	}
	if r.LeftRunning {
		notes = append(notes, "processes that it left running were ended with it: process_start is for what is to go on")
	}
	if r.Survivors != "" {
		notes = append(notes, "not all could be ended: "+strings.TrimSuffix(r.Survivors, "."))
	}
	return notes
}

func projectShell(_ shellInput, out shellOutput) (shellOutput, []sdk.Content) {
	return out, []sdk.Content{sdk.Text(bracketed(out.Notes))}
}
