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

	"github.com/creack/pty"

	"github.com/toolhost/toolhost/sandbox/internal/jail"
)

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
		{"tmux", "tmux", `export SHELL=/bin/sh; d=$(mktemp -d); tmux -S $d/s -f /dev/null new-session -d 'sleep 5'; tmux -S $d/s ls; tmux -S $d/s kill-server; rm -r $d`, "1 windows"},
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

// The size can be changed, and the program hears of it.
//
// Seen to fail: with rows and columns exchanged.
func TestTerminalResize(t *testing.T) {
	allMethods(t, func(t *testing.T, role string) {
		spec := aCommand(t, role, `trap 'stty size; exit' WINCH; stty size; while :; do sleep 0.05; done`)
		spec.Stdin, spec.Terminal = StdinLifeline, &TerminalSize{Columns: 80, Rows: 24}
		p := command(t, role, spec)
		out := bufio.NewReader(p.Terminal)
		if got := nextLine(t, p.Terminal, out); got != "24 80\r" {
			t.Errorf("at first it is %q", got)
		}
		if err := p.Resize(TerminalSize{}); err == nil {
			t.Error("it has no size")
		}
		if err := p.Resize(TerminalSize{Columns: 132, Rows: 50}); err != nil {
			t.Error(err)
		}
		if got := nextLine(t, p.Terminal, out); got != "50 132\r" {
			t.Errorf("then it is %q", got)
		}
		p.kill()
		if err := p.Resize(TerminalSize{Columns: 80, Rows: 24}); err == nil {
			t.Error("after Kill there is none")
		}
		if _, err := p.Terminal.Read(make([]byte, 1)); err == nil {
			t.Error("after Kill it can be read")
		}
		none := command(t, role, aCommand(t, role, "true"))
		if err := none.Resize(TerminalSize{Columns: 80, Rows: 24}); err == nil || !strings.Contains(err.Error(), "no terminal") {
			t.Errorf("without a terminal: %v", err)
		}
	})
}

// What is typed is read, and signals of the keyboard go to who is in the foreground. It is
// read while it blocks, and the reader is not held when the program lets go of its terminal.
//
// Seen to fail: with a terminal that has no session.
func TestTerminalTypes(t *testing.T) {
	allMethods(t, func(t *testing.T, role string) {
		spec := aCommand(t, role, `stty -echo; trap 'hit=1; echo interrupted' INT; echo ready; while [ -z "$hit" ]; do sleep 0.05; done; read x; echo "got $x"; exec <&- >&- 2>&-; sleep 0.1; echo again >/dev/tty; sleep 1000`)
		spec.Stdin, spec.Terminal = StdinLifeline, &TerminalSize{Columns: 80, Rows: 24}
		p := command(t, role, spec)
		out := bufio.NewReader(p.Terminal)
		for _, step := range []struct{ want, then string }{{"ready\r", "\x03"}, {"interrupted\r", "a\n"}, {"got a\r", ""}, {"again\r", ""}} {
			if got := nextLine(t, p.Terminal, out); got != step.want && !strings.HasSuffix(got, step.want) {
				t.Fatalf("got %q, want %q", got, step.want)
			}
			if _, err := p.Terminal.WriteString(step.then); err != nil {
				t.Fatal(err)
			}
		}
		read := make(chan error, 1)
		go func() {
			_, err := p.Terminal.Read(make([]byte, 1))
			read <- err
		}()
		p.kill()
		select {
		case err := <-read:
			if err == nil {
				t.Error("something was read")
			}
		case <-time.After(patience):
			t.Fatal("the reader is held")
		}
		p.wantNone()
	})
}

// A confined command has the terminals that were made in its jail, and no others of the
// machine: it cannot make more than so many, type into one, or ask another device (law 46).
//
// Seen to fail: with the /dev/pts of the machine; without a bound; with the right to ask for all of /dev.
func TestLaw46JailTerminals(t *testing.T) {
	strict(t)
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("this machine has no python3")
	}
	master, other, err := pty.Open() // one of the machine
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer other.Close()
	const script = `
import os, fcntl, termios, errno
def name(do):
    try: return do() or "done"
    except OSError as e: return errno.errorcode[e.errno]
print(sorted(os.listdir("/dev/pts")), sorted(os.listdir("/dev")), os.readlink("/dev/ptmx"))
print(name(lambda: fcntl.ioctl(0, termios.TIOCSTI, b"x")), name(lambda: fcntl.ioctl(0, termios.TIOCGWINSZ, b"12345678")[:2] and "asked"))
null = os.open("/dev/null", os.O_RDWR)
print(name(lambda: fcntl.ioctl(null, termios.TCGETS, b" " * 60) and "asked"))
print(name(lambda: os.mkdir("/dev/pts/x")), name(lambda: os.chmod("/dev/tty", 0o666)), name(lambda: os.open("/dev/pts/1", os.O_RDWR)))
made = 0
try:
    while made < 1000: os.openpty(); made += 1
except OSError as e: print(made, errno.errorcode[e.errno])
`
	out, p := onTerminal(t, jailRole, "exec python3 -c '"+script+"'")
	asked := "ENOTTY"
	if jail.AsksDevices() {
		asked = "EACCES"
	}
	want := "['0', 'ptmx'] ['fd', 'full', 'null', 'ptmx', 'pts', 'random', 'stderr', 'stdin', 'stdout', 'tty', 'urandom', 'zero'] pts/ptmx\n" +
		"EPERM asked\n" + asked + "\nEACCES EROFS ENOENT\n63 ENOSPC\n"
	if out != want || p.Exit() != (Exit{}) {
		t.Errorf("%s\n got %s\nwant %s", p.Exit(), out, want)
	}
}
