package state

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// appended is the i-th entry of a process. It is large, so that files are soon full.
func appended(process, i int) AuditEntry {
	return AuditEntry{Kind: AuditStart, Session: strconv.Itoa(process), Call: strconv.Itoa(i), Reason: strings.Repeat("x", 40_000)}
}

// appendAudit appends 200 entries, or if it is killed before, fewer, and says how many
// there are.
func appendAudit(dir string) int {
	a := NewAudit(AuditOptions{Dir: dir})
	defer a.Close()
	for i := range 200 {
		if err := a.Append(appended(os.Getpid(), i)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println(i + 1)
	}
	return 0
}

// callsBySession are the calls of each session, in the order of the log.
func callsBySession(entries []AuditEntry) map[string][]string {
	calls := map[string][]string{}
	for _, e := range entries {
		calls[e.Session] = append(calls[e.Session], e.Call)
	}
	return calls
}

// TestLaw45AuditOfSeveralProcesses who append and rotate at the same time: nothing is
// lost, torn, or out of order, and one who follows sees all of it once. Seen to fail
// without the lock, and with a file that is not opened again.
func TestLaw45AuditOfSeveralProcesses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "toolhost")
	const processes, each = 4, 200 // 32 MB: three rotations
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var follower sync.WaitGroup
	var followed []AuditEntry
	reader := ReadAudit(dir, AuditFilter{})
	follower.Go(func() {
		for e, err := range reader.Follow(ctx) {
			if err != nil {
				t.Error(err)
			}
			if followed = append(followed, e); len(followed) == processes*each {
				cancel()
			}
		}
	})
	var wg sync.WaitGroup
	for range processes {
		wg.Go(func() {
			cmd := childProcess(t, dir, "audit")
			cmd.Stderr = os.Stderr
			if err := cmd.Run(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	time.AfterFunc(10*time.Second, cancel) // if it misses some
	follower.Wait()
	for name, entries := range map[string][]AuditEntry{"read": mustRead(t, dir, AuditFilter{}, 0), "followed": followed} {
		calls := callsBySession(entries)
		if len(entries) != processes*each || len(calls) != processes {
			t.Errorf("%s: got %d entries of %d processes", name, len(entries), len(calls))
		}
		for session, list := range calls {
			for i, call := range list {
				if call != strconv.Itoa(i) {
					t.Errorf("%s: entry %d of %s is %s", name, i, session, call)
					break
				}
			}
		}
	}
	if reader.Skipped() != 0 {
		t.Errorf("the follower skipped %d lines", reader.Skipped())
	}
	for n := range 4 {
		info, err := os.Stat(auditFileOf(dir, n))
		if err != nil || info.Size() > MaxAuditFile || info.Mode().Perm() != 0o600 || n > 0 && info.Size() < MaxAuditFile-50_000 {
			t.Errorf("%s: got %v, %v", auditName(n), info, err)
		}
	}
	if _, err := os.Stat(auditFileOf(dir, 4)); err == nil {
		t.Error("there are more files than are needed")
	}
}

// TestLaw45AuditSurvivesKills: of processes that are killed while they append, what
// was said to be appended is there, and the others' lines are whole.
func TestLaw45AuditSurvivesKills(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "toolhost")
	least := map[string]int{}
	var mu sync.Mutex // guards least
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			cmd := childProcess(t, dir, "audit")
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Error(err)
				return
			}
			if err := cmd.Start(); err != nil {
				t.Error(err)
				return
			}
			lines, said := bufio.NewScanner(stdout), 0
			for lines.Scan() {
				if said++; said == 10+i*7 {
					_ = cmd.Process.Kill() // it may have ended
				}
			}
			_ = cmd.Wait() // it was killed
			mu.Lock()
			defer mu.Unlock()
			least[strconv.Itoa(cmd.Process.Pid)] = said
		})
	}
	wg.Wait()
	mustAppend(t, audit(t, dir), AuditEntry{Kind: AuditStart, Session: "after"})
	reader := ReadAudit(dir, AuditFilter{})
	var entries []AuditEntry
	for e, err := range reader.Entries(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	calls := callsBySession(entries)
	for session, said := range least {
		if got := len(calls[session]); got < said || got > 200 {
			t.Errorf("%s said %d and has %d", session, said, got)
		}
	}
	if len(calls["after"]) != 1 || reader.Skipped() > 6 {
		t.Errorf("got %v after it, and skipped %d", calls["after"], reader.Skipped())
	}
}

// fillAudit appends as many entries as make a file full, and a few more.
func fillAudit(t *testing.T, a *Audit, session string) {
	t.Helper()
	for i := range MaxAuditFile/40_000 + 5 {
		e := appended(0, i)
		e.Session = session
		mustAppend(t, a, e)
	}
}

// TestAuditIsRotated: five files at most, the oldest goes; a gap that somebody left who
// died is filled, and costs no file.
func TestAuditIsRotated(t *testing.T) {
	dir := t.TempDir()
	a := audit(t, dir)
	for i := range MaxAuditFiles + 2 {
		fillAudit(t, a, strconv.Itoa(i))
	}
	entries := mustRead(t, dir, AuditFilter{}, 0)
	if !slices.IsSortedFunc(entries, func(a, b AuditEntry) int { return strings.Compare(a.Session, b.Session) }) {
		t.Error("not in their order")
	}
	if got := entries[0].Session; got != "2" {
		t.Errorf("the oldest is of %s", got)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != MaxAuditFiles {
		t.Errorf("got %v, %v", files, err)
	}
	// As after a rotation that ended in the middle.
	if err := os.Remove(auditFileOf(dir, 4)); err != nil {
		t.Fatal(err)
	}
	for n := 3; n > 1; n-- {
		if err := os.Rename(auditFileOf(dir, n), auditFileOf(dir, n+1)); err != nil {
			t.Fatal(err)
		}
	}
	before := mustRead(t, dir, AuditFilter{}, 0)
	fillAudit(t, a, "7")
	after := mustRead(t, dir, AuditFilter{}, 0)
	if after[0].Session != before[0].Session || after[0].Call != before[0].Call || len(after) != len(before)+MaxAuditFile/40_000+5 {
		t.Errorf("the oldest was %s of %d and is %s of %d", before[0].Call, len(before), after[0].Call, len(after))
	}
}

// TestAuditFollow: what is there, as far as it is wanted, what comes, and what somebody
// finishes; through several rotations between two looks.
func TestAuditFollow(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "toolhost")
	a := audit(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reader := ReadAudit(dir, AuditFilter{Kind: AuditReply, Limit: 1})
	for _, call := range []string{"a", "b"} {
		mustAppend(t, a, AuditEntry{Kind: AuditReply, Call: call})
	}
	got := ""
	for e, err := range reader.Follow(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		got += e.Call
		switch e.Call {
		case "b":
			fillAudit(t, a, "1")
			mustAppend(t, a, AuditEntry{Kind: AuditReply, Call: "c"})
			fillAudit(t, a, "2")
			mustAppend(t, a, AuditEntry{Kind: AuditReply, Call: "d"})
		case "d":
			torn(t, dir, `{"at":"2026-11-30T10:00:00Z","kind":"reply",`)
			time.AfterFunc(3*followEvery/2, func() { torn(t, dir, `"call":"e"}`+"\n") })
		case "e":
			if err := os.Remove(auditFileOf(dir, 0)); err != nil {
				t.Error(err)
			}
			mustAppend(t, a, AuditEntry{Kind: AuditReply, Call: "f"})
		case "f":
			cancel()
		}
	}
	if got != "bcdef" || reader.Skipped() != 0 {
		t.Errorf("got %q, skipped %d", got, reader.Skipped())
	}

	gone := errors.New("nobody reads any more")
	over, end := context.WithCancelCause(t.Context())
	end(gone)
	for _, err := range ReadAudit(dir, AuditFilter{}).Entries(over) {
		if !errors.Is(err, gone) {
			t.Errorf("got %v, want the cause", err)
		}
	}
}

// TestAuditFollowBegins before there is a log.
func TestAuditFollowBegins(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "toolhost")
	a := audit(t, dir)
	time.AfterFunc(followEvery/2, func() { _ = a.Append(AuditEntry{Kind: AuditTrust}) })
	for e, err := range ReadAudit(dir, AuditFilter{Limit: -1}).Follow(t.Context()) {
		if e.Kind != AuditTrust || err != nil {
			t.Errorf("got %v, %v", e, err)
		}
		break
	}
}

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

// TestAuditUnreadable is an error, and not an empty log.
func TestAuditUnreadable(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(auditName(1), auditFileOf(dir, 1)); err != nil { // to itself
		t.Fatal(err)
	}
	n := 0
	for _, err := range ReadAudit(dir, AuditFilter{}).Entries(t.Context()) {
		if n++; err == nil || !strings.HasPrefix(err.Error(), "audit log: ") || !strings.Contains(err.Error(), auditName(1)) {
			t.Errorf("got %v", err)
		}
	}
	if n != 1 {
		t.Errorf("yielded %d times", n)
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

// FuzzAuditRead: whatever is in a file, what is appended after it is read, and each
// line is an entry or skipped.
func FuzzAuditRead(f *testing.F) {
	f.Add([]byte(`{"at":"2026-11-30T10:00:00Z","kind":"start"}`), []byte("\n\x00{}"))
	f.Add([]byte("{\"at\":\"x\"}\n\n"), []byte("{\"at\":\"2026-11-30T10:00:00Z\",\"kind\":\"start\",\"extra\":{\"a\":1}}\n"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, older, newer []byte) {
		for n, content := range map[int][]byte{0: newer, 1: older} {
			if err := os.WriteFile(auditFileOf(dir, n), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		a := NewAudit(AuditOptions{Dir: dir})
		defer a.Close()
		last := AuditEntry{Kind: AuditRevoke, Call: "last"}
		if err := a.Append(last); err != nil {
			t.Fatal(err)
		}
		lines := int64(0)
		for _, content := range [][]byte{older, newer} {
			for line := range strings.SplitSeq(string(content), "\n") {
				if line != "" {
					lines++
				}
			}
		}
		reader := ReadAudit(dir, AuditFilter{})
		var got []AuditEntry
		for e, err := range reader.Entries(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if _, err := json.Marshal(e); err != nil {
				t.Fatal(err)
			}
			got = append(got, e)
		}
		if n := int64(len(got)); n == 0 || got[n-1].Call != "last" || n+reader.Skipped() != lines+1 {
			t.Fatalf("got %d entries and %d skipped, want %d", n, reader.Skipped(), lines+1)
		}
	})
}
