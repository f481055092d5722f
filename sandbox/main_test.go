package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/scope"
)

// The test binary is also the reaper, bad reapers, hosts that get killed, a program that looks around in a jail, and what a
// shell lacks for a bad program.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 {
		goleak.VerifyTestMain(m)
		return
	}
	switch args := os.Args[2:]; os.Args[1] {
	case "__launch":
		exit(Main(args))
	case "__mute":
		outlast(os.Getppid())
	case "__deaf":
		exit(deaf(args))
	case "__host":
		exit(host(args))
	case "__session":
		exit(session(args))
	case "__comet":
		exit(comet())
	case "__inside":
		exit(lookAround(args))
	case "__jailhost":
		exit(jailHost(args))
	case "__inputhost":
		exit(inputHost(args))
	case "__nospaces":
		exit(noSpaces())
	default:
		goleak.VerifyTestMain(m)
	}
}

// exit is os.Exit without the second for which the race detector delays it.
func exit(status int) { syscall.Exit(status) }

// outlast blocks until the parent has ended.
func outlast(parent int) {
	for os.Getppid() == parent {
		time.Sleep(10 * time.Millisecond)
	}
}

// deaf is a reaper that does not hear when the tree is to end.
func deaf(args []string) int {
	runtime.LockOSThread()
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	host := os.Getppid()
	env, err := receiveEnvironment(os.Stdin)
	if err != nil {
		return 2
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 2
	}
	r := &reaper{report: os.NewFile(reportFile, "report")}
	if keepPrivate() != nil || r.start(args, env) != nil {
		return 2
	}
	outlast(host)
	return 0
}

// host runs a script below the launcher whose only argument is args[0], prints the pid of its top and what the script
// prints, and stays until it is killed.
func host(args []string) int {
	owner := scope.New(context.Background(), "host")
	spec := Spec{Path: "/bin/sh", Args: []string{"-c", args[1]}, Env: os.Environ(), Dir: "/"}
	p, err := Start(context.Background(), owner, launcher(args[0]), spec)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(p.Top())
	_, _ = io.Copy(os.Stdout, p.Stdout)
	outlast(os.Getppid())
	return 0
}

// session runs a command in a session of its own.
func session(args []string) int {
	if _, err := syscall.Setsid(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Fprintln(os.Stderr, syscall.Exec(args[0], args, os.Environ()))
	return 1
}

// comet starts itself again, in a session of its own, and ends.
func comet() int {
	attr := &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: &syscall.SysProcAttr{Setsid: true}}
	if _, err := os.StartProcess("/proc/self/exe", os.Args, attr); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return 0
}

// launcher is the test binary in one of its roles, or none for the group.
func launcher(role string) Launcher {
	switch role {
	case groupRole:
		return Launcher{}
	case jailRole:
		role = reaperRole
	}
	return Launcher{Path: "/proc/self/exe", Args: []string{role}}
}

const (
	reaperRole = "__launch"
	jailRole   = "jail" // the same, for a command that is confined
	deafRole   = "__deaf"
	muteRole   = "__mute"
	groupRole  = string(MethodGroup)
)

// bothMethods runs a test with the reaper and without.
func bothMethods(t *testing.T, test func(*testing.T, string)) {
	t.Helper()
	for _, role := range []string{reaperRole, groupRole} {
		t.Run(strings.TrimPrefix(role, "__"), func(t *testing.T) { test(t, role) })
	}
}

// patience is for what is sure to come.
const patience = 20 * time.Second

// A tree is a process under test. Every process of it carries a mark in its environment, by which it is found however it was
// orphaned.
type tree struct {
	*Process
	t    testing.TB
	mark string
	out  *bufio.Reader
}

// plant starts a script.
func plant(t testing.TB, role, script string) *tree {
	t.Helper()
	mark := newMark(t)
	p := start(t, role, Spec{Path: "/bin/sh", Args: []string{"-c", script}, Env: environment(t, mark), Dir: "/"})
	return &tree{Process: p, t: t, mark: mark, out: bufio.NewReader(p.Stdout)}
}

// aCommand is the spec of a command line, confined where a role is the jail.
func aCommand(t testing.TB, role, line string) Spec {
	t.Helper()
	spec := Spec{Path: "/bin/sh", Args: []string{"-c", line}, Env: append(environment(t, newMark(t)), "TERM=xterm", "HOME=/tmp"), Dir: "/", Stdin: StdinEmpty}
	if role == jailRole {
		spec.Policy = &Policy{Profile: Command}
	}
	return spec
}

// command is start for every role that a command can have.
func command(t testing.TB, role string, spec Spec) *tree {
	t.Helper()
	mark := ""
	for _, entry := range spec.Env {
		if strings.HasPrefix(entry, "TREE=") {
			mark = entry
		}
	}
	p := start(t, role, spec)
	return &tree{Process: p, t: t, mark: mark, out: bufio.NewReader(p.Stdout)}
}

// allMethods runs a test with each method.
func allMethods(t *testing.T, test func(*testing.T, string)) {
	t.Helper()
	for _, role := range []string{jailRole, reaperRole, groupRole} {
		t.Run(strings.TrimPrefix(role, "__"), func(t *testing.T) {
			if role == jailRole {
				strict(t)
			}
			test(t, role)
		})
	}
}

// start starts spec and ends it with the test.
func start(t testing.TB, role string, spec Spec) *Process {
	t.Helper()
	owner := newOwner(t)
	p, err := Start(t.Context(), owner, launcher(role), spec)
	if err != nil {
		t.Fatalf("Start = %v", err)
	}
	t.Cleanup(func() { _ = p.Kill(context.Background()) })
	return p
}

// newScope is for a role that is not a test.
func newScope() *scope.Scope { return scope.New(context.Background(), "role") }

func newOwner(t testing.TB) *scope.Scope {
	owner := scope.New(context.Background(), "test")
	t.Cleanup(func() {
		if err := owner.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return owner
}

// wantNothingOwned allows the goroutine that closed Gone to return.
func wantNothingOwned(t testing.TB, owner *scope.Scope) {
	t.Helper()
	eventually(t, patience, "the scope owns nothing", func() bool { return len(owner.Tree().Owned) == 0 })
}

// newMark makes a mark, and ends at last what still carries it.
func newMark(t testing.TB) string {
	mark := "TREE=" + rand.Text()
	t.Cleanup(func() {
		for _, pid := range marked(mark) {
			killIf(pid, func(p process) bool { return carries(p, mark) })
		}
	})
	return mark
}

func environment(t testing.TB, mark string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{mark, "SELF=" + self, "PATH=" + os.Getenv("PATH")}
}

// marked lists the living processes with the mark.
func marked(mark string) []int {
	var pids []int
	for _, p := range processes() {
		if carries(p, mark) {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// carries is false for one that has ended, since its environment is gone.
func carries(p process, mark string) bool {
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid))
	return err == nil && bytes.Contains(environ, []byte(mark))
}

// line is the next line that the program prints.
func (tr *tree) line() string {
	tr.t.Helper()
	return nextLine(tr.t, tr.Stdout, tr.out)
}

func (tr *tree) wantLine(want string) {
	tr.t.Helper()
	if got := tr.line(); got != want {
		tr.t.Fatalf("the program printed %q, want %q", got, want)
	}
}

// wantAll waits until the tree has so many processes besides its reaper: one that is in its exec has no environment to look at.
func (tr *tree) wantAll(count int) (pids []int) {
	tr.t.Helper()
	eventually(tr.t, patience, fmt.Sprintf("the tree has %d processes", count), func() bool {
		pids = marked(tr.mark)
		return len(pids) == count
	})
	return pids
}

// wantNone is for after the tree is said to be gone, so it does not wait.
func (tr *tree) wantNone() {
	tr.t.Helper()
	if pids := marked(tr.mark); len(pids) > 0 {
		tr.t.Errorf("processes %v are left", pids)
	}
}

func (tr *tree) kill() {
	tr.t.Helper()
	if err := tr.Kill(tr.t.Context()); err != nil {
		tr.t.Errorf("Kill = %v", err)
	}
}

func nextLine(t testing.TB, from *os.File, out *bufio.Reader) string {
	t.Helper()
	if err := from.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	line, err := out.ReadString('\n')
	if err != nil {
		t.Fatalf("read a line: %v after %q", err, line)
	}
	return strings.TrimSuffix(line, "\n")
}

// readAll reads to the end.
func readAll(t testing.TB, from *os.File) string {
	t.Helper()
	if err := from.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(from)
	if err != nil {
		t.Fatalf("read to the end: %v after %q", err, all)
	}
	return string(all)
}

func await(t testing.TB, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s did not come", what)
	}
}

// eventually asks again and again.
func eventually(t testing.TB, within time.Duration, what string, holds func() bool) {
	t.Helper()
	for until := time.Now().Add(within); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// lives reports whether pid is a process that has not ended.
func lives(pid int) bool {
	p, ok := processOf(pid)
	return ok && p.living()
}

func atoi(t testing.TB, text string) int {
	t.Helper()
	number, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return number
}
