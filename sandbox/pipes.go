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
	holdReaper, holdProgram *os.File // open for as long as the tree is to live
	// theirs
	programStdout, programStderr    *os.File
	report                          *os.File
	reaperLifeline, programLifeline *os.File
}

func openPipes() (*pipes, error) {
	p := &pipes{}
	for _, pair := range []struct{ read, write **os.File }{
		{&p.stdout, &p.programStdout},
		{&p.stderr, &p.programStderr},
		{&p.status, &p.report},
		{&p.reaperLifeline, &p.holdReaper},
		{&p.programLifeline, &p.holdProgram},
	} {
		var err error
		if *pair.read, *pair.write, err = os.Pipe(); err != nil {
			p.closeTheirs()
			p.closeOurs()
			return nil, err
		}
	}
	return p, nil
}

// closeTheirs closes the host's copies of what the child was given.
func (p *pipes) closeTheirs() {
	closeAll(p.programStdout, p.programStderr, p.report, p.reaperLifeline, p.programLifeline)
}

// closeLifelines tells the tree to end.
func (p *pipes) closeLifelines() { closeAll(p.holdReaper, p.holdProgram) }

// closeOurs releases the host's ends.
func (p *pipes) closeOurs() {
	p.closeLifelines()
	closeAll(p.stdout, p.stderr, p.status)
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
