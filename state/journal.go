package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/toolhost/toolhost/tool"
)

const (
	// sweepEvery is after how many starts a journal removes the records that are too
	// old or too many, so that it does not take a restart.
	sweepEvery = 10_000
	// maxUnwritten is how many ends wait at most to be written.
	maxUnwritten = 4096
	// endPatience is how long the end of a call waits for other processes.
	endPatience = 250 * time.Millisecond
	// closePatience is how long closing waits for them, if ends are not written.
	closePatience = time.Second
)

// Calls is the journal of the calls that one host starts. It is safe for
// concurrent use, and its owner closes it.
type Calls struct {
	store *Store

	// turn is held for one try at most, and never while other processes are waited
	// for. It guards what follows.
	turn      chan struct{}
	run       *run // nil before the first Start
	starts    int  // since the last sweep
	open      map[CallID]struct{}
	unwritten []end // the oldest first
	closed    bool
}

// An end is how a call ended.
type end struct {
	id     CallID
	at     time.Time
	status tool.Status
	kind   tool.Kind
}

// OpenCalls makes a journal. It touches nothing on disk before the first Start.
func (s *Store) OpenCalls() *Calls {
	return &Calls{store: s, turn: make(chan struct{}, 1), open: map[CallID]struct{}{}}
}

// Start records that a call starts, in the Location with that root, before it
// does. The record survives the death of this process as soon as Start returns.
// An error, which names the database, means that there is no record: the call must
// not run then. A database that others keep locked is waited for, until ctx ends
// and for 5 s at most, however many calls start at the same time.
func (c *Calls) Start(ctx context.Context, root string, start tool.Start) (CallID, error) {
	if err := start.Identity.Check(); err != nil {
		return 0, fmt.Errorf("call is not recorded: %w", err)
	}
	at := start.At
	if at.IsZero() {
		at = time.Now()
	}
	path, err := c.store.Path()
	if err != nil {
		return 0, err
	}
	var id CallID
	err = c.patiently(ctx, busyTimeout, func() error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := c.ready(ctx, path); err != nil {
			return err
		}
		if c.starts >= sweepEvery {
			if err := sweepCalls(context.WithoutCancel(ctx), c.run.db, time.Now(), MaxCalls); err != nil {
				return err
			}
			c.starts = 0
		}
		i := start.Identity
		// Not ExecContext: it may report the end of ctx of what was written.
		result, err := c.run.start.Exec(c.run.id, root, i.Session, i.Agent, i.Message, i.Call, i.HostMade,
			start.Tool, start.Effects.String(), at.UnixMilli(), CallRunning)
		if err != nil {
			return err
		}
		row, err := result.LastInsertId()
		if err != nil {
			return err
		}
		id = CallID(row)
		c.starts++
		c.open[id] = struct{}{}
		return nil
	})
	return id, describe(ctx, path, err)
}

// End records how a call ended. kind is empty for one that completed. An end that
// cannot be written within 250 ms is not lost: it is written with the next call
// that starts or ends, and at the latest by Close. ctx does not bound it, since a
// call ends also when nobody waits for it. It is an error if the call is not
// running, if the journal is closed, and if 4,096 ends are waiting to be written.
func (c *Calls) End(ctx context.Context, id CallID, status tool.Status, kind tool.Kind) error {
	path, err := c.store.Path()
	if err != nil {
		return err
	}
	ended := end{id, time.Now(), status, kind}
	c.turn <- struct{}{} // for one try of another
	err = c.accept(ended)
	<-c.turn
	ctx = context.WithoutCancel(ctx)
	if err != nil {
		return describe(ctx, path, err)
	}
	// What it cannot write is kept.
	_ = c.patiently(ctx, endPatience, func() error { return c.ready(ctx, path) })
	return nil
}

// accept puts an end into the queue.
func (c *Calls) accept(ended end) error {
	switch _, running := c.open[ended.id]; {
	case c.closed:
		return errClosed
	case !running:
		return fmt.Errorf("call %d is not one that this host started and that runs", ended.id)
	case len(c.unwritten) >= maxUnwritten:
		return fmt.Errorf("the end of call %d is not recorded: %d others could not be written yet", ended.id, len(c.unwritten))
	}
	delete(c.open, ended.id)
	c.unwritten = append(c.unwritten, ended)
	return nil
}

// Close writes the ends that are not written yet, for which it waits a second at
// most, and releases the journal. A call that is still open has an unknown outcome
// for the next one who looks, and so has one whose end cannot be written, of which
// the error says how many they are. Closing again does nothing.
func (c *Calls) Close() error {
	c.turn <- struct{}{}
	last := c.run
	if c.closed {
		last = nil
	}
	c.closed = true // nothing starts or ends any more
	<-c.turn
	if last == nil {
		return nil
	}
	ctx := context.Background()
	err := c.patiently(ctx, closePatience, c.write)
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	if err != nil {
		err = fmt.Errorf("the ends of %d calls were not written, so their outcome will be unknown: %w", len(c.unwritten), err)
	}
	path, _ := c.store.Path() // as it was when the run was opened
	return describe(ctx, path, errors.Join(err, last.close()))
}

var errClosed = errors.New("the record of calls is closed: this host is closing")

// patiently tries in turns, while other processes keep the database locked.
func (c *Calls) patiently(ctx context.Context, most time.Duration, try func() error) error {
	deadline := time.Now().Add(most)
	return patiently(ctx, deadline, func() error {
		select {
		case c.turn <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		defer func() { <-c.turn }()
		return try()
	})
}

// ready opens the journal, if it is not yet, and writes the ends that are waiting.
func (c *Calls) ready(ctx context.Context, path string) error {
	if c.closed {
		return errClosed
	}
	if c.run == nil {
		r, err := openRun(ctx, path)
		if err != nil {
			return err
		}
		c.run = r
	}
	return c.write()
}

// write writes the ends that are waiting.
func (c *Calls) write() error {
	for len(c.unwritten) > 0 {
		e := c.unwritten[0]
		if _, err := c.run.end.Exec(e.at.UnixMilli(), e.status, e.kind, e.id, c.run.id); err != nil {
			return err
		}
		c.unwritten = c.unwritten[1:]
	}
	c.unwritten = nil
	return nil
}

// A run is what a journal has open.
type run struct {
	id         string
	lock       *lock
	db         *sql.DB
	start, end *sql.Stmt
}

// openRun does not wait for other processes.
func openRun(ctx context.Context, path string) (*run, error) {
	// Without waiting for the disk; a checkpoint does wait, so the database stays whole.
	db, err := connect(ctx, path, 0, "synchronous(normal)")
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
