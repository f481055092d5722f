package filesystem

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/internal/beneath"
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
	switch query.Sort {
	case "", service.GlobByPath:
		return r.globByPath(ctx, pattern, limit)
	case service.GlobByTime:
		return r.globByTime(ctx, pattern, limit)
	}
	return service.GlobResult{}, badQuery("sort %q is neither %q nor %q", query.Sort, service.GlobByPath, service.GlobByTime)
}

func (r *Root) globByPath(ctx context.Context, pattern *glob.Pattern, limit int) (service.GlobResult, error) {
	var result service.GlobResult
	err := walk.Files(ctx, r.walk(ctx, pattern), nil, func(f walk.Found[struct{}]) bool {
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

// A dated file is one with the time of its last change.
type dated struct {
	path     string
	modified int64
	reason   walk.Reason // Denied, or Unreadable for one that is gone
}

// later compares files as GlobByTime sorts them.
func later(a, b dated) int {
	return cmp.Or(cmp.Compare(b.modified, a.modified), strings.Compare(a.path, b.path))
}

func (r *Root) globByTime(ctx context.Context, pattern *glob.Pattern, limit int) (service.GlobResult, error) {
	var result service.GlobResult
	var newest []dated // twice as many as are wanted, at most
	keep := func() {
		slices.SortFunc(newest, later)
		if len(newest) > limit {
			result.Truncated = true
			newest = slices.Delete(newest, limit, len(newest))
		}
	}
	err := walk.Files(ctx, r.walk(ctx, pattern), r.date, func(f walk.Found[dated]) bool {
		switch {
		case f.Reason != walk.Taken:
			skip(&result.Skipped, f.Reason)
		case f.Result.reason == walk.Denied:
			result.Skipped.Denied++
		case f.Result.reason == walk.Taken:
			if newest = append(newest, f.Result); len(newest) > 2*limit {
				keep()
			}
		}
		return true
	})
	keep()
	for _, f := range newest {
		result.Paths = append(result.Paths, under(r.info.Resource, f.path))
	}
	return result, err
}

// date finds out when a file below the handle was changed; several goroutines call it.
func (r *Root) date(_ context.Context, path string) (f dated, held int) {
	if !r.allows(service.ActionRead, path) {
		return dated{reason: walk.Denied}, 0
	}
	info, err := beneath.Lstat(int(r.file.Fd()), path)
	if err != nil || info.Kind != service.RegularFile {
		return dated{reason: walk.Unreadable}, 0
	}
	return dated{path: path, modified: info.Modified}, len(path)
}

// walk goes through the files below the handle that are wanted.
func (r *Root) walk(ctx context.Context, filter walk.Filter) walk.Walk {
	return walk.Walk{
		Dir:            int(r.file.Fd()),
		Place:          r.place(),
		Top:            r.system.top(),
		Above:          walk.RulesAbove(ctx, r.system.top(), r.info.Resolved),
		Filter:         filter,
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
