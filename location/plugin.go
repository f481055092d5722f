package location

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/plugin/client"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

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
	// Restarts is how often it was started again, Exit how its process ended last, if it
	// did so by itself, and Log the last of what it wrote: now, or then.
	Restarts int    `json:"restarts,omitempty"`
	Exit     string `json:"exit,omitempty"`
	Log      string `json:"log,omitempty"`
	// Update is why its newer configuration, or its newer program, is not in effect; what
	// is said here otherwise is of the one that serves.
	Update string `json:"update,omitempty"`
	// Digest stands for what makes it behave as it does (law 7).
	Digest string `json:"digest,omitempty"`
	// Calls are those that run, Stuck those that were cancelled and go on.
	Calls int `json:"calls,omitempty"`
	Stuck int `json:"stuck,omitempty"`
	// Memory is how many bytes of memory its process occupies, as the system counts them.
	Memory int64 `json:"memory,omitempty"`
	// Draining is how many incarnations that were replaced still serve what was captured
	// before.
	Draining int `json:"draining,omitempty"`
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
		Env: environ(p.Env), Grants: p.Grants, Settings: p.Settings, Location: l.name, Root: l.files.Path(),
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
// what, and what it is granted (law 7). An executable that is not pinned, and a file that
// an argument names, as that of an interpreter, is known by its place in the filesystem and
// the times that every change of it changes; an executable that cannot be looked at is like
// no other. Of its sandbox counts what it allows: limits do not make it another.
func digest(spec client.Spec, p config.Plugin) string {
	program := spec.SHA256
	if program == "" {
		if program = looks(spec.Command[0]); program == "" {
			return ""
		}
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q %q %q %q", program, spec.Command, p.Files, spec.Env, spec.Grants, spec.Settings, spec.Root)
	s := p.Sandbox
	fmt.Fprintf(h, " %t %q %q %t %t", s.Mode == config.Off, s.Read, s.Write, s.Network, s.Exec)
	for _, path := range arguments(p.Command) {
		if !slices.ContainsFunc(p.Files, func(f config.PinnedFile) bool { return f.Path == path }) {
			fmt.Fprintf(h, " %q", looks(path))
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// arguments are those that may name files: what an interpreter runs.
func arguments(command []string) []string {
	if len(command) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(command[1:]), func(arg string) bool { return !filepath.IsAbs(arg) })
}

// looks tells a file apart from what it was before any change; it is empty for what is
// no file, or cannot be looked at.
func looks(path string) string {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprint(stat.Dev, stat.Ino, stat.Size, stat.Mtim, stat.Ctim)
}

// contradicted passes on what a tool would have done beyond the effects of a call.
func (l *Location) contradicted(c tool.Contradiction) {
	if l.record != nil {
		l.record.contradicted(c)
	}
	l.tell(Event{Kind: EventContradiction, Contradiction: &c})
	if l.options.Contradicted != nil {
		l.options.Contradicted(c)
	}
}

// registrar is how an incarnation registers its tools in its set.
func (p *plugin) registrar(set *registry.Set, beside unseen) func(map[string]tool.Tool) (client.Registered, []client.Refused) {
	return func(tools map[string]tool.Tool) (client.Registered, []client.Refused) {
		registration, report := set.Register(withUnseen(tools, beside))
		var refused []client.Refused
		for _, x := range report.Refused {
			refused = append(refused, client.Refused{Name: x.Name, Reason: x.Reason})
		}
		p.tellTools(set)
		return &registered{p, set, registration}, refused
	}
}

// tellTools tells that tools of a set that is shown appeared, or vanished.
func (p *plugin) tellTools(set *registry.Set) {
	p.mu.Lock()
	shown := p.set == set && p.state == client.Ready
	p.mu.Unlock()
	if shown {
		p.location.tell(Event{Kind: EventTools, Plugin: p.config.Name})
	}
}

// registered is one registration of an incarnation.
type registered struct {
	plugin       *plugin
	set          *registry.Set
	registration *registry.Registration
}

var _ client.Registered = (*registered)(nil)

// Close implements [client.Registered].
func (r *registered) Close() {
	r.registration.Close()
	r.plugin.tellTools(r.set)
}

// Lost implements [client.Registered]: with one registration all of the incarnation are
// gone, in one act.
func (r *registered) Lost() {
	r.set.Lost()
	r.registration.Lost() // also if it was closed before
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
	plugins := l.current().plugins
	out := make([]PluginStatus, 0, len(plugins))
	for _, p := range plugins {
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
	draining := p.location.draining(p.config.Name)
	p.mu.Lock()
	defer p.mu.Unlock()
	s := PluginStatus{
		Name: p.config.Name, Builtin: p.config.Builtin, Sandbox: p.config.Sandbox, State: p.state, Reason: p.reason, Since: p.since,
		Confinement: p.confinement, Restarts: p.restarts, Exit: p.exit, Log: p.words, Update: cmp.Or(p.update, p.pins), Digest: p.digest, Draining: draining,
	}
	if p.location.Closed() {
		s.State = client.Closed
	}
	if p.incarnation == nil {
		return s
	}
	i := p.incarnation.Status()
	s.Version, s.Pid, s.TreeKill, s.Calls, s.Stuck = i.Version, i.Pid, string(i.Method), i.Calls, i.Stuck
	s.Confinement.Lacks, s.Log, s.Memory = i.Lacks, p.incarnation.LastWords(), memoryOf(i.Pid)
	for _, grant := range i.Grants {
		s.Grants = append(s.Grants, string(grant))
		if grant == service.GrantProcess {
			s.Commands = new(p.commands)
		}
	}
	return s
}

// plain is an error of a plugin in words that do not name it again.
func plain(plugin string, err error) string {
	return strings.TrimPrefix(err.Error(), "plugin "+plugin+": ")
}

// memoryOf is how many bytes of memory a process occupies, or 0 if that is not known.
func memoryOf(pid int) int64 {
	counts, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	var all, resident int64
	if n, _ := fmt.Sscan(string(counts), &all, &resident); n < 2 {
		return 0
	}
	return resident * int64(os.Getpagesize())
}

// A Tail is the newest of what a plugin wrote to its log; see [client.Tail].
type Tail = client.Tail

// Log is the end of what a plugin wrote, up to 64 KiB: the incarnation that serves, and
// those before it. It is nil if there is no such plugin. Who follows it asks again from
// time to time, since the plugin may be removed.
func (l *Location) Log(plugin string) *Tail {
	p := l.current().plugin(plugin)
	if p == nil || l.Closed() {
		return nil
	}
	return p.tail
}

func (p *plugin) setNow() *registry.Set {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.set
}

func (p *plugin) stateNow() client.State {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

func (p *plugin) setUpdate(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.update = why
}
