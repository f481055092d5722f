package scope_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhost/toolhost/scope"
)

// Breakage seen: not running the finalizer of a refused Defer; running it in the background; refusing on the closed scope
// only, or one level below it.
func TestScopeLaw1DeferAlwaysTakesOwnership(t *testing.T) {
	errRelease := errors.New("disk is gone")
	tests := []struct {
		name string
		make func(t *testing.T) *scope.Scope // in the state that is tested
	}{
		{"closed", func(t *testing.T) *scope.Scope {
			s := scope.New(t.Context(), "s")
			mustClose(t, s)
			return s
		}},
		{"below a closed one", func(t *testing.T) *scope.Scope {
			top := scope.New(t.Context(), "top")
			s := mustFork(t, mustFork(t, top, "middle"), "s")
			mustClose(t, top)
			return s
		}},
		{"being closed", func(t *testing.T) *scope.Scope {
			s := scope.New(t.Context(), "s")
			closeHalfway(t, s, s)
			return s
		}},
		{"below one that is being closed", func(t *testing.T) *scope.Scope {
			top := scope.New(t.Context(), "top")
			s := mustFork(t, mustFork(t, top, "middle"), "s")
			closeHalfway(t, top, top)
			return s
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := tt.make(t)
			for _, want := range []error{nil, errRelease} {
				runs := 0
				err := s.Defer("file", func(context.Context) error { runs++; return want })
				if runs != 1 {
					t.Errorf("finalizer ran %d times before Defer returned, want 1", runs)
				}
				if !errors.Is(err, scope.ErrClosed) || want != nil && !errors.Is(err, want) {
					t.Errorf("Defer = %v, want ErrClosed and %v", err, want)
				}
				if !strings.Contains(err.Error(), "s/file: ") {
					t.Errorf("Defer = %q, want the path of the file", err)
				}
			}
			if _, err := s.Fork("fork"); !errors.Is(err, scope.ErrClosed) {
				t.Errorf("Fork = %v, want ErrClosed", err)
			}
			if err := s.Go("work", func(context.Context) error { t.Error("work ran"); return nil }); !errors.Is(err, scope.ErrClosed) {
				t.Errorf("Go = %v, want ErrClosed", err)
			}
		})
	}

	t.Run("open", func(t *testing.T) {
		s, j := scope.New(t.Context(), "s"), &journal{}
		s.Cancel(nil) // which closes nothing
		mustDefer(t, s, "file", j.finalizer("file", nil))
		j.want(t)
		mustClose(t, s)
		j.want(t, "file")
	})
}

// closeHalfway begins to close s and returns while a finalizer of holder is running, which ends with the test.
func closeHalfway(t *testing.T, s, holder *scope.Scope) {
	running, end, closed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	mustDefer(t, holder, "slow", func(context.Context) error { close(running); <-end; return nil })
	go func() { defer close(closed); mustClose(t, s) }()
	<-running
	t.Cleanup(func() { close(end); <-closed })
}

// Breakage seen: cancelling after the finalizers; forks whose context is not a child of this one's. TestScopeConcurrently saw a
// third: sealing before cancelling, so that a Defer in between ran its finalizer too early.
func TestScopeLaw2CancelledBeforeTheFirstFinalizer(t *testing.T) {
	top := scope.New(t.Context(), "top")
	early := mustFork(t, top, "early")
	deep := mustFork(t, mustFork(t, top, "middle"), "deep")
	all := []*scope.Scope{top, early, deep}
	checked := 0
	check := func(context.Context) error {
		checked++
		for _, s := range all {
			if !isClosed(s) {
				t.Errorf("%s: cause = %v, want ErrClosed", s.Tree().Name, context.Cause(s.Context()))
			}
		}
		return nil
	}
	for _, s := range all {
		mustDefer(t, s, "check", check)
	}
	mustClose(t, top)
	if checked != len(all) {
		t.Errorf("%d finalizers ran, want %d", checked, len(all))
	}
	if got, want := context.Cause(deep.Context()).Error(), "top: scope is closed"; got != want {
		t.Errorf("cause below = %q, want %q", got, want)
	}
}

// Breakage seen: oldest first; forks after all finalizers.
func TestScopeLaw3NewestFirst(t *testing.T) {
	s, j := scope.New(t.Context(), "s"), &journal{}
	mustDefer(t, s, "1", j.finalizer("1", nil))
	a := mustFork(t, s, "a")
	mustDefer(t, s, "2", j.finalizer("2", nil))
	b := mustFork(t, s, "b")
	mustDefer(t, b, "b1", j.finalizer("b1", nil))
	early := mustFork(t, s, "early")
	mustDefer(t, early, "early1", j.finalizer("early1", nil))
	mustDefer(t, s, "3", j.finalizer("3", nil))
	mustDefer(t, a, "a1", j.finalizer("a1", nil)) // late, and still at the place of its fork
	mustDefer(t, b, "b2", j.finalizer("b2", nil))

	mustClose(t, early)
	j.want(t, "early1")
	mustClose(t, s)
	j.want(t, "3", "b2", "b1", "2", "a1", "1")
}

// Breakage seen: stopping at the first error; skipping finalizers when ctx is past; giving them another context; not counting
// Goexit as an end; a PanicError without a stack.
func TestScopeLaw4EveryFinalizerExactlyOnce(t *testing.T) {
	errFail, errPanic := errors.New("fail"), errors.New("panic")
	for _, ctx := range []context.Context{context.Background(), past()} {
		t.Run(fmt.Sprintf("ctx=%v", ctx.Err()), func(t *testing.T) {
			s := scope.New(t.Context(), "s")
			runs := map[string]int{}
			f := func(s *scope.Scope, name string, end func() error) {
				mustDefer(t, s, name, func(got context.Context) error {
					runs[name]++
					if got.Err() != ctx.Err() {
						t.Errorf("%s: ctx.Err() = %v, want %v", name, got.Err(), ctx.Err())
					}
					return end()
				})
			}
			f(s, "oldest", func() error { return nil })
			fork := mustFork(t, s, "fork")
			f(fork, "below", func() error { return nil })
			f(fork, "panic below", func() error { panic("below") })
			f(s, "goexit", func() error { runtime.Goexit(); return nil })
			f(s, "panic", func() error { panic(errPanic) })
			f(s, "nil map", func() error { var m map[string]int; m["x"]++; return nil })
			f(s, "fail", func() error { return errFail })

			err := s.Close(ctx)
			for _, again := range []context.Context{ctx, context.Background()} {
				if got := s.Close(again); got != err {
					t.Errorf("second Close = %v, want %v", got, err)
				}
			}
			want := map[string]int{"oldest": 1, "below": 1, "panic below": 1, "goexit": 1, "panic": 1, "nil map": 1, "fail": 1}
			if diff := cmp.Diff(want, runs); diff != "" {
				t.Errorf("runs (-want +got):\n%s", diff)
			}
			for _, want := range []error{errFail, errPanic} {
				if !errors.Is(err, want) {
					t.Errorf("Close = %v, want it to wrap %v", err, want)
				}
			}
			var panicked *scope.PanicError
			if !errors.As(err, &panicked) || !strings.Contains(string(panicked.Stack), "laws_test.go") ||
				!strings.Contains(err.Error(), string(panicked.Stack)) {
				t.Errorf("Close = %v, want a PanicError with the stack of the panic", err)
			}
		})
	}
}

// Breakage seen: a path without the parents' names; reporting only the first error.
func TestScopeLaw5ErrorsWithTheirPath(t *testing.T) {
	errBusy := errors.New("busy")
	host := scope.New(t.Context(), "host")
	fail := func(context.Context) error { return errBusy }
	mustDefer(t, host, "lock", fail)
	location := mustFork(t, host, "location a")
	plugin := mustFork(t, location, "plugin fs")
	mustDefer(t, plugin, "directory", fail)
	mustDefer(t, plugin, "process", func(context.Context) error { panic("boom") })
	mustDefer(t, plugin, "fine", func(context.Context) error { return nil })
	mustGo(t, location, "reload", func(ctx context.Context) error { <-ctx.Done(); return errBusy })

	err := host.Close(context.Background())
	want := []string{
		"host/location a/reload: busy",
		"host/location a/plugin fs/process: panic: boom",
		"host/location a/plugin fs/directory: busy",
		"host/lock: busy",
	}
	if diff := cmp.Diff(want, firstLines(err)); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if !errors.Is(err, errBusy) {
		t.Error("the joined error does not wrap what a finalizer returned")
	}
}

// Breakage seen: a second Close that returns nil, at once or after it waited.
func TestScopeLaw6SecondCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top := scope.New(t.Context(), "top")
		s := mustFork(t, top, "s")
		errSlow := errors.New("slow")
		end, runs := make(chan struct{}), 0
		mustDefer(t, s, "slow", func(context.Context) error { runs++; <-end; return errSlow })

		results := make(chan error, 4)
		for range 3 {
			go func() { results <- s.Close(t.Context()) }()
		}
		go func() { results <- top.Close(t.Context()) }()
		synctest.Wait()
		if len(results) != 0 {
			t.Fatalf("a Close returned %v while a finalizer was running", <-results)
		}
		close(end)
		synctest.Wait()
		if len(results) != 4 {
			t.Fatalf("%d of 4 Closes returned", len(results))
		}
		for range 4 {
			if err := <-results; !errors.Is(err, errSlow) {
				t.Errorf("Close = %v, want %v", err, errSlow)
			}
		}
		if first, later := s.Close(t.Context()), s.Close(past()); first != later || !errors.Is(first, errSlow) {
			t.Errorf("later Closes = %v and %v, want the same result", first, later)
		}
		if runs != 1 {
			t.Errorf("finalizer ran %d times", runs)
		}
	})
}

// Breakage seen: not forgetting a closed fork; not forgetting an ended goroutine; keeping every error of a goroutine; not
// cancelling the context of a closed fork, which its parent's context then holds.
func TestScopeLaw7NoGrowth(t *testing.T) {
	const forks, goroutines, most = 100_000, 20_000, 1 << 20
	s := scope.New(t.Context(), "s")
	before := heap()
	for range forks {
		fork := mustFork(t, s, "fork")
		mustClose(t, fork)
	}
	if grown := heap() - before; grown > most {
		t.Errorf("%d bytes are left of %d closed forks", grown, forks)
	}
	var running atomic.Int64
	for i := range goroutines {
		running.Add(1)
		mustGo(t, s, "work", func(context.Context) error { defer running.Add(-1); return fmt.Errorf("error %d", i) })
		for running.Load() > 100 {
			runtime.Gosched()
		}
	}
	deadline := time.Now().Add(10 * time.Second)
	for len(s.Tree().Owned) > 0 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	if diff := cmp.Diff(scope.Tree{Name: "s"}, s.Tree()); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
	if grown := heap() - before; grown > most {
		t.Errorf("%d bytes are left of %d ended goroutines", grown, goroutines)
	}
	lines := firstLines(s.Close(t.Context()))
	if got, want := len(lines), 17; got != want {
		t.Fatalf("%d errors, want %d", got, want)
	}
	if got, want := lines[16], "s: 19984 more errors of goroutines were not kept"; got != want {
		t.Errorf("last error = %q, want %q", got, want)
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC() // the first may leave what a finished goroutine still held
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// Breakage seen: not waiting for goroutines; waiting for all of them before the first finalizer, so that the server is never
// told to stop.
func TestScopeLaw8JoinedBeforeRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, j := scope.New(t.Context(), "s"), &journal{}
		stop := make(chan struct{})
		mustDefer(t, s, "listener", j.finalizer("listener", nil))
		mustGo(t, s, "serve", func(context.Context) error {
			<-stop
			time.Sleep(time.Second) // drains
			j.add("serve has ended")
			return nil
		})
		mustDefer(t, s, "server", func(context.Context) error { close(stop); j.add("server"); return nil })
		mustDefer(t, s, "file", j.finalizer("file", nil))
		mustGo(t, s, "writer", func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(time.Second) // flushes
			j.add("writer has ended")
			return context.Cause(ctx)
		})
		mustClose(t, s)
		j.want(t, "writer has ended", "file", "server", "serve has ended", "listener")
	})
}

// Breakage seen: waiting for ever; leaving out the name; returning without running the finalizers that stand before it.
func TestScopeLaw8StuckGoroutineIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, j := scope.New(t.Context(), "s"), &journal{}
		fork, end := mustFork(t, s, "fork"), make(chan struct{})
		mustDefer(t, fork, "older", j.finalizer("older", nil))
		mustGo(t, fork, "stuck", func(context.Context) error { <-end; return errors.New("too late to tell") })
		mustDefer(t, fork, "newer", j.finalizer("newer", nil))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		err := s.Close(ctx)
		if got, want := time.Since(began), time.Second+scope.Overtime; got != want {
			t.Errorf("Close took %v, want %v", got, want)
		}
		j.want(t, "newer", "older")
		if lines := firstLines(err); len(lines) != 1 || !strings.HasPrefix(lines[0], "s/fork/stuck: goroutine ") {
			t.Errorf("errors = %q, want one that names s/fork/stuck", lines)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close = %v, want it to wrap what ended its patience", err)
		}
		close(end)
		synctest.Wait()
		if again := s.Close(t.Context()); !slices.Equal(firstLines(again), firstLines(err)) {
			t.Errorf("result changed to %v", again)
		}
	})
}
