package state

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolhost/toolhost/tool"
)

// What a [CallRecord] has as its status beside the ways in which a call ends.
const (
	// CallRunning: the call was started and has not ended.
	CallRunning tool.Status = "running"
	// CallUnknown: the host died before the call ended. What it did nobody knows, and
	// it is not run again (law 15).
	CallUnknown tool.Status = "unknown"
)

const (
	// CallRetention is how long the record of a call that is over is kept.
	CallRetention = 7 * 24 * time.Hour
	// MaxCalls is how many records of calls are kept at most, those of running calls
	// aside.
	MaxCalls = 100_000
)

// A CallID names a record of a call. It is above 0.
type CallID int64

// A CallRecord is what is known of a call that could do more than read. It has
// nothing of the call's arguments and of its answer.
type CallRecord struct {
	ID CallID `json:"id"`
	// Root is the root directory of the Location.
	Root     string        `json:"root"`
	Identity tool.Identity `json:"identity"`
	// Tool is the canonical id.
	Tool string `json:"tool"`
	// Effects are the names of what the call could do.
	Effects []string `json:"effects"`
	// Started and Ended are to the millisecond. Ended is zero while the call runs; of
	// a call whose outcome is unknown it is when that was found.
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	// Status is how the call ended, or CallRunning or CallUnknown.
	Status tool.Status `json:"status"`
	// Kind is why it did not complete, if that is known.
	Kind tool.Kind `json:"kind,omitempty"`
}

// Abandoned finds the calls that were left open by hosts that died, records that
// their outcome is unknown, and returns them, the oldest first. Each is returned
// once, whoever looks at the same time; what was found is returned also with an
// error, and what was not is found by the next one who looks. It is for a host to
// call when it starts; where there is no database yet, none is made. It also
// removes the records that are older than [CallRetention] or beyond [MaxCalls].
// ctx ends the looking.
func (s *Store) Abandoned(ctx context.Context) ([]CallRecord, error) {
	var records []CallRecord
	err := s.ifExists(ctx, func(db *sql.DB) error {
		path, err := s.Path()
		if err != nil {
			return err
		}
		dir := filepath.Dir(path)
		runs, err := openRuns(ctx, db)
		if err != nil {
			return err
		}
		var errs []error
		for _, id := range runs {
			found, err := abandon(ctx, db, dir, id)
			records = append(records, found...)
			errs = append(errs, err)
		}
		errs = append(errs, sweepCalls(ctx, db, time.Now(), MaxCalls), sweepLocks(dir))
		return errors.Join(errs...)
	})
	slices.SortFunc(records, func(a, b CallRecord) int { return cmp.Compare(a.ID, b.ID) })
	return records, err
}

// openRuns are the runs that have open calls.
func openRuns(ctx context.Context, db *sql.DB) ([]string, error) {
	rows, err := db.QueryContext(ctx, "SELECT run FROM calls WHERE run <> '' GROUP BY run ORDER BY min(id)")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err has what matters
	var runs []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		runs = append(runs, id)
	}
	return runs, rows.Err()
}

// abandon closes the calls of a run whose host is dead.
func abandon(ctx context.Context, db *sql.DB, dir, id string) ([]CallRecord, error) {
	l, dead, err := claim(dir, id)
	if err != nil || !dead {
		return nil, err
	}
	if l != nil {
		defer func() { _ = l.remove() }() // an empty file, which the next start removes if this one cannot
	}
	// In a transaction, so that nothing is recorded as found that is not returned.
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	rows, err := tx.QueryContext(ctx, "UPDATE calls SET run = '', ended = ?, status = ? WHERE run = ? RETURNING "+callColumns,
		time.Now().UnixMilli(), CallUnknown, id)
	records, err := scanCalls(rows, err)
	if err != nil {
		return nil, err
	}
	if err := tx.Commit(); err != nil {
		return nil, err
	}
	return records, nil
}

// A CallFilter says which calls are wanted. The zero value wants the newest 100.
type CallFilter struct {
	// Root, Session and Status are what the records must have, where they are not empty.
	Root, Session string
	Status        tool.Status
	// Limit is how many, up to MaxCalls; 0 means 100.
	Limit int
}

// CallRecords lists calls, the newest first. A call that is listed as running may
// belong to a host that died, until [Store.Abandoned] looked. A database that cannot
// be written is read all the same.
func (s *Store) CallRecords(ctx context.Context, filter CallFilter) ([]CallRecord, error) {
	if filter.Limit < 0 || filter.Limit > MaxCalls {
		return nil, fmt.Errorf("limit of calls is %d: it must be between 1 and %d", filter.Limit, MaxCalls)
	}
	if filter.Limit == 0 {
		filter.Limit = 100
	}
	var records []CallRecord
	err := s.read(ctx, func(db *sql.DB) error {
		rows, err := db.QueryContext(ctx, "SELECT "+callColumns+` FROM calls
			WHERE (?1 = '' OR root = ?1) AND (?2 = '' OR session = ?2) AND (?3 = '' OR status = ?3)
			ORDER BY id DESC LIMIT ?4`, filter.Root, filter.Session, filter.Status, filter.Limit)
		records, err = scanCalls(rows, err)
		return err
	})
	return records, err
}

const callColumns = "id, root, session, agent, message, call, host_made, tool, effects, started, ended, status, kind"

// scanCalls reads and closes the rows of a query that gave err.
func scanCalls(rows *sql.Rows, err error) ([]CallRecord, error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err has what matters
	var records []CallRecord
	for rows.Next() {
		var r CallRecord
		var effects string
		var started, ended int64
		err := rows.Scan(&r.ID, &r.Root, &r.Identity.Session, &r.Identity.Agent, &r.Identity.Message, &r.Identity.Call,
			&r.Identity.HostMade, &r.Tool, &effects, &started, &ended, &r.Status, &r.Kind)
		if err != nil {
			return records, err
		}
		r.Effects = strings.Split(effects, ",")
		r.Started = time.UnixMilli(started).UTC()
		if ended != 0 {
			r.Ended = time.UnixMilli(ended).UTC()
		}
		records = append(records, r)
	}
	return records, rows.Err()
}

// sweepCalls removes what is too old or too much, from the oldest records on: it
// looks no further than at the first thousand that stay.
func sweepCalls(ctx context.Context, db *sql.DB, now time.Time, most int) error {
	const batch = 1000
	for {
		result, err := db.ExecContext(ctx, `DELETE FROM calls WHERE id IN (SELECT id FROM calls ORDER BY id LIMIT ?)
			AND run = '' AND (ended < ? OR id <= (SELECT max(id) FROM calls) - ?)`,
			batch, now.Add(-CallRetention).UnixMilli(), most)
		if err != nil {
			return err
		}
		if removed, err := result.RowsAffected(); err != nil || removed == 0 {
			return err
		}
	}
}
