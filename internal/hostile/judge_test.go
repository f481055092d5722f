package hostile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/plugin/client"
	"github.com/toolhost/toolhost/sandbox"
	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/state"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// The columns of the table, which are the names of the plugins.
const (
	off    = "off"
	strict = "strict"
	exec_  = "exec" // strict, and it may run programs
	net_   = "net"  // strict, and it may use the network
)

func columns() []string { return []string{off, strict, exec_, net_} }

// confined are the columns in which something is to be refused.
func confined() []string { return columns()[1:] }

// exploding are the columns of the bombs, for which a network makes no difference.
func exploding() []string { return columns()[:3] }

// A report is what came of everything, for one user.
type report struct {
	// Lacking is why nothing was tried: the machine has no strict confinement.
	Lacking string
	// Attacks has an outcome for each attack and column.
	Attacks map[string]map[string]Outcome
	// Broken says what of the user's is not as it was after the confined plugins attacked.
	Broken []string
	// Inherited is what each plugin found open.
	Inherited map[string][]string
	// Lacks are the bounds that the machine does not have.
	Lacks []string
	// Bombs has what came of each bomb.
	Bombs map[string]map[string]explosion
}

// ended is in place of a refusal where the plugin did not live to tell.
const ended = "it ended"

// An explosion is what came of a bomb.
type explosion struct {
	Outcome
	// Threads and Memory are the most that was seen of the plugin's tree.
	Threads, Memory int
	// Slowest is how long a call of another plugin took at most meanwhile, and Calls is how many there were.
	Slowest time.Duration
	Calls   int
}

// The limits of the plugins that are bombs.
const (
	boundMemory    = 256 << 20
	boundProcesses = 64
	boundFiles     = 128
	boundPrivate   = 256 << 20 // of each private directory, which is not for config to say
)

// bombSizes are how much each bomb wants: more than is granted.
func bombSizes() map[string]int {
	return map[string]int{
		"memory": 2 * boundMemory, "memory, shared": 2 * boundMemory, "memory, as a stack": 2 * boundMemory, "memory, of /dev/zero": 2 * boundMemory,
		"memory, of the first stack": 100 << 20, // beyond that another mapping may be in the way
		"threads":                    600, "processes": 600, "files in /tmp": boundPrivate + 64<<20, "files in its own": boundPrivate + 64<<20,
		"descriptors": 4 * boundFiles, "processors": 8,
	}
}

// plugins are the hostile plugins, one for each column.
func (s stage) plugins(limits config.SandboxLimits) (all []config.Plugin) {
	for _, name := range columns() {
		p := config.Plugin{Name: name, Command: []string{s.in("bin", "plugin"), name}, Sandbox: config.Sandbox{
			Mode: config.Strict, Read: []string{s.in("readable")}, Write: []string{s.in("writable")}, Exec: name == exec_, Network: name == net_, Limits: limits,
		}}
		if name == off {
			p.Sandbox = config.Sandbox{Mode: config.Off}
		}
		all = append(all, p)
	}
	return all
}

// yes says yes to everything.
type yes struct{}

func (yes) Ask(context.Context, permission.Request) (permission.Reply, error) {
	return permission.Reply{Granted: true}, nil
}

// A theatre is a host with a stage.
type theatre struct {
	stage stage
	host  *host.Host
	store *state.Store
}

// open opens a host with three kinds of Locations: victim has a plugin that nobody attacks through but which is attacked;
// attack has the hostile plugins; and there is one for each plugin that is a bomb.
func (s stage) open(ctx context.Context) (*theatre, error) {
	cfg := &config.Config{}
	add := func(name string, plugins ...config.Plugin) {
		cfg.Locations = append(cfg.Locations, config.Location{Name: name, Root: s.in("project"), Policy: &permission.Policy{}, Plugins: plugins})
	}
	add("victim", config.Plugin{
		Name: "victim", Command: []string{s.in("bin", "plugin"), "victim"}, Grants: []service.Grant{service.GrantFileSystemRead},
		Sandbox: config.Sandbox{Mode: config.Off},
	})
	add("attack", s.plugins(config.SandboxLimits{})...)
	for _, p := range s.plugins(config.SandboxLimits{Memory: boundMemory, Processes: boundProcesses, Files: boundFiles}) {
		add("bomb-"+p.Name, p)
	}
	th := &theatre{stage: s, store: state.New(state.Options{Dir: s.in("state")})}
	var err error
	th.host, err = host.Open(ctx, cfg, host.Options{
		Launcher: s.launcher(), Approver: yes{}, State: th.store,
	})
	if err != nil {
		return nil, errors.Join(err, th.store.Close())
	}
	return th, nil
}

func (s stage) launcher() sandbox.Launcher {
	return sandbox.Launcher{Path: s.in("bin", "launcher"), Args: []string{Launcher}}
}

func (th *theatre) close(ctx context.Context) error {
	return errors.Join(th.host.Close(ctx), th.store.Close())
}

// enter activates a Location, all plugins of which must be there.
func (th *theatre) enter(ctx context.Context, name string) (*location.Location, error) {
	l, err := th.host.Location(ctx, name)
	if err != nil {
		return nil, err
	}
	for _, p := range l.Plugins() {
		if p.State != client.Ready {
			return nil, fmt.Errorf("plugin %s is %s: %s", p.Name, p.State, p.Reason)
		}
	}
	return l, nil
}

// ask calls a tool.
func ask[T any](ctx context.Context, l *location.Location, name string, in any) (out T, err error) {
	encoded, err := json.Marshal(in)
	if err != nil {
		return out, err
	}
	s, err := l.Capture().Call(ctx, registry.Request{
		Identity: tool.Identity{Session: "s", Agent: "a", Message: "m", Call: "c"}, Name: name, Input: encoded,
	})
	if err != nil {
		return out, err
	}
	if s.Status != tool.Completed {
		return out, fmt.Errorf("%s: %s: %v", name, s.Status, s.Error)
	}
	err = json.Unmarshal(s.Structured, &out)
	return out, err
}

// judge is the host that has everything tried.
func judge(dir string) (_ *report, err error) {
	ctx := context.Background()
	s := stage(dir)
	life := scope.New(ctx, "probe")
	found := sandbox.Probe(ctx, life, s.launcher())
	if err := life.Close(ctx); err != nil {
		return nil, err
	}
	if found.Tier != sandbox.Strict {
		return &report{Lacking: found.Reason}, nil
	}
	sc, err := s.lay()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sc.close()) }()
	th, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, th.close(ctx)) }()
	r := &report{Attacks: map[string]map[string]Outcome{}, Inherited: map[string][]string{}, Bombs: map[string]map[string]explosion{}}
	victim, err := th.enter(ctx, "victim")
	if err != nil {
		return nil, err
	}
	if err := th.aim(&sc.target); err != nil {
		return nil, err
	}
	if err := th.attack(ctx, r, sc.target); err != nil {
		return nil, err
	}
	return r, th.explode(ctx, r, sc.target, victim)
}

// aim completes a target by what is the host's.
func (th *theatre) aim(t *Target) error {
	runs, err := filepath.Glob(th.stage.in("run", "toolhost-*"))
	if err != nil || len(runs) != 1 {
		return fmt.Errorf("the host has the run directories %q: %w", runs, err)
	}
	if t.RunDir, err = filepath.EvalSymlinks(runs[0]); err != nil {
		return err
	}
	dirs, err := filepath.Glob(filepath.Join(t.RunDir, "p*"))
	if err != nil || len(dirs) != 1 {
		return fmt.Errorf("the other plugin has the directories %q: %w", dirs, err)
	}
	t.OtherDir = dirs[0]
	if all := socketsBelow(t.RunDir); len(all) > 0 {
		t.Other = all[0]
	}
	t.State, err = th.store.Path()
	return err
}

func (th *theatre) attack(ctx context.Context, r *report, t Target) error {
	l, err := th.enter(ctx, "attack")
	if err != nil {
		return err
	}
	for _, p := range l.Plugins() {
		if p.Name != off {
			r.Lacks = p.Confinement.Lacks
		}
	}
	for _, column := range columns() {
		before, err := th.witness()
		if err != nil {
			return err
		}
		if r.Inherited[column], err = ask[[]string](ctx, l, "inherited_"+column, struct{}{}); err != nil {
			return err
		}
		for _, a := range Attacks() {
			if r.Attacks[a.Name] == nil {
				r.Attacks[a.Name] = map[string]Outcome{}
			}
			o, err := ask[Outcome](ctx, l, "attack_"+column, input{a.Name, t})
			if err != nil {
				o = Outcome{Refusal: "the plugin ended: " + err.Error()}
			}
			r.Attacks[a.Name][column] = o
		}
		after, err := th.witness()
		if err != nil {
			return err
		}
		if column != off && before != after {
			r.Broken = append(r.Broken, fmt.Sprintf("%s: what was %q is %q", column, before, after))
		}
	}
	return l.Close(ctx)
}

// witness says how what must not be touched is.
func (th *theatre) witness() (string, error) {
	var all string
	for _, path := range []string{"outside/secret", "outside/scratch", "readable/file"} {
		content, err := os.ReadFile(th.stage.in(path))
		if err != nil {
			return "", err
		}
		info, err := os.Stat(th.stage.in(path))
		if err != nil {
			return "", err
		}
		all += fmt.Sprint(path, string(content), info.Mode(), info.ModTime().UnixNano(), " ")
	}
	for _, dir := range []string{"outside", "readable", "writable"} {
		entries, err := os.ReadDir(th.stage.in(dir))
		if err != nil {
			return "", err
		}
		for _, entry := range entries {
			all += dir + "/" + entry.Name() + " "
		}
	}
	return all, nil
}

// explode has each bomb go off in a plugin that was just started, while another plugin is called.
func (th *theatre) explode(ctx context.Context, r *report, t Target, victim *location.Location) error {
	for name, size := range bombSizes() {
		r.Bombs[name] = map[string]explosion{}
		for _, column := range exploding() {
			l, err := th.enter(ctx, "bomb-"+column)
			if err != nil {
				return fmt.Errorf("before the bomb %q: %w", name, err)
			}
			t.Size, t.OtherDir = size, "/run/toolhost"
			if column == off {
				t.OtherDir = th.stage.in("writable")
			}
			e := th.watch(ctx, victim, column, func() Outcome {
				o, err := ask[Outcome](ctx, l, "bomb_"+column, input{name, t})
				if err != nil {
					return Outcome{Refusal: ended}
				}
				return o
			})
			r.Bombs[name][column] = e
			if err := l.Close(ctx); err != nil {
				return err
			}
			if left := processesOf(t.Plugin, column); len(left) > 0 {
				return fmt.Errorf("%s, %s: processes %v are left", name, column, left)
			}
		}
	}
	return nil
}

// watch looks at the plugin, and calls the other one, as long as something lasts.
func (th *theatre) watch(ctx context.Context, victim *location.Location, column string, do func() Outcome) explosion {
	var e explosion
	var all sync.WaitGroup
	over := make(chan struct{})
	all.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(10 * time.Millisecond):
			}
			l := loadOf(th.stage.in("bin", "plugin"), column)
			e.Threads, e.Memory = max(e.Threads, l.threads), max(e.Memory, l.memory)
		}
	})
	all.Go(func() {
		for {
			began := time.Now()
			if _, err := ask[bool](ctx, victim, "ping_victim", struct{}{}); err != nil {
				e.Slowest = time.Hour
				return
			}
			e.Slowest = max(e.Slowest, time.Since(began))
			e.Calls++
			select {
			case <-over:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	e.Outcome = do()
	close(over)
	all.Wait()
	return e
}

// leaveDaemons has each plugin leave a process behind, says so by a line, and waits to be killed.
func leaveDaemons(dir string) error {
	ctx := context.Background()
	s := stage(dir)
	th, err := s.open(ctx)
	if err != nil {
		return err
	}
	l, err := th.enter(ctx, "attack")
	if err != nil {
		return err
	}
	left := map[string]Outcome{}
	for _, column := range exploding() {
		t := Target{Plugin: s.in("bin", "plugin"), Words: os.Getenv("WORDS") + "-" + column}
		if left[column], err = ask[Outcome](ctx, l, "daemon_"+column, input{"", t}); err != nil {
			return err
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(left); err != nil {
		return err
	}
	time.Sleep(time.Minute)
	return errors.New("nobody killed it")
}
