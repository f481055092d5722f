// Package host is what a program embeds: a set of Locations from one
// configuration. [Open] reads nothing and starts nothing but the host itself;
// each Location is activated when it is first asked for, and everything is gone
// when [Host.Close] returns.
//
// A program that embeds the host says where its reaper and its built-in plugins
// are: usually its own binary, run again with arguments at which its main calls
// sandbox.Main or sdk.Serve.
package host

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/plugin/client"
	"github.com/toolhost/toolhost/sandbox"
	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/state"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// Options is what an embedding program decides. The zero value works, without
// built-ins and without a reaper.
type Options struct {
	// Launcher is how to run the reaper; see [sandbox.Launcher]. Without one, what a
	// plugin leaves behind in a session of its own is not ended.
	Launcher sandbox.Launcher
	// Builtins are the commands of the built-in plugins, by name. The first element
	// is an absolute path.
	Builtins map[string][]string
	// Approver answers what no rule does. Nil means that there is nobody to ask,
	// and the answer is no.
	Approver permission.Approver
	// State is what outlives the host: it has the saved approvals (see [Approvals]),
	// remembers which instructions a session was given, records the calls that may do
	// more than read, and has the kept outputs beside its database (laws 15, 18, 30, 34,
	// 45). It stays the caller's, who closes it after the host. Nil keeps outputs as long as the host is open, and records
	// nothing: what a killed host leaves of a change of files stays then.
	State *state.Store
	// Audit is the log of what is asked, answered, refused and done. A gap in it is
	// logged and stops no call. It stays the caller's, who closes it after the host. Nil
	// records nothing.
	Audit *state.Audit
	// Hooks are functions around every call (law 21).
	Hooks registry.Hooks
	// Contradicted is told what a tool would have done beyond what its call may do; it
	// was refused (laws 23, 24). It must not block, and may be nil.
	Contradicted func(tool.Contradiction)
	// Log is where host and plugins log; nil is nowhere.
	Log *slog.Logger
	// Deadline is how long a call may take that does not say; 0 is [registry.DefaultDeadline].
	Deadline time.Duration
	// Suspension is how long a suspended call waits for a person; 0 is
	// [registry.DefaultSuspension].
	Suspension time.Duration
	// StartTimeout bounds the start of each plugin; 0 is twenty seconds.
	StartTimeout time.Duration
	// Supervision is what becomes of plugins that crash or hang, and how long what was
	// replaced is drained. The zero value is what law 44 says.
	Supervision location.Supervision
	// Idle is after how long a Location is closed that has no calls and no processes, and
	// of which nobody follows the tools; it is opened again when it is asked for. 0 closes
	// none.
	Idle time.Duration
	// Events is told what happens, one event after another, by one goroutine: plugins
	// that change their state, tools that appear and vanish, calls, contradictions, and
	// reloads. Nobody in the host waits for it: of more than a few thousand events that
	// wait the last are dropped, and counted in the next. It must return before the host
	// can be closed, and may be nil.
	Events func(Event)
	// OneShot, where the host ends with a call, says so and what to do: nothing is started
	// then that would go on after its call. Empty is that processes may be started, which end
	// with their session or Location.
	OneShot string
}

// Host is an open host. Its methods may be called concurrently.
type Host struct {
	options   location.Options
	life      *scope.Scope
	events    *events       // nil: nobody takes them
	reloading chan struct{} // has room for the one who reloads

	mu        sync.Mutex
	config    *config.Config         // under mu
	wanted    *config.Config         // under mu: what the last reload was to put into effect
	stale     string                 // under mu
	locations map[string]*activation // under mu
	programs  []*Registration        // under mu: of the embedding program, oldest first
	closed    bool                   // under mu
}

// activation is a Location that is being activated or is active.
type activation struct {
	root       string
	asked      time.Time // under the host's mu: when it was last asked for
	asking     int       // under the host's mu: who waits for it
	done       chan struct{}
	location   *location.Location // set before done is closed
	err        error              // set before done is closed
	registered bool               // under the host's mu: the program's tools are in it
}

// ready reports whether the activation has ended, one way or the other.
func (a *activation) ready() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// over reports whether the Location was closed since it was activated.
func (a *activation) over() bool { return a.ready() && a.location != nil && a.location.Closed() }

// Open makes a host for a configuration. It activates nothing yet. ctx gives the
// host its values and, when it ends, ends its work; only Close releases what the
// host has.
//
// What earlier hosts of this user left that were killed is removed in the background,
// beside those that live (law 41): their private directories, and with a state, their
// open calls and half-written outputs. What they left of a change of files below the
// root of a Location is dealt with when that is activated. The log says what was done,
// and what could not be; nothing of it fails the host.
func Open(ctx context.Context, cfg *config.Config, options Options) (*Host, error) {
	h := &Host{
		config: cfg, wanted: cfg, life: scope.New(ctx, "host"), locations: map[string]*activation{}, reloading: make(chan struct{}, 1),
	}
	runDir, err := client.OpenRunDir(h.life)
	if err != nil {
		return nil, errors.Join(err, h.life.Close(context.WithoutCancel(ctx)))
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	h.options = location.Options{
		Launcher: options.Launcher, RunDir: runDir, Builtins: options.Builtins, Approver: options.Approver,
		Outputs: filepath.Join(runDir, "outputs"), State: options.State, Hooks: options.Hooks, Contradicted: options.Contradicted,
		Log: options.Log, Deadline: options.Deadline, Suspension: options.Suspension, StartTimeout: options.StartTimeout,
		OneShot: options.OneShot,
	}
	h.options.Supervision = options.Supervision
	if options.Events != nil {
		if h.events, err = newEvents(h.life, options.Events, options.Log); err != nil {
			return nil, errors.Join(err, h.life.Close(context.WithoutCancel(ctx)))
		}
		h.options.Event = h.events.put
	}
	if err := h.life.Go("run directories of killed hosts", h.sweepRunDirs); err != nil {
		return nil, errors.Join(err, h.life.Close(context.WithoutCancel(ctx)))
	}
	h.options.Programs = &sandbox.Programs{}
	h.options.Tier = h.tier(options.Launcher)
	if options.Audit != nil {
		h.options.Record = (&audit{log: options.Audit, says: options.Log}).take
	}
	if options.State != nil {
		if err := h.useState(options.State); err != nil {
			return nil, errors.Join(err, h.life.Close(context.WithoutCancel(ctx)))
		}
	}
	if options.Idle > 0 {
		if err := h.life.Go("idle Locations", func(ctx context.Context) error { return h.closeIdle(ctx, options.Idle) }); err != nil {
			return nil, errors.Join(err, h.life.Close(context.WithoutCancel(ctx)))
		}
	}
	return h, nil
}

// sweepRunDirs removes what killed hosts left in the directories for temporary files.
func (h *Host) sweepRunDirs(ctx context.Context) error {
	removed, err := client.SweepRunDirs(ctx)
	if removed > 0 {
		h.options.Log.Info("removed the private directories of hosts that were killed", slog.Int("directories", removed))
	}
	if err != nil && ctx.Err() == nil {
		h.options.Log.Warn("private directories of killed hosts were not removed", slog.Any("error", err))
	}
	return nil
}

// tier finds out how strongly this machine confines, when a plugin is first started.
func (h *Host) tier(launcher sandbox.Launcher) func(context.Context) sandbox.Finding {
	find := sync.OnceValue(func() sandbox.Finding { // for all who ask, so that none of them ends it
		ctx, cancel := context.WithTimeout(h.life.Context(), probeTimeout)
		defer cancel()
		return sandbox.Probe(ctx, h.life, launcher)
	})
	return func(context.Context) sandbox.Finding { return find() }
}

// probeTimeout is how long it may take to find out.
const probeTimeout = 10 * time.Second

// Locations lists the names of the configured Locations, in their order.
func (h *Host) Locations() []string {
	cfg := h.Config()
	names := make([]string, 0, len(cfg.Locations))
	for _, l := range cfg.Locations {
		names = append(names, l.Name)
	}
	return names
}

// Active are the Locations that are active now, sorted by name. It activates none.
func (h *Host) Active() []*location.Location {
	h.mu.Lock()
	defer h.mu.Unlock()
	var active []*location.Location
	for _, a := range h.locations {
		if a.ready() && a.location != nil && !a.location.Closed() {
			active = append(active, a.location)
		}
	}
	slices.SortFunc(active, func(a, b *location.Location) int { return strings.Compare(a.Name(), b.Name()) })
	return active
}

// Location gives a Location by its name, and activates it if it is not active. An
// empty name stands for the one that the working directory is in; see
// [config.Config.Location].
// Callers at the same time share one activation, and ctx bounds only the waiting
// of this one. One that could not be activated is tried again the next time: when its
// root is there again, say. One whose root is not where it was is closed, and another
// takes its place.
//
// The Location may be closed when nobody uses it ([Options].Idle), and when it is not
// configured any more: who keeps it for long asks for it again.
func (h *Host) Location(ctx context.Context, name string) (*location.Location, error) {
	for {
		a, stop, err := h.activate(name)
		if err != nil {
			return nil, err
		}
		select {
		case <-a.done:
		case <-ctx.Done():
			stop()
			return nil, context.Cause(ctx)
		}
		displaced := a.location != nil && a.location.Displaced()
		stop()
		if !displaced {
			return a.location, a.err
		}
		h.displace(a)
	}
}

// displace takes out a Location whose root is not where it was.
func (h *Host) displace(a *activation) {
	h.mu.Lock()
	mine := h.locations[a.location.Name()] == a
	if mine {
		delete(h.locations, a.location.Name())
	}
	h.mu.Unlock()
	if mine {
		h.options.Log.Warn("the root of a Location is not where it was: it is opened again", slog.String("location", a.location.Name()))
		h.retire(a.location, h.drain())
	}
}

// activate finds the activation of a Location, or begins one. The caller says when it
// has what it asked for.
func (h *Host) activate(name string) (a *activation, stop func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, nil, errClosed
	}
	cfg, err := h.config.Location(name)
	if err != nil {
		return nil, nil, err
	}
	name = cfg.Name
	if a = h.locations[name]; a == nil || a.over() {
		if a, err = h.begin(*cfg); err != nil {
			return nil, nil, err
		}
	}
	a.asking++
	return a, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		a.asking--
		a.asked = time.Now()
	}, nil
}

// begin begins an activation. The host's mu is held.
func (h *Host) begin(cfg config.Location) (*activation, error) {
	a := &activation{root: cfg.Root, done: make(chan struct{})}
	err := h.life.Go("activate "+cfg.Name, func(ctx context.Context) error {
		defer close(a.done)
		if a.location, a.err = location.Open(ctx, h.life, cfg, h.options); a.err != nil {
			h.forget(cfg.Name, a)
			return nil
		}
		h.registerIn(a)
		return nil
	})
	if err != nil {
		return nil, errClosed
	}
	h.locations[cfg.Name] = a
	return a, nil
}

func (h *Host) forget(name string, a *activation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.locations[name] == a {
		delete(h.locations, name)
	}
}

var errClosed = errors.New("the host is closed")

// Close closes every Location, all at the same time, and releases what the host
// has. It takes five seconds at most (law 42), and may be called more than once.
// An error says what could not be released.
func (h *Host) Close(ctx context.Context) error {
	var closing errgroup.Group
	h.mu.Lock()
	h.closed = true
	h.life.Cancel(errClosed)
	for _, a := range h.locations {
		closing.Go(func() error {
			<-a.done // its activation was just cancelled
			if a.location == nil {
				return nil
			}
			return a.location.Close(ctx)
		})
	}
	h.mu.Unlock()
	return errors.Join(closing.Wait(), h.life.Close(ctx))
}
