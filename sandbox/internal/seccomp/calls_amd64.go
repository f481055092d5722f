package seccomp

import "golang.org/x/sys/unix"

const (
	native = unix.AUDIT_ARCH_X86_64
	// foreign is the first number of x32, which has this architecture and numbers of its own.
	foreign = 1 << 30
)

// oldFiles are what the C library used for files, and some programs still do.
func oldFiles() []uint32 {
	return []uint32{
		unix.SYS_OPEN, unix.SYS_CREAT, unix.SYS_STAT, unix.SYS_LSTAT, unix.SYS_ACCESS, unix.SYS_READLINK, unix.SYS_GETDENTS,
		unix.SYS_RENAME, unix.SYS_MKDIR, unix.SYS_RMDIR, unix.SYS_LINK, unix.SYS_UNLINK, unix.SYS_SYMLINK,
		unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT,
	}
}

// oldWaits are the other calls that have a successor.
func oldWaits() []uint32 {
	return []uint32{
		unix.SYS_PIPE, unix.SYS_DUP2, unix.SYS_POLL, unix.SYS_SELECT, unix.SYS_EPOLL_CREATE, unix.SYS_EPOLL_WAIT,
		unix.SYS_EVENTFD, unix.SYS_SIGNALFD, unix.SYS_INOTIFY_INIT, unix.SYS_PAUSE, unix.SYS_ALARM, unix.SYS_TIME,
		unix.SYS_GETPGRP,
		// The base of thread-local storage, and other registers of the calling thread.
		unix.SYS_ARCH_PRCTL,
	}
}

// oldModes give a file its mode.
func oldModes() []moded {
	return []moded{
		{call: unix.SYS_CHMOD, mode: 1}, {call: unix.SYS_CREAT, mode: 1}, {call: unix.SYS_MKNOD, mode: 1},
		{call: unix.SYS_OPEN, mode: 2, flags: 1},
	}
}

// oldForks make processes.
func oldForks() []uint32 { return []uint32{unix.SYS_FORK, unix.SYS_VFORK} }

// oldDangers are what only this architecture has to be refused.
func oldDangers() []uint32 {
	return []uint32{
		// Ports of the machine, and segments of 16 bits.
		unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT,
		// Gone from the kernel, or as good as.
		unix.SYS_CREATE_MODULE, unix.SYS_QUERY_MODULE, unix.SYS_GET_KERNEL_SYMS, unix.SYS__SYSCTL, unix.SYS_USELIB,
	}
}
