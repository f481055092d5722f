package registry

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/toolhost/toolhost/tool"
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
	// Deadline bounds the execution; 0 is the registry's. Waiting for a permission
	// before it does not count.
	Deadline time.Duration
	// Progress receives what the tool reports, in order, from the goroutine of Call
	// and never after it returned. It may be nil.
	Progress func(tool.Progress)
}

// errClosing is the cause of calls that end because the registry's scope does.
var errClosing = errors.New("the Location is closing")

// Call runs one call to its end. ctx is the caller's interest in it: when it is
// over the executor is cancelled and the error is a [*tool.Interruption], the only
// kind of error there is; it takes at most [StopGrace] (law 14). Everything else,
// panics of the tool included, is a settlement, and Settlement.Ran says whether
// the executor had begun.
//
// The detail of an operational error is in Settlement.Error.Cause. It is for the
// operator: whoever shows the settlement logs it, the registry does not.
func (c *Capture) Call(ctx context.Context, request Request) (tool.Settlement, error) {
	if err := request.Identity.Check(); err != nil {
		return end(ctx, err, false)
	}
	e, err := c.resolve(request.Name)
	if err != nil {
		return end(ctx, err, false)
	}
	input, err := e.validInput(request.Input)
	if err != nil {
		return end(ctx, err, false)
	}
	r := c.registry
	work, cancel := r.work(ctx)
	defer cancel(nil)
	call := tool.Call{Identity: request.Identity, Tool: e.definition.ID, Input: input, Gate: r.gateOf(e, request.Identity)}
	if err := e.authorize(work, call.Gate); err != nil {
		return end(ctx, whyOver(work, err), false)
	}
	if work.Err() != nil {
		return end(ctx, whyOver(work, work.Err()), false)
	}
	deadline := cmp.Or(max(request.Deadline, 0), r.deadline)
	result, ran, err := r.execute(work, cancel, e, call, deadline, request.Progress)
	if err != nil || call.Gate.Refused() != nil || ctx.Err() != nil {
		return end(ctx, refusedFirst(call.Gate, whyOver(work, err)), ran)
	}
	settlement, err := e.settle(result)
	if err != nil {
		return end(ctx, err, ran)
	}
	return settlement, nil
}

// end is the outcome of a call that did not complete: an interruption if nobody
// wants it any more, whatever else happened (law 14), and the settlement of the
// error otherwise.
func end(ctx context.Context, err error, ran bool) (tool.Settlement, error) {
	if i, over := tool.InterruptedBy(ctx, ran); over {
		return tool.Settlement{}, i
	}
	settlement := tool.SettleError(err, ran)
	settlement.Error.Message = clean(settlement.Error.Message)
	return settlement, nil
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

// work is the context of what is done for a call: the caller's, cancelled also
// when the registry's scope is.
func (r *Registry) work(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	work, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(r.scope.Context(), func() { cancel(errClosing) })
	return work, func(cause error) {
		stop()
		cancel(cause)
	}
}

func (r *Registry) gateOf(e *entry, identity tool.Identity) tool.Gate {
	owner := e.registration.owner
	return r.gate(Caller{Identity: identity, Tool: e.definition.ID, Plugin: owner.Name, Builtin: owner.Builtin})
}

// authorize asks for a tool that is not built in whether it may run at all: under
// its own id, on everything (law 33). A built-in asserts by itself what it does.
func (e *entry) authorize(ctx context.Context, gate tool.Gate) error {
	if e.registration.owner.Builtin {
		return nil
	}
	return gate.Assert(ctx, tool.PermissionRequest{Action: e.definition.ID, Resources: []string{"*"}, Save: []string{"*"}})
}

// whyOver is err, or why the work is over if that was the registry's doing.
func whyOver(work context.Context, err error) error {
	switch cause := context.Cause(work); {
	case errors.Is(cause, errClosing):
		return tool.Errorf(tool.KindUnavailable, "the tool is unavailable: %w", errClosing)
	case errors.As(cause, new(*tool.Error)):
		return cause // the deadline
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

// An outcome is what an executor returned.
type outcome struct {
	result tool.Result
	err    error
}

// execute runs the executor in a goroutine of the scope and waits for it, but no
// longer than the deadline, and [StopGrace] after work is over for any reason. ran
// says whether the executor had begun.
func (r *Registry) execute(
	work context.Context, cancel context.CancelCauseFunc, e *entry, call tool.Call, deadline time.Duration, progress func(tool.Progress),
) (result tool.Result, ran bool, err error) {
	reports := make(chan tool.Progress)
	if progress != nil {
		call.Progress = func(p tool.Progress) {
			select {
			case reports <- p:
			case <-work.Done():
			}
		}
	}
	ended := make(chan outcome, 1)
	if err := r.scope.Go("call of "+call.Tool, func(context.Context) error {
		run(work, e, call, ended)
		return nil
	}); err != nil {
		return tool.Result{}, false, tool.Errorf(tool.KindUnavailable, "the tool is unavailable: %w", errClosing)
	}
	timer := time.NewTimer(deadline)
	defer timer.Stop()
	for {
		select {
		case o := <-ended:
			return o.result, true, o.err
		case p := <-reports:
			progress(p)
			continue
		case <-timer.C:
			cancel(tool.Errorf(tool.KindDeadline, "%s did not finish within %v", call.Tool, deadline))
		case <-work.Done():
		}
		break
	}
	timer.Reset(StopGrace)
	select {
	case o := <-ended:
		return o.result, true, cmp.Or(o.err, context.Cause(work))
	case <-timer.C:
		r.log.Warn("tool does not stop", slog.String("tool", call.Tool), slog.Any("cause", context.Cause(work)))
		return tool.Result{}, true, context.Cause(work)
	}
}

// run calls the executor and reports how it ended, whichever way that was. A panic
// ends this call and no other (law 13).
func run(ctx context.Context, e *entry, call tool.Call, ended chan<- outcome) {
	o := outcome{err: fmt.Errorf("%s ended its goroutine instead of returning", call.Tool)}
	defer func() {
		if v := recover(); v != nil {
			o.err = fmt.Errorf("%s panicked: %v\n\n%s", call.Tool, v, debug.Stack())
		}
		ended <- o
	}()
	o.result, o.err = e.execute(ctx, call)
}
