package sandbox

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// Who is asked to end is each process of the tree, also one that was stopped or is an orphan
// in a session of its own, and nobody else: neither the reaper nor another tree. What does not
// listen is there until Kill (case B05).
//
// Seen to fail: without SIGCONT; with the program alone, or the children of the reaper alone; with the reaper
// asked, too.
func TestCaseB05Terminate(t *testing.T) {
	const script = `
		listen() { trap 'echo '$1'; exit' TERM; echo ready; while :; do sleep 0.05; done; }
		listen child & listen stopped & stopped=$!
		(listen orphan &)
		("$SELF" __session /bin/sh -c 'trap "echo session; exit" TERM; echo ready; while :; do sleep 0.05; done' &)
		(trap '' TERM; echo ready; exec sleep 1000) &
		trap 'echo program' TERM
		read five; kill -STOP $stopped; echo all
		while :; do sleep 0.05; done`
	allMethods(t, func(t *testing.T, role string) {
		bystander := command(t, role, aCommand(t, role, `trap 'echo hit' TERM CONT; echo ready; while :; do read x && exit 4; done`))
		spec := aCommand(t, role, script)
		spec.Stdin = StdinPipe
		if role == jailRole {
			spec.Policy.Read = parentsOfSelf(t)
		}
		p := command(t, role, spec)
		for range 5 {
			p.wantLine("ready")
		}
		if _, err := p.Stdin.WriteString("all\n"); err != nil {
			t.Fatal(err)
		}
		p.wantLine("all")
		want := map[string]bool{"child": true, "stopped": true, "orphan": true, "session": true, "program": true}
		if role == groupRole {
			delete(want, "session") // the method does not reach it
		}
		p.Terminate()
		for len(want) > 0 {
			word := p.line()
			if !want[word] {
				t.Errorf("%q was asked, or twice", word)
			}
			delete(want, word)
		}
		select {
		case <-p.Exited():
			t.Errorf("it ended with %s", p.Exit())
		case <-time.After(100 * time.Millisecond):
		}
		if !lives(p.Pid()) || !lives(p.Top()) {
			t.Error("the program or its reaper has ended")
		}
		p.kill()
		if role != groupRole {
			p.wantNone()
		}
		if !lives(bystander.Pid()) || !lives(os.Getpid()) {
			t.Error("another tree was asked to end")
		}
		bystander.kill()
		if got := readAllClosed(bystander); got != "" {
			t.Errorf("another tree said %q", got)
		}
	})
}

// parentsOfSelf is the directory of the test binary.
func parentsOfSelf(t *testing.T) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{self}
}

// readAllClosed is what was read before Kill closed it.
func readAllClosed(tr *tree) string {
	rest := make([]byte, 64)
	n, _ := tr.out.Read(rest[:tr.out.Buffered()])
	return strings.TrimPrefix(string(rest[:n]), "ready\n")
}

// To ask may come at any time, also when there is nobody any more.
func TestTerminateAtTheEnd(t *testing.T) {
	allMethods(t, func(t *testing.T, role string) {
		for range 10 {
			p := command(t, role, aCommand(t, role, "sleep 0.01 & exit 3"))
			var askers sync.WaitGroup
			for range 3 {
				askers.Go(func() {
					for {
						p.Terminate()
						select {
						case <-p.Gone():
							return
						default:
							runtime.Gosched()
						}
					}
				})
			}
			await(t, "the end", p.Gone())
			askers.Wait()
			p.Terminate()
			p.kill()
		}
	})
}

// How a shell ended is told in the ways of shells, too (case B13).
//
// Seen to fail: with the status alone.
func TestCaseB13Signals(t *testing.T) {
	allMethods(t, func(t *testing.T, role string) {
		for script, want := range map[string]struct {
			name   string
			status int
		}{
			"echo p; kill -KILL $$": {"SIGKILL", 137}, "echo p; kill -TERM $$": {"SIGTERM", 143},
			"echo p; ulimit -c 0; kill -SEGV $$": {"SIGSEGV", 139}, "echo p; kill -40 $$": {"SIG40", 168},
			"echo p; exit 7": {"", 7}, "echo p; sh -c 'kill -KILL $$'; exit $?": {"", 137}, "echo p": {"", 0},
		} {
			p := command(t, role, aCommand(t, role, script))
			if got := readAll(t, p.Stdout); got != "p\n" {
				t.Errorf("%s: output %q", script, got)
			}
			await(t, "the end", p.Gone())
			if got := p.Exit(); got.SignalName() != want.name || got.Status() != want.status || (got.Signal == "") != (want.name == "") {
				t.Errorf("%s: %+v is %q and %d, want %+v", script, got, got.SignalName(), got.Status(), want)
			}
		}
	})
	if lost := (Exit{Code: -1, Lost: true}); lost.SignalName() != "" || lost.Status() != -1 {
		t.Errorf("what is not known is %q and %d", lost.SignalName(), lost.Status())
	}
}

// It is told whether the shell left anything running, and not of what had ended.
//
// Seen to fail: for each method, with it never told, and with zombies counted; with a tree that was killed.
func TestLeftRunning(t *testing.T) {
	allMethods(t, func(t *testing.T, role string) {
		for script, want := range map[string]bool{
			"true": false, "sleep 1000 & exit 3": true, "(sleep 1000 &)": true, "sleep 0 & wait": false,
			"yes | head -1 >/dev/null": false, "true & sleep 0.3": false, "sleep 1000 & kill -KILL $$": true,
			"sleep 1000 & kill -STOP $!": true, "(trap '' TERM; exec sleep 1000) & sleep 0.1": true,
		} {
			p := command(t, role, aCommand(t, role, script))
			await(t, "the end", p.Gone())
			if got := p.LeftRunning(); got != want {
				t.Errorf("%s: left %v, want %v", script, got, want)
			}
			p.kill()
			p.wantNone()
		}
		p := command(t, role, aCommand(t, role, "sleep 1000 & echo ready; sleep 1000"))
		p.wantLine("ready")
		p.kill()
		if p.LeftRunning() {
			t.Error("what was killed left something running")
		}
	})
}

// The tree is measured: its processors, and the largest of its processes.
//
// Seen to fail: with the launcher's own use; with what the program left not waited for.
func TestUsage(t *testing.T) {
	const eaten = 96 << 20
	allMethods(t, func(t *testing.T, role string) {
		idle := command(t, role, aCommand(t, role, "sleep 0.3"))
		if before := idle.Usage(); before != (Usage{}) {
			t.Errorf("while it runs it has used %+v", before)
		}
		busy := command(t, role, aCommand(t, role, fmt.Sprintf("head -c %d /dev/zero | tail -c %d >/dev/null; (i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done)", eaten, eaten)))
		await(t, "the end", idle.Gone())
		await(t, "the end", busy.Gone())
		if used := idle.Usage(); used.CPU <= 0 || used.CPU > 200*time.Millisecond || used.Memory > eaten/2 {
			t.Errorf("who slept used %+v", used)
		}
		if used := busy.Usage(); used.CPU < 30*time.Millisecond || used.Memory < eaten && !(role == groupRole && used.Memory == 0) || used.Memory > 3*eaten {
			t.Errorf("who was busy used %+v", used)
		}
		left := command(t, role, aCommand(t, role, "(while :; do :; done) & sleep 0.5"))
		await(t, "the end", left.Gone())
		if used := left.Usage(); used.CPU < 100*time.Millisecond && role != groupRole {
			t.Errorf("with what it left it used %+v", used)
		}
	})
}

// All output is there after the end, though nobody read it before, and then it is at its end
// whatever held the other side: of pipes, and of a terminal.
//
// Seen to fail: for a terminal, with the host's copy of its other side kept.
func TestOutputAfterTheEnd(t *testing.T) {
	const script = `seq 1 100; seq 1 100 >&2; (trap '' HUP TERM; exec sleep 1000) & exit 0`
	want := ""
	for i := range 100 {
		want += fmt.Sprintln(i + 1)
	}
	allMethods(t, func(t *testing.T, role string) {
		p := command(t, role, aCommand(t, role, script))
		await(t, "the end", p.Gone())
		if out, errs := readAll(t, p.Stdout), readAll(t, p.Stderr); out != want || errs != want {
			t.Errorf("got %q and %q", out, errs)
		}
		spec := aCommand(t, role, script)
		spec.Stdin, spec.Terminal = StdinLifeline, &TerminalSize{Columns: 80, Rows: 24}
		p = command(t, role, spec)
		await(t, "the end", p.Gone())
		if out := readTerminal(t, p.Process); out != want+want {
			t.Errorf("the terminal gave %q", out)
		}
	})
}

// Starting and ending leaves nothing behind: no descriptor, no goroutine, no child.
//
// Seen to fail: with a terminal, its socket, an input, or the handle of a wrong directory left open.
func TestCommandsLeaveNothing(t *testing.T) {
	allMethods(t, func(t *testing.T, role string) {
		owner, plain := newOwner(t), aCommand(t, role, "echo x; cat; sleep 0.01 & exit")
		round := func(i int) {
			spec := plain
			switch i % 4 {
			case 1:
				spec.Stdin = StdinPipe
			case 2:
				spec.Stdin, spec.Terminal = StdinLifeline, &TerminalSize{Columns: 80, Rows: 24}
			case 3:
				spec.Dir, spec.DirIs = "/tmp", &FileID{Device: 1, Inode: uint64(i)}
			}
			p, err := Start(t.Context(), owner, launcher(role), spec)
			if err != nil {
				if i%4 != 3 {
					t.Error(err)
				}
				return
			}
			if i%8 < 4 {
				p.Terminate()
			}
			if err := p.Kill(context.Background()); err != nil {
				t.Error(err)
			}
		}
		for i := range 4 {
			round(i) // whatever is made once
		}
		files, goroutines := descriptors(t), runtime.NumGoroutine()
		count := 200
		if testing.Short() {
			count = 40
		}
		var workers sync.WaitGroup
		for worker := range 4 {
			workers.Go(func() {
				for i := range count / 4 {
					round(i + worker)
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
	})
}
