package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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
// with it.
//
// The path of a socket is short by law of the system, so the first of
// $XDG_RUNTIME_DIR, $TMPDIR and /tmp that can hold one is taken.
func OpenRunDir(owner *scope.Scope) (string, error) {
	var problems []string
	for _, base := range []string{os.Getenv("XDG_RUNTIME_DIR"), os.Getenv("TMPDIR"), "/tmp"} {
		if !filepath.IsAbs(base) {
			continue
		}
		dir, err := os.MkdirTemp(base, "toolhost-")
		if err != nil {
			problems = append(problems, err.Error())
			continue
		}
		if err := checkLength(dir); err != nil {
			_ = os.Remove(dir)
			problems = append(problems, err.Error())
			continue
		}
		if err := owner.Defer("run directory "+dir, func(context.Context) error { return removeTree(dir) }); err != nil {
			return "", err
		}
		return dir, nil
	}
	return "", fmt.Errorf("no directory for the plugins' sockets: set TMPDIR to a short path that can be written (%s)",
		strings.Join(problems, "; "))
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
	if err := dismantle(top, time.Now().Add(dismantlePatience)); err != nil {
		return fmt.Errorf("remove what is in %s: %w", dir, err)
	}
	return os.RemoveAll(dir)
}

// dismantle empties a directory, a level at a time: what is in a directory below
// it is moved up. So however deep it is, three descriptors are enough, and no path
// gets too long.
func dismantle(top *os.File, until time.Time) error {
	for {
		names, err := list(top)
		if err != nil || len(names) == 0 {
			return err
		}
		for _, name := range names {
			if time.Now().After(until) {
				return errors.New("others keep writing there, or it is too much: remove it by hand")
			}
			if unix.Unlinkat(fd(top), name, 0) == nil {
				continue
			}
			if err := flatten(top, name); err != nil {
				return err
			}
		}
	}
}

// flatten removes a directory in top and leaves the directories that were in it in
// top.
func flatten(top *os.File, name string) error {
	dir, err := openOwn(fd(top), name)
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := list(dir)
	if err != nil {
		return err
	}
	for _, inner := range names {
		if unix.Unlinkat(fd(dir), inner, 0) == nil {
			continue
		}
		if err := giveRights(fd(dir), inner); err != nil { // one that cannot be written in cannot be moved
			return err
		}
		if err := unix.Renameat(fd(dir), inner, fd(top), rand.Text()); err != nil {
			return err
		}
	}
	return unix.Unlinkat(fd(top), name, unix.AT_REMOVEDIR)
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
