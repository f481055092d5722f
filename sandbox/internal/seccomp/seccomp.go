// Package seccomp makes the filters of system calls of the sandbox, and puts one on a thread (law 46).
//
// There are two. [Plugin] lists what is allowed, since what a plugin needs is known; [Command] lists what is refused, since
// a command may be anything. Both are tables of rules, by the number of the call, which compile assembles for the kernel: a
// binary search for the number, then the tests of its arguments.
//
// What both have in common:
//
//   - A call by the numbers of another architecture, or of x32 on amd64, kills the process: the tables say nothing of those.
//   - clone3 is answered with ENOSYS, for its flags are in memory where a filter cannot look. The C libraries and the Go
//     runtime then use clone, whose flags are looked at.
//   - So is a call that is newer than the tables: what is not known cannot be judged, and programs know how to do without it.
//   - Everything else that is refused fails with EPERM. No call is refused with success.
//   - io_uring, bpf, ptrace, keys and userfaultfd are never there.
//
// A filter sees numbers and not what pointers point to, so that it cannot tell one path from another: which files can be
// opened or run, and which sockets are there to connect to, is for the mounts, the network namespace and Landlock to say.
package seccomp

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Options are what a filter admits. The zero value is the narrowest.
type Options struct {
	// Exec admits new processes and the running of programs. Without it there are threads only.
	Exec bool
	// Network admits sockets for TCP, UDP and the kernel's table of interfaces and routes. Without it a socket is a unix
	// socket.
	Network bool
	// ExecFD is for a filter without Exec that is put on before its program is run: execveat is admitted, with AT_EMPTY_PATH,
	// for a descriptor that is not lower. It has to be above the hard RLIMIT_NOFILE, so that the program cannot get such
	// a descriptor itself. A call with an absolute path does not use its descriptor and passes, which is
	// why nothing that can be named may be executable where this is used: without Exec memfd_create is refused, and
	// Landlock and the mounts do the rest. 0 admits none.
	ExecFD int
}

// Plugin is the filter for plugins: what Go, CPython, Node.js and the C library need to compute, to use files and to speak
// over unix sockets, and nothing else. It holds no state and can be put on any number of threads. The error is for an
// architecture that has no filter; it is an [errors.ErrUnsupported].
func Plugin(o Options) ([]unix.SockFilter, error) {
	rules, err := pluginRules(o)
	if err != nil {
		return nil, err
	}
	return rules.compile()
}

// Command is the filter for commands: everything but what reaches out of a sandbox, changes the machine, or is rarely used
// and often broken in the kernel. Of o only Network counts, since a command may run programs. Otherwise it is as [Plugin].
func Command(o Options) ([]unix.SockFilter, error) {
	rules, err := commandRules(o)
	if err != nil {
		return nil, err
	}
	return rules.compile()
}

// Apply puts filter on the calling thread, for good: what the thread starts from then on, threads, processes and programs,
// has it too. Other threads do not get it. The caller has locked its goroutine to the thread and has set no_new_privs on it;
// without that Apply changes nothing and says so, even where the kernel would allow it. Filters add up, and the
// strictest answer holds.
func Apply(filter []unix.SockFilter) error {
	if len(filter) == 0 {
		return errors.New("the filter of system calls is empty")
	}
	privs, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil {
		return fmt.Errorf("ask for no_new_privs: %w", err)
	}
	if privs != 1 {
		return errors.New("no_new_privs is not set on this thread, set it before the filter of system calls")
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, number := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(filter)
	if number != 0 {
		return fmt.Errorf("put on the filter of system calls: %w", number)
	}
	return nil
}
