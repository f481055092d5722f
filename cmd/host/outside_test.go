package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The example is built as a stranger would build it, in its own module, and
// activated from a configuration that pins it.
func TestPluginFromOutside(t *testing.T) {
	isolateButGo(t)
	dir := t.TempDir()
	program := filepath.Join(dir, "bin", "outline")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = "../../examples/outline"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	write(t, filepath.Join(dir, "notes.md"), "# One\ntext\n## Two\n")
	write(t, filepath.Join(dir, "hidden.md"), "# Secret\n")
	sum := digest(t, program)

	configure := func(sha, grants, rules string) string {
		return write(t, filepath.Join(dir, "toolhost.yaml"), fmt.Sprintf(`
plugins:
  filesystem: {}
  outline: {command: [./bin/outline], sha256: '%s', grants: [%s]}
permissions:
%s`, sha, grants, rules))
	}
	allow := `  - {action: outline/outline, resource: "*", effect: allow}` + "\n"
	deny := `  - {action: read, resource: hidden.md, effect: deny, reason: private}
  - {action: grep, resource: nothing, effect: deny}` + "\n"

	for _, test := range []struct {
		name               string
		sha, grants, rules string
		input              string
		status             int
		stdout, stderr     string
	}{
		{"answers", sum, "filesystem:read", allow, `{"path": "notes.md"}`, exitCompleted, `"text":"## Two"`, ""},
		{"needs approval", sum, "filesystem:read", deny, `{"path": "notes.md"}`, exitRejected, "", "nobody_to_ask"},
		{"a rule denies what it reads", sum, "filesystem:read", allow + deny, `{"path": "hidden.md"}`, exitRejected, "", "private"},
		{"needs its grant", sum, "", allow, `{"path": "notes.md"}`, exitRejected, "", "add it to its grants"},
		{"is not what was pinned", strings.Repeat("0", 64), "filesystem:read", allow, `{"path": "notes.md"}`, exitRejected, "", "its sha256 is " + sum},
		{"its failure", sum, "filesystem:read", allow, `{"path": "missing.md"}`, exitFailed, "", "missing.md"},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := configure(test.sha, test.grants, test.rules)
			var stdout, stderr bytes.Buffer
			status := run(context.Background(), []string{"-C", dir, "-c", file, "call", "outline", test.input}, nil, &stdout, &stderr)
			if status != test.status || !strings.Contains(stdout.String(), test.stdout) || !strings.Contains(stderr.String(), test.stderr) {
				t.Errorf("status %d, want %d\nstdout: %s\nstderr: %s", status, test.status, &stdout, &stderr)
			}
			// Whatever happened to it, the others serve.
			stdout.Reset()
			if status := run(context.Background(), []string{"-C", dir, "-c", file, "call", "read", `{"path": "notes.md"}`}, nil, &stdout, &stderr); status != 0 {
				t.Errorf("read: status %d\n%s", status, &stderr)
			}
		})
	}
}

func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func digest(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// isolateButGo is isolate for a test that runs the go command, which has its
// caches below the home directory.
func isolateButGo(t *testing.T) {
	t.Helper()
	for _, name := range []string{"GOMODCACHE", "GOCACHE", "GOPATH"} {
		out, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv(name, strings.TrimSpace(string(out)))
	}
	isolate(t)
}
