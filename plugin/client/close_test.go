package client_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolhost/toolhost/plugin/client"
	"github.com/toolhost/toolhost/sandbox"
	"github.com/toolhost/toolhost/tool"
)

// Closing is bounded whatever the plugin does (law 42), and nothing of it is left
// (law 41, cases F02 and F03). The worst case is a plugin that does not answer at
// all: grace for its calls and for Drain, then its tree is killed. Without the
// bound beside go-plugin's Kill, "stopped" hangs for ever; without the ending of
// the tree, "leaves a session" leaves two processes.
func TestLaw42BoundedClose(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		kind string
		call string // a tool that is called before, if any
		in   string
		most time.Duration
	}{
		{"idle", "many", "", "", closing},
		{"ignores signals", "deaf", "", "", closing},
		{"does not end when asked", "raw-stays", "", "", closing},
		{"hangs in drain", "drain-hangs", "", "", closing},
		{"stops in drain", "drain-stops", "", "", closing},
		{"fails in drain", "drain-fails", "", "", closing},
		{"floods its log", "noisy", "", "", closing},
		{"leaves a child", "many", "leave", `{"session":false}`, closing},
		{"leaves a session that holds stderr", "many", "leave", `{"session":true}`, closing},
		{"is in a call", "many", "wait", `{}`, closing},
		{"is in a call that ignores the end", "many", "wait", `{"stubborn":true}`, closing},
		{"stopped in a call", "many", "stop", `{}`, closing},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			args := []string(nil)
			if tt.kind == "noisy" {
				args = []string{"endless"}
			}
			i := b.start(tt.kind, args...)
			var calls sync.WaitGroup
			switch tt.call {
			case "":
			case "leave":
				value[int](b, "leave", tt.in)
				eventually(t, "the child and its own", func() bool { return len(marked(b.mark)) == 3 })
			default:
				began := make(chan struct{}, 10)
				calls.Go(func() {
					_, err := b.callWith(context.Background(), tt.call, tool.Call{
						Identity: someone, Input: []byte(tt.in), Progress: func(tool.Progress) { began <- struct{}{} },
					})
					wantKind(t, tool.KindUnavailable, err)
				})
				if pid := i.Status().Pid; tt.call == "stop" {
					eventually(t, "the stop", func() bool { return stateOf(pid) == 'T' })
				} else {
					<-began
				}
			}
			b.close(i)
			calls.Wait()
			if s := i.Status(); s.State != client.Closed {
				t.Errorf("status = %+v, want closed", s)
			}
			if tt.kind != "drain-fails" && strings.Contains(b.logged(), "level=ERROR") {
				t.Error("closing is logged as an error")
			}
		})
	}
}

// stateOf is the state of a process, as ps has it.
func stateOf(pid int) byte {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return rest[0]
}

// Closing twice is closing once, at the same time as well, and also when the
// scope is closed (case F17).
func TestCaseF17DoubleClose(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	i := b.start("many")
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if err := i.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			if err := b.scope.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	<-i.Gone()
	if _, err := b.call(context.Background(), "echo", `{}`); err == nil {
		t.Error("a tool is left")
	}
	if n := strings.Count(b.logged(), "state=closed"); n != 1 {
		t.Errorf("it was closed %d times", n)
	}
}

// Whoever ends the scope ends the incarnation: its state says so, its tools are
// gone, and calls are not let in. Without following the scope it stayed ready.
func TestClosingTheScopeCloses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	i := b.start("many")
	echo := b.tools["echo"]
	b.scope.Cancel(nil)
	<-i.Gone()
	eventually(t, "the end of the tools", func() bool { return len(b.names()) == 0 })
	_, err := echo.Execute(context.Background(), tool.Call{Identity: someone, Input: []byte(`{"text":"x"}`)})
	wantKind(t, tool.KindUnavailable, err)
	if err := b.scope.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if s := i.Status().State; s != client.Closed {
		t.Errorf("state = %s, want closed", s)
	}
}

// A plugin that heeds ends by itself, in this order: its calls are cancelled, then
// it is asked to finish, then to end.
func TestPoliteEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	i := b.start("many")
	began, ended := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = b.callWith(context.Background(), "wait", tool.Call{
			Identity: someone, Input: []byte(`{}`), Progress: func(tool.Progress) { began <- struct{}{} },
		})
	}()
	<-began
	b.close(i)
	<-ended
	cancelled, drained := strings.Index(b.logged(), "the wait was cancelled"), strings.Index(b.logged(), "drained")
	if cancelled < 0 || drained < cancelled {
		t.Errorf("cancelled at %d, drained at %d of the log", cancelled, drained)
	}
	b.close(b.start("raw-calls"))
	wantIn(t, b.logged(), "served to the end")
}

// A tree is ended without a reaper as well, as far as the process group reaches.
func TestCloseWithoutReaper(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.host.Launcher = sandbox.Launcher{}
	i := b.start("many")
	value[int](b, "leave", `{"session":false}`)
	if m := i.Status().Method; m != sandbox.MethodGroup {
		t.Errorf("method = %s", m)
	}
	b.close(i)
}

// A crash with a living child that holds standard error is noticed by the end of
// the process, and the child ends too. go-plugin notices it when the last one
// closes the pipe, which is never.
func TestCrashWithLivingChild(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	i := b.start("many")
	within(t, closing, "noticing", func() {
		wantIn(t, b.failsWith(tool.KindCrashed, "end", `{"how":"exit","child":true}`), "exit status 3", "about to end")
	})
	<-i.Gone()
	if s := i.Status(); s.State != client.Failed || !strings.Contains(s.Reason, "exit status 3") {
		t.Errorf("status = %+v", s)
	}
	eventually(t, "the end of the child", func() bool { return len(marked(b.mark)) == 0 })
	b.close(i)
	if s := i.Status(); s.State != client.Failed {
		t.Errorf("state = %s after closing, want that it failed", s.State)
	}
}

// Several plugins close at the same time, and one that hangs holds up no other.
func TestClosingInParallel(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	slow, fast := b.start("drain-hangs"), b.start("many")
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.close(slow)
	}()
	<-slow.Gone()
	within(t, closing, "closing the other", func() {
		if err := fast.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	<-done
}

// runHost is a host that is killed: it starts a plugin that leaves children and
// waits for the end.
func runHost() int {
	b := openBench(&hostTB{})
	b.mark = os.Args[2]
	if os.Args[3] == "confined" {
		b.policy = &sandbox.Policy{Exec: true}
	}
	b.start("many")
	value[int](b, "leave", `{"session":true}`)
	value[int](b, "leave", `{"session":false}`)
	b.start("deaf")
	go b.call(context.Background(), "wait", `{"stubborn":true}`)
	fmt.Println(b.host.RunDir)
	select {}
}

// hostTB lets the host use the bench without a test.
type hostTB struct{ testing.TB }

func (*hostTB) Helper()         {}
func (*hostTB) TempDir() string { return "/" }
func (*hostTB) Fatal(args ...any) {
	fmt.Fprintln(os.Stderr, args...)
	os.Exit(1)
}

func (h *hostTB) Fatalf(format string, args ...any) { h.Fatal(fmt.Sprintf(format, args...)) }

// After the host was killed there is no process within two seconds (law 41):
// neither a plugin that ignores signals, nor children with sessions of their own
// that hold the pipes, nor a reaper. The next sweep takes what is on the disk (case
// F07).
func TestLaw41HostKilled(t *testing.T) {
	t.Parallel()
	for n, how := range []string{"unconfined", "confined", "unconfined", "confined"} {
		mark := "BENCH=" + rand.Text()
		host := exec.Command("/proc/self/exe", "__host", mark, how)
		host.Env = append(os.Environ(), "HOST"+mark) // so that it and its reapers are found
		host.Stderr = os.Stderr
		out, err := host.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := host.Start(); err != nil {
			t.Fatal(err)
		}
		dir, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if got := len(marked(mark)); got < 7 { // the host, two plugins, and two children with one of their own each
			t.Errorf("only %d processes run", got)
		}
		_ = host.Process.Signal(syscall.SIGKILL)
		start := time.Now()
		_ = host.Wait()
		for len(marked(mark)) > 0 && time.Since(start) < patience {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("round %d: processes lived for %s, at most 2 s", n, took)
		}
		dir = strings.TrimSpace(dir)
		if _, err := client.SweepRunDirs(context.Background()); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("round %d: what the host left is still there after a sweep: %v", n, err)
		}
	}
}
