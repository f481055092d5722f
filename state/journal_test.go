package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolhost/toolhost/tool"
)

// lockDatabase keeps the write lock, as another process may, until it is called.
func lockDatabase(t *testing.T, dir string) (unlock func()) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	unlock = sync.OnceFunc(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(unlock)
	return unlock
}

func mustEnd(t *testing.T, c *Calls, id CallID) {
	t.Helper()
	if err := c.End(t.Context(), id, tool.Completed, ""); err != nil {
		t.Errorf("End of call %d: %v", id, err)
	}
}

// TestLaw15EndIsNotLost: what ended while others kept the database locked is
// recorded later, when it ended, and nobody says that its outcome is unknown. Seen
// to fail when an end is tried once.
func TestLaw15EndIsNotLost(t *testing.T) {
	for name, later := range map[string]func(*testing.T, *Calls){
		"with the next start": func(t *testing.T, c *Calls) { mustStart(t, c, "2") },
		"with the next end":   func(t *testing.T, c *Calls) { mustEnd(t, c, 2) },
		"with Close":          func(*testing.T, *Calls) {},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			c := s.OpenCalls()
			defer c.Close()
			id, other := mustStart(t, c, "0"), mustStart(t, c, "1")
			unlock := lockDatabase(t, dir)
			began := time.Now()
			mustEnd(t, c, id)
			if name == "with Close" {
				mustEnd(t, c, other)
			}
			if took := time.Since(began); took > busyTimeout/2 {
				t.Errorf("the end waited for %v", took)
			}
			wantStatuses(t, mustRecords(t, s, CallFilter{}), "1 running", "0 running")
			unlock()
			after := time.Now()
			later(t, c)
			if name != "with Close" {
				records := mustRecords(t, s, CallFilter{Status: tool.Completed})
				if i := slices.IndexFunc(records, func(r CallRecord) bool { return r.ID == id }); i < 0 || records[i].Ended.After(after) {
					t.Errorf("got %v", records)
				}
				return
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if found, err := s.Abandoned(t.Context()); len(found) != 0 || err != nil {
				t.Errorf("got %v, %v", statuses(found), err)
			}
			wantStatuses(t, mustRecords(t, s, CallFilter{}), "1 completed", "0 completed")
		})
	}
}

// TestLaw15CloseSaysWhatIsNotWritten, and waits for a second only.
func TestLaw15CloseSaysWhatIsNotWritten(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	c := s.OpenCalls()
	id := mustStart(t, c, "0")
	unlock := lockDatabase(t, dir)
	mustEnd(t, c, id)
	if err := c.Close(); err == nil || !strings.Contains(err.Error(), "the ends of 1 calls were not written, so their outcome will be unknown: database is locked") {
		t.Errorf("got %v", err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("again: %v", err)
	}
	unlock()
	found, err := s.Abandoned(t.Context())
	if err != nil {
		t.Error(err)
	}
	wantStatuses(t, found, "0 unknown")
}

// TestLaw15UnwrittenEndsAreBounded: one that finds no place is an error, and the
// call may be ended again.
func TestLaw15UnwrittenEndsAreBounded(t *testing.T) {
	dir := t.TempDir()
	c := journal(t, open(t, dir))
	id := mustStart(t, c, "0")
	unlock := lockDatabase(t, dir)
	c.unwritten = make([]end, maxUnwritten)
	if err := c.End(t.Context(), id, tool.Completed, ""); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%d others could not be written yet", maxUnwritten)) {
		t.Errorf("got %v", err)
	}
	unlock()
	mustStart(t, c, "1")
	mustEnd(t, c, id)
}

// TestLaw15LockedJournalFollowsContexts: whoever gave up waits no longer, and who
// waits does so beside the others, not behind them. Seen to fail with the wait in
// SQLite and under the lock of the journal.
func TestLaw15LockedJournalFollowsContexts(t *testing.T) {
	for name, opened := range map[string]bool{"an open journal": true, "one that is not": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			mustStart(t, journal(t, s), "0") // the database is there
			c := journal(t, s)
			if opened {
				mustStart(t, c, "1")
			}
			lockDatabase(t, dir)
			gone := errors.New("nobody waits any more")
			ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, gone)
			defer cancel()
			began := time.Now()
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					if _, err := c.Start(ctx, "/p", start("2")); !errors.Is(err, gone) {
						t.Errorf("got %v", err)
					}
				})
			}
			wg.Wait()
			if took := time.Since(began); took > busyTimeout/2 {
				t.Errorf("they waited for %v", took)
			}
		})
	}
	t.Run("patience", func(t *testing.T) {
		dir := t.TempDir()
		c := journal(t, open(t, dir))
		mustStart(t, c, "0")
		lockDatabase(t, dir)
		began := time.Now()
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if _, err := c.Start(t.Context(), "/p", start("1")); !isBusy(err) {
					t.Errorf("got %v", err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(began); took < busyTimeout || took > busyTimeout*3/2 {
			t.Errorf("they waited for %v", took)
		}
	})
}

// TestAskingForCallsCreatesNothing.
func TestAskingForCallsCreatesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "toolhost")
	s := open(t, dir)
	if found, err := s.Abandoned(t.Context()); len(found) != 0 || err != nil {
		t.Errorf("Abandoned: got %v, %v", found, err)
	}
	if records := mustRecords(t, s, CallFilter{}); len(records) != 0 {
		t.Errorf("CallRecords: got %v", records)
	}
	if unseen, err := s.Seen(t.Context(), "/project", "s", nil); len(unseen) != 0 || err != nil {
		t.Errorf("Seen of nothing: got %v, %v", unseen, err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the state directory was made")
	}
}
