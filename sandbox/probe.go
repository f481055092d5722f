package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/sandbox/internal/jail"
	"github.com/toolhost/toolhost/scope"
)

// A Finding is how strongly this machine lets this user confine processes.
type Finding struct {
	Tier Tier
	// Reason is why the tier is not [Strict], and what would make it so.
	Reason string
}

// Probe finds out the tier by confining a process that then tries what it must not be able
// to do. It takes about as long as the start of a process. ctx bounds it, and the process
// belongs to owner.
func Probe(ctx context.Context, owner *scope.Scope, launcher Launcher) Finding {
	if launcher.Path == "" {
		return Finding{Off, "the program that embeds the host names no launcher"}
	}
	p, err := Start(ctx, owner, launcher, Spec{Path: launcher.Path, Policy: &Policy{}, probe: true})
	if err != nil {
		if jailed, ok := errors.AsType[*JailError](err); ok {
			return Finding{Off, jailed.reason}
		}
		return Finding{Off, err.Error()}
	}
	defer p.Kill(context.WithoutCancel(ctx)) //nolint:errcheck // it has ended
	select {
	case <-p.Gone():
	case <-ctx.Done():
		return Finding{Off, "it was not found out: " + context.Cause(ctx).Error()}
	}
	if exit := p.Exit(); exit != (Exit{}) || !p.said.Load() {
		return Finding{Off, fmt.Sprintf("a process that tries what it must not be able to do ended with %s", exit)}
	}
	return Finding{Tier: Strict}
}

// probe is the launcher that confines itself and tries what a plugin must not be able to
// do. Each layer is tried by something that no other one refuses, as far as there is such.
func (l *launcherProcess) probe() int {
	own, err := os.Readlink("/proc/self/exe")
	if err == nil {
		return l.fail(fmt.Errorf("the root of the machine is still there, with %s", filepath.Base(own)))
	}
	filter, err := l.filter(0)
	if err != nil {
		return l.fail(err)
	}
	if lo, err := net.InterfaceByName("lo"); err == nil && lo.Flags&net.FlagUp != 0 {
		return l.fail(errors.New("the network of the machine is still there"))
	}
	asks := jail.AsksDevices() // the filter refuses the question
	if err := l.seal(filter, lifelineFile); err != nil {
		return l.fail(err)
	}
	for _, attempt := range attempts(asks) {
		if err := attempt.try(); !errors.Is(err, attempt.want) {
			return l.fail(fmt.Errorf("what must be refused is not: %s: %w", attempt.name, orNil(err)))
		}
	}
	l.say(reportStarted, 2)
	return 0
}

var errDone = errors.New("it was done")

// orNil is an error also where there is none.
func orNil(err error) error {
	if err == nil {
		return errDone
	}
	return err
}

// An attempt is something that a confined process must fail at.
type attempt struct {
	name string
	want error
	try  func() error
}

func attempts(asks bool) []attempt {
	call := func(number uintptr, args ...uintptr) func() error {
		var all [6]uintptr
		copy(all[:], args)
		return func() error {
			_, _, err := unix.RawSyscall6(number, all[0], all[1], all[2], all[3], all[4], all[5])
			if err == 0 {
				return nil
			}
			return err
		}
	}
	return []attempt{
		{"the machine's files", unix.ENOENT, func() error { return unix.Access("/etc", unix.F_OK) }},
		{"to write into the root", unix.EROFS, func() error { return unix.Mkdir("/made", 0o700) }},
		{"what Landlock refuses", unix.EACCES, func() error { return askDevice(asks) }},
		{"a capability", unix.EPERM, ownCapability},
		{"a core of any size", unix.EPERM, ownCore},
		{"a socket of the internet", unix.EPERM, func() error { return socket(unix.AF_INET, unix.SOCK_STREAM) }},
		{"a datagram socket", unix.EPERM, func() error { return socket(unix.AF_UNIX, unix.SOCK_DGRAM) }},
		{"another namespace", unix.EPERM, call(unix.SYS_UNSHARE, unix.CLONE_NEWUSER)},
		{"to trace a process", unix.EPERM, call(unix.SYS_PTRACE, unix.PTRACE_TRACEME)},
		{"a file in memory", unix.EPERM, func() error { _, err := unix.MemfdCreate("x", 0); return err }},
		{"a process of its own", unix.EPERM, fork},
	}
}

// askDevice asks a device something, which nothing but Landlock refuses, and that since
// Linux 6.10.
func askDevice(asks bool) error {
	fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // it was only read
	_, err = unix.IoctlGetTermios(fd, unix.TCGETS)
	if errors.Is(err, unix.ENOTTY) && !asks {
		return unix.EACCES
	}
	return err
}

// ownCapability is whether any capability could still be had.
func ownCapability() error {
	for c := range uintptr(40) {
		if has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0); err == nil && has != 0 {
			return nil
		}
	}
	return unix.EPERM
}

// ownCore is whether the limits were set, of which this is the simplest.
func ownCore() error {
	var most unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &most); err != nil || most.Max != 0 {
		return err
	}
	return unix.EPERM
}

func socket(family, kind int) error {
	fd, err := unix.Socket(family, kind, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

// fork makes a process, which ends at once.
func fork() error {
	pid, _, err := unix.RawSyscall6(unix.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	switch {
	case err != 0:
		return err
	case pid == 0:
		_, _, _ = unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
	}
	return nil
}
