package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolhost/toolhost/plugin/broker"
	"github.com/toolhost/toolhost/plugin/internal/wire"
	"github.com/toolhost/toolhost/tool"
)

// execute runs one call in the plugin, or commits the action that was prepared for
// it, if its number is not 0, which may make the changes that it staged. It returns within [confirmGrace] after ctx is over, and
// the second that the broker allows where a callback in the host does not end.
func (i *Incarnation) execute(ctx context.Context, executor, action uint64, call tool.Call, stages *broker.Stages) (tool.Result, error) {
	if len(call.Input) > wire.MaxInput {
		return tool.Result{}, tool.Errorf(tool.KindInvalidInput, "the input has %d bytes; at most %d", len(call.Input), wire.MaxInput)
	}
	var joined *joinedOutput
	if call.Output == nil {
		joined = &joinedOutput{}
		call.Output = joined
	}
	lease, err := i.letIn(call, func(b *broker.Broker, call tool.Call) (*broker.Lease, error) { return b.BeginCommit(call, stages) })
	if err != nil && action != 0 {
		return tool.Result{}, gone(call, err)
	}
	if err != nil {
		return tool.Result{}, err
	}
	output, progress := lease.Events()
	var result tool.Result
	err = i.run(ctx, call, lease, func(ctx context.Context, e wire.Execution) (err error) {
		e.Executor, e.Action = executor, action
		if action != 0 {
			e.Input = nil // the plugin has it
		}
		result, err = i.plugin.Execute(ctx, e, progress, output)
		return err
	})
	result, err = withCommands(ctx, lease, result, err)
	if err != nil {
		return tool.Result{}, err
	}
	if joined != nil {
		result.Content = joined.before(result.Content)
	}
	return result, nil
}

// withCommands adds to how a call ended what the commands did that wrote into its output,
// whatever the plugin says: how much of it was dropped, a failure included (law 19), and that
// it could not be taken. The lease has ended.
func withCommands(ctx context.Context, lease *broker.Lease, result tool.Result, err error) (tool.Result, error) {
	lost, problem := lease.Lost()
	failure, failed := errors.AsType[*tool.Failure](err)
	switch {
	case problem != nil && ctx.Err() == nil:
		return tool.Result{}, problem
	case lost == 0:
		return result, err
	case failed:
		return tool.Result{}, &tool.Failure{Message: failure.Message, Lost: broker.AddLost(failure.Lost, lost)}
	default:
		result.Lost = broker.AddLost(result.Lost, lost)
		return result, err
	}
}

// letIn counts a call and gives it a lease, which [Incarnation.run] ends. Nothing
// of the call has reached the plugin when it fails.
func (i *Incarnation) letIn(call tool.Call, begin func(*broker.Broker, tool.Call) (*broker.Lease, error)) (*broker.Lease, error) {
	if err := i.beginCall(); err != nil {
		return nil, err
	}
	lease, err := begin(i.broker, call)
	if err != nil {
		i.endCall()
		return nil, i.unavailable()
	}
	return lease, nil
}

// run lets the plugin do something for a call that was let in.
func (i *Incarnation) run(ctx context.Context, call tool.Call, lease *broker.Lease, do func(context.Context, wire.Execution) error) error {
	defer i.endCall()
	defer lease.End()
	roomForCall()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(i.life.Context(), func() { cancel(errOver) })
	defer stop()

	e := wire.Execution{Tool: call.Tool, Identity: call.Identity, Token: lease.Token(), Input: call.Input}
	if deadline, ok := ctx.Deadline(); ok {
		e.Deadline = max(time.Until(deadline), time.Millisecond)
	}
	err := do(ctx, e)
	if err == nil {
		return nil
	}
	if !wire.Ended(err) {
		until := time.Now().Add(confirmGrace)
		lease.End() // what it waits for in the host is over, too
		i.confirm(call, lease.Token(), until)
	}
	return i.callError(ctx, call, err)
}

// deep is about how much stack a call takes on its way through gRPC.
const deep = 9 << 10

// roomForCall makes room for it at once. A call comes in a goroutine of its own, whose
// small stack would be doubled, and copied with all that is on it, once and again on
// the way down: a tenth of what a call cost the host.
//
//go:noinline
func roomForCall() {
	var room [deep]byte
	use(&room)
}

//go:noinline
func use(room *[deep]byte) { room[0] = 1 }

// joinedOutput is the output of a call whose caller takes none.
type joinedOutput struct{ text []byte }

func (o *joinedOutput) Write(p []byte) (int, error) {
	if len(o.text)+len(p) > wire.MaxOutput {
		return 0, &tool.Error{
			Kind: tool.KindTooLarge, Message: "the tool's output is too large to be given",
			Cause: fmt.Errorf("its output is over %d bytes", wire.MaxOutput),
		}
	}
	o.text = append(o.text, p...)
	return len(p), nil
}

// before is the output as the first block of the content.
func (o *joinedOutput) before(content []tool.Content) []tool.Content {
	if len(o.text) == 0 {
		return content
	}
	return append([]tool.Content{tool.Text(strings.ToValidUTF8(string(o.text), "\uFFFD"))}, content...)
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
		if remote.TooLarge {
			return i.operational(tool.KindTooLarge, call, said(remote))
		}
		return i.operational(tool.KindInternal, call, said(remote))
	}
	if output, ok := errors.AsType[*wire.OutputError](err); ok {
		return output.Err
	}
	if errors.Is(err, wire.ErrTooLarge) {
		return i.operational(tool.KindTooLarge, call, said(err))
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
