package broker

import (
	"errors"
	"io"
	"math"
	"slices"
	"sync"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/tool"
)

// events are what a call gives while it runs. Where the plugin may run commands, those write
// into the output of the call as the plugin does: then each write and each report has it to
// itself, and there is none after the end. The output and the progress never change.
type events struct {
	output   io.Writer           // nil is none
	progress func(tool.Progress) // nil is none

	mu      sync.Mutex
	over    bool  // under mu: nobody takes anything any more
	problem error // under mu: why output of a command could not be taken
	lost    int64 // under mu: how many bytes of such output were dropped
}

// errEventsOver is the error of what is written when the call is over.
var errEventsOver = errors.New("output comes too late: the call is over")

func (e *events) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return 0, errEventsOver
	}
	return e.output.Write(p)
}

func (e *events) report(p tool.Progress) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		e.progress(p)
	}
}

// lose counts what was dropped of the output of a command.
func (e *events) lose(bytes int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		e.lost = AddLost(e.lost, bytes)
	}
}

// end waits for what is being written. It may be called more than once.
func (e *events) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
}

// commandOutput is the output of the call as commands write to it. That it could not be taken
// is no matter between a plugin and its command.
type commandOutput events

func (o *commandOutput) Write(p []byte) (int, error) {
	e := (*events)(o)
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.over:
		return 0, errEventsOver
	case e.problem != nil:
		return 0, e.problem
	}
	n, err := e.output.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	e.problem = err
	return n, err
}

// Events are the output and the progress of the call for what the plugin itself writes and
// reports, one after the other. They are those that the lease was given, as they were, or
// where commands write to them too, such that both are one, until the lease has ended.
func (l *Lease) Events() (io.Writer, func(tool.Progress)) {
	if !slices.Contains(l.broker.options.Grants, service.GrantProcess) {
		return l.events.output, l.events.progress
	}
	var output io.Writer
	var progress func(tool.Progress)
	if l.events.output != nil {
		output = &l.events
	}
	if l.events.progress != nil {
		progress = l.events.report
	}
	return output, progress
}

// Lost is how many bytes of what commands wrote into the output of the call were dropped
// (law 19), and the error is why what they wrote could not be taken. Both are final once
// the lease has ended.
func (l *Lease) Lost() (int64, error) {
	l.events.mu.Lock()
	defer l.events.mu.Unlock()
	return l.events.lost, l.events.problem
}

// AddLost adds to how many bytes were lost. What somebody says cannot make it less.
func AddLost(lost, more int64) int64 {
	lost, more = max(0, lost), max(0, more)
	return lost + min(more, math.MaxInt64-lost)
}
