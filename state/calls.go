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
	"sync"
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
	// sweepEvery is after how many starts a journal removes what is beyond that, so
	// that it does not take a restart.
	sweepEvery = 10_000
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

// Calls is the journal of the calls that one host starts. It is safe for
// concurrent use, and its owner closes it.
type Calls struct {
	store *Store

	mu     sync.Mutex // guards what follows, and is held for one write at most
	run    *run       // nil before the first Start
	starts int
	closed bool
}

// OpenCalls makes a journal. It touches nothing on disk before the first Start.
func (s *Store) OpenCalls() *Calls { return &Calls{store: s} }

// Start records that a call starts, in the Location with that root, before it
// does. The record survives the death of this process as soon as Start returns.
// An error, which names the database, means that there is no record: the call must
// not run then. A database that others keep locked is waited for, for 5 s; ctx is
// looked at before that only.
func (c *Calls) Start(ctx context.Context, root string, start tool.Start) (CallID, error) {
	if err := start.Identity.Check(); err != nil {
		return 0, fmt.Errorf("call is not recorded: %w", err)
	}
	at := start.At
	if at.IsZero() {
		at = time.Now()
	}
	var id int64
	err := c.use(ctx, func(r *run) error {
		if c.starts++; c.starts%sweepEvery == 0 {
			if err := sweepCalls(context.WithoutCancel(ctx), r.db, time.Now(), MaxCalls); err != nil {
				return err
			}
		}
		i := start.Identity
		result, err := r.start.Exec(r.id, root, i.Session, i.Agent, i.Message, i.Call, i.HostMade,
			start.Tool, start.Effects.String(), at.UnixMilli(), CallRunning)
		if err != nil {
			return err
		}
		id, err = result.LastInsertId()
		return err
	})
	return CallID(id), err
}

// End records how a call ended. kind is empty for one that completed. It is an
// error if the call is not running; ctx and durability are as with Start. A call
// ends though its caller has gone, so pass a context that outlives it.
func (c *Calls) End(ctx context.Context, id CallID, status tool.Status, kind tool.Kind) error {
	return c.use(ctx, func(r *run) error {
		result, err := r.end.Exec(time.Now().UnixMilli(), status, kind, id, r.id)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); n == 0 && err == nil {
			return fmt.Errorf("call %d is not one that this host started and that runs", id)
		}
		return nil
	})
}

// Close releases the journal. A call that is still open has an unknown outcome
// for the next one who looks. Closing again does nothing.
func (c *Calls) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.run == nil {
		return nil
	}
	err := c.run.close()
	c.run = nil
	return err
}

// use runs one write of the journal, which is opened when it is not yet.
func (c *Calls) use(ctx context.Context, write func(*run) error) error {
	path, err := c.store.Path()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return describe(ctx, path, ctx.Err())
	case c.closed:
		return fmt.Errorf("state database %s: the record of calls is closed: this host is closing", path)
	}
	if c.run == nil {
		r, err := openRun(ctx, path)
		if err != nil {
			return describe(ctx, path, err)
		}
		c.run = r
	}
	return describe(context.WithoutCancel(ctx), path, write(c.run))
}

// A run is what a journal has open.
type run struct {
	id         string
	lock       *lock
	db         *sql.DB
	start, end *sql.Stmt
}

func openRun(ctx context.Context, path string) (*run, error) {
	// Without waiting for the disk; a checkpoint does wait, so the database stays whole.
	db, err := connect(ctx, path, "synchronous(normal)")
	if err != nil {
		return nil, err
	}
	r := &run{db: db}
	if err := r.prepare(ctx, path); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *run) prepare(ctx context.Context, path string) (err error) {
	r.start, err = r.db.PrepareContext(ctx, `INSERT INTO calls
		(run, root, session, agent, message, call, host_made, tool, effects, started, ended, status, kind)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, '')`)
	if err != nil {
		return err
	}
	r.end, err = r.db.PrepareContext(ctx, `UPDATE calls SET run = '', ended = ?, status = ?, kind = ? WHERE id = ? AND run = ?`)
	if err != nil {
		return err
	}
	r.lock, r.id, err = newLock(filepath.Dir(path))
	return err
}

// close closes whatever is open.
func (r *run) close() error {
	var errs []error
	for _, statement := range []*sql.Stmt{r.start, r.end} {
		if statement != nil {
			errs = append(errs, statement.Close())
		}
	}
	errs = append(errs, r.db.Close())
	if r.lock != nil {
		errs = append(errs, r.lock.remove())
	}
	return errors.Join(errs...)
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
// belong to a host that died, until [Store.Abandoned] looked.
func (s *Store) CallRecords(ctx context.Context, filter CallFilter) ([]CallRecord, error) {
	if filter.Limit < 0 || filter.Limit > MaxCalls {
		return nil, fmt.Errorf("limit of calls is %d: it must be between 1 and %d", filter.Limit, MaxCalls)
	}
	if filter.Limit == 0 {
		filter.Limit = 100
	}
	var records []CallRecord
	err := s.ifExists(ctx, func(db *sql.DB) error {
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
