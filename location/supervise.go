package location

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/plugin/client"
	"github.com/toolhost/toolhost/sandbox"
	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/tool/registry"
)

// The states of a configured plugin, beside client.Starting, Ready, Failed and Closed
// (law 44).
const (
	// Restarting is a plugin that ended and is started again, or will be.
	Restarting client.State = "restarting"
	// Refused is one that would not start another time either: what is wrong has to be
	// changed first.
	Refused client.State = "refused"
)

// plugin is one configured plugin, as long as its configuration and its program stay
// what they are. Its incarnations, one after another, live in a scope of its own; what
// state it is in is changed by its supervision alone, which begins when the first of them
// was attempted.
type plugin struct {
	location *Location
	config   config.Plugin
	life     *scope.Scope  // a fork of the Location's
	wanted   *scope.Scope  // a fork of life; when its context is over the supervision drains the plugin, and ends
	kick     chan struct{} // has room for one: try again now
	settled  chan struct{} // closed when it is not starting any more
	budget   *budget       // of the supervision
	tail     *client.Tail  // of all that have its name

	mu          sync.Mutex
	state       client.State        // under mu
	since       time.Time           // under mu
	reason      string              // under mu: why it does not serve
	exit        string              // under mu: how its process ended last
	words       string              // under mu: the last of what it wrote then
	restarts    int                 // under mu
	tried       int                 // under mu: the restarts of which it is known what became
	turn        chan struct{}       // under mu: closed when it enters a state
	update      string              // under mu: why what is newer of it is not in effect
	pins        string              // under mu: what is wrong with its pinned files now
	incarnation *client.Incarnation // under mu; nil when there is none
	set         *registry.Set       // under mu: its tools
	digest      string              // under mu: of the incarnation, or of the last one
	shown       string              // under mu: the digest of those whose tools were shown last
	program     string              // under mu: what the files that it is made of looked like
	confinement Confinement         // under mu; zero until it is known
	commands    Commands            // under mu; of those that it may run if it is granted
}

// newPlugin makes a plugin that nobody has started.
func (l *Location) newPlugin(cfg config.Plugin) (*plugin, error) {
	life, err := l.life.Fork("plugin " + cfg.Name)
	if err != nil {
		return nil, err
	}
	wanted, err := life.Fork("supervision")
	if err != nil {
		return nil, err
	}
	p := &plugin{
		location: l, wanted: wanted, config: cfg, life: life, kick: make(chan struct{}, 1), budget: newBudget(l.options.Supervision),
		settled: make(chan struct{}), state: client.Starting, since: time.Now(), tail: &client.Tail{}, turn: make(chan struct{}),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for other := range l.all {
		if other.config.Name == cfg.Name {
			p.tail = other.tail
		}
	}
	l.all[p] = struct{}{}
	return p, nil
}

var (
	errReplaced = errors.New("it was replaced")
	errRemoved  = errors.New("it was removed from the configuration")
	errMoved    = errors.New("its program changed while it was started")
)

// attempt starts an incarnation, whose tools nobody sees yet. ctx bounds that.
func (p *plugin) attempt(ctx context.Context) error {
	l := p.location
	spec, err := l.spec(p.config)
	if err == nil {
		p.noteProgram(spec)
		spec.Policy, err = l.confined(ctx, p)
	}
	if err != nil {
		return &client.StartError{Lasting: ctx.Err() == nil, Err: err}
	}
	spec.Profile = l.profile(ctx, p)
	if !spec.Builtin && spec.SHA256 == "" && l.options.State != nil {
		var looking errgroup.Group
		looking.Go(func() error {
			l.lookAtProgram(ctx, p.config.Name, spec.Command[0])
			return nil
		})
		defer func() { _ = looking.Wait() }() // it has no error
	}
	owner := registry.Owner{
		Name: p.config.Name, Builtin: p.config.Builtin != "", Override: p.config.Override, Digest: digest(spec, p.config),
	}
	set := l.registry.NewSet(owner)
	incarnation, err := client.Start(ctx, p.life, l.clientHost(p, owner, set), spec)
	if err == nil && digest(spec, p.config) != owner.Digest {
		err = errors.Join(errMoved, incarnation.Close(context.WithoutCancel(ctx)))
	}
	if err != nil {
		set.Lost()
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.incarnation, p.set, p.digest, p.pins = incarnation, set, owner.Digest, ""
	return nil
}

// clientHost is what the incarnation is given.
func (l *Location) clientHost(p *plugin, owner registry.Owner, set *registry.Set) client.Host {
	return client.Host{
		Launcher:   l.options.Launcher,
		Programs:   l.options.Programs,
		Forbidden:  l.forbidden(),
		RunDir:     l.options.RunDir,
		FileSystem: l.files,
		Process:    l.process,
		// While it is being activated a plugin is judged as while it prepares a call.
		Activation: l.current().engine.Gate(permission.Caller{
			Plugin: owner.Name, Tool: owner.Name + "/", Builtin: owner.Builtin, Preparing: true,
			Root: l.files.Path(), Digest: owner.Digest,
		}),
		Register:     p.registrar(set, effectsOf(p.config.Sandbox, owner.Builtin)),
		Contradicted: l.contradicted,
		Log:          l.log,
		Tail:         p.tail,
		StartTimeout: l.options.StartTimeout,
	}
}

// publish shows the tools of the incarnation that was attempted, unless the plugin is
// not wanted any more.
func (p *plugin) publish() {
	p.mu.Lock()
	set, wanted := p.set, p.wanted.Context().Err() == nil
	var others []string // names of tools that are not to come back
	if p.shown != "" && p.shown != p.digest {
		others = []string{p.config.Name}
	}
	p.mu.Unlock()
	if !wanted {
		return // whoever ends it has the set
	}
	p.location.registry.Swap([]*registry.Set{set}, nil, others...)
	p.serving()
}

// serving notes that the tools are there.
func (p *plugin) serving() {
	p.mu.Lock()
	p.shown = p.digest
	p.mu.Unlock()
	p.enter(client.Ready, nil)
	p.location.tell(Event{Kind: EventTools, Plugin: p.config.Name})
}

// supervise begins the supervision, with what became of the first attempt.
func (p *plugin) supervise(first error) error {
	return p.location.life.Go("supervision of "+p.config.Name, func(context.Context) error {
		p.run(first)
		if errors.Is(context.Cause(p.wanted.Context()), errRemoved) && p.location.current().plugin(p.config.Name) == nil {
			p.location.endProcesses(p.config.Name) // what calls started that still ran in it
		}
		p.location.forgetPlugin(p)
		return nil
	})
}

// run is the supervision: it serves, notices the end, and starts again, until the
// plugin is not wanted any more.
func (p *plugin) run(err error) {
	for {
		if err == nil {
			err = p.serve()
		}
		if p.wanted.Context().Err() != nil {
			p.enter(client.Closed, nil)
			return
		}
		if !p.pause(err) {
			p.enter(client.Closed, nil)
			return
		}
		p.mu.Lock()
		p.restarts++
		before := p.program
		p.mu.Unlock()
		err = p.attempt(p.wanted.Context())
		if !p.madeOf(before) {
			p.budget.renew() // what another program spent is not its own
		}
		if err == nil {
			p.publish()
		}
	}
}

// pause waits until it is time to start again. It reports false when the plugin is not
// wanted any more.
func (p *plugin) pause(err error) bool {
	var again <-chan time.Time
	failed, isStart := errors.AsType[*client.StartError](err)
	if isStart && failed.Lasting {
		p.enter(Refused, err)
	} else if wait, ok := p.budget.spend(time.Now()); ok {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		again = timer.C
		p.enter(Restarting, err)
	} else {
		if n := p.budget.rules.Restarts; n > 0 {
			err = &givenUp{fmt.Sprintf("given up after %d restarts within %s, and toolhost reload tries it again: %s", n, p.budget.rules.Window, plain(p.config.Name, err)), err}
		}
		p.enter(client.Failed, err)
	}
	if crashed, ok := errors.AsType[*crash](err); ok {
		p.release(crashed.remains)
	}
	if again == nil {
		defer p.budget.renew()
	}
	select {
	case <-again:
	case <-p.kick:
	case <-p.wanted.Context().Done():
		p.retire()
		return false
	}
	return true
}

// givenUp is the last of several failures.
type givenUp struct {
	text string
	last error
}

func (g *givenUp) Error() string { return g.text }
func (g *givenUp) Unwrap() error { return g.last }

// serve watches the incarnation until it is gone, which is the error, or until the
// plugin is not wanted any more.
func (p *plugin) serve() error {
	p.mu.Lock()
	incarnation := p.incarnation
	p.mu.Unlock()
	checks := make(<-chan time.Time)
	if every := p.budget.rules.Health; every > 0 {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		checks = ticker.C
	}
	for {
		select {
		case <-incarnation.Gone():
			return p.gone(incarnation)
		case <-p.wanted.Context().Done():
			return p.drain(incarnation)
		case <-checks:
			if incarnation.Status().Calls == 0 {
				incarnation.Check(p.wanted.Context(), p.budget.rules.Answer)
			}
		}
	}
}

// gone notes how an incarnation ended.
func (p *plugin) gone(incarnation *client.Incarnation) error {
	status, exit := incarnation.Status(), incarnation.Exit()
	p.mu.Lock()
	p.incarnation, p.exit, p.words = nil, exit, incarnation.LastWords()
	p.mu.Unlock()
	p.location.tell(Event{Kind: EventTools, Plugin: p.config.Name})
	return &crash{errors.New(status.Reason), incarnation}
}

// crash is the end of an incarnation that nobody asked for, and what is left of it.
type crash struct {
	error
	remains *client.Incarnation
}

func (p *plugin) release(incarnation *client.Incarnation) {
	if err := incarnation.Close(context.WithoutCancel(p.life.Context())); err != nil {
		p.location.log.Error("a plugin left something behind", slog.String("plugin", p.config.Name), slog.Any("error", err))
	}
}

// drainTick is how often a plugin that is drained is looked at.
const drainTick = 50 * time.Millisecond

// drain lets an incarnation that is not wanted any more end what runs and serve what was
// captured, for a while. When others of its name wait as well it may go as soon as
// nothing runs.
func (p *plugin) drain(incarnation *client.Incarnation) error {
	if !p.replaced() {
		p.location.tell(Event{Kind: EventPlugin, Plugin: p.config.Name, State: client.Draining, Pid: incarnation.Status().Pid})
	}
	deadline := time.After(max(p.budget.rules.Drain, 0))
	tick := time.NewTicker(drainTick)
	defer tick.Stop()
	for waits := p.life.Context().Err() == nil; waits; {
		select {
		case <-incarnation.Gone():
			waits = false
		case <-deadline:
			waits = false
		case <-p.life.Context().Done():
			waits = false
		case <-tick.C:
			waits = incarnation.Status().Calls > 0 || p.location.draining(p.config.Name) <= maxDraining
		}
	}
	p.retire()
	p.release(incarnation)
	p.mu.Lock()
	p.incarnation = nil
	p.mu.Unlock()
	return context.Cause(p.wanted.Context())
}

// retire ends the calls that wait for a person, now that nothing will carry them out. When
// the Location closes that ends them.
func (p *plugin) retire() {
	became, cause := "replaced", context.Cause(p.wanted.Context())
	switch set := p.setNow(); {
	case set == nil || p.life.Context().Err() != nil:
		return
	case errors.Is(cause, errRemoved):
		became = "removed from the configuration"
		fallthrough
	case errors.Is(cause, errReplaced):
		set.Retire(fmt.Sprintf("the plugin %s was %s while the call waited for approval: it was not carried out further; look at the tools that there are now",
			p.config.Name, became))
	}
}

// replaced reports whether another plugin has its name now, whose states are told.
func (p *plugin) replaced() bool { return errors.Is(context.Cause(p.wanted.Context()), errReplaced) }

// maxDraining is how many replaced incarnations of one plugin are kept for what was
// captured while nothing runs in them.
const maxDraining = 3

// enter notes a state and tells of it.
func (p *plugin) enter(s client.State, why error) {
	e := Event{Kind: EventPlugin, Plugin: p.config.Name, State: s}
	p.mu.Lock()
	if failed, ok := errors.AsType[*client.StartError](why); ok {
		p.exit, p.words = failed.Exit, failed.Log
	}
	reason := ""
	if why != nil {
		reason = plain(p.config.Name, why)
	}
	same := p.state == s && p.reason == reason
	if p.state != s {
		p.since = time.Now()
	}
	if p.state == client.Starting && s != client.Starting {
		close(p.settled)
	}
	p.state, p.reason, p.tried = s, reason, p.restarts
	close(p.turn)
	p.turn = make(chan struct{})
	e.Reason, e.Exit = reason, p.exit
	if s == client.Ready || s == client.Closed {
		e.Exit = ""
	}
	if p.incarnation != nil {
		e.Pid = p.incarnation.Status().Pid
	}
	p.mu.Unlock()
	if same || p.replaced() {
		return
	}
	p.logState(s, reason)
	p.location.tell(e)
}

// close ends the plugin at once, and what it has.
func (p *plugin) close(ctx context.Context) error {
	p.wanted.Cancel(errClosed)
	p.mu.Lock()
	incarnation := p.incarnation
	p.mu.Unlock()
	if incarnation != nil {
		return errors.Join(incarnation.Close(ctx), p.life.Close(ctx))
	}
	return p.life.Close(ctx)
}

// discard ends a plugin that was never shown.
func (p *plugin) discard(ctx context.Context) {
	if err := p.close(context.WithoutCancel(ctx)); err != nil {
		p.location.log.Error("a plugin left something behind", slog.String("plugin", p.config.Name), slog.Any("error", err))
	}
	p.location.forgetPlugin(p)
}

// forgetPlugin releases the scope of a plugin whose supervision has ended. While the
// Location closes that is left to it.
func (l *Location) forgetPlugin(p *plugin) {
	if l.life.Context().Err() != nil {
		return
	}
	if err := p.life.Close(context.WithoutCancel(l.life.Context())); err != nil {
		l.log.Error("a plugin left something behind", slog.String("plugin", p.config.Name), slog.Any("error", err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, p)
}

// draining is how many plugins of the name were replaced and still serve.
func (l *Location) draining(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for p := range l.all {
		if p.config.Name == name && p.wanted.Context().Err() != nil {
			n++
		}
	}
	return n
}

// everyPlugin are the plugins that have something, whether they still count or not.
func (l *Location) everyPlugin() []*plugin {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*plugin, 0, len(l.all))
	for p := range l.all {
		all = append(all, p)
	}
	return all
}

// confined is the policy of a plugin, of which it takes a note.
func (l *Location) confined(ctx context.Context, p *plugin) (*sandbox.Policy, error) {
	policy, confinement, err := l.confine(ctx, p.config)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.confinement = confinement
	return policy, nil
}

// died says why a plugin that was attempted does not serve after all.
func (p *plugin) died() error {
	p.mu.Lock()
	incarnation := p.incarnation
	p.mu.Unlock()
	select {
	case <-incarnation.Gone():
		return fmt.Errorf("plugin %s: %s", p.config.Name, incarnation.Status().Reason)
	default:
		return nil
	}
}
