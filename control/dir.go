package control

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// dirName is the directory below the user's runtime directory.
	dirName = "toolhost"
	// suffix is what the name of a host's socket ends in.
	suffix = ".sock"
	// nascent is what the name of a socket begins with that does not listen yet.
	nascent = "."
	// maxSocketPath is the longest path of a unix socket, without the NUL at its end.
	maxSocketPath = 107
	// nascentAge is how old a socket that still has its first name must be to be one
	// that was left behind.
	nascentAge = time.Minute
)

// DefaultDir is where the user's hosts have their sockets: toolhost below
// $XDG_RUNTIME_DIR if that is an absolute path, else below /run/user/UID if that
// belongs to the user, else toolhost-UID in the directory for temporary files. It
// need not exist.
func DefaultDir() string {
	if base := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(base) {
		return filepath.Join(base, dirName)
	}
	uid := strconv.Itoa(os.Geteuid())
	base := "/run/user/" + uid
	if info, err := os.Lstat(base); err == nil && info.IsDir() && owner(info) == os.Geteuid() {
		return filepath.Join(base, dirName)
	}
	return filepath.Join(os.TempDir(), dirName+"-"+uid)
}

// owner is the user whom a file belongs to; -1 if that is not known.
func owner(info fs.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return -1
}

// makeDir makes the directory, unless it exists, and checks it. What is above it
// must exist.
func makeDir(dir string) error {
	switch err := os.Mkdir(dir, 0o700); {
	case errors.Is(err, fs.ErrExist):
	case err != nil:
		return fmt.Errorf("control directory: %w: set XDG_RUNTIME_DIR to a directory of yours", err)
	default:
		if err := os.Chmod(dir, 0o700); err != nil { // the umask may have taken some away
			return fmt.Errorf("control directory: %w", err)
		}
	}
	return checkDir(dir)
}

// checkDir reports a directory that others could have put something into. One that
// does not exist is fs.ErrNotExist.
func checkDir(dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return fmt.Errorf("control directory: %w", err)
	case !info.IsDir():
		return fmt.Errorf("control directory %s is a %s: it must be a directory, and not a link to one; remove it", dir, kind(info))
	case owner(info) != os.Geteuid():
		return fmt.Errorf("control directory %s belongs to user %d: remove it, or set XDG_RUNTIME_DIR to a directory of yours", dir, owner(info))
	case info.Mode().Perm() != 0o700:
		return fmt.Errorf("control directory %s has mode %04o: only you may enter it; run chmod 0700 on it", dir, info.Mode().Perm())
	}
	return nil
}

func kind(info fs.FileInfo) string {
	if info.Mode()&fs.ModeSymlink != 0 {
		return "link"
	}
	return "file"
}

// socketPaths makes up a name for the socket of this process: the one that it is
// bound under, and the one that it has from when it listens.
func socketPaths(dir string) (first, final string, err error) {
	name := fmt.Sprintf("%d-%s%s", os.Getpid(), strings.ToLower(rand.Text()[:10]), suffix)
	first, final = filepath.Join(dir, nascent+name), filepath.Join(dir, name)
	if len(first) > maxSocketPath {
		return "", "", fmt.Errorf("control socket %s has a path of %d bytes, and the system takes %d: set XDG_RUNTIME_DIR to a shorter path",
			first, len(first), maxSocketPath)
	}
	return first, final, nil
}

// pidOf is the process that a socket's name says it is of.
func pidOf(name string) (pid int, ok bool) {
	name, ok = strings.CutSuffix(name, suffix)
	if !ok {
		return 0, false
	}
	number, random, ok := strings.Cut(name, "-")
	pid, err := strconv.Atoi(number)
	return pid, ok && err == nil && pid > 0 && random != ""
}

// sockets lists the names of the sockets in the directory that a host may listen
// at, and those that are still under their first name though they are old.
func sockets(dir string) (listening, old []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("control directory: %w", err)
	}
	for _, entry := range entries {
		name, young := strings.CutPrefix(entry.Name(), nascent)
		if _, ok := pidOf(name); !ok || entry.Type() != fs.ModeSocket {
			continue // not ours; a connection to a file that is no socket is refused as well
		}
		if !young {
			listening = append(listening, entry.Name())
		} else if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > nascentAge {
			old = append(old, entry.Name())
		}
	}
	return listening, old, nil
}

// sweep removes the sockets that hosts left which did not end by themselves. The
// directory was checked.
func sweep(ctx context.Context, dir string) error {
	listening, old, err := sockets(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range append(listening, old...) {
		path := filepath.Join(dir, name)
		conn, err := connect(ctx, path)
		switch {
		case err == nil:
			_ = conn.Close()
		case refused(err):
			errs = append(errs, removeSocket(path))
		}
	}
	return errors.Join(errs...)
}

// refused says that nobody listens at the socket, and nobody will. A host whose
// queue is full gives another error.
func refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// removeSocket removes a socket, which may be gone.
func removeSocket(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("control socket: %w", err)
	}
	return nil
}
