package client

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

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
		if err := owner.Defer("run directory "+dir, func(context.Context) error { return removeAll(dir) }); err != nil {
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

// removeAll removes a directory in which a plugin may have written, and checks
// that it is gone.
func removeAll(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	// What a plugin made may be without the rights that removing needs. They are
	// given by way of the directory, so that a link in it leads nowhere.
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	_ = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, _ error) error {
		if entry != nil && entry.IsDir() {
			_ = root.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}
