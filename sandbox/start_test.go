package sandbox

import (
	"bufio"
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

	"github.com/toolhost/toolhost/scope"
)

func TestExit(t *testing.T) {
	tests := []struct {
		script string
		want   Exit
		words  string
	}{
		{"exit 0", Exit{}, "exit status 0"},
		{"exit 7", Exit{Code: 7}, "exit status 7"},
		{"exit 143", Exit{Code: 143}, "exit status 143"},
		{"exit 255", Exit{Code: 255}, "exit status 255"},
		{"kill -TERM $$", Exit{Code: -1, Signal: "terminated"}, "signal: terminated"},
		{"kill -KILL $$", Exit{Code: -1, Signal: "killed"}, "signal: killed"},
		{"ulimit -c 0; kill -ABRT $$", Exit{Code: -1, Signal: "aborted"}, "signal: aborted"},
	}
	bothMethods(t, func(t *testing.T, role string) {
		for _, test := range tests {
			p := plant(t, role, test.script)
			if out := readAll(t, p.Stdout) + readAll(t, p.Stderr); out != "" {
				t.Errorf("%s: output %q", test.script, out)
			}
			await(t, "the exit", p.Exited())
			if got := p.Exit(); got != test.want || got.String() != test.words {
				t.Errorf("%s: Exit = %+v (%v), want %+v (%s)", test.script, got, got, test.want, test.words)
			}
			await(t, "the end of the tree", p.Gone())
			p.kill()
		}
	})
}

func TestStart(t *testing.T) {
	bothMethods(t, func(t *testing.T, role string) {
		p := plant(t, role, `pwd; echo "$0 $1"; echo err >&2; exec sleep 1000`)
		p.wantLine("/")
		if got := p.Exit(); got != (Exit{}) {
			t.Errorf("Exit of what runs = %+v", got)
		}
		want := MethodReaper
		if role == groupRole {
			want = MethodGroup
		}
		if p.Method() != want {
			t.Errorf("Method = %s, want %s", p.Method(), want)
		}
		if (p.Pid() == p.Top()) != (want == MethodGroup) {
			t.Errorf("Pid = %d and Top = %d with a %s", p.Pid(), p.Top(), want)
		}
		if got, err := bufio.NewReader(p.Stderr).ReadString('\n'); got != "err\n" {
			t.Errorf("stderr = %q, %v", got, err)
		}
		top, ok := processOf(p.Top())
		if own, _ := processOf(os.Getpid()); !ok || top.session != p.Top() || top.session == own.session {
			t.Errorf("top = %+v, want the leader of a session of its own", top)
		}
	})
}

// The system has one error for several of these.
func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tests := []struct {
		name string
		spec Spec
		is   error
		want string // after "start PATH: "
	}{
		{"missing", Spec{Path: dir + "/none"}, os.ErrNotExist, "does not exist"},
		{"not executable", Spec{Path: write("plain", "#!/bin/sh\n", 0o644)}, syscall.EACCES,
			"is not executable, chmod +x makes it so"},
		{"directory", Spec{Path: dir}, syscall.EACCES, "is a directory"},
		{"below a file", Spec{Path: dir + "/plain/x"}, syscall.ENOTDIR, "not a directory"},
		{"no program", Spec{Path: write("text", "echo hello\n", 0o755)}, syscall.ENOEXEC,
			"is neither a program for this machine nor a script with a #! line"},
		{"no interpreter", Spec{Path: write("script", "#! /no/such/python -u\n", 0o755)}, os.ErrNotExist,
			"its interpreter /no/such/python does not exist"},
		{"too many arguments", Spec{Path: "/bin/sh", Args: []string{strings.Repeat("x", 1<<20)}}, syscall.E2BIG,
			"argument list too long"},
		{"missing directory", Spec{Path: "/bin/sh", Dir: dir + "/none"}, os.ErrNotExist,
			fmt.Sprintf("working directory %q: no such file or directory", dir+"/none")},
		{"directory is a file", Spec{Path: "/bin/sh", Dir: dir + "/plain"}, syscall.ENOTDIR,
			fmt.Sprintf("working directory %q: not a directory", dir+"/plain")},
		{"relative directory", Spec{Path: "/bin/sh", Dir: "tmp"}, nil, `working directory "tmp": not an absolute path`},
		{"environment without a value", Spec{Path: "/bin/sh", Env: []string{"A=b", "secret"}}, nil,
			"entry 1 of the environment is not KEY=value without a NUL byte"},
		{"environment without a key", Spec{Path: "/bin/sh", Env: []string{"=secret"}}, nil,
			"entry 0 of the environment is not KEY=value without a NUL byte"},
		{"NUL in the environment", Spec{Path: "/bin/sh", Env: []string{"A=secret\x00"}}, nil,
			"entry 0 of the environment is not KEY=value without a NUL byte"},
	}
	if program, ok := loaderless(t); ok {
		tests = append(tests, tests[0])
		loader := &tests[len(tests)-1]
		loader.name, loader.spec.Path = "no loader", write("loaderless", program, 0o755)
		loader.want = "the loader that it names does not exist, as when it was built for another system"
	}
	bothMethods(t, func(t *testing.T, role string) {
		for _, test := range tests {
			p, err := Start(t.Context(), newOwner(t), launcher(role), test.spec)
			if err == nil {
				p.Kill(context.Background())
				t.Errorf("%s: it started", test.name)
				continue
			}
			want := fmt.Sprintf("start %s: %s", test.spec.Path, test.want)
			if test.is == syscall.E2BIG && role == reaperRole {
				want = fmt.Sprintf("start %s: reaper /proc/self/exe: %s", test.spec.Path, test.want)
			}
			if err.Error() != want {
				t.Errorf("%s:\n got %q\nwant %q", test.name, err, want)
			}
			if test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("%s: %v does not wrap %v", test.name, err, test.is)
			}
		}
		wantNoChildren(t)
	})
}

// loaderless is a program that names a loader that does not exist. It is not ok where programs need none.
func loaderless(t *testing.T) (program string, ok bool) {
	t.Helper()
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	program = strings.Replace(string(shell), "/ld-", "/no-", 1)
	return program, program != string(shell)
}

// openProgram writes a program that exits with 4, and does not close it.
func openProgram(t *testing.T, path string) *os.File {
	t.Helper()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString("#!/bin/sh\nexit 4\n"); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestStartRefused(t *testing.T) {
	sh := Spec{Path: "/bin/sh"}
	tests := []struct {
		name     string
		launcher Launcher
		spec     Spec
		want     string
	}{
		{"relative path", launcher(reaperRole), Spec{Path: "sh"}, `executable "sh" is not an absolute path`},
		{"no path", launcher(reaperRole), Spec{}, `executable "" is not an absolute path`},
		{"NUL in an argument", launcher(reaperRole), Spec{Path: "/bin/sh", Args: []string{"a\x00"}},
			`start "/bin/sh": a NUL byte in the path, an argument or the directory`},
		{"relative reaper", Launcher{Path: "reaper"}, sh, `reaper "reaper" is not an absolute path`},
		{"missing reaper", Launcher{Path: "/no/reaper"}, sh, "start /bin/sh: reaper /no/reaper: does not exist"},
		{"reaper that ends", Launcher{Path: "/bin/sh", Args: []string{"-c", "exit 3"}}, sh,
			"start /bin/sh: its reaper ended before it ran it: exit status 3"},
		{"reaper that ends well", Launcher{Path: "/bin/sh", Args: []string{"-c", "exit 0"}}, sh,
			"start /bin/sh: its reaper ended before it ran it: exit status 0"},
	}
	for _, test := range tests {
		_, err := Start(t.Context(), newOwner(t), test.launcher, test.spec)
		if err == nil || err.Error() != test.want {
			t.Errorf("%s:\n got %v\nwant %s", test.name, err, test.want)
		}
	}
	wantNoChildren(t)
}

// What is reported may come from elsewhere; the host takes the first word that makes sense, and does not fall over the rest.
// Seen to panic with an exit taken twice.
func TestReportsThatMakeNoSense(t *testing.T) {
	reports := "what\n\nstarted\nstarted x\nstarted 0\nstarted 1\nstarted -2\nstarted 99999999999999999999\ngoneby 1\n" +
		"started 12345678\nstarted 2\nexited x\nexited 768\nexited 0\nfailed 2\nunfit 1\n"
	liar := Launcher{Path: "/bin/sh", Args: []string{"-c", "printf '" + reports + "' >&3; read never; exec sleep 1000"}}
	p, err := Start(t.Context(), newOwner(t), liar, Spec{Path: "/bin/true"})
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the exit", p.Exited())
	if p.Pid() != 12345678 || p.Exit() != (Exit{Code: 3}) {
		t.Errorf("Pid = %d, Exit = %+v, want what was said first", p.Pid(), p.Exit())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Kill(ctx); err != nil {
		t.Errorf("Kill = %v", err)
	}
	wantNoChildren(t)
}

// A program that was just written and closed is still open for writing in another child of this process, until that one has
// come to its exec.
func TestStartOfWhatIsStillOpen(t *testing.T) {
	bothMethods(t, func(t *testing.T, role string) {
		path := filepath.Join(t.TempDir(), "program")
		file := openProgram(t, path)
		time.AfterFunc(10*time.Millisecond, func() { file.Close() })
		p := start(t, role, Spec{Path: path})
		await(t, "the exit", p.Exited())
		if got := p.Exit().Code; got != 4 {
			t.Errorf("exit status %d, want 4", got)
		}
	})
}

func TestStartOfWhatStaysOpen(t *testing.T) {
	t.Parallel()
	for _, role := range []string{reaperRole, groupRole} {
		t.Run(strings.TrimPrefix(role, "__"), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "program")
			defer openProgram(t, path).Close()
			_, err := Start(t.Context(), newOwner(t), launcher(role), Spec{Path: path})
			want := fmt.Sprintf("start %s: is open for writing, close it first", path)
			if !errors.Is(err, syscall.ETXTBSY) || err.Error() != want {
				t.Errorf("Start = %v, want %s", err, want)
			}
		})
	}
}

func TestEnvironment(t *testing.T) {
	tests := map[string][]string{
		"none": nil,
		"odd": {
			"B=2", "A=1", "A=1", "A=3", "EMPTY=", "EQUALS=a=b", "SPACE= a b ", "BYTES=\xff\xfe\n\t", "lower=x",
			"GODEBUG=madvdontneed=1", "GOGC=1", "GOMAXPROCS=3", "LD_PRELOAD=",
		},
		"more than a pipe holds": {"A=" + strings.Repeat("a", 100<<10), "B=" + strings.Repeat("b", 100<<10), "C=c"},
	}
	bothMethods(t, func(t *testing.T, role string) {
		t.Setenv("OF_THE_HOST", "secret")
		for name, env := range tests {
			p := start(t, role, Spec{Path: "/bin/cat", Args: []string{"/proc/self/environ"}, Env: env, Dir: "/"})
			want := strings.Join(append(env, ""), "\x00")
			if got := readAll(t, p.Stdout); got != want {
				t.Errorf("%s: environment\n got %.1000q\nwant %.1000q", name, got, want)
			}
		}
	})
}

// The environment of the reaper is as little the host's as the program's. The good reaper does not let an ordinary user look
// at it; the deaf one is started alike.
func TestEnvironmentOfTheReaper(t *testing.T) {
	t.Setenv("OF_THE_HOST", "secret")
	p := plant(t, deafRole, "echo ready; exec sleep 1000")
	p.wantLine("ready")
	got, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.Top()))
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Join(append(reaperEnvironment(), ""), "\x00"); string(got) != want {
		t.Errorf("environment %q, want %q", got, want)
	}
}

// The program gets nothing open but its input and output, and these as a program expects them: an input that blocks. Only a
// reaper can see to that for what the host was given without asking, which is here one descriptor at least.
func TestDescriptors(t *testing.T) {
	given, err := syscall.Dup(0) // without close-on-exec
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(given)
	bothMethods(t, func(t *testing.T, role string) {
		p := plant(t, role, "echo ready; read never")
		p.wantLine("ready") // so that the loader has closed what it opened
		want := map[string]bool{"0": true, "1": true, "2": true}
		if role == groupRole {
			for _, fd := range openFiles(t, os.Getpid()) {
				if flags, ok := openFlags(os.Getpid(), fd); ok && flags&syscall.O_CLOEXEC == 0 {
					want[fd] = true
				}
			}
		}
		for _, fd := range openFiles(t, p.Pid()) {
			if !want[fd] {
				t.Errorf("descriptor %s is open", fd)
			}
			delete(want, fd)
		}
		if len(want) > 0 {
			t.Errorf("descriptors %v are not open", want)
		}
		for _, fd := range []string{"0", "1", "2"} {
			if flags, ok := openFlags(p.Pid(), fd); !ok || flags&syscall.O_NONBLOCK != 0 {
				t.Errorf("descriptor %s has flags %#o, of which O_NONBLOCK surprises a program", fd, flags)
			}
		}
	})
}

func openFiles(t *testing.T, pid int) []string {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, entry := range entries {
		files = append(files, entry.Name())
	}
	return files
}

// openFlags are those of a descriptor, if it is open.
func openFlags(pid int, fd string) (flags int64, ok bool) {
	info, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, fd))
	if err != nil {
		return 0, false
	}
	_, after, _ := strings.Cut(string(info), "flags:")
	flags, err = strconv.ParseInt(strings.Fields(after)[0], 8, 64)
	return flags, err == nil
}

// The program's input is empty and open while the tree lives, and at its end when the tree is to end. It is looked at
// through a reader of the test's own.
func TestStdinIsALifeline(t *testing.T) {
	bothMethods(t, func(t *testing.T, role string) {
		p := plant(t, role, "echo ready; exec sleep 1000")
		p.wantLine("ready")
		stdin, err := syscall.Open(fmt.Sprintf("/proc/%d/fd/0", p.Pid()), syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(stdin)
		b := make([]byte, 1)
		if n, err := syscall.Read(stdin, b); err != syscall.EAGAIN {
			t.Errorf("while it lives: read %d, %v, want nothing yet", n, err)
		}
		p.kill()
		if n, err := syscall.Read(stdin, b); n != 0 || err != nil {
			t.Errorf("after Kill: read %d, %v, want the end", n, err)
		}
	})
}

// A program that minds its input ends by itself when the tree is to end.
func TestProgramSeesTheEndOfStdin(t *testing.T) {
	bothMethods(t, func(t *testing.T, role string) {
		p := plant(t, role, "echo ready; cat; echo end; exit 5")
		p.wantLine("ready")
		if err := p.pipes.holdProgram.Close(); err != nil {
			t.Fatal(err)
		}
		p.wantLine("end")
		await(t, "the exit", p.Exited())
		if got := p.Exit().Code; got != 5 {
			t.Errorf("exit status %d, want 5", got)
		}
	})
}

// Who reads the output learns when the program closed it, whoever else is still there.
func TestStdoutEnds(t *testing.T) {
	bothMethods(t, func(t *testing.T, role string) {
		p := plant(t, role, "echo last; exec sleep 1000 >&-")
		if got := readAll(t, p.Stdout); got != "last\n" {
			t.Errorf("stdout = %q", got)
		}
		if !lives(p.Pid()) {
			t.Error("the program ended, so that nothing was shown")
		}
	})
}

func TestStartWithoutTime(t *testing.T) {
	why := errors.New("no longer wanted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	_, err := Start(ctx, newOwner(t), launcher(reaperRole), Spec{Path: "/bin/sh"})
	if want := "start /bin/sh: no longer wanted"; !errors.Is(err, why) || err.Error() != want {
		t.Errorf("Start = %v, want %s", err, want)
	}
}

// A reaper that never says anything is given up when the context is, and ended.
func TestStartCancelled(t *testing.T) {
	t.Parallel()
	owner := newOwner(t)
	why := errors.New("no longer wanted")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
	begin := time.Now()
	_, err := Start(ctx, owner, launcher(muteRole), Spec{Path: "/bin/sh", Args: []string{newMark(t)}})
	if want := "start /bin/sh: no longer wanted"; !errors.Is(err, why) || err.Error() != want {
		t.Errorf("Start = %v, want %s", err, want)
	}
	wantBounded(t, begin)
	wantNothingOwned(t, owner)
}

// Whenever the context ends, there is either a process or nothing.
func TestStartCancelledAnywhere(t *testing.T) {
	owner := newOwner(t)
	mark := newMark(t)
	spec := Spec{Path: "/bin/sleep", Args: []string{"1000"}, Env: []string{mark}, Dir: "/"}
	cancelled, started := 0, 0
	for after := time.Duration(0); cancelled == 0 || started < 2; after += after/2 + 500*time.Microsecond {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		p, err := Start(ctx, owner, launcher(reaperRole), spec)
		switch {
		case err == nil:
			started++
			if err := p.Kill(t.Context()); err != nil {
				t.Error(err)
			}
		case errors.Is(err, context.DeadlineExceeded):
			cancelled++
		default:
			t.Errorf("after %v: %v", after, err)
		}
		cancel()
		if pids := marked(mark); len(pids) > 0 {
			t.Fatalf("after %v: processes %v are left", after, pids)
		}
		wantNothingOwned(t, owner)
	}
	wantNoChildren(t)
}

func TestStartInAClosedScope(t *testing.T) {
	owner := scope.New(t.Context(), "owner")
	if err := owner.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := descriptors(t)
	for _, role := range []string{reaperRole, groupRole} {
		_, err := Start(t.Context(), owner, launcher(role), Spec{Path: "/bin/sh"})
		if !errors.Is(err, scope.ErrClosed) {
			t.Errorf("Start = %v, want %v", err, scope.ErrClosed)
		}
	}
	if got := descriptors(t); got != before {
		t.Errorf("%d descriptors, want %d as before", got, before)
	}
	wantNoChildren(t)
}
