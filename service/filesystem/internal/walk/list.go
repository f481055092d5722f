package walk

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/ignore"
	"github.com/toolhost/toolhost/service/filesystem/internal/beneath"
)

// A Listing says what to list.
type Listing struct {
	// Dir is the handle; the caller keeps it open until List returns.
	Dir int
	// Place, Top and Above are those of a [Walk]; with a Depth of 1 they are not used.
	Place string
	Top   Top
	Above *ignore.Level
	// Depth is how deep to go: 1 is the directory itself.
	Depth int
	// Limit is how many names are wanted of one directory at most.
	Limit int
	// VersionControl enters .git and its like.
	VersionControl bool
	// Workers is the number of goroutines, at least 1.
	Workers int
	// Allows says whether a path below the handle may be shown; what is below a
	// directory that may not is not looked at. Several goroutines ask at once.
	Allows func(path string) bool
}

// A Name is a name in a directory, or, without a kind, one that is left out.
type Name struct {
	// Path is relative to the handle.
	Path   string
	Kind   service.FileKind
	Size   int64  // of a regular file
	Target string // of a link
	// Reason is Taken, or why a name is not shown: Denied, Unreadable or Unused; of a
	// directory with a kind, that it is not entered because it is Ignored.
	Reason Reason
}

// List gives the names to yield, in order, each directory before what is in it,
// until yield says that it has enough. It returns when every goroutine has ended:
// the context's cause if ctx ended it, the error of reading the handle's own
// directory, else nil.
func List(ctx context.Context, l Listing, yield func(Name) bool) error {
	inner, cancel := context.WithCancel(ctx)
	r := &lister{Listing: l, ctx: inner, queue: newQueue()}
	root := &listed{level: l.Above, depth: l.Depth, done: make(chan struct{})}
	r.queue.add(task{do: func() { r.read(root) }})
	for range l.Workers {
		r.workers.Go(r.queue.work)
	}
	defer func() {
		cancel()
		r.queue.stop()
		r.workers.Wait()
	}()
	return r.deliver(root, yield)
}

// A lister is one listing that is going on.
type lister struct {
	Listing
	ctx     context.Context //nolint:containedctx // a lister lives for one call
	queue   *queue
	workers sync.WaitGroup
}

// A listed is a directory that is listed. Its worker owns it until done is closed,
// then the delivery does.
type listed struct {
	path  string // below the handle; "" for the handle itself
	level *ignore.Level
	depth int
	done  chan struct{}

	err   error
	names []listedName
	held  int
}

type listedName struct {
	Name
	below *listed // of a directory that is entered
}

// listedBytes is roughly what a name takes until it is delivered.
const listedBytes = 160

// enough is what a name that is shown counts for, and goes on to count for when it is
// delivered: once as many were read as the answer may have, and some more that are
// behind them, only what the delivery waits for is read.
func (r *lister) enough() int { return holdBytes / (r.Limit + r.Limit/16 + readBehind) }

// readBehind is how many names may be read that are not in the answer, but beside its
// directories.
const readBehind = 1000

func (r *lister) deliver(root *listed, yield func(Name) bool) error {
	for open := []*listed{root}; len(open) > 0; {
		d := open[len(open)-1]
		if err := r.queue.wait(r.ctx, d.done); err != nil {
			return err
		}
		r.queue.hold(-d.held)
		d.held = 0
		switch {
		case d.err != nil && d == root:
			return d.err
		case d.err != nil && !beneath.Vanished(d.err):
			d.err = nil
			if !yield(Name{Path: d.path, Reason: Unreadable}) {
				return nil
			}
		}
		if len(d.names) == 0 {
			open = open[:len(open)-1]
			continue
		}
		n := d.names[0]
		d.names = d.names[1:]
		if !yield(n.Name) {
			return nil
		}
		if n.below != nil {
			open = append(open, n.below)
		}
	}
	return nil
}

// read reads the names in a directory, and plans to read those below it.
func (r *lister) read(d *listed) {
	defer close(d.done)
	path := d.path
	if path == "" {
		path = "."
	}
	fd, err := beneath.Open(r.Dir, path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		d.err = err
		return
	}
	defer beneath.Close(fd)
	names, err := beneath.ReadDir(r.ctx, fd)
	if err != nil {
		d.err = err
		return
	}
	slices.SortFunc(names, func(a, b beneath.Entry) int { return strings.Compare(a.Name, b.Name) })
	prefix := d.path
	if prefix != "" {
		prefix += "/"
	}
	level := d.level
	if d.depth > 1 {
		level = r.enter(d, prefix, fd, names)
	}
	var next []task
	d.names = slices.Grow(d.names, min(len(names), r.Limit+1))
	shown := 0
	for i := 0; i < len(names) && shown <= r.Limit; i++ {
		if r.ctx.Err() != nil {
			return
		}
		n, there := r.look(fd, prefix, names[i])
		if !there {
			continue
		}
		if n.Reason == Taken {
			shown++
		}
		if n.Kind == service.Directory && d.depth > 1 && (r.VersionControl || !VersionControl(names[i].Name)) {
			if level.Match(r.Place+n.Path, true) == ignore.Ignored {
				n.Reason = Ignored
			} else {
				below := &listed{path: n.Path, level: level, depth: d.depth - 1, done: make(chan struct{})}
				n.below = below
				next = append(next, task{order: order(n.Path), do: func() { r.read(below) }})
			}
		}
		d.names = append(d.names, n)
	}
	d.held = listedBytes * len(d.names)
	r.queue.hold(d.held + shown*r.enough())
	r.queue.add(next...)
}

// order is a path as the queue sorts it, which sorts it as it is delivered.
func order(path string) string { return strings.ReplaceAll(path, "/", "\x00") }

func (r *lister) enter(d *listed, prefix string, fd int, names []beneath.Entry) *ignore.Level {
	level := d.level.Enter(r.Place+prefix, ReadIgnoreFiles(r.ctx, r.Top, r.Place+prefix, fd, names))
	unused := level.Unused()
	if d.path != "" {
		unused -= d.level.Unused()
	}
	for range unused {
		d.names = append(d.names, listedName{Name: Name{Path: d.path, Reason: Unused}})
	}
	return level
}

// look finds out what there is to say of a name, and whether it is still there.
func (r *lister) look(fd int, prefix string, e beneath.Entry) (n listedName, there bool) {
	n.Path = prefix + e.Name
	if !r.Allows(n.Path) {
		n.Reason = Denied
		return n, true
	}
	n.Kind = e.Kind
	var err error
	switch e.Kind {
	case service.RegularFile:
		var info beneath.Info
		info, err = beneath.LstatName(fd, e.Name)
		n.Size = info.Size
	case service.Symlink:
		n.Target, err = beneath.ReadlinkName(fd, e.Name)
	}
	return n, !errors.Is(err, unix.ENOENT)
}
