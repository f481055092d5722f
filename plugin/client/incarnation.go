package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolhost/toolhost/plugin/broker"
	"github.com/toolhost/toolhost/plugin/internal/wire"
	"github.com/toolhost/toolhost/sandbox"
	"github.com/toolhost/toolhost/scope"
)

// Bounds of closing. A plugin that heeds nothing spends the first three; with the
// ending of its tree that is under five seconds (law 42). The others are for what
// is not the plugin's.
const (
	callGrace     = 300 * time.Millisecond // for calls that were cancelled
	drainGrace    = time.Second            // for the plugin's own clean-up
	endGrace      = time.Second            // for the process to end by itself
	callbackGrace = time.Second            // for services that were cancelled
	clientGrace   = 2 * time.Second        // for go-plugin, when the tree has ended
)

// Incarnation is one process of a plugin, from its start to its end. All its
// methods may be called concurrently.
type Incarnation struct {
	spec  Spec
	host  Host
	life  *scope.Scope // a child of the Location's
	logs  *logs
	conns connections
	gone  chan struct{} // closed when the incarnation serves no more and its tools are removed

	leaveOnce sync.Once // closes gone

	stopStart context.CancelCauseFunc // ends the starting
	// set by launch
	proc        *process               // nil without a process of its own
	stopWaiting func() bool            // the end of the starting ends the process no more
	endClient   func() <-chan struct{} // asks go-plugin to end; closed when it did

	awaits     bool          // the plugin can be asked for the end of a call; set before it is ready
	lastAction atomic.Uint64 // the number of a prepared action

	mu         sync.Mutex
	state      State       // under mu, changed by enter only
	status     Status      // under mu
	failure    error       // under mu: why it failed
	exit       string      // under mu: how its process ended by itself
	ready      bool        // under mu: it was once
	attached   bool        // under mu: its session is open, or was
	plugin     wire.Plugin // under mu; set once negotiated
	broker     *broker.Broker
	registered map[uint64]registration // under mu: by number
	closed     []closedRegistration    // under mu: those that the plugin took back
	toolCount  int                     // under mu: of all registered
	toolBytes  int                     // under mu: of all registered
	wasRefused []Refused               // under mu: of those that were removed at the end
	lastNumber uint64                  // under mu: of a registration
	calls      int                     // under mu: those that run
	idle       chan struct{}           // under mu: closed when calls becomes 0, if it is not nil
}

// Start starts a plugin and waits until it is ready. ctx bounds the starting,
// together with the host's StartTimeout. The incarnation lives in a fork of
// parent, and ends with it if nobody closes it before.
//
// When it cannot be started nothing is left of it, and the error, which is for
// the operator, says why in words that name the plugin. It wraps a [*StartError].
func Start(ctx context.Context, parent *scope.Scope, host Host, spec Spec) (*Incarnation, error) {
	if err := spec.check(); err != nil {
		return nil, fmt.Errorf("plugin %s: %w", spec.Name, &StartError{Lasting: true, Err: err})
	}
	if host.Programs == nil {
		host.Programs = &sandbox.Programs{}
	}
	return begin(ctx, parent, host, spec, (*Incarnation).launch)
}

// begin takes a new incarnation, which connect connects to its plugin, to ready.
func begin(
	ctx context.Context, parent *scope.Scope, host Host, spec Spec,
	connect func(*Incarnation, context.Context) (*link, error),
) (*Incarnation, error) {
	life, err := parent.Fork("plugin " + spec.Name)
	if err != nil {
		return nil, err
	}
	i := &Incarnation{
		spec: spec, host: host, life: life, logs: newLogs(host.Log.With("plugin", spec.Name), host.Tail),
		gone: make(chan struct{}), registered: map[uint64]registration{},
	}
	i.enter(Starting, nil)
	starting, stop := context.WithTimeoutCause(ctx, host.startTimeout(), errLate)
	defer stop()
	starting, i.stopStart = context.WithCancelCause(starting)
	defer i.stopStart(nil)
	if err = i.followScope(); err == nil {
		err = i.start(starting, connect)
	}
	if i.stopWaiting != nil && !i.stopWaiting() && err == nil {
		err = context.Cause(starting) // which ended the process at the last moment
	}
	if err == nil {
		return i, nil
	}
	switch {
	case life.Context().Err() != nil:
		err = errClosing
	case ctx.Err() != nil:
		err = fmt.Errorf("it was given up while it was %s: %w", i.Status().State, context.Cause(ctx))
	}
	i.enter(Failed, err)
	if closing := i.Close(context.WithoutCancel(ctx)); closing != nil {
		err = fmt.Errorf("%w; and it could not be closed: %w", err, closing)
	}
	return nil, fmt.Errorf("plugin %s: %w", spec.Name, i.startError(err))
}

// followScope makes the incarnation's state follow that of its scope, whoever
// ends it.
func (i *Incarnation) followScope() error {
	closed := i.life.Defer("state", func(context.Context) error {
		i.enter(Closed, nil)
		i.logs.sayDropped()
		return nil
	})
	return errors.Join(closed, i.life.Go("state", func(life context.Context) error {
		<-life.Done()
		i.leave()
		return nil
	}))
}

// start takes the incarnation from its executable to ready.
func (i *Incarnation) start(ctx context.Context, connect func(*Incarnation, context.Context) (*link, error)) error {
	link, err := connect(i, ctx)
	if err != nil {
		return err
	}
	i.enter(Negotiating, nil)
	agreed, err := i.negotiate(ctx, link)
	if err != nil {
		return err
	}
	i.enter(Activating, nil)
	if err := i.activate(ctx, link, agreed); err != nil {
		return err
	}
	return i.becomeReady()
}

// becomeReady lets calls in, and arranges that they are ended before anything
// that they use.
func (i *Incarnation) becomeReady() error {
	if err := errors.Join(
		i.life.Defer("drain", i.drain),
		i.life.Defer("calls", i.endCalls),
		i.life.Defer("tools", func(context.Context) error {
			i.leave()
			return nil
		}),
	); err != nil {
		return err
	}
	if i.enter(Ready, nil) {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.failure != nil {
		return i.failure
	}
	return errClosing
}

// wasReady reports whether the plugin may be expected to end when it is asked to.
func (i *Incarnation) wasReady() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.ready
}

var errClosing = errors.New("it was closed while it started")

// Status is what is known of the incarnation now.
func (i *Incarnation) Status() Status {
	i.mu.Lock()
	defer i.mu.Unlock()
	s := i.status
	s.State = i.state
	s.Calls = i.calls
	s.Grants = slices.Clone(s.Grants)
	s.Refused = i.refusedLocked()
	if i.state == Failed {
		s.Reason = i.failure.Error()
	}
	return s
}

// Gone is closed when the incarnation serves no more calls and its tools are
// removed: it failed, or it is being closed.
func (i *Incarnation) Gone() <-chan struct{} { return i.gone }

// closeGrace is how long Close is polite, whatever its context says.
const closeGrace = 3500 * time.Millisecond

// Close ends the incarnation: its tools are removed, its calls are cancelled,
// the plugin is asked to finish, and its whole tree is ended. It takes under five
// seconds, whatever the plugin does (law 42). It may be called at any time and
// more than once, and so may the Close of the scope that it was started in. An
// error says what could not be released.
func (i *Incarnation) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeGrace)
	defer cancel()
	i.leave()
	return i.life.Close(ctx)
}

// leave takes the tools away and lets no more calls in.
func (i *Incarnation) leave() {
	i.stopStart(errClosing)
	i.enter(Draining, nil)
	i.removeTools()
	i.leaveOnce.Do(func() { close(i.gone) })
}

// lost notes that the process or its connection is gone. It ends the calls;
// whoever owns the incarnation closes it.
func (i *Incarnation) lost(reason error) {
	foreign := i.foreign() != ""
	i.mu.Lock()
	if foreign && i.state == Starting {
		reason = lasting(reason)
	}
	starting := i.state == Starting || i.state == Negotiating || i.state == Activating
	if starting && i.failure == nil {
		i.failure = reason
	}
	i.mu.Unlock()
	if starting {
		i.stopStart(reason)
		return
	}
	if i.enter(Failed, reason) {
		i.logs.out.Error("plugin failed", "reason", reason)
		i.leave()
		i.life.Cancel(reason)
	}
}

// enter changes the state and reports whether it is what it became. There is no
// way back, out of [Failed] there is none at all, and what was lost while it
// started is never ready.
func (i *Incarnation) enter(s State, failure error) bool {
	i.mu.Lock()
	from := i.state
	if from == Failed || s.order() <= from.order() || s == Ready && i.failure != nil {
		i.mu.Unlock()
		return false
	}
	if s == Failed {
		i.failure = failure
	}
	i.ready = i.ready || s == Ready
	i.state, i.status.Since = s, time.Now()
	i.mu.Unlock()
	i.logs.out.Debug("plugin state", slog.String("state", string(s)))
	return true
}
