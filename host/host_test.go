package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/plugin/client"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

func open(t testing.TB, names []string, builtins ...string) *host.Host {
	t.Helper()
	h, err := host.Open(context.Background(), configure(t, names, builtins...), options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return h
}

func activate(t testing.TB, h *host.Host, name string) *location.Location {
	t.Helper()
	l, err := h.Location(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func call(ctx context.Context, l *location.Location, name string) (tool.Settlement, error) {
	return l.Capture().Call(ctx, registry.Request{
		Identity: tool.Identity{Session: "s", Agent: "a", Message: "m", Call: "c"}, Name: name,
	})
}

func callWhere(t testing.TB, l *location.Location) where {
	t.Helper()
	s, err := call(context.Background(), l, "where")
	if err != nil || s.Status != tool.Completed {
		t.Fatal(s.Status, s.Error, err)
	}
	var w where
	if err := json.Unmarshal(s.Structured, &w); err != nil {
		t.Fatal(err)
	}
	return w
}

// pidOf is the process of the only plugin: to itself, confined, it is the first one.
func pidOf(l *location.Location) int { return l.Plugins()[0].Pid }

// Tools of the same name in two Locations answer for their own, each from a
// process of its own that is not the host's.
func TestToolsRunInProcessesOfTheirOwn(t *testing.T) {
	h := open(t, []string{"a", "b"}, "probe")
	a, b := callWhere(t, activate(t, h, "a")), callWhere(t, activate(t, h, "b"))
	if a.Location != "a" || b.Location != "b" || a.Root == b.Root {
		t.Errorf("got %+v and %+v, want each one's own Location", a, b)
	}
	pids := []int{pidOf(activate(t, h, "a")), pidOf(activate(t, h, "b"))}
	if pids[0] == os.Getpid() || pids[1] == os.Getpid() || pids[0] == pids[1] {
		t.Errorf("host %d, plugins %v: want three processes", os.Getpid(), pids)
	}
	if err := h.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if _, err := os.Stat("/proc/" + strconv.Itoa(pid)); !os.IsNotExist(err) {
			t.Errorf("process %d is left after Close", pid)
		}
	}
}

// Concurrent callers share one activation, and a caller who goes away does not
// take it with him.
func TestConcurrentCallersShareOneActivation(t *testing.T) {
	h := open(t, []string{"a"}, "probe")
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := h.Location(gone, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v from a caller who is gone, want context.Canceled", err)
	}
	var callers sync.WaitGroup
	pids := make([]int, 20)
	for i := range pids {
		callers.Go(func() {
			if l, err := h.Location(context.Background(), "a"); err == nil {
				callWhere(t, l)
				pids[i] = pidOf(l)
			}
		})
	}
	callers.Wait()
	for _, pid := range pids {
		if pid == 0 || pid != pids[0] {
			t.Fatalf("got the processes %v, want one", pids)
		}
	}
}

// A plugin that fails blocks nobody and is listed with its reason (law 43).
func TestLaw43FailingPluginBlocksNobody(t *testing.T) {
	h := open(t, []string{"a"}, "broken", "probe")
	l := activate(t, h, "a")
	callWhere(t, l)
	status := l.Plugins()
	if len(status) != 2 || status[0].State != location.Restarting || !strings.Contains(status[0].Reason, "exit status 3") {
		t.Errorf("got %+v, want broken to be started again, with its exit status", status)
	}
	if status[1].State != client.Ready || len(status[1].Tools) != 5 {
		t.Errorf("got %+v, want probe to be ready with its five tools", status[1])
	}
}

// A Location without its root says so, leaves the others alone, and is tried
// again when it is asked for the next time.
func TestMissingRootIsReportedAndRecovered(t *testing.T) {
	cfg := configure(t, []string{"a", "b"}, "probe")
	root := cfg.Locations[0].Root
	if err := os.Remove(root); err != nil {
		t.Fatal(err)
	}
	h, err := host.Open(context.Background(), cfg, options())
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.Background())
	if _, err := h.Location(context.Background(), "a"); err == nil || !strings.Contains(err.Error(), root) {
		t.Errorf("got %v, want an error that names %s", err, root)
	}
	callWhere(t, activate(t, h, "b"))
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	callWhere(t, activate(t, h, "a"))
}

// A Location that was closed is activated anew.
func TestClosedLocationIsActivatedAnew(t *testing.T) {
	h := open(t, []string{"a"}, "probe")
	l := activate(t, h, "a")
	first := pidOf(l)
	if err := l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	l = activate(t, h, "a")
	if callWhere(t, l); pidOf(l) == first {
		t.Errorf("got process %d again", first)
	}
}

// A Location is there again while the one that it was still closes, which a plugin that
// was stopped draws out: neither waits for the other, or takes what the other has.
//
// Seen to fail: with a Location that is activated anew only when it has closed.
func TestActivatedWhileTheOldOneCloses(t *testing.T) {
	h := open(t, []string{"a"}, "probe")
	old := activate(t, h, "a")
	first := pidOf(old)
	if err := syscall.Kill(first, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- old.Close(context.Background()) }()
	waitFor(t, "the beginning of the end", old.Closed)
	l := activate(t, h, "a")
	if callWhere(t, l); l == old || pidOf(l) == first {
		t.Errorf("got process %d again", first)
	}
	select {
	case err := <-closed:
		t.Fatalf("it closed before the other one served, %v: this proves nothing", err)
	default:
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	callWhere(t, l)
	if err := h.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if left := children(os.Getpid()); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

func TestUnknownLocation(t *testing.T) {
	h := open(t, []string{"alpha", "beta"}, "probe")
	_, err := h.Location(context.Background(), "alpah")
	if err == nil || !strings.Contains(err.Error(), "alpha") || !strings.Contains(err.Error(), "beta") {
		t.Errorf("got %v, want an error that lists what there is", err)
	}
}

// Close ends calls that run and plugins that are still starting, within its
// bound (laws 14, 42).
func TestLaw42CloseIsBounded(t *testing.T) {
	h := open(t, []string{"a", "slow"}, "probe")
	l := activate(t, h, "a")
	ended := make(chan tool.Settlement, 1)
	var callers sync.WaitGroup
	callers.Go(func() {
		s, _ := call(context.Background(), l, "wait")
		ended <- s
	})
	slow := open(t, []string{"s"}, "slow")
	callers.Go(func() { _, _ = slow.Location(context.Background(), "s") })
	waitFor(t, "the call to run", func() bool { return len(children(os.Getpid())) >= 2 })

	begin := time.Now()
	if err := errors.Join(h.Close(context.Background()), slow.Close(context.Background())); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("closing took %s, want at most 5s", took)
	}
	callers.Wait()
	if s := <-ended; s.Error == nil || s.Error.Kind != tool.KindUnavailable {
		t.Errorf("got %+v from a call that was closed away, want unavailable", s)
	}
	if left := children(os.Getpid()); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	if _, err := h.Location(context.Background(), "a"); err == nil {
		t.Error("a closed host activated a Location")
	}
}

// Opening and closing leaves nothing, however often (law 41).
func TestLaw41OpenAndCloseLeaveNothing(t *testing.T) {
	tmp, err := os.MkdirTemp("/tmp", "th") // where nobody else's directories are; short, for the sockets
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", tmp)
	cycle := func() {
		h, err := host.Open(context.Background(), configure(t, []string{"a"}, "probe"), options())
		if err != nil {
			t.Fatal(err)
		}
		callWhere(t, activate(t, h, "a"))
		if err := h.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	cycle() // what is made once stays
	before := census(t)
	for range rounds {
		cycle()
	}
	after := census(t)
	t.Logf("before %+v, after %d rounds %+v", before, rounds, after)
	waitFor(t, fmt.Sprintf("the baseline %+v", before), func() bool {
		after = census(t)
		return !after.over(before)
	})
}

// what a process holds.
type holdings struct{ goroutines, descriptors, directories, processes int }

func (h holdings) over(base holdings) bool {
	return h.goroutines > base.goroutines || h.descriptors > base.descriptors ||
		h.directories > base.directories || h.processes > base.processes
}

func census(t *testing.T) holdings {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), "toolhost-*"))
	if err != nil {
		t.Fatal(err)
	}
	return holdings{runtime.NumGoroutine(), len(fds), len(dirs), len(children(os.Getpid()))}
}

// children lists the processes that descend from pid, the dead ones included.
func children(pid int) []int {
	procs, _ := filepath.Glob("/proc/[0-9]*/stat")
	parents := map[int]int{}
	for _, path := range procs {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		id, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		parents[id], _ = strconv.Atoi(string(fields[1]))
	}
	var out []int
	for id := range parents {
		for up := id; up > 1; up = parents[up] {
			if parents[up] == pid {
				out = append(out, id)
				break
			}
		}
	}
	return out
}

func waitFor(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !reached(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited 10s for %s; goroutines now:\n%s", what, stacks())
		}
	}
}

func stacks() []byte {
	buffer := make([]byte, 1<<20)
	return buffer[:runtime.Stack(buffer, true)]
}

// What a handler returns as an error, a panic in it and a crash are told to the
// operator in full, and to the model not at all (law 22, case F01).
func TestLaw22OperationalErrorsReachTheOperator(t *testing.T) {
	h := open(t, []string{"a"}, "probe")
	l := activate(t, h, "a")
	for _, test := range []struct {
		tool string
		kind tool.Kind
		want []string
	}{
		{"err", tool.KindInternal, []string{"plugin probe", "probe/err", "the database is down"}},
		{"panic", tool.KindInternal, []string{"plugin probe", "probe/panic", "panic: out of cheese"}},
		{"exit", tool.KindCrashed, []string{"plugin probe", "probe/exit", "exit status 7", "last words"}},
	} {
		s, err := call(context.Background(), l, test.tool)
		if err != nil || s.Error == nil || s.Error.Kind != test.kind {
			t.Fatalf("%s: got %+v, %v, want %s", test.tool, s.Error, err, test.kind)
		}
		for _, want := range test.want {
			if !strings.Contains(s.Error.Cause.Error(), want) {
				t.Errorf("%s: the operator is told %q, want %q in it", test.tool, s.Error.Cause, want)
			}
			if strings.Contains(s.Error.Message, want) {
				t.Errorf("%s: the model is told %q", test.tool, s.Error.Message)
			}
		}
	}
}

// A plugin that crashed is listed with how it ended and its last words, and its tools
// are gone until it serves again (law 44). Seen to fail without the tail of the log.
func TestLaw44CrashIsVisible(t *testing.T) {
	o := options()
	o.Supervision.Restarts = -1 // it stays away
	h, err := host.Open(context.Background(), configure(t, []string{"a"}, "probe"), o)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.Background())
	l := activate(t, h, "a")
	if _, err := call(context.Background(), l, "exit"); err != nil {
		t.Fatal(err)
	}
	var s location.PluginStatus
	waitFor(t, "the plugin to be listed as failed", func() bool {
		s = l.Plugins()[0]
		return s.State == client.Failed
	})
	for _, want := range []string{"exit status 7", "last words"} {
		if !strings.Contains(s.Reason, want) {
			t.Errorf("the reason is %q, want %q in it", s.Reason, want)
		}
	}
	if len(s.Tools) != 0 || s.Exit != "exit status 7" {
		t.Errorf("its tools %q are still there, exit %q", s.Tools, s.Exit)
	}
}
