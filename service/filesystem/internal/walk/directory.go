package walk

import (
	"context"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/ignore"
	"github.com/toolhost/toolhost/service/filesystem/internal/beneath"
)

// batchFiles is how many files a worker takes at once, as long as what they give
// holds less than batchBytes; what is left of a batch then is done when it is its
// turn to be delivered.
const (
	batchFiles = 16
	batchBytes = 1 << 20
)

// A run is one walk that is going on.
type run[R any] struct {
	Walk
	job     Job[R]
	ctx     context.Context //nolint:containedctx // a run lives for one call
	queue   *queue
	workers sync.WaitGroup
}

// A directory is one that is entered. Its worker owns it until done is closed,
// then the delivery does.
type directory[R any] struct {
	path  string // relative to the handle: "" or ending in a slash
	level *ignore.Level
	done  chan struct{}

	entries    []entry[R] // in the order of the paths
	unreadable bool
}

// An entry is what is to be delivered, or entered.
type entry[R any] struct {
	// order is the name, a directory's with a slash at its end: so the names stand
	// in the whole path, and so they are sorted.
	order  string
	reason Reason
	below  *directory[R] // of a directory that is entered
	batch  *batch        // of a file whose job is done by then
	late   bool          // the job is still to be done
	result R
	held   int
}

// A batch is files whose job is done by one worker.
type batch struct{ done chan struct{} }

func newDirectory[R any](path string, level *ignore.Level) *directory[R] {
	return &directory[R]{path: path, level: level, done: make(chan struct{})}
}

// read reads the names in a directory and plans what to do with them.
func (r *run[R]) read(d *directory[R]) {
	defer close(d.done)
	path := strings.TrimSuffix(d.path, "/")
	if path == "" {
		path = "."
	}
	fd, err := beneath.Open(r.Dir, path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		d.unreadable = !beneath.Vanished(err)
		return
	}
	defer beneath.Close(fd)
	names, err := beneath.ReadDir(r.ctx, fd)
	if err != nil {
		d.unreadable = r.ctx.Err() == nil && !beneath.Vanished(err)
		return
	}
	level := d.level.Enter(r.Place+d.path, ReadIgnoreFiles(r.ctx, r.Top, r.Place+d.path, fd, names))
	unused := level.Unused()
	if d.path != "" {
		unused -= d.level.Unused()
	}
	for range unused {
		d.entries = append(d.entries, entry[R]{reason: Unused})
	}
	for _, n := range names {
		if r.ctx.Err() != nil {
			return
		}
		r.judge(d, level, n)
	}
	slices.SortFunc(d.entries, func(a, b entry[R]) int { return strings.Compare(a.order, b.order) })
	r.plan(d)
}

// judge adds what a name is worth to the directory's entries.
func (r *run[R]) judge(d *directory[R], level *ignore.Level, n beneath.Entry) {
	path := d.path + n.Name
	isDir := n.Kind == service.Directory
	var wanted bool
	switch n.Kind {
	case service.Directory:
		wanted = r.Filter.Enter(path)
	case service.Symlink:
		wanted = r.Filter.Match(path) || r.Filter.Enter(path)
	default:
		wanted = r.Filter.Match(path)
	}
	if !wanted || !r.VersionControl && (isDir && VersionControl(n.Name) || n.Name == ".git") {
		return
	}
	e := entry[R]{order: n.Name, reason: r.reason(level, path, n, isDir)}
	if isDir {
		path += "/"
		e.order = path[len(d.path):]
		if e.reason == Taken {
			e.below = newDirectory[R](path, level)
		}
	}
	d.entries = append(d.entries, e)
}

func (r *run[R]) reason(level *ignore.Level, path string, n beneath.Entry, isDir bool) Reason {
	verdict := level.Match(r.Place+path, isDir)
	switch {
	case verdict == ignore.Ignored:
		return Ignored
	case verdict == ignore.None && n.Name[0] == '.' && !r.Filter.Names(n.Name, isDir):
		return Hidden
	case n.Kind == service.Symlink:
		return Link
	case n.Kind == service.SpecialFile:
		return Unreadable
	}
	return Taken
}

// plan queues what is to be done for a directory's entries.
func (r *run[R]) plan(d *directory[R]) {
	var next []task
	var files []*entry[R]
	flush := func() {
		if len(files) > 0 {
			next = append(next, r.batch(d.path, files))
			files = nil
		}
	}
	for i := range d.entries {
		e := &d.entries[i]
		switch {
		case e.below != nil:
			below := e.below
			next = append(next, task{order: below.path, do: func() { r.read(below) }})
		case e.reason == Taken && r.job != nil:
			if files = append(files, e); len(files) == batchFiles {
				flush()
			}
		}
	}
	flush()
	r.queue.add(next...)
}

func (r *run[R]) batch(dir string, files []*entry[R]) task {
	b := &batch{done: make(chan struct{})}
	for _, e := range files {
		e.batch = b
	}
	return task{order: dir + files[0].order, do: func() {
		defer close(b.done)
		held := 0
		for _, e := range files {
			if r.ctx.Err() != nil {
				return
			}
			if e.late = held > batchBytes; e.late {
				continue
			}
			e.result, e.held = r.job(r.ctx, dir+e.order)
			held += e.held
			r.queue.hold(e.held)
		}
	}}
}
