package state

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func wantUnseen(t *testing.T, s *Store, root, session string, paths []string, want ...string) {
	t.Helper()
	if got, err := s.Seen(t.Context(), root, session, paths); !slices.Equal(got, want) || err != nil {
		t.Errorf("%s, %s, %q: got %q, %v, want %q", root, session, paths, got, err, want)
	}
}

// TestLaw30SeenOnce: once per Location and session, over closings, in the order
// that was asked. Seen to fail without the session in the key.
func TestLaw30SeenOnce(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	wantUnseen(t, s, "/p", "one", []string{"b", "a", "b"}, "b", "a")
	wantUnseen(t, s, "/p", "one", []string{"a", "c", "b"}, "c")
	wantUnseen(t, s, "/p", "two", []string{"a"}, "a")
	wantUnseen(t, s, "/q", "one", []string{"a"}, "a")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantUnseen(t, open(t, dir), "/p", "one", []string{"a", "b", "c"})
	if _, err := s.Seen(t.Context(), "/p", "", []string{"a"}); err == nil {
		t.Error("no session is taken")
	}
}

// TestSeenIsForgotten after thirty days, so that it does not grow without bound.
func TestSeenIsForgotten(t *testing.T) {
	s := open(t, t.TempDir())
	wantUnseen(t, s, "/p", "old", []string{"a", "b"}, "a", "b")
	wantUnseen(t, s, "/p", "new", []string{"a"}, "a")
	if _, err := s.db.Exec("UPDATE seen_instructions SET at = ? WHERE session = 'old'", time.Now().Add(-SeenRetention-time.Minute).UnixMilli()); err != nil {
		t.Fatal(err)
	}
	wantUnseen(t, s, "/p", "new", []string{"b"}, "b")
	var n int
	if err := s.db.QueryRow("SELECT count(*) FROM seen_instructions").Scan(&n); n != 2 || err != nil {
		t.Errorf("got %d records, %v, want 2", n, err)
	}
	wantUnseen(t, s, "/p", "old", []string{"a"}, "a")
}

// seeInstructions prints what it is told that the session was not given.
func seeInstructions(dir string) int {
	s := New(Options{Dir: dir})
	defer s.Close()
	for i := range 40 {
		unseen, err := s.Seen(context.Background(), "/p", "s", []string{fmt.Sprint(i), fmt.Sprint(i + 1), fmt.Sprint(i + 2)})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		for _, path := range unseen {
			fmt.Println(path)
		}
	}
	return 0
}

// TestLaw30SeenBySeveralProcesses: each path is given by one of them. Seen to
// fail with INSERT OR REPLACE.
func TestLaw30SeenBySeveralProcesses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "toolhost")
	var wg sync.WaitGroup
	said := make([]string, 4)
	for i := range said {
		wg.Go(func() {
			cmd := childProcess(t, dir, "see")
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				t.Error(err)
			}
			said[i] = string(out)
		})
	}
	wg.Wait()
	times := map[string]int{}
	for path := range strings.FieldsSeq(strings.Join(said, "")) {
		times[path]++
	}
	for i := range 42 {
		if n := times[fmt.Sprint(i)]; n != 1 {
			t.Errorf("path %d was given %d times", i, n)
		}
	}
}
