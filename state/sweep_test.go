package state

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/toolhost/toolhost/tool"
)

// TestCallsAreSwept: what is over for seven days, and never what runs. Seen to
// fail without the condition on run.
func TestCallsAreSwept(t *testing.T) {
	s := open(t, t.TempDir())
	c := journal(t, s)
	old, edge := time.Now().Add(-CallRetention-time.Minute).UnixMilli(), time.Now().Add(-CallRetention+time.Minute).UnixMilli()
	running := mustStart(t, c, "running")
	fill(t, c, 2500)
	kept := mustStart(t, c, "kept")
	if err := c.End(t.Context(), kept, tool.Completed, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := c.run.db.Exec("UPDATE calls SET started = ?1, ended = CASE WHEN id = ?2 THEN 0 WHEN id = ?3 THEN ?4 ELSE ?1 END", old, running, kept, edge); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Abandoned(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantStatuses(t, mustRecords(t, s, CallFilter{}), "kept completed", "running running")
}

// fill adds records of calls that are over.
func fill(t *testing.T, c *Calls, n int) {
	t.Helper()
	if _, err := c.run.db.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO calls SELECT NULL, '', '/', 's', 'a', 'm', 'c', 0, 't', 'write', ?2, ?2, 'completed', '' FROM n`, n, time.Now().UnixMilli()); err != nil {
		t.Fatal(err)
	}
}

// TestCallsAreBounded: the oldest go when there are too many.
func TestCallsAreBounded(t *testing.T) {
	s := open(t, t.TempDir())
	c := journal(t, s)
	mustStart(t, c, "running")
	fill(t, c, 2200)
	mustStart(t, c, "last")
	if err := sweepCalls(t.Context(), c.run.db, time.Now(), 50); err != nil {
		t.Fatal(err)
	}
	records := mustRecords(t, s, CallFilter{Limit: 1000})
	if len(records) != 51 || records[0].Identity.Call != "last" || records[50].Identity.Call != "running" {
		t.Errorf("got %d: %v", len(records), statuses(records))
	}
}

// TestLongLivedHostSweeps without being started again.
func TestLongLivedHostSweeps(t *testing.T) {
	s := open(t, t.TempDir())
	c := journal(t, s)
	id := mustStart(t, c, "old")
	if err := c.End(t.Context(), id, tool.Completed, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := c.run.db.Exec("UPDATE calls SET ended = 1"); err != nil {
		t.Fatal(err)
	}
	c.starts = sweepEvery
	mustStart(t, c, "new")
	wantStatuses(t, mustRecords(t, s, CallFilter{}), "new running")
}

// TestLocksAreTakenWithTheirName: a lock on a file that was swept while it was
// made would protect nothing. Seen to fail without the question whether it is
// linked.
func TestLocksAreTakenWithTheirName(t *testing.T) {
	dir := t.TempDir()
	done := make(chan struct{})
	var sweepers sync.WaitGroup
	for range 3 {
		sweepers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := sweepLocks(dir); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 300 {
		l, id, err := newLock(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, runsName, id)); err != nil {
			t.Errorf("it is held and has no file: %v", err)
		}
		if err := l.remove(); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	sweepers.Wait()
}

// TestLocksAreSwept: those of hosts that died without an open call.
func TestLocksAreSwept(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	c := journal(t, s)
	mustStart(t, c, "1")
	if err := os.WriteFile(filepath.Join(dir, runsName, "DEAD"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Abandoned(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := locks(t, dir), []string{c.run.id}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
