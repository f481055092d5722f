package state

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"
)

// maxViewKeys is how many keys a view remembers.
const maxViewKeys = 4096

// A SavedPattern is one pattern of a saved approval.
type SavedPattern struct {
	// ID is that of the approval.
	ID      int64
	Pattern string
}

// An ApprovalView answers from memory which patterns are saved for a key. It asks the
// database each time whether anything changed, so it is never stale: what any process
// saved or revoked before [ApprovalView.For] was called, it sees. It is safe for
// concurrent use and is closed with its [Store].
type ApprovalView struct {
	store *Store

	turn   chan struct{} // held while the view is asked; it guards what follows
	source *viewSource   // nil while there is no database
}

// A viewSource is a connection that is kept and what was read by it. It is the view's
// own, so that what this process writes by another is a change for it as well.
type viewSource struct {
	file                       os.FileInfo // to see another file in its place
	db                         *sql.DB
	conn                       *sql.Conn // one connection: each counts versions by itself
	version, changes, patterns *sql.Stmt

	atVersion int64 // of the database
	atChanges int64 // of the approvals
	known     map[ApprovalKey]viewEntry
}

// A viewEntry is what is saved for a key, until the first of it expires.
type viewEntry struct {
	patterns []SavedPattern
	until    int64 // milliseconds since 1970, or 0
}

// ApprovalView returns the store's view of its saved approvals. It touches nothing on
// disk.
func (s *Store) ApprovalView() *ApprovalView { return &s.view }

// For returns the patterns that are saved for the key and count now, those of the
// oldest approval first. The caller must not change them. Where there is no database
// there are none, and none is made. An error means that it is not known what is
// saved: the caller has to ask then, and must not allow. ctx bounds the waiting for
// other processes, which is 5 s at most and next to never needed.
func (v *ApprovalView) For(ctx context.Context, key ApprovalKey) ([]SavedPattern, error) {
	if err := key.check(); err != nil {
		return nil, err
	}
	path, err := v.store.Path()
	if err != nil {
		return nil, err
	}
	var found []SavedPattern
	err = patiently(ctx, time.Now().Add(busyTimeout), func() error {
		found, err = v.try(ctx, path, key)
		return err
	})
	if isUnwritable(err) {
		found, err = readPatterns(ctx, path, key)
	}
	if err != nil {
		return nil, describe(ctx, path, err)
	}
	return found, nil
}

// try does not wait for other processes.
func (v *ApprovalView) try(ctx context.Context, path string, key ApprovalKey) ([]SavedPattern, error) {
	select {
	case v.turn <- struct{}{}:
		defer func() { <-v.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	file, err := os.Stat(path)
	if err != nil || v.source != nil && !os.SameFile(file, v.source.file) {
		err = errors.Join(ignoreMissing(err), v.forget())
	}
	if err != nil || file == nil {
		return nil, err
	}
	if v.source == nil {
		if v.source, err = openViewSource(ctx, path, file); err != nil {
			return nil, err
		}
	}
	found, err := v.source.find(key, time.Now().UnixMilli())
	if err != nil && !isBusy(err) {
		err = errors.Join(err, v.forget())
	}
	return found, err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// forget closes the connection, if there is one.
func (v *ApprovalView) forget() error {
	source := v.source
	v.source = nil
	if source == nil {
		return nil
	}
	return source.close()
}

func (v *ApprovalView) close() error {
	v.turn <- struct{}{}
	defer func() { <-v.turn }()
	return v.forget()
}

func openViewSource(ctx context.Context, path string, file os.FileInfo) (*viewSource, error) {
	db, err := connect(ctx, path, 0)
	if err != nil {
		return nil, err
	}
	s := &viewSource{file: file, db: db, atVersion: -1, atChanges: -1, known: map[ApprovalKey]viewEntry{}}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *viewSource) prepare(ctx context.Context) (err error) {
	if s.conn, err = s.db.Conn(ctx); err != nil {
		return err
	}
	if s.version, err = s.conn.PrepareContext(ctx, "PRAGMA data_version"); err != nil {
		return err
	}
	if s.changes, err = s.conn.PrepareContext(ctx, "SELECT n FROM approval_changes"); err != nil {
		return err
	}
	s.patterns, err = s.conn.PrepareContext(ctx, selectPatterns)
	return err
}

// close closes whatever is open.
func (s *viewSource) close() error {
	var errs []error
	for _, statement := range []*sql.Stmt{s.version, s.changes, s.patterns} {
		if statement != nil {
			errs = append(errs, statement.Close())
		}
	}
	if s.conn != nil {
		errs = append(errs, s.conn.Close())
	}
	return errors.Join(append(errs, s.db.Close())...)
}

// find forgets what changed and looks the key up. Each of its queries is short and
// waits for nobody, so none has a context, which would cost more than the query.
func (s *viewSource) find(key ApprovalKey, now int64) ([]SavedPattern, error) {
	// The version is read before what it stands for, so that a change in between is
	// found the next time.
	var version int64
	if err := s.version.QueryRow().Scan(&version); err != nil {
		return nil, err
	}
	if version != s.atVersion {
		// Mostly it is the record of calls that changed.
		var changes int64
		if err := s.changes.QueryRow().Scan(&changes); err != nil {
			return nil, err
		}
		if changes != s.atChanges {
			clear(s.known)
		}
		s.atVersion, s.atChanges = version, changes
	}
	entry, known := s.known[key]
	if !known || entry.until != 0 && entry.until <= now {
		var err error
		if entry, err = scanPatterns(s.patterns.Query(patternArgs(key, now)...)); err != nil {
			return nil, err
		}
		if len(s.known) >= maxViewKeys {
			clear(s.known)
		}
		s.known[key] = entry
	}
	return entry.patterns, nil
}

// readPatterns reads a database that cannot be written. Its connection sees no later
// change, so it is not kept.
func readPatterns(ctx context.Context, path string, key ApprovalKey) ([]SavedPattern, error) {
	db, err := connectReading(ctx, path)
	if err != nil {
		return nil, err
	}
	entry, err := scanPatterns(db.QueryContext(ctx, selectPatterns, patternArgs(key, time.Now().UnixMilli())...))
	return entry.patterns, errors.Join(err, db.Close())
}

const selectPatterns = `SELECT id, patterns, expires FROM approvals
	WHERE root = ? AND plugin = ? AND action = ? AND builtin = ? AND digest = ? AND definition = ?
	AND (expires = 0 OR expires > ?) ORDER BY id`

func patternArgs(key ApprovalKey, now int64) []any {
	return []any{key.Root, key.Plugin, key.Action, key.Builtin, key.Digest, key.Definition, now}
}

// scanPatterns reads and closes the rows of a query that gave err.
func scanPatterns(rows *sql.Rows, err error) (viewEntry, error) {
	if err != nil {
		return viewEntry{}, err
	}
	defer func() { _ = rows.Close() }() // rows.Err has what matters
	var entry viewEntry
	for rows.Next() {
		var id, expires int64
		var patterns []byte
		if err := rows.Scan(&id, &patterns, &expires); err != nil {
			return viewEntry{}, err
		}
		for _, pattern := range splitPatterns(patterns) {
			entry.patterns = append(entry.patterns, SavedPattern{id, pattern})
		}
		if expires != 0 && (entry.until == 0 || expires < entry.until) {
			entry.until = expires
		}
	}
	entry.patterns = slices.Clip(entry.patterns)
	return entry, rows.Err()
}
