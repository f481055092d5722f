package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/plugin/client"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// A machine does at random what can be done to a host, and knows of each call whether something was done on purpose to what
// it relies on. A call to which nothing was done completes.
type machine struct {
	*world
	rt       *rapid.T
	program  string // what the plugins "built" are made of
	builds   int
	versions int
	calls    []*call
	plugins  map[string]*trouble // by location/plugin
	stopped  []int
	sessions []started

	steps   []string // what was done, for when it fails
	started time.Time
	intends atomic.Pointer[config.Config] // what the files would say

	mu     sync.Mutex
	modes  map[string]*call // under mu: by the id of the call
	failed []error          // under mu: what was done beside
}

// trouble is what was done to a plugin.
type trouble struct {
	times int  // how often
	since int  // the process to which it was done last, as long as it may still have that trouble; 0 is that it serves
	away  bool // nobody has seen the plugin serve since
}

// A call is one that began, and what it came to.
type call struct {
	id, session, plugin, does string
	in                        *location.Location
	times                     int  // of its plugin's trouble, when it was captured
	excused                   bool // something was done to it, or to what it relies on
	mode                      string
	replies                   chan permission.Reply // has room for one
	asked                     chan struct{}         // closed when the approver is asked
	replied                   bool
	cancel                    context.CancelFunc
	ended                     chan end // has room for one
	done                      bool
	handle                    string // of the suspension, while it is suspended
	end                       end
}

// started is a process of a session.
type started struct {
	in               *location.Location
	session, command string
}

type end struct {
	settled tool.Settlement
	err     error
}

// The drain of the machine is longer than any call that heeds.
const (
	longest = 800 * time.Millisecond
	drained = 4 * time.Second
	allowed = 3 * time.Second // for a call, by its deadline
)

func newMachine(rt *rapid.T, dir string) *machine {
	m := &machine{
		rt: rt, program: filepath.Join(dir, "built"), plugins: map[string]*trouble{}, modes: map[string]*call{}, started: time.Now(),
	}
	if err := build(m.program, "0", false); err != nil {
		rt.Fatalf("build: %v", err)
	}
	cfg := &config.Config{Locations: []config.Location{
		place(rt, dir, "a", plugin("built", m.program, good, "0"), plugin("slow", itself(rt), slow, "0"), commands()),
		place(rt, dir, "b", plugin("built", m.program, good, "0"), plugin("noisy", itself(rt), parent, "0")),
	}}
	m.intends.Store(cfg)
	m.world = newWorld(rt, dir, cfg, func(o *host.Options) {
		o.Approver, o.Deadline, o.Supervision = m, allowed, quick(drained)
	})
	if rapid.Bool().Draw(rt, "watched") {
		m.note("watch")
		if _, err := m.Watch(host.WatchOptions{
			Load: func(context.Context) (*config.Config, error) { return m.intends.Load(), nil }, Quiet: 20 * time.Millisecond,
		}); err != nil {
			rt.Fatalf("watch: %v", err)
		}
	}
	return m
}

// note remembers what was done.
func (m *machine) note(format string, args ...any) {
	m.steps = append(m.steps, fmt.Sprintf("%7.3f ", time.Since(m.started).Seconds())+fmt.Sprintf(format, args...))
}

var _ permission.Approver = (*machine)(nil)

// Ask implements [permission.Approver].
func (m *machine) Ask(ctx context.Context, r permission.Request) (permission.Reply, error) {
	m.mu.Lock()
	c := m.modes[r.Caller.Identity.Call]
	m.mu.Unlock()
	close(c.asked)
	select {
	case reply := <-c.replies:
		return reply, nil
	case <-ctx.Done():
		return permission.Reply{}, context.Cause(ctx)
	}
}

func (m *machine) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"call": m.call, "call again": m.call, "call once more": m.call, "call and call": m.call, "ask": m.ask, "ask again": m.ask, "misbehave": m.misbehave, "cancel": m.cancel, "reply": m.reply,
		"resume": m.resume, "withdraw": m.withdraw, "kill": m.kill, "stop": m.stop, "wake": m.wake, "rebuild": m.rebuild, "reload": m.reload,
		"reload with bad": m.reloadBad, "permissions": m.permissions, "add or remove": m.addOrRemove, "start a process": m.start, "start another": m.start,
		"end a session": m.endSession, "close a Location": m.close, "remove a Location": m.remove, "all at once": m.atOnce, "": m.check,
	}
}

// of is the trouble of a plugin.
func (m *machine) of(l *location.Location, name string) *trouble {
	id := l.Name() + "/" + name
	if m.plugins[id] == nil {
		m.plugins[id] = &trouble{}
	}
	return m.plugins[id]
}

// hurt notes that something was done to a plugin, whose process ends of it.
func (m *machine) hurt(l *location.Location, name string) {
	tr := m.of(l, name)
	tr.times, tr.since, tr.away = tr.times+1, status(l, name).Pid, true
}

// open gives a Location that is configured, and open.
func (m *machine) open(rt *rapid.T) (*location.Location, bool) {
	cfg := m.Config()
	if len(cfg.Locations) == 0 {
		return nil, false
	}
	l := m.activate(rapid.SampledFrom(m.Locations()).Draw(rt, "location"))
	m.observe(l)
	return l, true
}

// observe notes which plugins serve again.
func (m *machine) observe(l *location.Location) {
	for _, p := range l.Plugins() {
		tr := m.of(l, p.Name)
		if tr.away && p.State == client.Ready && p.Pid != tr.since {
			tr.away = false
		}
	}
}

// victim is a plugin of a Location that serves.
func (m *machine) victim(rt *rapid.T) (*location.Location, location.PluginStatus, bool) {
	l, ok := m.open(rt)
	if !ok {
		return nil, location.PluginStatus{}, false
	}
	ready := slices.DeleteFunc(l.Plugins(), func(p location.PluginStatus) bool { return p.State != client.Ready || p.Pid == 0 })
	if len(ready) == 0 {
		return nil, location.PluginStatus{}, false
	}
	return l, ready[rapid.IntRange(0, len(ready)-1).Draw(rt, "plugin")], true
}

// call calls something harmless: for a short or a long time, with much or little output.
func (m *machine) call(rt *rapid.T) {
	if l, p, ok := m.victim(rt); ok {
		in := workIn{Millis: rapid.SampledFrom([]int{0, 0, 50, int(longest / time.Millisecond)}).Draw(rt, "millis"), KiB: rapid.SampledFrom([]int{0, 0, 300}).Draw(rt, "kib")}
		does := rapid.SampledFrom([]string{"work", "work", "flood", "fork"}).Draw(rt, "does")
		if p.Name == "process" {
			m.begin(l, p, "shell", map[string]any{"command": fmt.Sprintf("sleep %.1f; echo done", float64(in.Millis)/1000)}, "")
			return
		}
		m.begin(l, p, does, in, "")
	}
}

// ask calls what somebody is asked for, and perhaps does not wait for that.
func (m *machine) ask(rt *rapid.T) {
	if l, p, ok := m.victim(rt); ok && p.Name != "process" {
		m.begin(l, p, "ask", struct{}{}, rapid.SampledFrom([]string{"wait", "suspend"}).Draw(rt, "mode"))
	}
}

// misbehave calls what makes the plugin crash or hang, or goes on when it is cancelled.
func (m *machine) misbehave(rt *rapid.T) {
	l, p, ok := m.victim(rt)
	if !ok || p.Name == "process" {
		return
	}
	switch does := rapid.SampledFrom([]string{"crash", "hang", "stubborn"}).Draw(rt, "does"); does {
	case "crash":
		m.hurt(l, p.Name)
		c := m.begin(l, p, does, struct{}{}, "")
		m.waitFor(c, "the crash", func() bool { return false })
	case "hang":
		m.hurt(l, p.Name)
		m.begin(l, p, does, struct{}{}, "")
	default:
		m.begin(l, p, does, workIn{Millis: 1200}, "")
	}
}

// begin begins a call, and waits until it runs, is asked for, or has ended.
func (m *machine) begin(l *location.Location, p location.PluginStatus, does string, input any, mode string) *call {
	name := p.Name + "_" + does
	if p.Name == "process" {
		name = does
	}
	tr := m.of(l, p.Name)
	c := &call{
		session: fmt.Sprint("s", m.next.Load()%2), plugin: p.Name, does: does, in: l, times: tr.times, excused: tr.away, mode: mode,
		replies: make(chan permission.Reply, 1), asked: make(chan struct{}), ended: make(chan end, 1),
	}
	r := m.request(c.session, name, input)
	if c.id = r.Identity.Call; mode == "suspend" {
		r.SuspendAfter = time.Millisecond
	}
	began := make(chan struct{})
	var once sync.Once
	r.Progress = func(tool.Progress) { once.Do(func() { close(began) }) }
	m.mu.Lock()
	m.modes[c.id] = c
	m.mu.Unlock()
	m.calls = append(m.calls, c)
	m.note("call %s: %s of %s in %s %v %s, excused %t", c.id, name, p.Name, l.Name(), input, mode, c.excused)
	capture := l.Capture()
	m.run(c, func(ctx context.Context) (tool.Settlement, error) { return capture.Call(ctx, r) })
	if does == "work" || does == "ask" || does == "hang" || does == "stubborn" {
		m.waitFor(c, "the beginning of call "+c.id, func() bool {
			select {
			case <-began:
				return true
			case <-c.asked:
				return true
			default:
				return false
			}
		})
	}
	return c
}

// run runs a call, or the waiting for one, beside the machine.
func (m *machine) run(c *call, work func(context.Context) (tool.Settlement, error)) {
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	go func() {
		defer cancel()
		s, err := work(ctx)
		c.ended <- end{s, err}
	}()
}

// waitFor waits until it holds, or the call has ended or was suspended.
func (m *machine) waitFor(c *call, what string, holds func() bool) {
	eventually(m, what, func() bool {
		m.collect(c)
		return c.done || c.handle != "" || holds()
	})
}

// Errorf and Fatalf make the machine a tester that says what was done.
func (m *machine) Helper() {}

// Errorf implements tester.
func (m *machine) Errorf(format string, args ...any) { m.Fatalf(format, args...) }

// Fatalf implements tester.
func (m *machine) Fatalf(format string, args ...any) {
	m.rt.Fatalf("%s\nsteps:\n%s\nlog:\n%s", fmt.Sprintf(format, args...), strings.Join(m.steps, "\n"), m.log)
}

// collect looks whether a call has ended, or was suspended.
func (m *machine) collect(c *call) {
	if c.done || c.handle != "" {
		return
	}
	select {
	case e := <-c.ended:
		m.came(c, e)
	default:
	}
}

func (m *machine) came(c *call, e end) {
	if s, ok := errors.AsType[*tool.Suspension](e.err); ok {
		c.handle = s.Handle
		m.note("call %s is suspended", c.id)
		return
	}
	if c.done {
		m.Fatalf("call %s ended twice", c.id)
	}
	c.done, c.end = true, e
	c.excused = c.excused || m.of(c.in, c.plugin).times != c.times
	m.note("call %s ended: %.200s", c.id, outcome(e.settled, e.err))
	if why := c.lost(); why != "" {
		m.Fatalf("call %s of %s was lost: %s: %s", c.id, c.plugin, why, outcome(e.settled, e.err))
	}
}

// lost says why a call must not have ended as it did.
func (c *call) lost() string {
	if c.excused || c.does == "crash" || c.does == "hang" {
		return ""
	}
	if c.end.err != nil {
		return "nobody cancelled it"
	}
	if c.end.settled.Status == tool.Completed {
		return ""
	}
	if c.replied && c.end.settled.Error.Kind == tool.KindDeclined {
		return ""
	}
	return "nothing was done to it"
}

// pick takes one of the calls that have not ended and that it likes.
func (m *machine) pick(rt *rapid.T, likes func(*call) bool) (*call, bool) {
	var all []*call
	for _, c := range m.calls {
		if m.collect(c); !c.done && likes(c) {
			all = append(all, c)
		}
	}
	if len(all) == 0 {
		return nil, false
	}
	return rapid.SampledFrom(all).Draw(rt, "call"), true
}

func (m *machine) cancel(rt *rapid.T) {
	if c, ok := m.pick(rt, func(c *call) bool { return c.handle == "" }); ok {
		m.note("cancel %s", c.id)
		c.excused = true
		c.cancel()
	}
}

func (m *machine) reply(rt *rapid.T) {
	if c, ok := m.pick(rt, func(c *call) bool { return c.mode != "" && !c.replied }); ok {
		granted := rapid.Bool().Draw(rt, "granted")
		m.note("reply to %s: %t", c.id, granted)
		c.replied = true
		c.replies <- permission.Reply{Granted: granted}
	}
}

func (m *machine) resume(rt *rapid.T) {
	c, ok := m.pick(rt, func(c *call) bool { return c.handle != "" })
	if !ok {
		return
	}
	m.note("resume %s", c.id)
	handle := c.handle
	c.handle = ""
	m.run(c, func(ctx context.Context) (tool.Settlement, error) {
		s, err := c.in.Resume(ctx, c.session, handle, 10*time.Millisecond)
		if errors.Is(err, registry.ErrNotSuspended) && !c.in.Closed() {
			return s, fmt.Errorf("it is not there: %w", err)
		}
		return s, err
	})
}

func (m *machine) withdraw(rt *rapid.T) {
	if c, ok := m.pick(rt, func(c *call) bool { return c.handle != "" }); ok {
		m.note("withdraw %s", c.id)
		m.withdrawn(c)
	}
}

func (m *machine) withdrawn(c *call) {
	handle := c.handle
	c.excused, c.handle = true, ""
	s, err := c.in.Withdraw(context.Background(), c.session, handle)
	if errors.Is(err, registry.ErrRunning) {
		s, err = c.in.Resume(context.Background(), c.session, handle, patience)
	}
	m.came(c, end{s, err})
}

func (m *machine) kill(rt *rapid.T) {
	if l, p, ok := m.victim(rt); ok {
		m.note("kill %s in %s, %d", p.Name, l.Name(), p.Pid)
		m.hurt(l, p.Name)
		_ = syscall.Kill(p.Pid, syscall.SIGKILL) // it may be replaced by now
	}
}

func (m *machine) stop(rt *rapid.T) {
	if l, p, ok := m.victim(rt); ok {
		m.note("stop %s in %s, %d", p.Name, l.Name(), p.Pid)
		m.hurt(l, p.Name)
		if syscall.Kill(p.Pid, syscall.SIGSTOP) == nil {
			m.stopped = append(m.stopped, p.Pid)
		}
	}
}

// wake lets what was stopped go on, which may be about to be replaced.
func (m *machine) wake(*rapid.T) {
	for _, pid := range m.stopped {
		m.note("wake %d", pid)
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	m.stopped = nil
}

// rebuild replaces a program, which somebody may see half written.
func (m *machine) rebuild(rt *rapid.T) {
	half := rapid.Bool().Draw(rt, "half")
	m.builds++
	m.excuseWaiting("built")
	m.note("rebuild, half %t", half)
	if err := build(m.program, fmt.Sprint(m.builds), half); err != nil {
		m.Fatalf("build: %v", err)
	}
	// One that was away may have met the half.
	for id, tr := range m.plugins {
		if half && tr.away && strings.HasSuffix(id, "/built") {
			tr.times++
		}
	}
}

// change makes a configuration of that which is in effect.
func (m *machine) change(change func(*config.Location)) *config.Config {
	next := *m.intends.Load()
	next.Locations = slices.Clone(next.Locations)
	for i := range next.Locations {
		next.Locations[i].Plugins = slices.Clone(next.Locations[i].Plugins)
		change(&next.Locations[i])
	}
	return &next
}

// adopt reloads, which must succeed.
func (m *machine) adopt(next *config.Config, what string) {
	m.note("reload: %s", what)
	m.intends.Store(next)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := m.Reload(ctx, next); err != nil {
		m.Fatalf("reload: %v", err)
	}
	m.note("reloaded")
}

func (m *machine) reload(rt *rapid.T) {
	name := rapid.SampledFrom([]string{"built", "slow", "noisy", "process"}).Draw(rt, "plugin")
	m.versions++
	m.excuseWaiting(name)
	m.adopt(m.another(name), "another "+name)
}

// another is the configuration with another version of a plugin.
func (m *machine) another(name string) *config.Config {
	return m.change(func(l *config.Location) {
		for i, p := range l.Plugins {
			if p.Name == name && name != "process" {
				p.Command = slices.Clone(p.Command)
				p.Command[len(p.Command)-1] = fmt.Sprint(m.versions)
				l.Plugins[i] = p
			} else if p.Name == name {
				l.Plugins[i].Sandbox.Network = !p.Sandbox.Network
			}
		}
	})
}

// reloadBad reloads with a plugin that does not start: nothing changes.
func (m *machine) reloadBad(rt *rapid.T) {
	next := m.change(func(l *config.Location) {
		l.Plugins = append(l.Plugins, plugin("broken", itself(m), bad, "0"))
	})
	m.note("reload with a plugin that does not start")
	active := len(m.Active())
	if _, err := m.Reload(context.Background(), next); err == nil && active > 0 {
		m.Fatalf("a plugin that does not start was taken")
	}
	m.adopt(m.intends.Load(), "as it was") // for the Locations that are not open
}

func (m *machine) permissions(rt *rapid.T) {
	denied := rapid.SampledFrom([]string{"nothing", "something"}).Draw(rt, "denied")
	m.adopt(m.change(func(l *config.Location) {
		root := l.Policy.Root
		l.Policy = allowing(denied)
		l.Policy.Root = root
	}), "permissions deny "+denied)
}

// excuseWaiting excuses the calls of a plugin that wait for a person, since what is replaced does not wait for that.
func (m *machine) excuseWaiting(plugin string) {
	for _, c := range m.calls {
		c.excused = c.excused || c.plugin == plugin && c.mode != "" && !c.done
	}
}

// addOrRemove adds a plugin to every Location, or removes it.
func (m *machine) addOrRemove(*rapid.T) {
	m.excuseWaiting("guest")
	m.adopt(m.change(func(l *config.Location) {
		if i := slices.IndexFunc(l.Plugins, func(p config.Plugin) bool { return p.Name == "guest" }); i >= 0 {
			l.Plugins = slices.Delete(l.Plugins, i, i+1)
		} else {
			l.Plugins = append(l.Plugins, plugin("guest", itself(m), good, "0"))
		}
	}), "a guest comes or goes")
}

// start starts a process in a session.
func (m *machine) start(rt *rapid.T) {
	l := m.activate("a")
	if m.observe(l); status(l, "process").State != client.Ready {
		return
	}
	session := rapid.SampledFrom([]string{"s0", "s1"}).Draw(rt, "session")
	sleeps := fmt.Sprintf("sleep 300.%d", m.next.Load())
	r := m.request(session, "process_start", map[string]any{"command": sleeps + " & exec " + sleeps})
	c := &call{id: r.Identity.Call, session: session, plugin: "process", does: "start", in: l, times: m.of(l, "process").times,
		excused: m.of(l, "process").away, ended: make(chan end, 1)}
	m.calls = append(m.calls, c)
	m.note("call %s: start %q in %s", c.id, sleeps, session)
	s, err := l.Capture().Call(context.Background(), r)
	m.came(c, end{s, err})
	if err == nil && s.Status == tool.Completed {
		m.sessions = append(m.sessions, started{l, session, sleeps})
	}
}

// endSession ends a session, and what runs in it.
func (m *machine) endSession(rt *rapid.T) {
	if len(m.sessions) == 0 {
		return
	}
	l := m.activate("a")
	session := m.sessions[rapid.IntRange(0, len(m.sessions)-1).Draw(rt, "session")].session
	for _, c := range m.calls {
		c.excused = c.excused || c.session == session && c.plugin == "process" && !c.done
	}
	m.note("end session %s", session)
	if err := l.EndSession(context.Background(), session); err != nil {
		m.Fatalf("end of a session: %v", err)
	}
	of := func(s started) bool { return s.in == l && s.session == session } // one that is retired ends them by itself
	for _, s := range m.sessions {
		if of(s) && running(s.command) {
			m.Fatalf("%q outlived its session", s.command)
		}
	}
	m.sessions = slices.DeleteFunc(m.sessions, of)
}

// excuse excuses all calls in a Location.
func (m *machine) excuse(l *location.Location) {
	for _, c := range m.calls {
		c.excused = c.excused || c.in == l && !c.done
	}
}

func (m *machine) close(rt *rapid.T) {
	l, ok := m.open(rt)
	if !ok {
		return
	}
	m.note("close %s", l.Name())
	m.excuse(l)
	begin := time.Now()
	if err := l.Close(context.Background()); err != nil {
		m.Fatalf("close: %v", err)
	}
	if took := time.Since(begin); took > bound {
		m.Fatalf("closing %s took %s", l.Name(), took)
	}
}

// remove reloads without a Location, and with it again: its calls end before it does.
func (m *machine) remove(rt *rapid.T) {
	before := m.intends.Load()
	next := *before
	at := rapid.IntRange(0, len(next.Locations)-1).Draw(rt, "at")
	next.Locations = slices.Delete(slices.Clone(next.Locations), at, at+1)
	for _, c := range m.calls { // nobody answers in time
		c.excused = c.excused || c.in.Name() == before.Locations[at].Name && !c.done && c.mode != ""
	}
	m.adopt(&next, "without "+before.Locations[at].Name)
	m.adopt(before, "with it again")
}

// atOnce kills what serves in every Location, while it is reloaded, sessions end, and Locations are closed and asked for. Then
// a reload makes it all what is configured, and everything serves again.
func (m *machine) atOnce(rt *rapid.T) {
	m.versions++
	next := m.another("built")
	closes, ends := rapid.Bool().Draw(rt, "closes"), rapid.Bool().Draw(rt, "ends")
	m.note("all at once, closes %t, ends sessions %t", closes, ends)
	for _, c := range m.calls {
		c.excused = c.excused || !c.done
	}
	var acts sync.WaitGroup
	later := func(what string, act func()) {
		after := time.Duration(rapid.IntRange(0, 80).Draw(rt, "millis")) * time.Millisecond
		m.note("after %s: %s", after, what)
		acts.Go(func() {
			time.Sleep(after)
			act()
		})
	}
	for _, l := range m.Active() {
		for _, p := range l.Plugins() {
			if m.hurt(l, p.Name); p.Pid != 0 {
				later(fmt.Sprintf("kill %s in %s, %d", p.Name, l.Name(), p.Pid), func() { _ = syscall.Kill(p.Pid, syscall.SIGKILL) })
			}
		}
		if closes {
			later("close "+l.Name(), func() { m.errs(l.Close(context.Background())) })
		}
		if ends {
			later("end the sessions of "+l.Name(), func() {
				for _, session := range []string{"s0", "s1"} {
					if err := l.EndSession(context.Background(), session); err != nil && !closes {
						m.errs(err)
					}
				}
			})
		}
		later("ask for "+l.Name(), func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			_, err := m.Location(ctx, l.Name())
			m.errs(err)
		})
	}
	m.sessions = nil
	later("kill whatever there is", func() {
		for _, p := range marked() {
			if pid, rest, _ := strings.Cut(p, " "); strings.Contains(rest, pluginRole) {
				if n, err := strconv.Atoi(pid); err == nil {
					_ = syscall.Kill(n, syscall.SIGKILL)
				}
			}
		}
	})
	later("reload", func() { _, _ = m.Reload(context.Background(), next) }) // what is new may have been killed
	acts.Wait()
	m.mu.Lock()
	err := errors.Join(m.failed...)
	m.mu.Unlock()
	if err != nil {
		m.Fatalf("all at once: %v", err)
	}
	m.adopt(next, "what was meant")
	time.Sleep(50 * time.Millisecond) // until each end was noticed
	for _, name := range m.Locations() {
		l := m.activate(name)
		eventually(m, "the return of all plugins of "+name, func() bool {
			return !slices.ContainsFunc(l.Plugins(), func(p location.PluginStatus) bool { return p.State != client.Ready })
		})
		m.observe(l)
	}
}

// errs keeps an error of what is done beside the machine.
func (m *machine) errs(err error) {
	if err != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.failed = append(m.failed, err)
	}
}

// check is what holds after every step.
func (m *machine) check(*rapid.T) {
	for _, c := range m.calls {
		m.collect(c)
	}
}

// finish closes the host, and checks the whole.
func (m *machine) finish(rt *rapid.T) {
	for _, c := range m.calls {
		m.collect(c)
		c.excused = c.excused || !c.done
	}
	var beside sync.WaitGroup
	if rapid.Bool().Draw(rt, "while it reloads") {
		m.versions++
		next := m.another("built")
		beside.Go(func() { _, _ = m.Reload(context.Background(), next) }) // or it is closed
		for _, name := range m.Locations() {
			beside.Go(func() { _, _ = m.Location(context.Background(), name) })
		}
		time.Sleep(time.Duration(rapid.IntRange(0, 60).Draw(rt, "millis")) * time.Millisecond)
	}
	m.note("close the host")
	begin := time.Now()
	if err := m.Close(context.Background()); err != nil {
		m.Fatalf("close: %v", err)
	}
	if took := time.Since(begin); took > bound {
		m.Fatalf("closing the host took %s", took)
	}
	beside.Wait()
	for _, c := range m.calls {
		if c.handle == "" {
			m.waitFor(c, "the end of call "+c.id, func() bool { return false })
		}
	}
	m.checkEvents()
}

// checkEvents: what was told of each call is what it came to, once.
func (m *machine) checkEvents() {
	began, ended := map[string]int{}, map[string][]tool.Status{}
	for i, e := range m.told() {
		if e.Dropped > 0 || e.Seq != uint64(i+1) {
			m.Fatalf("event %d is number %d, and %d were dropped", i+1, e.Seq, e.Dropped)
		}
		switch e.Kind {
		case location.EventCallStarted:
			began[e.Call.Identity.Call]++
		case location.EventCallEnded:
			ended[e.Call.Identity.Call] = append(ended[e.Call.Identity.Call], e.Call.Status)
		}
	}
	for _, c := range m.calls {
		told := ended[c.id]
		if len(told) != 1 || began[c.id] > 1 {
			m.Fatalf("call %s began %d times and ended as %q: %s", c.id, began[c.id], told, outcome(c.end.settled, c.end.err))
		}
		if c.handle != "" || errors.Is(c.end.err, registry.ErrNotSuspended) {
			continue // it ended with its Location
		}
		want := tool.Interrupted
		if c.end.err == nil {
			want = c.end.settled.Status
		}
		if told[0] != want {
			m.Fatalf("call %s ended as %s: %s, and that it was %s is told", c.id, want, outcome(c.end.settled, c.end.err), told[0])
		}
	}
}

// Whatever happens to a host, in whatever order: a call ends once, and events and settlements agree; nothing is lost to
// which nothing was done; and closing leaves nothing (laws 13, 15, 41, 42, 43).
//
// Seen to fail: with the end of an interrupted call told twice; with sessions that end nothing; with what was replaced ended
// at once.
func TestChaos(t *testing.T) { //nolint:paralleltest // it counts what the process has
	checks, steps := 2, 15
	if testing.Short() {
		checks, steps = 5, 15 // of which rapid makes one
	}
	until := time.Now().Add(long(t))
	if long(t) > 0 {
		checks, steps = 5, 50
	}
	set(t, "rapid.checks", strconv.Itoa(checks))
	set(t, "rapid.steps", strconv.Itoa(steps))
	set(t, "rapid.shrinktime", "0s") // what happened does not happen again in the same way
	set(t, "rapid.nofailfile", "true")
	runs, calls, excused := 0, 0, 0
	for again := true; again && !t.Failed(); again = time.Now().Before(until) {
		rapid.Check(t, func(rt *rapid.T) {
			before, goroutines := takeStock(), goleak.IgnoreCurrent()
			dir, err := os.MkdirTemp("", "")
			if err != nil {
				rt.Fatal(err)
			}
			rt.Cleanup(func() {
				if err := os.RemoveAll(dir); err != nil {
					rt.Error(err)
				}
			})
			m := newMachine(rt, dir)
			rt.Cleanup(func() { _ = m.Close(context.Background()) }) // if it failed
			rt.Repeat(m.actions())
			m.finish(rt)
			flat(m, before, takeStock)
			if err := goleak.Find(goroutines); err != nil {
				m.Fatalf("goroutines are left: %v", err)
			}
			runs++
			for _, c := range m.calls {
				calls++
				if c.excused {
					excused++
				}
			}
		})
	}
	t.Logf("%d hosts, %d calls, to %d of which something was done", runs, calls, excused)
}

// set sets a flag for this test.
func set(t *testing.T, name, value string) {
	t.Helper()
	before := flag.Lookup(name).Value.String()
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := flag.Set(name, before); err != nil {
			t.Error(err)
		}
	})
}
