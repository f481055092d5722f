package filesystem

import (
	"context"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/internal/beneath"
	"github.com/toolhost/toolhost/service/filesystem/internal/commit"
)

// The changes of what a name stands for: moved, removed, made.

func (d *draft) move(ctx context.Context, from, to string) error {
	there := &item{spelled: to}
	return d.add(ctx, item{spelled: from, itself: true, to: there, work: func(ctx context.Context, t target) error {
		return d.rename(ctx, t, there.target)
	}})
}

func mustBeFree(to target) error {
	switch {
	case !to.there:
		return nil
	case to.info.Kind == service.Directory:
		return &service.FileError{Kind: service.FileExists, Path: to.spelled, Detail: "is a directory that is there; name the new path in full"}
	default:
		return &service.FileError{Kind: service.FileExists, Path: to.spelled, Detail: "is there already, and is not replaced; remove it first, or choose another name"}
	}
}

// rename gives what is there another name.
func (d *draft) rename(ctx context.Context, t, to target) error {
	if err := mustBeFree(to); err != nil {
		return err
	}
	for _, named := range []target{t, to} {
		if err := mustBeNamed(named, t.info.Kind); err != nil {
			return err
		}
	}
	if strings.HasPrefix(to.resolved, t.resolved+"/") {
		return badPath(to.spelled, "lies within what is moved")
	}
	if err := d.beginIn(ctx, t); err != nil {
		return err
	}
	if err := d.beginIn(ctx, to); err != nil {
		return err
	}
	d.judge(t)
	d.judge(to)
	change := service.FileChange{Kind: service.FileMoved, Path: to.spelled, Resolved: to.resolved, From: t.resolved, Size: t.info.Size}
	before, within := commit.Before{Info: t.info}, ""
	switch t.info.Kind {
	case service.Directory:
		change.Kind, change.Size = service.DirectoryMoved, 0
		tree, err := d.tree(ctx, t)
		if err != nil {
			return err
		}
		if err := d.moveTree(ctx, t, to, tree); err != nil {
			return err
		}
		if len(tree) > 0 {
			change.Notes = []string{withinIt(tree)}
		}
		within = " " + withinIt(tree)
	case service.Symlink:
		target, err := beneath.Readlink(int(d.system.dir.Fd()), t.resolved)
		if err != nil {
			return err
		}
		before.Target, change.Size = target, 0
	case service.RegularFile:
		if err := d.moveFile(ctx, t, to); err != nil {
			return err
		}
	}
	d.steps = append(d.steps, commit.Step{Kind: commit.Move, Path: t.resolved, To: to.resolved, Before: before})
	d.note("moved: %s -> %s%s", plain(t.resolved), plain(to.resolved), within)
	d.staged.Files = append(d.staged.Files, change)
	return nil
}

// moveFile sees that a file may have its new name; what the session saw of it goes along.
func (d *draft) moveFile(ctx context.Context, t, to target) error {
	if err := d.uncovered(ctx, t, to); err != nil {
		return err
	}
	if saw, ok, err := d.system.seen(ctx, d.caller.Session, t.resolved); err == nil && ok {
		d.saw = append(d.saw, sight{path: to.resolved, content: saw})
	}
	return nil
}

// moveTree is moveFile for all that is in a directory.
func (d *draft) moveTree(ctx context.Context, t, to target, tree []commit.Entry) error {
	if err := d.judgeTree(ctx, t, tree); err != nil {
		return err
	}
	if err := d.judgeTree(ctx, to, tree); err != nil {
		return err
	}
	for _, e := range tree {
		if e.Info.Kind != service.RegularFile {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := d.moveFile(ctx, below(t, e), below(to, e)); err != nil {
			return describe(under(t.spelled, e.Path), err)
		}
	}
	return nil
}

func (d *draft) remove(ctx context.Context, spelled string, recursive bool) error {
	return d.add(ctx, item{spelled: spelled, itself: true, work: func(ctx context.Context, t target) error {
		return d.takeAway(ctx, t, recursive)
	}})
}

// takeAway removes what has a name.
func (d *draft) takeAway(ctx context.Context, t target, recursive bool) error {
	if t.slash && t.info.Kind != service.Directory {
		return &service.FileError{Kind: service.FileNotDirectory, Detail: "ends in a slash, and is no directory"}
	}
	if err := d.beginIn(ctx, t); err != nil {
		return err
	}
	d.judge(t)
	change := service.FileChange{Kind: service.FileRemoved, Path: t.spelled, Resolved: t.resolved, Names: t.info.Names - 1}
	before := commit.Before{Info: t.info}
	switch t.info.Kind {
	case service.Directory:
		change.Kind, change.Names = service.DirectoryRemoved, 0
		tree, err := d.tree(ctx, t)
		if err != nil {
			return err
		}
		if len(tree) > 0 && !recursive {
			return d.notEmpty(t, tree)
		}
		if err := d.judgeTree(ctx, t, tree); err != nil {
			return err
		}
		if err := d.knownTree(ctx, t, tree); err != nil {
			return err
		}
		before.Tree = tree
		if len(tree) > 0 {
			change.Notes = []string{withinIt(tree)}
		}
		d.noteTree(t, tree)
	case service.Symlink:
		target, err := beneath.Readlink(int(d.system.dir.Fd()), t.resolved)
		if err != nil {
			return err
		}
		before.Target = target
		change.Notes = []string{"link to " + plain(target)}
		d.note("removed: link %s -> %s", plain(t.resolved), plain(target))
	case service.RegularFile:
		if t.info.Size > service.MaxContent {
			before.Unread = true
			d.note("removed: %s (%d bytes)", plain(t.resolved), t.info.Size)
			break
		}
		old, digest, err := d.content(ctx, t)
		if err != nil {
			return err
		}
		if err := d.known(ctx, t, digest, false); err != nil {
			return err
		}
		before.Digest = digest
		if err := d.show(ctx, t, &change, old, nil); err != nil {
			return err
		}
	default:
		d.note("removed: %s, which is no regular file", plain(t.resolved))
	}
	d.steps = append(d.steps, commit.Step{Kind: commit.Remove, Path: t.resolved, Before: before})
	d.staged.Irreversible = true
	d.staged.Files = append(d.staged.Files, change)
	return nil
}

func (d *draft) makeDirectory(ctx context.Context, spelled string) error {
	return d.add(ctx, item{spelled: spelled, work: func(ctx context.Context, t target) error {
		if t.there && t.info.Kind == service.Directory {
			return nil
		}
		if t.there {
			return &service.FileError{Kind: service.FileExists, Detail: "is a file that is there already"}
		}
		t.missing = append(t.missing, t.resolved)
		if err := d.beginIn(ctx, t); err != nil {
			return err
		}
		d.judge(t)
		d.staged.Files = append(d.staged.Files, service.FileChange{Kind: service.DirectoryMade, Path: t.spelled, Resolved: t.resolved})
		return nil
	}})
}

// maxTreeNamed is how much of what is in a removed directory is named in what is shown.
const maxTreeNamed = 100

// entryBytes is what an entry of a directory takes, beside its paths.
const entryBytes = 200

func (d *draft) tree(ctx context.Context, t target) ([]commit.Entry, error) {
	parent, err := beneath.Open(int(d.system.dir.Fd()), path.Dir(t.resolved), unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer beneath.Close(parent)
	tree, err := commit.Tree(ctx, parent, path.Base(t.resolved), commit.MaxEntries)
	if err != nil {
		return nil, err
	}
	size := 0
	for _, e := range tree {
		size += entryBytes + len(e.Path) + len(t.spelled) + len(t.resolved) + 2*len(e.Path)
	}
	return tree, d.hold(int64(size))
}

func (d *draft) notEmpty(t target, tree []commit.Entry) error {
	how := "more"
	if d.listed(t) {
		how = fmt.Sprintf("%d files and directories", len(tree))
	}
	return &service.FileError{
		Kind: service.FileIsDirectory, Detail: fmt.Sprintf("is a directory with %s in it; it is removed with all of it if recursive is true", how),
	}
}

// judgeTree has what is in a directory judged too: what may not be changed without
// being asked for is asked for by its name, as far as that can be looked through.
// The rest is asked for with the directory itself.
func (d *draft) judgeTree(ctx context.Context, t target, tree []commit.Entry) error {
	itself := false
	for _, spelling := range t.resources() {
		itself = itself || !d.caller.Gate.Allows(service.ActionEdit, spelling)
	}
	named := 0
	for _, e := range tree {
		inside := below(t, e)
		if err := d.permit(ctx, service.ActionEdit, inside); err != nil {
			return err
		}
		d.judged = append(d.judged, inside.resources()...)
		allowed := true
		for _, spelling := range inside.resources() {
			allowed = allowed && d.caller.Gate.Allows(service.ActionEdit, spelling)
		}
		if allowed {
			continue
		}
		if named++; named <= service.MaxChangedFiles {
			d.staged.Resources = append(d.staged.Resources, inside.resources()...)
		} else if !itself {
			return &service.FileError{
				Kind: service.FileTooLarge, Detail: fmt.Sprintf("has more than %d files in it that must be asked for; take them in several calls", service.MaxChangedFiles),
			}
		}
	}
	return nil
}

// withinIt says how much is in a directory.
func withinIt(tree []commit.Entry) string {
	return fmt.Sprintf("with %d files and directories in it", len(tree))
}

func (d *draft) noteTree(t target, tree []commit.Entry) {
	d.revealed = d.revealed && d.listed(t)
	for _, e := range tree {
		d.revealed = d.revealed && d.listed(below(t, e))
	}
	d.note("removed: directory %s %s", plain(t.resolved), withinIt(tree))
	for _, e := range tree[:min(len(tree), maxTreeNamed)] {
		d.note("  %s", plain(e.Path))
	}
	if more := len(tree) - maxTreeNamed; more > 0 {
		d.note("  and %d more", more)
	}
}
