package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

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

// id stands for the place in a [service.CommandPlan].
func (p Place) id() string { return fmt.Sprintf("%d:%d:%s", p.Device, p.Inode, p.Path) }

// A Profile is how the commands of one plugin run.
type Profile struct {
	// Policy confines them; nil is not at all. Its profile is [sandbox.Command].
	Policy *sandbox.Policy
	// Refused says why they are not run at all, such as where nobody said that they may be
	// without being confined; empty is that they are.
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
	// Left is how long the call may still take; nil is not known.
	Left func() time.Duration
}

// A Service runs the commands of one Location. It is safe for concurrent use, and ends with
// its scope.
type Service struct {
	options Options
	life    *scope.Scope

	mu       sync.Mutex
	running  int                 // under mu: commands that run, or are about to
	started  int64               // under mu: processes that were ever started beside a call
	sessions map[string]*session // under mu: those that have processes
}

// New makes a Service. On an error nothing is left of it.
func New(options Options) (*Service, error) {
	life, err := options.Scope.Fork("processes")
	if err != nil {
		return nil, err
	}
	return &Service{options: options, life: life, sessions: map[string]*session{}}, nil
}

// Plan finds out what is known of a command before it is run. It changes nothing and asks
// nobody. ctx bounds it. Errors are [*service.ProcessError]s, or the context's cause.
func (s *Service) Plan(ctx context.Context, caller Caller, command service.Command) (service.CommandPlan, error) {
	c, err := s.prepare(ctx, caller, command)
	if err != nil {
		return service.CommandPlan{}, err
	}
	plan := service.CommandPlan{
		Directory: c.place.Path, Place: c.place.id(), Shell: c.shell, Confined: c.profile.inWords(),
	}
	if err := s.mayStart(caller.Session); err != nil {
		plan.CannotStart = err.Error()
	}
	return plan, nil
}

// Run runs a command to its end, which ctx brings about as well; then the error is the
// context's cause, and nothing of the command is left. How it ended is no error otherwise.
//
// Each piece of its output goes to output, one after the other and in the order of arrival; an
// error of that ends the command and is returned. If output is nil standard output and standard
// error are one stream, in the order of writing, which goes to the caller's output, and how it
// goes on to the caller's Progress.
//
// Errors before the command started are [*service.ProcessError]s, [*tool.Refusal]s, or the
// context's cause.
func (s *Service) Run(ctx context.Context, caller Caller, command service.Command, output func(service.Chunk) error) (service.CommandResult, error) {
	c, err := s.permitted(ctx, caller, command)
	if err != nil {
		return service.CommandResult{}, err
	}
	done, err := s.begin()
	if err != nil {
		return service.CommandResult{}, err
	}
	defer done()
	out := &sinks{}
	if output == nil {
		output = toCall(caller.Output)
		out.joined, out.progress = true, newProgress(caller.Progress)
	}
	limited := newLimited(output)
	out.chunk, out.last = limited.take, limited.end
	result, err := s.execute(ctx, c, out, nil)
	result.Lost = limited.lost
	return result, err
}

// begin counts a command that is about to run.
func (s *Service) begin() (done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running >= service.MaxLocationProcesses {
		return nil, &service.ProcessError{Kind: service.ProcessTooMany, Detail: fmt.Sprintf(
			"%d commands run in this project already, which is the most: wait for one to end, or stop one", s.running)}
	}
	s.running++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running--
	}, nil
}

// errEnded is why a command ends with its session or its Location.
var errEnded = errors.New("the process service ends")

// inWords says what a command can reach, for whoever is asked about it.
func (p *Profile) inWords() string {
	switch {
	case p.Policy == nil:
		return "not confined: it has all the rights of your user"
	case p.Policy.Network:
		return "the project's files, and the network"
	default:
		return "the project's files, and no network"
	}
}
