package process

import (
	"context"
	"io"

	"github.com/toolhost/toolhost/sandbox"
	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/tool"
)

// Options are what a Service needs of its Location.
type Options struct {
	// Scope owns every process: when it is closed they are ended.
	Scope *scope.Scope
	// Launcher starts them.
	Launcher sandbox.Launcher
	// Root is the Location's root, absolute and without links.
	Root string
	// Find finds a directory of the Location. Its errors are [*service.ProcessError]s, or the
	// context's cause.
	Find func(ctx context.Context, gate tool.Gate, path string) (Place, error)
	// OneShot says why nothing is started that goes on when its call has ended, in words that
	// say what to do; empty is that it may be.
	OneShot string
}

// A Place is a directory of the Location, as it was found.
type Place struct {
	// Path is relative to the root, with every link resolved; "." is the root.
	Path string
	// Device and Inode are what it is, whatever the path refers to later.
	Device, Inode uint64
}

// A Profile is how the commands of one plugin run.
type Profile struct {
	// Policy confines them, beside the root, which they may write in; nil is not at all.
	Policy *sandbox.Policy
	// Refused says why they are not run at all, where nobody said that they may be without being
	// confined; empty is that they are.
	Refused string
	// Env is their environment, as KEY=value, beside what the service sets itself.
	Env []string
}

// A Caller is on whose behalf the service acts.
type Caller struct {
	// Gate answers the permission questions of the call; it must not be nil.
	Gate tool.Gate
	// Session is the session of the call, which owns what is started in it, and Plugin the key
	// of the plugin in the configuration.
	Session, Plugin string
	// Profile is the plugin's.
	Profile *Profile
	// Output and Progress are those of the call, for [Service.Run]; they may be nil.
	Output   io.Writer
	Progress func(tool.Progress)
}

// A Service runs the commands of one Location. It is safe for concurrent use, and ends with
// its scope.
type Service struct{ options Options }

// New makes a Service. On an error nothing is left of it.
func New(options Options) (*Service, error) { return &Service{options: options}, nil }

// Plan finds out what is known of a command before it is run. It changes nothing and asks
// nobody.
func (s *Service) Plan(ctx context.Context, caller Caller, command service.Command) (service.CommandPlan, error) {
	return service.CommandPlan{}, nil
}

// Run runs a command to its end.
func (s *Service) Run(ctx context.Context, caller Caller, command service.Command, output func(service.Chunk) error) (service.CommandResult, error) {
	return service.CommandResult{}, nil
}

// Start starts a command that goes on when the call has ended.
func (s *Service) Start(ctx context.Context, caller Caller, command service.Command) (service.ProcessInfo, error) {
	return service.ProcessInfo{}, nil
}

// Output gives a part of the output of a process of the session.
func (s *Service) Output(ctx context.Context, caller Caller, query service.OutputQuery) (service.ProcessOutput, error) {
	return service.ProcessOutput{}, nil
}

// Input writes to the standard input of a process of the session and, if last, ends it.
func (s *Service) Input(ctx context.Context, caller Caller, id string, data []byte, last bool) error {
	return nil
}

// Stop ends a process of the session.
func (s *Service) Stop(ctx context.Context, caller Caller, id string) (service.ProcessInfo, error) {
	return service.ProcessInfo{}, nil
}

// List lists the processes of the session, the oldest first.
func (s *Service) List(ctx context.Context, caller Caller) ([]service.ProcessInfo, error) {
	return nil, nil
}

// EndSession ends the processes of a session, and forgets them.
func (s *Service) EndSession(ctx context.Context, session string) error { return nil }

// EndPlugin ends the processes that a plugin started, in every session, and forgets them.
func (s *Service) EndPlugin(ctx context.Context, plugin string) error { return nil }
