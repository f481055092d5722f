package sdk

import (
	"errors"
	"io"
	"sync"

	"github.com/toolhost/toolhost/plugin/internal/wire"
	"github.com/toolhost/toolhost/tool"
)

// Call says for whom a handler runs. The ids are the runner's; a plugin cannot
// change what the host knows of its call.
type Call struct {
	// SessionID, Agent, MessageID and CallID identify the call.
	SessionID, Agent, MessageID, CallID string
	// HostMade is true when some of the ids were made by the host.
	HostMade bool
	// Tool is the canonical id of the tool: the plugin's key, a slash, the name.
	Tool string

	running *running // nil while the call is being prepared
}

func newCall(e wire.Execution, r *running) Call {
	return Call{
		SessionID: e.Identity.Session, Agent: e.Identity.Agent, MessageID: e.Identity.Message, CallID: e.Identity.Call,
		HostMade: e.Identity.HostMade, Tool: e.Tool, running: r,
	}
}

// Progress reports how far the call has come: done of total, in units of the
// tool's choice, total being 0 when it is not known. It may block while the host
// is busy, and does nothing while the call is being prepared and after the handler
// returned.
func (c Call) Progress(done, total float64, message string) {
	if c.running != nil {
		c.running.report(tool.Progress{Done: done, Total: total, Message: message})
	}
}

// Output takes text that the call produces while it runs, of any size. The host
// bounds what the model reads of it and keeps the whole, so that neither side holds
// it in memory; the model reads it before what the handler returns. Writing may block
// while the host is busy. It is an error when the host takes no more, after which the
// handler should return; while the call is being prepared; and after the handler
// returned. It may be used concurrently: what one Write writes stays together.
func (c Call) Output() io.Writer { return output{c.running} }

// Lost says that the handler dropped so many bytes of what it would have returned,
// in addition to what was said before. The host tells the model, who would
// otherwise take the output for the whole.
func (c Call) Lost(bytes int64) {
	if c.running != nil {
		c.running.lose(bytes)
	}
}

// running keeps the events of a call in order, and none after its end.
type running struct {
	mu       sync.Mutex
	progress func(tool.Progress) // under mu; nil once the handler returned
	output   io.Writer           // under mu; nil once the handler returned
	lost     int64               // under mu
}

func (r *running) report(p tool.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.progress != nil {
		r.progress(p)
	}
}

func (r *running) lose(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost += max(0, bytes)
}

// end ends the events and gives what was lost.
func (r *running) end() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress, r.output = nil, nil
	return r.lost
}

type output struct{ running *running }

var (
	errPreparing = errors.New("a call that is being prepared has no output")
	errReturned  = errors.New("the handler of the call has returned")
)

func (o output) Write(p []byte) (int, error) {
	if o.running == nil {
		return 0, errPreparing
	}
	o.running.mu.Lock()
	defer o.running.mu.Unlock()
	if o.running.output == nil {
		return 0, errReturned
	}
	return o.running.output.Write(p)
}
