package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/tool"
)

// A receiver of progress that panics harms no call and is called no more.
//
// Seen to fail: without the recover.
func TestLaw13ProgressThatPanics(t *testing.T) {
	for _, after := range []time.Duration{0, time.Second} {
		b := newBench(t)
		b.register(builtin, map[string]tool.Tool{"counts": executes(func(_ context.Context, call tool.Call) (tool.Result, error) {
			for i := range 3 {
				call.Progress(tool.Progress{Done: float64(i)})
			}
			return tool.Result{Output: []byte(`"done"`)}, nil
		})})
		request, called := b.request("counts", ""), 0
		request.SuspendAfter, request.Progress = after, func(tool.Progress) { called++; panic("oops") }
		if got := inWords(b.Capture().Call(t.Context(), request)); got != `"done" [text done]` || called != 1 {
			t.Errorf("suspended after %v: got %s, called %d times", after, got, called)
		}
		if !strings.Contains(b.log.String(), "oops") {
			t.Errorf("logged %s", b.log)
		}
	}
}

// Progress grows, is no flood, and is fit to be shown; the last of it always arrives.
//
// Seen to fail: with reports that do not grow passed on; without the limit.
func TestProgressIsMonotonicAndLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.register(builtin, map[string]tool.Tool{"counts": executes(func(_ context.Context, call tool.Call) (tool.Result, error) {
			for _, done := range []float64{1, 1, 0, 2} {
				call.Progress(tool.Progress{Done: done, Total: -1, Message: "a\x1b[31m\nb"})
			}
			for i := range 1000 {
				call.Progress(tool.Progress{Done: 3 + float64(i)})
			}
			return tool.Result{}, nil
		})})
		var seen []tool.Progress
		request := b.request("counts", "")
		request.Progress = func(p tool.Progress) { seen = append(seen, p) }
		if _, err := b.Capture().Call(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		if len(seen) != progressBurst+1 || seen[1].Done != 2 || seen[len(seen)-1].Done != 1002 {
			t.Errorf("got %d reports, the last %v", len(seen), seen[len(seen)-1])
		}
		if seen[0].Total != 0 || strings.ContainsAny(seen[0].Message, "\x1b\n") {
			t.Errorf("got %+v", seen[0])
		}
	})
}

// A call that blocks for a person spends none of its deadline on it, and is not
// suspended.
//
// Seen to fail: with the clock stopped for calls only that may be suspended.
func TestLaw37WaitingSpendsNoDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := waits(t)
		time.AfterFunc(time.Hour, func() { b.approver.answers <- permission.Reply{Granted: true} })
		request := b.request("asks", "")
		request.Deadline = time.Second
		if got := inWords(b.Capture().Call(t.Context(), request)); got != `"edited" [text edited]` {
			t.Errorf("got %s", got)
		}
	})
}

// What was approved and runs is neither ended by the time to live of the waiting nor
// withdrawn; its outcome is kept as long again, and a second question has a time of
// its own.
//
// Seen to fail: with running calls ended when they lapse, and when they are withdrawn;
// with one time to live for all of it.
func TestLaw37ApprovedCallsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := waits(t)
		b.register(builtin, map[string]tool.Tool{"twice": executes(func(ctx context.Context, call tool.Call) (tool.Result, error) {
			for _, resource := range []string{"f", "g"} {
				if err := call.Gate.Assert(ctx, tool.PermissionRequest{Action: "edit", Resources: []string{resource}}); err != nil {
					return tool.Result{}, err
				}
				select {
				case <-time.After(time.Minute):
				case <-ctx.Done():
					return tool.Result{}, context.Cause(ctx)
				}
			}
			return tool.Result{Output: []byte(`"both"`)}, nil
		})})
		handle := b.suspend(t, "twice").Handle
		time.Sleep(DefaultSuspension - 3*time.Second)
		b.approver.answers <- permission.Reply{Granted: true}
		synctest.Wait()
		if _, err := b.Withdraw(t.Context(), "s", handle); !errors.Is(err, ErrRunning) {
			t.Errorf("withdrawn while it runs: %v", err)
		}
		time.Sleep(time.Minute + DefaultSuspension - 3*time.Second) // it ran past the first time, and waits again
		_, err := b.Resume(t.Context(), "s", handle, 0)
		if again, ok := errors.AsType[*tool.Suspension](err); !ok || !again.Ran {
			t.Fatalf("the second question: %v", err)
		}
		b.approver.answers <- permission.Reply{Granted: true}
		time.Sleep(time.Minute + DefaultSuspension - 3*time.Second)
		if got := inWords(b.Resume(t.Context(), "s", handle, time.Second)); got != `"both" [text both]` {
			t.Errorf("got %s", got)
		}
	})
}

// Only what nobody waits for is listed as suspended.
//
// Seen to fail: with attended calls listed.
func TestSuspendedListsWhatIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := waits(t)
		handle := b.suspend(t, "asks").Handle
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _, _ = b.Resume(ctx, "s", handle, time.Hour) }()
		synctest.Wait()
		if all := b.Suspended(); len(all) > 0 {
			t.Errorf("got %v", all[0])
		}
	})
}

// An action is discarded when its call is over between the approval and the commit,
// and when it came with an error too late.
//
// Seen to fail: without the discard of what never ran; with late actions discarded
// only without an error.
func TestLaw26NotCommittedIsDiscarded(t *testing.T) {
	t.Run("over before it runs", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := newBenchWith(t, func(o *Options) { o.Journal = cancelling{cancel} })
		p := &prepared{}
		p.preparation.Action = p.action()
		b.register(builtin, map[string]tool.Tool{"write": p.tool(tool.Write)})
		if got := inWords(b.Capture().Call(ctx, b.request("write", ""))); !strings.Contains(got, "interrupted") {
			t.Errorf("got %s", got)
		}
		b.eventually(func() bool { return strings.Contains(p.story(), "discarded") })
	})
	t.Run("late and with an error", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			discarded := make(chan struct{})
			x := says("never")
			x.Prepare = func(context.Context, tool.Call) (tool.Preparation, error) {
				time.Sleep(time.Minute)
				return tool.Preparation{Action: &tool.Action{
					Commit:  func(context.Context, tool.Call) (tool.Result, error) { return tool.Result{}, nil },
					Discard: func(context.Context) { close(discarded) },
				}}, errors.New("changed my mind")
			}
			b.register(builtin, map[string]tool.Tool{"slow": x})
			request := b.request("slow", "")
			request.Deadline = time.Second
			b.callWith(request)
			<-discarded
		})
	})
}

// cancelling is a journal during which the caller goes away.
type cancelling struct{ cancel context.CancelFunc }

func (c cancelling) Start(context.Context, tool.Start) (func(tool.Status, tool.Kind), error) {
	c.cancel()
	return func(tool.Status, tool.Kind) {}, nil
}

// What Prepare does to its input changes nothing of the call: the bytes that were
// validated run. A tool of the program gets no gate there either.
//
// Seen to fail: with one input for both; with the gate given to all.
func TestLaw11PreparingChangesNoInput(t *testing.T) {
	b := newBench(t)
	x := echoes(`{"type":"object","properties":{"a":{"type":"integer"}}}`)
	x.Prepare = func(_ context.Context, call tool.Call) (tool.Preparation, error) {
		copy(call.Input, `{"a":"x"}`)
		if call.Gate != nil {
			t.Error("a tool of the program got a gate")
		}
		return tool.Preparation{}, nil
	}
	b.register(Owner{Name: "program", Application: true}, map[string]tool.Tool{"x": x})
	if got := b.call("x", `{"a": 12}`); got != `{"a": 12}` {
		t.Errorf("got %s", got)
	}
}

// A hook has its own copy of all it sees, is run to its end though the caller went
// away, who is told within the grace, and its ctx does not end with the caller's.
//
// Seen to fail: with one settlement for all hooks; with the caller waiting for them;
// with the caller's ctx.
func TestLaw21HooksAfterACancelledCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		var last string
		b := newBenchWith(t, func(o *Options) {
			o.Hooks.After = []AfterHook{
				{Name: "spoils", Run: func(_ context.Context, _ HookCall, s tool.Settlement, _ []string) (tool.Settlement, error) {
					s.Content[0].Text, s.Structured[0] = "spoiled", '!'
					return tool.Settlement{}, errors.New("no")
				}},
				{Name: "slow", Run: func(ctx context.Context, _ HookCall, s tool.Settlement, _ []string) (tool.Settlement, error) {
					leave()
					time.Sleep(5 * time.Second)
					return s, ctx.Err()
				}},
				{Name: "last", Run: func(ctx context.Context, _ HookCall, s tool.Settlement, _ []string) (tool.Settlement, error) {
					last = fmt.Sprint(string(s.Structured), s.Content[0].Text, ctx.Err())
					return s, nil
				}},
			}
		})
		b.register(builtin, map[string]tool.Tool{"x": says("hi")})
		begin := time.Now()
		got := inWords(b.Capture().Call(ctx, b.request("x", "")))
		if took := time.Since(begin); !strings.Contains(got, "interrupted") || took > StopGrace {
			t.Errorf("got %s after %v", got, took)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if last != `"hi"hi<nil>` {
			t.Errorf("the last hook saw %s", last)
		}
	})
}

// Hooks are those that the registry was made with.
func TestLaw21HooksAreCaptured(t *testing.T) {
	hooks := Hooks{Before: []BeforeHook{before("1")}, After: []AfterHook{after("2")}}
	b := newBenchWith(t, func(o *Options) { o.Hooks = hooks })
	hooks.Before[0], hooks.After[0] = before("3"), after("4")
	x := executes(func(_ context.Context, call tool.Call) (tool.Result, error) {
		return tool.Result{Content: []tool.Content{tool.Text(string(call.Input))}}, nil
	})
	x.Input = json.RawMessage(`{"type":"object","properties":{"a":{}}}`)
	b.register(builtin, map[string]tool.Tool{"x": x})
	if got := b.call("x", `{"a":"x"}`); got != ` [text {"a":"x1"}2]` {
		t.Errorf("got %s", got)
	}
}

// A batch that nobody wants any more ends, and no outcome of it is empty; no call of
// a batch is suspended.
//
// Seen to fail: with the calls behind the head left out; with suspensions.
func TestLaw29EveryCallHasAnOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := waits(t)
		var requests []Request
		for range 3 {
			request := b.request("asks", "")
			request.SuspendAfter = time.Second
			requests = append(requests, request)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for i, o := range b.Capture().Batch(ctx, requests) {
			if _, ok := errors.AsType[*tool.Interruption](o.Err); !ok {
				t.Errorf("call %d: got %v, %v", i, o.Settlement, o.Err)
			}
		}
	})
}

// A negative loss is none, and a contradiction tells the operator what it was.
func TestLaw19LossIsNotNegative(t *testing.T) {
	b := newBench(t)
	x := says("x")
	x.Effects = tool.Read
	x.Prepare = func(context.Context, tool.Call) (tool.Preparation, error) {
		return tool.Preparation{Effects: tool.Write}, nil
	}
	b.register(builtin, map[string]tool.Tool{"lost": returns(tool.Result{Lost: -5}, nil), "dropped": returns(tool.Result{Lost: 5}, nil), "x": x})
	for name, want := range map[string]int64{"lost": 0, "dropped": 5} {
		if s, err := b.Capture().Call(t.Context(), b.request(name, "")); err != nil || s.Lost != want {
			t.Errorf("%s: got %d, %v", name, s.Lost, err)
		}
	}
	s, _ := b.Capture().Call(t.Context(), b.request("x", ""))
	if s.Error == nil || s.Error.Cause == nil || !strings.Contains(s.Error.Cause.Error(), "would have the effects write") {
		t.Errorf("got %+v", s.Error)
	}
}

// Whatever more than reading a call may do, its start is recorded.
//
// Seen to fail: with starts recorded for writing only.
func TestLaw15EveryEffectBeyondReading(t *testing.T) {
	for _, effects := range []tool.Effects{tool.Write, tool.Process, tool.Network, tool.UserInteraction, tool.Delegation, 0, tool.Read | tool.Network} {
		j := &journal{}
		b := newBenchWith(t, func(o *Options) { o.Journal = j })
		x := says("x")
		x.Effects = effects
		b.register(builtin, map[string]tool.Tool{"x": x})
		b.call("x", "")
		if len(j.lines) != 2 {
			t.Errorf("%v: recorded %v", effects, j.lines)
		}
	}
}

// Bounding a large answer ends when nobody wants it any more, or its deadline is past.
//
// Seen to fail: with bounding that does not know of the call's work.
func TestLaw14BoundingIsInterrupted(t *testing.T) {
	b := newBench(t)
	size := 12 << 20
	if testing.Short() {
		size = 3 << 20 // with the race detector it takes longer than all of it without
	}
	heavy := strings.Repeat("a\x1b[32m\rb", size)
	entered := make(chan struct{}, 1)
	b.register(builtin, map[string]tool.Tool{"heavy": executes(func(context.Context, tool.Call) (tool.Result, error) {
		entered <- struct{}{}
		return tool.Result{Content: []tool.Content{tool.Text(heavy)}}, nil
	})})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan time.Time, 1)
	go func() {
		<-entered
		time.Sleep(20 * time.Millisecond)
		ended <- time.Now()
		cancel()
	}()
	got := inWords(b.Capture().Call(ctx, b.request("heavy", "")))
	if took := time.Since(<-ended); !strings.Contains(got, "interrupted") || took > StopGrace {
		t.Errorf("got %.100s, %v after its end", got, took)
	}
}

// What the caller does later to the lists in a tool changes nothing (law 4).
//
// Seen to fail: with the targets, and with the requests, of the caller.
func TestLaw04ListsAreCopied(t *testing.T) {
	var targets [][]string
	b := newBenchWith(t, func(o *Options) {
		o.Instructions = func(_ context.Context, _ tool.Gate, _ string, found []string) ([]tool.Instruction, error) {
			targets = append(targets, found)
			return nil, nil
		}
	})
	x := says("x")
	x.Input, x.Targets = json.RawMessage(`{"type":"object","properties":{"a":{},"b":{}}}`), []string{"a"}
	x.Requests = []tool.PermissionRequest{{Action: "weather/x", Resources: []string{"first"}}}
	b.register(weather, map[string]tool.Tool{"x": x})
	x.Targets[0], x.Requests[0].Resources[0] = "b", "other"
	request := b.request("x", `{"a":"here","b":"there"}`)
	request.Instructions = true
	b.callWith(request)
	if got := fmt.Sprint(targets, b.approver.asked); got != "[[here]] [weather/x first save ]" {
		t.Errorf("got %s", got)
	}
}

// A tool that hears of the end of its call and asks all the same asks nobody, also
// before the call has returned (law 12).
//
// Seen to fail: with a gate that is over when its call has returned.
func TestLaw12NothingIsAskedForACancelledCall(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	b.register(builtin, map[string]tool.Tool{"x": executes(func(work context.Context, call tool.Call) (tool.Result, error) {
		cancel()
		<-work.Done()
		return tool.Result{}, call.Gate.Assert(context.WithoutCancel(work), tool.PermissionRequest{Action: "edit", Resources: []string{"a"}})
	})})
	if got := inWords(b.Capture().Call(ctx, b.request("x", ""))); !strings.Contains(got, "interrupted") || len(b.approver.asked) > 0 {
		t.Errorf("got %s, asked %v", got, b.approver.asked)
	}
}

// What an error says is cleaned for the model in the settlement, and nowhere else: why a
// context is over is read by everyone below it, in goroutines of their own.
//
// Seen to fail: with the message cleaned in place.
func TestSettlingLeavesTheError(t *testing.T) {
	const said = "over \xff at last"
	given := &tool.Error{Kind: tool.KindFailure, Message: said}
	if got := settledBy(given, false).Error; got.Kind != given.Kind || got.Message == said || got.Message != clean(said) {
		t.Errorf("got %+v", got)
	}
	if given.Message != said {
		t.Errorf("the error says %q, want %q", given.Message, said)
	}
}
