package filesystem

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/internal/beneath"
	"github.com/toolhost/toolhost/service/filesystem/internal/commit"
	"github.com/toolhost/toolhost/service/filesystem/internal/edit"
	"github.com/toolhost/toolhost/service/filesystem/internal/patch"
	"github.com/toolhost/toolhost/service/filesystem/internal/text"
)

func (d *draft) write(ctx context.Context, c service.WriteFile) error {
	if err := checkSize("content", len(c.Content)); err != nil {
		return err
	}
	return d.add(ctx, item{spelled: c.Path, work: func(ctx context.Context, t target) error {
		if !t.there {
			if t.slash {
				return &service.FileError{Kind: service.FileBadPath, Detail: "ends in a slash, and a file is to be written; name the file"}
			}
			return d.put(ctx, t, nil, c.Content, [sha256.Size]byte{})
		}
		if c.CreateOnly {
			return &service.FileError{Kind: service.FileExists, Detail: "is there already, and was only to be created; read it first, or choose another name"}
		}
		old, digest, err := d.content(ctx, t)
		if err != nil {
			return err
		}
		content := text.Like(old, c.Content)
		same := bytes.Equal(old, content)
		if same && d.reading(t) == freely {
			return nil // nothing is to be done
		}
		if err := d.known(ctx, t, digest, true); err != nil || same {
			return err
		}
		return d.put(ctx, t, old, content, digest)
	}})
}

func (d *draft) edit(ctx context.Context, c service.EditFile) error {
	size := 0
	replacements := make([]edit.Replacement, len(c.Replacements))
	for i, r := range c.Replacements {
		size += len(r.Old) + len(r.New)
		replacements[i] = edit.Replacement{Old: r.Old, New: r.New, All: r.All}
	}
	if len(replacements) > service.MaxReplacements {
		return badQuery("%d replacements are too many for one call: at most %d", len(replacements), service.MaxReplacements)
	}
	if err := checkSize("the replacements", size); err != nil {
		return err
	}
	return d.add(ctx, item{spelled: c.Path, work: func(ctx context.Context, t target) error {
		return d.rework(ctx, t, func(old []byte) ([]byte, error) {
			result, err := edit.Apply(ctx, old, replacements, d.readable(t))
			return result.Content, err
		})
	}})
}

// rework gives a file that is there the content that follows from what it has.
func (d *draft) rework(ctx context.Context, t target, follow func(old []byte) ([]byte, error)) error {
	if !t.there {
		return &service.FileError{Kind: service.FileNotFound, Detail: "does not exist; write makes new files"}
	}
	if err := d.compared(ctx, t); err != nil {
		return err
	}
	old, digest, err := d.content(ctx, t)
	if err != nil {
		return err
	}
	content, err := follow(old)
	if err != nil {
		return err
	}
	if bytes.Equal(old, content) {
		return nil
	}
	return d.put(ctx, t, old, content, digest)
}

func (d *draft) patch(ctx context.Context, c service.ApplyPatch) error {
	if err := checkSize("the patch", len(c.Text)); err != nil {
		return err
	}
	files, err := patch.Parse(ctx, c.Text)
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := d.patchFile(ctx, file); err != nil {
			return err
		}
	}
	return nil
}

func (d *draft) patchFile(ctx context.Context, file patch.File) error {
	switch file.Kind {
	case patch.Add:
		return d.add(ctx, item{spelled: file.New, work: func(ctx context.Context, t target) error {
			if t.there {
				return &service.FileError{Kind: service.FileExists, Detail: "is there already, and the patch adds it"}
			}
			if err := mustBeNamed(t, service.RegularFile); err != nil {
				return err
			}
			content, err := file.Apply(ctx, nil, true)
			if err != nil {
				return err
			}
			return d.put(ctx, t, nil, content, [sha256.Size]byte{})
		}})
	case patch.Delete:
		return d.add(ctx, item{spelled: file.Old, itself: true, work: func(ctx context.Context, t target) error {
			if t.info.Kind == service.RegularFile && len(file.Hunks) > 0 {
				if err := d.emptied(ctx, t, file); err != nil {
					return err
				}
			}
			return d.takeAway(ctx, t, false)
		}})
	case patch.Move:
		to := &item{spelled: file.New}
		return d.add(ctx, item{spelled: file.Old, itself: true, to: to, work: func(ctx context.Context, t target) error {
			return d.patchMoved(ctx, t, to.target, file)
		}})
	default:
		return d.add(ctx, item{spelled: file.Old, work: func(ctx context.Context, t target) error {
			return d.rework(ctx, t, func(old []byte) ([]byte, error) { return file.Apply(ctx, old, d.readable(t)) })
		}})
	}
}

// emptied sees that a file that a patch deletes holds what the patch says.
func (d *draft) emptied(ctx context.Context, t target, file patch.File) error {
	if err := d.compared(ctx, t); err != nil {
		return err
	}
	old, _, err := d.content(ctx, t)
	if err != nil {
		return err
	}
	left, err := file.Apply(ctx, old, d.readable(t))
	if err == nil && len(left) > 0 {
		err = &service.FileError{Kind: service.FileNoMatch, Detail: "has more in it than the patch deletes; nothing was changed"}
	}
	return err
}

// patchMoved moves a file, with other content if the patch changes it.
func (d *draft) patchMoved(ctx context.Context, t, to target, file patch.File) error {
	if len(file.Hunks) == 0 {
		return d.rename(ctx, t, to)
	}
	if err := mustBeFree(to); err != nil {
		return err
	}
	if err := mustBeNamed(to, service.RegularFile); err != nil {
		return err
	}
	if err := d.compared(ctx, t); err != nil { // nor is it uncovered then
		return err
	}
	old, digest, err := d.content(ctx, t)
	if err != nil {
		return err
	}
	content, err := file.Apply(ctx, old, d.readable(t))
	if err != nil {
		return err
	}
	if err := d.hold(int64(len(content))); err != nil {
		return err
	}
	if err := d.beginIn(t); err != nil {
		return err
	}
	if err := d.beginIn(to); err != nil {
		return err
	}
	d.judge(t)
	d.judge(to)
	d.steps = append(d.steps,
		commit.Step{Kind: commit.Create, Path: to.resolved, Content: content, Like: t.resolved},
		commit.Step{Kind: commit.Remove, Path: t.resolved, Before: commit.Before{Info: t.info, Digest: digest}})
	d.saw = append(d.saw, sight{path: to.resolved, content: sha256.Sum256(content)})
	change := service.FileChange{
		Kind: service.FileMoved, Path: to.spelled, Resolved: to.resolved, From: t.resolved, Size: int64(len(content)), Names: t.info.Names - 1,
	}
	d.note("moved: %s -> %s", plain(t.resolved), plain(to.resolved))
	if err := d.show(ctx, t, &change, old, content); err != nil {
		return err
	}
	d.staged.Files = append(d.staged.Files, change)
	return nil
}

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
	if err := d.beginIn(t); err != nil {
		return err
	}
	if err := d.beginIn(to); err != nil {
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
	if err := d.beginIn(t); err != nil {
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
	return d.add(ctx, item{spelled: spelled, work: func(_ context.Context, t target) error {
		if t.there && t.info.Kind == service.Directory {
			return nil
		}
		if t.there {
			return &service.FileError{Kind: service.FileExists, Detail: "is a file that is there already"}
		}
		t.missing = append(t.missing, t.resolved)
		if err := d.beginIn(t); err != nil {
			return err
		}
		d.judge(t)
		d.note("directory made: %s", plain(t.resolved))
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
