package filesystem

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/internal/beneath"
)

const (
	nameBytes = 255  // the longest name
	pathBytes = 4095 // the longest path
	maxLinks  = 40   // as many as the kernel follows
	// attempts is how often names may change while a path is resolved.
	attempts = 16
)

// relative gives the cleaned path relative to the root, "." for the root itself,
// and whether the spelling asks for a directory. Cleaning is by the words alone:
// "a/.." is the root whatever "a" is.
func (f *FileSystem) relative(spelled string) (rel string, directory bool, err error) {
	switch {
	case spelled == "":
		return "", false, badPath(spelled, `path is empty; the root is "."`)
	case strings.ContainsRune(spelled, 0):
		return "", false, badPath(spelled, "has a zero byte, and no file name has one")
	case len(spelled) >= 7 && strings.EqualFold(spelled[:7], "file://"):
		return "", false, badPath(spelled, "is a URL; give the path alone, relative to the root")
	case len(spelled) > pathBytes:
		return "", false, badPath(spelled[:40]+"…", fmt.Sprintf("is over %d bytes long", pathBytes))
	}
	rel = path.Clean(spelled)
	if strings.HasPrefix(rel, "/") {
		inside, ok := f.inside(rel)
		if !ok {
			return "", false, outside(spelled)
		}
		rel = inside
	}
	if rel == ".." || strings.HasPrefix(rel, "../") {
		return "", false, outside(spelled)
	}
	for name := range strings.SplitSeq(rel, "/") {
		if len(name) > nameBytes {
			return "", false, badPath(name[:40]+"…", fmt.Sprintf("is over %d bytes long, and no file name is", nameBytes))
		}
	}
	directory = strings.HasSuffix(spelled, "/") || strings.HasSuffix(spelled, "/.") || strings.HasSuffix(spelled, "/..")
	return rel, directory, nil
}

// inside makes an absolute path relative to the root, in either of its spellings.
func (f *FileSystem) inside(absolute string) (rel string, ok bool) {
	for _, root := range []string{f.declared, f.real} {
		if absolute == root {
			return ".", true
		}
		if rest, ok := strings.CutPrefix(absolute, strings.TrimSuffix(root, "/")+"/"); ok {
			return rest, true
		}
	}
	return "", false
}

// A handle is an open file and what it is.
type handle struct {
	fd       int
	resolved string
	info     beneath.Info
}

// openHandle opens what a path leads to. What is opened is always a path without
// links, so that the handle is what its resolved path says and nothing else; where
// there are links, they are followed beforehand, by name, and what they say is
// used only if it still holds when it is opened.
func (f *FileSystem) openHandle(ctx context.Context, rel string) (handle, error) {
	for range attempts {
		if ctx.Err() != nil {
			return handle{}, context.Cause(ctx)
		}
		h, err := f.openExactly(rel)
		if err == nil || !changing(err) {
			return h, err
		}
		resolved, err := f.follow(rel)
		if err != nil {
			return handle{}, err
		}
		h, err = f.openExactly(resolved)
		if err == nil || !changing(err) {
			return h, err
		}
	}
	return handle{}, errUnsteady()
}

// changing says whether an error may come from a link on the way, or from names
// that change.
func changing(err error) bool {
	return errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENOENT) || errors.Is(err, errReplaced)
}

// openExactly opens a path that has no links. It looks at the file before it
// opens it, since opening a device or a pipe is an act of its own.
func (f *FileSystem) openExactly(rel string) (handle, error) {
	root := int(f.dir.Fd())
	before, err := beneath.Lstat(root, rel)
	if err != nil {
		return handle{}, err
	}
	flags := unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY
	switch before.Kind {
	case service.Symlink:
		return handle{}, unix.ELOOP
	case service.SpecialFile:
		return handle{}, errSpecial()
	case service.Directory:
		flags |= unix.O_DIRECTORY
	}
	fd, err := beneath.Open(root, rel, flags)
	if err != nil {
		return handle{}, err
	}
	after, err := beneath.Stat(fd)
	if err == nil && !after.Same(before) {
		err = errReplaced
	}
	if err != nil {
		beneath.Close(fd)
		return handle{}, err
	}
	return handle{fd: fd, resolved: rel, info: after}, nil
}

func errSpecial() error {
	return &service.FileError{Kind: service.FileSpecial, Detail: "is a device, pipe or socket, and only files and directories can be opened"}
}

// missing is where a path ends before it should.
type missing struct {
	parent string // the directory, without links, that has no such name; "." for the root
	name   string
	rest   string // what was to be below it, if something was
	err    error
}

func (m *missing) Error() string { return path.Join(m.parent, m.name) + ": " + m.err.Error() }
func (m *missing) Unwrap() error { return m.err }

// follow resolves the links of a path. A link out of the root is refused, wherever
// it leads; an absolute one that names the root is not out of it.
func (f *FileSystem) follow(rel string) (resolved string, err error) {
	root := int(f.dir.Fd())
	pending := strings.Split(rel, "/")
	var done []string
	for links := 0; len(pending) > 0; {
		name := pending[0]
		pending = pending[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			if len(done) == 0 {
				return "", outside("")
			}
			done = done[:len(done)-1]
			continue
		}
		here := strings.Join(append(done[:len(done):len(done)], name), "/")
		info, err := beneath.Lstat(root, here)
		if err != nil {
			return "", &missing{parent: path.Join(append([]string{"."}, done...)...), name: name, rest: path.Join(pending...), err: err}
		}
		if info.Kind != service.Symlink {
			done = append(done, name)
			continue
		}
		if links++; links > maxLinks {
			return "", badPath("", "leads through too many links, or in a circle")
		}
		target, err := beneath.Readlink(root, here)
		if err != nil {
			return "", err
		}
		if strings.HasPrefix(target, "/") {
			inside, ok := f.inside(target)
			if !ok {
				return "", outside("")
			}
			target, done = inside, nil
		}
		pending = append(strings.Split(target, "/"), pending...)
	}
	if len(done) == 0 {
		return ".", nil
	}
	return strings.Join(done, "/"), nil
}
