package state

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// SeenRetention is how long it is remembered what a session was given.
const SeenRetention = 30 * 24 * time.Hour

// Seen records that the session is given the files at paths, below the Location's
// root, and returns those of them that it was not given before, in their order
// (law 30). It does both in one act: of several who ask at the same time, in this
// process or another, one is told. What is [SeenRetention] old is forgotten. ctx
// bounds the waiting for other processes.
func (s *Store) Seen(ctx context.Context, root, session string, paths []string) (unseen []string, err error) {
	if len(paths) == 0 {
		return nil, nil
	}
	if session == "" {
		return nil, fmt.Errorf("instructions were given to no session: name it")
	}
	err = s.use(ctx, func(db *sql.DB) error {
		now := time.Now()
		fresh, err := anyUnseen(ctx, db, root, session, paths, now)
		if !fresh || err != nil {
			return err // and nothing was written
		}
		unseen, err = recordSeen(ctx, db, root, session, paths, now)
		return err
	})
	if err != nil {
		return nil, err
	}
	return unseen, nil
}

// anyUnseen says whether there is something to record; mostly there is not, and
// then nobody has to be waited for.
func anyUnseen(ctx context.Context, db *sql.DB, root, session string, paths []string, now time.Time) (bool, error) {
	for _, path := range paths {
		var seen bool
		row := db.QueryRowContext(ctx, "SELECT count(*) FROM seen_instructions WHERE root = ? AND session = ? AND path = ? AND at >= ?",
			root, session, path, now.Add(-SeenRetention).UnixMilli())
		if err := row.Scan(&seen); err != nil || !seen {
			return true, err
		}
	}
	return false, nil
}

func recordSeen(ctx context.Context, db *sql.DB, root, session string, paths []string, now time.Time) ([]string, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	if _, err := tx.ExecContext(ctx, "DELETE FROM seen_instructions WHERE at < ?", now.Add(-SeenRetention).UnixMilli()); err != nil {
		return nil, err
	}
	var unseen []string
	for _, path := range paths {
		result, err := tx.ExecContext(ctx, "INSERT OR IGNORE INTO seen_instructions (root, session, path, at) VALUES (?, ?, ?, ?)",
			root, session, path, now.UnixMilli())
		if err != nil {
			return nil, err
		}
		n, err := result.RowsAffected()
		if err != nil {
			return nil, err
		}
		if n > 0 {
			unseen = append(unseen, path)
		}
	}
	return unseen, tx.Commit()
}
