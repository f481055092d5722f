package client_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toolhost/toolhost/plugin/client"
	"github.com/toolhost/toolhost/plugin/internal/wire"
	"github.com/toolhost/toolhost/sandbox"
	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/tool"
)

// The test binary is also the reaper, every plugin of the tests, and a host that
// gets killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "__launch":
			os.Exit(sandbox.Main(os.Args[2:]))
		case "__plugin":
			runPlugin(os.Args[2], os.Args[3:])
			os.Exit(0)
		case "__host":
			os.Exit(runHost())
		case "__rundir":
			os.Exit(runRunDir())
		}
	}
	goleak.VerifyTestMain(m)
}

// patience is for what is sure to come, on a machine that does other things too.
const patience = 20 * time.Second

// closing is what law 42 allows.
const closing = 5 * time.Second

// bench is a host with its plugins.
type bench struct {
	t     testing.TB
	scope *scope.Scope
	host  client.Host
	mark  string // stands in the environment of every process of the bench
	// policy confines the plugins; nil does not.
	policy *sandbox.Policy

	mu    sync.Mutex
	tools map[string]tool.Tool
	ends  []string // how registrations ended
	log   strings.Builder
}

// newBench makes a host that is closed with the test. Nothing of it may be left
// then: no process, no directory, no tool.
func newBench(t testing.TB) *bench {
	t.Helper()
	b := openBench(t)
	t.Cleanup(func() {
		if err := b.scope.Close(context.Background()); err != nil {
			t.Errorf("close the host: %v", err)
		}
		b.wantNothingLeft()
		if t.Failed() {
			t.Log(b.logged())
		}
	})
	return b
}

// bothWays runs a test with calls on leased streams, and with a stream for every call,
// which is how a plugin is called that does not know the former.
func bothWays(t *testing.T, name string, test func(t *testing.T, newBench func(testing.TB) *bench)) {
	t.Run(name+" leased", func(t *testing.T) {
		t.Parallel()
		test(t, newBench)
	})
	t.Run(name+" streamed", func(t *testing.T) {
		t.Parallel()
		test(t, func(t testing.TB) *bench {
			b := newBench(t)
			b.host = b.host.Without(wire.FeatureLease)
			return b
		})
	})
}

func openBench(t testing.TB) *bench {
	t.Helper()
	b := &bench{
		t: t, scope: scope.New(context.Background(), "host"), tools: map[string]tool.Tool{},
		mark: "BENCH=" + rand.Text(),
	}
	dir, err := client.OpenRunDir(b.scope)
	if err != nil {
		t.Fatal(err)
	}
	b.host = client.Host{
		Launcher:   sandbox.Launcher{Path: "/proc/self/exe", Args: []string{"__launch"}},
		RunDir:     dir,
		Activation: openGate{},
		Register:   b.register,
		Log:        slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	return b
}

func (b *bench) wantNothingLeft() {
	b.t.Helper()
	if _, err := os.Stat(b.host.RunDir); !errors.Is(err, os.ErrNotExist) {
		b.t.Errorf("the run directory is still there: %v", err)
	}
	if pids := marked(b.mark); len(pids) > 0 {
		b.t.Errorf("processes %v are left", pids)
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if names := b.names(); len(names) > 0 {
		b.t.Errorf("tools %v are left", names)
	}
}

func (b *bench) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.Write(p)
}

func (b *bench) logged() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.String()
}

func (b *bench) register(tools map[string]tool.Tool) (client.Registered, []client.Refused) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.Copy(b.tools, tools)
	return &registered{b, tools}, nil
}

// registered is the tools of one registration of a bench.
type registered struct {
	bench *bench
	tools map[string]tool.Tool
}

func (r *registered) Close() { r.remove("closed") }
func (r *registered) Lost()  { r.remove("lost") }

func (r *registered) remove(how string) {
	r.bench.mu.Lock()
	defer r.bench.mu.Unlock()
	for name := range r.tools {
		delete(r.bench.tools, name)
	}
	r.bench.ends = append(r.bench.ends, how)
}

func (b *bench) names() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var names []string
	for name := range b.tools {
		names = append(names, name)
	}
	return names
}

// spec is for a plugin of the tests, by its kind.
func (b *bench) spec(kind string, args ...string) client.Spec {
	exe, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	return client.Spec{
		Name: kind, Command: append([]string{exe, "__plugin", kind}, args...), Env: []string{b.mark},
		Location: "here", Root: b.t.TempDir(), Policy: b.policy,
	}
}

func (b *bench) start(kind string, args ...string) *client.Incarnation {
	b.t.Helper()
	return b.startSpec(b.spec(kind, args...))
}

func (b *bench) startSpec(spec client.Spec) *client.Incarnation {
	b.t.Helper()
	i, err := client.Start(context.Background(), b.scope, b.host, spec)
	if err != nil {
		b.t.Fatal(err)
	}
	return i
}

// startFails gives the error of a start, of which nothing must be left.
func (b *bench) startFails(spec client.Spec) error {
	b.t.Helper()
	i, err := client.Start(context.Background(), b.scope, b.host, spec)
	if err == nil {
		_ = i.Close(context.Background())
		b.t.Fatalf("plugin %s is %s, want an error", spec.Name, i.Status().State)
	}
	if pids := marked(b.mark); len(pids) > 0 {
		b.t.Errorf("processes %v are left of a failed start", pids)
	}
	if left, _ := os.ReadDir(b.host.RunDir); len(left) > 0 {
		b.t.Errorf("%v is left of a failed start", left)
	}
	return err
}

// close closes within the time of law 42.
func (b *bench) close(i *client.Incarnation) {
	b.t.Helper()
	within(b.t, closing, "closing", func() {
		if err := i.Close(context.Background()); err != nil {
			b.t.Errorf("close: %v", err)
		}
	})
	if pids := marked(b.mark); len(pids) > 0 {
		b.t.Errorf("processes %v outlived the closing", pids)
	}
	if s := i.Status().State; s != client.Closed && s != client.Failed {
		b.t.Errorf("state = %s after closing", s)
	}
}

// someone is a complete identity.
var someone = tool.Identity{Session: "s", Agent: "a", Message: "m", Call: "c"}

// call calls a tool of the bench.
func (b *bench) call(ctx context.Context, name, input string) (tool.Result, error) {
	return b.callWith(ctx, name, tool.Call{Identity: someone, Input: json.RawMessage(input), Gate: openGate{}})
}

func (b *bench) callWith(ctx context.Context, name string, call tool.Call) (tool.Result, error) {
	b.mu.Lock()
	t, ok := b.tools[name]
	b.mu.Unlock()
	if !ok {
		return tool.Result{}, fmt.Errorf("no tool %s", name)
	}
	call.Tool = "plugin/" + name
	return t.Execute(ctx, call)
}

// value calls a tool and decodes its output.
func value[T any](b *bench, name, input string) T {
	b.t.Helper()
	var v T
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := b.call(ctx, name, input)
	if err != nil {
		b.t.Fatalf("call %s: %v (%v)", name, err, errors.Unwrap(err))
	}
	if err := json.Unmarshal(r.Output, &v); err != nil {
		b.t.Fatalf("call %s: output %.200s: %v", name, r.Output, err)
	}
	return v
}

// failsWith calls a tool that ends operationally, and gives the whole story.
func (b *bench) failsWith(kind tool.Kind, name, input string) string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := b.call(ctx, name, input)
	return wantKind(b.t, kind, err)
}

func wantKind(t testing.TB, kind tool.Kind, err error) string {
	t.Helper()
	e, ok := errors.AsType[*tool.Error](err)
	if !ok || e.Kind != kind {
		t.Fatalf("error = %#v, %v, want kind %s", e, err, kind)
	}
	if e.Cause == nil {
		return ""
	}
	return e.Cause.Error()
}

// openGate allows everything.
type openGate struct{}

func (openGate) Assert(context.Context, tool.PermissionRequest) error  { return nil }
func (openGate) Permit(context.Context, string, ...string) error       { return nil }
func (openGate) PermitCommand(context.Context, tool.CommandLine) error { return nil }
func (openGate) Allows(string, string) bool                            { return true }
func (openGate) Denies(string, string) bool                            { return false }
func (openGate) Refused() *tool.Refusal                                { return nil }

func within(t testing.TB, d time.Duration, what string, f func()) {
	t.Helper()
	start := time.Now()
	f()
	if took := time.Since(start); took > d {
		t.Errorf("%s took %s, at most %s", what, took, d)
	}
}

// eventually asks again and again.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for until := time.Now().Add(patience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("it never came: %s", what)
		}
	}
}

func wantIn(t testing.TB, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not in:\n%s", w, text)
		}
	}
}

// marked lists the living processes that have the mark in their environment.
func marked(mark string) []int {
	var pids []int
	names, _ := filepath.Glob("/proc/[0-9]*")
	for _, name := range names {
		pid, _ := strconv.Atoi(filepath.Base(name))
		environ, err := os.ReadFile(name + "/environ") // empty for one that has ended
		if err == nil && bytes.Contains(environ, []byte(mark)) {
			pids = append(pids, pid)
		}
	}
	return pids
}
