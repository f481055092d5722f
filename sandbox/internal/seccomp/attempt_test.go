//go:build amd64 || arm64

package seccomp

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An attempt is one system call whose arguments do no harm where it is not refused: the kernel finds them wrong, with
// another error than the filter's, or it does something that ends with the process.
type attempt struct {
	name    string
	call    uintptr
	args    [6]uintptr
	refused []filterName // by these; by the others it is allowed
	errno   unix.Errno   // 0 is EPERM
}

// bad is a pointer to nowhere, and a descriptor that is not open.
const bad = ^uintptr(0)

// Paths for the kernel: none, and one that is not there.
var (
	empty    = [1]byte{}
	absolute = [...]byte{'/', '-', 0}
)

func attempts() []attempt {
	var (
		all       = []filterName{plugin, pluginExec, pluginNetwork, command, commandNetwork}
		plugins   = all[:3]
		threads   = []filterName{plugin, pluginNetwork}
		noNetwork = []filterName{plugin, pluginExec, command}
		none      = []filterName{}
	)
	type args = [6]uintptr
	list := []attempt{
		// New namespaces, and mounts.
		{"unshare", unix.SYS_UNSHARE, args{unix.CLONE_NEWUSER}, all, 0},
		{"unshare the time", unix.SYS_UNSHARE, args{unix.CLONE_NEWTIME}, all, 0},
		{"unshare the working directory", unix.SYS_UNSHARE, args{unix.CLONE_FS}, plugins, 0},
		{"setns", unix.SYS_SETNS, args{bad}, all, 0},
		{"clone a namespace", unix.SYS_CLONE, args{unix.CLONE_NEWNS | unix.CLONE_FS | uintptr(unix.SIGCHLD)}, all, 0},
		{"clone a user namespace for a thread", unix.SYS_CLONE, args{unix.CLONE_NEWUSER | unix.CLONE_THREAD | unix.CLONE_SIGHAND | unix.CLONE_VM}, all, 0},
		{"clone3", unix.SYS_CLONE3, args{0, 0}, all, unix.ENOSYS},
		{"mount", unix.SYS_MOUNT, args{bad, bad, bad}, all, 0},
		{"umount2", unix.SYS_UMOUNT2, args{bad, bad}, all, 0},
		{"pivot_root", unix.SYS_PIVOT_ROOT, args{bad, bad}, all, 0},
		{"chroot", unix.SYS_CHROOT, args{bad}, all, 0},
		{"open_tree", unix.SYS_OPEN_TREE, args{bad, bad, bad}, all, 0},
		{"move_mount", unix.SYS_MOVE_MOUNT, args{bad, bad, bad, bad, bad}, all, 0},
		{"mount_setattr", unix.SYS_MOUNT_SETATTR, args{bad, bad, bad}, all, 0},
		{"fsopen", unix.SYS_FSOPEN, args{bad, 0}, all, 0},
		{"fsconfig", unix.SYS_FSCONFIG, args{bad, bad}, all, 0},
		{"fsmount", unix.SYS_FSMOUNT, args{bad, 0}, all, 0},
		{"fspick", unix.SYS_FSPICK, args{bad, bad, 0}, all, 0},
		{"name_to_handle_at", unix.SYS_NAME_TO_HANDLE_AT, args{bad, bad, bad, bad, bad}, all, 0},
		{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, args{bad, bad, 0}, all, 0},

		// Never.
		{"io_uring_setup", unix.SYS_IO_URING_SETUP, args{0, bad}, all, 0},
		{"io_uring_enter", unix.SYS_IO_URING_ENTER, args{bad, 0, 0, bad}, all, 0},
		{"io_uring_register", unix.SYS_IO_URING_REGISTER, args{bad, bad}, all, 0},
		{"bpf", unix.SYS_BPF, args{bad, bad, 8}, all, 0},
		{"perf_event_open", unix.SYS_PERF_EVENT_OPEN, args{bad}, all, 0},
		{"userfaultfd", unix.SYS_USERFAULTFD, args{1 << 30}, all, 0},
		{"add_key", unix.SYS_ADD_KEY, args{bad, bad, bad, 0, 0}, all, 0},
		{"request_key", unix.SYS_REQUEST_KEY, args{bad}, all, 0},
		{"keyctl", unix.SYS_KEYCTL, args{1 << 20}, all, 0},

		// Other processes.
		{"ptrace", unix.SYS_PTRACE, args{unix.PTRACE_ATTACH, 1 << 30}, all, 0},
		{"process_vm_readv", unix.SYS_PROCESS_VM_READV, args{1 << 30, 0, 0, 0, 0, 0}, all, 0},
		{"process_vm_writev", unix.SYS_PROCESS_VM_WRITEV, args{1 << 30, bad, 1, bad, 1, 0}, all, 0},
		{"pidfd_getfd", unix.SYS_PIDFD_GETFD, args{bad, 0, 0}, all, 0},
		{"kcmp", unix.SYS_KCMP, args{1 << 30, 1 << 30}, all, 0},
		{"prlimit64 of another", unix.SYS_PRLIMIT64, args{uintptr(os.Getppid()), bad, 0, 0}, all, 0},
		{"prlimit64", unix.SYS_PRLIMIT64, args{0, unix.RLIMIT_NOFILE, 0, 0}, none, 0},

		// The machine. What is set is nowhere to be read from, or not valid.
		{"kexec_load", unix.SYS_KEXEC_LOAD, args{0, 1 << 20, bad, bad}, all, 0},
		{"init_module", unix.SYS_INIT_MODULE, args{bad, 0, bad}, all, 0},
		{"finit_module", unix.SYS_FINIT_MODULE, args{bad, bad, bad}, all, 0},
		{"delete_module", unix.SYS_DELETE_MODULE, args{bad, 0}, all, 0},
		{"reboot", unix.SYS_REBOOT, args{0, 0, 0}, all, 0},
		{"swapon", unix.SYS_SWAPON, args{bad, bad}, all, 0},
		{"swapoff", unix.SYS_SWAPOFF, args{bad}, all, 0},
		{"acct", unix.SYS_ACCT, args{bad}, all, 0},
		{"quotactl", unix.SYS_QUOTACTL, args{bad, bad}, all, 0},
		{"nfsservctl", unix.SYS_NFSSERVCTL, args{bad, bad}, all, 0},
		{"syslog", unix.SYS_SYSLOG, args{100}, all, 0},
		{"sethostname", unix.SYS_SETHOSTNAME, args{bad, 1}, all, 0},
		{"setdomainname", unix.SYS_SETDOMAINNAME, args{bad, 1}, all, 0},
		{"clock_settime", unix.SYS_CLOCK_SETTIME, args{unix.CLOCK_REALTIME, bad}, all, 0},
		{"settimeofday", unix.SYS_SETTIMEOFDAY, args{bad, 0}, all, 0},
		{"adjtimex", unix.SYS_ADJTIMEX, args{bad}, all, 0},
		{"clock_adjtime", unix.SYS_CLOCK_ADJTIME, args{unix.CLOCK_REALTIME, bad}, all, 0},
		{"personality", unix.SYS_PERSONALITY, args{0x0400000}, all, 0},
		{"personality with an upper bit", unix.SYS_PERSONALITY, args{1<<32 | 0x0400000}, all, 0},
		{"personality asked", unix.SYS_PERSONALITY, args{0xffffffff}, none, 0},
		{"ioctl TIOCSTI", unix.SYS_IOCTL, args{bad, unix.TIOCSTI, bad}, all, 0},
		{"ioctl TIOCSTI with an upper bit", unix.SYS_IOCTL, args{bad, 1<<32 | unix.TIOCSTI, bad}, all, 0},
		{"ioctl TIOCLINUX", unix.SYS_IOCTL, args{bad, unix.TIOCLINUX, bad}, all, 0},
		{"ioctl TIOCSETD", unix.SYS_IOCTL, args{bad, unix.TIOCSETD, bad}, all, 0},
		{"ioctl TCGETS", unix.SYS_IOCTL, args{bad, unix.TCGETS, bad}, none, 0},
		{"ioctl of another kind", unix.SYS_IOCTL, args{bad, 0xabcd, bad}, plugins, 0},

		// Processes and programs.
		{"clone a process", unix.SYS_CLONE, args{unix.CLONE_SIGHAND | uintptr(unix.SIGCHLD)}, threads, 0},
		{"clone half a thread", unix.SYS_CLONE, args{unix.CLONE_THREAD | unix.CLONE_VM}, threads, 0},
		{"execve", unix.SYS_EXECVE, args{bad, bad, bad}, threads, 0},
		{"execveat of a lower descriptor", unix.SYS_EXECVEAT, args{execFD - 1, bad, 0, 0, unix.AT_EMPTY_PATH}, threads, 0},
		{"execveat of a path", unix.SYS_EXECVEAT, args{unixAtFdcwd, bad, 0, 0, 0}, threads, 0},
		{"execveat of the working directory", unix.SYS_EXECVEAT, args{unixAtFdcwd, bad, 0, 0, unix.AT_EMPTY_PATH}, threads, 0},
		{"execveat without AT_EMPTY_PATH", unix.SYS_EXECVEAT, args{execFD, bad, 0, 0, 0}, threads, 0},
		{"execveat of the launching descriptor", unix.SYS_EXECVEAT, args{execFD, uintptr(unsafe.Pointer(&empty)), 0, 0, unix.AT_EMPTY_PATH}, none, 0},
		// A filter cannot see that this is no empty path.
		{"execveat of a path beside the launching descriptor", unix.SYS_EXECVEAT, args{execFD, uintptr(unsafe.Pointer(&absolute)), 0, 0, unix.AT_EMPTY_PATH}, none, 0},
		{"memfd_create", unix.SYS_MEMFD_CREATE, args{bad, 0}, threads, 0},
		{"setsid", unix.SYS_SETSID, args{}, threads, 0},
		{"a parent-death signal of none", unix.SYS_PRCTL, args{unix.PR_SET_PDEATHSIG, 0}, plugins, 0},
		{"a parent-death signal of KILL", unix.SYS_PRCTL, args{unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL)}, none, 0},
		{"to be traced by any", unix.SYS_PRCTL, args{unix.PR_SET_PTRACER, bad}, plugins, 0},
		{"setuid", unix.SYS_SETRESUID, args{bad, bad, bad}, plugins, 0},
		{"mknodat of a pipe", unix.SYS_MKNODAT, args{bad, bad, unix.S_IFIFO, 0}, threads, 0},
		{"setxattr", unix.SYS_SETXATTR, args{bad, bad, bad, 0, 0}, threads, 0},
		{"mknodat of a device", unix.SYS_MKNODAT, args{bad, bad, unix.S_IFCHR, 0}, plugins, 0},
		{"a semaphore of the system", unix.SYS_SEMGET, args{0, bad, 0}, plugins, 0},
		{"a call that is not there", newest + 1, args{}, all, unix.ENOSYS},

		// Descriptors and sockets.
		{"socketpair", unix.SYS_SOCKETPAIR, args{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, 0, bad}, none, 0},
		{"socketpair of packets", unix.SYS_SOCKETPAIR, args{unix.AF_UNIX, unix.SOCK_SEQPACKET, 0, bad}, plugins, 0},
		{"socketpair of datagrams", unix.SYS_SOCKETPAIR, args{unix.AF_UNIX, unix.SOCK_DGRAM, 0, bad}, all, 0},
		{"setsockopt", unix.SYS_SETSOCKOPT, args{bad, unix.SOL_SOCKET, unix.SO_KEEPALIVE, bad, 4}, none, 0},
		{"setsockopt of a program", unix.SYS_SETSOCKOPT, args{bad, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, bad, 16}, plugins, 0},
		{"setsockopt of TCP", unix.SYS_SETSOCKOPT, args{bad, unix.IPPROTO_TCP, unix.TCP_NODELAY, bad, 4}, []filterName{plugin, pluginExec}, 0},
		{"setsockopt of netfilter", unix.SYS_SETSOCKOPT, args{bad, unix.SOL_RAW, 64, bad, 4}, plugins, 0},
	}
	for _, s := range []struct {
		name                   string
		family, kind, protocol uintptr
		refused                []filterName
	}{
		{"unix stream", unix.AF_UNIX, unix.SOCK_STREAM, 0, none},
		{"unix stream, not blocking", unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC, 0, none},
		{"unix packets", unix.AF_UNIX, unix.SOCK_SEQPACKET, 0, plugins},
		{"unix datagram", unix.AF_UNIX, unix.SOCK_DGRAM, 0, all},
		{"unix datagram with flags", unix.AF_UNIX, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC, 0, all},
		{"unix datagram by another name", unix.AF_UNIX, unix.SOCK_RAW, 0, all},
		{"tcp", unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, unix.IPPROTO_TCP, noNetwork},
		{"tcp by default", unix.AF_INET, unix.SOCK_STREAM, 0, noNetwork},
		{"tcp 6", unix.AF_INET6, unix.SOCK_STREAM, 0, noNetwork},
		{"udp", unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDP, noNetwork},
		{"udp by default", unix.AF_INET, unix.SOCK_DGRAM | unix.SOCK_NONBLOCK, 0, noNetwork},
		{"udp 6", unix.AF_INET6, unix.SOCK_DGRAM, 0, noNetwork},
		{"mptcp", unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP, all},
		{"mptcp 6", unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_MPTCP, all},
		{"sctp", unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP, all},
		{"ping", unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP, all},
		{"raw", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_TCP, all},
		{"packet", unix.AF_PACKET, unix.SOCK_DGRAM, 0, all},
		{"vsock", unix.AF_VSOCK, unix.SOCK_STREAM, 0, all},
		{"alg", unix.AF_ALG, unix.SOCK_SEQPACKET, 0, all},
		{"routes", unix.AF_NETLINK, unix.SOCK_RAW | unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE, noNetwork},
		{"netfilter", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER, all},
		{"generic netlink", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC, all},
	} {
		list = append(list, attempt{"socket: " + s.name, unix.SYS_SOCKET, args{s.family, s.kind, s.protocol}, s.refused, 0})
	}
	return append(list, oldAttempts(all)...)
}

// unixAtFdcwd is unix.AT_FDCWD as an argument.
const unixAtFdcwd = ^uintptr(99)

// attemptAll makes every attempt under the filter and prints what came of each.
func attemptAll(args []string) int {
	list := attempts()
	if err := confine(filterName(args[0])); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, a := range list {
		_, _, number := unix.RawSyscall6(a.call, a.args[0], a.args[1], a.args[2], a.args[3], a.args[4], a.args[5])
		fmt.Printf("%s: %d\n", a.name, int(number))
	}
	return 0
}

// outcomes are the errors that a user gets under a filter.
func outcomes(t *testing.T, u user, n filterName) map[string]unix.Errno {
	t.Helper()
	got := map[string]unix.Errno{}
	for line := range strings.Lines(output(t, u.child(t, "__attempt", string(n)))) {
		cut := strings.LastIndex(line, ": ")
		got[line[:cut]] = unix.Errno(atoi(strings.TrimSpace(line[cut+2:])))
	}
	return got
}

// Every attempt is refused by the filters that are to, and comes to the same as without one by the others. Seen
// to fail with the upper half of an argument tested, with an ExecFD that negative descriptors pass, without the test of
// AT_EMPTY_PATH, with the flags of a socket's type compared, with io_uring left out of the commands' table and bpf added to the
// plugins'.
func TestLaw46Attempts(t *testing.T) {
	for _, u := range users() {
		free := outcomes(t, u, off)
		for _, n := range []filterName{plugin, pluginExec, pluginNetwork, command, commandNetwork} {
			t.Run(u.name+"/"+string(n), func(t *testing.T) {
				got := outcomes(t, u, n)
				for _, a := range attempts() {
					errno, ok := got[a.name]
					if !ok {
						t.Errorf("%s: not attempted", a.name)
						continue
					}
					if !slices.Contains(a.refused, n) {
						if errno != free[a.name] {
							t.Errorf("%s: %v, want %v as without a filter", a.name, errno, free[a.name])
						}
						continue
					}
					want := a.errno
					if want == 0 {
						want = unix.EPERM
					}
					if errno != want {
						t.Errorf("%s: %v, want %v", a.name, errno, want)
					}
					// An ordinary user is refused by the kernel as well.
					if u.name == "root" && free[a.name] == want && !errors.Is(want, unix.ENOSYS) {
						t.Errorf("%s: %v without a filter too, the attempt proves nothing", a.name, want)
					}
				}
			})
		}
	}
}
