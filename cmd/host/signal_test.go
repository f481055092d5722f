package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A plugin that never becomes ready, with a child in a session of its own, which
// says where both are.
const stuck = `
plugins:
  stuck: {command: [/bin/sh, -c, "setsid sleep 300 & echo $! > grandchild; echo $$ > child; exec sleep 300"]}
`

// startStuck runs the command on it and waits until the processes are there.
func startStuck(t *testing.T) (command *exec.Cmd, stderr *bytes.Buffer, pids []int) {
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
	file := write(t, filepath.Join(dir, "toolhost.yaml"), stuck)
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
	for _, name := range []string{"grandchild", "child"} {
		eventually(t, name+" to start", func() bool {
			text, err := os.ReadFile(filepath.Join(dir, name))
			pid, parse := strconv.Atoi(strings.TrimSpace(string(text)))
			if err != nil || parse != nil {
				return false
			}
			pids = append(pids, pid)
			return true
		})
	}
	return command, stderr, pids
}

// After SIGKILL of the host no process is left within two seconds, not even one
// in a session of its own (law 41, case F05).
func TestLaw41NothingSurvivesAKilledHost(t *testing.T) {
	command, _, pids := startStuck(t)
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
func TestInterrupt(t *testing.T) {
	command, stderr, pids := startStuck(t)
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
