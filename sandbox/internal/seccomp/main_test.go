//go:build amd64 || arm64

package seccomp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// The test binary is also what makes attempts under a filter, what launches a program under one, and a program that is
// launched.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 {
		goleak.VerifyTestMain(m)
		return
	}
	switch args := os.Args[2:]; os.Args[1] {
	case "__attempt":
		exit(attemptAll(args))
	case "__launch":
		exit(launch(args))
	case "__program":
		exit(runProgram(args))
	default:
		goleak.VerifyTestMain(m)
	}
}

// exit is os.Exit without the second for which the race detector delays it.
func exit(status int) { syscall.Exit(status) }

// execFD is above the hard limit that launch sets.
const execFD = 1024

// A filterName names a filter to a child: a profile and options.
type filterName string

// The filters under test; off is none.
const (
	off            filterName = "off"
	plugin         filterName = "plugin"
	pluginExec     filterName = "plugin+exec"
	pluginNetwork  filterName = "plugin+network"
	command        filterName = "command"
	commandNetwork filterName = "command+network"
)

func (n filterName) filter() ([]unix.SockFilter, error) {
	profile, option, _ := strings.Cut(string(n), "+")
	o := Options{Exec: option == "exec", Network: option == "network", ExecFD: execFD}
	if profile == "plugin" {
		return Plugin(o)
	}
	return Command(o)
}

// confine puts the filter on this thread.
func confine(n filterName) error {
	runtime.LockOSThread()
	if n == off {
		return nil
	}
	filter, err := n.filter()
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return Apply(filter)
}

// launch runs args[1:] under the filter args[0] as a launcher would: by a descriptor that is above the hard limit.
func launch(args []string) int {
	program, err := os.Open(args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 125
	}
	if err := unix.Dup3(int(program.Fd()), execFD, unix.O_CLOEXEC); err != nil {
		fmt.Fprintln(os.Stderr, "dup3:", err)
		return 125
	}
	limit := unix.Rlimit{Cur: execFD, Max: execFD}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		fmt.Fprintln(os.Stderr, "setrlimit:", err)
		return 125
	}
	if err := confine(filterName(args[0])); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 125
	}
	argv, err := syscall.SlicePtrFromStrings(args[1:])
	if err != nil {
		return 125
	}
	env, err := syscall.SlicePtrFromStrings(os.Environ())
	if err != nil {
		return 125
	}
	err = execveat(execFD, "", argv, env, unix.AT_EMPTY_PATH)
	fmt.Fprintln(os.Stderr, "execveat:", err)
	return 125
}

// A user is whom a child runs as.
type user struct {
	name string
	attr *syscall.SysProcAttr
}

// users are the one that runs the tests, and an ordinary one where it can be had.
func users() []user {
	if os.Getuid() != 0 {
		return []user{{"self", nil}}
	}
	const nobody = 65534
	return []user{
		{"root", nil},
		{"nobody", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}},
	}
}

// child is the test binary in a role. It is named by a link that does not need the directory it is in.
func (u user) child(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.WaitDelay = time.Second
	cmd.Dir = "/"
	cmd.SysProcAttr = u.attr
	return cmd
}

// output is of a child that ends well.
func output(t testing.TB, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args[1:], err, out)
	}
	return string(out)
}

// wantKilled is for a child that the filter ends.
func wantKilled(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("%v ended with %v, want SIGSYS\n%s", cmd.Args[1:], err, out)
	}
	if status := exit.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGSYS {
		t.Errorf("%v ended with %v, want SIGSYS\n%s", cmd.Args[1:], err, out)
	}
}

func atoi(text string) int {
	number, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return number
}
