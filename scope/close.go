package scope

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

const (
	// DefaultGrace is how long Close is polite when its context has no deadline. With one [Overtime] it stays below the five
	// seconds that law 42 allows the closing of a plugin.
	DefaultGrace = 4 * time.Second

	// Overtime is how long Close waits for one finalizer or goroutine once its context has ended, counted from that end or
	// from the finalizer's start, whichever is later.
	Overtime = 500 * time.Millisecond
)

var (
	errGrace  = fmt.Errorf("Close was given no deadline and took more than %v", DefaultGrace)
	errGoexit = errors.New("ended by runtime.Goexit")
)

// Close ends the scope: it cancels the context of the whole subtree, refuses whatever would be added to it from then on, then
// releases what the scope owns, newest first, and returns when that is done. The error joins those of its
// finalizers, of its goroutines and of the forks that it closed, each with its path of names; nil means that all went well,
// however long it took.
//
// ctx bounds how politely that is done and never whether (law 4); see "Time" in the package comment. A ctx without a deadline
// is given [DefaultGrace]. Its values reach the finalizers. It should not be the scope's own context, which Close cancels
// first, so that nothing would be polite.
//
// A second Close, concurrent or later, waits for the first and returns the same result (law 6). When its ctx ends before the
// first one's, the closing is polite no longer, so that the least patient caller is waited on.
//
// A finalizer or goroutine of this scope or of one below it must not call Close, which would wait for its caller. With a
// context that descends from the one it was given, such a call does nothing and returns an error that says so. With any
// other context it waits until politeness has ended, and its caller is reported as one that hangs.
func (s *Scope) Close(ctx context.Context) error {
	if caller, ok := ctx.Value(memberKey{}).(*member); ok && caller.scope.within(s) {
		return fmt.Errorf("%s: closed by %q, which runs in it: call Cancel and leave Close to the owner",
			s.fullName(), caller.scope.path(caller.name))
	}
	return s.close(ctx)
}

func (s *Scope) close(ctx context.Context) error {
	if _, bounded := ctx.Deadline(); !bounded {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, DefaultGrace, errGrace)
		defer stop()
	}
	s.mu.Lock()
	if hurry := s.hurry; hurry != nil {
		s.mu.Unlock()
		stop := context.AfterFunc(ctx, func() { hurry(context.Cause(ctx)) })
		defer stop()
		<-s.done
		return s.result
	}
	polite, hurry := context.WithCancelCause(ctx)
	s.hurry = hurry
	s.mu.Unlock()

	// Cancelling comes before sealing: a sealed scope runs what it is given at once, which law 2 forbids until then.
	s.cancel(fmt.Errorf("%s: %w", s.fullName(), ErrClosed))
	s.mu.Lock()
	s.polite = polite
	s.mu.Unlock()
	s.sealForks(polite)
	s.release(polite)
	s.finish(hurry)
	return s.result
}

// seal refuses additions to s and below because a closing has begun above.
func (s *Scope) seal(polite context.Context) {
	s.mu.Lock()
	sealed := s.polite != nil
	if !sealed {
		s.polite = polite
	}
	s.mu.Unlock()
	if !sealed {
		s.sealForks(polite)
	}
}

func (s *Scope) sealForks(polite context.Context) {
	for _, it := range s.items() {
		if it.fork != nil {
			it.fork.seal(polite)
		}
	}
}

// release takes away what s owns, newest first. Nothing is added meanwhile, but forks and goroutines may end by themselves.
func (s *Scope) release(polite context.Context) {
	for {
		s.mu.Lock()
		place := s.owned.Back()
		s.mu.Unlock()
		if place == nil {
			return
		}
		err := s.releaseItem(polite, place.Value.(*item))
		s.mu.Lock()
		s.owned.Remove(place)
		if err != nil {
			s.errs = append(s.errs, err)
		}
		s.mu.Unlock()
	}
}

func (s *Scope) releaseItem(polite context.Context, it *item) error {
	switch {
	case it.fork != nil:
		return it.fork.close(polite)
	case it.goroutine != nil:
		if _, ended := await(polite, it.goroutine); !ended {
			return fmt.Errorf("%s: goroutine ignores its cancelled context and was left running: %w",
				s.path(it.name), context.Cause(polite))
		}
		return nil
	default:
		return s.finalize(polite, it.name, it.finalizer)
	}
}

// finalize runs one finalizer and waits for it as long as politeness and Overtime allow.
func (s *Scope) finalize(polite context.Context, name string, f func(context.Context) error) error {
	ended := make(chan error, 1)
	start(s.mark(polite, name), f, func(err error) { ended <- err })
	err, ok := await(polite, ended)
	switch {
	case !ok:
		return fmt.Errorf("%s: finalizer ignores its ended context and was abandoned: %w", s.path(name), context.Cause(polite))
	case err != nil:
		return fmt.Errorf("%s: %w", s.path(name), err)
	}
	return nil
}

// finish publishes the result. When it returns, the parent has forgotten s.
func (s *Scope) finish(hurry context.CancelCauseFunc) {
	s.mu.Lock()
	if more := s.failures - keptFailures; more > 0 {
		s.errs = append(s.errs, fmt.Errorf("%s: %d more errors of goroutines were not kept", s.fullName(), more))
	}
	s.result = errors.Join(s.errs...)
	s.mu.Unlock()

	hurry(ErrClosed) // a late Defer finds no politeness left, and the timers are freed
	if s.parent != nil {
		s.parent.forget(s.place)
	}
	close(s.done)
}

// start runs f in a new goroutine and calls finish with its outcome, whichever way f ends.
func start(ctx context.Context, f func(context.Context) error, finish func(error)) {
	go func() {
		err := errGoexit
		defer func() {
			if v := recover(); v != nil {
				err = &PanicError{Value: v, Stack: debug.Stack()}
			}
			finish(err)
		}()
		err = f(ctx)
	}()
}

// await waits for ended until polite is over, and Overtime from then or from now.
func await[T any](polite context.Context, ended <-chan T) (outcome T, ok bool) {
	select {
	case outcome = <-ended:
		return outcome, true
	case <-polite.Done():
	}
	overtime := time.NewTimer(Overtime)
	defer overtime.Stop()
	select {
	case outcome = <-ended:
		return outcome, true
	case <-overtime.C:
		return outcome, false
	}
}

// A member is a finalizer or goroutine of a scope. It stands in the context that it was given, so that Close can tell that
// it is called by what it would wait for.
type member struct {
	scope *Scope
	name  string
}

type memberKey struct{}

func (s *Scope) mark(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, memberKey{}, &member{scope: s, name: name})
}

// within reports whether s is top or a scope below it.
func (s *Scope) within(top *Scope) bool {
	for ; s != nil; s = s.parent {
		if s == top {
			return true
		}
	}
	return false
}

func (s *Scope) fullName() string {
	if s.parent == nil {
		return s.name
	}
	return s.parent.path(s.name)
}

// A PanicError is a panic of a finalizer or goroutine, contained by its scope. Its text includes the stack, since a log is
// often all that is left of it.
type PanicError struct {
	Value any    // of the panic
	Stack []byte // of the goroutine, as [debug.Stack] formats it
}

// Error returns the value and the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n\n%s", e.Value, e.Stack) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
