package location

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/instructions"
	"github.com/toolhost/toolhost/plugin/client"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/service/process"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/output"
	"github.com/toolhost/toolhost/tool/registry"
)

// A generation is what a configuration made of the Location. It is immutable and owns
// nothing: it refers to plugins, so that what did not change lives on in the next one
// (law 43).
type generation struct {
	config  config.Location
	engine  *permission.Engine
	finder  *instructions.Finder
	outputs *output.Keeper
	tools   *registry.Set // the host's own
	plugins []*plugin     // in the order of the config
}

// current is the generation that serves.
func (l *Location) current() *generation { return l.generation.Load() }

// plugin finds a plugin of the generation, or nil.
func (g *generation) plugin(name string) *plugin {
	i := slices.IndexFunc(g.plugins, func(p *plugin) bool { return p.config.Name == name })
	if i < 0 {
		return nil
	}
	return g.plugins[i]
}

// instructions finds those of the project, as config says now.
func (l *Location) instructions(ctx context.Context, gate tool.Gate, session string, targets []string) ([]tool.Instruction, error) {
	return l.current().finder.For(ctx, gate, session, targets)
}

// hostTools are the host's own, which read what a keeper keeps.
func (l *Location) hostTools(outputs *output.Keeper) *registry.Set {
	set := l.registry.NewSet(registry.Owner{Name: hostOwner, Host: true})
	set.Register(outputs.Tools())
	return set
}

// A Report is what became of a reload in one Location.
type Report struct {
	// Location is its name.
	Location string `json:"location"`
	// Added, Changed and Removed are the plugins of which that was done, Kept those that
	// serve as before.
	Added   []string `json:"added,omitempty"`
	Changed []string `json:"changed,omitempty"`
	Removed []string `json:"removed,omitempty"`
	Kept    []string `json:"kept,omitempty"`
	// Permissions, Output and Instructions say that these changed.
	Permissions  bool `json:"permissions,omitempty"`
	Output       bool `json:"output,omitempty"`
	Instructions bool `json:"instructions,omitempty"`
	// Failures are plugins that do not serve as they are meant to now, each with the reason.
	// If Stale is set they are why nothing was changed; otherwise one with a State does not
	// serve at all, and of one without only the program is newer, and the last goes on.
	Failures []Failure `json:"failures,omitempty"`
	// Stale is why everything is as it was before; empty when the new generation serves.
	Stale string `json:"stale,omitempty"`
	// Inactive says that the Location is not active, and will be what is configured now
	// when it is opened; Closed that it was closed.
	Inactive bool `json:"inactive,omitempty"`
	Closed   bool `json:"closed,omitempty"`
}

// A plan is the difference between the generation that serves and what is configured.
type plan struct {
	next   *generation
	report Report
	fresh  []*fresh  // to be started
	leave  []*plugin // replaced or removed, if all goes well
	retry  []*plugin // that do not run, and may now
}

// fresh is a plugin that is started beside the one that it replaces.
type fresh struct {
	*plugin
	replaces *plugin // nil for one that is added
	rebuilt  bool    // only its program is another one
	err      error   // why it does not serve
}

// Reload makes the Location what is configured now. What is new or changed is started
// beside what serves; then all of it takes its place in one act: no capture sees a part
// of it, and whoever follows the tools is told once (law 43). What was replaced ends
// what runs in it, and serves what was captured before, until it is drained (law 7). A
// call keeps the rules that it was begun under, and questions go on; but what is denied now
// is denied to it, too, whatever is answered (law 32). What did not change lives on, in the
// same process.
//
// If a plugin does not start as it is configured now, all stays as it was, and the
// report and [Location.Stale] say why. If only its program changed, the one that served
// goes on, and its status says why. A plugin that failed, or was refused, is tried again,
// and what became of that is waited for: the report has it, and the rest is in effect.
//
// Reloads of a Location come one after another. ctx bounds the waiting, and the starting:
// when it is over before the plugins are ready all stays as it was. The configuration
// must be for the same name and root.
func (l *Location) Reload(ctx context.Context, cfg config.Location) Report {
	report := l.become(ctx, &cfg)
	l.setStale(report.Stale)
	l.tell(Event{Kind: EventReload, Reason: report.Stale, Reload: &report})
	return report
}

// ReloadPrograms is Reload of the configuration that serves when no other reload runs, for
// programs that may be other ones now. It neither sets nor takes back [Location.Stale]: a
// newer configuration that is not in effect is so afterwards.
func (l *Location) ReloadPrograms(ctx context.Context) Report {
	report := l.become(ctx, nil)
	l.tell(Event{Kind: EventReload, Reason: report.Stale, Reload: &report})
	return report
}

// become reloads; nil stands for the configuration that serves.
func (l *Location) become(ctx context.Context, cfg *config.Location) Report {
	report := Report{Location: l.name}
	if err := l.reload(ctx, cfg, &report); err != nil {
		report.Stale = err.Error()
		report.Added, report.Changed, report.Removed, report.Kept = nil, nil, nil, nil
		report.Permissions, report.Output, report.Instructions = false, false, false
		l.log.Error("what was to be reloaded is not in effect", slog.Any("error", err))
	}
	if report.Stale == "" {
		l.log.Info("reloaded", slog.Any("added", report.Added), slog.Any("changed", report.Changed), slog.Any("removed", report.Removed),
			slog.Any("failed", report.Failures), slog.Bool("permissions", report.Permissions))
	}
	return report
}

// Stale is why what is configured now is not in effect; empty when it is.
func (l *Location) Stale() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stale
}

// SetStale notes that what is configured is not in effect, and why: it could not be
// read, say. Empty takes that back.
func (l *Location) SetStale(why string) { l.setStale(why) }

func (l *Location) setStale(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stale = why
}

func (l *Location) reload(ctx context.Context, cfg *config.Location, report *Report) error {
	if cfg != nil && (cfg.Name != l.name || cfg.Root != l.root) {
		return fmt.Errorf("location %s at %s cannot become %s at %s: it is another one", l.name, l.root, cfg.Name, cfg.Root)
	}
	select {
	case l.reloading <- struct{}{}:
		defer func() { <-l.reloading }()
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.life.Context().Done():
		return errClosed
	}
	if cfg == nil {
		cfg = &l.current().config
	}
	plan, err := l.plan(*cfg)
	if err == nil {
		err = l.startBeside(ctx, plan)
	}
	report.Failures = plan.report.Failures
	if err != nil {
		for _, f := range plan.fresh {
			f.discard(ctx)
		}
		return err
	}
	l.swap(ctx, plan)
	plan.report.Location = l.name
	*report = plan.report
	return nil
}

// plan finds the difference, and changes nothing. What it made so far is in the plan of an
// error, too.
func (l *Location) plan(cfg config.Location) (*plan, error) {
	now := l.current()
	p := &plan{next: &generation{config: cfg, finder: now.finder, outputs: now.outputs, tools: now.tools}}
	p.report.Permissions = !samePolicy(now.config.Policy, cfg.Policy)
	if p.report.Instructions = !slices.Equal(now.config.Instructions, cfg.Instructions); p.report.Instructions {
		p.next.finder = l.finder(cfg)
	}
	p.next.engine = l.engine(cfg) // always: its rules say where they stand
	if p.report.Output = !reflect.DeepEqual(now.config.Output, cfg.Output); p.report.Output {
		var err error
		if p.next.outputs, err = l.keeper(cfg); err != nil {
			return p, err
		}
	}
	for _, c := range cfg.Plugins {
		if err := l.planPlugin(p, now.plugin(c.Name), c); err != nil {
			return p, err
		}
	}
	for _, old := range now.plugins {
		if !slices.ContainsFunc(cfg.Plugins, func(c config.Plugin) bool { return c.Name == old.config.Name }) {
			p.leave = append(p.leave, old)
			p.report.Removed = append(p.report.Removed, old.config.Name)
		}
	}
	return p, nil
}

// planPlugin decides what becomes of one plugin that is configured.
func (l *Location) planPlugin(p *plan, old *plugin, c config.Plugin) error {
	if old == nil {
		if by, ok := l.registry.Owner(c.Name); ok && by.Application {
			return fmt.Errorf("plugin %s: its name is taken by tools of the program that runs this host", c.Name)
		}
		p.report.Added = append(p.report.Added, c.Name)
		return l.planFresh(p, c, nil, false)
	}
	if !samePlugin(old.config, c) {
		p.report.Changed = append(p.report.Changed, c.Name)
		p.leave = append(p.leave, old)
		return l.planFresh(p, c, old, false)
	}
	spec, err := l.spec(c)
	rebuilt := err == nil && old.rebuilt(spec)
	switch state := old.stateNow(); {
	case state != client.Ready && (rebuilt || state == client.Failed || state == Refused):
		p.retry = append(p.retry, old)
	case state == client.Ready && rebuilt:
		return l.planFresh(p, c, old, true)
	}
	p.report.Kept = append(p.report.Kept, c.Name)
	p.next.plugins = append(p.next.plugins, old)
	return nil
}

func (l *Location) planFresh(p *plan, c config.Plugin, replaces *plugin, rebuilt bool) error {
	made, err := l.newPlugin(c)
	if err != nil {
		return err
	}
	p.fresh = append(p.fresh, &fresh{plugin: made, replaces: replaces, rebuilt: rebuilt})
	p.next.plugins = append(p.next.plugins, made)
	return nil
}

// startBeside starts what is fresh. Its error is why the generation cannot be.
func (l *Location) startBeside(ctx context.Context, p *plan) error {
	var starting errgroup.Group
	for _, f := range p.fresh {
		starting.Go(func() error {
			if f.err = f.attempt(ctx); f.err == nil {
				f.err = f.died()
			}
			return nil
		})
	}
	_ = starting.Wait() // each keeps its own error
	var reasons []error
	for _, f := range p.fresh {
		if f.err == nil {
			continue
		}
		reason := plain(f.config.Name, f.err)
		p.report.Failures = append(p.report.Failures, Failure{Plugin: f.config.Name, Reason: reason})
		if f.replaces != nil {
			f.replaces.setUpdate(reason)
		}
		if !f.rebuilt {
			reasons = append(reasons, fmt.Errorf("plugin %s: %s", f.config.Name, reason))
		}
	}
	if ctx.Err() != nil {
		reasons = append(reasons, context.Cause(ctx))
	}
	return errors.Join(reasons...)
}

// swap makes the generation the one that serves.
func (l *Location) swap(ctx context.Context, p *plan) {
	var come, leave []*registry.Set
	var forget []string
	if p.report.Output {
		p.next.tools = l.hostTools(p.next.outputs)
		come, leave = append(come, p.next.tools), append(leave, l.current().tools)
	}
	var shown []*fresh
	for _, f := range p.fresh {
		if f.err != nil { // its program is not what it should be, and the last one serves
			at := slices.Index(p.next.plugins, f.plugin)
			p.next.plugins[at] = f.replaces
			p.report.Kept = append(p.report.Kept, f.config.Name)
			f.discard(ctx)
			continue
		}
		if f.rebuilt {
			p.report.Changed = append(p.report.Changed, f.config.Name)
			p.leave = append(p.leave, f.replaces)
		}
		shown, come = append(shown, f), append(come, f.setNow())
	}
	for _, old := range p.leave {
		why := errReplaced
		if p.next.plugin(old.config.Name) == nil {
			why = errRemoved
		}
		old.wanted.Cancel(why) // it starts and shows nothing any more
		forget = append(forget, old.config.Name)
		if set := old.setNow(); set != nil {
			leave = append(leave, set)
		}
	}
	for _, old := range p.leave {
		if next := p.next.plugin(old.config.Name); next == nil || !sameCommands(old.config, next.config) {
			l.endProcesses(old.config.Name)
		}
	}
	l.generation.Store(p.next)
	l.registry.SetOutput(p.next.outputs)
	l.registry.Swap(come, leave, forget...)
	for _, f := range shown {
		f.serving()
		if err := f.supervise(nil); err != nil {
			l.log.Debug("the Location closes", slog.Any("error", err))
		}
	}
	tries := map[*plugin]int{}
	for _, old := range p.retry {
		tries[old] = old.retry()
	}
	for _, old := range p.next.plugins {
		if slices.Contains(p.report.Kept, old.config.Name) && !slices.ContainsFunc(p.report.Failures, func(f Failure) bool { return f.Plugin == old.config.Name }) {
			old.setUpdate("")
		}
		old.checkPins()
	}
	for _, old := range p.next.plugins {
		old.await(ctx, tries[old])
	}
	p.report.settle(p.next.plugins)
}

// endProcesses ends what a plugin started and that goes on: of one that is removed, and of
// one that is not to run commands in the way any more in which these were started. They
// outlive its restart, its rebuild, and any other change: an editor's test watcher, say, is
// nothing that a new setting should end. Nobody waits for it.
func (l *Location) endProcesses(plugin string) {
	_ = l.life.Go("processes of "+plugin, func(ctx context.Context) error { // or the Location ends them
		bounded, cancel := context.WithTimeout(ctx, endPatience)
		defer cancel()
		if err := l.process.EndPlugin(bounded, plugin); err != nil && ctx.Err() == nil {
			l.log.Error("processes of a plugin that was removed or changed are not ended yet", slog.String("plugin", plugin), slog.Any("error", err))
		}
		return nil
	})
}

// endPatience is how long processes may take to end before that is said.
const endPatience = 10 * time.Second

// program is what the files look like that a plugin is made of.
func program(spec client.Spec, p config.Plugin) string {
	if len(spec.Command) == 0 {
		return ""
	}
	paths := append([]string{spec.Command[0]}, arguments(p.Command)...)
	for _, f := range p.Files {
		paths = append(paths, f.Path)
	}
	for i, path := range paths {
		paths[i] = looks(path)
	}
	return strings.Join(paths, " ")
}

func (p *plugin) noteProgram(spec client.Spec) {
	text := program(spec, p.config)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.program = text
}

// rebuilt reports whether what the plugin would be started from is not what it was
// started from: for a plugin that runs, what its digest stands for; for another one, any
// of its files.
func (p *plugin) rebuilt(spec client.Spec) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == client.Ready {
		return digest(spec, p.config) != p.digest
	}
	return program(spec, p.config) != p.program
}

// checkPins notes what is wrong with the pinned files of a plugin that runs from copies of
// what they were.
func (p *plugin) checkPins() {
	p.mu.Lock()
	ready, known := p.state == client.Ready, p.program
	p.mu.Unlock()
	spec, err := p.location.spec(p.config)
	if err != nil || !ready || spec.SHA256 == "" && len(spec.Files) == 0 || program(spec, p.config) == known {
		return
	}
	p.noteProgram(spec)
	reason := ""
	if err := spec.CheckPins(); err != nil {
		reason = err.Error()
		p.location.log.Warn("what a plugin was pinned to is not there any more, and the last good one serves",
			slog.String("plugin", p.config.Name), slog.Any("error", err))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pins = reason
}

// samePlugin compares what is configured, wherever it stands.
func samePlugin(a, b config.Plugin) bool {
	for _, p := range []*config.Plugin{&a, &b} {
		p.Source, p.Sandbox.ModeSource = config.Position{}, config.Position{}
	}
	return reflect.DeepEqual(a, b)
}

// sameCommands reports whether the commands of a plugin are run in the same way.
func sameCommands(a, b config.Plugin) bool {
	for _, p := range []*config.Plugin{&a, &b} {
		p.Sandbox.ModeSource = config.Position{}
	}
	return a.Builtin == b.Builtin && slices.Equal(a.Grants, b.Grants) && slices.Equal(a.Env, b.Env) && reflect.DeepEqual(a.Sandbox, b.Sandbox)
}

// samePolicy compares rules, wherever they stand.
func samePolicy(a, b *permission.Policy) bool {
	plain := func(l permission.List) permission.List {
		l.Rules = slices.Clone(l.Rules)
		for i := range l.Rules {
			l.Rules[i].Source = ""
		}
		return l
	}
	if a == nil || b == nil {
		return a == b
	}
	return a.Root == b.Root && reflect.DeepEqual(plain(a.Defaults), plain(b.Defaults)) && slices.EqualFunc(a.Lists, b.Lists, func(x, y permission.List) bool {
		return reflect.DeepEqual(plain(x), plain(y))
	})
}

// Displaced reports whether the Location's root is not where it was: the directory was
// removed, or another one took its place. What is open is of the one that was.
func (l *Location) Displaced() bool {
	info, err := os.Stat(l.root)
	return err != nil || !os.SameFile(info, l.rootInfo)
}

// Use is who uses a Location at one moment.
type Use struct {
	registry.Use
	// Processes are those that its plugins started and that go on.
	Processes int
}

// Processes are those that its plugins started beside their calls, of every session, the
// oldest first, with those that have ended and are remembered.
func (l *Location) Processes() []process.Info { return l.process.Processes() }

// Use says who uses the Location now.
func (l *Location) Use() Use { return Use{l.registry.Use(), l.process.Running()} }
