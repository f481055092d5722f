package hostile

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What the program does when it is run with one of these, in place of being a plugin.
const (
	// WordEnd is to end at once.
	WordEnd = "__end"
	// WordUser is to say whether it became another user.
	WordUser = "__user"
	// WordStay is to stay until it is ended.
	WordStay = "__stay"
)

// programs are attacks by new processes and other programs.
func programs() []Attack {
	return []Attack{
		{Name: "make a process", Programs: true, try: func(Target) error { return fork(0) }},
		{Name: "run /bin/sh", Programs: true, try: func(Target) error { return run("/bin/sh", "sh", "-c", "exit 0") }},
		{Name: "run a program that it wrote", Programs: true, try: func(t Target) error {
			return written(t, func(path string) error { return run(path, path, WordEnd) })
		}},
		{Name: "run it by a descriptor", Programs: true, try: func(t Target) error {
			return written(t, func(path string) error {
				fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
				if err != nil {
					return err
				}
				defer unix.Close(fd) //nolint:errcheck // it was only read
				return runAt(uintptr(fd), "", path, WordEnd)
			})
		}},
		{Name: "run it by its path, and a number that is no descriptor", Programs: true, try: func(t Target) error {
			return written(t, func(path string) error { return runAt(1<<30, path, path, WordEnd) })
		}},
		{Name: "run it out of memory (memfd_create)", Programs: true, try: func(t Target) error {
			fd, err := unix.MemfdCreate("x", unix.MFD_CLOEXEC)
			if err != nil {
				return err
			}
			file := os.NewFile(uintptr(fd), "x")
			defer file.Close()
			if err := copyTo(file, t.Plugin); err != nil {
				return err
			}
			own, err := os.Open("/proc/self/fd/" + itoa(fd)) // what is open for writing is not run
			if err != nil {
				return runAt(uintptr(fd), "", "x", WordEnd)
			}
			defer own.Close()
			_ = file.Close()
			return runAt(own.Fd(), "", "x", WordEnd)
		}},
		{Name: "a set-user-id program makes it another user", May: "a set-user-id program, which root makes",
			try: func(t Target) error { return run(t.SetUID, t.SetUID, WordUser) }},
	}
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + itoa(n%10)
}

// written has a copy of the plugin's program in its /tmp.
func written(t Target, run func(path string) error) error {
	dir, err := os.MkdirTemp("/tmp", "hostile-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is in memory, or the test's
	path := filepath.Join(dir, "program")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	if err := errors.Join(copyTo(file, t.Plugin), file.Close()); err != nil {
		return err
	}
	return run(path)
}

func copyTo(to io.Writer, path string) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	_, err = io.Copy(to, from)
	return err
}

// run runs a program in a process of its own, or in place of this one where there can be no other: that would be seen.
func run(path string, args ...string) error {
	s, err := execution(unix.SYS_EXECVE, path, args)
	if err != nil {
		return err
	}
	return apart(s)
}

// runAt is run by execveat.
func runAt(fd uintptr, path string, args ...string) error {
	s, err := execution(unix.SYS_EXECVE, path, args)
	if err != nil {
		return err
	}
	return apart(step{[7]uintptr{unix.SYS_EXECVEAT, fd, s.call[1], s.call[2], s.call[3], unix.AT_EMPTY_PATH}, s.kept})
}

// execution is the step that runs a program, without an environment.
func execution(number uintptr, path string, args []string) (step, error) {
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		return step{}, err
	}
	argv, err := syscall.SlicePtrFromStrings(args)
	if err != nil {
		return step{}, err
	}
	envp := []*byte{nil}
	return step{
		[7]uintptr{number, uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&envp[0]))},
		[]any{name, argv, envp},
	}, nil
}

// leaveDaemon leaves a process behind that nobody of the tree is a parent of.
func leaveDaemon(t Target) error {
	run, err := execution(unix.SYS_EXECVE, t.Plugin, []string{t.Plugin, WordStay, t.Words})
	if err != nil {
		return err
	}
	// It holds no pipe by which it could be noticed.
	before := steps([7]uintptr{unix.SYS_SETSID}, [7]uintptr{unix.SYS_CLONE, uintptr(unix.SIGCHLD)},
		[7]uintptr{unix.SYS_CLOSE, 0}, [7]uintptr{unix.SYS_CLOSE, 1}, [7]uintptr{unix.SYS_CLOSE, 2})
	return fork(0, append(before, run)...)
}

// Launcher is the word by which who would end a daemon is known.
const Launcher = "__launch"

// Stay is what a daemon does: it ends the reaper that adopted it, if it can, and stays.
func Stay() {
	<-time.After(100 * time.Millisecond) // until it was adopted
	parent := os.Getppid()
	if line, err := os.ReadFile("/proc/" + itoa(parent) + "/cmdline"); err == nil && bytes.Contains(line, []byte(Launcher)) {
		_ = unix.Kill(parent, unix.SIGKILL)
	}
	<-time.After(time.Minute)
}
