package laws

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/instructions"
	"github.com/toolhost/toolhost/plugin/broker"
	"github.com/toolhost/toolhost/plugin/client"
	"github.com/toolhost/toolhost/sandbox"
	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem"
	"github.com/toolhost/toolhost/service/permission"
	commands "github.com/toolhost/toolhost/service/process"
	"github.com/toolhost/toolhost/state"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/output"
	"github.com/toolhost/toolhost/tool/registry"
)

// tester is what *testing.T and *rapid.T have in common.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Fatal(args ...any)
	Logf(format string, args ...any)
	Failed() bool
	Cleanup(func())
}

// settings is what differs between worlds.
type settings struct {
	hooks      registry.Hooks
	rules      []rule // of the user's file, before the defaults, which ask about tools
	project    []rule // of the project's file
	limits     *output.Limits
	perTool    map[string]output.Limits // by canonical id
	outputs    func(dir string) string  // the store's directory; nil for one that will be made
	deadline   time.Duration
	suspension time.Duration
	grants     []service.Grant
	unrecorded error         // why no start can be recorded; nil for a journal that records
	queued     bool          // people answer by the world's queue
	timeout    time.Duration // of the queue
	nobody     bool          // there is nobody to ask
	shared     *state.Store  // somebody else's, who closes it; nil for one of its own
}

// rule is a rule of the policy, in words.
type rule struct {
	action, resource string
	effect           permission.Effect
	reason, agent    string
}

func allow(action, resource string) rule {
	return rule{action: action, resource: resource, effect: permission.Allow}
}
func ask(action, resource string) rule {
	return rule{action: action, resource: resource, effect: permission.Ask}
}
func deny(action, resource string) rule {
	return rule{action: action, resource: resource, effect: permission.Deny}
}
func (r rule) of(agent string) rule       { r.agent = agent; return r }
func (r rule) because(reason string) rule { r.reason = reason; return r }

// A world is a Location's parts around one registry, as package location puts them together, over one transport.
type world struct {
	t    tester
	over transport
	settings
	dir      string // where tools record, and tests put their files
	root     string // of the Location
	mark     string // stands in the environment of every process of the world
	scope    *scope.Scope
	runDir   string
	files    *filesystem.FileSystem
	commands *commands.Service
	engine   *permission.Engine
	state    *state.Store
	calls    *state.Calls
	outputs  string // where whole outputs are kept
	store    *output.Store
	approver *approver
	queue    *permission.Queue // where people answer, if they do so there
	*registry.Registry

	mu             sync.Mutex
	contradictions []tool.Contradiction // under mu
	log            strings.Builder      // under mu
	lastCall       int                  // under mu
}

// newWorld makes a world in the directory, which is closed with the test. Nothing of it may be left then.
func newWorld(t tester, over transport, dir string, s settings) *world {
	t.Helper()
	w := &world{
		t: t, over: over, settings: s, dir: filepath.Join(dir, "deeds"), root: filepath.Join(dir, "root"), mark: "LAWS=" + rand.Text(),
		scope: scope.New(context.Background(), "world"), approver: &approver{}, outputs: filepath.Join(dir, "outputs"),
	}
	if w.state = s.shared; w.state == nil {
		w.state = state.New(state.Options{Dir: filepath.Join(dir, "state")})
	}
	for _, dir := range []string{w.dir, w.root} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if s.outputs != nil {
		w.outputs = s.outputs(dir)
	}
	t.Cleanup(w.end)
	var err error
	if w.runDir, err = client.OpenRunDir(w.scope); err != nil {
		t.Fatal(err)
	}
	if w.files, err = filesystem.Open(w.root, filesystem.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := w.scope.Defer("files", func(context.Context) error { return w.files.Close() }); err != nil {
		t.Fatal(err)
	}
	if w.commands, err = commands.New(commands.Options{
		Scope: w.scope, Launcher: launcher(), Root: w.files.Path(), Find: broker.Places(w.files),
	}); err != nil {
		t.Fatal(err)
	}
	w.calls = w.state.OpenCalls()
	approvals := host.Approvals(w.state)
	if s.queued {
		w.queue = permission.NewQueue(permission.QueueOptions{Approvals: approvals, Timeout: cmp.Or(s.timeout, 3*patience)})
		w.approver.answers(w.queue.Ask)
	}
	var answers permission.Approver = w.approver
	if s.nobody {
		answers = permission.Nobody{}
	}
	w.engine = permission.New(w.policy(), permission.Bounded(answers, w.scope)).WithApprovals(approvals)
	w.store = output.NewStore(output.StoreOptions{Dir: w.outputs, Log: w.logger()})
	limits := output.DefaultLimits()
	if s.limits != nil {
		limits = *s.limits
	}
	keeper := output.NewKeeper(output.KeeperOptions{Store: w.store, Location: w.root, Limits: limits, PerTool: s.perTool})
	finder := instructions.New(instructions.Options{
		Files: w.files, Root: w.root, Names: []string{"AGENTS.md"},
		Seen: func(ctx context.Context, session string, paths []string) ([]string, error) {
			return w.state.Seen(ctx, w.root, session, paths)
		},
	})
	if w.Registry, err = registry.New(registry.Options{
		Gate: w.gate, Scope: w.scope, Deadline: s.deadline, Suspension: s.suspension, Output: keeper, Journal: w, Hooks: s.hooks,
		Instructions: finder.For, Contradicted: w.contradicted, Log: w.logger(),
	}); err != nil {
		t.Fatal(err)
	}
	if _, report := w.Register(registry.Owner{Name: "toolhost", Host: true}, keeper.Tools()); len(report.Refused) > 0 {
		t.Fatalf("the host's own tools: %v", report.Refused)
	}
	return w
}

func (w *world) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Write takes a line of the log.
func (w *world) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(line)
}

func (w *world) logged() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

func (w *world) policy() *permission.Policy {
	return &permission.Policy{Root: w.root, Lists: []permission.List{w.list("user", w.rules), w.list("project", w.project)}, Defaults: permission.Defaults()}
}

// list is the rules of one file.
func (w *world) list(file string, rules []rule) (list permission.List) {
	for i, r := range rules {
		action, err := permission.ParsePattern(r.action)
		if err != nil {
			w.t.Fatal(err)
		}
		resource, err := permission.ParsePattern(r.resource)
		if err != nil {
			w.t.Fatal(err)
		}
		list.Rules = append(list.Rules, permission.Rule{
			Action: action, Resource: resource, Effect: r.effect, Reason: r.reason, Agent: r.agent, Source: fmt.Sprint(file, ":", i+1),
		})
	}
	return list
}

// gate makes a gate of one call.
func (w *world) gate(c registry.Caller) tool.Gate {
	return w.engine.Gate(permission.Caller{
		Identity: c.Identity, Tool: c.Tool, Plugin: c.Plugin, Builtin: c.Builtin, Preparing: c.Preparing,
		Root: w.files.Path(), Digest: c.Digest, Definition: c.Definition, Input: c.Input,
		Effects: c.Effects, Irreversible: c.Irreversible, Review: c.Review, Asking: c.Asking,
	})
}

func (w *world) contradicted(c tool.Contradiction) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.contradictions = append(w.contradictions, c)
}

// contradictionsSoFar are in the order in which they came.
func (w *world) contradictionsSoFar() []tool.Contradiction {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]tool.Contradiction(nil), w.contradictions...)
}

// Start implements [registry.Journal] with the real journal.
func (w *world) Start(ctx context.Context, start tool.Start) (func(tool.Status, tool.Kind), error) {
	if w.unrecorded != nil {
		return nil, w.unrecorded
	}
	id, err := w.calls.Start(ctx, w.root, start)
	if err != nil {
		return nil, err
	}
	return func(status tool.Status, kind tool.Kind) {
		if err := w.calls.End(context.WithoutCancel(ctx), id, status, kind); err != nil {
			w.t.Errorf("the end of a call was not recorded: %v", err)
		}
	}, nil
}

// journal is what was recorded, the oldest first, as "call status kind".
func (w *world) journal() []string {
	w.t.Helper()
	records, err := w.state.CallRecords(context.Background(), state.CallFilter{Limit: 10_000})
	if err != nil {
		w.t.Fatal(err)
	}
	var lines []string
	for _, r := range slices.Backward(records) {
		lines = append(lines, strings.TrimSpace(fmt.Sprint(r.Identity.Call, " ", r.Status, " ", r.Kind)))
	}
	return lines
}

// end ends the world and looks for what is left of it.
func (w *world) end() {
	w.releaseAll()
	if err := w.scope.Close(context.Background()); err != nil {
		w.t.Errorf("close the world: %v", err)
	}
	if w.calls != nil {
		if err := w.calls.Close(); err != nil {
			w.t.Errorf("close the journal: %v", err)
		}
	}
	if w.Registry != nil {
		for _, line := range w.journal() {
			if strings.Contains(line, string(state.CallRunning)) {
				w.t.Errorf("a call was recorded as started and never ended: %s", line)
			}
		}
		if left := w.names(); w.over != fake && len(left) > 0 {
			w.t.Errorf("the tools %v are left", left)
		}
	}
	if w.shared == nil {
		if err := w.state.Close(); err != nil {
			w.t.Errorf("close the state: %v", err)
		}
	}
	if w.runDir != "" && exists(w.runDir) {
		w.t.Errorf("the run directory %s is left", w.runDir)
	}
	for _, pid := range marked(w.mark) {
		w.t.Errorf("process %d is left", pid)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if w.t.Failed() {
		w.t.Logf("the log:\n%s", w.logged())
	}
}

// marked lists the living processes that have the mark in their environment.
func marked(mark string) []int {
	var pids []int
	names, _ := filepath.Glob("/proc/[0-9]*")
	for _, name := range names {
		environ, err := os.ReadFile(name + "/environ") // empty for one that has ended
		if err == nil && bytes.Contains(environ, []byte(mark)) {
			pid, _ := strconv.Atoi(filepath.Base(name))
			pids = append(pids, pid)
		}
	}
	return pids
}

// release lets the call go that waits, and releaseAll all of them.
func (w *world) release(call string) { w.touch("release " + call) }
func (w *world) releaseAll()         { w.touch(overFile) }

func (w *world) touch(name string) {
	if err := os.WriteFile(filepath.Join(w.dir, name), nil, 0o600); err != nil {
		w.t.Errorf("let a call go: %v", err)
	}
}

// write writes a file of the Location.
func (w *world) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		w.t.Fatal(err)
	}
}

// deeds are what the tools did so far, in order; of one call if it is named.
func (w *world) deeds(call string) []deed {
	w.t.Helper()
	raw, err := os.ReadFile(filepath.Join(w.dir, deedsFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	var all []deed
	for line := range bytes.Lines(raw) {
		var d deed
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // it is being written
		}
		if err := json.Unmarshal(line, &d); err != nil {
			w.t.Fatal(err)
		}
		if call == "" || d.Call == call {
			all = append(all, d)
		}
	}
	return all
}

// did is what the call did so far, in words.
func (w *world) did(call string) string {
	w.t.Helper()
	var what []string
	for _, d := range w.deeds(call) {
		what = append(what, d.What)
	}
	return strings.Join(what, ", ")
}

// await waits until the call has done it.
func (w *world) await(call, what string) {
	w.t.Helper()
	eventually(w.t, call+": "+what, func() bool { return strings.Contains(w.did(call), what) })
}

// names are the effective names, but for the host's own tools.
func (w *world) names() []string {
	var names []string
	for _, d := range w.definitions() {
		names = append(names, d.Name)
	}
	return names
}

func (w *world) definitions() []tool.Definition {
	var all []tool.Definition
	for _, d := range w.Capture().Definitions() {
		if !tool.Reserved(d.Name) {
			all = append(all, d)
		}
	}
	return all
}

// request is a call of the name, under a call id of its own.
func (w *world) request(name, input string) registry.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastCall++
	return registry.Request{
		Identity: tool.Identity{Session: "s", Agent: "a", Message: "m", Call: fmt.Sprint("c", w.lastCall)},
		Name:     name, Input: json.RawMessage(input),
	}
}

// approver answers what no rule does.
type approver struct {
	mu     sync.Mutex
	answer func(context.Context, permission.Request) (permission.Reply, error) // under mu; nil says yes
	asked  []permission.Request                                                // under mu
}

func (a *approver) Ask(ctx context.Context, r permission.Request) (permission.Reply, error) {
	a.mu.Lock()
	a.asked = append(a.asked, r)
	answer := a.answer
	a.mu.Unlock()
	if answer == nil {
		return permission.Reply{Granted: true}, nil
	}
	return answer(ctx, r)
}

func (a *approver) answers(f func(context.Context, permission.Request) (permission.Reply, error)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = f
}

// waits makes every question wait for a reply, or for its end.
func (a *approver) waits() chan<- permission.Reply {
	replies := make(chan permission.Reply)
	a.answers(func(ctx context.Context, _ permission.Request) (permission.Reply, error) {
		select {
		case r := <-replies:
			return r, nil
		case <-ctx.Done():
			return permission.Reply{}, context.Cause(ctx)
		}
	})
	return replies
}

// questions are what was asked so far, as "action resources".
func (a *approver) questions() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []string
	for _, r := range a.asked {
		all = append(all, r.Action+" "+strings.Join(r.Resources, ","))
	}
	return all
}

func launcher() sandbox.Launcher {
	return sandbox.Launcher{Path: "/proc/self/exe", Args: []string{reaperRole}}
}
