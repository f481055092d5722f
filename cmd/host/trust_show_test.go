package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolhost/toolhost/state"
)

// TestLaw40DifferenceOfAnOldRecord: of what was trusted before contents were kept
// the difference is not known, and that is said.
func TestLaw40DifferenceOfAnOldRecord(t *testing.T) {
	isolate(t)
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "toolhost.yaml"), "plugins: {filesystem: {}}\n")
	s := state.New(state.Options{})
	if err := s.Trust(t.Context(), state.TrustRecord{Path: path, Digest: strings.Repeat("0", 64), At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	toolhost := func(args ...string) string {
		t.Helper()
		var stdout, stderr strings.Builder
		if status := run(context.Background(), append([]string{"-C", dir}, args...), nil, &stdout, &stderr); status != 0 {
			t.Fatalf("%v: status %d\n%s", args, status, &stderr)
		}
		return stdout.String()
	}
	if out := toolhost("trust", "--show"); !strings.Contains(out, "; the difference is not known, ") {
		t.Errorf("--show: got %s", out)
	}
	var shown struct {
		Changed bool
		Diff    *string
	}
	if err := json.Unmarshal([]byte(toolhost("trust", "--show", "--json")), &shown); err != nil || !shown.Changed || shown.Diff != nil {
		t.Errorf("--show --json: got %+v, %v", shown, err)
	}
	if out := toolhost("trust", "--yes"); !strings.Contains(out, "; the difference is not known, ") {
		t.Errorf("trust: got %s", out)
	}
	write(t, path, "plugins: {filesystem: {}}\r\n")
	if out := toolhost("trust", "--yes"); !strings.Contains(out, "\n- plugins: {filesystem: {}}\n+ plugins: {filesystem: {}}\ufffd\n") {
		t.Errorf("with the content kept: got %s", out)
	}
}

// TestDifferenceIsWholeInAPipe: what is read by a program has each line of the file as it
// is; only a terminal has columns. Seen to fail with the columns of a terminal.
func TestDifferenceIsWholeInAPipe(t *testing.T) {
	isolate(t)
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "toolhost.yaml"), "plugins: {filesystem: {}}\n")
	toolhost := func(args ...string) string {
		t.Helper()
		var stdout, stderr strings.Builder
		if status := run(context.Background(), append([]string{"-C", dir}, args...), nil, &stdout, &stderr); status != 0 {
			t.Fatalf("%v: status %d\n%s", args, status, &stderr)
		}
		return stdout.String()
	}
	toolhost("trust", "--yes")
	long := "# " + strings.Repeat("long ", 100) + "end"
	write(t, path, "plugins: {filesystem: {}}\n"+long+"\n")
	if out := toolhost("trust", "--show"); !strings.Contains(out, "\n+ "+long+"\n") {
		t.Errorf("got %s", out)
	}
}

// TestLaw40TrustIsOfWhatWouldBeUsed: what only a named file may say is a mistake, as
// it is when the file is found; what is no config file is refused, and not waited for.
func TestLaw40TrustIsOfWhatWouldBeUsed(t *testing.T) {
	isolate(t)
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "toolhost.yaml"), "audit: {redact: [secret]}\n")
	t.Setenv("TOOLHOST_CONFIG", write(t, filepath.Join(dir, "other.yaml"), "plugins: {filesystem: {}}\n"))
	wantError := func(want string) {
		t.Helper()
		for _, args := range [][]string{{"trust"}, {"trust", "--show"}} {
			var stdout, stderr strings.Builder
			status := run(context.Background(), append([]string{"-C", dir}, args...), nil, &stdout, &stderr)
			if status != exitUsage || !strings.Contains(stderr.String(), want) || stdout.Len() > 0 {
				t.Errorf("%v: status %d\n%s%s\nwant %s", args, status, &stdout, &stderr, want)
			}
		}
	}
	wantError("audit is not for a project to say")
	replace := func(with func(string) error) {
		t.Helper()
		if err := errors.Join(os.Remove(path), with(path)); err != nil {
			t.Fatal(err)
		}
	}
	replace(func(path string) error { return syscall.Mkfifo(path, 0o600) })
	wantError("is not a regular file")
	replace(func(path string) error { return os.Symlink("/dev/zero", path) })
	wantError("is not a regular file")
	replace(func(path string) error { return os.Symlink("missing", path) })
	wantError("no such file or directory")
	replace(func(path string) error { return os.WriteFile(path, make([]byte, 1<<20+1), 0o600) })
	wantError("has more than 1048576 bytes")
}
