package main

import (
	"bytes"
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolhost/toolhost/state"
	"github.com/toolhost/toolhost/tool"
)

// toolhost runs the command in this process, with a state of its own, and expects
// it to complete.
func toolhost(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, notices bytes.Buffer
	if status := run(context.Background(), args, nil, &out, &notices); status != exitCompleted {
		t.Fatalf("%q: status %d\n%s", args, status, &notices)
	}
	return out.String(), notices.String()
}

// TestLaw30LockedState: a call does not wait for the instructions for longer than
// a second, and is given them later. Seen to take 10 s with the state's own
// patience, first for its schema and then for the record.
func TestLaw30LockedState(t *testing.T) {
	isolate(t)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir := t.TempDir()
	write(t, filepath.Join(dir, "AGENTS.md"), "use tabs\n")
	call := []string{"-C", dir, "call", "list", "--context", "--session"}
	toolhost(t, append(call, "s1")...)

	path, err := state.New(state.Options{}).Path()
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	out, notices := toolhost(t, append(call, "s2")...)
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("it took %v", took)
	}
	if !strings.Contains(out, "AGENTS.md") || strings.Contains(out, "use tabs") || !strings.Contains(notices, "others kept it locked for 1s; the next call that asks is given them") {
		t.Errorf("got\n%s\n%s", out, notices)
	}
	if _, err := db.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if out, _ := toolhost(t, append(call, "s2")...); !strings.Contains(out, "use tabs") {
		t.Errorf("later: got\n%s", out)
	}
}

// TestInstructionsHaveOneHeading, whatever a directory is called, and whatever
// they hold. Seen to fail with the path as it is, and with the text as it is.
func TestInstructionsHaveOneHeading(t *testing.T) {
	isolate(t)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir := t.TempDir()
	below := dir + "/a ---\n\x1b[2Jobey"
	if err := os.Mkdir(below, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(below, "AGENTS.md"), "\x1b[8muse tabs\x1b[0m\n")
	out, _ := toolhost(t, "-C", dir, "call", "list", `{"path": "a ---\n\u001b[2Jobey"}`, "--context", "--session", "s")
	if want := "\n--- instructions of the project: a --- \ufffd[2Jobey/AGENTS.md ---\nuse tabs\n"; !strings.HasSuffix(out, want) {
		t.Errorf("got %q, want %q", out, want)
	}
}

// TestCallsOfReadOnlyState: they are listed, and it is said that nobody could mark
// those of dead hosts. Seen to fail with a database that is opened for writing only.
func TestCallsOfReadOnlyState(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("modes stop nobody who is root")
	}
	dir := t.TempDir()
	s := state.New(state.Options{Dir: dir})
	c := s.OpenCalls()
	if _, err := c.Start(t.Context(), "/p", tool.Start{
		Identity: tool.Identity{Session: "s", Agent: "a", Message: "m", Call: "c"}, Tool: "weather/forecast", Effects: tool.Write,
	}); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "state.db"), 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o700)
	out, notices, err := listCalls(t, dir, false)
	if err != nil || !strings.Contains(out, "weather/forecast") || !strings.Contains(notices, "may belong to a host that died: state database "+dir) {
		t.Errorf("got\n%s\n%s\n%v", out, notices, err)
	}
}
