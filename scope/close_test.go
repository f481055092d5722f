package scope_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhost/toolhost/scope"
)

// How long Close takes, what it reports and what it runs when finalizers hang, for every way to bound it. Breakage seen: no
// default grace; no overtime.
func TestCloseIsBounded(t *testing.T) {
	withTimeout := func(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
		return func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, d) }
	}
	withPast := func(context.Context) (context.Context, context.CancelFunc) { return past(), func() {} }
	tests := []struct {
		name  string
		ctx   func(context.Context) (context.Context, context.CancelFunc)
		hangs int
		want  time.Duration
		cause error
	}{
		{"nothing hangs", context.WithCancel, 0, 0, nil},
		{"no deadline", context.WithCancel, 1, scope.DefaultGrace + scope.Overtime, nil},
		{"deadline", withTimeout(time.Second), 1, time.Second + scope.Overtime, context.DeadlineExceeded},
		{"long deadline", withTimeout(time.Hour), 1, time.Hour + scope.Overtime, context.DeadlineExceeded},
		{"several", withTimeout(time.Second), 3, time.Second + 3*scope.Overtime, context.DeadlineExceeded},
		{"already past", withPast, 2, 2 * scope.Overtime, context.Canceled},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, j, end := scope.New(t.Context(), "s"), &journal{}, make(chan struct{})
				defer close(end)
				wantEvents := []string{"newest"}
				mustDefer(t, s, "oldest", j.finalizer("oldest", nil))
				for range tt.hangs {
					mustDefer(t, s, "hangs", func(context.Context) error { j.add("hangs"); <-end; return nil })
					wantEvents = append(wantEvents, "hangs")
				}
				mustDefer(t, s, "newest", j.finalizer("newest", nil))

				ctx, cancel := tt.ctx(t.Context())
				defer cancel()
				began := time.Now()
				err := s.Close(ctx)
				if got := time.Since(began); got != tt.want {
					t.Errorf("Close took %v, want %v", got, tt.want)
				}
				j.want(t, append(wantEvents, "oldest")...)
				lines := firstLines(err)
				if len(lines) != tt.hangs {
					t.Errorf("errors = %q, want %d", lines, tt.hangs)
				}
				for _, line := range lines {
					if !strings.HasPrefix(line, "s/hangs: finalizer ") {
						t.Errorf("error = %q, want it to name s/hangs", line)
					}
				}
				if tt.cause != nil && !errors.Is(err, tt.cause) {
					t.Errorf("Close = %v, want it to wrap %v", err, tt.cause)
				}
			})
		})
	}
}

// A finalizer that heeds its context is waited for, however long the closing may be polite; one that needs a little
// longer to use force is no error.
func TestFinalizerGetsTheContextOfClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		s, j := scope.New(t.Context(), "s"), &journal{}
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "trace"), time.Second)
		defer cancel()
		check := func(got context.Context) {
			want, _ := ctx.Deadline()
			if deadline, _ := got.Deadline(); !deadline.Equal(want) || got.Value(key{}) != "trace" {
				t.Errorf("finalizer's deadline = %v and value = %v, want those of Close", deadline, got.Value(key{}))
			}
		}
		mustDefer(t, mustFork(t, s, "fork"), "force", func(ctx context.Context) error {
			check(ctx)
			if ctx.Err() == nil {
				t.Error("context of a late finalizer has not ended")
			}
			time.Sleep(scope.Overtime - 1)
			j.add("force")
			return nil
		})
		mustDefer(t, s, "polite", func(ctx context.Context) error {
			check(ctx)
			<-ctx.Done()
			time.Sleep(scope.Overtime - 1)
			j.add("polite")
			return nil
		})
		if err := s.Close(ctx); err != nil {
			t.Errorf("Close = %v", err)
		}
		j.want(t, "polite", "force")
	})
}

// The least patient caller decides, and only about what it closes. Breakage seen: a second Close that cannot hurry the first; one
// that hurries the scopes above too.
func TestSecondCloseHurriesTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top := scope.New(t.Context(), "top")
		untilImpolite := func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
		mustDefer(t, top, "older", untilImpolite)
		fork := mustFork(t, top, "fork")
		mustDefer(t, fork, "process", untilImpolite)
		patient, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		results := make(chan error, 1)
		go func() { results <- top.Close(patient) }()
		synctest.Wait()

		began := time.Now()
		impatient, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("in a hurry"))
		defer cancel()
		got := firstLines(fork.Close(impatient))
		if want := []string{"top/fork/process: in a hurry"}; !cmp.Equal(got, want) || time.Since(began) != time.Second {
			t.Errorf("fork's Close = %q after %v, want %q after 1s", got, time.Since(began), want)
		}
		got = firstLines(<-results)
		if want := []string{"top/fork/process: in a hurry", "top/older: context deadline exceeded"}; !cmp.Equal(got, want) ||
			time.Since(began) != time.Minute {
			t.Errorf("top's Close = %q after %v, want %q after 1m", got, time.Since(began), want)
		}
	})
}

// A parent that closes while the owner of a fork is closing it waits for that, no longer than its own context says.
func TestParentHurriesAForkThatIsClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top := scope.New(t.Context(), "top")
		fork := mustFork(t, top, "fork")
		mustDefer(t, fork, "process", func(ctx context.Context) error { <-ctx.Done(); return nil })
		patient, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		go fork.Close(patient)
		synctest.Wait()

		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := top.Close(ctx); err != nil || time.Since(began) != time.Second {
			t.Errorf("Close = %v after %v, want nil after 1s", err, time.Since(began))
		}
	})
}

// Whoever is waited for by a Close must not wait for it. Breakage seen: not looking who calls; refusing every member of any
// scope; refusing members of the closed scope alone and not of those below.
func TestCloseFromInside(t *testing.T) {
	closeTop := func(top *scope.Scope, detach bool) func(context.Context) error {
		return func(ctx context.Context) error {
			if detach {
				return top.Close(context.WithoutCancel(ctx))
			}
			return top.Close(context.Background())
		}
	}
	t.Run("refused when ctx tells", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			top := scope.New(t.Context(), "top")
			fork := mustFork(t, top, "fork")
			mustGo(t, fork, "work", closeTop(top, true))
			synctest.Wait()
			if isClosed(top) {
				t.Fatal("a goroutine closed the scope above it")
			}
			mustDefer(t, fork, "file", closeTop(top, true))
			got := firstLines(top.Close(t.Context()))
			want := []string{
				`top/fork/work: top: closed by "top/fork/work", which runs in it: call Cancel and leave Close to the owner`,
				`top/fork/file: top: closed by "top/fork/file", which runs in it: call Cancel and leave Close to the owner`,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	})
	t.Run("bounded when it does not, from a finalizer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := scope.New(t.Context(), "s")
			mustDefer(t, s, "file", closeTop(s, false))
			began := time.Now()
			got := firstLines(s.Close(t.Context()))
			if took := time.Since(began); took != scope.DefaultGrace+scope.Overtime || len(got) != 1 || !strings.HasPrefix(got[0], "s/file: ") {
				t.Errorf("Close = %q after %v, want s/file reported after the default grace", got, took)
			}
		})
	})
	t.Run("bounded when it does not, from a goroutine", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, results := scope.New(t.Context(), "s"), make(chan error, 1)
			mustGo(t, s, "work", func(context.Context) error { results <- s.Close(context.Background()); return nil })
			if got := firstLines(<-results); len(got) != 1 || !strings.HasPrefix(got[0], "s/work: ") {
				t.Errorf("Close = %q, want s/work reported", got)
			}
		})
	})
	t.Run("allowed for what stands below or beside", func(t *testing.T) {
		top := scope.New(t.Context(), "top")
		a, b := mustFork(t, top, "a"), mustFork(t, top, "b")
		below := mustFork(t, a, "below")
		mustGo(t, a, "work", func(ctx context.Context) error {
			ctx = context.WithoutCancel(ctx)
			return errors.Join(below.Close(ctx), b.Close(ctx))
		})
		mustClose(t, top)
	})
}

func TestCancelReleasesNothing(t *testing.T) {
	errStop := errors.New("stop")
	outer, cancelOuter := context.WithCancelCause(t.Context())
	j := &journal{}
	top := scope.New(outer, "top")
	fork := mustFork(t, top, "fork")
	mustDefer(t, fork, "file", j.finalizer("file", nil))

	fork.Cancel(errStop)
	if got := context.Cause(fork.Context()); got != errStop || top.Context().Err() != nil {
		t.Errorf("causes after Cancel = %v and %v above, want %v and nil", got, context.Cause(top.Context()), errStop)
	}
	cancelOuter(errStop)
	if got := context.Cause(top.Context()); got != errStop {
		t.Errorf("cause = %v, want that of the context given to New", got)
	}
	mustDefer(t, top, "more", j.finalizer("more", nil))
	below := mustFork(t, top, "below")
	if below.Context().Err() == nil {
		t.Error("a fork of a cancelled scope is not cancelled")
	}
	j.want(t)
	mustClose(t, top)
	j.want(t, "more", "file")
}

// What a goroutine's end means for its scope. Breakage seen: a panic with the context's error taken for a stop; any cancellation
// taken for one; an error that cancels the siblings.
func TestGoroutineOutcome(t *testing.T) {
	errWork := errors.New("work is broken")
	tests := []struct {
		name   string
		cancel error // of the scope, before the goroutine ends
		end    func(ctx context.Context) error
		want   []string
	}{
		{"nil", nil, func(context.Context) error { return nil }, nil},
		{"error", nil, func(context.Context) error { return errWork }, []string{"s/work: work is broken"}},
		{"error after cancel", errWork, func(context.Context) error { return errors.New("other") }, []string{"s/work: other"}},
		{"context's error", errWork, func(ctx context.Context) error { return ctx.Err() }, nil},
		{"context's cause", errWork, func(ctx context.Context) error { return context.Cause(ctx) }, nil},
		{"wrapped", errWork, func(ctx context.Context) error { return errors.Join(ctx.Err()) }, nil},
		{"cancellation of something else", nil, func(context.Context) error { return context.Canceled }, []string{"s/work: context canceled"}},
		{"panic", nil, func(context.Context) error { panic("boom") }, []string{"s/work: panic: boom"}},
		{"panic with the context's error", errWork, func(ctx context.Context) error { panic(ctx.Err()) }, []string{"s/work: panic: context canceled"}},
		{"goexit", nil, func(context.Context) error { runtime.Goexit(); return nil }, []string{"s/work: ended by runtime.Goexit"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := scope.New(t.Context(), "s")
				mustGo(t, s, "sibling", func(ctx context.Context) error { <-ctx.Done(); return nil })
				if tt.cancel != nil {
					s.Cancel(tt.cancel)
				}
				mustGo(t, s, "work", tt.end)
				synctest.Wait()
				if tt.cancel == nil && s.Context().Err() != nil {
					t.Error("the end of a goroutine cancelled its siblings")
				}
				if diff := cmp.Diff(tt.want, firstLines(s.Close(t.Context()))); diff != "" {
					t.Errorf("Close (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A goroutine gives what it acquires to a fork that is older than itself, and so uses it to its end.
func TestGoroutineAcquiresThroughAnOlderFork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, j := scope.New(t.Context(), "s"), &journal{}
		acquired := mustFork(t, s, "acquired")
		mustGo(t, s, "work", func(ctx context.Context) error {
			mustDefer(t, acquired, "file", j.finalizer("file", nil))
			<-ctx.Done()
			time.Sleep(time.Second)
			if err := acquired.Defer("late", j.finalizer("late", nil)); !errors.Is(err, scope.ErrClosed) {
				t.Errorf("Defer = %v, want ErrClosed", err)
			}
			j.add("work has ended")
			return nil
		})
		synctest.Wait()
		mustClose(t, s)
		j.want(t, "late", "work has ended", "file")
	})
}

// A Defer on a closed scope has no politeness left, and cannot hang. Breakage seen: leaving the closing's context alive.
func TestLateDeferIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, end := scope.New(t.Context(), "s"), make(chan struct{})
		defer close(end)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // not past when the scope is closed
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("Close = %v", err)
		}
		began := time.Now()
		err := s.Defer("hangs", func(ctx context.Context) error {
			if ctx.Err() == nil {
				t.Error("context has not ended")
			}
			<-end
			return nil
		})
		if took := time.Since(began); took != scope.Overtime || !errors.Is(err, scope.ErrClosed) || len(firstLines(err)) != 2 {
			t.Errorf("Defer = %v after %v, want both errors after %v", err, took, scope.Overtime)
		}
	})
}

func TestTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, end := scope.New(t.Context(), "host"), make(chan struct{})
		mustDefer(t, host, "lock", func(context.Context) error { <-end; return nil })
		a := mustFork(t, host, "location a")
		mustDefer(t, a, "root", func(context.Context) error { return nil })
		mustGo(t, a, "watch", func(ctx context.Context) error { <-ctx.Done(); return nil })
		mustFork(t, host, "location b")
		mustDefer(t, host, "socket", func(context.Context) error { return nil })

		want := scope.Tree{Name: "host", Owned: []string{"lock", "socket"}, Forks: []scope.Tree{
			{Name: "location a", Owned: []string{"root", "watch"}},
			{Name: "location b"},
		}}
		if diff := cmp.Diff(want, host.Tree()); diff != "" {
			t.Errorf("open (-want +got):\n%s", diff)
		}
		closed := make(chan error, 1)
		go func() { closed <- host.Close(t.Context()) }()
		synctest.Wait()
		if diff := cmp.Diff(scope.Tree{Name: "host", Owned: []string{"lock"}}, host.Tree()); diff != "" {
			t.Errorf("closing (-want +got):\n%s", diff)
		}
		close(end)
		<-closed
		if diff := cmp.Diff(scope.Tree{Name: "host"}, host.Tree()); diff != "" {
			t.Errorf("closed (-want +got):\n%s", diff)
		}
	})
}
