package sandbox

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// daemons is a program with descendants that are hard to find: one in a session of its own, whose parent has ended, and a
// child of that. All hold the program's output. It says ready when there are the three of them.
const daemons = `("$SELF" __session /bin/sh -c 'sleep 1000 & echo ready; exec sleep 1000' &); exec sleep 1000`

// Seen to fail with PR_SET_CHILD_SUBREAPER left out, with the reaper returning when the program has ended (the daemons live
// on), and without endChildren (the reaper waits for ever).
func TestLaw41NothingOutlivesTheProgram(t *testing.T) {
	p := plant(t, reaperRole, daemons)
	p.wantLine("ready")
	pids := append(p.wantAll(3), p.Top())
	if err := syscall.Kill(p.Pid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	await(t, "the end of the tree", p.Gone())
	p.wantNone()
	wantReaped(t, pids)
	if want := (Exit{Code: -1, Signal: "terminated"}); p.Exit() != want {
		t.Errorf("Exit = %+v, want %+v", p.Exit(), want)
	}
	if out := readAll(t, p.Stdout) + readAll(t, p.Stderr); out != "" {
		t.Errorf("output %q", out)
	}
	p.kill()
}

// Seen to fail as the one above.
func TestLaw41NothingOutlivesKill(t *testing.T) {
	p := plant(t, reaperRole, daemons)
	p.wantLine("ready")
	pids := append(p.wantAll(3), p.Top())
	p.kill()
	p.wantNone()
	wantReaped(t, pids)
	if want := (Exit{Code: -1, Signal: "killed"}); p.Exit() != want {
		t.Errorf("Exit = %+v, want %+v", p.Exit(), want)
	}
	if _, err := p.Stderr.Read(make([]byte, 1)); err == nil {
		t.Error("stderr is still open")
	}
}

// wantReaped is for after the end of the tree: not even a zombie is left.
func wantReaped(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		if p, ok := processOf(pid); ok {
			t.Errorf("process %d is still there: %+v", pid, p)
		}
	}
}

// The lifeline alone ends the tree. Seen to fail with endSignals not closing over.
func TestLaw41LifelineEndsTheTree(t *testing.T) {
	p := plant(t, reaperRole, daemons)
	p.wantLine("ready")
	if err := p.pipes.holdReaper.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, "the end of the tree", p.Gone())
	p.wantNone()
}

// What the weaker method ends, and what it misses: the reason why there is a reaper.
func TestGroupMissesASessionOfItsOwn(t *testing.T) {
	for _, end := range []string{"exit", "kill"} {
		p := plant(t, groupRole, `set -m; sleep 1000 & set +m; sleep 1000 & `+daemons)
		p.wantLine("ready")
		p.wantAll(5)
		if end == "exit" {
			if err := syscall.Kill(p.Pid(), syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			await(t, "the end of the program", p.Gone())
		}
		p.kill()
		for _, pid := range marked(p.mark) {
			if missed, _ := processOf(pid); missed.session == p.Top() {
				t.Errorf("process %d is of the session that was to be ended", pid)
			}
		}
		p.wantAll(2)
	}
	wantNoChildren(t)
}

// Lifeline and parent-death signal stand in for each other, except that a stopped reaper only hears the signal.
func TestLaw41HostKilled(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		script string
		stop   bool // the reaper is stopped before the host is killed
	}{
		{"plain", "echo ready; exec sleep 1000", false},
		{"daemons", daemons, false},
		{"ignores signals", "trap '' TERM HUP INT CONT; echo ready; while :; do sleep 0.1; done", false},
		{"busy", "echo ready; while :; do :; done", false},
		{"ignores the end of its input", "echo ready; cat; exec sleep 1000", false},
		{"stopped program", "echo ready; kill -STOP $$", false},
		// Seen to fail without the parent-death signal of the reaper, and with SIGTERM for it.
		{"stopped reaper", daemons, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := runHost(t, reaperRole, test.script)
			top := h.top
			if test.stop {
				stop(t, top)
			}
			h.kill(t)
			eventually(t, 2*time.Second, "no process of the tree is left", func() bool {
				return len(marked(h.mark)) == 0 && !lives(top)
			})
		})
	}
}

// When the reaper is killed too, nobody is left to look for anything, but the program itself ends. Seen to fail with its
// parent-death signal left out.
func TestLaw41HostAndReaperKilled(t *testing.T) {
	t.Parallel()
	h := runHost(t, reaperRole, "trap '' TERM HUP; echo ready; while :; do :; done")
	stop(t, h.cmd.Process.Pid)
	if err := syscall.Kill(h.top, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	h.kill(t)
	eventually(t, 2*time.Second, "no process of the tree is left", func() bool {
		return len(marked(h.mark)) == 0 && !lives(h.top)
	})
}

// The program has its own parent-death signal. What it started is left to itself without a reaper.
func TestGroupHostKilled(t *testing.T) {
	t.Parallel()
	h := runHost(t, groupRole, "echo ready; exec sleep 1000")
	h.kill(t)
	eventually(t, 2*time.Second, "the program has ended", func() bool { return !lives(h.top) })
}

// A hostProcess is a host that runs one tree and is to be killed.
type hostProcess struct {
	cmd  *exec.Cmd
	mark string // of the tree, and of the host
	top  int
}

// runHost returns when the script has said that it is ready.
func runHost(t *testing.T, role, script string) *hostProcess {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	h := &hostProcess{cmd: exec.Command(self, "__host", role, script), mark: newMark(t)}
	h.cmd.Env = environment(t, h.mark)
	h.cmd.Stdout, h.cmd.Stderr = write, os.Stderr
	err = h.cmd.Start()
	write.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.cmd.Process.Kill() })
	out := bufio.NewReader(read)
	h.top = atoi(t, nextLine(t, read, out))
	if got := nextLine(t, read, out); got != "ready" {
		t.Fatalf("the program printed %q, want ready", got)
	}
	return h
}

func (h *hostProcess) kill(t *testing.T) {
	t.Helper()
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = h.cmd.Wait()
}

// stop stops a process and returns when it has stopped.
func stop(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, "it has stopped", func() bool { p, _ := processOf(pid); return p.state == 'T' })
}

// A program that reports in the reaper's place that nothing is left, which the rights of its user do not let it do, is not
// believed: what made a session of its own ends with it. Seen to fail with a report on which the host kills the reaper, and as
// an ordinary user with the reaper left dumpable.
func TestLaw41ForgedReport(t *testing.T) {
	const forge = `{ for word in 'gone 0' 'exited 0' 'nonsense' ''; do echo "$word"; done >/proc/$PPID/fd/3; } 2>/dev/null && echo forged || echo refused; `
	p := plant(t, reaperRole, `("$SELF" __session /bin/sh -c 'sleep 1000 & echo ready; exec sleep 1000' &); read word; `+forge+`exec sleep 1000`)
	p.wantLine("ready")
	pids := append(p.wantAll(3), p.Top())
	if _, err := p.pipes.holdProgram.WriteString("go\n"); err != nil {
		t.Fatal(err)
	}
	want := "forged"
	if os.Getuid() != 0 {
		want = "refused"
	}
	p.wantLine(want)
	if want == "forged" {
		await(t, "the forged exit", p.Exited())
	}
	p.kill()
	p.wantNone()
	wantReaped(t, pids)
}

// A reaper that is killed takes the program and its session with it. What has a session of its own is not found any more, and
// Kill says that.
func TestReaperKilled(t *testing.T) {
	p := plant(t, reaperRole, `set -m; sleep 1000 & set +m; sleep 1000 & `+daemons)
	p.wantLine("ready")
	p.wantAll(5)
	if err := syscall.Kill(p.Top(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, "the end of the tree", p.Gone())
	p.wantAll(2)
	want := fmt.Sprintf("process %d: its reaper was ended by others, what made a session of its own may be left", p.Pid())
	if err := p.Kill(t.Context()); err == nil || err.Error() != want {
		t.Errorf("Kill = %v, want %s", err, want)
	}
	if got := p.Exit(); got != (Exit{Code: -1, Lost: true}) || got.String() != "ended with its reaper" {
		t.Errorf("Exit = %+v (%v), want that it is lost", got, got)
	}
}

// Seen to fail without endChildren.
func TestLaw41ForkStorms(t *testing.T) {
	tests := []struct{ name, script string }{
		{"many", `i=0; while [ $i -lt 50 ]; do sleep 1000 & i=$((i+1)); done; echo ready; exec sleep 1000`},
		{"without end", `i=0; while :; do sleep 0.05 & i=$((i+1)); [ $i = 20 ] && echo ready; done`},
		{"without end, orphaned", `echo ready; while :; do (sleep 0.05 &); done`},
		{"the last of a chain, in a session of its own",
			`"$SELF" __session /bin/sh -c 'c() { c & exit; }; echo ready; c & exec sleep 1000' & exec sleep 1000`},
		{"the last of a chain", `c() { c & exit; }; echo ready; c & exec sleep 1000`},
		{"without end, from a session of its own",
			`"$SELF" __session /bin/sh -c 'storm() { while :; do (:) & (:) & done; }; echo ready; storm & storm & storm & storm' & exec sleep 1000`},
		{"a chain of sessions", `echo ready; "$SELF" __comet; exec sleep 1000`},
	}
	for _, test := range tests {
		for _, end := range []string{"kill", "exit"} {
			p := plant(t, reaperRole, test.script)
			p.wantLine("ready")
			if end == "exit" {
				if err := syscall.Kill(p.Pid(), syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				await(t, test.name+": the end of the tree", p.Gone())
			}
			p.kill()
			p.wantNone()
		}
	}
}

// Seen to fail with hasten starting its pause anew each time.
func TestHastenPutsNothingOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, before := range []time.Duration{0, lastPause} {
			r := &reaper{}
			if before > 0 {
				r.lookIn(before)
			}
			begin, looks := time.Now(), 0
			for time.Since(begin) < 10*firstPause {
				r.hasten() // a child was reaped
				select {
				case <-r.retry:
					looks++
					r.lookIn(2 * r.pause)
				case <-time.After(firstPause / 10):
				}
			}
			if looks < 8 {
				t.Errorf("%d looks in the time of ten", looks)
			}
		}
	})
}

// Seen to fail with closeOurs leaving one pipe open, and with the reaper not waited for.
func TestLaw41BackToTheBaseline(t *testing.T) {
	owner := newOwner(t)
	round := func(role string, i int) {
		spec := Spec{Path: "/bin/sleep", Args: []string{"1000"}, Dir: "/"}
		switch i % 3 {
		case 1:
			spec.Path, spec.Args = "/bin/true", nil
		case 2:
			spec.Path = "/no/such/program"
		}
		p, err := Start(t.Context(), owner, launcher(role), spec)
		if err != nil {
			if i%3 != 2 {
				t.Error(err)
			}
			return
		}
		if i%3 == 1 {
			<-p.Gone()
		}
		if err := p.Kill(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for _, role := range []string{reaperRole, groupRole} {
		round(role, 0) // whatever is made once
	}
	files, goroutines := descriptors(t), runtime.NumGoroutine()
	var workers sync.WaitGroup
	for worker := range 5 {
		workers.Go(func() {
			for i := range 20 {
				role := reaperRole
				if (worker+i)%3 != 0 {
					role = groupRole
				}
				round(role, i)
			}
		})
	}
	workers.Wait()
	wantNoChildren(t)
	wantNothingOwned(t, owner)
	if got := descriptors(t); got != files {
		t.Errorf("%d descriptors, want %d as before", got, files)
	}
	eventually(t, patience, "goroutines as before", func() bool { return runtime.NumGoroutine() <= goroutines })
}

func descriptors(t *testing.T) int { return len(openFiles(t, os.Getpid())) }

// wantNoChildren is for tests that run alone.
func wantNoChildren(t *testing.T) {
	t.Helper()
	for _, p := range processes() {
		if p.parent == os.Getpid() {
			t.Errorf("child %+v is left", p)
		}
	}
}
