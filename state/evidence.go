package state

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

const (
	// EvidenceRetention is how long it is remembered what a session saw of a file.
	EvidenceRetention = 30 * 24 * time.Hour
	// MaxEvidence is of how many files of one session that is remembered, or somewhat
	// more; those that it saw longest ago go.
	MaxEvidence = 20_000

	// forgetEvery is after how many records of a process what is too old or too much is
	// looked for, beside the first one: it takes longer than recording.
	forgetEvery = 256
	// evidenceAge is from what age on evidence is written again though nothing changed,
	// so that what is used is not forgotten.
	evidenceAge = 24 * time.Hour
)

// A SeenFile is a file as a session saw it.
type SeenFile struct {
	// Path is below the Location's root, with links resolved.
	Path string
	// Content is the SHA-256 of the whole content, 32 bytes.
	Content []byte
}

// SawFile is [Store.SawFiles] for one file.
func (s *Store) SawFile(ctx context.Context, root, session, path string, content []byte) error {
	return s.SawFiles(ctx, root, session, []SeenFile{{path, content}})
}

// SawFiles records what the session saw of files, in place of what it saw of them
// before (law 28): all of it, or with an error nothing. A session without a name
// records nothing. What is recorded already is not written again. What is
// [EvidenceRetention] old or beyond [MaxEvidence] is forgotten.
//
// The record survives the death of this process as soon as SawFiles returns, and not
// a failure of the machine: a file has to be read again then. ctx bounds the waiting
// for other processes.
func (s *Store) SawFiles(ctx context.Context, root, session string, files []SeenFile) error {
	if session == "" || len(files) == 0 {
		return nil
	}
	for _, f := range files {
		if len(f.Content) != sha256.Size {
			return fmt.Errorf("evidence of %q has a digest of %d bytes: it must be a SHA-256", f.Path, len(f.Content))
		}
	}
	path, err := s.Path()
	if err != nil {
		return err
	}
	db, err := s.openQuick(ctx, path)
	if err == nil {
		err = s.recordFiles(ctx, db, root, session, files, time.Now())
	}
	return describe(ctx, path, err)
}

// FileSeen gives the SHA-256 of what the session last saw of the file at path, and
// whether it is known. Where there is no database yet nothing is, and none is made; one
// that cannot be written is read all the same.
func (s *Store) FileSeen(ctx context.Context, root, session, path string) (content []byte, ok bool, err error) {
	if session == "" {
		return nil, false, nil
	}
	err = s.read(ctx, func(db *sql.DB) (err error) {
		content, _, err = selectSeen(ctx, db, root, session, path, time.Now())
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return content, content != nil, nil
}

// openQuick returns a connection that does not wait for the disk. A checkpoint does
// wait, so the database stays whole.
func (s *Store) openQuick(ctx context.Context, path string) (*sql.DB, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if s.quick != nil {
		return s.quick, nil
	}
	db, err := connect(ctx, path, busyTimeout, "synchronous(normal)")
	if err == nil {
		s.quick = db
	}
	return db, err
}

// selectSeen gives what the session saw and when, or nil.
func selectSeen(ctx context.Context, from interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, root, session, path string, now time.Time) (content []byte, at int64, err error) {
	row := from.QueryRowContext(ctx, "SELECT content, at FROM seen_files WHERE root = ? AND session = ? AND path = ? AND at >= ?",
		root, session, path, now.Add(-EvidenceRetention).UnixMilli())
	if err := row.Scan(&content, &at); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, 0, err
	}
	return content, at, nil
}

// recordFiles writes what is new. Mostly nothing is, and then nobody has to be waited
// for.
func (s *Store) recordFiles(ctx context.Context, db *sql.DB, root, session string, files []SeenFile, now time.Time) error {
	var fresh []SeenFile
	for _, f := range files {
		content, at, err := selectSeen(ctx, db, root, session, f.Path, now)
		if err != nil {
			return err
		}
		if !bytes.Equal(content, f.Content) || at < now.Add(-evidenceAge).UnixMilli() {
			fresh = append(fresh, f)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	return inTx(ctx, db, func(tx *sql.Tx) error {
		for _, f := range fresh {
			if _, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO seen_files (root, session, path, content, at) VALUES (?, ?, ?, ?, ?)",
				root, session, f.Path, f.Content, now.UnixMilli()); err != nil {
				return err
			}
		}
		recorded := s.recorded.Add(int64(len(fresh)))
		if before := recorded - int64(len(fresh)); before > 0 && before/forgetEvery == recorded/forgetEvery {
			return nil
		}
		return forgetFiles(ctx, tx, root, session, now)
	})
}

// forgetFiles forgets what is too old, and what the session has too much.
func forgetFiles(ctx context.Context, tx *sql.Tx, root, session string, now time.Time) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM seen_files WHERE at < ?", now.Add(-EvidenceRetention).UnixMilli()); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `DELETE FROM seen_files WHERE root = ?1 AND session = ?2 AND path IN (
		SELECT path FROM seen_files WHERE root = ?1 AND session = ?2 ORDER BY at DESC, path DESC LIMIT -1 OFFSET ?3)`, root, session, MaxEvidence)
	return err
}
