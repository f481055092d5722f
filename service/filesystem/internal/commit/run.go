package commit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/internal/beneath"
)

// Run makes the changes of the plan below the open directory root: all of them, which
// are then on the disk, or none. ctx ends it until the last content is written;
// afterwards it is finished, which takes a moment. Errors are [*service.FileError]s of the kind
// FileStale where something is not as the plan says, others where the system refuses,
// or the context's cause. An error names what could not be taken back, if there is
// something.
//
// Of two plans about the same files that run at the same time, each step sees what
// the other's did, or is the one that is seen.
func Run(ctx context.Context, root int, plan Plan) error {
	r := newRun(root, plan)
	defer r.close()
	var err error
	if r.record, err = plan.Records.begin(r.actions); err != nil {
		return unrecorded(err)
	}
	err = r.begin(ctx)
	if err == nil {
		err = r.mark(readyMark)
	}
	if err == nil {
		err = r.show()
	}
	if err == nil {
		err = r.mark(doneMark)
	}
	if err != nil {
		return r.back(err)
	}
	return r.finish()
}

// mark records how far the run is.
func (r *run) mark(mark string) error {
	if err := r.record.mark(mark); err != nil {
		return unrecorded(err)
	}
	return nil
}

// A run is one plan that is being carried out.
type run struct {
	root     int
	expected map[string]beneath.Info
	made     map[string]beneath.Info // directories that this run made, or found made
	open     map[string]int          // directories by path
	actions  []*action
	record   *record // nil: it is recorded nowhere
	left     bool    // something stands beside that the record is kept for
}

func newRun(root int, plan Plan) *run {
	r := &run{root: root, expected: plan.Directories, made: map[string]beneath.Info{}, open: map[string]int{}}
	for _, s := range plan.Steps {
		r.actions = append(r.actions, &action{Step: s, fd: -1, aside: aside()})
	}
	return r
}

// An action is a step that is being carried out.
type action struct {
	Step
	fd      int          // of the new file; -1 is none
	aside   string       // the name beside that may come to stand for something
	beside  string       // the same once it does; empty before
	ours    beneath.Info // the new file, or the directory that was made
	applied bool
	created bool // a directory was made, and not found
	old     beneath.Info
}

// begin makes the directories, looks at what is there, and writes what will be. But for
// the directories nothing of it is seen yet.
func (r *run) begin(ctx context.Context) error {
	for _, a := range r.actions {
		if a.Kind == MakeDirectory {
			if err := r.mkdir(a); err != nil {
				return named(a.Path, err)
			}
		}
	}
	for _, a := range r.actions {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := r.ready(ctx, a); err != nil {
			return named(a.Path, err)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// show makes the changes seen.
func (r *run) show() error {
	for _, a := range r.actions {
		if err := r.apply(a); err != nil {
			return named(a.Path, err)
		}
	}
	return r.inPlace()
}

// directory opens a directory strictly, and sees that it is the one that it was.
func (r *run) directory(dir string) (int, error) {
	if fd, ok := r.open[dir]; ok {
		return fd, nil
	}
	fd, err := beneath.Open(r.root, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		if beneath.Vanished(err) {
			err = changed("", otherDir)
		}
		return -1, err
	}
	info, err := beneath.Stat(fd)
	if err == nil && !r.is(dir, info) {
		err = changed("", otherDir)
	}
	if err != nil {
		beneath.Close(fd)
		return -1, err
	}
	r.open[dir] = fd
	return fd, nil
}

// is says whether a directory is the one that the plan is about.
func (r *run) is(dir string, info beneath.Info) bool {
	want, known := r.expected[dir]
	if !known {
		want, known = r.made[dir]
	}
	return known && info.Same(want)
}

// mkdir makes a directory. One that somebody else made in the meantime will do: it is
// no link.
func (r *run) mkdir(a *action) error {
	dir, err := r.directory(dirOf(a.Path))
	if err != nil {
		return err
	}
	switch err := beneath.Mkdir(dir, path.Base(a.Path), 0o777); {
	case err == nil:
		a.created = true
	case !errors.Is(err, unix.EEXIST):
		return err
	}
	info, err := beneath.LstatName(dir, path.Base(a.Path))
	if err != nil {
		return err
	}
	if info.Kind != service.Directory {
		return changed("", nowThere)
	}
	a.ours, a.applied = info, true
	r.made[a.Path] = info
	return nil
}

// ready looks at what a step is about, and writes what it puts there.
func (r *run) ready(ctx context.Context, a *action) error {
	if a.Kind == MakeDirectory {
		return nil
	}
	dir, err := r.directory(dirOf(a.Path))
	if err != nil {
		return err
	}
	switch a.Kind {
	case MakeDirectory:
	case Create:
		if a.Like == "" {
			return r.write(a, dir, -1)
		}
		likeDir, err := r.directory(dirOf(a.Like))
		if err != nil {
			return err
		}
		fd, err := openFile(likeDir, path.Base(a.Like))
		if err != nil {
			return err
		}
		defer beneath.Close(fd)
		return r.write(a, dir, fd)
	case Replace:
		fd, err := a.look(ctx, dir, path.Base(a.Path))
		if err != nil {
			return err
		}
		defer beneath.Close(fd)
		return r.write(a, dir, fd)
	case Move:
		if _, err := r.directory(dirOf(a.To)); err != nil {
			return err
		}
	}
	if err := a.check(ctx, dir, path.Base(a.Path)); err != nil {
		return err
	}
	if a.Kind == Remove && a.Before.Info.Kind == service.Directory {
		err := removable(ctx, dir, path.Base(a.Path), a.Before.Tree)
		if known, ok := errors.AsType[*service.FileError](err); ok {
			within := *known
			within.Path = path.Join(a.Path, known.Path)
			return &within
		}
		return err
	}
	return nil
}

// write makes the new file and fills it. It resembles the original, if there is one.
func (r *run) write(a *action, dir, original int) error {
	mode := uint32(0o666)
	if a.Executable {
		mode = 0o777
	}
	fd, err := beneath.Temp(dir, mode)
	if err != nil && beneath.NoTemp(err) {
		if original >= 0 {
			mode = 0o600 // nobody reads it before it resembles the original
		}
		if fd, err = beneath.Create(dir, a.aside, mode); err == nil {
			a.beside = a.aside
		}
	}
	if err != nil {
		return err
	}
	a.fd = fd
	if err := beneath.WriteFull(fd, a.Content); err != nil {
		return err
	}
	if original >= 0 {
		if err := beneath.Resemble(fd, original); err != nil {
			return fmt.Errorf("its owner, mode or attributes cannot be kept: %w", err)
		}
	}
	return beneath.Sync(fd)
}

// asidePrefix is how the names begin that stand beside what is changed.
const asidePrefix = ".toolhost-"

// aside is a name for what is about to be put in place, or was taken away.
func aside() string { return asidePrefix + rand.Text() }

// apply makes the change seen.
func (r *run) apply(a *action) error {
	dir := r.open[dirOf(a.Path)]
	name := path.Base(a.Path)
	switch a.Kind {
	case Create:
		return a.create(dir, name)
	case Replace:
		return a.exchange(dir, name)
	case Remove:
		return a.remove(dir, name)
	case Move:
		return a.move(dir, name, r.open[dirOf(a.To)], path.Base(a.To))
	}
	return nil
}

// inPlace sees that every directory is still where it was, so that what was changed is
// below the root.
func (r *run) inPlace() error {
	for dir, fd := range r.open {
		now, err := beneath.Lstat(r.root, dir)
		if err != nil && !beneath.Vanished(err) {
			return named(dir, err)
		}
		was, statErr := beneath.Stat(fd)
		if err != nil || statErr != nil || !now.Same(was) {
			return changed(dir, movedAway)
		}
	}
	return nil
}

// finish removes what was replaced, and flushes the directories. The change is made by
// then: what goes wrong now is said, and nothing is taken back.
func (r *run) finish() error {
	var errs []error
	for _, a := range r.actions {
		errs = append(errs, a.forget(r.open[dirOf(a.Path)]))
	}
	r.left = errors.Join(errs...) != nil
	for dir, fd := range r.open {
		if err := beneath.Sync(fd); err != nil {
			errs = append(errs, &service.FileError{
				Kind: service.FileIO, Path: dir, Detail: "the change was made, and is not on the disk yet: " + err.Error(),
			})
		}
	}
	return errors.Join(errs...)
}

// back takes back what was done, newest first, and gives the error with what could not
// be taken back.
func (r *run) back(err error) error {
	var left []error
	for _, a := range slices.Backward(r.actions) {
		if undo := a.undo(r); undo != nil {
			left = append(left, &service.FileError{
				Kind: service.FileIO, Path: a.Path, Detail: "its change could not be taken back: " + undo.Error(),
			})
		}
	}
	if r.left = len(left) > 0; r.left {
		return errors.Join(append([]error{err}, left...)...)
	}
	known, ok := errors.AsType[*service.FileError](err)
	if !ok {
		return err
	}
	with := *known
	if known.Kind == service.FileStale {
		with.Detail += again
	} else {
		with.Detail += nothing
	}
	return &with
}

// close releases what the run has open, and its record: what is left of it is for the
// next who recovers.
func (r *run) close() {
	release := r.record.remove
	if r.left {
		release = r.record.release
	}
	_ = release() // one that cannot be removed says nothing that is still so
	for _, a := range r.actions {
		if a.fd >= 0 {
			beneath.Close(a.fd)
		}
	}
	for _, fd := range r.open {
		beneath.Close(fd)
	}
}

// named gives an error of the system the path that it is about.
func named(p string, err error) error {
	if known, ok := errors.AsType[*service.FileError](err); ok {
		if known.Path != "" {
			return err
		}
		with := *known
		with.Path = p
		return &with
	}
	errno, ok := errors.AsType[unix.Errno](err)
	if !ok {
		return err
	}
	e := &service.FileError{Kind: service.FileIO, Path: p, Detail: "cannot be changed: " + err.Error()}
	switch errno {
	case unix.EACCES, unix.EPERM:
		e.Kind, e.Detail = service.FileDenied, "the operating system does not let this user change it: "+err.Error()
	case unix.EEXIST:
		e.Kind, e.Detail = service.FileStale, nowThere
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP:
		e.Kind, e.Detail = service.FileStale, otherFile
	case unix.EXDEV:
		e.Detail = "lies on another filesystem than where it should go"
	case unix.ENOSPC, unix.EDQUOT:
		e.Detail = "there is no room on the disk"
	}
	return e
}
