package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

// childDir and childRole are set in the environment of the processes that tests
// start.
const (
	childDir  = "TOOLHOST_TEST_STATE_DIR"
	childRole = "TOOLHOST_TEST_STATE_ROLE"
)

// childProcess is this program in another role.
func childProcess(t *testing.T, dir, role string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), childDir+"="+dir, childRole+"="+role)
	return cmd
}

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		role := child
		switch os.Getenv(childRole) {
		case "hold":
			role = holdCalls
		case "call":
			role = makeCalls
		case "see":
			role = seeInstructions
		case "evidence":
			role = seeFiles
		case "approve":
			role = saveApprovals
		case "audit":
			role = appendAudit
		case "programs":
			role = recordPrograms
		}
		os.Exit(role(dir))
	}
	goleak.VerifyTestMain(m)
}

func digest(n int) string { return fmt.Sprintf("%064x", n) }

func record(path string, n int) TrustRecord {
	return TrustRecord{Path: path, Digest: digest(n), By: "ada", At: time.Date(2026, 11, 30, 10, 0, 0, n*int(time.Millisecond), time.UTC)}
}

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s := New(Options{Dir: dir})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func mustTrust(t *testing.T, s *Store, r TrustRecord) {
	t.Helper()
	if err := s.Trust(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// TestLaw45TrustIsRecorded: it outlives the store (and law 40).
func TestLaw45TrustIsRecorded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state #1?%41", "toolhost")
	s := open(t, dir)
	first, second := record("/p/toolhost.yaml", 1), record("/q/\xff?'\n", 2)
	mustTrust(t, s, second)
	mustTrust(t, s, first)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	other := open(t, dir)
	for _, want := range []TrustRecord{first, second} {
		if got, ok, err := other.Trusted(t.Context(), want.Path); got != want || !ok || err != nil {
			t.Errorf("got %+v, %v, %v\nwant %+v", got, ok, err, want)
		}
	}
	if _, ok, err := other.Trusted(t.Context(), "/p"); ok || err != nil {
		t.Errorf("a path without a record: got %v, %v", ok, err)
	}
	again := record(first.Path, 3)
	mustTrust(t, other, again)
	got, err := other.TrustRecords(t.Context())
	if want := []TrustRecord{again, second}; !slices.Equal(got, want) || err != nil {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	for _, want := range []bool{true, false} {
		if removed, err := other.RevokeTrust(t.Context(), again.Path); removed != want || err != nil {
			t.Errorf("RevokeTrust: got %v, %v, want %v", removed, err, want)
		}
	}
	if _, ok, err := s.Trusted(t.Context(), again.Path); ok || err != nil { // opens again
		t.Errorf("after RevokeTrust: got %v, %v", ok, err)
	}
}

// TestAskingCreatesNothing: a run that asks about trust leaves no trace, and
// neither does a store that is never used. Seen to fail with use in place of
// ifExists.
func TestAskingCreatesNothing(t *testing.T) {
	parent := t.TempDir()
	s := open(t, filepath.Join(parent, "toolhost"))
	if _, ok, err := s.Trusted(t.Context(), "/p"); ok || err != nil {
		t.Errorf("Trusted: got %v, %v", ok, err)
	}
	if records, err := s.TrustRecords(t.Context()); len(records) != 0 || err != nil {
		t.Errorf("TrustRecords: got %v, %v", records, err)
	}
	if removed, err := s.RevokeTrust(t.Context(), "/p"); removed || err != nil {
		t.Errorf("RevokeTrust: got %v, %v", removed, err)
	}
	if entries, err := os.ReadDir(parent); len(entries) != 0 || err != nil {
		t.Errorf("created %v, %v", entries, err)
	}
}

// TestOnlyTheUserCanRead, whatever the mode was before.
func TestOnlyTheUserCanRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "toolhost")
	s := open(t, dir)
	mustTrust(t, s, record("/p", 1))
	check := func() {
		t.Helper()
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if info, err := entry.Info(); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: got %v, %v, want 0600", entry.Name(), info.Mode(), err)
			}
		}
		if len(entries) < 3 {
			t.Errorf("got %d files; the WAL of an open database is missing", len(entries))
		}
	}
	check()
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory: got %v, %v, want 0700", info.Mode(), err)
	}

	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, fileName)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	mustTrust(t, s, record("/p", 2))
	check()

	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("state database %s: directory can be written by others; run: chmod 700 %s", path, dir)
	if err := s.Trust(t.Context(), record("/p", 3)); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestDefaultDir(t *testing.T) {
	for _, c := range []struct{ xdg, home, want string }{
		{"/x", "/h", "/x/toolhost"},
		{"", "/h", "/h/.local/state/toolhost"},
		{"relative", "/h", "/h/.local/state/toolhost"},
	} {
		t.Setenv("XDG_STATE_HOME", c.xdg)
		t.Setenv("HOME", c.home)
		if got, err := DefaultDir(); got != c.want || err != nil {
			t.Errorf("%+v: got %q, %v", c, got, err)
		}
		if got, err := New(Options{}).Path(); got != c.want+"/state.db" || err != nil {
			t.Errorf("%+v: Path: got %q, %v", c, got, err)
		}
	}
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "")
	for name, err := range map[string]error{
		"Trusted": func() error { _, _, err := New(Options{}).Trusted(t.Context(), "/p"); return err }(),
		"Trust":   New(Options{}).Trust(t.Context(), record("/p", 1)),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "state directory is unknown: set XDG_STATE_HOME or HOME") {
			t.Errorf("%s without HOME: got %v", name, err)
		}
	}
}

func TestBadRecordsAreRefused(t *testing.T) {
	s := open(t, t.TempDir())
	for _, r := range []TrustRecord{
		{Path: "p", Digest: digest(1)}, {Path: "", Digest: digest(1)}, {Path: "/p/../q", Digest: digest(1)}, {Path: "/p/", Digest: digest(1)},
		{Path: "/p", Digest: ""}, {Path: "/p", Digest: digest(1)[1:]}, {Path: "/p", Digest: strings.Repeat("A", 64)}, {Path: "/p", Digest: strings.Repeat("x", 64)},
	} {
		if err := s.Trust(t.Context(), r); err == nil || !strings.HasPrefix(err.Error(), "trust record has the ") {
			t.Errorf("%+v: got %v", r, err)
		}
	}
}

// TestBrokenDatabase: whatever is wrong with the file, the error names it and
// says what to do, and the store works once it is mended.
func TestBrokenDatabase(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, path string)
		want  string
	}{
		{"not a database", func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(strings.Repeat("not a database\n", 100)), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "file is not a database (26); move the file away to begin anew (what was trusted and approved has to be once more)"},
		{"corrupt", func(t *testing.T, path string) {
			s := New(Options{Dir: filepath.Dir(path)})
			mustTrust(t, s, record("/p", 1))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for i := 100; i < len(data); i++ {
				data[i] = 0xff
			}
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "database disk image is malformed (11); move the file away to begin anew (what was trusted and approved has to be once more)"},
		{"a directory", func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, "is a directory"},
		{"of a newer program", func(t *testing.T, path string) {
			s := New(Options{Dir: filepath.Dir(path)})
			mustTrust(t, s, record("/p", 1))
			if _, err := s.db.Exec("PRAGMA user_version = 99"); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}, "schema version 99 is newer than this program, which knows 5: upgrade toolhost"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Chmod(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, fileName)
			c.spoil(t, path)
			s := open(t, dir)
			for name, err := range map[string]error{
				"Trusted": func() error { _, _, err := s.Trusted(t.Context(), "/p"); return err }(),
				"Trust":   s.Trust(t.Context(), record("/p", 1)),
			} {
				if err == nil || !strings.HasPrefix(err.Error(), "state database "+path+": ") || !strings.HasSuffix(err.Error(), c.want) {
					t.Errorf("%s: got %v\nwant … %s", name, err, c.want)
				}
			}
			if err := os.Rename(path, path+".away"); err != nil {
				t.Fatal(err)
			}
			mustTrust(t, s, record("/p", 1))
		})
	}
}

func TestFullDisk(t *testing.T) {
	s := open(t, t.TempDir())
	mustTrust(t, s, record("/p", 1))
	if _, err := s.db.Exec("PRAGMA max_page_count = 3"); err != nil { // the database's own word for a full disk
		t.Fatal(err)
	}
	big := record("/q", 2)
	big.By = strings.Repeat("x", 1<<20)
	path, _ := s.Path()
	want := "state database " + path + ": database or disk is full (13); free some space on its disk"
	if err := s.Trust(t.Context(), big); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	got, err := s.TrustRecords(t.Context())
	if !slices.Equal(got, []TrustRecord{record("/p", 1)}) || err != nil {
		t.Errorf("after the failure: got %v, %v", got, err)
	}
}

// TestReadOnly: as root the modes of a directory stop nobody, so the database is
// told to refuse writing.
func TestReadOnly(t *testing.T) {
	s := open(t, t.TempDir())
	mustTrust(t, s, record("/p", 1))
	if _, err := s.db.Exec("PRAGMA query_only = 1"); err != nil {
		t.Fatal(err)
	}
	err := s.Trust(t.Context(), record("/p", 2))
	if err == nil || !strings.HasSuffix(err.Error(), "attempt to write a readonly database (8); its directory must be writable") {
		t.Errorf("got %v", err)
	}
	if _, ok, err := s.Trusted(t.Context(), "/p"); !ok || err != nil {
		t.Errorf("Trusted: got %v, %v", ok, err)
	}
}

// TestContextBoundsTheWaiting for another process that holds the database.
func TestContextBoundsTheWaiting(t *testing.T) {
	dir := t.TempDir()
	holder, s := open(t, dir), open(t, dir)
	mustTrust(t, holder, record("/p", 1))
	tx, err := holder.db.Begin() // takes the write lock
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()

	gone := errors.New("nobody waits any more")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, gone)
	defer cancel()
	if err := s.Trust(ctx, record("/p", 2)); !errors.Is(err, gone) {
		t.Errorf("got %v, want the cause", err)
	}
}

// child is one of the processes of TestSeveralProcesses: its records are /PID/0
// to /PID/24.
func child(dir string) int {
	s := New(Options{Dir: dir})
	defer s.Close()
	for i := range 25 {
		r := TrustRecord{Path: fmt.Sprintf("/%d/%d", os.Getpid(), i), Digest: digest(i), At: time.Unix(1, 0)}
		if err := s.Trust(context.Background(), r); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if got, ok, err := s.Trusted(context.Background(), r.Path); !ok || err != nil || got.Digest != r.Digest {
			fmt.Fprintln(os.Stderr, got, ok, err)
			return 1
		}
	}
	return 0
}

// TestSeveralProcesses create and fill one database at the same time. Seen to
// fail with a busy timeout of 0.
func TestSeveralProcesses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "toolhost")
	const processes = 6
	var wg sync.WaitGroup
	for range processes {
		wg.Go(func() {
			if out, err := childProcess(t, dir, "trust").CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wg.Wait()
	if records, err := open(t, dir).TrustRecords(t.Context()); len(records) != processes*25 || err != nil {
		t.Errorf("got %d records, %v, want %d", len(records), err, processes*25)
	}
}

// TestStoreModel compares the store with a map, over closings.
func TestStoreModel(t *testing.T) {
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		s := New(Options{Dir: filepath.Join(base, fmt.Sprint(n))})
		defer s.Close()
		model := map[string]TrustRecord{}
		paths := rapid.SampledFrom([]string{"/a", "/a/b", "/A", "/é"})
		for i := range rapid.IntRange(1, 12).Draw(rt, "steps") {
			path := paths.Draw(rt, "path")
			switch rapid.SampledFrom([]string{"trust", "revoke", "close"}).Draw(rt, "step") {
			case "trust":
				model[path] = record(path, i)
				if err := s.Trust(t.Context(), model[path]); err != nil {
					rt.Fatal(err)
				}
			case "revoke":
				_, want := model[path]
				delete(model, path)
				if got, err := s.RevokeTrust(t.Context(), path); got != want || err != nil {
					rt.Fatalf("RevokeTrust: got %v, %v, want %v", got, err, want)
				}
			case "close":
				if err := s.Close(); err != nil {
					rt.Fatal(err)
				}
			}
			want, inModel := model[path]
			if got, ok, err := s.Trusted(t.Context(), path); got != want || ok != inModel || err != nil {
				rt.Fatalf("Trusted: got %+v, %v, %v, want %+v", got, ok, err, want)
			}
		}
		records, err := s.TrustRecords(t.Context())
		if len(records) != len(model) || err != nil || !slices.IsSortedFunc(records, func(a, b TrustRecord) int { return strings.Compare(a.Path, b.Path) }) {
			rt.Fatalf("TrustRecords: got %v, %v, want %v", records, err, model)
		}
	})
}

// TestUnreadableDirectory: an error other than a missing file is told, not taken
// for a file that was never trusted.
func TestUnreadableDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, filepath.Join(file, "toolhost"))
	if _, _, err := s.Trusted(t.Context(), "/p"); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), file) {
		t.Errorf("got %v", err)
	}
}
