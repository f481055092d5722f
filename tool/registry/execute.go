package registry

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/toolhost/toolhost/tool"
)

// execute runs the executor, or the action that was prepared in its place: one of
// them, once (laws 1, 26).
func (r *run) execute(work context.Context) (tool.Result, error) {
	call, do := r.call, r.entry.execute
	call.Gate, call.Effects, call.Output, call.Left = r.gate, r.effects(), r.bounding, func() time.Duration {
		left := r.clock.remaining()
		if deadline, bounded := work.Deadline(); bounded {
			left = min(left, max(0, time.Until(deadline)))
		}
		return left
	}
	if r.entry.registration.owner.Application {
		call.Gate = nil // it was given no service (law 6)
	}
	if action := r.preparation.Action; action != nil {
		do = action.Commit
	}
	if r.waits != nil {
		r.waits.executes()
	}
	result, ran, err := attempt(work, r, "call of "+call.Tool, call, do, nil)
	if !ran {
		r.discard(work)
	}
	r.ran = ran
	return result, err
}

// An outcome is what a tool's function returned.
type outcome[T any] struct {
	value T
	err   error
}

// attempt runs a function of the tool in a goroutine of the scope and waits for
// it, but no longer than [StopGrace] after the work is over for any reason. began
// says whether it had begun. What comes later than that goes to late, if that is
// not nil.
func attempt[T any](
	work context.Context, r *run, name string, call tool.Call, f func(context.Context, tool.Call) (T, error), late func(T),
) (value T, began bool, err error) {
	if work.Err() != nil {
		return value, false, context.Cause(work)
	}
	reports := make(chan tool.Progress)
	if r.request.Progress != nil {
		call.Progress = func(p tool.Progress) {
			select {
			case reports <- p:
			case <-work.Done():
			}
		}
	}
	ended := make(chan outcome[T], 1)
	if err := r.registry.options.Scope.Go(name, func(context.Context) error {
		contained(work, call, f, ended)
		return nil
	}); err != nil {
		return value, false, closing()
	}
	progress := newProgress(r.request.Progress, r.registry.log)
	for {
		select {
		case o := <-ended:
			progress.flush()
			return o.value, true, o.err
		case p := <-reports:
			progress.report(p)
			continue
		case <-work.Done():
		}
		break
	}
	timer := time.NewTimer(StopGrace)
	defer timer.Stop()
	select {
	case o := <-ended:
		return o.value, true, cmp.Or(o.err, context.Cause(work))
	case <-timer.C:
		r.registry.log.Warn("tool does not stop", slog.String("tool", call.Tool), slog.Any("cause", context.Cause(work)))
		if late != nil { // a scope that is closed ends what was made in it by itself
			_ = r.registry.options.Scope.Go("late "+name, tooLate(ended, late))
		}
		return value, true, context.Cause(work)
	}
}

// tooLate takes what comes too late, so that it is not lost with what it holds.
func tooLate[T any](ended <-chan outcome[T], late func(T)) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case o := <-ended:
			late(o.value)
		case <-ctx.Done():
		}
		return nil
	}
}

// contained calls the tool and reports how it ended, whichever way that was. A
// panic ends this call and no other (law 13).
func contained[T any](ctx context.Context, call tool.Call, f func(context.Context, tool.Call) (T, error), ended chan<- outcome[T]) {
	o := outcome[T]{err: fmt.Errorf("%s ended its goroutine instead of returning", call.Tool)}
	defer func() {
		if v := recover(); v != nil {
			o.err = fmt.Errorf("%s panicked: %v\n\n%s", call.Tool, v, debug.Stack())
		}
		ended <- o
	}()
	o.value, o.err = f(ctx, call)
}

// A clock bounds the work of a call. It stands still while a person is waited for.
type clock struct {
	expired func()

	mu     sync.Mutex    // guards what follows
	left   time.Duration // when it was last started
	since  time.Time     // it was started
	paused int           // how many wait for a person
	timer  *time.Timer   // nil once it is stopped
}

func startClock(most time.Duration, expired func()) *clock {
	return &clock{expired: expired, left: most, since: time.Now(), timer: time.AfterFunc(most, expired)}
}

// pause stops the clock until resume was called as often.
func (c *clock) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused++; c.paused > 1 || c.timer == nil {
		return
	}
	c.timer.Stop()
	c.left = max(0, c.left-time.Since(c.since))
}

func (c *clock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused--; c.paused > 0 || c.timer == nil {
		return
	}
	c.since = time.Now()
	c.timer = time.AfterFunc(c.left, c.expired)
}

// remaining is how long it still takes until the time is over.
func (c *clock) remaining() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused > 0 {
		return c.left
	}
	return max(0, c.left-time.Since(c.since))
}

// stop ends the clock for good.
func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}
