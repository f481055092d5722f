// Package location owns one Location while it is active: its root directory, its
// services, its registry, and the incarnations of its plugins.
//
// [Open] acquires all of that in a scope of its own, in which each plugin has
// another one. What a plugin does wrong is that plugin's trouble: the Location is
// open when its root is, and says of each plugin whether it serves, and why not.
package location

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/plugin/client"
	"github.com/toolhost/toolhost/sandbox"
	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/service/filesystem"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/service/process"
	"github.com/toolhost/toolhost/state"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// Options is what the host gives to its Locations.
type Options struct {
	// Launcher runs the reapers.
	Launcher sandbox.Launcher
	// Tier finds out how strongly this machine confines processes, once for all Locations;
	// nil is not at all. Programs keeps what confined plugins run.
	Tier     func(ctx context.Context) sandbox.Finding
	Programs *sandbox.Programs
	// RunDir is the host's private directory.
	RunDir string
	// Builtins are the commands of the plugins that ship with the host, by name.
	Builtins map[string][]string
	// Approver answers what no rule does. Nil means that there is nobody to ask.
	Approver permission.Approver
	// Approvals are those that were saved; nil is none.
	Approvals permission.Approvals
	// Outputs is the directory below which whole outputs are kept.
	Outputs string
	// State, if it is not nil, remembers which instructions a session was given, which
	// files it read, and which are being changed, and Calls records the calls that may do more than read.
	State *state.Store
	Calls *state.Calls
	// Hooks are those of the embedding program (law 21).
	Hooks registry.Hooks
	// Contradicted is told what a tool would have done beyond its effects; it may be
	// nil.
	Contradicted func(tool.Contradiction)
	// Record takes what happens, for the audit log; nil is nobody.
	Record func(state.AuditEntry)
	// Log is the host's log.
	Log *slog.Logger
	// Deadline is how long a call may take that says nothing else, and Suspension how
	// long one may wait for a person; 0 is the registry's default.
	Deadline, Suspension time.Duration
	// StartTimeout bounds the start of a plugin; 0 is the client's default.
	StartTimeout time.Duration
	// Supervision is what becomes of plugins that crash or hang.
	Supervision Supervision
	// Event is told what happens, in order, by whoever brings it about. It must not block,
	// and may be nil.
	Event func(Event)
	// OneShot says why nothing is started that goes on when its call has ended, in words that
	// say what to do; empty is that it may be.
	OneShot string
}

// Location is one open Location. Its methods may be called concurrently.
type Location struct {
	name     string
	root     string // as it is spelled
	rootInfo os.FileInfo
	options  Options
	log      *slog.Logger
	life     *scope.Scope
	files    *filesystem.FileSystem
	record   *record // nil: nothing is recorded
	registry *registry.Registry
	running  *scope.Scope     // of the processes, a fork of life; nil before there is one
	process  *process.Service // what runs commands

	generation atomic.Pointer[generation]
	closed     sync.Once     // tells of it
	reloading  chan struct{} // has room for the one who changes the generation

	mu    sync.Mutex
	all   map[*plugin]struct{} // under mu: the plugins that have something
	stale string               // under mu: why the last reload changed nothing
}

// Open opens the root and starts the plugins, all at the same time. It returns
// when each of them is ready or has failed. ctx bounds that; the Location lives
// in a fork of parent until Close.
//
// The error is about the Location: its root is missing, say. Nothing is left of
// it then. A plugin that fails is no error; see [Location.Plugins].
func Open(ctx context.Context, parent *scope.Scope, cfg config.Location, options Options) (*Location, error) {
	life, err := parent.Fork("location " + cfg.Name)
	if err != nil {
		return nil, err
	}
	options.Supervision = options.Supervision.withDefaults()
	l := &Location{
		name: cfg.Name, root: cfg.Root, options: options, life: life, log: options.Log.With("location", cfg.Name),
		reloading: make(chan struct{}, 1), all: map[*plugin]struct{}{},
	}
	if err := l.open(ctx, cfg); err != nil {
		closing := l.Close(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("location %s: %w", cfg.Name, errors.Join(err, closing))
	}
	l.tell(Event{Kind: EventOpened})
	return l, nil
}

func (l *Location) open(ctx context.Context, cfg config.Location) (err error) {
	if l.rootInfo, err = os.Stat(l.root); err != nil {
		return fmt.Errorf("its root cannot be looked at: %w", err)
	}
	if l.files, err = l.openFiles(); err != nil {
		return err
	}
	if err := l.life.Defer("root", func(context.Context) error { return l.files.Close() }); err != nil {
		return err
	}
	l.recoverChanges(ctx)
	if err := l.openProcesses(); err != nil {
		return err
	}
	l.record = l.recorder()
	g := &generation{config: cfg, engine: l.engine(cfg), finder: l.finder(cfg)}
	if g.outputs, err = l.keeper(cfg); err != nil {
		return err
	}
	options := registry.Options{
		Gate: l.gate, Scope: l.life, Deadline: l.options.Deadline, Suspension: l.options.Suspension, Output: g.outputs,
		Journal: l.journal(), Hooks: l.options.Hooks, Instructions: l.instructions, Contradicted: l.contradicted, Log: l.log,
	}
	if l.record != nil {
		options.Recorder = l.record
	}
	if l.options.Event != nil {
		options.Recorder, options.Began = &callRecorder{l, options.Recorder}, l.began
	}
	if l.registry, err = registry.New(options); err != nil {
		return err
	}
	g.tools = l.hostTools(g.outputs)
	l.registry.Swap([]*registry.Set{g.tools}, nil)
	for _, c := range cfg.Plugins {
		p, err := l.newPlugin(c)
		if err != nil {
			return err
		}
		g.plugins = append(g.plugins, p)
	}
	l.generation.Store(g)
	return l.startAll(ctx, g.plugins)
}

// startAll starts plugins at the same time, each of which is shown as soon as it is
// ready, and begins their supervision.
func (l *Location) startAll(ctx context.Context, plugins []*plugin) error {
	var starting errgroup.Group
	for _, p := range plugins {
		starting.Go(func() error {
			l.tell(Event{Kind: EventPlugin, Plugin: p.config.Name, State: client.Starting})
			first := p.attempt(ctx)
			if first == nil {
				p.publish()
			}
			if err := p.supervise(first); err != nil {
				return err
			}
			<-p.settled
			return nil
		})
	}
	return errors.Join(starting.Wait(), context.Cause(ctx))
}

// engine judges by what config says.
func (l *Location) engine(cfg config.Location) *permission.Engine {
	engine := permission.New(cfg.Policy, permission.Bounded(l.options.Approver, l.life)).WithApprovals(l.options.Approvals)
	if l.record != nil {
		engine = engine.WithRecorder(l.record)
	}
	return engine.WithCurrent(l.currentEngine)
}

// currentEngine is the engine of the generation that serves; nil while there is none.
func (l *Location) currentEngine() *permission.Engine {
	if now := l.current(); now != nil {
		return now.engine
	}
	return nil
}

// gate makes a gate of one call, which tells nobody if that is only explained.
func (l *Location) gate(caller registry.Caller) tool.Gate {
	engine := l.current().engine
	if caller.Explaining {
		engine = engine.WithRecorder(nil)
	}
	return engine.Gate(l.caller(caller))
}

// caller is whose call it is, in the words of the engine.
func (l *Location) caller(caller registry.Caller) permission.Caller {
	return permission.Caller{
		Identity: caller.Identity, Tool: caller.Tool, Plugin: caller.Plugin, Builtin: caller.Builtin, Preparing: caller.Preparing,
		Root: l.files.Path(), Digest: caller.Digest, Definition: caller.Definition, Input: caller.Input,
		Effects: caller.Effects, Irreversible: caller.Irreversible, Review: caller.Review, Diff: caller.Diff, Asking: caller.Asking,
	}
}

// Name is the Location's name.
func (l *Location) Name() string { return l.name }

// Root is the absolute path of the Location's directory.
func (l *Location) Root() string { return l.root }

// Capture is the tools as they are now, for one request of a model.
func (l *Location) Capture() *registry.Capture { return l.registry.Capture() }

// Subscribe tells of changes of the tools; see [registry.Registry.Subscribe].
func (l *Location) Subscribe() (changes <-chan struct{}, stop func()) { return l.registry.Subscribe() }

// Resume takes up a call that was suspended; see [registry.Registry.Resume].
func (l *Location) Resume(ctx context.Context, session, handle string, after time.Duration) (tool.Settlement, error) {
	return l.registry.Resume(ctx, session, handle, after)
}

// Withdraw ends a suspended call without an answer; see [registry.Registry.Withdraw].
func (l *Location) Withdraw(ctx context.Context, session, handle string) (tool.Settlement, error) {
	return l.registry.Withdraw(ctx, session, handle)
}

// Suspended lists the calls that wait for a person and for which nobody waits.
func (l *Location) Suspended() []*tool.Suspension { return l.registry.Suspended() }

// Register adds tools of the embedding program. They run in this process, come
// after the tools of the plugins where names collide, and get none of the
// Location's services (law 6); rules speak of them as name/tool. The name must not
// be that of a plugin, which is an error.
func (l *Location) Register(name string, tools map[string]tool.Tool) (*registry.Registration, registry.Report, error) {
	if name == hostOwner || slices.ContainsFunc(l.current().plugins, func(p *plugin) bool { return p.config.Name == name }) {
		return nil, registry.Report{}, fmt.Errorf("location %s: the name %q belongs to a plugin: register the program's tools under another", l.name, name)
	}
	registration, report := l.registry.Register(registry.Owner{Name: name, Application: true, Digest: programDigest}, tools)
	return registration, report, nil
}

// programDigest stands for the embedding program itself: what was approved for one
// of its tools is approved whichever version of it runs.
const programDigest = "program"

// Refusals are the tools of a plugin, or of the embedding program under a name, that
// cannot be called now, each with its reason.
func (l *Location) Refusals(owner string) []registry.Refusal { return l.registry.Refusals(owner) }

// Closed reports whether the Location was closed, or is being closed.
func (l *Location) Closed() bool { return l.life.Context().Err() != nil }

// Close ends the Location and everything that it owns, its plugins and the processes that
// they run at the same time. It is for whoever opened the Location; of a host's, that is the host. It takes five seconds at most (law 42). It may be called more than once.
func (l *Location) Close(ctx context.Context) error {
	l.life.Cancel(errClosed)
	var closing errgroup.Group
	if l.running != nil {
		closing.Go(func() error { return l.running.Close(ctx) })
	}
	for _, p := range l.everyPlugin() {
		closing.Go(func() error { return p.close(ctx) })
	}
	err := errors.Join(closing.Wait(), l.life.Close(ctx))
	l.closed.Do(func() { l.tell(Event{Kind: EventClosed}) })
	return err
}

var errClosed = errors.New("the Location is closed")

// environ resolves the names that config passes through. What is not set is
// passed as nothing at all.
func environ(names []string) []string {
	var out []string
	for _, name := range names {
		if value, ok := os.LookupEnv(name); ok {
			out = append(out, name+"="+value)
		}
	}
	return out
}
