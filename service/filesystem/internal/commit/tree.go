package commit

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/internal/beneath"
)

// Bounds of a directory that is removed or moved with all that is in it.
const (
	// MaxEntries is how many files and directories may be in it.
	MaxEntries = 10_000
	// maxDepth is how many directories may lie within each other: each is open while it is
	// looked at.
	maxDepth = 128
	// maxPaths is how many bytes their paths may have together.
	maxPaths = 4 << 20
)

// An Entry is something in a directory that is removed or moved.
type Entry struct {
	Path string // relative to the directory
	Info beneath.Info
}

// Tree lists all that is in a directory, sorted by path: at most so many entries, and
// no more than [MaxEntries]. What is beyond a bound is an error of the kind FileTooLarge.
// ctx ends it, with the context's cause.
func Tree(ctx context.Context, dir int, name string, most int) ([]Entry, error) {
	fd, err := beneath.Open(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer beneath.Close(fd)
	l := listing{most: most}
	if err := l.list(ctx, fd, "", 1); err != nil {
		return nil, err
	}
	slices.SortFunc(l.all, func(one, other Entry) int { return strings.Compare(one.Path, other.Path) })
	return l.all, nil
}

// A listing is a tree that is being listed.
type listing struct {
	most  int
	bytes int
	all   []Entry
}

func (l *listing) list(ctx context.Context, fd int, below string, depth int) error {
	entries, err := beneath.ReadDirSome(ctx, fd, l.most+1)
	if err != nil {
		return err
	}
	for _, e := range entries {
		at := path.Join(below, e.Name)
		l.bytes += len(at)
		if len(l.all) >= l.most || l.bytes > maxPaths || depth > maxDepth {
			return &service.FileError{Kind: service.FileTooLarge, Detail: fmt.Sprintf(
				"has more in it than one call takes, which is %d files and directories, %d deep, with %d MiB of paths; take what is in it in several calls",
				MaxEntries, maxDepth, maxPaths>>20)}
		}
		info, err := beneath.LstatName(fd, e.Name)
		if err != nil {
			return err
		}
		l.all = append(l.all, Entry{Path: at, Info: info})
		if info.Kind != service.Directory {
			continue
		}
		inner, err := beneath.Open(fd, e.Name, unix.O_RDONLY|unix.O_DIRECTORY)
		if err == nil {
			err = l.list(ctx, inner, at, depth+1)
			beneath.Close(inner)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func sameEntry(one, other Entry) bool {
	if one.Path != other.Path || !one.Info.Same(other.Info) {
		return false
	}
	return one.Info.Kind == service.Directory || one.Info.Untouched(other.Info)
}

// A removal is a directory that is removed with what is known to be in it.
type removal struct {
	known map[string]beneath.Info // by path
	// only looks whether it could be removed.
	only bool
	gone int // entries that are removed
}

func newRemoval(tree []Entry) *removal {
	r := &removal{known: make(map[string]beneath.Info, len(tree))}
	for _, e := range tree {
		r.known[e.Path] = e.Info
	}
	return r
}

// removable sees that nothing speaks against removing a directory, as far as that can
// be told before: a removal that ends in the middle cannot be taken back.
func removable(ctx context.Context, dir int, name string, tree []Entry) error {
	r := newRemoval(tree)
	r.only = true
	return r.entry(ctx, dir, name, "")
}

// run removes a directory and what is known to be in it, and nothing else. ctx is
// not to end it.
func (r *removal) run(dir int, name string) error {
	return r.entry(context.Background(), dir, name, "")
}

// entry removes what has a name; at is its path, "" for the directory itself.
func (r *removal) entry(ctx context.Context, dir int, name, at string) error {
	info, err := beneath.LstatName(dir, name)
	if err != nil {
		return named(at, err)
	}
	if known, ok := r.known[at]; at != "" && (!ok || !known.Same(info)) {
		return changed(at, "came into it meanwhile")
	}
	if info.Kind == service.Directory {
		if err := r.within(ctx, dir, name, at); err != nil {
			return err
		}
	}
	switch {
	case r.only:
		err = beneath.Removable(dir, name)
	case info.Kind == service.Directory:
		err = beneath.Rmdir(dir, name)
	default:
		err = beneath.Unlink(dir, name)
	}
	if errors.Is(err, unix.EBUSY) {
		err = &service.FileError{Kind: service.FileIO, Detail: "is in use, or another filesystem is mounted there"}
	}
	if err != nil {
		return named(at, err)
	}
	r.gone++
	return nil
}

// within removes what is in a directory.
func (r *removal) within(ctx context.Context, dir int, name, at string) error {
	fd, err := beneath.Open(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return named(at, err)
	}
	defer beneath.Close(fd)
	entries, err := beneath.ReadDirSome(ctx, fd, len(r.known)+1)
	if err != nil {
		return named(at, err)
	}
	slices.SortFunc(entries, func(one, other beneath.Entry) int { return strings.Compare(one.Name, other.Name) })
	for _, e := range entries {
		if err := r.entry(ctx, fd, e.Name, path.Join(at, e.Name)); err != nil {
			return err
		}
	}
	return nil
}
