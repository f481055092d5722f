package beneath

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"
)

// The functions of this file change what is in an open directory. Names have no
// slash, and none is followed: each function is about the name itself.

// Temp makes a file without a name, on the filesystem of the directory dir, readable
// and writable. Where that is not possible the error is one of [NoTemp]. The mode is
// subject to the umask.
func Temp(dir int, mode uint32) (fd int, err error) {
	for {
		fd, err := unix.Openat(dir, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, mode)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// NoTemp says whether an error of [Temp] is that a filesystem has no files without a
// name.
func NoTemp(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EINVAL)
}

// Create makes a file that was not there, readable and writable: EEXIST if the name
// is taken, be it by a link.
func Create(dir int, name string, mode uint32) (fd int, err error) {
	for {
		fd, err := unix.Openat(dir, name, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// Link gives a file of [Temp] a name: EEXIST if it is taken.
func Link(fd, dir int, name string) error {
	err := retry(func() error {
		return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), dir, name, unix.AT_SYMLINK_FOLLOW)
	})
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	// There is no /proc; this needs more rights on older kernels.
	return retry(func() error { return unix.Linkat(fd, "", dir, name, unix.AT_EMPTY_PATH) })
}

// Exchange swaps what two names in one directory stand for. EINVAL is that the
// filesystem cannot.
func Exchange(dir int, one, other string) error {
	return retry(func() error { return unix.Renameat2(dir, one, dir, other, unix.RENAME_EXCHANGE) })
}

// Move gives a name to what had another one: EEXIST if it is taken. EINVAL is that
// the filesystem cannot promise that.
func Move(fromDir int, from string, toDir int, to string) error {
	return retry(func() error { return unix.Renameat2(fromDir, from, toDir, to, unix.RENAME_NOREPLACE) })
}

// Replace gives a name to what had another one in the same directory, whatever it
// stood for.
func Replace(dir int, from, to string) error {
	return retry(func() error { return unix.Renameat(dir, from, dir, to) })
}

// Unlink removes a name that is no directory.
func Unlink(dir int, name string) error {
	return retry(func() error { return unix.Unlinkat(dir, name, 0) })
}

// Rmdir removes an empty directory.
func Rmdir(dir int, name string) error {
	return retry(func() error { return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) })
}

// Mkdir makes a directory: EEXIST if the name is taken. The mode is subject to the
// umask.
func Mkdir(dir int, name string, mode uint32) error {
	return retry(func() error { return unix.Mkdirat(dir, name, mode) })
}

// Sync writes a file, or the names in a directory, to the disk. What a filesystem
// cannot flush is no error.
func Sync(fd int) error {
	err := retry(func() error { return unix.Fsync(fd) })
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EROFS) {
		return nil
	}
	return err
}

// WriteFull writes all of b at the beginning of a file.
func WriteFull(fd int, b []byte) error {
	for at := 0; at < len(b); {
		n, err := unix.Pwrite(fd, b[at:min(len(b), at+readStep)], int64(at))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		at += n
	}
	return nil
}

// modeKept are the bits of a mode that a file keeps when its content changes: those
// by which it runs as somebody else do not survive a write either.
const modeKept = 0o1777

// Resemble gives a new file the owner, the mode and the extended attributes of
// another one. It is an error if the system does not let it.
func Resemble(fd, original int) error {
	var old, now unix.Stat_t
	if err := retry(func() error { return unix.Fstat(original, &old) }); err != nil {
		return err
	}
	if err := retry(func() error { return unix.Fstat(fd, &now) }); err != nil {
		return err
	}
	if old.Uid != now.Uid || old.Gid != now.Gid {
		if err := retry(func() error { return unix.Fchown(fd, int(old.Uid), int(old.Gid)) }); err != nil {
			return err
		}
	}
	if err := copyAttributes(fd, original); err != nil {
		return err
	}
	return retry(func() error { return unix.Fchmod(fd, old.Mode&modeKept) })
}

// copyAttributes copies the extended attributes, access control lists among them.
func copyAttributes(fd, original int) error {
	list := make([]byte, 64<<10) // the most that there can be
	n, err := unix.Flistxattr(original, list)
	if errors.Is(err, unix.EOPNOTSUPP) || n == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	value := make([]byte, 64<<10)
	for _, name := range names(list[:n]) {
		size, err := unix.Fgetxattr(original, name, value)
		if errors.Is(err, unix.ENODATA) {
			continue
		}
		if err != nil {
			return err
		}
		// Security labels are the kernel's to give.
		if err := unix.Fsetxattr(fd, name, value[:size], 0); err != nil && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EOPNOTSUPP) {
			return err
		}
	}
	return nil
}

// names splits a list of names that each end in a zero byte.
func names(list []byte) []string {
	var all []string
	for start, at := 0, 0; at < len(list); at++ {
		if list[at] == 0 {
			all = append(all, string(list[start:at]))
			start = at + 1
		}
	}
	return all
}

func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
