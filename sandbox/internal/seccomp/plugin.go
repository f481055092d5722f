//go:build amd64 || arm64

package seccomp

import (
	"slices"

	"golang.org/x/sys/unix"
)

// newest is the last call that the tables were written with. The numbers of new calls are the same on all architectures.
const newest = unix.SYS_RSEQ_SLICE_YIELD

// namespaces are the flags of clone that make one.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID | unix.CLONE_NEWNET

// Requests of ioctl for any descriptor, which x/sys does not have.
const (
	fionclex = 0x5450
	fioclex  = 0x5451
	fionbio  = 0x5421
)

// pluginRules is what a plugin may do, everything else is refused.
func pluginRules(o Options) (table, error) {
	t := table{rules: map[uint32]rule{}, otherwise: refuse(unix.EPERM)}
	t.set(allow, slices.Concat(memory(), threads(), signals(), clocks(), identity(), files(), descriptors(), connections(), oldFiles(), oldWaits())...)
	t.refuseModes(unix.S_ISUID, unix.S_ISGID)
	t.refuseLeases()
	t.setMemory(o)
	t.setProcesses(o)
	t.setSockets(o.Network)

	// Only itself, which is 0 and not its own number: the number of another process cannot be told from it.
	t.rules[unix.SYS_PRLIMIT64] = onlyIf(values(0, 0)...)
	// Asking is all.
	t.rules[unix.SYS_PERSONALITY] = onlyIf(values(0, 0xffffffff)...)
	t.rules[unix.SYS_PRCTL] = onlyIf(append(values(0,
		unix.PR_SET_NAME, unix.PR_GET_NAME, unix.PR_SET_VMA, unix.PR_GET_DUMPABLE, unix.PR_GET_PDEATHSIG,
		unix.PR_SET_NO_NEW_PRIVS, unix.PR_GET_NO_NEW_PRIVS, unix.PR_CAPBSET_READ, unix.PR_SET_TIMERSLACK, unix.PR_GET_TIMERSLACK,
		unix.PR_SVE_GET_VL, unix.PR_SME_GET_VL, unix.PR_GET_TAGGED_ADDR_CTRL, unix.PR_PAC_RESET_KEYS),
		// It ends with its parent, and cannot undo that.
		[]test{is(0, unix.PR_SET_PDEATHSIG), is(1, uint32(unix.SIGKILL))},
	)...)
	// What a terminal, a pipe or any descriptor is asked before it is used. There is no terminal in a sandbox, and no device
	// that would know more.
	t.rules[unix.SYS_IOCTL] = onlyIf(values(1,
		unix.TCGETS, unix.TCGETS2, unix.TIOCGWINSZ, unix.TIOCGPGRP, unix.TIOCINQ, fionbio, fioclex, fionclex)...)
	return t, nil
}

// setMemory refuses memory that no limit of a process counts: what is to be shared, though there is nobody to share it with,
// and what grows downwards, as a stack.
func (t table) setMemory(o Options) {
	t.refuseIf(unix.SYS_MMAP, masked(3, unix.MAP_GROWSDOWN, unix.MAP_GROWSDOWN))
	if !o.Exec {
		const shared = unix.MAP_SHARED | unix.MAP_ANONYMOUS // MAP_SHARED_VALIDATE has the bit of MAP_SHARED, too
		t.refuseIf(unix.SYS_MMAP, masked(3, shared, shared))
	}
}

// setProcesses tells threads from processes.
func (t table) setProcesses(o Options) {
	t.set(refuse(unix.ENOSYS), unix.SYS_CLONE3)
	if o.Exec {
		t.rules[unix.SYS_CLONE] = onlyIf([]test{none(namespaces)})
		t.set(allow, oldForks()...)
		t.set(allow, programs()...)
		// A pipe with a name, which scripts and make use. Devices are made by nobody.
		t.rules[unix.SYS_MKNODAT] = onlyIf([]test{masked(2, unix.S_IFMT, unix.S_IFIFO)})
		return
	}
	// A thread shares all of this with its process. What Go and the C libraries add does not matter, and the lowest byte, the
	// signal at its end, is not sent for a thread.
	const thread = unix.CLONE_VM | unix.CLONE_SIGHAND | unix.CLONE_THREAD
	const added = unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SYSVSEM | unix.CLONE_SETTLS | unix.CLONE_PARENT_SETTID |
		unix.CLONE_CHILD_SETTID | unix.CLONE_CHILD_CLEARTID | unix.CLONE_DETACHED | unix.CSIGNAL
	t.rules[unix.SYS_CLONE] = onlyIf([]test{masked(0, ^uint32(added), thread)})
	if o.ExecFD > 0 {
		// A negative descriptor is the working directory, or none.
		t.rules[unix.SYS_EXECVEAT] = onlyIf([]test{
			atLeast(0, uint32(o.ExecFD)), none(1 << 31), is(4, unix.AT_EMPTY_PATH),
		})
	}
}

// setSockets says which sockets there are. The type of one carries flags in its upper bits.
func (t table) setSockets(network bool) {
	t.rules[unix.SYS_SOCKET] = onlyIf(sockets(network, unix.SOCK_STREAM)...)
	t.rules[unix.SYS_SOCKETPAIR] = onlyIf(unixSockets(unix.SOCK_STREAM)...)
	// A socket is not given a program: a filter of packets is one. Nor is it made to linger: whoever it is passed to closes it,
	// and would wait.
	levels := []uint32{unix.SOL_SOCKET}
	if network {
		levels = append(levels, unix.IPPROTO_IP, unix.IPPROTO_IPV6, unix.IPPROTO_TCP, unix.IPPROTO_UDP)
	}
	r := onlyIf(values(1, levels...)...)
	var programs []branch
	for _, option := range []uint32{unix.SO_LINGER, unix.SO_ATTACH_FILTER, unix.SO_ATTACH_BPF, unix.SO_ATTACH_REUSEPORT_CBPF, unix.SO_ATTACH_REUSEPORT_EBPF} {
		programs = append(programs, branch{[]test{is(1, unix.SOL_SOCKET), is(2, option)}, refuse(unix.EPERM)})
	}
	r.branches = append(programs, r.branches...)
	t.rules[unix.SYS_SETSOCKOPT] = r
}

// socketType is the type without the flags.
const socketType = ^uint32(unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK)

// unixSockets connect to a name before they send. One of datagrams sends to any name at any time, and no test
// of an argument could tell.
func unixSockets(types ...uint32) (either [][]test) {
	for _, kind := range types {
		either = append(either, []test{is(0, unix.AF_UNIX), masked(1, socketType, kind)})
	}
	return either
}

// sockets are unix sockets, and with the network what a program needs to use it: neither raw ones, nor MPTCP, which is TCP
// that Landlock does not see.
func sockets(network bool, types ...uint32) [][]test {
	either := unixSockets(types...)
	if !network {
		return either
	}
	for _, family := range []uint32{unix.AF_INET, unix.AF_INET6} {
		for _, protocol := range []uint32{unix.IPPROTO_IP, unix.IPPROTO_TCP} {
			either = append(either, []test{is(0, family), masked(1, socketType, unix.SOCK_STREAM), is(2, protocol)})
		}
		for _, protocol := range []uint32{unix.IPPROTO_IP, unix.IPPROTO_UDP} {
			either = append(either, []test{is(0, family), masked(1, socketType, unix.SOCK_DGRAM), is(2, protocol)})
		}
	}
	// Which interfaces and addresses there are: Go's net.Interfaces, and the C library whenever it resolves a name.
	for _, kind := range []uint32{unix.SOCK_RAW, unix.SOCK_DGRAM} {
		either = append(either, []test{is(0, unix.AF_NETLINK), masked(1, socketType, kind), is(2, unix.NETLINK_ROUTE)})
	}
	return either
}

// memory is its own, executable as well: a compiler that runs what it makes is as good as the program it is in. What is
// allocated elsewhere, such as a memfd, is not here: it could be run as a program.
func memory() []uint32 {
	return []uint32{
		unix.SYS_BRK, unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MREMAP, unix.SYS_MPROTECT, unix.SYS_MADVISE, unix.SYS_MSYNC,
		unix.SYS_MINCORE, unix.SYS_MLOCK, unix.SYS_MLOCK2, unix.SYS_MUNLOCK, unix.SYS_MEMBARRIER, unix.SYS_MSEAL,
		unix.SYS_PKEY_ALLOC, unix.SYS_PKEY_FREE, unix.SYS_PKEY_MPROTECT,
	}
}

func threads() []uint32 {
	return []uint32{
		unix.SYS_FUTEX, unix.SYS_FUTEX_WAITV, unix.SYS_FUTEX_WAIT, unix.SYS_FUTEX_WAKE, unix.SYS_FUTEX_REQUEUE,
		unix.SYS_SET_ROBUST_LIST, unix.SYS_GET_ROBUST_LIST, unix.SYS_SET_TID_ADDRESS, unix.SYS_RSEQ, unix.SYS_RSEQ_SLICE_YIELD,
		unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_GETPARAM,
		unix.SYS_SCHED_GETSCHEDULER, unix.SYS_SCHED_GET_PRIORITY_MAX, unix.SYS_SCHED_GET_PRIORITY_MIN,
		unix.SYS_GETPRIORITY, unix.SYS_SETPRIORITY, unix.SYS_GETCPU, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
	}
}

// programs are what it takes to run those of the system: cp keeps attributes, and a shell makes groups.
func programs() []uint32 {
	return []uint32{
		unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_SETSID, unix.SYS_SETPGID, unix.SYS_MEMFD_CREATE,
		unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR,
		unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR,
	}
}

// signals reach what the pid namespace has, which is the plugin and what it started.
func signals() []uint32 {
	return []uint32{
		unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_RT_SIGPENDING, unix.SYS_RT_SIGSUSPEND,
		unix.SYS_RT_SIGTIMEDWAIT, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_SIGALTSTACK, unix.SYS_SIGNALFD4,
		unix.SYS_RESTART_SYSCALL, unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_TGKILL, unix.SYS_WAIT4, unix.SYS_WAITID,
		unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_SEND_SIGNAL,
	}
}

// clocks are read and waited for. None is set.
func clocks() []uint32 {
	return []uint32{
		unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_GETRES, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_NANOSLEEP, unix.SYS_GETTIMEOFDAY,
		unix.SYS_TIMES, unix.SYS_GETITIMER, unix.SYS_SETITIMER, unix.SYS_TIMER_CREATE, unix.SYS_TIMER_SETTIME,
		unix.SYS_TIMER_GETTIME, unix.SYS_TIMER_GETOVERRUN, unix.SYS_TIMER_DELETE, unix.SYS_TIMERFD_CREATE,
		unix.SYS_TIMERFD_SETTIME, unix.SYS_TIMERFD_GETTIME,
	}
}

// identity is asked for and not changed.
func identity() []uint32 {
	return []uint32{
		unix.SYS_GETPID, unix.SYS_GETPPID, unix.SYS_GETTID, unix.SYS_GETPGID, unix.SYS_GETSID, unix.SYS_GETUID, unix.SYS_GETEUID,
		unix.SYS_GETRESUID, unix.SYS_GETGID, unix.SYS_GETEGID, unix.SYS_GETRESGID, unix.SYS_GETGROUPS, unix.SYS_CAPGET,
		unix.SYS_GETRLIMIT, unix.SYS_SETRLIMIT, unix.SYS_GETRUSAGE, unix.SYS_SYSINFO, unix.SYS_UNAME, unix.SYS_GETRANDOM,
	}
}

// files are named here. Which ones there are and may be opened is decided elsewhere; devices, handles and mounts are not files.
func files() []uint32 {
	return []uint32{
		unix.SYS_OPENAT, unix.SYS_NEWFSTATAT, unix.SYS_STATX, unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2,
		unix.SYS_READLINKAT, unix.SYS_GETDENTS64, unix.SYS_GETCWD, unix.SYS_CHDIR, unix.SYS_FCHDIR, unix.SYS_STATFS, unix.SYS_UMASK,
		unix.SYS_MKDIRAT, unix.SYS_UNLINKAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_LINKAT, unix.SYS_SYMLINKAT,
		unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT, unix.SYS_TRUNCATE,
		unix.SYS_GETXATTR, unix.SYS_LGETXATTR, unix.SYS_LISTXATTR, unix.SYS_LLISTXATTR,
		unix.SYS_INOTIFY_INIT1, unix.SYS_INOTIFY_ADD_WATCH, unix.SYS_INOTIFY_RM_WATCH,
	}
}

// descriptors are what is open.
func descriptors() []uint32 {
	return []uint32{
		unix.SYS_READ, unix.SYS_READV, unix.SYS_PREAD64, unix.SYS_PREADV, unix.SYS_PREADV2, unix.SYS_WRITE, unix.SYS_WRITEV,
		unix.SYS_PWRITE64, unix.SYS_PWRITEV, unix.SYS_PWRITEV2, unix.SYS_LSEEK, unix.SYS_CLOSE, unix.SYS_CLOSE_RANGE,
		unix.SYS_DUP, unix.SYS_DUP3, unix.SYS_FCNTL, unix.SYS_FLOCK, unix.SYS_FSTAT, unix.SYS_FSTATFS, unix.SYS_FCHMOD, unix.SYS_FCHOWN,
		unix.SYS_FTRUNCATE, unix.SYS_FALLOCATE, unix.SYS_FADVISE64, unix.SYS_READAHEAD, unix.SYS_CACHESTAT,
		unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_SYNC_FILE_RANGE, unix.SYS_FGETXATTR, unix.SYS_FLISTXATTR,
		unix.SYS_SENDFILE, unix.SYS_SPLICE, unix.SYS_COPY_FILE_RANGE, unix.SYS_PIPE2, unix.SYS_EVENTFD2,
		unix.SYS_PPOLL, unix.SYS_PSELECT6, unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_PWAIT2,
	}
}

// connections are over the sockets that there are.
func connections() []uint32 {
	return []uint32{
		unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_CONNECT, unix.SYS_SHUTDOWN,
		unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME, unix.SYS_GETSOCKOPT, unix.SYS_SENDTO, unix.SYS_SENDMSG, unix.SYS_SENDMMSG,
		unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_RECVMMSG,
	}
}
