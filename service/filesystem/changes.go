package filesystem

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/service"
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
			return d.unreadable(err, old)
		}
		return d.put(ctx, t, old, content, digest)
	}})
}

// unreadable says of a file that must be read first, and cannot be, what to do in place
// of that.
func (d *draft) unreadable(err error, old []byte) error {
	known, ok := errors.AsType[*service.FileError](err)
	if !ok || known.Kind != service.FileUnread || !text.Probe(old[:min(len(old), text.ProbeBytes)]).Binary && text.MediaType(old) == "" {
		return err
	}
	return &service.FileError{Kind: service.FileUnread, Detail: "is there, and is no text that could be read first; remove it, then write it"}
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
		return d.absent(ctx, t)
	}
	old, digest, err := d.comparable(ctx, t)
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

// absent says that a file is not there, and what is near (case A07).
func (d *draft) absent(ctx context.Context, t target) error {
	parts := []string{t.resolved}
	if len(t.missing) > 0 {
		parts = []string{t.missing[0], strings.TrimPrefix(t.resolved, t.missing[0]+"/")}
	}
	m := &missing{parent: path.Dir(parts[0]), name: path.Base(parts[0]), rest: path.Join(parts[1:]...), err: unix.ENOENT}
	if err := d.system.suggest(ctx, d.caller.Gate, t.spelled, m); !errors.Is(err, m) {
		return err
	}
	return &service.FileError{Kind: service.FileNotFound, Detail: "does not exist; write makes new files"}
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
	old, _, err := d.comparable(ctx, t)
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
	old, digest, err := d.comparable(ctx, t)
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
	if err := d.beginIn(ctx, t); err != nil {
		return err
	}
	if err := d.beginIn(ctx, to); err != nil {
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
