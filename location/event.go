package location

import (
	"time"

	"github.com/toolhost/toolhost/plugin/client"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// EventKind is what an event is about.
type EventKind string

// The kinds of events.
const (
	// EventPlugin says that a plugin entered a state.
	EventPlugin EventKind = "plugin"
	// EventTools says that tools of a plugin appeared or vanished.
	EventTools EventKind = "tools"
	// EventCallStarted and EventCallEnded are of a call of a tool that there is. A call
	// that named none only ends.
	EventCallStarted EventKind = "call_started"
	EventCallEnded   EventKind = "call_ended"
	// EventContradiction says what a tool would have done beyond its effects.
	EventContradiction EventKind = "contradiction"
	// EventReload says what became of a reload in this Location.
	EventReload EventKind = "reload"
	// EventOpened and EventClosed are of the Location itself.
	EventOpened EventKind = "opened"
	EventClosed EventKind = "closed"
)

// An Event is something that happened in a Location. Fields that its kind does not
// name are zero.
type Event struct {
	Kind EventKind `json:"kind"`
	// At is when it happened, Location where.
	At       time.Time `json:"at"`
	Location string    `json:"location"`
	// Plugin is whose state or tools changed, or whose tool is called.
	Plugin string `json:"plugin,omitempty"`
	// State is what a plugin entered, Reason why, Exit how its process ended by itself,
	// and Pid the process.
	State  client.State `json:"state,omitempty"`
	Reason string       `json:"reason,omitempty"`
	Exit   string       `json:"exit,omitempty"`
	Pid    int          `json:"pid,omitempty"`
	// Call is of a call.
	Call *CallEvent `json:"call,omitempty"`
	// Contradiction is what was refused.
	Contradiction *tool.Contradiction `json:"contradiction,omitempty"`
	// Reload is what became of one.
	Reload *Report `json:"reload,omitempty"`
}

// A CallEvent is what is told of a call: nothing of what it says.
type CallEvent struct {
	Identity tool.Identity `json:"identity"`
	// Tool is the canonical id; empty if there is no such tool, whose Name was called.
	Tool string `json:"tool,omitempty"`
	Name string `json:"name"`
	// Effects is what it may do, once that is known.
	Effects tool.Effects `json:"effects,omitempty"`
	// Status is how it ended, Kind and Reason why it did not complete, Ran whether the
	// tool had begun, and Took how long it took.
	Status tool.Status   `json:"status,omitempty"`
	Kind   tool.Kind     `json:"error_kind,omitempty"`
	Reason string        `json:"reason,omitempty"`
	Ran    bool          `json:"ran,omitempty"`
	Took   time.Duration `json:"took,omitempty"`
}

// tell hands an event on, if anybody wants it.
func (l *Location) tell(e Event) {
	if l.options.Event == nil {
		return
	}
	e.At, e.Location = time.Now(), l.name
	l.options.Event(e)
}

// began is told of a call whose tool was found.
func (l *Location) began(r registry.Record) {
	l.tell(Event{Kind: EventCallStarted, Plugin: r.Plugin, Call: callEvent(r)})
}

// callRecorder tells of the ends of calls, beside the audit log.
type callRecorder struct {
	location *Location
	audit    registry.Recorder // nil: nothing is recorded
}

var _ registry.Recorder = (*callRecorder)(nil)

// Started implements [registry.Recorder].
func (c *callRecorder) Started(r registry.Record) {
	if c.audit != nil {
		c.audit.Started(r)
	}
}

// Ended implements [registry.Recorder].
func (c *callRecorder) Ended(r registry.Record) {
	if c.audit != nil {
		c.audit.Ended(r)
	}
	c.location.tell(Event{Kind: EventCallEnded, Plugin: r.Plugin, Call: callEvent(r)})
}

func callEvent(r registry.Record) *CallEvent {
	e := &CallEvent{
		Identity: r.Identity, Tool: r.Tool, Name: r.Name, Effects: r.Effects, Status: r.Status, Ran: r.Ran,
	}
	if r.Status != "" {
		e.Took = r.Took
	}
	if r.Error != nil {
		e.Kind, e.Reason = r.Error.Kind, r.Error.Message
		if r.Error.Cause != nil {
			e.Reason = r.Error.Cause.Error()
		}
	}
	return e
}
