package state

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func approval(patterns ...string) Approval {
	return Approval{
		Root: "/p", Plugin: "git", Digest: digest(1), Tool: "git/commit", Action: "run", Patterns: patterns, By: "ada", Why: "it is mine",
		At: time.Date(2026, 11, 30, 10, 0, 0, int(time.Millisecond), time.UTC),
	}
}

func mustSave(t *testing.T, s *Store, a Approval) Approval {
	t.Helper()
	saved, err := s.SaveApproval(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return saved
}

func mustApprovals(t *testing.T, s *Store, filter ApprovalFilter) []Approval {
	t.Helper()
	found, err := s.Approvals(t.Context(), filter)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// patternsFor are what the store's view has for the key.
func patternsFor(t *testing.T, s *Store, key ApprovalKey) []string {
	t.Helper()
	found, err := s.ApprovalView().For(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	var patterns []string
	for _, p := range found {
		patterns = append(patterns, p.Pattern)
	}
	return patterns
}

// TestLaw34SavedForItsKey: an approval is found for its key whole, and for no other
// that differs in one part. Seen to fail without the definition in the query of the
// view.
func TestLaw34SavedForItsKey(t *testing.T) {
	s := open(t, t.TempDir())
	dynamic := approval("a")
	dynamic.Definition = digest(2)
	builtin := approval("b")
	builtin.Builtin, builtin.Digest = true, ""
	for _, a := range []Approval{approval("c"), dynamic, builtin} {
		mustSave(t, s, a)
		if got := patternsFor(t, s, a.Key()); !slices.Equal(got, a.Patterns) {
			t.Errorf("%+v: got %q", a.Key(), got)
		}
	}
	for name, change := range map[string]func(*ApprovalKey){
		"root":               func(k *ApprovalKey) { k.Root = "/p/q" },
		"plugin":             func(k *ApprovalKey) { k.Plugin = "Git" },
		"digest":             func(k *ApprovalKey) { k.Digest = digest(9) },
		"definition":         func(k *ApprovalKey) { k.Definition = digest(9) },
		"action":             func(k *ApprovalKey) { k.Action = "write" },
		"built-in, by name":  func(k *ApprovalKey) { k.Plugin, k.Builtin, k.Digest = "other", true, "" },
		"dynamic built-in":   func(k *ApprovalKey) { k.Builtin, k.Digest, k.Definition = true, "", digest(2) },
		"another's built-in": func(k *ApprovalKey) { k.Root, k.Builtin, k.Digest = "/", true, "" },
	} {
		key := approval("c").Key()
		change(&key)
		if got := patternsFor(t, s, key); len(got) != 0 {
			t.Errorf("another %s: got %q", name, got)
		}
	}
}

// TestCaseC09ExactlyWhatWasShown: the patterns come back byte for byte, in one entry,
// and none is added to them. Seen to fail with patterns that are kept as JSON.
func TestCaseC09ExactlyWhatWasShown(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	a := approval("git status", "rm -r ./tmp1", "*\n\"\\'", "caf\xff", strings.Repeat("é", MaxApprovalText/2))
	want := a
	want.ID = mustSave(t, s, a).ID
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	other := open(t, dir)
	if got := mustApprovals(t, other, ApprovalFilter{}); !reflect.DeepEqual(got, []Approval{want}) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if got := patternsFor(t, other, a.Key()); !slices.Equal(got, a.Patterns) {
		t.Errorf("the view has %q", got)
	}
}

// TestCaseC13SavedOnce: whoever saves the same thing again, or at the same time, gets
// what is saved; what holds longer stays.
func TestCaseC13SavedOnce(t *testing.T) {
	dir := t.TempDir()
	hour, day := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond), time.Now().Add(24*time.Hour).UTC().Truncate(time.Millisecond)
	s := open(t, dir)
	var first Approval
	for i, step := range []struct{ expires, want time.Time }{{day, day}, {hour, day}, {day, day}, {time.Time{}, time.Time{}}, {day, time.Time{}}} {
		a := approval("a", "b")
		a.By, a.Expires = strconv.Itoa(i), step.expires
		saved := mustSave(t, s, a)
		if first.ID == 0 {
			first = saved
		}
		if saved.ID != first.ID || !saved.Expires.Equal(step.want) {
			t.Errorf("step %d: got %+v", i, saved)
		}
	}
	if got := mustApprovals(t, s, ApprovalFilter{}); len(got) != 1 || got[0].By != "3" {
		t.Errorf("got %+v", got)
	}
	if mustSave(t, s, approval("b", "a")).ID == first.ID || mustSave(t, s, approval("a")).ID == first.ID {
		t.Error("other patterns are not the same approval")
	}
	var wg sync.WaitGroup
	ids := make([]int64, 10)
	for i := range ids {
		host := open(t, dir)
		wg.Go(func() {
			saved, err := host.SaveApproval(t.Context(), approval("burst"))
			if err != nil {
				t.Error(err)
			}
			ids[i] = saved.ID
		})
	}
	wg.Wait()
	if slices.Sort(ids); len(slices.Compact(ids)) != 1 {
		t.Errorf("saved as %v", ids)
	}
}

// TestLaw34UntilExpired: what is expired counts nowhere, from that moment on, and is
// removed by the next change. Seen to fail with a view that does not look at until.
func TestLaw34UntilExpired(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Dir: dir})
		a, forever := approval("a"), approval("b")
		a.Expires = time.Now().Add(time.Minute)
		id := mustSave(t, s, a).ID
		mustSave(t, s, forever)
		time.Sleep(time.Minute - time.Millisecond)
		if got := patternsFor(t, s, a.Key()); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("before it expires: got %q", got)
		}
		time.Sleep(time.Millisecond)
		if got := patternsFor(t, s, a.Key()); !slices.Equal(got, []string{"b"}) {
			t.Errorf("the view: got %q", got)
		}
		if got := mustApprovals(t, s, ApprovalFilter{}); len(got) != 1 || got[0].Patterns[0] != "b" {
			t.Errorf("the list: got %v", got)
		}
		if revoked, err := s.RevokeApproval(t.Context(), id); revoked || err != nil {
			t.Errorf("RevokeApproval: got %v, %v", revoked, err)
		}
		var rows int
		if err := s.db.QueryRow("SELECT count(*) FROM approvals").Scan(&rows); rows != 1 || err != nil {
			t.Errorf("%d rows are left, %v", rows, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestLaw34Revoked: one, or all that a filter means; an id is not used again.
func TestLaw34Revoked(t *testing.T) {
	dir := t.TempDir()
	s, other := open(t, dir), open(t, dir)
	last := int64(0)
	for _, root := range []string{"/a", "/b"} {
		for _, action := range []string{"run", "write"} {
			a := approval("x")
			a.Root, a.Action = root, action
			last = mustSave(t, s, a).ID
		}
	}
	for _, c := range []struct {
		filter ApprovalFilter
		want   int
	}{
		{ApprovalFilter{}, 4}, {ApprovalFilter{Root: "/a"}, 2}, {ApprovalFilter{Action: "run"}, 2}, {ApprovalFilter{Plugin: "git", Root: "/b", Action: "run"}, 1},
		{ApprovalFilter{Plugin: "gi"}, 0},
	} {
		if got := mustApprovals(t, other, c.filter); len(got) != c.want {
			t.Errorf("%+v: got %d, want %d", c.filter, len(got), c.want)
		}
	}
	for _, want := range []bool{true, false} {
		if got, err := other.RevokeApproval(t.Context(), last); got != want || err != nil {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
	if n, err := other.RevokeApprovals(t.Context(), ApprovalFilter{Root: "/a"}); n != 2 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	if n, err := other.RevokeApprovals(t.Context(), ApprovalFilter{}); n != 1 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	if id := mustSave(t, s, approval("x")).ID; id <= last {
		t.Errorf("id %d is used again", id)
	}
}

// TestApprovalsAreChecked before anything is made.
func TestApprovalsAreChecked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "toolhost")
	s := open(t, dir)
	long := strings.Repeat("x", MaxApprovalText+1)
	for want, change := range map[string]func(*Approval){
		`approval has the root "p": it must be absolute and clean`:                       func(a *Approval) { a.Root = "p" },
		`approval has the root "/p/../q": it must be absolute and clean`:                 func(a *Approval) { a.Root = "/p/../q" },
		"approval names no plugin":                                                       func(a *Approval) { a.Plugin = "" },
		"approval names no action":                                                       func(a *Approval) { a.Action = "" },
		`approval has no digest for the plugin "git", and it is not a built-in`:          func(a *Approval) { a.Digest = "" },
		`approval has a digest for the built-in "git", which is known by its name alone`: func(a *Approval) { a.Builtin = true },
		"approval has 0 patterns: there must be 1 to 64":                                 func(a *Approval) { a.Patterns = nil },
		"approval has 65 patterns: there must be 1 to 64":                                func(a *Approval) { a.Patterns = slices.Repeat([]string{"a"}, 65) },
		"approval has an empty pattern at 1":                                             func(a *Approval) { a.Patterns = []string{"a", ""} },
		"approval has a NUL in the pattern at 0":                                         func(a *Approval) { a.Patterns = []string{"a\x00*"} },
		"approval has a pattern of 4097 bytes at 0: there may be 4096":                   func(a *Approval) { a.Patterns = []string{long} },
		"approval has a action of 4097 bytes: there may be 4096":                         func(a *Approval) { a.Action = long },
		`approval has a text of 4097 bytes for "why": there may be 4096`:                 func(a *Approval) { a.Why = long },
		"approval expired at 1970-01-01T00:00:01Z, before it is saved":                   func(a *Approval) { a.Expires = time.Unix(1, 0) },
	} {
		a := approval("a")
		change(&a)
		if _, err := s.SaveApproval(t.Context(), a); err == nil || err.Error() != want {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
	if _, err := s.ApprovalView().For(t.Context(), ApprovalKey{Root: "/p", Plugin: "git", Action: "run"}); err == nil {
		t.Error("a plugin without a digest was taken for a built-in")
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the state directory was made")
	}
}

// TestApprovalsAreBounded, and saving one again is possible all the same.
func TestApprovalsAreBounded(t *testing.T) {
	s := open(t, t.TempDir())
	first := mustSave(t, s, approval("a"))
	if _, err := s.db.Exec(`WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO approvals
		SELECT NULL, '/', 'p', 1, '', '', 'run', '', CAST(i AS BLOB), '', '', 0, 0 FROM n`, MaxApprovals); err != nil {
		t.Fatal(err)
	}
	want := "10000 approvals are saved already: revoke some of them"
	if _, err := s.SaveApproval(t.Context(), approval("b")); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v", err)
	}
	if again := mustSave(t, s, approval("a")); again.ID != first.ID {
		t.Errorf("got %+v", again)
	}
}

// TestAskingForApprovalsCreatesNothing.
func TestAskingForApprovalsCreatesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "toolhost")
	s := open(t, dir)
	if got := mustApprovals(t, s, ApprovalFilter{}); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	if got := patternsFor(t, s, approval("a").Key()); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	if n, err := s.RevokeApprovals(t.Context(), ApprovalFilter{}); n != 0 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the state directory was made")
	}
	mustSave(t, open(t, dir), approval("a"))
	if got := patternsFor(t, s, approval("a").Key()); !slices.Equal(got, []string{"a"}) {
		t.Errorf("once there is a database: got %q", got)
	}
}
