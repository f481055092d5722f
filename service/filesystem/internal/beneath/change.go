package beneath

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/service"
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

// Move gives a name to what had another one: EEXIST if it is taken. Where a filesystem
// cannot promise that, as NFS cannot, a file has both names for a moment, and an empty
// directory that takes the new name in that moment is replaced.
func Move(fromDir int, from string, toDir int, to string) error {
	err := retry(func() error { return unix.Renameat2(fromDir, from, toDir, to, unix.RENAME_NOREPLACE) })
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return moveStepwise(fromDir, from, toDir, to)
	}
	return err
}

func moveStepwise(fromDir int, from string, toDir int, to string) error {
	info, err := LstatName(fromDir, from)
	if err != nil {
		return err
	}
	if info.Kind != service.Directory {
		if err := retry(func() error { return unix.Linkat(fromDir, from, toDir, to, 0) }); err != nil {
			return err
		}
		return Unlink(fromDir, from)
	}
	switch _, err := LstatName(toDir, to); {
	case err == nil:
		return unix.EEXIST
	case !errors.Is(err, unix.ENOENT):
		return err
	}
	return retry(func() error { return unix.Renameat(fromDir, from, toDir, to) })
}

// Removable says whether this process may remove a name from a directory, as far as
// the system tells before: EACCES and EPERM are as [Unlink] would say them, EBUSY is that
// another filesystem is mounted there.
func Removable(dir int, name string) error {
	const want = unix.STATX_UID | unix.STATX_MODE
	const fixed = unix.STATX_ATTR_IMMUTABLE | unix.STATX_ATTR_APPEND
	err := retry(func() error {
		return unix.Faccessat(dir, "", unix.W_OK|unix.X_OK, unix.AT_EACCESS|unix.AT_EMPTY_PATH)
	})
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EROFS) {
		return err // an older kernel cannot be asked, and says that otherwise
	}
	var parent, entry unix.Statx_t
	if err := retry(func() error { return unix.Statx(dir, "", unix.AT_EMPTY_PATH, want, &parent) }); err != nil {
		return err
	}
	if err := retry(func() error {
		return unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, want, &entry)
	}); err != nil {
		return err
	}
	user := uint32(unix.Geteuid()) //nolint:gosec // a user's number has 32 bits
	switch {
	case (parent.Attributes|entry.Attributes)&fixed != 0:
		return unix.EPERM
	case parent.Mode&unix.S_ISVTX != 0 && user != 0 && user != parent.Uid && user != entry.Uid:
		return unix.EPERM
	case parent.Dev_major != entry.Dev_major || parent.Dev_minor != entry.Dev_minor:
		return unix.EBUSY
	}
	return nil
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

// capability is what lets a program act as somebody else. As in a write, it does not
// outlive the content that it was given to.
const capability = "security.capability"

// copyAttributes gives a new file the extended attributes of the original, access
// control lists among them, and no others: what it inherited from its directory could
// let in whom the original keeps out.
func copyAttributes(fd, original int) error {
	wanted, err := attributes(original)
	if err != nil {
		return err
	}
	has, err := attributes(fd)
	if err != nil {
		return err
	}
	for _, name := range has {
		if slices.Contains(wanted, name) {
			continue
		}
		// Security labels are the kernel's to take away.
		if err := unix.Fremovexattr(fd, name); err != nil && !errors.Is(err, unix.ENODATA) && !strings.HasPrefix(name, "security.") {
			return err
		}
	}
	value := make([]byte, maxAttribute)
	for _, name := range wanted {
		if name == capability {
			continue
		}
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

// maxAttribute is how many bytes an extended attribute has at most, and all names of
// them together.
const maxAttribute = 64 << 10

// attributes are the names of a file's extended attributes.
func attributes(fd int) ([]string, error) {
	list := make([]byte, maxAttribute)
	n, err := unix.Flistxattr(fd, list)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil
	}
	return names(list[:max(n, 0)]), err
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
