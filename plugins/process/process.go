// Package process is the built-in plugin for commands: shell runs a command line to its end,
// and process_start, process_output, process_input, process_stop and process_list are for
// what goes on beside the calls. It is an ordinary plugin, which imports what the plugin of
// a stranger imports, and asks what that would ask. It runs nothing itself: the host starts
// each command, confines it and ends it with all that it started.
//
// A call that hands a line to a shell is prepared. Its preparation makes a plan, which finds
// the directory and the shell, so that what cannot be run is a failure before anybody is
// asked; it requests "shell" for the line exactly as it will be run, with the directory in
// the metadata; and its action runs the line in that very directory, whatever the path
// leads to by then (laws 25 to 27):
//
//	tool            action  resources  metadata
//	shell           shell   the line   directory, confined
//	process_start   shell   the line   directory, confined
//	process_input   shell   the text   directory, process
//
// What "always" would save is the host's to say: the line alone, in its directory. The other
// tools, and an input that only closes, ask nothing, since they concern what this session
// started and nothing else.
//
// # Answers
//
// What a command writes is the output of its call: it goes to the host as it comes and never
// through the plugin, so that the host bounds what is shown and keeps the whole. Below it
// stand notes in square brackets: how the command ended, in how long, and what is missing.
//
// A command of shell that ends with another status than 0, by a signal, or because its time was
// up is a failure with those notes as its message (law 22, case B13), since whoever
// reads no further than the flag must not take it for done, and the output stands before
// the message all the same. So a completed call of shell is one with exit status 0. The
// structured value, which only that has, counts and measures; the output is in the content
// alone. Of a process that was started the ending is data, and no failure: asking what
// became of it succeeded.
//
// A call that is out of time has no answer at all, so a command of shell ends some seconds
// before its call would: the model reads what there was, and that it took too long.
package process

import (
	"context"
	"errors"
	"fmt"

	"github.com/toolhost/toolhost/plugin/sdk"
)

// New makes the plugin.
func New() sdk.Plugin {
	return sdk.Plugin{
		Name:     "process",
		Version:  "0.1.0",
		Needs:    []sdk.Service{sdk.Commands, sdk.Permissions},
		Settings: settings{},
		Activate: activate,
	}
}

func activate(ctx context.Context, loc sdk.Location) error {
	processes, err := loc.Process()
	if err != nil {
		return err
	}
	var s settings
	if err := loc.Settings(&s); err != nil {
		return err
	}
	run, err := s.parse()
	if err != nil {
		return err
	}
	if err := findsShell(ctx, processes, run.shell); err != nil {
		return err
	}
	t := tools{processes, run}
	_, err = loc.Tools.Register(ctx, sdk.Tools{
		"shell": sdk.NewPreparedProjected(t.shellDescription(), t.shell, unprepared[shellInput, shellOutput], projectShell,
			sdk.Process, sdk.Irreversible, sdk.Title("Run a command")),
		"process_start": sdk.NewPreparedProjected(startDescription, t.start, unprepared[startInput, startOutput], projectStart,
			sdk.Process, sdk.Irreversible, sdk.Title("Start a process")),
		"process_input": sdk.NewPreparedProjected(inputDescription, t.input, unprepared[inputInput, inputOutput], projectInput,
			sdk.Process, sdk.Irreversible, sdk.Title("Write to a process")),
		"process_stop": sdk.NewPreparedProjected(stopDescription, near[stopInput, stopOutput](t), t.stop, projectStop,
			sdk.Process, sdk.Irreversible, sdk.Title("Stop a process")),
		"process_output": sdk.NewPreparedProjected(outputDescription, near[outputInput, outputOutput](t), t.output, projectOutput,
			sdk.Read, sdk.Title("Read a process's output")),
		"process_list": sdk.NewProjected(listDescription, t.list, projectList, sdk.Read, sdk.Title("List processes")),
	})
	return err
}

// findsShell says of a shell that is not there what a call would, before there is one. That
// commands cannot be run for another reason is no matter of the settings, and each call says it.
func findsShell(ctx context.Context, processes *sdk.Processes, shell string) error {
	_, err := processes.Plan(ctx, sdk.Command{Line: ":", Shell: shell})
	if wrong, is := errors.AsType[*sdk.ProcessError](err); is && wrong.Kind == sdk.ProcessNoShell {
		if shell == "" {
			return wrong
		}
		return fmt.Errorf("setting shell: %w", wrong)
	}
	return nil
}

// tools are the handlers and what they captured.
type tools struct {
	processes *sdk.Processes
	run       running
}

// unprepared is the handler of a tool whose every call has an action in place of it.
func unprepared[In, Out any](context.Context, sdk.Call, In) (Out, error) {
	var none Out
	return none, errors.New("the call was not prepared")
}

// A named input is about a process.
type named interface{ process() string }

// near is the preparation of a call that asks nothing: it is about the directory of its
// process (law 30).
func near[In named, Out any](t tools) func(context.Context, sdk.Call, In) (sdk.Preparation[Out], error) {
	return func(ctx context.Context, _ sdk.Call, in In) (sdk.Preparation[Out], error) {
		info, err := t.find(ctx, in.process())
		if err != nil {
			return sdk.Preparation[Out]{}, err
		}
		return sdk.Preparation[Out]{Targets: []string{info.Directory}}, nil
	}
}

// find gives the process of the session with the id. The error is ready to be returned.
func (t tools) find(ctx context.Context, id string) (sdk.ProcessInfo, error) {
	list, err := t.processes.List(ctx)
	if err != nil {
		return sdk.ProcessInfo{}, sdk.ToFailure(err)
	}
	for _, info := range list {
		if info.ID == id {
			return info, nil
		}
	}
	return sdk.ProcessInfo{}, sdk.Failuref("there is no process %s in this session: process_list shows which there are", quoted(id))
}
