package commit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/internal/beneath"
)

// State is how a file stands whose change was interrupted.
type State string

// The states of a file, link or directory that was being changed.
const (
	// Unchanged: it is as it was before.
	Unchanged State = "unchanged"
	// Changed: it is as it was to become.
	Changed State = "changed"
	// Partly: a directory was being removed, and what is left of it is under its name.
	Partly State = "partly removed"
	// Left: something of it stands under another name, for the reason that Detail says.
	Left State = "left aside"
	// Gone: its directory is not there any more, or is a link now.
	Gone State = "its directory is gone"
)

// A Recovery is what became of one step of a change whose host was killed.
type Recovery struct {
	Path   string // relative to the root
	State  State
	Detail string // of what is not Changed or Unchanged
}

// maxRecoveries is how many records are looked at in one [Recover].
const maxRecoveries = 1000

// Recover looks at the changes below the open directory root that killed hosts were in
// the middle of, and removes the names that they left. Nothing of a user's is lost by it:
//
//   - new content that is not in place yet is removed, and the file is as it was;
//   - old content that was replaced is removed if it is what the plan says. If it is
//     something else, which somebody wrote at the last moment, it is put back;
//   - what was taken away is put back under its name, unless the whole change was made
//     before its host was killed: then it is removed for good;
//   - what cannot be told, or whose name was taken since, stays where it is, and is said
//     each time.
//
// So each file is whole, and as before the change or as after it; of several, some may
// be the one and some the other. Directories that were made stay.
//
// Whoever recovers the same at the same time finds it being done. ctx ends it; what is
// not done then is found the next time. An error is of a record that cannot be used, and
// keeps no other from being.
func Recover(ctx context.Context, root int, records Records) ([]Recovery, error) {
	if records.Dir == "" {
		return nil, nil
	}
	abandoned, err := records.abandoned(maxRecoveries)
	errs := []error{err}
	var all []Recovery
	for _, r := range abandoned {
		if ctx.Err() != nil {
			errs = append(errs, r.release())
			continue
		}
		did, over, err := r.recover(ctx, root, records)
		all = append(all, did...)
		if over && err == nil {
			err = r.remove()
		} else {
			err = errors.Join(err, r.release())
		}
		errs = append(errs, err)
	}
	if ctx.Err() != nil {
		errs = append(errs, context.Cause(ctx))
	}
	return all, errors.Join(errs...)
}

// recover deals with one record. It is over if nothing is left that the record would be
// needed for.
func (r *record) recover(ctx context.Context, root int, records Records) (did []Recovery, over bool, err error) {
	what, at, err := r.read()
	if err != nil || !at.begun {
		return nil, true, err
	}
	if string(what.Root) != records.Root {
		return nil, false, fmt.Errorf("record %s is of another root: %q", r.file.Name(), what.Root)
	}
	over = true
	for _, i := range what.Steps {
		if i.Kind == MakeDirectory {
			continue
		}
		o := &orphan{intended: i, progress: at, path: string(i.Path), name: path.Base(string(i.Path)), aside: string(i.Aside)}
		o.unmade = !at.ready && slices.ContainsFunc(what.Steps, func(j intended) bool {
			return j.Kind == MakeDirectory && string(j.Path) == dirOf(o.path)
		})
		state, detail := o.recover(ctx, root)
		if state == Left && ctx.Err() != nil {
			over = false // it was not looked at to the end
			break
		}
		if state == Left {
			over = false
			detail = fmt.Sprintf("%s stands beside it, %s", path.Join(dirOf(o.path), o.aside), detail)
		}
		did = append(did, Recovery{Path: o.path, State: state, Detail: detail})
	}
	return did, over, nil
}

// An orphan is a step whose host was killed.
type orphan struct {
	intended
	progress
	path, name, aside string
	unmade            bool // its directory was to be made, and nothing says that it was
}

// recover deals with the step; what fails is left.
func (o *orphan) recover(ctx context.Context, root int) (State, string) {
	state, detail, err := o.within(ctx, root)
	if err != nil {
		return Left, "and cannot be dealt with: " + err.Error()
	}
	return state, detail
}

// within opens the directory and deals with what is in it.
func (o *orphan) within(ctx context.Context, root int) (State, string, error) {
	if o.Kind == Move {
		_, err := beneath.Lstat(root, string(o.To))
		return o.was(err == nil), "", nil
	}
	dir, err := beneath.Open(root, dirOf(o.path), unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		switch {
		case beneath.Vanished(err) && o.unmade:
			return Unchanged, "", nil
		case beneath.Vanished(err):
			return Gone, fmt.Sprintf("if it was moved, what stood for the file may be in it as %s", o.aside), nil
		}
		return Left, "", err
	}
	defer beneath.Close(dir)
	left, err := beneath.LstatName(dir, o.aside)
	switch {
	case errors.Is(err, unix.ENOENT):
		return o.stands(ctx, dir), "", nil
	case err != nil:
		return Left, "", err
	}
	state, detail, err := o.settle(ctx, dir, left)
	return state, detail, errors.Join(err, beneath.Sync(dir))
}

func (o *orphan) was(changed bool) State {
	if changed {
		return Changed
	}
	return Unchanged
}

// stands says whether the change of a name was made of which nothing is left.
func (o *orphan) stands(ctx context.Context, dir int) State {
	if o.Kind == Remove {
		_, err := beneath.LstatName(dir, o.name)
		return o.was(errors.Is(err, unix.ENOENT))
	}
	return o.was(o.has(ctx, dir, o.name, o.Content))
}

// settle deals with what stands beside.
func (o *orphan) settle(ctx context.Context, dir int, left beneath.Info) (State, string, error) {
	if named, err := beneath.LstatName(dir, o.name); err == nil && named.Same(left) && left.Kind != service.Directory {
		// It was being moved where that takes two steps, and has both names.
		return o.was(o.Kind == Create), "", beneath.Unlink(dir, o.aside)
	}
	switch {
	case o.Kind == Remove:
		return o.settleRemoved(ctx, dir, left)
	case left.Kind != service.RegularFile:
		return Left, "and is no file", nil
	case !o.ready, o.has(ctx, dir, o.aside, o.Content):
		return Unchanged, "", o.drop(ctx, dir)
	case o.Kind == Replace && o.has(ctx, dir, o.aside, o.Digest):
		return Changed, "", o.drop(ctx, dir)
	case o.Kind == Replace && o.has(ctx, dir, o.name, o.Content):
		return o.exchangeBack(ctx, dir)
	}
	return Left, "and holds what somebody wrote there", nil
}

// drop removes what stands beside, unless the context ended while it was looked at.
func (o *orphan) drop(ctx context.Context, dir int) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return beneath.Unlink(dir, o.aside)
}

// exchangeBack puts back what somebody wrote at the moment of the exchange.
func (o *orphan) exchangeBack(ctx context.Context, dir int) (State, string, error) {
	if err := beneath.Exchange(dir, o.aside, o.name); err != nil {
		return Left, "", err
	}
	if !o.has(ctx, dir, o.aside, o.Content) {
		return Left, "and holds what somebody wrote there", nil
	}
	return Unchanged, "", o.drop(ctx, dir)
}

// settleRemoved deals with what was taken away.
func (o *orphan) settleRemoved(ctx context.Context, dir int, left beneath.Info) (State, string, error) {
	removed := Unchanged
	if o.done {
		switch {
		case left.Kind == service.Directory:
			tree := make([]Entry, 0, len(o.Tree))
			for _, e := range o.Tree {
				tree = append(tree, Entry{string(e.Path), e.Info})
			}
			if newRemoval(tree).run(dir, o.aside) == nil {
				return Changed, "", nil
			}
			removed = Partly
		case o.isExpected(ctx, dir, left):
			return Changed, "", o.drop(ctx, dir)
		}
	}
	switch err := beneath.Move(dir, o.aside, dir, o.name); {
	case errors.Is(err, unix.EEXIST):
		return Left, "and its name was taken since", nil
	case err != nil:
		return Left, "", err
	case removed == Partly:
		return Partly, "there is something in it that was not there when its removal was approved, or that cannot be removed", nil
	}
	return removed, "", nil
}

// isExpected says whether what was taken away is what the plan says.
func (o *orphan) isExpected(ctx context.Context, dir int, left beneath.Info) bool {
	switch {
	case left.Kind != o.Info.Kind:
		return false
	case left.Kind == service.Symlink:
		target, err := beneath.ReadlinkName(dir, o.aside)
		return err == nil && target == string(o.Target)
	case left.Kind != service.RegularFile:
		return left.Same(o.Info)
	case o.Unread:
		return left.Unwritten(o.Info)
	}
	return o.has(ctx, dir, o.aside, o.Digest)
}

// has says whether a name is a file with that digest.
func (o *orphan) has(ctx context.Context, dir int, name string, digest []byte) bool {
	fd, err := openFile(dir, name)
	if err != nil {
		return false
	}
	defer beneath.Close(fd)
	got, err := Digest(ctx, fd)
	return err == nil && bytes.Equal(got[:], digest)
}
