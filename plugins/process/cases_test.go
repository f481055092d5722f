package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/toolhost/toolhost/plugin/sdk/sdktest"
)

// number reads a number that a command wrote to a file, when it is there.
func number(t *testing.T, p *sdktest.Plugin, name string) int {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(filepath.Join(p.Root(), name))
		if n, bad := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && bad == nil && strings.HasSuffix(string(text), "\n") {
			return n
		}
		if time.Now().After(until) {
			t.Fatalf("%s has no number: %q, %v", name, text, err)
		}
	}
}

// runs gives the command of the process whose number is in the file, or nothing if it has
// ended.
func runs(t *testing.T, p *sdktest.Plugin, name string) string {
	t.Helper()
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", number(t, p, name)))
	if err != nil {
		return ""
	}
	return string(line) // of one that nobody has waited for it is empty
}

// wantGone fails the test if the process runs whose number is in the file.
func wantGone(t *testing.T, p *sdktest.Plugin, name string) {
	t.Helper()
	if line := runs(t, p, name); line != "" {
		t.Errorf("%q runs still", line)
	}
}

// wantNothing fails the test if the file is there.
func wantNothing(t *testing.T, p *sdktest.Plugin, name string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(p.Root(), name)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is there: %v", name, err)
	}
}

// A timeout ends what the shell started too, and the call then.
//
// Seen to fail: with a timeout that comes too late.
func TestCaseB04TimeoutEndsAll(t *testing.T) {
	t.Parallel()
	p := start(t, nil)
	began := time.Now()
	fails(t, p, "shell", on("command", "sh -c 'sleep 3; echo late>w.txt'; true", "timeout_ms", 500), "[timed out after 0.5 s: the command and all that it started were ended")
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
	time.Sleep(time.Until(began.Add(4 * time.Second)))
	wantNothing(t, p, "w.txt")
}

// What ignores being asked is killed, and nothing is written when the answer is there.
func TestCaseB05IgnoredTerm(t *testing.T) {
	t.Parallel()
	p := start(t, nil)
	began := time.Now()
	fails(t, p, "shell", on("command", "(trap '' TERM; while :; do date>>t.log; sleep .1; done)& wait", "timeout_ms", 500), "timed out")
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("it took %v", took)
	}
	size := func() int64 {
		info, err := os.Stat(filepath.Join(p.Root(), "t.log"))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := size()
	time.Sleep(time.Second)
	if after := size(); after != before || before == 0 {
		t.Errorf("the file grew from %d bytes to %d", before, after)
	}
}

// Soon after a call was cancelled nothing of it is left, and the host lives (law 14). What is
// in a session of its own is ended by the reaper, which cmd/host has and this has not.
//
// Seen to fail: with a command that does not know of the cancelling.
func TestCaseB06Cancelled(t *testing.T) {
	t.Parallel()
	p := start(t, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the caller left")
	var ended time.Time
	go func() {
		number(t, p, "child")
		ended = time.Now()
		cancel(why)
	}()
	o, err := p.CallContext(ctx, "shell", on("command", "echo $$ >shell; cut -d' ' -f5 /proc/$$/stat >group; sleep 60 & echo $! >child; wait"))
	if !errors.Is(err, why) || len(o.Content) > 0 {
		t.Errorf("got %s, %v; want %v", o, err, why)
	}
	for runs(t, p, "shell")+runs(t, p, "child") != "" && time.Since(ended) < 2*time.Second {
		time.Sleep(10 * time.Millisecond)
	}
	if took := time.Since(ended); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
	wantGone(t, p, "shell")
	wantGone(t, p, "child")
	if number(t, p, "group") == syscall.Getpgrp() {
		t.Error("it was in the host's own group")
	}
	call(t, p, "shell", "command", "true")
}

// Standard input is at its end, or what was given, however much of it is read.
//
// Seen to fail: without the input that is given.
func TestCaseB07StandardInput(t *testing.T) {
	t.Parallel()
	p := start(t, nil)
	began := time.Now()
	if o := call(t, p, "shell", "command", "cat; read x; echo r=$?"); !strings.HasPrefix(o.Text, "r=1\n") {
		t.Errorf("got %s", o)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("it took %v", took)
	}
	if o := call(t, p, "shell", "command", "cat; read x; echo r=$?", "stdin", "hi\n"); !strings.HasPrefix(o.Text, "hi\nr=1\n") {
		t.Errorf("got %s", o)
	}
	if o := call(t, p, "shell", "command", "head -c1", "stdin", strings.Repeat("x", 5_000_000)); !strings.HasPrefix(o.Text, "x\n[exit status 0") {
		t.Errorf("got %.200s", o)
	}
}

// There is no terminal to open, whatever the host's is. cmd/host has the same for a host that
// has one.
//
// Seen to fail: with a terminal that nobody asked for.
func TestCaseB08NoTerminal(t *testing.T) {
	t.Parallel()
	p := start(t, nil)
	began := time.Now()
	fails(t, p, "shell", on("command", "(echo hi >/dev/tty) 2>&1; vi x </dev/tty"), "/dev/tty", "[exit status 1, ")
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

// A directory that is gone is named, is not made, and is nobody else's trouble.
//
// Seen to fail: with every command in the root.
func TestCaseB10DirectoryIsGone(t *testing.T) {
	t.Parallel()
	p := start(t, nil)
	call(t, p, "shell", "command", "mkdir -p t")
	call(t, p, "shell", "command", "rm -rf ../t", "cwd", "t")
	if got := fails(t, p, "shell", on("command", "echo a", "cwd", "t")); !strings.HasPrefix(got, "t: ") {
		t.Errorf("got %s, which does not name it", got)
	}
	if o := call(t, p, "shell", "command", "echo b"); !strings.HasPrefix(o.Text, "b\n") {
		t.Errorf("got %s", o)
	}
	wantNothing(t, p, "t")
}

// A command that a signal ended has failed, and says by which.
//
// Seen to fail: with a signal that counts as a success.
func TestCaseB13Signals(t *testing.T) {
	t.Parallel()
	p := start(t, nil)
	for command, want := range map[string]string{
		"echo p; kill -9 $$":               "[ended by SIGKILL, which a shell calls status 137, ",
		"echo p; kill -TERM $$":            "[ended by SIGTERM, which a shell calls status 143, ",
		"echo p; kill -SEGV $$":            "[ended by SIGSEGV, which a shell calls status 139, ",
		"echo p; exit 7":                   "[exit status 7, ",
		"echo p; sh -c 'kill $$'; exit $?": "[exit status 143, which a shell gives when SIGTERM ended a command, ",
	} {
		if got := fails(t, p, "shell", on("command", command), want); !strings.HasPrefix(got, "p\n") {
			t.Errorf("%s: got %q, want what it wrote before", command, got)
		}
	}
}

// The status is the shell's own, and no options are set.
//
// Seen to fail: with pipefail set.
func TestCaseB14Pipes(t *testing.T) {
	t.Parallel()
	p := start(t, nil)
	call(t, p, "shell", "command", "sh -c 'exit 3' | cat")
	if o := call(t, p, "shell", "command", "yes | head -1"); !strings.HasPrefix(o.Text, "y\n") {
		t.Errorf("got %s", o)
	}
	if o := call(t, p, "shell", "command", "false; case $- in *i*|*e*) echo bad: $-;; esac; shopt -qo pipefail && echo bad; echo $0 $#"); !strings.HasPrefix(o.Text, "/") || strings.Contains(o.Text, "bad") {
		t.Errorf("got %s", o)
	}
	fails(t, p, "shell", on("command", "set -o pipefail; sh -c 'exit 3' | cat"), "[exit status 3, ")
}

// Whatever is written, what is shown is UTF-8. cmd/host has the bytes that are kept.
//
// Seen to fail: without the note on the bytes.
func TestCaseB16AnyBytes(t *testing.T) {
	t.Parallel()
	p := start(t, nil)
	o := call(t, p, "shell", "command", `printf '\377\376\000\351 ok\n'; head -c 200 /dev/urandom`)
	if !utf8.ValidString(o.Text) || !strings.Contains(o.Text, " ok\n") || len(o.Retained) != 1 || o.Retained[0].Bytes < 208 {
		t.Errorf("got %q, kept %+v", o.Text, o.Retained)
	}
	id := value[startOutput](t, call(t, p, "process_start", "command", `printf '\377\376\000\351 ok\n'; sleep 60`)).Process.ID
	out := awaits(t, p, id, " ok\n")
	if out.Text != "\ufffd\ufffd\x00\ufffd ok\n" || out.Next != 8 || !out.Raw {
		t.Errorf("got %+v", out)
	}
	if o = call(t, p, "process_output", "id", id); !utf8.ValidString(o.Text) || !strings.Contains(o.Text, "bytes that are no characters are shown as \ufffd") {
		t.Errorf("got %q", o.Text)
	}
}
