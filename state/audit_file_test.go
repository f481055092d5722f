package state

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// holdAudit locks the file as a process does that was stopped in the middle.
func holdAudit(t *testing.T, dir string) {
	t.Helper()
	other, err := os.Open(auditFileOf(dir, 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	if err := unix.Flock(int(other.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
}

// TestAuditWaitsForNobodyLong: a process that was stopped with the lock stops nobody
// else, however many append, and who comes later does not wait at all. Seen to fail
// with each waiting for itself (5 s), and without remembering.
func TestAuditWaitsForNobodyLong(t *testing.T) {
	dir := t.TempDir()
	a := audit(t, dir)
	mustAppend(t, a, AuditEntry{Kind: AuditStart})
	holdAudit(t, dir)
	began := time.Now()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if err := a.Append(AuditEntry{Kind: AuditReply}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if took := time.Since(began); took < auditPatience || took > 10*auditPatience {
		t.Errorf("50 at once waited for %v", took)
	}
	began = time.Now()
	for range 50 {
		mustAppend(t, a, AuditEntry{Kind: AuditReply})
	}
	if took := time.Since(began); took > 10*auditPatience {
		t.Errorf("the next 50 waited for %v", took)
	}
	if got := mustRead(t, dir, AuditFilter{}, 0); len(got) != 101 {
		t.Errorf("got %d", len(got))
	}
}

// TestAuditIsBoundedWithoutItsLock: it grows, and not forever; what is not written is
// said, with what helps, and that helps. Seen to fail without the bound.
func TestAuditIsBoundedWithoutItsLock(t *testing.T) {
	dir := t.TempDir()
	a := audit(t, dir)
	mustAppend(t, a, AuditEntry{Kind: AuditStart})
	holdAudit(t, dir)
	if err := os.Truncate(auditFileOf(dir, 0), MaxAuditFile); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, a, AuditEntry{Kind: AuditReply, Call: "beyond"})
	if err := os.Truncate(auditFileOf(dir, 0), maxUnrotated-100_000); err != nil {
		t.Fatal(err)
	}
	var last error
	for i := range 10 {
		last = a.Append(appended(0, i))
	}
	info, err := os.Stat(auditFileOf(dir, 0))
	if err != nil || info.Size() > maxUnrotated || info.Size() < maxUnrotated-50_000 {
		t.Errorf("got %v, %v", info, err)
	}
	want := "audit log: " + auditFileOf(dir, 0) + " is full, and cannot be followed by the next: another process keeps its lock; end that process, or move the file away"
	if n, err := a.Failures(); n != 8 || last == nil || last.Error() != want || err.Error() != want {
		t.Errorf("%d failures, the last %v\nwant %s", n, last, want)
	}
	if err := os.Rename(auditFileOf(dir, 0), filepath.Join(dir, "mine")); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, a, AuditEntry{Kind: AuditReply, Call: "after"})
	if got := mustRead(t, dir, AuditFilter{}, 0); len(got) != 1 || got[0].Call != "after" {
		t.Errorf("got %v", got)
	}
}

// TestAuditBesideWhatIsNoFile of it: that is said once, stays where it is, and costs no
// entry while a place is left. Seen to fail with directories that are moved along.
func TestAuditBesideWhatIsNoFile(t *testing.T) {
	for name, c := range map[string]struct {
		numbers []int
		full    int // how many files are appended
		gone    int // and are the oldest
	}{
		"the first": {[]int{1}, 3, 0},
		"the last":  {[]int{4}, 4, 1},
		"two":       {[]int{2, 3}, 2, 0},
		"all":       {[]int{1, 2, 3, 4}, 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && c.full > 2 {
				t.Skip("much text of one goroutine")
			}
			numbers := c.numbers
			dir := t.TempDir()
			for _, n := range numbers {
				if err := os.MkdirAll(filepath.Join(auditFileOf(dir, n), "x"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			a := audit(t, dir)
			said, count := "", 0
			for session := range c.full {
				for i := range MaxAuditFile/40_000 + 5 {
					e := appended(session, i)
					if err := a.Append(e); err != nil {
						said += err.Error()
					}
					count++
				}
			}
			if n, _ := a.Failures(); n != 1 || strings.Count(said, "in the way") != len(numbers) || !strings.Contains(said, auditFileOf(dir, numbers[0])+" is in the way") {
				t.Errorf("said %d times: %s", n, said)
			}
			for _, n := range numbers {
				if _, err := os.Stat(filepath.Join(auditFileOf(dir, n), "x")); err != nil {
					t.Error(err)
				}
			}
			got := mustRead(t, dir, AuditFilter{}, int64(len(numbers)))
			if len(got) != count-c.gone*(MaxAuditFile/40_000-1) || !slices.IsSortedFunc(got, func(a, b AuditEntry) int { return strings.Compare(a.Session, b.Session) }) {
				t.Errorf("got %d entries of %d", len(got), count)
			}
			if name != "all" {
				return
			}
			if err := os.Truncate(auditFileOf(dir, 0), maxUnrotated); err != nil {
				t.Fatal(err)
			}
			if err := a.Append(AuditEntry{Kind: AuditStart}); err == nil || !strings.Contains(err.Error(), "is full") || !strings.Contains(err.Error(), "move it away") {
				t.Errorf("without any place: got %v", err)
			}
		})
	}
}

// TestAuditReadsBesideWhatIsNoFile of it: that is skipped, and counted once, however
// often it is met. Seen to fail with a count for each look.
func TestAuditReadsBesideWhatIsNoFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "toolhost")
	a := audit(t, dir)
	mustAppend(t, a, AuditEntry{Kind: AuditStart, Call: "a"})
	if err := os.Mkdir(auditFileOf(dir, 2), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(auditFileOf(dir, 3), 0o600); err != nil {
		t.Fatal(err)
	}
	address, err := net.Listen("unix", auditFileOf(dir, 4))
	if err != nil {
		t.Fatal(err)
	}
	defer address.Close()
	if got := mustRead(t, dir, AuditFilter{}, 3); len(got) != 1 {
		t.Errorf("got %v", got)
	}
	reader := ReadAudit(dir, AuditFilter{})
	got := ""
	for e, err := range reader.Follow(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if got += e.Call; e.Call == "b" {
			break
		}
		// Another file is the newest, so all are opened again.
		if err := os.Rename(auditFileOf(dir, 0), auditFileOf(dir, 1)); err != nil {
			t.Fatal(err)
		}
		mustAppend(t, a, AuditEntry{Kind: AuditStart, Call: "b"})
	}
	if got != "ab" || reader.Skipped() != 3 {
		t.Errorf("got %q, skipped %d", got, reader.Skipped())
	}
}
