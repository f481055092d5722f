package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/scope"
)

// maxSocketPath is the longest path of a unix socket, without the NUL at its end.
const maxSocketPath = 107

// socketSuffix is as long as what comes after the run directory in the path of a
// socket: the incarnation's directory, go-plugin's directory in it, and its socket
// in that, with the largest random numbers that package os makes.
const socketSuffix = "/p4294967295/plugin-dir4294967295/plugin4294967295"

// OpenRunDir makes the private directory of a host, in which its plugins have
// their sockets and their verified executables. It belongs to owner and is removed
// with it. For as long it is locked, so that [SweepRunDirs] can tell it from one
// whose host was killed.
//
// The path of a socket is short by law of the system, so the first of
// $XDG_RUNTIME_DIR, $TMPDIR and /tmp that can hold one is taken.
func OpenRunDir(owner *scope.Scope) (string, error) {
	var problems []string
	for _, base := range runBases() {
		dir, held, err := makeRunDir(base)
		if err != nil {
			problems = append(problems, err.Error())
			continue
		}
		err = owner.Defer("run directory "+dir, func(context.Context) error {
			err := removeTree(dir)
			if held != nil {
				err = errors.Join(err, held.Close()) // now that it is gone, nobody sees it unlocked
			}
			return err
		})
		if err != nil {
			return "", err
		}
		return dir, nil
	}
	return "", fmt.Errorf("no directory for the plugins' sockets: set TMPDIR to a short path that can be written (%s)",
		strings.Join(problems, "; "))
}

// runBases are the directories that run directories may be in, in the order in which
// they are tried.
func runBases() []string {
	var bases []string
	for _, base := range []string{os.Getenv("XDG_RUNTIME_DIR"), os.Getenv("TMPDIR"), "/tmp"} {
		if base = filepath.Clean(base); filepath.IsAbs(base) && !slices.Contains(bases, base) {
			bases = append(bases, base)
		}
	}
	return bases
}

const (
	// runPrefix is how the name of a run directory begins.
	runPrefix = "toolhost-"
	// runToken is how many characters of [rand.Text] follow.
	runToken = 10
)

// makeRunDir makes a directory that can hold sockets, and gives the descriptor by
// which it is locked; nil is that its filesystem has no locks.
func makeRunDir(base string) (dir string, held *os.File, err error) {
	for {
		dir = filepath.Join(base, runPrefix+rand.Text()[:runToken])
		if err := checkLength(dir); err != nil {
			return "", nil, err
		}
		switch err := os.Mkdir(dir, 0o700); {
		case errors.Is(err, fs.ErrExist):
			continue
		case err != nil:
			return "", nil, err
		}
		held, err = os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue // somebody swept it before it was opened
		}
		if err != nil {
			return "", nil, errors.Join(err, os.Remove(dir))
		}
		free, err := lock(held)
		if err == nil && free && isStill(held, dir) {
			return dir, held, nil
		}
		if err == nil {
			_ = held.Close()
			continue // somebody swept it before it was locked
		}
		if err := errors.Join(held.Close(), os.Remove(dir)); err != nil {
			return "", nil, err
		}
		dir, err = makeUnlocked(base)
		return dir, nil, err
	}
}

// makeUnlocked makes a directory on a filesystem that has no locks, so that nobody
// could tell that it is in use. Its name is one that no sweep takes.
func makeUnlocked(base string) (dir string, err error) {
	if dir, err = os.MkdirTemp(base, runPrefix); err != nil {
		return "", err
	}
	if err := checkLength(dir); err != nil {
		return "", errors.Join(err, os.Remove(dir))
	}
	return dir, nil
}

// lock locks an open file or directory without waiting, and says whether nobody else
// had it locked. The kernel takes the lock away with the process.
func lock(file *os.File) (free bool, err error) {
	for {
		err := unix.Flock(fd(file), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, unix.EINTR):
			return false, &fs.PathError{Op: "lock", Path: file.Name(), Err: err}
		}
	}
}

// isStill says whether a path names the file that is open, and no other.
func isStill(file *os.File, path string) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(path)
	return err == nil && os.SameFile(opened, named)
}

// checkLength is because the system says of a path that is too long no more than
// that an argument is invalid, and says it to the plugin.
func checkLength(dir string) error {
	if len(dir)+len(socketSuffix) > maxSocketPath {
		return fmt.Errorf("%s: a socket in it would have a path of over %d bytes", dir, maxSocketPath)
	}
	return nil
}

// removeAll removes the private directory of a plugin, as [removeTree] does. The
// plugin may also have taken the rights from the run directory that it is in.
func removeAll(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	_ = giveRights(unix.AT_FDCWD, filepath.Dir(dir)) // or what follows says why not
	return removeTree(dir)
}

// dismantlePatience is for a directory in which others go on writing.
const dismantlePatience = 5 * time.Second

// removeTree removes a directory in which a plugin may have written, and checks
// that it is gone. Nothing in it, and no link that took its place, leads to
// anything outside.
func removeTree(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	// Something is without the rights that removing needs, or deeper than there
	// are descriptors.
	top, err := openOwn(unix.AT_FDCWD, dir)
	if err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	defer top.Close()
	until := time.Now().Add(dismantlePatience)
	err = dismantle(top, func() error {
		if time.Now().After(until) {
			return errors.New("others keep writing there, or it is too much: remove it by hand")
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("remove what is in %s: %w", dir, err)
	}
	return os.RemoveAll(dir)
}

// dismantle empties a directory, a level at a time: what is in a directory below
// it is moved up. So however deep it is, three descriptors are enough, and no path
// gets too long. It asks over before each step, and ends with its error.
func dismantle(top *os.File, over func() error) error {
	for {
		names, err := list(top)
		if err != nil || len(names) == 0 {
			return err
		}
		for _, name := range names {
			if err := over(); err != nil {
				return err
			}
			if unix.Unlinkat(fd(top), name, 0) == nil {
				continue
			}
			if err := flatten(top, name, over); err != nil {
				return err
			}
		}
	}
}

// flatten removes a directory in top and leaves the directories that were in it in
// top.
func flatten(top *os.File, name string, over func() error) error {
	dir, err := openOwn(fd(top), name)
	if err != nil {
		return unlessGone(err)
	}
	defer dir.Close()
	if err := onOneFilesystem(top, dir); err != nil {
		return err
	}
	names, err := list(dir)
	if err != nil {
		return err
	}
	for _, inner := range names {
		if err := over(); err != nil {
			return err
		}
		if unix.Unlinkat(fd(dir), inner, 0) == nil {
			continue
		}
		err := giveRights(fd(dir), inner) // one that cannot be written in cannot be moved
		if err == nil {
			err = unix.Renameat(fd(dir), inner, fd(top), rand.Text())
		}
		if unlessGone(err) != nil {
			return err
		}
	}
	return unlessGone(unix.Unlinkat(fd(top), name, unix.AT_REMOVEDIR))
}

// unlessGone is because somebody else may remove the same.
func unlessGone(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// onOneFilesystem keeps what somebody mounted there from being emptied.
func onOneFilesystem(top, dir *os.File) error {
	var outer, inner unix.Stat_t
	if err := errors.Join(unix.Fstat(fd(top), &outer), unix.Fstat(fd(dir), &inner)); err != nil {
		return err
	}
	if outer.Dev != inner.Dev {
		return fmt.Errorf("another filesystem is mounted at %s in it: unmount that first", dir.Name())
	}
	return nil
}

// openOwn opens a directory for reading, and first adds the owner's rights to it.
// It fails for a link: the last part of path is not followed.
func openOwn(at int, path string) (*os.File, error) {
	held, err := holdOwn(at, path)
	if err != nil {
		return nil, err
	}
	defer unix.Close(held) //nolint:errcheck // it only names the directory
	opened, err := unix.Openat(held, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(opened), path), nil
}

// giveRights is openOwn without the opening.
func giveRights(at int, path string) error {
	held, err := holdOwn(at, path)
	if err != nil {
		return err
	}
	return unix.Close(held)
}

// holdOwn gives a descriptor that names a directory, which needs no rights, once
// it has added the owner's to it.
func holdOwn(at int, path string) (held int, err error) {
	held, err = unix.Openat(at, path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	var info unix.Stat_t
	if err = unix.Fstat(held, &info); err == nil && info.Mode&0o700 != 0o700 {
		// fchmod does not take a descriptor that only names.
		err = unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", held), info.Mode&0o7777|0o700)
	}
	if err != nil {
		_ = unix.Close(held)
		return -1, err
	}
	return held, nil
}

// list gives the names that are in a directory now.
func list(dir *os.File) ([]string, error) {
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return dir.Readdirnames(-1)
}

func fd(file *os.File) int { return int(file.Fd()) }
