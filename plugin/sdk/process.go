package sdk

import (
	"context"

	"github.com/toolhost/toolhost/plugin/internal/wire"
	"github.com/toolhost/toolhost/service"
)

// Commands, and the processes that they are. Package service documents the fields and their
// bounds.
type (
	// Command is a command line, and how it is to be run.
	Command = service.Command
	// TerminalSize is the size of a terminal.
	TerminalSize = service.TerminalSize
	// CommandPlan is what is known of a command before it is run.
	CommandPlan = service.CommandPlan
	// Chunk is a piece of the output of a command.
	Chunk = service.Chunk
	// Stream is where a command wrote to.
	Stream = service.Stream
	// CommandResult is how a command ended.
	CommandResult = service.CommandResult
	// Ending is by whose doing a command ended.
	Ending = service.Ending
	// ProcessInfo is what is known of a process that runs beside the call that started it.
	ProcessInfo = service.ProcessInfo
	// ProcessInput is what is typed to a process.
	ProcessInput = service.ProcessInput
	// OutputQuery asks for the output of a process.
	OutputQuery = service.OutputQuery
	// ProcessOutput is a part of the output of a process.
	ProcessOutput = service.ProcessOutput
	// ProcessError is an error of the process service, with a kind.
	ProcessError = service.ProcessError
)

// Where a command writes to, and by whose doing it ends.
const (
	Stdout         = service.Stdout
	Stderr         = service.Stderr
	EndedItself    = service.EndedItself
	EndedByTimeout = service.EndedByTimeout
	EndedByIdle    = service.EndedByIdle
	EndedByCall    = service.EndedByCall
	EndedByStop    = service.EndedByStop
)

// ProcessNoShell is the kind of a [ProcessError] about a shell that is not there, or is none
// that command lines are judged for.
const ProcessNoShell = service.ProcessNoShell

// Processes runs commands in the Location. The host starts them, confines them and ends them:
// with the call, or with the session that they were started in, and with the Location. It may
// be used concurrently, with the context of a handler, and Plan and List with that of a
// preparation, too.
//
// A tool that runs commands is best made by [NewPrepared]: it makes a plan in its preparation,
// requests the permission "shell" for the line if it is built in, with the plan's directory in
// the metadata, and runs the command in its action with the plan's Place. The host asks for
// "shell" itself, before it starts anything, about a plugin that is not built in.
//
// Errors are a [*ProcessError], which is meant to be shown to a model ([ToFailure]), a
// [*Refusal], or a [*ServiceError].
type Processes struct{ client wire.Process }

// Plan finds out what is known of a command before it is run. It changes nothing.
func (p *Processes) Plan(ctx context.Context, command Command) (CommandPlan, error) {
	if err := needsCall(ctx, Commands); err != nil {
		return CommandPlan{}, err
	}
	plan, err := p.client.Plan(ctx, command)
	return plan, fromService(ctx, Commands, err)
}

// Run runs a command to its end, which ctx brings about as well. With output it gets each
// piece of the output in the order of its arrival; an error of it ends the command and is what
// Run returns. If output is nil what the command writes becomes the output of the call, as if it
// were written to [Call.Output], and its last lines are reported as progress; nothing of it
// crosses to the plugin then, and what is lost of it the host adds to what the call has lost.
//
// How the command ended is no error, whatever that was.
func (p *Processes) Run(ctx context.Context, command Command, output func(Chunk) error) (CommandResult, error) {
	if err := needsCall(ctx, Commands); err != nil {
		return CommandResult{}, err
	}
	if output == nil {
		result, err := p.client.Run(ctx, command, nil)
		return result, fromService(ctx, Commands, err)
	}
	var own error
	result, err := p.client.Run(ctx, command, func(_ context.Context, chunk Chunk) error {
		own = output(chunk)
		return own
	})
	if own != nil {
		return result, own
	}
	return result, fromService(ctx, Commands, err)
}

// Start starts a command that goes on when the call has ended. It belongs to the session of the
// call.
func (p *Processes) Start(ctx context.Context, command Command) (ProcessInfo, error) {
	if err := needsCall(ctx, Commands); err != nil {
		return ProcessInfo{}, err
	}
	info, err := p.client.Start(ctx, command)
	return info, fromService(ctx, Commands, err)
}

// Output gives a part of the output of a process of the session.
func (p *Processes) Output(ctx context.Context, query OutputQuery) (ProcessOutput, error) {
	if err := needsCall(ctx, Commands); err != nil {
		return ProcessOutput{}, err
	}
	output, err := p.client.Output(ctx, query)
	return output, fromService(ctx, Commands, err)
}

// Input writes to the standard input of a process of the session, or types at its terminal. It
// is judged as a command line, with what was typed before on the same line. It is an error if the
// process does not take all of it within some seconds.
func (p *Processes) Input(ctx context.Context, input ProcessInput) error {
	if err := needsCall(ctx, Commands); err != nil {
		return err
	}
	return fromService(ctx, Commands, p.client.Input(ctx, input))
}

// Stop ends a process of the session with all that it started: it is asked to, and killed soon
// after. It returns when nothing of it is left. One that has ended is no error.
func (p *Processes) Stop(ctx context.Context, id string) (ProcessInfo, error) {
	if err := needsCall(ctx, Commands); err != nil {
		return ProcessInfo{}, err
	}
	info, err := p.client.Stop(ctx, id)
	return info, fromService(ctx, Commands, err)
}

// List lists the processes of the session, the oldest first, those that have ended with them.
func (p *Processes) List(ctx context.Context) ([]ProcessInfo, error) {
	if err := needsCall(ctx, Commands); err != nil {
		return nil, err
	}
	list, err := p.client.List(ctx)
	return list, fromService(ctx, Commands, err)
}
