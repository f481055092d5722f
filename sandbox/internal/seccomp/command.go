//go:build amd64 || arm64

package seccomp

import (
	"slices"

	"golang.org/x/sys/unix"
)

// commandRules is what a command may not do, everything else is allowed.
func commandRules(o Options) (table, error) {
	t := table{rules: map[uint32]rule{}, otherwise: allow}
	t.set(refuse(unix.EPERM), slices.Concat(neverCalls(), mounts(), handles(), others(), machine(), oldDangers())...)
	t.set(refuse(unix.ENOSYS), unix.SYS_CLONE3)
	t.rules[unix.SYS_CLONE] = onlyIf([]test{none(namespaces)})
	// It has a flag more than clone: the time namespace is where clone has the signal.
	t.rules[unix.SYS_UNSHARE] = onlyIf([]test{none(namespaces | unix.CLONE_NEWTIME)})
	t.rules[unix.SYS_SOCKET] = onlyIf(sockets(o.Network, unix.SOCK_STREAM, unix.SOCK_SEQPACKET)...)
	t.rules[unix.SYS_SOCKETPAIR] = onlyIf(unixSockets(unix.SOCK_STREAM, unix.SOCK_SEQPACKET)...)
	t.rules[unix.SYS_PRLIMIT64] = onlyIf(values(0, 0)...)
	// Linux, Linux that says it has 32 bits, and asking. Others make memory executable, or map the first page.
	t.rules[unix.SYS_PERSONALITY] = onlyIf(values(0, 0, 8, 0xffffffff)...)
	t.refuseModes(unix.S_ISUID) // directories of shared repositories have the other one
	t.refuseLeases()
	// To type into a terminal, to use the console, and to load a line discipline.
	t.rules[unix.SYS_IOCTL] = rule{otherwise: allow}
	for _, request := range []uint32{unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCCONS, unix.TIOCSETD} {
		t.refuseIf(unix.SYS_IOCTL, is(1, request))
	}
	return t, nil
}

// neverCalls are a way around other rules, or a large part of the kernel that a command can do without.
func neverCalls() []uint32 {
	return []uint32{
		// Files and sockets without the calls that a filter sees.
		unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
		// Keys are not in a namespace.
		unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
		unix.SYS_FANOTIFY_INIT, unix.SYS_LSM_SET_SELF_ATTR,
	}
}

// mounts are what a command sees of the files, and stay as they are.
func mounts() []uint32 {
	return []uint32{
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_SETNS,
		unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR,
		unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
	}
}

// handles name a file without a path to it.
func handles() []uint32 {
	return []uint32{unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_LOOKUP_DCOOKIE}
}

// others reach into another process.
func others() []uint32 {
	return []uint32{
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE,
		unix.SYS_PROCESS_MRELEASE, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP, unix.SYS_MOVE_PAGES, unix.SYS_MIGRATE_PAGES,
	}
}

// machine is the machine's and not the sandbox's.
func machine() []uint32 {
	return []uint32{
		unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
		unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
		unix.SYS_NFSSERVCTL, unix.SYS_SYSLOG, unix.SYS_VHANGUP, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
		unix.SYS_CLOCK_SETTIME, unix.SYS_SETTIMEOFDAY, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME,
	}
}
