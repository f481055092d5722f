package filesystem

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/internal/unseen"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/internal/beneath"
	"github.com/toolhost/toolhost/service/filesystem/internal/commit"
	"github.com/toolhost/toolhost/service/filesystem/internal/diff"
)

// A draft is a change that is being worked out.
type draft struct {
	system      *FileSystem
	caller      Caller
	items       []item
	directories map[string]beneath.Info
	made        map[string]bool // directories that the change makes
	revealed    bool            // the caller may read all that the change shows

	staged service.Staged
	judged []string
	steps  []commit.Step
	saw    []sight
	size   int64 // that is reserved
	lent   int64 // of it, until the item is worked out
	diff   strings.Builder
	// ended says that the diff ends with that of a file, unnoted how many notes had no
	// room in it.
	ended   bool
	unnoted int
}

// An item is one file or directory of a change.
type item struct {
	spelled string // as it was asked for
	target  target
	itself  bool // the last part of its path is not followed
	to      *item
	// work adds to the draft what is to be done, when the target's turn has come.
	work func(ctx context.Context, t target) error
}

// add finds the target of an item.
func (d *draft) add(ctx context.Context, i item) error {
	t, err := d.find(ctx, &i)
	if err != nil {
		return err
	}
	i.target = t
	if i.to != nil {
		if i.to.target, err = d.find(ctx, i.to); err != nil {
			return err
		}
	}
	if len(d.items) >= service.MaxChangedFiles {
		return badQuery("the change is about more than %d files; make it in several calls", service.MaxChangedFiles)
	}
	d.items = append(d.items, i)
	return nil
}

func (d *draft) find(ctx context.Context, i *item) (t target, err error) {
	if i.itself {
		t, err = d.system.itself(ctx, i.spelled)
	} else {
		t, err = d.system.target(ctx, i.spelled)
	}
	if err != nil {
		return t, describe(i.spelled, d.system.suggest(ctx, d.caller.Gate, i.spelled, err))
	}
	return t, nil
}

// paths are those of the files whose turn the change waits for.
func (d *draft) paths() []string {
	var paths []string
	for _, i := range d.items {
		paths = append(paths, i.target.resolved)
		if i.to != nil {
			paths = append(paths, i.to.target.resolved)
		}
	}
	return paths
}

// stage works out every item, when their turn has come.
func (d *draft) stage(ctx context.Context) (*Stage, error) {
	var about places
	for _, i := range d.items {
		// Whoever had the turn before may have put another file there.
		now, err := d.find(ctx, &i)
		if err == nil && i.to != nil {
			i.to.target, err = d.find(ctx, i.to)
		}
		if err != nil {
			return nil, err
		}
		if now.resolved != i.target.resolved {
			return nil, describe(i.spelled, errUnsteady())
		}
		both := []target{now}
		if i.to != nil {
			both = append(both, i.to.target)
		}
		if err := about.add(both...); err != nil {
			return nil, err
		}
		err = d.permit(ctx, service.ActionEdit, now)
		if err == nil && i.to != nil {
			err = d.permit(ctx, service.ActionEdit, i.to.target)
		}
		if err == nil {
			err = i.work(ctx, now)
		}
		d.release()
		if err != nil {
			return nil, describe(i.spelled, err)
		}
	}
	d.staged.Diff = d.shown()
	d.staged.Resources = slices.Compact(d.staged.Resources)
	return &Stage{
		system: d.system, staged: d.staged, revealed: d.revealed, session: d.caller.Session, judged: d.judged,
		plan: commit.Plan{Directories: d.directories, Steps: d.steps, Records: d.system.records}, saw: d.saw, size: d.size,
	}, nil
}

// hold reserves bytes until the stage is done with.
func (d *draft) hold(size int64) error {
	err := d.system.staged.take(d.caller.Session, size)
	if err == nil {
		d.size += size
	}
	return err
}

// lend reserves bytes until the item is worked out.
func (d *draft) lend(size int64) error {
	err := d.hold(size)
	if err == nil {
		d.lent += size
	}
	return err
}

// release gives back what was lent.
func (d *draft) release() {
	d.system.staged.give(d.caller.Session, d.lent)
	d.size -= d.lent
	d.lent = 0
}

// places are those that one change is about. No two of them may be one, or one within
// the other: what is done to the first would change what the second is.
type places []target

// add takes down what one item is about.
func (p *places) add(all ...target) error {
	for _, t := range all {
		for _, other := range *p {
			switch {
			case other.resolved == t.resolved:
				return badQuery("the change is about %s twice; say all of it at once, or make two calls", plain(t.resolved))
			case strings.HasPrefix(t.resolved, other.resolved+"/"), strings.HasPrefix(other.resolved, t.resolved+"/"):
				return badQuery("the change is about %s and about %s, of which one lies within the other; make two calls", plain(other.resolved), plain(t.resolved))
			case t.there && other.there && t.info.Kind == service.RegularFile && t.info.Same(other.info):
				return badQuery("%s and %s are two names of one file (hard links); change one of them in a call", plain(other.resolved), plain(t.resolved))
			}
		}
	}
	*p = append(*p, all...)
	return nil
}

// judge takes down under which paths a file is judged.
func (d *draft) judge(t target) {
	d.staged.Resources = append(d.staged.Resources, t.resources()...)
	d.judged = append(d.judged, t.resources()...)
}

// beginIn remembers the directory that a target is in, and makes those that are
// missing. A rule that denies one of these holds: nobody asks for them by themselves, and
// whoever is asked sees them.
func (d *draft) beginIn(ctx context.Context, t target) error {
	there := path.Dir(t.resolved)
	if len(t.missing) > 0 {
		there = path.Dir(t.missing[0])
	}
	for _, dir := range t.missing {
		if d.made[dir] {
			continue
		}
		d.made[dir] = true
		way := t.above(dir)
		if err := d.permit(ctx, service.ActionEdit, way); err != nil {
			return err
		}
		d.judged = append(d.judged, way.resources()...)
		d.note("directory made: %s", plain(dir))
		d.steps = append(d.steps, commit.Step{Kind: commit.MakeDirectory, Path: dir})
	}
	info, err := beneath.Lstat(int(d.system.dir.Fd()), there)
	if err != nil {
		return err
	}
	if info.Kind != service.Directory {
		return errUnsteady()
	}
	d.directories[there] = info
	return nil
}

// content is the content of a file that is there, and its digest.
func (d *draft) content(ctx context.Context, t target) ([]byte, [sha256.Size]byte, error) {
	var digest [sha256.Size]byte
	switch t.info.Kind {
	case service.RegularFile:
	case service.Directory:
		return nil, digest, &service.FileError{Kind: service.FileIsDirectory, Detail: "is a directory, and only files have content to be changed"}
	default:
		return nil, digest, errSpecial()
	}
	if t.slash {
		return nil, digest, &service.FileError{Kind: service.FileNotDirectory, Detail: "ends in a slash, and is a file"}
	}
	if err := d.lend(t.info.Size); err != nil {
		return nil, digest, err
	}
	fd, err := d.openAgain(t)
	if err != nil {
		return nil, digest, err
	}
	defer beneath.Close(fd)
	content, err := commit.Read(ctx, fd, t.info.Size)
	if err != nil {
		return nil, digest, err
	}
	return content, sha256.Sum256(content), nil
}

// openAgain opens the file that a target is.
func (d *draft) openAgain(t target) (int, error) {
	fd, err := beneath.Open(int(d.system.dir.Fd()), t.resolved, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return -1, err
	}
	info, err := beneath.Stat(fd)
	if err == nil && !info.Same(t.info) {
		err = errUnsteady()
	}
	if err != nil {
		beneath.Close(fd)
		return -1, err
	}
	return fd, nil
}

// digest is the digest of a file that is there.
func (d *draft) digest(ctx context.Context, t target) (digest [sha256.Size]byte, err error) {
	fd, err := d.openAgain(t)
	if err != nil {
		return digest, err
	}
	defer beneath.Close(fd)
	return commit.Digest(ctx, fd)
}

// put adds that a file gets new content.
func (d *draft) put(ctx context.Context, t target, old, content []byte, digest [sha256.Size]byte) error {
	if len(content) > service.MaxContent {
		return &service.FileError{Kind: service.FileTooLarge, Detail: "would be too large: at most 64 MiB"}
	}
	if err := d.hold(int64(len(content))); err != nil {
		return err
	}
	if err := d.beginIn(ctx, t); err != nil {
		return err
	}
	if content == nil {
		content = []byte{} // there is a file, and it is empty
	}
	step := commit.Step{Kind: commit.Create, Path: t.resolved, Content: content}
	change := service.FileChange{Kind: service.FileCreated, Path: t.spelled, Resolved: t.resolved, Size: int64(len(content))}
	if t.there {
		step.Kind, step.Before = commit.Replace, commit.Before{Info: t.info, Digest: digest}
		change.Kind, change.Names = service.FileChanged, t.info.Names-1
	}
	d.judge(t)
	d.steps = append(d.steps, step)
	d.saw = append(d.saw, sight{path: t.resolved, content: sha256.Sum256(content)})
	if err := d.show(ctx, t, &change, old, content); err != nil {
		return err
	}
	d.staged.Files = append(d.staged.Files, change)
	return nil
}

// show adds the diff of a file; a nil side is that there is none.
func (d *draft) show(ctx context.Context, t target, change *service.FileChange, old, content []byte) error {
	d.revealed = d.revealed && (old == nil || d.readable(t))
	if old != nil && content != nil && t.info.RunsAs {
		d.note("runs as another user or group no more: %s, as after any write", plain(t.resolved))
		change.Notes = append(change.Notes, "runs as another user or group no more")
	}
	if old != nil && t.info.ReadOnly {
		d.note("read-only file: %s, which does not keep it from being changed", plain(t.resolved))
		change.Notes = append(change.Notes, "read-only file, which did not keep it from being changed")
	}
	text, stat, err := diff.Unified(ctx, t.resolved, old, content, max(0, service.MaxDiff-d.diff.Len()))
	if err != nil {
		return err
	}
	if text != "" {
		d.apart()
		d.diff.WriteString(text)
		d.ended = true
	}
	change.Added, change.Removed = stat.Added, stat.Removed
	for note := range strings.Lines(stat.Notes) {
		change.Notes = append(change.Notes, strings.TrimSuffix(note, "\n"))
	}
	if old != nil && (stat.Cut > 0 || stat.Hidden > 0 || stat.Lossy || stat.Binary) {
		d.staged.Irreversible = true
	}
	return nil
}

// note adds a line to what is shown, or counts it if there is no room.
func (d *draft) note(format string, args ...any) {
	if d.diff.Len() >= service.MaxDiff {
		d.unnoted++
		return
	}
	d.apart()
	fmt.Fprintf(&d.diff, format+"\n", args...)
}

// apart puts an empty line after the diff of a file, so that what follows is none of
// that file's lines.
func (d *draft) apart() {
	if d.ended {
		d.diff.WriteByte('\n')
		d.ended = false
	}
}

// shown is the diff with its notes, and says how many notes are missing.
func (d *draft) shown() string {
	if d.unnoted > 0 {
		d.apart()
		fmt.Fprintf(&d.diff, "[%d more lines about what is moved, removed or made are left out]\n", d.unnoted)
	}
	return d.diff.String()
}

// plain is a path as a line shows it: quoted where it has what could not be seen, or
// could be taken for something else.
func plain(name string) string {
	odd := strings.HasPrefix(name, `"`) || strings.TrimSpace(name) != name || strings.Contains(name, " -> ")
	if odd || strings.ContainsFunc(name, func(r rune) bool { return r == unicode.ReplacementChar || unseen.Is(r) }) {
		return unseen.Quote(name)
	}
	return name
}

// mustBeNamed refuses the name of a directory where one of a file is needed.
func mustBeNamed(t target, what service.FileKind) error {
	if t.slash && what != service.Directory {
		return &service.FileError{
			Kind: service.FileNotDirectory, Path: t.spelled, Detail: "ends in a slash, and is no directory; name the file without it",
		}
	}
	return nil
}
