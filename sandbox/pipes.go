package sandbox

import (
	"os"
	"sync"
)

// pipes are the pipes between the host and a tree. Each end has one owner: ours
// are the host's until closeOurs, theirs are handed to the child and closed here
// once it was started.
type pipes struct {
	// ours
	stdout, stderr *os.File
	status         *os.File
	lifelines      [2]*os.File
	// theirs
	programStdout, programStderr    *os.File
	report                          *os.File
	reaperLifeline, programLifeline *os.File

	theirs, lives, ours sync.Once
}

func openPipes() (*pipes, error) {
	p := &pipes{}
	for _, pair := range []struct{ read, write **os.File }{
		{&p.stdout, &p.programStdout},
		{&p.stderr, &p.programStderr},
		{&p.status, &p.report},
		{&p.reaperLifeline, &p.lifelines[0]},
		{&p.programLifeline, &p.lifelines[1]},
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
	p.theirs.Do(func() {
		closeAll(p.programStdout, p.programStderr, p.report, p.reaperLifeline, p.programLifeline)
	})
}

// closeLifelines tells the tree to end.
func (p *pipes) closeLifelines() { p.lives.Do(func() { closeAll(p.lifelines[:]...) }) }

// closeOurs releases the host's ends.
func (p *pipes) closeOurs() {
	p.closeLifelines()
	p.ours.Do(func() { closeAll(p.stdout, p.stderr, p.status) })
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}
