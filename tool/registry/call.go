package registry

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/output"
)

// A Request is one call of a captured tool.
type Request struct {
	// Identity is whose call it is, exactly as the runner supplied it (law 12). A call
	// whose identity is incomplete is not begun: that is a defect of the program that
	// makes it, and its settlement is an internal error.
	Identity tool.Identity
	// Name is the effective name of the tool.
	Name string
	// Input is what the model sent. Nothing, white space and null stand for {}. It
	// must not be changed before the call has ended.
	Input json.RawMessage
	// Deadline bounds the work of the call: the hooks before it, its preparation and
	// its execution; 0 is the registry's. Waiting for a person does not count (law 37),
	// and neither do the hooks after it, which have a bound of their own.
	Deadline time.Duration
	// SuspendAfter is how long Call waits for a person before it returns a
	// [*tool.Suspension] and leaves the call waiting. With 0 it waits as long as it
	// takes.
	SuspendAfter time.Duration
	// Instructions asks for those of the project near what the call is about, which the
	// session was not given before (law 30). They count as given with the settlement.
	Instructions bool
	// Progress receives what the tool reports, in order, at most twenty times a second
	// and with a growing Done, from one goroutine and never after the call has ended.
	// It may be nil. While a call is suspended it is still called. The call waits for
	// it, so it must not block; one that panics is called no more.
	Progress func(tool.Progress)
}

// errClosing is the cause of calls that end because the registry's scope does.
var errClosing = errors.New("the Location is closing")

func closing() error {
	return tool.Errorf(tool.KindUnavailable, "the tool is unavailable: %w", errClosing)
}

// Call runs one call to its end. ctx is the caller's interest in it: when it is
// over the executor is cancelled and the error is a [*tool.Interruption]; that
// takes at most [StopGrace], and what the journal takes to record it (law 14). The
// only other error is a [*tool.Suspension], for a request that asks for it.
// Everything else, panics of the tool included, is a settlement, and Settlement.Ran
// says whether the executor had begun.
//
// The detail of an operational error is in Settlement.Error.Cause. It is for the
// operator: whoever shows the settlement logs it, the registry does not.
func (c *Capture) Call(ctx context.Context, request Request) (tool.Settlement, error) {
	if request.SuspendAfter > 0 {
		return c.suspendable(ctx, request)
	}
	return c.run(ctx, request, nil)
}

// A run is one call on its way.
type run struct {
	registry *Registry
	request  Request
	waits    *suspension // nil for a call that cannot be suspended

	entry       *entry
	call        tool.Call       // its gate is set where something runs
	shown       json.RawMessage // the input for the hooks that come last and the recorder, which no tool can change
	gate        *gate           // of the execution; nil before it is prepared
	cancel      context.CancelCauseFunc
	clock       *clock
	preparation tool.Preparation
	bounding    *output.Bounding
	ran         bool
	explaining  bool      // it is only explained; see Plan
	at          time.Time // when it came
}

// run runs a call to its end, and tells of it.
func (c *Capture) run(ctx context.Context, request Request, waits *suspension) (tool.Settlement, error) {
	if err := request.Identity.Check(); err != nil {
		return end(ctx, err, false)
	}
	r := &run{registry: c.registry, request: request, waits: waits, at: time.Now()}
	defer c.registry.use()()
	work := r.begin(ctx)
	defer r.over()
	settlement, err := r.live(ctx, work, c)
	r.tellEnd(settlement, err)
	return settlement, err
}

// live is the life of a call, a step a line (ARCHITECTURE.md has the story).
func (r *run) live(ctx, work context.Context, c *Capture) (tool.Settlement, error) {
	if err := r.resolve(work, c); err != nil {
		return r.end(ctx, why(work, err))
	}
	if err := r.prepare(work); err != nil {
		return r.end(ctx, why(work, err))
	}
	if err := r.authorize(work); err != nil {
		r.discard(work)
		return r.end(ctx, why(work, err))
	}
	ended, err := r.record(work)
	if err != nil {
		r.discard(work)
		return r.end(ctx, why(work, err))
	}
	settlement, err := r.settled(ctx, work, ended)
	if err != nil || !settlement.Ran {
		return settlement, err
	}
	return r.registry.after(ctx, r, settlement)
}

// settled is settle with the record of how it ended, whatever happens.
func (r *run) settled(ctx, work context.Context, ended func(tool.Status, tool.Kind)) (settlement tool.Settlement, err error) {
	status, kind := tool.Errored, tool.KindInternal // unless it returns
	defer func() { ended(status, kind) }()
	settlement, err = r.settle(ctx, work)
	status, kind = cmp.Or(settlement.Status, tool.Interrupted), ""
	if settlement.Error != nil {
		kind = settlement.Error.Kind
	}
	return settlement, err
}

// begin makes the context of what is done for the call: the caller's, cancelled
// also when the registry's scope is, and when the deadline is past.
func (r *run) begin(ctx context.Context) context.Context {
	work, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(r.registry.options.Scope.Context(), func() { cancel(errClosing) })
	deadline := cmp.Or(max(r.request.Deadline, 0), r.registry.options.Deadline)
	name := r.request.Name
	r.clock = startClock(deadline, func() {
		cancel(tool.Errorf(tool.KindDeadline, "%s did not finish within %v", name, deadline))
	})
	r.cancel = func(cause error) {
		stop()
		cancel(cause)
	}
	if r.waits != nil {
		r.waits.began(cancel)
	}
	return work
}

// over releases what the call held.
func (r *run) over() {
	r.clock.stop()
	r.cancel(nil)
	if r.bounding != nil {
		r.bounding.Discard()
	}
}

// resolve finds the captured tool and the input that it will get: what the hooks
// made of the model's, validated (laws 7, 11, 21).
func (r *run) resolve(work context.Context, c *Capture) error {
	r.call = tool.Call{Identity: r.request.Identity}
	e, unknown := c.resolve(r.request.Name)
	if unknown == nil {
		r.entry, r.call.Tool = e, e.definition.ID
		r.tellBegan()
	}
	input, blocked := r.registry.before(work, r)
	if err := cmp.Or(blocked, unknown); err != nil {
		return err
	}
	var err error
	if r.call.Input, err = e.validInput(input); err != nil {
		return err
	}
	if len(r.registry.options.Hooks.After) > 0 || r.registry.options.Recorder != nil {
		r.shown = bytes.Clone(r.call.Input)
	}
	r.bounding = r.registry.output.Load().Begin(output.Origin{
		Session: r.call.Identity.Session, Tool: r.call.Tool, Call: r.call.Identity.Call,
	})
	return nil
}

// settle runs what was prepared and makes the settlement of it, or the
// interruption.
func (r *run) settle(ctx, work context.Context) (tool.Settlement, error) {
	result, err := r.execute(work)
	if err != nil || r.gate.Refused() != nil || ctx.Err() != nil {
		return r.end(ctx, refusedFirst(r.gate, why(work, err)))
	}
	settlement, err := r.entry.settle(result)
	if err != nil {
		return r.end(ctx, err)
	}
	settlement = r.bound(work, settlement)
	if i, over := tool.InterruptedBy(ctx, r.ran); over {
		return tool.Settlement{}, i
	}
	if settlement.Error == nil {
		settlement.Instructions = r.instructions(work) // last, since they count as given
	}
	return settlement, nil
}

// end is the outcome of a call that did not complete, bounded like another.
func (r *run) end(ctx context.Context, err error) (tool.Settlement, error) {
	settlement, interruption := end(ctx, err, r.ran)
	if interruption != nil || r.bounding == nil {
		return settlement, interruption
	}
	return r.bound(context.WithoutCancel(ctx), settlement), nil // an error has few words
}

// bound bounds what a model sees of the settlement. What could not be kept is no
// settlement of the tool's (law 18).
func (r *run) bound(work context.Context, settlement tool.Settlement) tool.Settlement {
	if err := r.bounding.Bound(work, &settlement); err != nil {
		return settledBy(why(work, err), r.ran)
	}
	return settlement
}

// instructions are those that belong to what the call was about (law 30).
func (r *run) instructions(ctx context.Context) []tool.Instruction {
	find := r.registry.options.Instructions
	targets := r.preparation.Targets
	if !r.request.Instructions || find == nil || len(targets) == 0 {
		return nil
	}
	found, err := find(ctx, r.gate, r.call.Identity.Session, targets)
	if err != nil { // what was found all the same was recorded as given
		r.registry.log.Warn("instructions of the project", slog.String("tool", r.call.Tool), slog.Any("error", err))
	}
	return found
}

// end is the outcome of a call that did not complete: an interruption if nobody
// wants it any more, whatever else happened (law 14), and the settlement of the
// error otherwise.
func end(ctx context.Context, err error, ran bool) (tool.Settlement, error) {
	if i, over := tool.InterruptedBy(ctx, ran); over {
		return tool.Settlement{}, i
	}
	return settledBy(err, ran), nil
}

func settledBy(err error, ran bool) tool.Settlement {
	settlement := tool.SettleError(err, ran)
	shown := *settlement.Error // which may be why a context is over, and others read that
	shown.Message = clean(shown.Message)
	settlement.Error = &shown
	return settlement
}

// validInput is the input that the executor gets: the very bytes that were
// validated (law 11).
func (e *entry) validInput(raw json.RawMessage) (json.RawMessage, error) {
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || string(trimmed) == "null" {
		raw = json.RawMessage(`{}`)
	}
	if err := e.input.Validate(raw); err != nil {
		return nil, tool.Errorf(tool.KindInvalidInput, "input of %q is invalid: %w", e.definition.Name, err)
	}
	return raw, nil
}

// why is err, or why the work is over if that was not the caller's doing.
func why(work context.Context, err error) error {
	switch cause := context.Cause(work); {
	case errors.Is(cause, errClosing):
		return closing()
	case errors.As(cause, new(*tool.Error)):
		return cause // the deadline, or the end of a suspension
	default:
		return err
	}
}

// refusedFirst is the refusal of the call, if there was one, whatever the executor
// returned (law 36).
func refusedFirst(gate tool.Gate, err error) error {
	if refusal := gate.Refused(); refusal != nil {
		return refusal
	}
	return err
}
