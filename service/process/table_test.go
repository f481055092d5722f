package process

import (
	"bytes"
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolhost/toolhost/service"
)

// grow is a process that goes on writing to a file.
const grow = `while :; do echo x >> grow; sleep .02; done`

// A tenacious command line tries to outlive its call, or to hold it.
type tenacious struct {
	name, line string
	needs      string        // a program
	stdin      string        // what it is given
	timeout    time.Duration // 0: it must end by itself, and soon
	terminal   bool
	confined   bool // it would reach others where it is not confined
	want       string
	code       int    // if it ends by itself
	signal     string // likewise
	left       bool   // what it started was still running
}

const short = 150 * time.Millisecond

func tenacity() []tenacious {
	return []tenacious{
		// What goes on in the background.
		{name: "background", line: `sleep 60 & echo done`, want: "done\n", left: true},
		{name: "double fork", line: `( ( ` + grow + ` & ) & )`, left: true},
		{name: "setsid", line: `setsid sleep 60 & echo done`, needs: "setsid", want: "done\n", left: true},
		{name: "setsid that forks", line: `setsid -f sh -c '` + grow + `'`, needs: "setsid", left: true},
		{name: "nohup", line: `nohup sh -c '` + grow + `' >/dev/null 2>&1 &`, needs: "nohup", left: true},
		{name: "disowned", line: `bash -c 'sleep 60 & disown'; exit 3`, needs: "bash", code: 3, left: true},
		{name: "coprocess", line: `bash -c 'coproc sleep 60; exit 0'`, needs: "bash", left: true},
		{name: "job control", line: `set -m; sleep 60 & sleep 60 & exit 0`, left: true},
		{name: "two hundred", line: `i=0; while [ $i -lt 200 ]; do sleep 60 & i=$((i+1)); done; echo $i`, want: "200\n", left: true},
		{name: "at its exit", line: `trap 'sleep 60 & sleep 60 &' EXIT; echo bye`, want: "bye\n", left: true},
		{name: "with closed descriptors", line: `sleep 60 <&- >&- 2>&- & echo done`, want: "done\n", left: true},
		{name: "a daemon", needs: "python3", left: true, line: `python3 -c '
import os, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.chdir("/"); os.closerange(0, 1024)
while True: time.sleep(60)
'; sleep .1`},
		{name: "a daemon that no signal of its parent's death reaches", needs: "python3", left: true, line: `python3 -c '
import ctypes, os, signal, time
for s in range(1, 64):
    try: signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError): pass
ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
if os.fork(): os._exit(0)
os.setsid()
while True:
    open("grow", "a").write("x"); time.sleep(.02)
'; sleep .1`},
		{name: "a subreaper of its own", needs: "python3", left: true, line: `python3 -c '
import ctypes, os, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: time.sleep(60)
    os._exit(0)
time.sleep(.1); os._exit(0)
'`},
		// What keeps the pipes.
		{name: "the pipes kept", line: `sleep 60 & exit 4`, code: 4, left: true},
		{name: "the pipes kept and written to", line: `setsid sh -c 'while :; do echo x; done' & sleep .1; exit 5`, needs: "setsid", code: 5, left: true},
		{name: "the pipes under another number", line: `exec 7>&1; sleep 60 >/dev/null 2>&1 & exit 0`, left: true},
		{name: "the pipes by their path", line: `sleep 60 >/proc/$$/fd/1 & sleep .05; exit 0`, left: true},
		{name: "a process substitution", line: `bash -c 'cat <(sleep 60)'`, needs: "bash", timeout: short},
		{name: "its own output closed", line: `exec >&- 2>&-; sleep 60`, timeout: short},
		// What ignores the end.
		{name: "TERM ignored", line: `trap '' TERM INT HUP; ` + grow, timeout: short},
		{name: "TERM ignored below", line: `(trap '' TERM; ` + grow + `) & wait`, timeout: short},
		{name: "TERM ignored by all", line: `trap '' TERM; (trap '' TERM; sleep 60) & trap '' TERM; sleep 60`, timeout: short},
		{name: "a trap that goes on", line: `trap 'echo no; sleep 60; sleep 60' TERM; sleep 60`, timeout: short},
		{name: "a long exit", line: `trap 'sleep 60' EXIT; exit 0`, timeout: short},
		{name: "stopped", line: `kill -STOP $$; sleep 60`, timeout: short},
		{name: "stopped below", line: `sleep 60 & kill -STOP $!; exit 0`, left: true},
		{name: "stopped and written to", line: `sh -c 'kill -STOP $$' | cat`, timeout: short},
		{name: "a shell that becomes another program", line: `exec sleep 60`, timeout: short},
		{name: "a shell that becomes a stubborn one", line: `exec sh -c "trap '' TERM; exec sleep 60"`, timeout: short},
		{name: "a loop", line: `while :; do :; done`, timeout: short},
		{name: "a pipe", line: `sleep 60 | sleep 60 | sleep 60`, timeout: short},
		{name: "a fifo", line: `mkfifo p && cat p`, needs: "mkfifo", timeout: short},
		{name: "under timeout", line: `timeout 60 sleep 60`, needs: "timeout", timeout: short},
		// What multiplies.
		{name: "a fork bomb", line: `f() { f | f & }; f; sleep 60`, confined: true, timeout: short},
		{name: "a chain of forks", line: `f() { ( f & ) & }; f; sleep 60`, confined: true, timeout: short},
		// What attacks.
		{name: "its parent killed", line: `kill -9 $PPID; sleep .2; kill -9 $$`, confined: true, signal: "SIGKILL"},
		{name: "its parent asked to end", line: `i=0; while [ $i -lt 50 ]; do kill -TERM $PPID; i=$((i+1)); done; sleep 60`, confined: true, timeout: time.Second},
		{name: "everybody killed", line: `kill -9 -1 2>/dev/null; sleep .05; echo still`, confined: true, want: "still\n"},
		{name: "itself killed", line: `echo p; kill -9 $$`, want: "p\n", code: -1, signal: "SIGKILL"},
		{name: "a fault", line: `kill -SEGV $$`, code: -1, signal: "SIGSEGV"},
		{name: "another root", line: `unshare -Ur sleep 60 2>/dev/null || echo refused`, needs: "unshare", confined: true, want: "refused\n"},
		// What waits for input.
		{name: "input", line: `cat; read x; echo r=$?`, want: "r=1\n"},
		{name: "much input, hardly read", line: `head -c1`, stdin: strings.Repeat("x", 5<<20), want: "x"},
		{name: "input that nobody reads", line: `exec <&-; echo done`, stdin: strings.Repeat("x", 5<<20), want: "done\n"},
		{name: "the terminal written to", line: `(echo hi >/dev/tty) 2>/dev/null; echo $?`, want: "1\n"},
		{name: "the terminal read from", line: `(read x </dev/tty) 2>/dev/null; [ $? -ne 0 ] && echo none`, want: "none\n"},
		// What writes.
		{name: "a line for ever", line: `yes`, needs: "yes", timeout: short},
		{name: "a gibibyte", line: `head -c 1073741824 /dev/zero`},
		{name: "bytes", line: `printf '\377\376\000\351 ok\n'`, want: "\xff\xfe\x00\xe9 ok\n"},
		{name: "a file for ever", line: `awk 'BEGIN { while (1) { print "x" > "grow"; fflush() } }'`, needs: "awk", timeout: short},
		// What loses its place.
		{name: "a deleted directory", line: `mkdir d && cd d && rmdir ../d && { sleep 60 & exit 6; }`, code: 6, left: true},
		// What has a terminal.
		{name: "a terminal, read from", line: `cat`, terminal: true, timeout: short},
		{name: "a terminal, and a background", line: `nohup sleep 60 >/dev/null 2>&1 & sleep .1; echo done`, terminal: true, want: "done\r\n", left: true},
		{name: "a terminal, hung up on", line: `trap '' HUP TERM; exec </dev/null >/dev/null 2>&1; ` + grow, terminal: true, timeout: short},
	}
}

// Nothing outlives its call, and nothing holds it: whatever a line does, it ends when it should,
// and then no process of it is left, no descriptor here, and no file grows any more.
func TestLaw41NothingOutlivesItsCommand(t *testing.T) {
	if n := len(tenacity()); n < 40 {
		t.Fatalf("the table has %d lines", n)
	}
	confinements(t, func(t *testing.T, s *stage) {
		s.run(t, service.Command{Line: "true"}) // what is opened once is open
		for i, tt := range tenacity() {
			if tt.confined && s.profile.Policy == nil || testing.Short() && i%4 != 0 {
				continue
			}
			t.Run(tt.name, func(t *testing.T) { s.endures(t, tt) })
		}
	})
}

func (s *stage) endures(t *testing.T, tt tenacious) {
	if _, err := exec.LookPath(tt.needs); tt.needs != "" && err != nil {
		t.Skipf("this machine has no %s", tt.needs)
	}
	before := len(descriptors(t))
	c := service.Command{Line: tt.line, Stdin: []byte(tt.stdin), Timeout: tt.timeout}
	if tt.terminal {
		c.Terminal = &service.TerminalSize{Columns: 80, Rows: 24}
	}
	if tt.timeout == 0 {
		c.Timeout = 20 * time.Second
	}
	began := time.Now()
	result, w := s.run(t, c)
	took := time.Since(began)
	s.nothingLeft(t)
	if after := descriptors(t); len(after) != before {
		t.Errorf("%d descriptors were open before, and %d are after: %q", before, len(after), after)
	}
	wrote := sizes(t, s.root)
	if _, grows := wrote[filepath.Join(s.root, "grow")]; grows {
		time.Sleep(100 * time.Millisecond)
		if now := sizes(t, s.root); !maps.Equal(wrote, now) {
			t.Errorf("files go on growing: %v, then %v", wrote, now)
		}
	}
	if result.Survivors != "" {
		t.Errorf("survivors: %s", result.Survivors)
	}
	if tt.timeout != 0 {
		if result.Ending != service.EndedByTimeout && tt.name != "its parent asked to end" {
			t.Errorf("ended %s after %v, want by its timeout: %+v", result.Ending, took, result)
		}
		if took > tt.timeout+2*time.Second {
			t.Errorf("took %v with a timeout of %v", took, tt.timeout)
		}
		return
	}
	if result.Ending != service.EndedItself || result.Code != tt.code && tt.signal == "" || result.Signal != tt.signal {
		t.Errorf("ended %+v, want code %d, signal %q; stderr %q", result, tt.code, tt.signal, w.err.String())
	}
	if result.LeftRunning != tt.left {
		t.Errorf("left running: %t, want %t", result.LeftRunning, tt.left)
	}
	if tt.want != "" && w.joined.String() != tt.want {
		t.Errorf("wrote %q, want %q", shortened(w.joined.Bytes()), tt.want)
	}
	if got := result.Stdout + result.Stderr; got != int64(w.joined.Len())+w.dropped {
		t.Errorf("it wrote %d bytes, of which %d came and %d were dropped", got, w.joined.Len(), w.dropped)
	}
}

func shortened(text []byte) []byte { return bytes.Clone(text[:min(len(text), 200)]) }
