package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/toolhost/toolhost/control"
)

// stuck configures plugins that never become ready, each with a child in a session of
// its own. Both have a mark in their environment, as confined processes do not know their
// numbers.
func stuck(plugins int, sandbox string) string {
	text := "plugins:\n"
	for i := range plugins {
		text += fmt.Sprintf(`  stuck%d: {command: [/bin/sh, -c, "setsid sleep 300 & exec sleep 300"], env: [STUCK_MARK], sandbox: {%s}}`+"\n", i, sandbox)
	}
	return text
}

// bothTiers runs a test on a plugin that is confined, and on one that is not.
func bothTiers(t *testing.T, test func(t *testing.T, sandbox string)) {
	t.Helper()
	for _, sandbox := range []string{"exec: true", "mode: off"} {
		t.Run(sandbox, func(t *testing.T) { test(t, sandbox) })
	}
}

// startStuck runs the command on them and waits until the processes are there.
func startStuck(t *testing.T, plugins int, sandbox string) (command *exec.Cmd, stderr *bytes.Buffer, pids []int) {
	t.Helper()
	isolate(t)
	// A host that is killed leaves its run directory, which must be short.
	tmp, err := os.MkdirTemp("/tmp", "th")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", tmp)
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "toolhost.yaml"), stuck(plugins, sandbox))
	mark := rand.Text()
	t.Setenv("STUCK_MARK", mark)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "toolhost") // the name by which the test binary is the command
	if err := os.Symlink(exe, link); err != nil {
		t.Fatal(err)
	}
	stderr = &bytes.Buffer{}
	command = exec.Command(link, "-C", dir, "-c", file, "call", "anything")
	command.Stderr = stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	eventually(t, "all processes to sleep", func() bool {
		pids = sleepers(t, mark)
		return len(pids) == 2*plugins
	})
	return command, stderr, pids
}

// sleepers are the processes with a mark in their environment that run sleep.
func sleepers(t *testing.T, mark string) (pids []int) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		environ, err := os.ReadFile(filepath.Join(dir, "environ")) // empty for one that has ended
		name, gone := os.ReadFile(filepath.Join(dir, "comm"))
		pid, parse := strconv.Atoi(filepath.Base(dir))
		if errors.Join(err, gone, parse) == nil && string(name) == "sleep\n" && bytes.Contains(environ, []byte(mark)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// After SIGKILL of the host no process is left within two seconds, not even one
// in a session of its own (law 41, case F05).
func TestLaw41NothingSurvivesAKilledHost(t *testing.T) {
	bothTiers(t, func(t *testing.T, sandbox string) { survivesNothing(t, 1, sandbox) })
	t.Run("twenty plugins", func(t *testing.T) { survivesNothing(t, 20, "exec: true") })
}

func survivesNothing(t *testing.T, plugins int, sandbox string) {
	command, _, pids := startStuck(t, plugins, sandbox)
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	for _, pid := range pids {
		eventually(t, "process "+strconv.Itoa(pid)+" to end", func() bool { return !alive(pid) })
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("it took %s, want at most 2s", took)
	}
}

// An interrupt ends the command with its status and leaves nothing (law 42).
func TestInterrupt(t *testing.T) { bothTiers(t, interrupted) }

func interrupted(t *testing.T, sandbox string) {
	command, stderr, pids := startStuck(t, 1, sandbox)
	begin := time.Now()
	if err := command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := command.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
		t.Errorf("got %v, want exit status %d\n%s", err, exitInterrupted, stderr)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("it took %s, want at most 5s", took)
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
}

// alive reports whether a process runs. One that ended and was not reaped yet by
// whoever inherited it does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	return string(fields[0]) != "Z"
}

func eventually(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !reached(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited 10s for %s", what)
		}
	}
}

// Signals end toolhost serve, the first one cleanly and with status 0; one that comes while it
// closes ends it at once, by that signal, and nothing is left then either (laws 41, 42).
// Seen to fail with signals that are ignored after the first.
func TestSignalsOfServe(t *testing.T) {
	for _, second := range []syscall.Signal{0, syscall.SIGINT, syscall.SIGTERM} {
		t.Run(second.String(), func(t *testing.T) {
			s := newServing(t)
			pids := children(t, s.command.Process.Pid)
			out, _ := toolhost(t, "status", "--json")
			var statuses []control.Status
			if err := json.Unmarshal([]byte(out), &statuses); err != nil || len(statuses) != 1 {
				t.Fatalf("%v in %s", err, out)
			}
			for _, p := range statuses[0].Locations[0].Plugins { // nothing less than a kill ends it then
				pids = append(pids, p.Pid)
				if err := syscall.Kill(p.Pid, syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			}
			begin := time.Now()
			if err := s.command.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if second != 0 {
				time.Sleep(50 * time.Millisecond) // two at once would be one
				if err := s.command.Process.Signal(second); err != nil && !errors.Is(err, os.ErrProcessDone) {
					t.Fatal(err)
				}
			}
			_ = s.command.Wait() // how it ended is looked at below
			state := s.command.ProcessState.Sys().(syscall.WaitStatus)
			if second == 0 && state.ExitStatus() != exitCompleted {
				t.Errorf("it ended with %v, want status 0\n%s", s.command.ProcessState, s.notices)
			}
			if second != 0 && !(state.Signaled() && state.Signal() == second) {
				t.Errorf("it ended with %v after %v, want %v", s.command.ProcessState, time.Since(begin), second)
			}
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
			for _, pid := range pids {
				eventually(t, "process "+strconv.Itoa(pid)+" to end", func() bool { return !alive(pid) })
			}
		})
	}
}
