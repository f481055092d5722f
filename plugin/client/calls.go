package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolhost/toolhost/plugin/client/internal/lines"
	"github.com/toolhost/toolhost/plugin/internal/wire"
	"github.com/toolhost/toolhost/tool"
)

// execute runs one call in the plugin.
func (i *Incarnation) execute(ctx context.Context, executor uint64, call tool.Call) (tool.Result, error) {
	if len(call.Input) > wire.MaxInput {
		return tool.Result{}, tool.Errorf(tool.KindInvalidInput, "the input has %d bytes; at most %d", len(call.Input), wire.MaxInput)
	}
	if err := i.beginCall(); err != nil {
		return tool.Result{}, err
	}
	defer i.endCall()
	lease, err := i.broker.Begin(call.Gate)
	if err != nil {
		return tool.Result{}, i.unavailable()
	}
	defer lease.End()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(i.life.Context(), func() { cancel(errOver) })
	defer stop()

	e := wire.Execution{
		Executor: executor, Tool: call.Tool, Identity: call.Identity, Token: lease.Token(), Input: call.Input,
	}
	if deadline, ok := ctx.Deadline(); ok {
		e.Deadline = max(time.Until(deadline), time.Millisecond)
	}
	progress := throttle{limit: rate.NewLimiter(progressASecond, progressBurst), to: call.Progress}
	result, err := i.plugin.Execute(ctx, e, progress.report)
	if err != nil {
		return tool.Result{}, i.callError(ctx, call, err)
	}
	progress.flush()
	return result, nil
}

// How often the caller hears of a call's progress at most.
const (
	progressASecond = 20
	progressBurst   = 20
)

// throttle passes on as much of the progress as a person could follow, and
// always the last of it. It is for one goroutine.
type throttle struct {
	limit *rate.Limiter
	to    func(tool.Progress) // may be nil
	held  *tool.Progress      // the last one, if it was not passed on
}

func (t *throttle) report(p tool.Progress) {
	if t.to == nil {
		return
	}
	if !t.limit.Allow() {
		t.held = &p
		return
	}
	t.held = nil
	t.pass(p)
}

func (t *throttle) flush() {
	if t.held != nil {
		t.pass(*t.held)
	}
}

func (t *throttle) pass(p tool.Progress) {
	p.Message = lines.Clean(p.Message)
	t.to(p)
}

// errOver is the cause of calls that end with their incarnation.
var errOver = errors.New("the plugin's incarnation is over")

// beginCall counts a call that is let in.
func (i *Incarnation) beginCall() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.state != Ready {
		return i.unavailableLocked()
	}
	i.calls++
	return nil
}

func (i *Incarnation) endCall() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.calls--
	if i.calls == 0 && i.idle != nil {
		close(i.idle)
		i.idle = nil
	}
}

func (i *Incarnation) unavailable() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.unavailableLocked()
}

func (i *Incarnation) unavailableLocked() error {
	what := "is still starting: try again later"
	switch i.state {
	case Failed:
		what = "has failed"
	case Draining, Closed:
		what = "was closed"
	}
	return &tool.Error{Kind: tool.KindUnavailable, Message: fmt.Sprintf("the plugin %s %s", i.spec.Name, what), Cause: i.failure}
}

// callError says by whose doing a call did not end with an outcome: the tool's,
// the caller's, or the plugin's.
func (i *Incarnation) callError(ctx context.Context, call tool.Call, err error) error {
	if failure, ok := errors.AsType[*tool.Failure](err); ok {
		return failure
	}
	if remote, ok := errors.AsType[*wire.RemoteError](err); ok {
		return i.operational(tool.KindInternal, call, said(remote))
	}
	awaitDeadline(ctx, err)
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errOver) {
		return context.Cause(ctx)
	}
	if status.Code(err) == codes.Unavailable && i.conns.broken() {
		i.disconnected()
	}
	exit := i.exited()
	switch s := i.Status(); {
	case s.State == Draining || s.State == Closed:
		return i.operational(tool.KindUnavailable, call, errors.New("it was closed during the call"))
	case exit != "":
		return i.operational(tool.KindCrashed, call, errors.New(exit))
	case s.State == Failed:
		return i.operational(tool.KindCrashed, call, errors.New(s.Reason))
	default:
		return i.operational(tool.KindInternal, call, said(err))
	}
}

// deadlineSlack is how far the timers of host and plugin may be apart.
const deadlineSlack = 100 * time.Millisecond

// awaitDeadline lets the host's timer catch up with the plugin's. Both keep the
// deadline of ctx, and the plugin's end of it may come back first.
func awaitDeadline(ctx context.Context, err error) {
	if code := status.Code(err); code != codes.DeadlineExceeded && code != codes.Canceled {
		return
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < deadlineSlack {
		<-ctx.Done()
	}
}

func (i *Incarnation) operational(kind tool.Kind, call tool.Call, err error) error {
	return &tool.Error{
		Kind: kind, Message: "the tool is unavailable",
		Cause: fmt.Errorf("plugin %s: tool %s: %w", i.spec.Name, call.Tool, err),
	}
}

// endCalls waits a moment for the calls, which the scope has cancelled. None is
// let in any more.
func (i *Incarnation) endCalls(ctx context.Context) error {
	i.mu.Lock()
	if i.calls == 0 {
		i.mu.Unlock()
		return nil
	}
	idle := make(chan struct{})
	i.idle = idle
	i.mu.Unlock()
	select {
	case <-idle:
	case <-time.After(callGrace):
	case <-ctx.Done():
	}
	return nil
}

// drain asks the plugin to finish, if it still runs.
func (i *Incarnation) drain(ctx context.Context) error {
	if i.Status().State == Failed {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, drainGrace)
	defer cancel()
	if err := i.plugin.Drain(ctx); err != nil {
		i.logs.warn("the plugin did not finish when it was asked to", "error", said(err).Error())
	}
	return nil
}
