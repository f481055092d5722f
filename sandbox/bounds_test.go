package sandbox

import (
	"bufio"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// beside runs a jail that ticks while something else is bounded, and sees that it goes on.
func beside(t *testing.T, bomb func()) {
	t.Helper()
	other := start(t, reaperRole, insideSpec(t, Policy{}, "tick"))
	ticks := bufio.NewReader(other.Stdout)
	tick := func() {
		t.Helper()
		if got := nextLine(t, other.Stdout, ticks); got != `"tick"` {
			t.Fatalf("the other one said %q", got)
		}
	}
	tick()
	bomb()
	for ticks.Buffered() > 0 {
		tick()
	}
	begin := time.Now()
	for range 5 {
		tick()
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("five ticks of the other one took %s", took)
	}
}

// A memory bomb fails alone: in a system call, or by its own end.
//
// Seen to fail: without RLIMIT_DATA, where there is no control group for memory.
func TestLaw46JailBoundsMemory(t *testing.T) {
	strict(t)
	beside(t, func() {
		spec := insideSpec(t, Policy{Limits: Limits{Memory: 768 << 20}}, "memory 1000")
		if stdout, stderr, p := jailed(t, spec); !strings.Contains(stdout, "ENOMEM") && p.Exit() == (Exit{}) {
			t.Errorf("it got %q with %s, %.500s", stdout, p.Exit(), stderr)
		}
		wantInside(t, insideSpec(t, Policy{Limits: Limits{Memory: 768 << 20}}, "memory 200"), "eaten")
	})
}

// A fork bomb fills its own jail and no more, and is ended within the time of law 42.
//
// Seen to fail: with the first 300 numbers left to it.
func TestLaw46JailBoundsProcesses(t *testing.T) {
	strict(t)
	const most, own = 40, 4 // the first ones of the jail, and who is in its exec
	for name, policy := range map[string]Policy{"command": {Profile: Command}, "plugin": {Exec: true}} {
		t.Run(name, func(t *testing.T) {
			policy.Limits.Processes = most
			mark := newMark(t)
			beside(t, func() {
				p := start(t, reaperRole, Spec{
					Path: "/bin/sh", Env: []string{mark, "PATH=/usr/bin:/bin"}, Policy: &policy,
					Args: []string{"-c", `trap "" TERM; (while :; do sleep 300 & done) 2>/dev/null & sleep 300`},
				})
				tree := &tree{Process: p, t: t, mark: mark}
				peak := 0
				eventually(t, patience, "it grows", func() bool {
					peak = max(peak, len(marked(mark)))
					return peak > most/3
				})
				for until := time.Now().Add(500 * time.Millisecond); time.Now().Before(until); {
					peak = max(peak, len(marked(mark)))
				}
				if peak > most+own {
					t.Errorf("it had %d processes", peak)
				}
				begin := time.Now()
				tree.kill()
				if took := time.Since(begin); took > 2*time.Second {
					t.Errorf("Kill took %s", took)
				}
				tree.wantNone()
			})
		})
	}
}

// So does one of threads.
//
// Seen to fail: with the first 300 numbers left to it.
func TestLaw46JailBoundsThreads(t *testing.T) {
	strict(t)
	beside(t, func() {
		limits := Limits{Processes: 40, Memory: 16 << 30} // stacks count
		if stdout, stderr, p := jailed(t, insideSpec(t, Policy{Limits: limits}, "threads 200")); stdout != "" || p.Exit() == (Exit{}) {
			t.Errorf("it got %q with %s, %.500s", stdout, p.Exit(), stderr)
		}
		wantInside(t, insideSpec(t, Policy{Limits: limits}, "threads 20"), "started")
	})
}

// What is private is bounded, in bytes and in files, and so are a file and the open ones.
//
// Seen to fail: without a size; without a number of inodes; without RLIMIT_FSIZE.
func TestLaw46JailBoundsFiles(t *testing.T) {
	strict(t)
	dir := plain(t)
	beside(t, func() {
		wantInside(t, insideSpec(t, Policy{Private: []string{"/run/own"}}, "fill /tmp/bomb", "write /run/own/a", "fill /run/own/bomb"), "256 ENOSPC", "", "255 ENOSPC")
		wantInside(t, insideSpec(t, Policy{}, "crowd /tmp"), "65 ENOSPC")
		wantInside(t, insideSpec(t, Policy{Write: []string{dir}}, "extend "+dir+"/a 1", "extend "+dir+"/b 17"), "", "EFBIG")
		wantInside(t, insideSpec(t, Policy{Limits: Limits{Files: 200}}, "files"), "0 1 2 and 9 more than 20: EMFILE")
	})
}

// What runs is what was verified, whatever became of the file, and nobody can change it.
// There is one copy for all who run it, as long as any of them does.
//
// Seen to fail: without seals; with a copy that is kept.
func TestProgramIsSealed(t *testing.T) {
	strict(t)
	path := filepath.Join(t.TempDir(), "program")
	put := func(from string) {
		t.Helper()
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(path+".new", content, 0o755), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
	}
	put("/bin/echo")
	programs := &Programs{}
	program, release, err := programs.Copy(path)
	if err != nil {
		t.Fatal(err)
	}
	again, releaseAgain, err := programs.Copy(path)
	if err != nil || again != program {
		t.Errorf("got another copy, %v", err)
	}
	put("/bin/false")
	if other, release, err := programs.Copy(path); err != nil || other == program || other.SHA256 == program.SHA256 {
		t.Errorf("the other file: got %+v, %v", other, err)
	} else {
		release()
	}
	releaseAgain()
	releaseAgain() // says nothing more
	stdout, stderr, p := jailed(t, Spec{Path: path, Args: []string{"hello"}, Policy: &Policy{System: true}, Program: program})
	if stdout != "hello\n" || p.Exit() != (Exit{}) {
		t.Errorf("got %q, %s, %s", stdout, p.Exit(), stderr)
	}
	if n, err := program.file.WriteAt([]byte("x"), 0); err == nil {
		t.Errorf("%d bytes of it were written", n)
	}
	if file, err := os.OpenFile("/proc/self/fd/"+itoa(program.file.Fd()), os.O_WRONLY, 0); err == nil {
		if n, err := file.Write([]byte("x")); err == nil {
			t.Errorf("%d bytes of it were written", n)
		}
		_ = file.Close()
	}
	release()
	if len(programs.held) != 0 {
		t.Errorf("%d copies are left", len(programs.held))
	}
}

// What is no program is said to be none, in words.
func TestProgramIsAnExecutable(t *testing.T) {
	dir := t.TempDir()
	lay(t, dir+"/text", dir+"/empty")
	if err := errors.Join(os.Truncate(dir+"/empty", 0), os.WriteFile(dir+"/elf", []byte("\x7fELF and no more"), 0o755)); err != nil {
		t.Fatal(err)
	}
	programs := &Programs{}
	for path, want := range map[string]string{
		dir + "/text": "neither a program for this machine (ELF)", dir + "/empty": "neither a program for this machine (ELF)", dir + "/elf": "neither a program for this machine (ELF)",
		dir + "/none": "no such file", dir: "not a regular file", "/dev/null": "not a regular file",
	} {
		for name, open := range map[string]func(string) (*Program, func(), error){"Open": Open, "Copy": programs.Copy} {
			program, release, err := open(path)
			if err == nil {
				release()
			}
			if program != nil || err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s(%s) = %v, %v, want %q", name, path, program, err, want)
			}
		}
	}
	if len(programs.held) != 0 {
		t.Errorf("%d copies are left", len(programs.held))
	}
}

// A jail that is stopped, or whose first process is ended by others, leaves nothing.
func TestLaw46JailIsKilledWhatever(t *testing.T) {
	strict(t)
	mark := newMark(t)
	for name, do := range map[string]func(*Process){
		"Kill": func(*Process) {}, "stopped": func(p *Process) { _ = signalStop(p.Top()) }, "killed": func(p *Process) { _ = p.top.Kill() },
	} {
		p := start(t, reaperRole, Spec{
			Path: "/bin/sh", Env: []string{mark, "PATH=/usr/bin:/bin"}, Policy: &Policy{Profile: Command},
			Args: []string{"-c", `trap "" TERM HUP; (setsid sleep 300 &) & sleep 300; sleep 300`},
		})
		eventually(t, patience, "it runs", func() bool { return len(marked(mark)) >= 3 })
		do(p)
		begin := time.Now()
		if err := p.Kill(context.Background()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if took, left := time.Since(begin), marked(mark); took > 2*time.Second || len(left) > 0 {
			t.Errorf("%s: took %s, left %v", name, took, left)
		}
	}
}
