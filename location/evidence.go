package location

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/toolhost/toolhost/service/filesystem"
	"github.com/toolhost/toolhost/state"
)

// evidencePatience bounds the waiting for the user's state: a file is read for its
// text, and only then for the record of it.
const evidencePatience = 500 * time.Millisecond

var errEvidenceBusy = fmt.Errorf("others kept it locked for %v", evidencePatience)

// openFiles opens the root. What sessions read is kept in the user's state, if there
// is one, and which files are being changed.
func (l *Location) openFiles() (*filesystem.FileSystem, error) {
	if l.options.State == nil {
		return filesystem.Open(l.root, filesystem.Options{Excludes: filesystem.UserExcludes()})
	}
	e := &evidence{store: l.options.State, log: l.log}
	path, err := l.options.State.Path()
	if err != nil {
		return nil, err
	}
	files, err := filesystem.Open(l.root, filesystem.Options{
		Evidence: e, Excludes: filesystem.UserExcludes(), Changes: filepath.Join(filepath.Dir(path), changesDir),
	})
	if err == nil {
		e.root = files.Path()
	}
	return files, err
}

// evidence keeps in the user's state what sessions read (law 28), so that it spans
// several hosts.
type evidence struct {
	store  *state.Store
	root   string // with links resolved
	log    *slog.Logger
	failed atomic.Bool // and that was said
}

var _ filesystem.Evidence = (*evidence)(nil)

func (e *evidence) Saw(ctx context.Context, session, path string, content [32]byte) error {
	patient, cancel := context.WithTimeoutCause(ctx, evidencePatience, errEvidenceBusy)
	defer cancel()
	return e.report(ctx, e.store.SawFile(patient, e.root, session, path, content[:]))
}

func (e *evidence) Seen(ctx context.Context, session, path string) (content [32]byte, ok bool, err error) {
	patient, cancel := context.WithTimeoutCause(ctx, evidencePatience, errEvidenceBusy)
	defer cancel()
	sum, ok, err := e.store.FileSeen(patient, e.root, session, path)
	copy(content[:], sum)
	return content, ok, e.report(ctx, err)
}

// report logs the first of several failures in a row: a read-only state directory
// would be worth a line for each file otherwise.
func (e *evidence) report(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err // the caller left
	}
	if again := e.failed.Swap(err != nil); err != nil && !again {
		e.log.Warn("what sessions read is remembered by this process alone: after a restart a file has to be read again before it is replaced",
			slog.Any("error", err))
	}
	return err
}
