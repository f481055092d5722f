package laws

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/toolhost/toolhost/plugin/client"
	"github.com/toolhost/toolhost/plugin/sdk"
	"github.com/toolhost/toolhost/service/filesystem"
	"github.com/toolhost/toolhost/service/permission"
	commands "github.com/toolhost/toolhost/service/process"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// A peer is who registers tools in a world: over the fake the registry's caller itself, else a plugin.
type peer struct {
	w     *world
	owner registry.Owner

	incarnation *client.Incarnation // nil over the fake

	mu      sync.Mutex
	control *tool.Tool                        // under mu: of the incarnation
	active  map[string]*registry.Registration // under mu: over the fake
	last    int                               // under mu: the number of a registration
}

// peer starts a plugin that is not built in, and peerOf another one.
func (w *world) peer(name string) *peer {
	return w.peerOf(registry.Owner{Name: name, Digest: "digest of " + name})
}

func (w *world) peerOf(owner registry.Owner) *peer {
	w.t.Helper()
	p := &peer{w: w, owner: owner, active: map[string]*registry.Registration{}}
	p.start()
	return p
}

// start starts the plugin, or starts it again.
func (p *peer) start() {
	p.w.t.Helper()
	if p.w.over == fake {
		return
	}
	exe, err := os.Executable()
	if err != nil {
		p.w.t.Fatal(err)
	}
	host := client.Host{
		Launcher: launcher(), RunDir: p.w.runDir, FileSystem: p.w.files, Process: p.w.commands, Register: p.offer,
		Activation:   p.w.engine.Gate(permission.Caller{Plugin: p.owner.Name, Tool: p.owner.Name + "/", Preparing: true}),
		Contradicted: p.w.contradicted, Log: p.w.logger(),
	}
	role := pluginRole
	if p.owner.Builtin {
		role = builtinRole
	}
	spec := client.Spec{
		Name: p.owner.Name, Builtin: p.owner.Builtin, Command: []string{exe, role}, Env: []string{p.w.mark},
		Grants: p.w.grants, Settings: quoted(recording{p.w.dir}), Location: "here", Root: p.w.root,
		Profile: &commands.Profile{},
	}
	if p.w.over == process {
		p.incarnation, err = client.Start(context.Background(), p.w.scope, host, spec)
	} else {
		p.incarnation, err = client.StartLocal(context.Background(), p.w.scope, host, spec, inProcess(sdk.Adapt, suitePlugin(p.owner.Builtin)))
	}
	if err != nil {
		p.w.t.Fatal(err)
	}
}

// inProcess is a plugin in this process. The types of the wire are not known here, and need not be.
func inProcess[C, P any](
	adapt func(sdk.Plugin, func(uint32) (C, error), func(error)) (P, func(context.Context) error), p sdk.Plugin,
) func(func(uint32) (C, error)) (P, func(context.Context) error) {
	return func(connect func(uint32) (C, error)) (P, func(context.Context) error) {
		return adapt(p, connect, func(error) {})
	}
}

// offer takes the tools of the plugin, of which the control is for the suite.
func (p *peer) offer(tools map[string]tool.Tool) (client.Registered, []client.Refused) {
	if control, ok := tools[controlName]; ok {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.control = &control
		return kept{}, nil
	}
	made, report := p.w.Register(p.owner, tools)
	var refused []client.Refused
	for _, x := range report.Refused {
		refused = append(refused, client.Refused{Name: x.Name, Reason: x.Reason})
	}
	return made, refused
}

// kept is a registration that is in no registry.
type kept struct{}

func (kept) Close() {}
func (kept) Lost()  {}

// A standing registration of a peer.
type standing struct {
	peer *peer
	name string
	// refused are its tools that were refused, by name, with the reasons as the plugin is told them.
	refused map[string]string
}

// register registers tools none of which is refused.
func (p *peer) register(tools map[string]spec) *standing {
	p.w.t.Helper()
	s := p.offers(command{Tools: tools})
	if len(s.refused) > 0 {
		p.w.t.Errorf("%s: refused %v", p.owner.Name, s.refused)
	}
	return s
}

// offers registers tools, some of which may be refused.
func (p *peer) offers(c command) *standing {
	p.w.t.Helper()
	p.mu.Lock()
	p.last++
	c.Register = fmt.Sprint("r", p.last)
	p.mu.Unlock()
	s := &standing{peer: p, name: c.Register, refused: map[string]string{}}
	if p.w.over == fake {
		tools := map[string]tool.Tool{}
		for name, x := range c.all() {
			tools[name] = p.body().tool(x)
		}
		made, report := p.w.Register(p.owner, tools)
		for _, x := range report.Refused {
			s.refused[x.Name] = x.Reason
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.active[c.Register] = made
		return s
	}
	var refused []sdk.Refused
	if err := json.Unmarshal(p.command(c), &refused); err != nil {
		p.w.t.Fatal(err)
	}
	for _, x := range refused {
		s.refused[x.Name] = x.Reason
	}
	return s
}

// body is where the fake's tools run.
func (p *peer) body() body {
	return body{
		dir: p.w.dir,
		assert: func(ctx context.Context, call tool.Call, r tool.PermissionRequest) error {
			return call.Gate.Assert(ctx, r)
		},
		open: func(ctx context.Context, call tool.Call, path string) (handle, error) {
			root, err := p.w.files.ResolveRoot(ctx, filesystem.Caller{Gate: call.Gate, Session: call.Identity.Session}, path)
			if err != nil {
				return nil, err
			}
			return opened{root}, p.w.scope.Defer("a handle of the fake", func(context.Context) error { return root.Close() })
		},
	}
}

// opened is what a plugin has in the place of the engine's handle.
type opened struct{ *filesystem.Root }

func (o opened) Resources() []string {
	info := o.Info()
	return slices.Compact([]string{info.Resource, info.Resolved})
}

// command commands the plugin.
func (p *peer) command(c command) json.RawMessage {
	p.w.t.Helper()
	p.mu.Lock()
	control := p.control
	p.mu.Unlock()
	result, err := control.Execute(context.Background(), tool.Call{
		Identity: tool.Identity{Session: "suite", Agent: "suite", Message: "suite", Call: "suite"},
		Tool:     p.owner.Name + "/" + controlName, Input: quoted(c), Effects: tool.None, Gate: nobody{},
	})
	if err != nil {
		p.w.t.Fatalf("control of %s: %v", p.owner.Name, err)
	}
	return result.Output
}

// nobody is the gate of the suite's own commands, which need no permission.
type nobody struct{}

func (nobody) Assert(context.Context, tool.PermissionRequest) error {
	return fmt.Errorf("not for a command")
}
func (nobody) Permit(context.Context, string, ...string) error {
	return fmt.Errorf("not for a command")
}
func (nobody) PermitCommand(context.Context, tool.CommandLine) error {
	return fmt.Errorf("not for a command")
}
func (nobody) Allows(string, string) bool { return false }
func (nobody) Denies(string, string) bool { return true }
func (nobody) Refused() *tool.Refusal     { return nil }

// close closes exactly this registration.
func (s *standing) close() {
	s.peer.w.t.Helper()
	if s.peer.w.over == fake {
		s.peer.mu.Lock()
		defer s.peer.mu.Unlock()
		s.peer.active[s.name].Close()
		return
	}
	s.peer.command(command{Close: s.name})
}

// refusedNames are the names of what was refused, sorted.
func (s *standing) refusedNames() string {
	return strings.Join(slices.Sorted(maps.Keys(s.refused)), " ")
}

// crash takes away what runs the peer's tools: the process is killed, the plugin in this process is ended, and of the fake
// the registry is told so. The names stay claimed.
func (p *peer) crash() {
	p.w.t.Helper()
	if p.w.over == fake {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, r := range p.active {
			r.Lost()
		}
		clear(p.active)
		return
	}
	if p.w.over == process {
		if err := syscall.Kill(p.incarnation.Status().Pid, syscall.SIGKILL); err != nil {
			p.w.t.Fatal(err)
		}
		<-p.incarnation.Gone()
	}
	if err := p.incarnation.Close(context.Background()); err != nil {
		p.w.t.Errorf("close %s: %v", p.owner.Name, err)
	}
}
