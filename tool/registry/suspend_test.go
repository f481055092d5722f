package registry

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/tool"
)

// waits is a bench whose approver waits, with a tool that asks before it runs and
// one that asks while it does.
func waits(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.approver.answers = make(chan permission.Reply)
	asks := executes(func(ctx context.Context, call tool.Call) (tool.Result, error) {
		if err := call.Gate.Assert(ctx, tool.PermissionRequest{Action: "edit", Resources: []string{"f"}}); err != nil {
			return tool.Result{}, err
		}
		return tool.Result{Output: []byte(`"edited"`)}, nil
	})
	b.register(builtin, map[string]tool.Tool{"asks": asks})
	b.register(weather, map[string]tool.Tool{"forecast": says("rain")})
	return b
}

func (b *bench) suspend(t *testing.T, name string) *tool.Suspension {
	t.Helper()
	request := b.request(name, "")
	request.SuspendAfter = time.Second
	_, err := b.Capture().Call(t.Context(), request)
	suspended, ok := errors.AsType[*tool.Suspension](err)
	if !ok {
		t.Fatalf("got %v, want a suspension", err)
	}
	return suspended
}

// A call that waits for a person is left to the Location and taken up again, also
// when the question was asked by the running executor; its executor is kept, and
// the wait does not spend its deadline.
//
// Seen to fail: with the clock running on; with the call cancelled when its caller
// returns.
func TestLaw37SuspendedAndResumed(t *testing.T) {
	for _, tt := range []struct {
		tool, id, want string
		ran            bool
	}{
		{"forecast", "weather/forecast", `"rain" [text rain]`, false},
		{"asks", "filesystem/asks", `"edited" [text edited]`, true},
	} {
		t.Run(tt.tool, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := waits(t)
				request := b.request(tt.tool, "")
				request.SuspendAfter, request.Deadline = time.Second, 2*time.Second
				ctx, leave := context.WithCancel(t.Context())
				_, err := b.Capture().Call(ctx, request)
				leave() // the caller's request is over, its interest is not
				suspended, ok := errors.AsType[*tool.Suspension](err)
				if !ok || suspended.Tool != tt.id || suspended.Ran != tt.ran || len(suspended.Requests) != 1 {
					t.Fatalf("got %+v, %v", suspended, err)
				}
				time.Sleep(5 * time.Minute)
				if all := b.Suspended(); len(all) != 1 || all[0].Handle != suspended.Handle {
					t.Errorf("suspended are %v", all)
				}
				if _, err := b.Resume(t.Context(), "another session", suspended.Handle, time.Second); !errors.Is(err, ErrNotSuspended) {
					t.Errorf("another session got %v", err)
				}
				_, err = b.Resume(t.Context(), "s", suspended.Handle, time.Second)
				if again, ok := errors.AsType[*tool.Suspension](err); !ok || again.Handle != suspended.Handle {
					t.Fatalf("resumed without an answer: got %v", err)
				}
				b.approver.answers <- permission.Reply{Granted: true}
				if got := inWords(b.Resume(t.Context(), "s", suspended.Handle, time.Second)); got != tt.want {
					t.Errorf("got %s, want %s", got, tt.want)
				}
				if _, err := b.Resume(t.Context(), "s", suspended.Handle, time.Second); !errors.Is(err, ErrNotSuspended) {
					t.Errorf("a second time: got %v", err)
				}
			})
		})
	}
}

// What ends a suspended call.
//
// Seen to fail: without the timer; without the cancelling in Withdraw; with the
// work detached from the scope.
func TestLaw37SuspendedCallsEnd(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(t *testing.T, b *bench, handle string) string
		want string
	}{
		{"declined", func(t *testing.T, b *bench, handle string) string {
			b.approver.answers <- permission.Reply{Kind: tool.KindDeclined, Reason: "use the other file"}
			return inWords(b.Resume(t.Context(), "s", handle, time.Second))
		}, `rejected, declined, ran true: edit of "f" was declined: use the other file`},
		{"withdrawn", func(t *testing.T, b *bench, handle string) string {
			return inWords(b.Withdraw(t.Context(), "s", handle))
		}, "rejected, cancelled, ran true: the call was withdrawn while it waited for approval"},
		{"lapsed while it is attended", func(t *testing.T, b *bench, handle string) string {
			return inWords(b.Resume(t.Context(), "s", handle, time.Hour))
		}, "rejected, timed_out, ran true: the call needs approval, and nobody answered in time; call the tool again when somebody can answer"},
		{"lapsed", func(t *testing.T, b *bench, handle string) string {
			time.Sleep(DefaultSuspension + time.Second)
			return inWords(b.Resume(t.Context(), "s", handle, time.Hour))
		}, ErrNotSuspended.Error()},
		{"the outcome lapsed", func(t *testing.T, b *bench, handle string) string {
			b.approver.answers <- permission.Reply{Granted: true}
			time.Sleep(DefaultSuspension + time.Second)
			return inWords(b.Resume(t.Context(), "s", handle, time.Hour))
		}, ErrNotSuspended.Error()},
		{"the outcome was kept", func(t *testing.T, b *bench, handle string) string {
			b.approver.answers <- permission.Reply{Granted: true}
			time.Sleep(DefaultSuspension / 2)
			return inWords(b.Resume(t.Context(), "s", handle, time.Hour))
		}, `"edited" [text edited]`},
		{"given up when resumed", func(t *testing.T, b *bench, handle string) string {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(errors.New("the person left")) })
			return inWords(b.Resume(ctx, "s", handle, time.Hour))
		}, "call interrupted: the person left"},
		{"the Location closed", func(t *testing.T, b *bench, handle string) string {
			b.scope.Cancel(errors.New("closing"))
			return inWords(b.Resume(t.Context(), "s", handle, time.Hour))
		}, "rejected, unavailable, ran true: the tool is unavailable: the Location is closing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := waits(t)
				handle := b.suspend(t, "asks").Handle
				if got := tt.do(t, b, handle); got != tt.want {
					t.Errorf("got %s, want %s", got, tt.want)
				}
				synctest.Wait()
				if all := b.Suspended(); len(all) > 0 {
					t.Errorf("left %v", all)
				}
				b.waiting.mu.Lock()
				defer b.waiting.mu.Unlock()
				if len(b.waiting.all) > 0 {
					t.Errorf("kept %v", b.waiting.all)
				}
			})
		})
	}
}

// When what runs a set's tools is ended for good, the calls of them that wait for a person
// end and say why, suspended or waited for, before they ran or while they do; so does one
// that asks later. Calls of other sets, and one that waits for nobody, go on.
//
// Seen to fail: without the cancelling; with calls of every set cancelled; without the look
// at a set that is retired already.
func TestLaw37RetiredCallsAreCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := waits(t)
		set, holds := b.NewSet(Owner{Name: "climate", Builtin: true}), make(chan struct{})
		asks := func(ctx context.Context, call tool.Call) (tool.Result, error) {
			err := call.Gate.Assert(ctx, tool.PermissionRequest{Action: "edit", Resources: []string{"g"}})
			return tool.Result{Output: []byte(`"asked"`)}, err
		}
		set.Register(map[string]tool.Tool{
			"now": executes(asks),
			"later": executes(func(ctx context.Context, call tool.Call) (tool.Result, error) {
				<-holds
				return asks(ctx, call)
			}),
			"never": executes(func(context.Context, tool.Call) (tool.Result, error) {
				<-holds
				return tool.Result{Output: []byte(`"never"`)}, nil
			}),
		})
		b.Swap([]*Set{set}, nil)
		other, suspended := b.suspend(t, "forecast").Handle, b.suspend(t, "now").Handle
		ended := make(map[string]chan string)
		for _, name := range []string{"now", "later", "never"} {
			outcome, captured, request := make(chan string, 1), b.Capture(), b.request(name, "")
			ended[name] = outcome
			go func() { outcome <- inWords(captured.Call(t.Context(), request)) }()
		}
		synctest.Wait()
		set.Retire("the plugin was removed")
		set.Retire("said twice")
		synctest.Wait()
		close(holds)
		const cancelled = "rejected, cancelled, ran true: the plugin was removed"
		for name, want := range map[string]string{"now": cancelled, "later": cancelled, "never": `"never" [text never]`} {
			synctest.Wait()
			select {
			case got := <-ended[name]:
				if got != want {
					t.Errorf("%s: got %s, want %s", name, got, want)
				}
			default:
				t.Errorf("%s: it still waits", name)
			}
		}
		if all := b.Suspended(); len(all) != 1 || all[0].Handle != other {
			t.Errorf("suspended are %v", all)
		}
		if got := inWords(b.Resume(t.Context(), "s", suspended, time.Second)); got != cancelled {
			t.Errorf("got %s, want %s", got, cancelled)
		}
		b.approver.answers <- permission.Reply{Granted: true}
		if got := inWords(b.Resume(t.Context(), "s", other, time.Second)); got != `"rain" [text rain]` {
			t.Errorf("of another set: got %s", got)
		}
		b.waiting.mu.Lock()
		defer b.waiting.mu.Unlock()
		if len(b.waiting.asked) > 0 {
			t.Errorf("kept %v", b.waiting.asked)
		}
	})
}

// A call that runs, or that nobody has to be asked for, is waited for.
func TestLaw37OnlyWaitingIsSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.register(builtin, map[string]tool.Tool{"slow": executes(func(context.Context, tool.Call) (tool.Result, error) {
			time.Sleep(time.Minute)
			return tool.Result{Output: []byte(`"slow"`)}, nil
		})})
		request := b.request("slow", "")
		request.SuspendAfter = time.Second
		if got := inWords(b.Capture().Call(t.Context(), request)); got != `"slow" [text slow]` {
			t.Errorf("got %s", got)
		}
	})
}

// How many calls may be suspended is bounded; beyond that a call is waited for.
func TestSuspensionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := waits(t)
		for range maxSuspended {
			b.suspend(t, "forecast")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		request := b.request("forecast", "")
		request.SuspendAfter = time.Second
		if got := inWords(b.Capture().Call(ctx, request)); !strings.Contains(got, "interrupted") {
			t.Errorf("got %s", got)
		}
	})
}

// Of several who take a call up, one is given its outcome.
//
// Seen to fail: with the outcome given to whoever waits.
func TestLaw37OutcomeIsGivenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := waits(t)
		handle := b.suspend(t, "asks").Handle
		outcomes := make(chan string, 3)
		for range cap(outcomes) {
			go func() { outcomes <- inWords(b.Resume(t.Context(), "s", handle, time.Hour)) }()
		}
		synctest.Wait()
		b.approver.answers <- permission.Reply{Granted: true}
		given := 0
		for range cap(outcomes) {
			switch got := <-outcomes; got {
			case `"edited" [text edited]`:
				given++
			case ErrNotSuspended.Error():
			default:
				t.Errorf("got %s", got)
			}
		}
		if given != 1 {
			t.Errorf("given %d times", given)
		}
	})
}
