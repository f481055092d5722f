package state

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
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
	if testing.Short() {
		t.Skip("much text of one goroutine")
	}
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
