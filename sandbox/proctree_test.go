package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// rest are the fields of a stat line from the terminal on, with so many threads.
func rest(threads int) string {
	return fmt.Sprintf("34816 42 4194304 1 0 0 0 0 0 0 0 20 0 %d 0 1 2 3", threads)
}

func TestParseStat(t *testing.T) {
	want := process{pid: 42, parent: 7, group: 40, session: 39, state: 'S', threads: 3}
	tests := []struct {
		name, stat string
		ok         bool
	}{
		{"plain", "42 (sh) S 7 40 39 " + rest(3) + "\n", true},
		{"parentheses and numbers in the name", "42 (a) 1 2 (b) R 1 1 1) S 7 40 39 " + rest(3), true},
		{"line break in the name", "42 (a\n) 1) S 7 40 39 " + rest(3), true},
		{"no name", "42 () S 7 40 39 " + rest(3), true},
		{"empty", "", false},
		{"no parenthesis", "42 sh S 7 40 39 " + rest(3), false},
		{"one parenthesis", "42 (sh S 7 40 39 " + rest(3), false},
		{"the wrong way round", "42 )sh( S 7 40 39 " + rest(3), false},
		{"cut off", "42 (sh) S 7 40 39 34816", false},
		{"nothing after the name", "42 (sh)", false},
		{"a state of two letters", "42 (sh) SS 7 40 39 " + rest(3), false},
		{"a parent that is no number", "42 (sh) S x 40 39 " + rest(3), false},
		{"a negative group", "42 (sh) S 7 -40 39 " + rest(3), false},
		{"too large", "42 (sh) S 99999999999999999999 40 39 " + rest(3), false},
	}
	for _, test := range tests {
		got, ok := parseStat([]byte(test.stat))
		if ok != test.ok || ok && got != want {
			t.Errorf("%s: %+v, %v, want %+v, %v", test.name, got, ok, want, test.ok)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add("sh", uint16(7), []byte("42 (sh) S 7 40 39 "+rest(1)))
	f.Add(") 1 2", uint16(7), []byte("42 ) 1 2 ( S"))
	f.Fuzz(func(t *testing.T, name string, parent uint16, raw []byte) {
		if p, ok := parseStat(raw); ok && (p.pid < 0 || p.parent < 0 || p.group < 0 || p.session < 0) {
			t.Errorf("%q gives %+v", raw, p)
		}
		want := process{pid: 42, parent: int(parent), group: 40, session: 39, state: 'R', threads: 1}
		line := fmt.Sprintf("42 (%s) R %d 40 39 %s\n", name, parent, rest(1))
		if got, ok := parseStat([]byte(line)); !ok || got != want {
			t.Errorf("%q gives %+v, %v, want %+v", line, got, ok, want)
		}
	})
}

func TestLiving(t *testing.T) {
	tests := []struct {
		process process
		want    bool
	}{
		{process{state: 'R', threads: 1}, true},
		{process{state: 'D', threads: 1}, true},
		{process{state: 'T', threads: 1}, true},
		{process{state: 'Z', threads: 1}, false},
		{process{state: 'X', threads: 0}, false},
		{process{state: 'Z', threads: 2}, true}, // its first thread has ended, another one runs
	}
	for _, test := range tests {
		if got := test.process.living(); got != test.want {
			t.Errorf("%+v: %v, want %v", test.process, got, test.want)
		}
	}
}

// A program whose name looks like the fields of another one's line.
func TestParentOfAMisleadingName(t *testing.T) {
	path := filepath.Join(t.TempDir(), ") R 1 1 1")
	sleep, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, sleep, 0o755); err != nil {
		t.Fatal(err)
	}
	p := start(t, groupRole, Spec{Path: path, Args: []string{"1000"}, Dir: "/"})
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.Pid()))
	if err != nil || !strings.HasPrefix(string(comm), ") R") {
		t.Fatalf("the process is called %q, %v, so that nothing would be shown", comm, err)
	}
	if got, ok := processOf(p.Pid()); !ok || got.parent != os.Getpid() || got.group != p.Pid() {
		t.Errorf("processOf = %+v, %v, want parent %d and group %d", got, ok, os.Getpid(), p.Pid())
	}
	if !Descends(p.Pid(), os.Getpid()) {
		t.Error("it does not descend from its parent")
	}
}

func TestDescends(t *testing.T) {
	p := plant(t, reaperRole, daemons)
	p.wantLine("ready")
	for _, pid := range p.wantAll(3) {
		for _, ancestor := range []int{pid, p.Top(), os.Getpid()} {
			if !Descends(pid, ancestor) {
				t.Errorf("%d does not descend from %d", pid, ancestor)
			}
		}
		if Descends(p.Top(), pid) {
			t.Errorf("the reaper %d descends from %d", p.Top(), pid)
		}
	}
	other := start(t, groupRole, Spec{Path: "/bin/sleep", Args: []string{"1000"}, Dir: "/"})
	if Descends(other.Pid(), p.Top()) {
		t.Error("a process descends from its sibling")
	}
	if !Descends(os.Getpid(), 1) {
		t.Error("this process does not descend from the first one")
	}
	ended := exec.Command("/bin/true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	for _, nobody := range []int{ended.Process.Pid, 0, -1} {
		if Descends(nobody, os.Getpid()) {
			t.Errorf("%d descends from this process", nobody)
		}
	}
	if Descends(0, 0) || Descends(-1, -1) || Descends(os.Getpid(), 0) {
		t.Error("what is no process is somebody's ancestor")
	}
}

func TestSiginfo(t *testing.T) {
	child := exec.Command("/bin/sh", "-c", "exit 7")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, child.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if got := siginfoPid(&info); got != child.Process.Pid {
		t.Errorf("siginfoPid = %d, want %d", got, child.Process.Pid)
	}
	if got := siginfoStatus(&info); got != 7 || info.Code != codeExited {
		t.Errorf("siginfoStatus = %d with code %d, want 7 with %d", got, info.Code, codeExited)
	}
	if err := child.Wait(); child.ProcessState.ExitCode() != 7 {
		t.Error(err)
	}
}

// How a child ends proves something only when it ended by itself and with status 0.
func TestAwaitExit(t *testing.T) {
	for script, want := range map[string]bool{"exit 0": true, "exit 1": false, "kill -KILL $$": false, "kill -USR1 $$": false} {
		child := exec.Command("/bin/sh", "-c", script)
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		if got := awaitExit(child.Process.Pid); got != want {
			t.Errorf("awaitExit of %q = %t, want %t", script, got, want)
		}
		_ = child.Wait()
	}
}
