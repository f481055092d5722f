package location

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/plugin/client"
	"github.com/toolhost/toolhost/sandbox"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// plugin is one configured plugin of a Location, with its incarnation.
type plugin struct {
	config config.Plugin

	mu          sync.Mutex
	incarnation *client.Incarnation // under mu; nil until it is ready, and when it did not start
	failure     error               // under mu: why it did not start
	confinement Confinement         // under mu; zero until it is known
	commands    Commands            // under mu; of those that it may run if it is granted
}

// PluginStatus is what is known of one plugin.
type PluginStatus struct {
	// Name is the plugin's key in the configuration.
	Name string `json:"name"`
	// Builtin is the name of the built-in that it is, or empty.
	Builtin string `json:"builtin,omitempty"`
	// State is where it is in its life; Reason is why it does not serve.
	State  client.State `json:"state"`
	Reason string       `json:"reason,omitempty"`
	// Version is what the plugin says of itself.
	Version string `json:"version,omitempty"`
	// Pid is its process, TreeKill how its whole tree is ended.
	Pid      int    `json:"pid,omitempty"`
	TreeKill string `json:"tree_kill,omitempty"`
	// Grants are the services that it may use.
	Grants []string `json:"grants,omitempty"`
	// Sandbox is what its entry in the configuration says of its confinement.
	Sandbox config.Sandbox `json:"sandbox,omitzero"`
	// Confinement is how it is confined, once that is known.
	Confinement Confinement `json:"confinement,omitzero"`
	// Commands is how the commands are run that it runs; nil if it cannot run any.
	Commands *Commands `json:"commands,omitempty"`
	// Tools are the names under which its tools can be called.
	Tools []string `json:"tools,omitempty"`
	// Refused are its tools that cannot be called, each with the reason.
	Refused []string `json:"refused,omitempty"`
	// Doubts are parts of its tools' schemas that contradict each other; they are
	// enforced as they stand.
	Doubts []string `json:"doubts,omitempty"`
	// Unavailable are its tools that say that they cannot be called now, each with the
	// reason.
	Unavailable []string `json:"unavailable,omitempty"`
	// Since is when it entered its state.
	Since time.Time `json:"since,omitzero"`
}

// start starts one plugin. It returns an error only when the Location cannot go
// on, which is never the plugin's doing.
func (l *Location) start(ctx context.Context, p *plugin) error {
	spec, err := l.spec(p.config)
	if err != nil {
		p.failed(err)
		return nil
	}
	if spec.Policy, err = l.confined(ctx, p); err != nil {
		p.failed(err)
		return nil
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
	incarnation, err := client.Start(ctx, l.life, client.Host{
		Launcher:   l.options.Launcher,
		Programs:   l.options.Programs,
		Forbidden:  l.forbidden(),
		RunDir:     l.options.RunDir,
		FileSystem: l.files,
		Process:    l.process,
		// While it is being activated a plugin is judged as while it prepares a call.
		Activation: l.engine.Gate(permission.Caller{
			Plugin: owner.Name, Tool: owner.Name + "/", Builtin: owner.Builtin, Preparing: true,
			Root: l.files.Path(), Digest: owner.Digest,
		}),
		Register: func(tools map[string]tool.Tool) (client.Registered, []client.Refused) {
			return l.register(owner, withUnseen(tools, effectsOf(p.config.Sandbox, owner.Builtin)))
		},
		Contradicted: l.contradicted,
		Log:          l.log,
		StartTimeout: l.options.StartTimeout,
	}, spec)
	if err != nil {
		p.failed(err) // whoever opened the Location finds it in the status
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.incarnation = incarnation
	return nil
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

// lookAtProgram says it when the program of a plugin that is not pinned is another one
// than when it was trusted, or last started (law 40). The plugin is started beside that.
func (l *Location) lookAtProgram(ctx context.Context, plugin, path string) {
	change, err := l.options.State.ProgramChanged(ctx, path)
	switch {
	case ctx.Err() != nil, errors.Is(err, fs.ErrNotExist): // the plugin itself says so
	case err != nil:
		l.log.Warn("it is not known whether the program of a plugin changed", slog.String("plugin", plugin), slog.Any("error", err))
	case change != nil:
		l.log.Warn("the program of a plugin changed since it was last started or trusted: pin it by its sha256 if that should not happen",
			slog.String("plugin", plugin), slog.String("program", change.Path), slog.String("was", change.OldSHA256), slog.String("is", change.NewSHA256))
	}
}

// spec is what config says of a plugin, as the client needs it.
func (l *Location) spec(p config.Plugin) (client.Spec, error) {
	spec := client.Spec{
		Name: p.Name, Builtin: p.Builtin != "", Command: p.Command, SHA256: p.SHA256, Files: map[string]string{},
		Env: environ(p.Env), Grants: p.Grants, Settings: p.Settings, Location: l.config.Name, Root: l.files.Path(),
	}
	for _, f := range p.Files {
		spec.Files[f.Path] = f.SHA256
	}
	if spec.Builtin {
		if spec.Command = l.options.Builtins[p.Builtin]; spec.Command == nil {
			return spec, fmt.Errorf("plugin %s: this program has no built-in %q", p.Name, p.Builtin)
		}
	}
	return spec, nil
}

// digest stands for what makes the plugin behave as it does: what is run, with
// what, and what it is granted (law 7). An executable that is not pinned is known
// by its place in the filesystem and the times that every change of it changes; one
// that cannot be looked at is like no other. Of its sandbox counts what it allows: limits
// do not make it another.
func digest(spec client.Spec, p config.Plugin) string {
	program := spec.SHA256
	if program == "" {
		info, err := os.Stat(spec.Command[0])
		if err != nil {
			return ""
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return ""
		}
		program = fmt.Sprint(stat.Dev, stat.Ino, stat.Size, stat.Mtim, stat.Ctim)
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q %q %q %q", program, spec.Command, p.Files, spec.Env, spec.Grants, spec.Settings, spec.Root)
	s := p.Sandbox
	fmt.Fprintf(h, " %t %q %q %t %t", s.Mode == config.Off, s.Read, s.Write, s.Network, s.Exec)
	return hex.EncodeToString(h.Sum(nil))
}

// contradicted passes on what a tool would have done beyond the effects of a call.
func (l *Location) contradicted(c tool.Contradiction) {
	if l.record != nil {
		l.record.contradicted(c)
	}
	if l.options.Contradicted != nil {
		l.options.Contradicted(c)
	}
}

func (l *Location) register(owner registry.Owner, tools map[string]tool.Tool) (client.Registered, []client.Refused) {
	registration, report := l.registry.Register(owner, tools)
	var refused []client.Refused
	for _, x := range report.Refused {
		refused = append(refused, client.Refused{Name: x.Name, Reason: x.Reason})
	}
	return registration, refused
}

func (p *plugin) failed(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failure = err
}

func (p *plugin) close(ctx context.Context) error {
	p.mu.Lock()
	incarnation := p.incarnation
	p.mu.Unlock()
	if incarnation == nil {
		return nil
	}
	return incarnation.Close(ctx)
}

// Plugins is the status of every configured plugin, by name.
func (l *Location) Plugins() []PluginStatus {
	tools, unavailable := map[string][]string{}, map[string][]string{}
	capture := l.registry.Capture()
	for _, d := range capture.Definitions() {
		owner, _, _ := strings.Cut(d.ID, "/")
		tools[owner] = append(tools[owner], d.Name)
	}
	for _, a := range capture.Unavailable() {
		owner, _, _ := strings.Cut(a.ID, "/")
		unavailable[owner] = append(unavailable[owner], a.Name+": "+a.Unavailable)
	}
	out := make([]PluginStatus, 0, len(l.plugins))
	for _, p := range l.plugins {
		s := p.status()
		s.Tools, s.Unavailable = tools[s.Name], unavailable[s.Name]
		for _, x := range l.registry.Refusals(s.Name) {
			s.Refused = append(s.Refused, x.Name+": "+x.Reason)
		}
		for _, x := range l.registry.Doubts(s.Name) {
			s.Doubts = append(s.Doubts, x.Name+": "+x.Reason)
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b PluginStatus) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (p *plugin) status() PluginStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := PluginStatus{Name: p.config.Name, Builtin: p.config.Builtin, Sandbox: p.config.Sandbox, State: client.Starting}
	s.Confinement = p.confinement
	if p.failure != nil {
		s.State, s.Reason = client.Failed, strings.TrimPrefix(p.failure.Error(), "plugin "+s.Name+": ")
	}
	if p.incarnation == nil {
		return s
	}
	i := p.incarnation.Status()
	s.State, s.Reason, s.Version, s.Pid, s.TreeKill, s.Since = i.State, i.Reason, i.Version, i.Pid, string(i.Method), i.Since
	s.Confinement.Lacks = i.Lacks
	for _, grant := range i.Grants {
		s.Grants = append(s.Grants, string(grant))
		if grant == service.GrantProcess {
			s.Commands = new(p.commands)
		}
	}
	return s
}
