package state

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolhost/toolhost/tool"
)

func start(call string) tool.Start {
	return tool.Start{
		Identity: tool.Identity{Session: "s", Agent: "a", Message: "m", Call: call, HostMade: true},
		Tool:     "weather/forecast",
		Effects:  tool.Write | tool.Network,
		At:       time.Date(2026, 11, 30, 10, 0, 0, int(time.Millisecond), time.UTC),
	}
}

func journal(t *testing.T, s *Store) *Calls {
	t.Helper()
	c := s.OpenCalls()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

func mustStart(t *testing.T, c *Calls, call string) CallID {
	t.Helper()
	id, err := c.Start(t.Context(), "/project", start(call))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func mustRecords(t *testing.T, s *Store, filter CallFilter) []CallRecord {
	t.Helper()
	records, err := s.CallRecords(t.Context(), filter)
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// statuses are the calls with how they ended.
func statuses(records []CallRecord) []string {
	var list []string
	for _, r := range records {
		list = append(list, r.Identity.Call+" "+string(r.Status))
	}
	return list
}

func wantStatuses(t *testing.T, records []CallRecord, want ...string) {
	t.Helper()
	if got := statuses(records); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// locks are the names in the directory of the locks.
func locks(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, runsName))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestLaw15StartedIsRecorded: before the call runs, and how it ended; of a call
// nobody ended the outcome is unknown once the host is gone, and only then.
// Seen to fail with a claim that does not lock.
func TestLaw15StartedIsRecorded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "toolhost")
	s := open(t, dir)
	c := s.OpenCalls()
	if _, err := os.Stat(dir); err == nil {
		t.Error("a journal without calls is on disk")
	}
	first, second := mustStart(t, c, "1"), mustStart(t, c, "2")
	running := CallRecord{
		ID: first, Root: "/project", Identity: start("1").Identity, Tool: "weather/forecast", Effects: []string{"write", "network"},
		Started: start("1").At, Status: CallRunning,
	}
	if got := mustRecords(t, s, CallFilter{}); len(got) != 2 || !reflect.DeepEqual(got[1], running) {
		t.Errorf("got %+v\nwant %+v", got, running)
	}
	if err := c.End(t.Context(), first, tool.Errored, tool.KindCrashed); err != nil {
		t.Fatal(err)
	}
	ended := mustRecords(t, s, CallFilter{})[1]
	if ended.Status != tool.Errored || ended.Kind != tool.KindCrashed || time.Since(ended.Ended) > time.Minute {
		t.Errorf("got %+v", ended)
	}

	other := open(t, dir)
	if found, err := other.Abandoned(t.Context()); len(found) != 0 || err != nil {
		t.Errorf("while the host lives: got %v, %v", found, err)
	}
	for name, id := range map[string]CallID{"ended": first, "never started": second + 1} {
		want := fmt.Sprintf("call %d is not one that this host started and that runs", id)
		if err := c.End(t.Context(), id, tool.Completed, ""); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("End of a call that %s: got %v", name, err)
		}
	}
	if err := journal(t, other).End(t.Context(), second, tool.Completed, ""); err == nil {
		t.Error("another host ended the call")
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Start(t.Context(), "/project", start("3")); err == nil || !strings.HasSuffix(err.Error(), "the record of calls is closed: this host is closing") {
		t.Errorf("Start after Close: got %v", err)
	}
	found, err := other.Abandoned(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantStatuses(t, found, "2 unknown")
	wantStatuses(t, mustRecords(t, s, CallFilter{}), "2 unknown", "1 error")
}

// holdCalls starts three calls, ends one of them, says so, and waits for its end.
func holdCalls(dir string) int {
	s := New(Options{Dir: dir})
	c := s.OpenCalls()
	var ids []CallID
	for i := range 3 {
		id, err := c.Start(context.Background(), "/project", start(strconv.Itoa(i)))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		ids = append(ids, id)
	}
	if err := c.End(context.Background(), ids[1], tool.Completed, ""); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// TestLaw15KilledHost: what a host that was killed left open is found exactly
// once, however many look at the same time, and what it ended stays so. Seen to
// fail with ended calls that keep their run.
func TestLaw15KilledHost(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "toolhost")
	cmd := childProcess(t, dir, "hold")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	s := open(t, dir)
	if found, err := s.Abandoned(t.Context()); len(found) != 0 || err != nil {
		t.Errorf("while it lives: got %v, %v", statuses(found), err)
	}
	wantStatuses(t, mustRecords(t, s, CallFilter{}), "2 running", "1 completed", "0 running")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed

	const finders = 8
	var wg sync.WaitGroup
	found := make([][]CallRecord, finders)
	for i := range finders {
		finder := open(t, dir)
		wg.Go(func() {
			var err error
			if found[i], err = finder.Abandoned(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	all := slices.Concat(found...)
	wantStatuses(t, all, "0 unknown", "2 unknown")
	for _, r := range all {
		if r.Ended.IsZero() || r.Root != "/project" || r.Identity.Session != "s" {
			t.Errorf("got %+v", r)
		}
	}
	wantStatuses(t, mustRecords(t, s, CallFilter{}), "2 unknown", "1 completed", "0 unknown")
	if names := locks(t, dir); len(names) != 0 {
		t.Errorf("locks are left: %q", names)
	}
}

// TestLaw15CancelledLookLosesNothing: whenever a host that looks is stopped, each
// call is returned once by one of those who look. Seen to fail without the
// transaction.
func TestLaw15CancelledLookLosesNothing(t *testing.T) {
	s := open(t, t.TempDir())
	const hosts, each = 6, 60
	for i := range hosts {
		c := s.OpenCalls()
		for j := range each {
			mustStart(t, c, fmt.Sprint(i*each+j))
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var all []CallRecord
	for try := 1; len(all) < hosts*each && try < 1000; try++ {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(try)*30*time.Microsecond)
		found, err := s.Abandoned(ctx)
		if err != nil && ctx.Err() == nil {
			t.Fatal(err)
		}
		cancel()
		all = append(all, found...)
	}
	if !slices.IsSortedFunc(all, func(a, b CallRecord) int { return int(a.ID - b.ID) }) {
		t.Errorf("not in their order: %v", statuses(all))
	}
	slices.SortFunc(all, func(a, b CallRecord) int { return int(a.ID - b.ID) })
	if n := len(slices.CompactFunc(slices.Clone(all), func(a, b CallRecord) bool { return a.ID == b.ID })); n != hosts*each || len(all) != n {
		t.Errorf("got %d records of %d calls, want each of %d once", len(all), n, hosts*each)
	}
}

// makeCalls starts and ends calls as fast as it can.
func makeCalls(dir string) int {
	s := New(Options{Dir: dir})
	defer s.Close()
	c := s.OpenCalls()
	defer c.Close()
	for i := range 50 {
		id, err := c.Start(context.Background(), fmt.Sprint("/", os.Getpid()), start(strconv.Itoa(i)))
		if err == nil {
			err = c.End(context.Background(), id, tool.Completed, "")
		}
		if i%10 == 0 && err == nil {
			_, err = s.Abandoned(context.Background())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

// TestLaw15SeveralHosts start calls at the same time, in one new database, and
// look for those of dead hosts meanwhile. Seen to fail with a claim that does not
// lock.
func TestLaw15SeveralHosts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "toolhost")
	const hosts = 4
	var wg sync.WaitGroup
	for range hosts {
		wg.Go(func() {
			if out, err := childProcess(t, dir, "call").CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wg.Wait()
	s := open(t, dir)
	if got := mustRecords(t, s, CallFilter{Status: tool.Completed, Limit: 1000}); len(got) != hosts*50 {
		t.Errorf("got %d completed calls, want %d", len(got), hosts*50)
	}
	if found, err := s.Abandoned(t.Context()); len(found) != 0 || err != nil {
		t.Errorf("Abandoned: got %v, %v", found, err)
	}
	if names := locks(t, dir); len(names) != 0 {
		t.Errorf("locks are left: %q", names)
	}
}

// TestLaw15SeveralCalls at the same time, some of which were given up before.
func TestLaw15SeveralCalls(t *testing.T) {
	s := open(t, t.TempDir())
	c := journal(t, s)
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("nobody waits any more"))
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			ctx := t.Context()
			if i%4 == 0 {
				ctx = gone
			}
			id, err := c.Start(ctx, "/project", start(strconv.Itoa(i)))
			switch {
			case i%4 == 0:
				if !errors.Is(err, context.Cause(gone)) {
					t.Errorf("given up: got %d, %v", id, err)
				}
			case err != nil:
				t.Error(err)
			default:
				if err := c.End(context.WithoutCancel(ctx), id, tool.Failed, tool.KindFailure); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := mustRecords(t, s, CallFilter{}); len(got) != 48 {
		t.Errorf("got %d records, want 48", len(got))
	}
}

// TestLaw15UnwritableState: without a record there is no call, and the error says
// where and why.
func TestLaw15UnwritableState(t *testing.T) {
	t.Run("its directory is a file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		c := journal(t, open(t, filepath.Join(file, "toolhost")))
		if _, err := c.Start(t.Context(), "/project", start("1")); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("read-only directory", func(t *testing.T) {
		if os.Geteuid() == 0 {
			t.Skip("modes stop nobody who is root")
		}
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		c := journal(t, open(t, dir))
		if _, err := c.Start(t.Context(), "/project", start("1")); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("got %v", err)
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		mustStart(t, c, "2")
	})
	t.Run("read-only database", func(t *testing.T) {
		s := open(t, t.TempDir())
		c := journal(t, s)
		id := mustStart(t, c, "1")
		if _, err := c.run.db.Exec("PRAGMA query_only = 1"); err != nil {
			t.Fatal(err)
		}
		want := "attempt to write a readonly database (8); its directory must be writable"
		if _, err := c.Start(t.Context(), "/project", start("2")); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("Start: got %v", err)
		}
		if err := c.End(t.Context(), id, tool.Completed, ""); err != nil {
			t.Errorf("End: got %v", err)
		}
		wantStatuses(t, mustRecords(t, s, CallFilter{}), "1 running")
		if err := c.Close(); err == nil || !strings.Contains(err.Error(), "the ends of 1 calls were not written") || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("Close: got %v", err)
		}
	})
	t.Run("locks cannot be made", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, runsName), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		c := journal(t, open(t, dir))
		if _, err := c.Start(t.Context(), "/project", start("1")); err == nil || !strings.Contains(err.Error(), runsName) {
			t.Errorf("got %v", err)
		}
		if err := os.Remove(filepath.Join(dir, runsName)); err != nil {
			t.Fatal(err)
		}
		mustStart(t, c, "2")
	})
	t.Run("schema of a newer program", func(t *testing.T) {
		dir := t.TempDir()
		s := open(t, dir)
		mustTrust(t, s, record("/p", 1))
		if _, err := s.db.Exec("PRAGMA user_version = 99"); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("schema version 99 is newer than this program, which knows %d: upgrade toolhost", len(migrations()))
		c := journal(t, s)
		_, starting := c.Start(t.Context(), "/project", start("1"))
		_, finding := s.Abandoned(t.Context())
		_, listing := s.CallRecords(t.Context(), CallFilter{})
		_, seeing := s.Seen(t.Context(), "/project", "s", []string{"AGENTS.md"})
		for name, err := range map[string]error{"Start": starting, "Abandoned": finding, "CallRecords": listing, "Seen": seeing} {
			if err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%s: got %v", name, err)
			}
		}
	})
}

// TestLaw12IncompleteIdentityIsNotRecorded, nor is anything else made for it.
func TestLaw12IncompleteIdentityIsNotRecorded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "toolhost")
	c := journal(t, open(t, dir))
	incomplete := start("")
	if _, err := c.Start(t.Context(), "/project", incomplete); err == nil || !strings.HasPrefix(err.Error(), "call is not recorded: identity has no call id") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the state directory was made")
	}
}

// TestMigrationKeepsTrust: a database of the first version is brought up to date.
func TestMigrationKeepsTrust(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	mustTrust(t, s, record("/p", 1))
	if _, err := s.db.Exec("DROP TABLE calls; DROP TABLE seen_instructions; DROP TABLE approvals; DROP TABLE approval_changes; DROP TABLE trust_contents; DROP TABLE programs; DROP TABLE seen_files; PRAGMA user_version = 1"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	mustStart(t, journal(t, s), "1")
	wantStatuses(t, mustRecords(t, s, CallFilter{}), "1 running")
	if got, err := s.TrustRecords(t.Context()); !slices.Equal(got, []TrustRecord{record("/p", 1)}) || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestCallFilter: each part of it, and the bounds.
func TestCallFilter(t *testing.T) {
	s := open(t, t.TempDir())
	c := journal(t, s)
	for i := range 120 {
		call := start(strconv.Itoa(i))
		if i == 7 {
			call.Identity.Session = "other"
		}
		if _, err := c.Start(t.Context(), map[bool]string{true: "/a", false: "/b"}[i < 10], call); err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range []struct {
		filter CallFilter
		want   int
		first  string
	}{
		{CallFilter{}, 100, "119"}, {CallFilter{Limit: 3}, 3, "119"}, {CallFilter{Limit: MaxCalls}, 120, "119"},
		{CallFilter{Root: "/a"}, 10, "9"}, {CallFilter{Session: "other"}, 1, "7"}, {CallFilter{Status: CallRunning, Root: "/a", Limit: 2}, 2, "9"},
		{CallFilter{Status: tool.Completed}, 0, ""},
	} {
		got := mustRecords(t, s, q.filter)
		if len(got) != q.want || q.want > 0 && got[0].Identity.Call != q.first {
			t.Errorf("%+v: got %d, the first %v", q.filter, len(got), statuses(got)[:min(1, len(got))])
		}
	}
	for _, limit := range []int{-1, MaxCalls + 1} {
		if _, err := s.CallRecords(t.Context(), CallFilter{Limit: limit}); err == nil {
			t.Errorf("limit %d is taken", limit)
		}
	}
}
