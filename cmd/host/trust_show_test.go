package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolhost/toolhost/config"
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
	if out := toolhost("trust"); !strings.Contains(out, "; the difference is not known, ") {
		t.Errorf("trust: got %s", out)
	}
	write(t, path, "plugins: {filesystem: {}}\r\n")
	if out := toolhost("trust"); !strings.Contains(out, "\n-plugins: {filesystem: {}}\n+plugins: {filesystem: {}}\ufffd\n") {
		t.Errorf("with the content kept: got %s", out)
	}
	write(t, path, "plugins: {filesystem: {}}\r")
	if out := toolhost("trust"); !strings.Contains(out, "; only the ends of its lines differ\n") {
		t.Errorf("other ends of lines: got %s", out)
	}
}

// TestReadContent: what is recorded is what was loaded.
func TestReadContent(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "toolhost.yaml"), "a")
	sum := sha256.Sum256([]byte("a"))
	file := config.File{Path: path, Digest: hex.EncodeToString(sum[:])}
	if got, err := readContent(file); got != "a" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	write(t, path, "b")
	if _, err := readContent(file); err == nil || err.Error() != path+" changed while it was looked at: run the command again" {
		t.Errorf("changed: got %v", err)
	}
}

// TestYAMLLines: a line ends where YAML ends it.
func TestYAMLLines(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a\nb": "a\nb", "a\r\nb\r\n": "a\r\nb\r\n", "# a\rb: c\n": "# a\r\nb: c\n", "\r\r\n\n\r": "\r\n\r\n\n\r\n",
	} {
		if got := yamlLines(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
