package sandbox

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A FileID is which file or directory something is, whatever its name refers to later: what
// stat says of it, in and out of a jail.
type FileID struct{ Device, Inode uint64 }

// A DirectoryError is that a program was not started since its working directory is not the
// one that it was to be.
type DirectoryError struct {
	Dir string
	// Cause is why there is none that the program could enter. Nil is that it is another one
	// than was meant.
	Cause error
}

// Missing says that there is no directory of this name, rather than another one, or one that
// may not be entered.
func (e *DirectoryError) Missing() bool {
	return errors.Is(e.Cause, syscall.ENOENT) || errors.Is(e.Cause, syscall.ENOTDIR)
}

func (e *DirectoryError) Error() string {
	if e.Cause == nil {
		return fmt.Sprintf("working directory %q: it is another directory than the one that was meant", e.Dir)
	}
	return fmt.Sprintf("working directory %q: %v", e.Dir, e.Cause)
}

func (e *DirectoryError) Unwrap() error { return e.Cause }

// hold gives a name for the directory that a program is to start in, which stays that
// directory until release, whatever happens to its path.
func (s Spec) hold() (name string, release func(), err error) {
	if s.DirIs == nil {
		return s.Dir, func() {}, nil
	}
	fd, err := unix.Open(s.Dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, &DirectoryError{Dir: s.Dir, Cause: err}
	}
	file := os.NewFile(uintptr(fd), s.Dir)
	var info unix.Stat_t
	if err = unix.Fstat(fd, &info); err == nil && (FileID{info.Dev, info.Ino}) == *s.DirIs {
		return fmt.Sprintf("/proc/self/fd/%d", fd), func() { _ = file.Close() }, nil
	}
	_ = file.Close()
	return "", nil, &DirectoryError{Dir: s.Dir, Cause: err}
}
