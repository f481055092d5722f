package sandbox

import (
	"bufio"
	"errors"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// aCommand is the spec of a command line, confined where a role is the jail.
func aCommand(t testing.TB, role, line string) Spec {
	t.Helper()
	spec := Spec{Path: "/bin/sh", Args: []string{"-c", line}, Env: append(environment(t, newMark(t)), "TERM=xterm", "HOME=/tmp"), Dir: "/", Stdin: StdinEmpty}
	if role == jailRole {
		spec.Policy = &Policy{Profile: Command}
	}
	return spec
}

// jailRole is the launcher, for a command that is confined.
const jailRole = "jail"

// command is start for every role that a command can have.
func command(t testing.TB, role string, spec Spec) *tree {
	t.Helper()
	mark := ""
	for _, entry := range spec.Env {
		if strings.HasPrefix(entry, "TREE=") {
			mark = entry
		}
	}
	launcherRole := role
	if role == jailRole {
		launcherRole = reaperRole
	}
	p := start(t, launcherRole, spec)
	return &tree{Process: p, t: t, mark: mark, out: bufio.NewReader(p.Stdout)}
}

// allMethods runs a test with each method.
func allMethods(t *testing.T, test func(*testing.T, string)) {
	t.Helper()
	for _, role := range []string{jailRole, reaperRole, groupRole} {
		t.Run(strings.TrimPrefix(role, "__"), func(t *testing.T) {
			if role == jailRole {
				strict(t)
			}
			test(t, role)
		})
	}
}

// readTerminal reads to the end of a terminal, which is an error.
func readTerminal(t testing.TB, p *Process) string {
	t.Helper()
	if err := p.Terminal.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(p.Terminal)
	if !errors.Is(err, syscall.EIO) {
		t.Fatalf("read to the end: %v after %q", err, all)
	}
	return strings.ReplaceAll(string(all), "\r\n", "\n")
}

func onTerminal(t *testing.T, role, line string) (string, *tree) {
	t.Helper()
	spec := aCommand(t, role, line)
	spec.Stdin, spec.Terminal = StdinLifeline, &TerminalSize{Columns: 97, Rows: 31}
	p := command(t, role, spec)
	out := readTerminal(t, p.Process)
	await(t, "the end", p.Gone())
	return out, p
}

func TestTerminal(t *testing.T) {
	for _, tt := range []struct{ name, needs, line, want string }{
		{"is one", "", `test -t 0 && test -t 1 && test -t 2 && echo yes`, "yes\n"},
		{"is named", "tty", `tty; test -c $(tty) && echo there`, "/dev/pts/"},
		{"has a size", "stty", `stty -a; stty size`, "31 97\n"},
		{"controls", "", `echo hi >/dev/tty`, "hi\n"},
		{"jobs", "bash", `exec bash --norc -i -c 'sleep 0.2 & jobs; fg %1; echo over'`, "sleep 0.2\nover\n"},
		{"script", "script", `script -qc 'echo x; tty' /dev/null`, "x\n/dev/pts/"},
		{"python", "python3", `python3 -c 'import pty, os; print(os.ttyname(0), flush=True); pty.spawn(["echo", "spawned"])'`, "spawned\n"},
		{"tmux", "tmux", `tmux -L x -f /dev/null new-session -d 'sleep 5'; tmux -L x ls; tmux -L x kill-server`, "1 windows"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := exec.LookPath(tt.needs); tt.needs != "" && err != nil {
				t.Skipf("this machine has no %s", tt.needs)
			}
			allMethods(t, func(t *testing.T, role string) {
				out, p := onTerminal(t, role, tt.line)
				if !strings.Contains(out, tt.want) || p.Exit() != (Exit{}) {
					t.Errorf("got %q and %s, want %q", out, p.Exit(), tt.want)
				}
				if rest := readAll(t, p.Stdout) + readAll(t, p.Stderr); rest != "" {
					t.Errorf("stdout and stderr have %q", rest)
				}
			})
		})
	}
}
