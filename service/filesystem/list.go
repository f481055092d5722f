package filesystem

import (
	"context"

	"github.com/toolhost/toolhost/service"
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
	return r.names(ctx, max(1, query.Depth), limit)
}

func (r *Root) names(ctx context.Context, depth, limit int) (service.Listing, error) {
	names := walk.Listing{
		Dir:            int(r.file.Fd()),
		Place:          r.place(),
		Top:            r.system.top(),
		Depth:          depth,
		Limit:          limit,
		VersionControl: r.versionControl(),
		Workers:        r.system.workers,
		Allows:         func(path string) bool { return r.allows(service.ActionList, path) },
	}
	if depth > 1 {
		names.Above = walk.RulesAbove(ctx, r.system.top(), r.info.Resolved)
	}
	var listing service.Listing
	err := walk.List(ctx, names, func(n walk.Name) bool {
		switch n.Reason {
		case walk.Denied:
			listing.Skipped.Denied++
			return true
		case walk.Unreadable, walk.Unused:
			listing.Skipped.Unreadable++
			return true
		}
		if len(listing.Entries) == limit {
			listing.Truncated = true
			return false
		}
		if n.Reason == walk.Ignored {
			listing.Skipped.Ignored++
		}
		listing.Entries = append(listing.Entries, service.Entry{
			Path: under(r.info.Resource, n.Path), Kind: n.Kind, Size: n.Size, Target: n.Target,
		})
		return true
	})
	return listing, err
}
