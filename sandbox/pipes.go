package sandbox

import (
	"bufio"
	"io"
	"os"
	"strings"
)

// pipes are the pipes between the host and a tree. Each end has one owner: ours are the host's until closeOurs, theirs are
// handed to the child and closed here once it was started. A file that is closed twice is closed once, so the methods may
// be called again, and concurrently.
type pipes struct {
	// ours
	stdout, stderr          *os.File
	status                  *os.File // what the reaper reports
	holdReaper, holdProgram *os.File // open for as long as the tree is to live; the second is nil without a lifeline of the program
	stdin                   *os.File // what is written to the program, or nil
	terminal                *os.File // the host's side of the program's terminal, or nil
	terminalEnd             *os.File // its other side, open until the tree is gone, so that it has no end before; nil in a jail
	terminals               *os.File // where a launcher hands over the terminal that it made, or nil
	// theirs
	programStdout, programStderr *os.File
	report                       *os.File
	reaperLifeline               *os.File
	programStdin                 *os.File
	giveTerminal                 *os.File // the other side of terminals
}

// openPipes opens what spec takes. A launcher makes the terminal and the empty input of its
// program itself, in the jail: what is of the machine would be the machine's to change.
func openPipes(spec Spec) (*pipes, error) {
	p := &pipes{}
	err := p.openAlways()
	if err == nil && spec.Joined {
		_ = p.programStderr.Close()
		p.programStderr = p.programStdout
	}
	switch jailed := spec.Policy != nil; {
	case err != nil:
	case spec.Terminal != nil && jailed:
		p.terminals, p.giveTerminal, err = socketPair()
	case spec.Terminal != nil:
		p.terminal, p.programStdin, err = openTerminal(*spec.Terminal)
		p.terminalEnd = p.programStdin
	case spec.stdin() == StdinPipe:
		p.programStdin, p.stdin, err = os.Pipe()
	case spec.stdin() == StdinLifeline:
		p.programStdin, p.holdProgram, err = os.Pipe()
	case !jailed:
		p.programStdin, err = os.Open(os.DevNull)
	}
	if err != nil {
		p.closeTheirs()
		p.closeOurs()
		return nil, err
	}
	return p, nil
}

func (p *pipes) openAlways() error {
	for _, pair := range []struct{ read, write **os.File }{
		{&p.stdout, &p.programStdout},
		{&p.stderr, &p.programStderr},
		{&p.status, &p.report},
		{&p.reaperLifeline, &p.holdReaper},
	} {
		var err error
		if *pair.read, *pair.write, err = os.Pipe(); err != nil {
			return err
		}
	}
	return nil
}

// closeTheirs closes the host's copies of what the child was given.
func (p *pipes) closeTheirs() {
	closeAll(p.programStdout, p.programStderr, p.report, p.reaperLifeline, p.giveTerminal)
	if p.programStdin != p.terminalEnd {
		closeAll(p.programStdin)
	}
}

// closeTerminalEnd lets the terminal come to its end, once nothing of the tree is left that
// could write to it.
func (p *pipes) closeTerminalEnd() { closeAll(p.terminalEnd) }

// closeLifelines tells the tree to end, and whoever writes to it that it does.
func (p *pipes) closeLifelines() { closeAll(p.holdReaper, p.holdProgram, p.stdin) }

// closeOurs releases the host's ends.
func (p *pipes) closeOurs() {
	p.closeLifelines()
	closeAll(p.stdout, p.stderr, p.status, p.terminal, p.terminalEnd, p.terminals)
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// sendEnvironment tells the reaper the program's environment: each entry with a NUL byte after it, and one more at the end.
func sendEnvironment(to io.Writer, env []string) error {
	var b strings.Builder
	for _, entry := range env {
		b.WriteString(entry)
		b.WriteByte(0)
	}
	b.WriteByte(0)
	_, err := io.WriteString(to, b.String())
	return err
}

// receiveEnvironment is the other side. It fails when the host went away before it had told all.
func receiveEnvironment(from io.Reader) ([]string, error) {
	env := []string{}
	for in := bufio.NewReader(from); ; {
		entry, err := in.ReadString(0)
		if err != nil {
			return nil, err
		}
		if entry == "\x00" {
			return env, nil
		}
		env = append(env, strings.TrimSuffix(entry, "\x00"))
	}
}
