package hostile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// processes are attacks on the host and on other processes.
func processes() []Attack {
	const traced = "that a process may trace another of its user (kernel.yama.ptrace_scope)"
	of := func(t Target, name string) string { return fmt.Sprintf("/proc/%d/%s", t.Host, name) }
	return []Attack{
		{Name: "signal the host", try: func(t Target) error { return unix.Kill(t.Host, unix.SIGURG) }},
		{Name: "signal the host by a descriptor", try: func(t Target) error {
			fd, err := unix.PidfdOpen(t.Host, 0)
			if err != nil {
				return err
			}
			return errors.Join(unix.PidfdSendSignal(fd, unix.SIGURG, nil, 0), unix.Close(fd))
		}},
		{Name: "trace the host", May: traced, try: func(t Target) error {
			_, err := call(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(t.Host), 0, 0) // it ends with this thread
			return err
		}},
		{Name: "read the memory of the host", May: traced, try: func(t Target) error {
			return same(t, func(to []byte) (int, error) {
				local, remote := unix.Iovec{Base: &to[0]}, unix.RemoteIovec{Base: uintptr(t.Address), Len: len(to)}
				local.SetLen(len(to))
				return unix.ProcessVMReadv(t.Host, []unix.Iovec{local}, []unix.RemoteIovec{remote}, 0)
			})
		}},
		{Name: "take an open file of the host", May: traced, try: func(t Target) error {
			process, err := unix.PidfdOpen(t.Host, 0)
			if err != nil {
				process = 0 // the call itself is what is asked for
			}
			fd, err := unix.PidfdGetfd(process, t.Descriptor, 0)
			if err != nil {
				return err
			}
			return errors.Join(unix.Close(fd), unix.Close(process))
		}},
		{Name: "read /proc of the host: environ", try: func(t Target) error {
			content, err := os.ReadFile(of(t, "environ"))
			if err == nil && !bytes.Contains(content, []byte(t.Words)) {
				return unix.ENODATA
			}
			return err
		}},
		{Name: "read /proc of the host: mem", May: traced, try: func(t Target) error {
			file, err := os.Open(of(t, "mem"))
			if err != nil {
				return err
			}
			defer file.Close()
			return same(t, func(to []byte) (int, error) { return file.ReadAt(to, int64(t.Address)) }) //nolint:gosec // an address of the user's half
		}},
		{Name: "read /proc of the host: cwd", try: func(t Target) error { _, err := os.ReadDir(of(t, "cwd")); return err }},
		{Name: "read /proc of the host: root", try: func(t Target) error { return read(of(t, "root") + t.Secret) }},
		{Name: "read /proc of the host: fd", try: func(t Target) error { _, err := os.ReadDir(of(t, "fd")); return err }},
		{Name: "see that the host is there", try: func(t Target) error { _, err := os.Stat(of(t, "status")); return err }},
		{Name: "open the memory of the first process", Root: true, May: "a root that may", try: func(Target) error { return peek("/proc/1/mem") }},
		{Name: "change a limit of the host", try: func(t Target) error {
			var old unix.Rlimit
			if err := unix.Prlimit(t.Host, unix.RLIMIT_CORE, nil, &old); err != nil {
				return err
			}
			return unix.Prlimit(t.Host, unix.RLIMIT_CORE, &old, nil)
		}},
		{Name: "change the priority of the host", try: func(t Target) error { return unix.Setpriority(unix.PRIO_PROCESS, t.Host, 0) }},
		{Name: "map shared memory of the host", try: func(t Target) error {
			at, err := call(unix.SYS_SHMAT, uintptr(t.Segment), 0, unix.SHM_RDONLY)
			if err != nil {
				return err
			}
			_, err = call(unix.SYS_SHMDT, at)
			return err
		}},
		{Name: "become another user", Root: true, try: func(Target) error {
			return apart(step{call: [7]uintptr{unix.SYS_SETRESUID, 1, 1, 1}})
		}},
		{Name: "raise a limit of its own", Root: true, May: "a root that may (CAP_SYS_RESOURCE)", try: func(Target) error {
			var own unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_MSGQUEUE, &own); err != nil {
				return err
			}
			return unix.Setrlimit(unix.RLIMIT_MSGQUEUE, &unix.Rlimit{Cur: own.Cur, Max: own.Max + 1})
		}},
	}
}

// peek opens a file to read, and reads nothing.
func peek(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return file.Close()
}

// same says whether what was read are the words of the target.
func same(t Target, get func([]byte) (int, error)) error {
	got := make([]byte, len(t.Words))
	if _, err := get(got); err != nil {
		return err
	}
	if string(got) != t.Words {
		return unix.ENODATA
	}
	return nil
}

// cloneArgs is as in linux/sched.h.
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls uint64
}

// fork3 makes a process by clone3, which ends at once; see forkTo.
//
//go:nosplit
//go:norace
func fork3(args *cloneArgs) (uintptr, syscall.Errno) {
	pid, _, err := syscall.RawSyscall6(unix.SYS_CLONE3, uintptr(unsafe.Pointer(args)), unsafe.Sizeof(*args), 0, 0, 0, 0)
	if err != 0 || pid != 0 {
		return pid, err
	}
	for {
		_, _, _ = syscall.RawSyscall6(unix.SYS_EXIT_GROUP, 0, 0, 0, 0, 0, 0)
	}
}

// kernel are attacks on what the kernel has for few programs, by which a process gets out, or gets at the kernel itself.
func kernel() []Attack {
	return []Attack{
		{Name: "a user namespace of its own, by clone", May: "user namespaces", try: func(Target) error { return fork(unix.CLONE_NEWUSER) }},
		{Name: "a user namespace of its own, by clone3", May: "user namespaces", try: func(Target) error {
			args := cloneArgs{flags: unix.CLONE_NEWUSER, exitSignal: uint64(unix.SIGCHLD)}
			pid, err := fork3(&args)
			if err != 0 {
				return err
			}
			return waitFor(int(pid))
		}},
		{Name: "a user namespace of its own, by unshare", May: "user namespaces", try: func(Target) error {
			return apart(step{call: [7]uintptr{unix.SYS_UNSHARE, unix.CLONE_NEWUSER}})
		}},
		{Name: "a mount namespace of its own", Root: true, try: func(Target) error {
			_, err := call(unix.SYS_UNSHARE, unix.CLONE_NEWNS)
			return err
		}},
		{Name: "the namespaces of the host", Root: true, try: func(t Target) error {
			fd, err := unix.PidfdOpen(t.Host, 0)
			if err != nil {
				fd = 0 // the call itself is what is asked for
			}
			_, err = call(unix.SYS_SETNS, uintptr(fd), unix.CLONE_NEWNET)
			return err
		}},
		{Name: "mount", Root: true, try: func(t Target) error {
			if err := unix.Mount("none", t.Writable, "tmpfs", 0, "size=4096"); err != nil {
				return err
			}
			return unix.Unmount(t.Writable, unix.MNT_DETACH)
		}},
		{Name: "copy a mount", Root: true, try: func(t Target) error {
			fd, err := unix.OpenTree(unix.AT_FDCWD, t.Writable, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
			if err != nil {
				return err
			}
			return unix.Close(fd)
		}},
		{Name: "chroot", Root: true, try: func(t Target) error {
			path, err := unix.BytePtrFromString(t.Writable)
			if err != nil {
				return err
			}
			return apart(step{[7]uintptr{unix.SYS_CHROOT, uintptr(unsafe.Pointer(path))}, path})
		}},
		{Name: "io_uring", May: "io_uring (kernel.io_uring_disabled)", try: func(Target) error {
			var params [120]byte
			return descriptor(call(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params))))
		}},
		{Name: "bpf", May: "bpf (kernel.unprivileged_bpf_disabled)", try: func(Target) error {
			attr := struct{ kind, key, value, entries uint32 }{2, 4, 4, 1} // an array
			return descriptor(call(unix.SYS_BPF, unix.BPF_MAP_CREATE, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr)))
		}},
		{Name: "the keys of the session", May: "keys", try: func(Target) error {
			_, err := call(unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, ^uintptr(2), 1) // -3, the session
			return err
		}},
		{Name: "userfaultfd", May: "userfaultfd", try: func(Target) error {
			const userModeOnly = 1
			return descriptor(call(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|userModeOnly))
		}},
		{Name: "perf_event_open", May: "perf (kernel.perf_event_paranoid)", try: func(Target) error {
			attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv}
			attr.Size = uint32(unsafe.Sizeof(attr))
			fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
			return descriptor(uintptr(fd), err) //nolint:gosec // it is one, if there was no error
		}},
		{Name: "fanotify", May: "fanotify", Root: true, try: func(Target) error {
			return descriptor(call(unix.SYS_FANOTIFY_INIT, unix.FAN_CLASS_NOTIF|unix.FAN_CLOEXEC, unix.O_RDONLY))
		}},
		{Name: "the log of the kernel", Root: true, try: func(Target) error {
			buffer := make([]byte, 64)
			const readAll = 3
			_, err := call(unix.SYS_SYSLOG, readAll, uintptr(unsafe.Pointer(&buffer[0])), uintptr(len(buffer)))
			return err
		}},
		{Name: "the name of the machine", Root: true, try: func(Target) error {
			var names unix.Utsname
			if err := unix.Uname(&names); err != nil {
				return err
			}
			return unix.Sethostname(bytes.TrimRight(names.Nodename[:], "\x00"))
		}},
		{Name: "type into a terminal (TIOCSTI)", Root: true, May: "it, by dev.tty.legacy_tiocsti", try: typeInto},
	}
}

// descriptor closes what was opened.
func descriptor(fd uintptr, err error) error {
	if err != nil {
		return err
	}
	return unix.Close(int(fd)) //nolint:gosec // it is one
}

// typeInto types into a terminal of its own, or into what it has for one.
func typeInto(Target) error {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		fd = 0 // the call itself is what is asked for
	} else {
		defer unix.Close(fd) //nolint:errcheck // nothing is kept
	}
	character := byte('x')
	_, err = call(unix.SYS_IOCTL, uintptr(fd), unix.TIOCSTI, uintptr(unsafe.Pointer(&character)))
	return err
}
