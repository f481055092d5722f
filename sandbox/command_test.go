package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What people run works as a command, with no network, nothing of the home directory, and
// .git as it was: git, Python, Node and the tests of a Go module.
func TestCommandsWork(t *testing.T) {
	if testing.Short() {
		return // the programs of others
	}
	strict(t)
	goRoot, goCache := "", "/tmp/cache"
	if out, err := exec.Command("go", "env", "GOROOT", "GOCACHE").Output(); err == nil {
		lines := strings.Fields(string(out))
		goRoot, goCache = lines[0], lines[1]
	}
	for name, tt := range map[string]struct {
		needs, script, want string
	}{
		"git": {"git", `set -e
			git -c init.defaultBranch=main init -q . 2>/dev/null || true
			echo one > f; git add f; git -c user.name=a -c user.email=a@b commit -qm first
			echo two >> f; git diff --stat; git log --oneline | wc -l; git status --short; git gc -q; git fsck`, "1 file changed"},
		"hooks are protected": {"git", `(echo x > .git/hooks/pre-commit) 2>/dev/null || echo refused; git config a.b c 2>/dev/null || echo refused too`, "refused\nrefused too"},
		"python": {"python3", `python3 -c '
import json, os, socket, subprocess, tempfile, threading, multiprocessing, ssl
with tempfile.NamedTemporaryFile() as f: f.write(b"x")
t = threading.Thread(target=lambda: None); t.start(); t.join()
print(subprocess.run(["echo", "from a child"], capture_output=True, text=True).stdout.strip())
try: socket.create_connection(("127.0.0.1", 1))
except OSError as e: print("no network:", e.errno in (1, 101, 111))
print(os.path.expanduser("~"), os.listdir("/root") if os.path.isdir("/root") else "no home")
'`, "from a child\nno network: True\n/tmp no home"},
		"node": {"node", `node -e '
const {execSync} = require("child_process"), fs = require("fs"), {Worker} = require("worker_threads");
fs.writeFileSync("/tmp/x", "y"); fs.watch("/tmp", () => {}).close();
new Worker("require(\"worker_threads\").parentPort.postMessage(1)", {eval: true}).on("message", m => console.log("worker", m));
console.log(execSync("echo from a child").toString().trim());
'`, "from a child\nworker 1"},
		"go test": {"go", `set -e
			mkdir m; cd m
			printf 'module example.com/m\n\ngo 1.21\n' > go.mod
			printf 'package m\n\nimport ("os"; "testing")\n\nfunc TestM(t *testing.T) { if err := os.WriteFile(t.TempDir()+"/f", nil, 0o600); err != nil { t.Fatal(err) } }\n' > m_test.go
			GOTOOLCHAIN=local GOFLAGS=-mod=mod GOPROXY=off go test -count=1 . && go vet . && echo vetted`, "vetted"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(tt.needs); err != nil {
				t.Skipf("this machine has no %s", tt.needs)
			}
			if _, err := os.Stat(goCache); tt.needs == "go" && err != nil {
				return // of a user who never built anything all of the library would be built first
			}
			dir := plain(t)
			if err := os.MkdirAll(filepath.Join(dir, ".git", "hooks"), 0o755); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command("git", "-C", dir, "init", "-q").CombinedOutput(); err != nil {
				t.Fatalf("git init: %v, %s", err, out)
			}
			policy := &Policy{
				Profile: Command, Write: []string{dir},
				Protect: []string{filepath.Join(dir, ".git", "hooks"), filepath.Join(dir, ".git", "config")},
				Limits:  Limits{Memory: 4 << 30, Processes: 1024},
			}
			if tt.needs == "go" && goCache != "/tmp/cache" { // or all of the library is built
				policy.Write = append(policy.Write, goCache)
			}
			stdout, stderr, p := jailed(t, Spec{
				Path: "/bin/sh", Args: []string{"-c", tt.script}, Dir: dir, Policy: policy,
				Env: []string{"PATH=" + filepath.Join(goRoot, "bin") + ":/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "GOCACHE=" + goCache, "GOPATH=/tmp/go"},
			})
			if exit := p.Exit(); exit != (Exit{}) || !strings.Contains(stdout, tt.want) {
				t.Errorf("%s\n%s\n%s", exit, stdout, stderr)
			}
		})
	}
}
