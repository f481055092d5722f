package filesystem

import (
	"context"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/internal/glob"
	"github.com/toolhost/toolhost/service/filesystem/internal/walk"
)

// Glob gives the files below the directory that match the pattern; see
// [service.GlobQuery] and the package's table. The gate is asked for the pattern;
// what it does not allow to be read is counted and left out. Errors are
// [*service.FileError]s, those of the gate, or the context's cause, which ends
// the search at once.
func (r *Root) Glob(ctx context.Context, query service.GlobQuery) (service.GlobResult, error) {
	ctx, done, err := r.begin(ctx, service.ActionGlob, query.Pattern)
	if err != nil {
		return service.GlobResult{}, describe(r.info.Resource, err)
	}
	defer done()
	result, err := r.glob(ctx, query)
	if err != nil {
		return service.GlobResult{}, describe(r.info.Resource, err)
	}
	return result, nil
}

func (r *Root) glob(ctx context.Context, query service.GlobQuery) (service.GlobResult, error) {
	limit, err := limitOf(query.Limit, service.DefaultEntries)
	if err != nil {
		return service.GlobResult{}, err
	}
	pattern, err := glob.Compile(query.Pattern)
	if err != nil {
		return service.GlobResult{}, err
	}
	if err := r.mustBe(service.Directory); err != nil {
		return service.GlobResult{}, err
	}
	var result service.GlobResult
	err = walk.Files(ctx, r.walk(ctx, pattern), nil, func(f walk.Found[struct{}]) bool {
		switch {
		case f.Reason != walk.Taken:
			skip(&result.Skipped, f.Reason)
		case !r.allows(service.ActionRead, f.Path):
			result.Skipped.Denied++
		case len(result.Paths) == limit:
			result.Truncated = true
		default:
			result.Paths = append(result.Paths, under(r.info.Resource, f.Path))
		}
		return !result.Truncated
	})
	return result, err
}

// walk goes through the files below the handle that match a pattern.
func (r *Root) walk(ctx context.Context, pattern *glob.Pattern) walk.Walk {
	return walk.Walk{
		Dir:            int(r.file.Fd()),
		Place:          r.place(),
		Top:            r.system.top(),
		Above:          walk.RulesAbove(ctx, r.system.top(), r.info.Resolved),
		Filter:         pattern,
		VersionControl: r.versionControl(),
		Workers:        r.system.workers,
	}
}

func skip(skipped *service.Skipped, reason walk.Reason) {
	switch reason {
	case walk.Ignored:
		skipped.Ignored++
	case walk.Hidden:
		skipped.Hidden++
	case walk.Link:
		skipped.Links++
	case walk.Unreadable, walk.Unused:
		skipped.Unreadable++
	}
}
