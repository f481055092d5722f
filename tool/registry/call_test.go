package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolhost/toolhost/tool"
)

// One call runs the one executor once, and calls run at the same time.
//
// Seen to fail: with execute called again when it failed.
func TestLaw01SingleExecutor(t *testing.T) {
	b := newBench(t)
	var runs, together atomic.Int32
	const calls = 20
	b.register(builtin, map[string]tool.Tool{
		"fails": executes(func(context.Context, tool.Call) (tool.Result, error) {
			runs.Add(1)
			return tool.Result{}, &tool.Failure{Message: "no"}
		}),
		"meets": executes(func(ctx context.Context, _ tool.Call) (tool.Result, error) {
			for together.Add(1); together.Load() < calls && ctx.Err() == nil; {
				runtime.Gosched()
			}
			return tool.Result{}, nil
		}),
	})
	if got := b.call("fails", ""); got != "failed, failure, ran true: no" || runs.Load() != 1 {
		t.Errorf("got %s after %d runs", got, runs.Load())
	}
	var all sync.WaitGroup
	capture := b.Capture()
	for range calls {
		request := b.request("meets", "")
		all.Go(func() {
			if got := inWords(capture.Call(t.Context(), request)); got != "" {
				t.Errorf("got %s", got)
			}
		})
	}
	all.Wait()
	if together.Load() != calls {
		t.Errorf("%d runs, want %d", together.Load(), calls)
	}
}

// A call without a whole identity is not begun, and gets to no gate.
//
// Seen to fail: without the check in Call.
func TestLaw12IncompleteIdentity(t *testing.T) {
	b := newBench(t)
	b.register(weather, set("forecast"))
	request := b.request("forecast", "")
	request.Identity.Message = ""
	s, err := b.Capture().Call(t.Context(), request)
	if got := inWords(s, err); got != "error, internal, ran false: the tool is unavailable" {
		t.Errorf("got %s", got)
	}
	if s.Error.Cause == nil || !strings.Contains(s.Error.Cause.Error(), "no message id") || len(b.approver.asked) > 0 {
		t.Errorf("the cause is %v, asked %q", s.Error.Cause, b.approver.asked)
	}
	identity := tool.Identity{Session: "s\n", Agent: "ä", Message: "../m", Call: strings.Repeat("c", tool.MaxID), HostMade: true}
	var seen tool.Identity
	b.register(builtin, map[string]tool.Tool{"who": executes(func(_ context.Context, call tool.Call) (tool.Result, error) {
		seen = call.Identity
		return tool.Result{}, nil
	})})
	if _, err := b.Capture().Call(t.Context(), Request{Identity: identity, Name: "who"}); err != nil || seen != identity {
		t.Errorf("the executor saw %+v, %v, want %+v", seen, err, identity)
	}
}

// One call that hangs, panics or ends its goroutine leaves the others as they are.
//
// Seen to fail: without recover, and without the outcome that run begins with.
func TestLaw13IsolationOfCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.closing = "call of filesystem/exits: ended by runtime.Goexit"
		b.register(builtin, map[string]tool.Tool{
			"panics": executes(func(context.Context, tool.Call) (tool.Result, error) { panic("boom") }),
			"exits": executes(func(context.Context, tool.Call) (tool.Result, error) {
				runtime.Goexit()
				return tool.Result{}, nil
			}),
			"hangs": executes(func(ctx context.Context, _ tool.Call) (tool.Result, error) {
				<-ctx.Done()
				return tool.Result{}, ctx.Err()
			}),
			"works": says("fine"),
		})
		ctx, cancel := context.WithCancel(t.Context())
		hung := make(chan string, 1)
		request := b.request("hangs", "")
		go func() { hung <- inWords(b.Capture().Call(ctx, request)) }()
		synctest.Wait()
		for range 2 {
			s, err := b.Capture().Call(t.Context(), b.request("panics", ""))
			if got := inWords(s, err); got != "error, internal, ran true: the tool is unavailable" {
				t.Errorf("got %s", got)
			}
			if cause := fmt.Sprint(s.Error.Cause); !strings.Contains(cause, "filesystem/panics panicked: boom") || !strings.Contains(cause, "call_test.go") {
				t.Errorf("the cause is %s", cause)
			}
			if got := b.call("exits", ""); got != "error, internal, ran true: the tool is unavailable" {
				t.Errorf("got %s", got)
			}
			if got := b.call("nowhere", ""); !strings.HasPrefix(got, "rejected, unknown_tool") {
				t.Errorf("got %s", got)
			}
			if got := b.call("works", ""); got != `"fine" [text fine]` {
				t.Errorf("got %s", got)
			}
		}
		cancel()
		if got := <-hung; got != "call interrupted: context canceled" {
			t.Errorf("got %s", got)
		}
	})
}

// Who went away gets no text, whatever the executor does; it is told at once, and
// waited for no longer than the grace.
//
// Seen to fail: with end looking at the error first; with a longer grace; without
// the look at ctx when there is no error.
func TestLaw14Interruption(t *testing.T) {
	gone := errors.New("client went away")
	tests := []struct {
		name    string
		execute func(context.Context) (tool.Result, error)
		after   time.Duration
	}{
		{"returns the cause", func(ctx context.Context) (tool.Result, error) {
			<-ctx.Done()
			return tool.Result{}, context.Cause(ctx)
		}, 0},
		{"makes a failure of it", func(ctx context.Context) (tool.Result, error) {
			<-ctx.Done()
			return tool.Result{}, &tool.Failure{Message: "cancelled"}
		}, 0},
		{"succeeds all the same", func(ctx context.Context) (tool.Result, error) {
			<-ctx.Done()
			return tool.Result{Output: json.RawMessage(`"done"`)}, nil
		}, 0},
		{"returns nonsense", func(ctx context.Context) (tool.Result, error) {
			<-ctx.Done()
			return tool.Result{Output: json.RawMessage(`{`)}, nil
		}, 0},
		{"panics", func(ctx context.Context) (tool.Result, error) {
			<-ctx.Done()
			panic("cancelled")
		}, 0},
		{"tidies up", func(ctx context.Context) (tool.Result, error) {
			<-ctx.Done()
			time.Sleep(StopGrace / 2)
			return tool.Result{}, ctx.Err()
		}, StopGrace / 2},
		{"does not stop", func(context.Context) (tool.Result, error) {
			time.Sleep(time.Hour)
			return tool.Result{}, nil
		}, StopGrace},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.register(builtin, map[string]tool.Tool{"slow": executes(func(ctx context.Context, _ tool.Call) (tool.Result, error) {
					return tt.execute(ctx)
				})})
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Minute, func() { cancel(gone) })
				start := time.Now()
				s, err := b.Capture().Call(ctx, b.request("slow", ""))
				interruption, ok := errors.AsType[*tool.Interruption](err)
				if !ok || !errors.Is(err, gone) || !interruption.Ran {
					t.Errorf("got %+v, %v", s, err)
				}
				if took := time.Since(start) - time.Minute; took != tt.after {
					t.Errorf("ended %v after the cancellation, want %v", took, tt.after)
				}
				if said := strings.Contains(b.log.String(), "tool does not stop"); said != (tt.after == StopGrace) {
					t.Errorf("logged %s", b.log)
				}
				time.Sleep(time.Hour) // until what did not stop has stopped
			})
		})
	}
	t.Run("as it returns", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			for range 50 { // whichever of the two the host sees first
				ctx, cancel := context.WithCancelCause(t.Context())
				b.register(builtin, map[string]tool.Tool{"fast": executes(func(_ context.Context, call tool.Call) (tool.Result, error) {
					call.Progress(tool.Progress{})
					cancel(gone)
					return tool.Result{Output: json.RawMessage(`"done"`)}, nil
				})})
				request := b.request("fast", "")
				request.Progress = func(tool.Progress) { synctest.Wait() } // until both have happened
				if s, err := b.Capture().Call(ctx, request); !errors.Is(err, gone) {
					t.Fatalf("got %s", inWords(s, err))
				}
			}
		})
	})
	t.Run("before it began", func(t *testing.T) {
		b := newBench(t)
		b.register(weather, set("forecast"))
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		_, err := b.Capture().Call(ctx, b.request("forecast", ""))
		if i, ok := errors.AsType[*tool.Interruption](err); !ok || i.Ran || !errors.Is(err, gone) {
			t.Errorf("got %v", err)
		}
	})
}

// The host's own timer ends a call, whether the executor heeds its context or not.
//
// Seen to fail: with the request's deadline ignored; without the deadline's case in
// whyOver.
func TestCallDeadline(t *testing.T) {
	heeds := executes(func(ctx context.Context, _ tool.Call) (tool.Result, error) {
		<-ctx.Done()
		return tool.Result{}, ctx.Err()
	})
	ignores := executes(func(context.Context, tool.Call) (tool.Result, error) {
		time.Sleep(time.Hour)
		return tool.Result{Output: json.RawMessage(`"late"`)}, nil
	})
	tests := []struct {
		name           string
		deadline, took time.Duration
	}{
		{"heeds", 0, DefaultDeadline},
		{"heeds", -time.Second, DefaultDeadline},
		{"heeds", time.Second, time.Second},
		{"ignores", time.Minute, time.Minute + StopGrace},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			b.register(builtin, map[string]tool.Tool{"heeds": heeds, "ignores": ignores})
			request := b.request(tt.name, "")
			request.Deadline = tt.deadline
			start := time.Now()
			s, err := b.Capture().Call(t.Context(), request)
			if got := inWords(s, err); got != "error, deadline, ran true: the tool did not finish within its deadline" {
				t.Errorf("%s: got %s", tt.name, got)
			}
			if took := time.Since(start); took != tt.took {
				t.Errorf("%s: took %v, want %v", tt.name, took, tt.took)
			}
			if cause := fmt.Sprint(s.Error.Cause); !strings.Contains(cause, "did not finish within "+(tt.took.Truncate(time.Minute)+tt.deadline%time.Minute).String()) && tt.deadline > 0 {
				t.Errorf("the cause is %s", cause)
			}
			time.Sleep(2 * time.Hour)
		})
	}
}

// When the Location closes, calls end as unavailable and say so.
//
// Seen to fail: without the cancel in work, and without its case in whyOver.
func TestClosingEndsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.register(builtin, map[string]tool.Tool{"slow": executes(func(ctx context.Context, _ tool.Call) (tool.Result, error) {
			<-ctx.Done()
			return tool.Result{}, ctx.Err()
		})})
		capture, request := b.Capture(), b.request("slow", "")
		running := make(chan string, 1)
		go func() { running <- inWords(capture.Call(t.Context(), request)) }()
		synctest.Wait()
		if err := b.scope.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if got, want := <-running, "rejected, unavailable, ran true: the tool is unavailable: the Location is closing"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got, want := b.callIn(capture, "slow", ""), "rejected, unavailable, ran false: the tool is unavailable: the Location is closing"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// However calls are cancelled, each ends once, and none is run twice.
//
// Seen to fail: with a settlement returned beside the interruption.
func TestLaw15EveryCallEndsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var runs atomic.Int32
		b.register(builtin, map[string]tool.Tool{"work": executes(func(ctx context.Context, _ tool.Call) (tool.Result, error) {
			runs.Add(1)
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(rand.IntN(100)) * time.Millisecond):
			}
			return tool.Result{Output: json.RawMessage(`1`)}, ctx.Err()
		})})
		const calls = 500
		var ended, began atomic.Int32
		var all sync.WaitGroup
		capture := b.Capture()
		for range calls {
			request := b.request("work", "")
			request.Deadline = time.Duration(1+rand.IntN(100)) * time.Millisecond
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(100))*time.Millisecond)
				defer cancel()
				s, err := capture.Call(ctx, request)
				interruption, interrupted := errors.AsType[*tool.Interruption](err)
				if interrupted == (s.Status != "") {
					t.Errorf("got %+v and %v", s, err)
				}
				if s.Ran || interrupted && interruption.Ran {
					began.Add(1)
				}
				ended.Add(1)
			})
		}
		all.Wait()
		if ended.Load() != calls || runs.Load() != began.Load() {
			t.Errorf("%d calls, %d ended, %d began, %d runs", calls, ended.Load(), began.Load(), runs.Load())
		}
	})
}

// Only a failure's text is the tool's own; the rest is for the operator.
//
// Seen to fail: without clean in end.
func TestLaw22Failures(t *testing.T) {
	b := newBench(t)
	secret := errors.New("dial /run/secret.sock")
	b.register(builtin, map[string]tool.Tool{
		"fails":   returns(tool.Result{Output: json.RawMessage(`"ignored"`)}, &tool.Failure{Message: "no such city: \xff"}),
		"breaks":  returns(tool.Result{}, secret),
		"crashes": returns(tool.Result{}, tool.Errorf(tool.KindCrashed, "exit status 2: %w", secret)),
		"gone":    returns(tool.Result{}, tool.Errorf(tool.KindUnavailable, "restarting")),
		"cancels": returns(tool.Result{}, context.Canceled),
	})
	tests := []struct{ name, want string }{
		{"fails", "failed, failure, ran true: no such city: \uFFFD"},
		{"breaks", "error, internal, ran true: the tool is unavailable"},
		{"crashes", "error, crashed, ran true: the tool is unavailable"},
		{"gone", "rejected, unavailable, ran true: restarting"},
		{"cancels", "error, internal, ran true: the tool is unavailable"},
	}
	for _, tt := range tests {
		s, err := b.Capture().Call(t.Context(), b.request(tt.name, ""))
		if got := inWords(s, err); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
		if s.Status == tool.Errored && tt.name != "cancels" && !errors.Is(s.Error, secret) {
			t.Errorf("%s: the cause is %v", tt.name, s.Error.Cause)
		}
	}
}

// A tool that is not built in is asked for before it runs, and does not run when
// the answer is no; a built-in is not asked for.
//
// Seen to fail: with everybody taken for a built-in, and with nobody.
func TestLaw33OutsideToolsAreAskedFor(t *testing.T) {
	kinds := []struct {
		kind tool.Kind
		want string
	}{
		{"", `"forecast" [text forecast]`},
		{tool.KindDeclined, `rejected, declined, ran false: weather/forecast of "*" was declined`},
		{tool.KindTimedOut, `rejected, timed_out, ran false: weather/forecast of "*" needs approval, and nobody answered in time: no rule speaks of it; call the tool again when somebody can answer`},
		{tool.KindNobodyToAsk, `rejected, nobody_to_ask, ran false: weather/forecast of "*" needs approval, and there is nobody to ask`},
		{tool.KindCancelled, `rejected, cancelled, ran false: weather/forecast of "*" needs approval, and the request was withdrawn`},
	}
	for _, k := range kinds {
		b := newBench(t)
		b.approver.kind = k.kind
		b.register(weather, set("forecast"))
		b.register(builtin, set("read"))
		if got := b.call("forecast", ""); !strings.HasPrefix(got, k.want) {
			t.Errorf("%q: got %s, want %s", k.kind, got, k.want)
		}
		if got := b.call("read", ""); got != `"read" [text read]` {
			t.Errorf("%q: the built-in: got %s", k.kind, got)
		}
		if got := strings.Join(b.approver.asked, "; "); got != "weather/forecast * save *" {
			t.Errorf("asked %q", got)
		}
	}
	// Invalid input is rejected before anybody is asked.
	b := newBench(t)
	b.register(weather, set("forecast"))
	b.call("forecast", `[]`)
	if len(b.approver.asked) > 0 {
		t.Errorf("asked %q", b.approver.asked)
	}
}

// A refused assertion ends the call as rejected, whatever the executor says.
//
// Seen to fail: without the look at Refused in Call.
func TestLaw36ADeclineIsNotText(t *testing.T) {
	endings := map[string]func(error) (tool.Result, error){
		"passes it on":    func(err error) (tool.Result, error) { return tool.Result{}, err },
		"hides it":        func(error) (tool.Result, error) { return tool.Result{Output: json.RawMessage(`"all done"`)}, nil },
		"makes a failure": func(err error) (tool.Result, error) { return tool.Result{}, &tool.Failure{Message: err.Error()} },
		"breaks":          func(error) (tool.Result, error) { return tool.Result{}, errors.New("broken") },
		"returns nonsense": func(error) (tool.Result, error) {
			return tool.Result{Output: json.RawMessage(`{`)}, nil
		},
		"panics": func(err error) (tool.Result, error) { panic(err) },
	}
	for name, ending := range endings {
		b := newBench(t)
		b.approver.kind = tool.KindDeclined
		b.register(builtin, map[string]tool.Tool{"edit": executes(func(ctx context.Context, call tool.Call) (tool.Result, error) {
			err := call.Gate.Assert(ctx, tool.PermissionRequest{Action: "edit", Resources: []string{"a.txt"}})
			return ending(err)
		})})
		if got, want := b.call("edit", ""), `rejected, declined, ran true: edit of "a.txt" was declined`; got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
		b.approver.kind = ""
		if got := b.call("edit", ""); name == "hides it" && got != `"all done" [text all done]` {
			t.Errorf("the next call: got %s", got)
		}
	}
}

// Progress arrives in order, from the goroutine of Call, and never after it.
//
// Seen to fail: with progress called by the executor when Call is not waiting.
func TestProgress(t *testing.T) {
	b := newBench(t)
	stray := make(chan func(tool.Progress), 1)
	b.register(builtin, map[string]tool.Tool{"counts": executes(func(_ context.Context, call tool.Call) (tool.Result, error) {
		for i := range 5 {
			call.Progress(tool.Progress{Done: float64(i)})
		}
		stray <- call.Progress
		return tool.Result{}, nil
	})})
	request := b.request("counts", "")
	var seen []float64
	request.Progress = func(p tool.Progress) { seen = append(seen, p.Done) } // unguarded: the race detector sees another goroutine
	if got := inWords(b.Capture().Call(t.Context(), request)); got != "" {
		t.Errorf("got %s", got)
	}
	(<-stray)(tool.Progress{Done: 99})
	if got := fmt.Sprint(seen); got != "[0 1 2 3 4]" {
		t.Errorf("got %s", got)
	}
}
