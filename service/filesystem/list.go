package filesystem

import (
	"context"
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/ignore"
	"github.com/toolhost/toolhost/service/filesystem/internal/beneath"
	"github.com/toolhost/toolhost/service/filesystem/internal/walk"
)

// List gives what is below the directory; see [service.ListQuery]. Links are
// shown and not followed. What the gate does not allow to be listed is counted
// and left out, a directory with all that is in it. Errors are
// [*service.FileError]s, those of the gate, or the context's cause, which ends it
// between two names.
func (r *Root) List(ctx context.Context, query service.ListQuery) (service.Listing, error) {
	ctx, done, err := r.begin(ctx, service.ActionList, r.spellings()...)
	if err != nil {
		return service.Listing{}, describe(r.info.Resource, err)
	}
	defer done()
	listing, err := r.list(ctx, query)
	if err != nil {
		return service.Listing{}, describe(r.info.Resource, err)
	}
	return listing, nil
}

func (r *Root) list(ctx context.Context, query service.ListQuery) (service.Listing, error) {
	limit, err := limitOf(query.Limit, service.DefaultEntries)
	if err != nil {
		return service.Listing{}, err
	}
	if query.Depth < 0 || query.Depth > service.MaxDepth {
		return service.Listing{}, badQuery("depth %d is not between 1 and %d", query.Depth, service.MaxDepth)
	}
	if err := r.mustBe(service.Directory); err != nil {
		return service.Listing{}, err
	}
	l := lister{root: r, dir: int(r.file.Fd()), limit: limit, versionControl: r.versionControl()}
	depth := max(1, query.Depth)
	if depth > 1 {
		l.rules = walk.RulesAbove(ctx, int(r.system.dir.Fd()), r.info.Resolved)
	}
	err = l.list(ctx, ".", l.rules, depth)
	return l.listing, err
}

// A lister makes one listing.
type lister struct {
	root           *Root
	dir            int // the handle
	limit          int
	versionControl bool
	rules          *ignore.Level // from above the handle
	unused         int           // ignore files that are counted, here and above
	listing        service.Listing
}

// list adds what is in the directory at a path below the handle.
func (l *lister) list(ctx context.Context, dir string, rules *ignore.Level, depth int) error {
	fd, err := beneath.Open(l.dir, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return l.unreadable(dir, err)
	}
	defer beneath.Close(fd)
	names, err := beneath.ReadDir(ctx, fd)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return l.unreadable(dir, err)
	}
	slices.SortFunc(names, func(a, b beneath.Entry) int { return strings.Compare(a.Name, b.Name) })
	if depth > 1 {
		place := strings.TrimPrefix(under(l.root.info.Resolved, dir)+"/", "./")
		rules = rules.Enter(place, walk.ReadIgnoreFiles(ctx, fd, names))
		l.listing.Skipped.Unreadable += rules.Unused() - l.unused
		above := l.unused
		l.unused = rules.Unused()
		defer func() { l.unused = above }()
	}
	for _, n := range names {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		below := under(dir, n.Name)
		if !l.add(fd, n, below) {
			continue
		}
		if l.listing.Truncated {
			return nil
		}
		if n.Kind != service.Directory || depth == 1 || !l.enters(n.Name, below, rules) {
			continue
		}
		if err := l.list(ctx, below, rules, depth-1); err != nil || l.listing.Truncated {
			return err
		}
	}
	return nil
}

// unreadable counts a directory that cannot be read; one that is gone by now is
// no loss, and the handle itself is an error.
func (l *lister) unreadable(dir string, err error) error {
	if dir == "." {
		return err
	}
	if !beneath.Vanished(err) {
		l.listing.Skipped.Unreadable++
	}
	return nil
}

// add adds a name of the open directory fd, and says whether it is shown.
func (l *lister) add(fd int, n beneath.Entry, below string) bool {
	if !l.root.allows(service.ActionList, below) {
		l.listing.Skipped.Denied++
		return false
	}
	e := service.Entry{Path: under(l.root.info.Resource, below), Kind: n.Kind}
	switch n.Kind {
	case service.RegularFile:
		info, err := beneath.LstatName(fd, n.Name)
		if errors.Is(err, unix.ENOENT) {
			return false
		}
		e.Size = info.Size
	case service.Symlink:
		target, err := beneath.ReadlinkName(fd, n.Name)
		if errors.Is(err, unix.ENOENT) {
			return false
		}
		e.Target = target
	}
	if len(l.listing.Entries) == l.limit {
		l.listing.Truncated = true
		return true
	}
	l.listing.Entries = append(l.listing.Entries, e)
	return true
}

// enters says whether a directory's contents are listed too.
func (l *lister) enters(name, below string, rules *ignore.Level) bool {
	if walk.VersionControl(name) && !l.versionControl {
		return false
	}
	if rules.Match(under(l.root.info.Resolved, below), true) == ignore.Ignored {
		l.listing.Skipped.Ignored++
		return false
	}
	return true
}
