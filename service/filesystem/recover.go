package filesystem

import (
	"context"

	"github.com/toolhost/toolhost/service/filesystem/internal/commit"
)

// A Recovery says what became of one file, link or directory whose change was
// interrupted by the death of its host.
type Recovery struct {
	Path string // relative to the root
	// State says in words how it stands: "unchanged" and "changed" are whole and done with.
	State string
	// Whole says that nothing of it is left anywhere else.
	Whole bool
	// Detail says what is where, if it is not whole.
	Detail string
}

// Recover deals with the changes that killed hosts were in the middle of, as the
// directory of Options.Changes records them: it removes or puts back what they left
// under names that begin with ".toolhost-", and loses nothing of the user's (law 41). Each
// file is as before its change or as after it; package commit says which. It looks only
// where such a change was, so that its time does not depend on the size of the tree.
//
// Other processes may do the same, or make changes, at the same time. ctx ends it, and
// the next one goes on. An error says what could not be looked at, and comes with what
// was recovered all the same.
func (f *FileSystem) Recover(ctx context.Context) ([]Recovery, error) {
	ctx, done, err := f.lease.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	did, err := commit.Recover(ctx, int(f.dir.Fd()), f.records)
	all := make([]Recovery, 0, len(did))
	for _, r := range did {
		whole := r.State == commit.Changed || r.State == commit.Unchanged
		all = append(all, Recovery{Path: r.Path, State: string(r.State), Whole: whole, Detail: r.Detail})
	}
	return all, err
}
