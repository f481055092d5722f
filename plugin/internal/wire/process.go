package wire

import (
	"context"

	"github.com/toolhost/toolhost/service"
)

// Process is the host's process service. Errors are [*service.ProcessError] or
// [*tool.Refusal]; anything else means that the connection broke. Processes belong to the
// session of the call that started them.
type Process interface {
	// Plan finds out what is known of a command before it is run.
	Plan(ctx context.Context, command service.Command) (service.CommandPlan, error)
	// Run runs a command to its end. With output it gets each piece of the output in the order
	// of its arrival, and an error of it ends the command; without, the output is that of the
	// call, and so is the progress.
	Run(ctx context.Context, command service.Command, output func(service.Chunk) error) (service.CommandResult, error)
	// Start starts a command that goes on when the call has ended.
	Start(ctx context.Context, command service.Command) (service.ProcessInfo, error)
	// Output gives a part of the output of a process.
	Output(ctx context.Context, query service.OutputQuery) (service.ProcessOutput, error)
	// Input writes to the standard input of a process and, if last, ends it.
	Input(ctx context.Context, id string, data []byte, last bool) error
	// Stop ends a process with all that it started.
	Stop(ctx context.Context, id string) (service.ProcessInfo, error)
	// List lists the processes of the session, the oldest first.
	List(ctx context.Context) ([]service.ProcessInfo, error)
}
