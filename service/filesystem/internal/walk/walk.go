// Package walk goes through the files below an open directory, with several
// goroutines and in one order: that of their paths, byte by byte.
//
// Directories are opened below the handle and without following links (package
// beneath), so that no rename in the meantime leads out of it. Names are left out
// as ignore files say, as are hidden ones and the directories of version control;
// what could have been in the answer is reported as left out.
//
// The work that is earliest in the order is done first. So a caller that has
// enough stops the walk early and has seen all that comes before, whatever the
// number of goroutines; and no more is done ahead than there are results to hold.
package walk

import (
	"context"
	"strings"

	"github.com/toolhost/toolhost/service/filesystem/ignore"
)

// A Filter chooses files by their path relative to the handle. It is asked by
// several goroutines at once.
type Filter interface {
	// Match says whether a file is wanted.
	Match(path string) bool
	// Enter says whether a file below the directory may be wanted; dir has no slash
	// at its end.
	Enter(dir string) bool
	// Names says whether a hidden file, or a hidden directory on the way to wanted
	// ones, was asked for by its name.
	Names(name string, directory bool) bool
}

// A Walk says what to go through.
type Walk struct {
	// Dir is the handle; the caller keeps it open until Files returns.
	Dir int
	// Place is the handle's own path relative to the top for which Above was read:
	// "" or ending in a slash.
	Place string
	Top   Top
	// Above is the ignore rules from the directories above the handle.
	Above *ignore.Level
	// Filter chooses the files.
	Filter Filter
	// VersionControl enters .git and its like; for a handle that lies within one.
	VersionControl bool
	// Workers is the number of goroutines, at least 1.
	Workers int
}

// A Reason says why something is left out.
type Reason uint8

// The reasons; Taken is for what is not left out.
const (
	Taken Reason = iota
	Ignored
	Hidden
	Link
	Unreadable
	// Unused is for an ignore file that is too large; its Path is the directory's. Those
	// above the handle count as its own.
	Unused
	// Denied is for a name that may not be listed.
	Denied
)

// A Found is a wanted file, or a name that was left out though a wanted file may
// be behind it: a file, a link, or a directory as a whole.
type Found[R any] struct {
	// Path is relative to the handle; a directory's ends in a slash.
	Path string
	Reason
	// Result is what the job gave for the file.
	Result R
}

// A Job is what is done with each wanted file, by several goroutines at once. It
// gives the result and roughly how many bytes it holds. ctx is done when the
// result is of no use any more.
type Job[R any] func(ctx context.Context, path string) (result R, held int)

// Files goes through the files, does the job with each of those that are wanted
// (a nil job is none) and gives what it finds to yield, in the order of the
// paths, until yield says that it has enough. It returns when every goroutine
// has ended: the context's cause if ctx ended it, else nil.
func Files[R any](ctx context.Context, w Walk, job Job[R], yield func(Found[R]) bool) error {
	inner, cancel := context.WithCancel(ctx)
	r := &run[R]{Walk: w, job: job, ctx: inner, queue: newQueue()}
	root := newDirectory[R]("", w.Above)
	r.queue.add(task{order: root.path, do: func() { r.read(root) }})
	for range w.Workers {
		r.workers.Go(r.queue.work)
	}
	defer func() {
		cancel()
		r.queue.stop()
		r.workers.Wait()
	}()
	return r.deliver(root, yield)
}

// deliver goes through what the workers find, in order, and waits where they are
// not done.
func (r *run[R]) deliver(root *directory[R], yield func(Found[R]) bool) error {
	for open := []*directory[R]{root}; len(open) > 0; {
		d := open[len(open)-1]
		if err := r.queue.wait(r.ctx, d.done); err != nil {
			return err
		}
		if d.unreadable {
			d.unreadable = false
			if !yield(Found[R]{Path: d.path, Reason: Unreadable}) {
				return nil
			}
		}
		if len(d.entries) == 0 {
			open = open[:len(open)-1]
			continue
		}
		e := &d.entries[0]
		d.entries = d.entries[1:]
		if e.below != nil {
			open = append(open, e.below)
			continue
		}
		if e.batch != nil {
			if err := r.queue.wait(r.ctx, e.batch.done); err != nil {
				return err
			}
			r.queue.hold(-e.held)
			if e.late {
				e.result, _ = r.job(r.ctx, d.path+e.order)
				if r.ctx.Err() != nil {
					return context.Cause(r.ctx)
				}
			}
		}
		found := Found[R]{Path: d.path + e.order, Reason: e.reason, Result: e.result}
		*e = entry[R]{} // the result is the caller's now
		if !yield(found) {
			return nil
		}
	}
	return nil
}

// VersionControl says whether a directory of this name belongs to a version
// control system.
func VersionControl(name string) bool {
	switch name {
	case ".git", ".hg", ".svn", ".jj":
		return true
	}
	return false
}

// InVersionControl says whether a path is, or lies below, such a directory.
func InVersionControl(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if VersionControl(part) {
			return true
		}
	}
	return false
}
