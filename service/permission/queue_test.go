package permission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolhost/toolhost/tool"
)

// asks is a request of the weather plugin.
func asks(session, call string, resources ...string) Request {
	c := located(outsider())
	c.Identity.Session, c.Identity.Call = session, call
	return Request{Caller: c, Action: "weather/forecast", Resources: resources, Save: resources, Why: "no rule speaks of it"}
}

// located is the caller as a Location knows it.
func located(c Caller) Caller {
	c.Root, c.Digest, c.Definition = "/project", "d1", "f1"
	return c
}

// answers are the replies of requests that were asked in goroutines of a bubble.
type answers struct {
	mu  sync.Mutex
	got map[string]Reply // by call
}

// ask puts the requests to the queue, one after the other, and waits until each
// waits or has its reply.
func (a *answers) ask(ctx context.Context, q *Queue, requests ...Request) {
	for _, request := range requests {
		go func() {
			reply, err := q.Ask(ctx, request)
			if err != nil {
				panic(err)
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.got == nil {
				a.got = make(map[string]Reply)
			}
			a.got[request.Caller.Identity.Call] = reply
		}()
		synctest.Wait()
	}
}

// want checks which calls have a reply, and what it is.
func (a *answers) want(t *testing.T, want map[string]Reply) {
	t.Helper()
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	for call, reply := range want {
		if got, ok := a.got[call]; !ok || got.Granted != reply.Granted || got.Kind != reply.Kind || !strings.Contains(got.Reason, reply.Reason) ||
			reply.By != "" && got.By != reply.By {
			t.Errorf("%s has the reply %+v (%t), want %+v", call, got, ok, reply)
		}
	}
	if len(a.got) != len(want) {
		t.Errorf("replies are %+v, want %+v", a.got, want)
	}
}

// shows checks which calls are shown, in order, and returns their ids.
func shows(t *testing.T, q *Queue, calls ...string) []string {
	t.Helper()
	synctest.Wait()
	var got, ids []string
	for _, p := range q.Pending() {
		got, ids = append(got, p.Request.Caller.Identity.Call), append(ids, p.ID)
	}
	if !slices.Equal(got, calls) {
		t.Fatalf("shown are %v, want %v", got, calls)
	}
	return ids
}

func reply(t *testing.T, q *Queue, id string, answer Answer) []string {
	t.Helper()
	released, err := q.Reply(t.Context(), id, answer)
	if err != nil {
		t.Fatalf("Reply: %v", err)
	}
	return released
}

// empty checks that nothing is left in the queue.
func empty(t testing.TB, q *Queue) {
	t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.requests)+len(q.lines)+len(q.watchers) != 0 {
		t.Errorf("left in the queue: %d requests, %d lines, %d watchers", len(q.requests), len(q.lines), len(q.watchers))
	}
}

var (
	yes      = Reply{Granted: true}
	declined = Reply{Kind: tool.KindDeclined}
)

// TestLaw35Replies: what each answer settles. Seen to fail with a reject that
// settles the whole line, with a once that saves, and with an always that
// releases whatever its plugin asks.
func TestLaw35Replies(t *testing.T) {
	burst := func() []Request {
		return []Request{
			asks("s", "1", "a"), asks("s", "2", "a"), asks("s", "3", "b"), asks("other", "4", "a"), asks("s", "5", "a", "b"),
		}
	}
	tests := map[string]struct {
		answer   Answer // of the first
		want     map[string]Reply
		shown    []string
		released int
		saved    int
	}{
		"once":   {Answer{Kind: Once, By: "ann"}, map[string]Reply{"1": {Granted: true, By: "ann"}}, []string{"2", "3", "4", "5"}, 0, 0},
		"reject": {Answer{Kind: Reject}, map[string]Reply{"1": declined}, []string{"2", "3", "4", "5"}, 0, 0},
		"reject with feedback": {
			Answer{Kind: Reject, Feedback: "use b", By: "ann"},
			map[string]Reply{"1": {Kind: tool.KindDeclined, Reason: "use b", By: "ann"}},
			[]string{"2", "3", "4", "5"}, 0, 0,
		},
		"always": {
			Answer{Kind: Always, By: "ann"},
			map[string]Reply{
				"1": {Granted: true, By: "ann"}, "2": {Granted: true, Reason: "what was approved", By: "ann"},
				"4": {Granted: true, Reason: "what was approved", By: "ann"},
			},
			[]string{"3", "5"}, 2, 1,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var kept Memory
				var a answers
				q := NewQueue(QueueOptions{Approvals: &kept})
				ctx, cancel := context.WithCancel(t.Context())
				a.ask(ctx, q, burst()...)
				ids := shows(t, q, "1", "3", "4", "5")
				released := reply(t, q, ids[0], test.answer)
				a.want(t, test.want)
				shows(t, q, test.shown...)
				if len(released) != test.released || slices.Contains(released, ids[0]) {
					t.Errorf("released are %v, want %d", released, test.released)
				}
				if got := kept.All(); len(got) != test.saved {
					t.Errorf("saved are %+v, want %d", got, test.saved)
				}
				if _, err := q.Reply(ctx, ids[0], Answer{Kind: Once}); !errors.Is(err, ErrNotPending) {
					t.Errorf("second reply: got %v, want ErrNotPending", err)
				}
				cancel()
				synctest.Wait()
				empty(t, q)
			})
		})
	}
}

// TestLaw35AlwaysSettlesWhatIsAllowedNow: a request whose resources were approved
// one by one needs no answer of its own. Seen to fail with a release that looks at
// nothing but what was saved last.
func TestLaw35AlwaysSettlesWhatIsAllowedNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a answers
		q := NewQueue(QueueOptions{})
		a.ask(t.Context(), q, asks("s", "1", "a"), asks("s", "2", "b"), asks("s", "3", "a", "b"))
		ids := shows(t, q, "1", "2", "3")
		if released := reply(t, q, ids[0], Answer{Kind: Always}); len(released) != 0 {
			t.Errorf("released %v by half of what they need", released)
		}
		if released := reply(t, q, ids[1], Answer{Kind: Always}); !slices.Equal(released, ids[2:]) {
			t.Errorf("released %v, want %v", released, ids[2:])
		}
		a.want(t, map[string]Reply{"1": yes, "2": yes, "3": yes})
		empty(t, q)
	})
}

// TestLaw35RejectSession: also what waits in line, and nobody else's. Seen to fail
// with only the shown ones rejected.
func TestLaw35RejectSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a answers
		q := NewQueue(QueueOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		a.ask(ctx, q, asks("s", "1", "a"), asks("s", "2", "a"), asks("s", "3", "b"), asks("other", "4", "a"))
		if got := q.RejectSession("s", "stop", "ann"); got != 3 {
			t.Errorf("rejected %d, want 3", got)
		}
		stop := Reply{Kind: tool.KindDeclined, Reason: "stop", By: "ann"}
		a.want(t, map[string]Reply{"1": stop, "2": stop, "3": stop})
		shows(t, q, "4")
		cancel()
		synctest.Wait()
		empty(t, q)
	})
}

// TestCaseC12OneAnswerSettlesOne: the answer about a leaves b waiting. Seen to fail
// as TestLaw35Replies.
func TestCaseC12OneAnswerSettlesOne(t *testing.T) {
	for _, kind := range []AnswerKind{Reject, Once, Always} {
		synctest.Test(t, func(t *testing.T) {
			var a answers
			q := NewQueue(QueueOptions{})
			ctx, cancel := context.WithCancel(t.Context())
			a.ask(ctx, q, asks("s", "1", "a"), asks("s", "2", "b"))
			reply(t, q, shows(t, q, "1", "2")[0], Answer{Kind: kind})
			a.want(t, map[string]Reply{"1": {Granted: kind != Reject, Kind: map[bool]tool.Kind{true: tool.KindDeclined}[kind == Reject]}})
			shows(t, q, "2")
			cancel()
			synctest.Wait()
		})
	}
}

// TestCaseC13Burst. Seen to fail with every request shown, with a once that grants
// the line, and with a withdrawn waiter left in its line.
func TestCaseC13Burst(t *testing.T) {
	burst := func() (requests []Request) {
		for i := range 10 {
			requests = append(requests, asks("s", fmt.Sprint(i), "a"))
		}
		return requests
	}
	t.Run("always is one question", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var a answers
			q := NewQueue(QueueOptions{})
			a.ask(t.Context(), q, burst()...)
			id := shows(t, q, "0")[0]
			if got := q.Pending()[0].Behind; got != 9 {
				t.Errorf("behind it are %d, want 9", got)
			}
			if got := reply(t, q, id, Answer{Kind: Always}); len(got) != 9 {
				t.Errorf("released %d, want 9", len(got))
			}
			want := make(map[string]Reply)
			for i := range 10 {
				want[fmt.Sprint(i)] = yes
			}
			a.ask(t.Context(), q, asks("s", "later", "a"))
			want["later"] = yes
			a.want(t, want)
			empty(t, q)
		})
	})
	t.Run("once is one question each, and who leaves is not asked for", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var a answers
			q := NewQueue(QueueOptions{})
			leaving, leave := context.WithCancel(t.Context())
			requests := burst()
			a.ask(t.Context(), q, requests[:4]...)
			a.ask(leaving, q, requests[4])
			a.ask(t.Context(), q, requests[5:]...)
			leave()
			want := map[string]Reply{"4": {Kind: tool.KindCancelled}}
			a.want(t, want)
			for _, call := range []string{"0", "1", "2", "3", "5", "6", "7", "8", "9"} {
				reply(t, q, shows(t, q, call)[0], Answer{Kind: Once})
				want[call] = yes
				a.want(t, want)
			}
			empty(t, q)
		})
	})
}

// TestCaseC13OnlyIdenticalRequestsWait: whatever a person would see differ makes a
// question of its own. Seen to fail with any of the fields left out of the identity.
func TestCaseC13OnlyIdenticalRequestsWait(t *testing.T) {
	change := map[string]func(*Request){
		"session":      func(r *Request) { r.Caller.Identity.Session = "other" },
		"agent":        func(r *Request) { r.Caller.Identity.Agent = "other" },
		"root":         func(r *Request) { r.Caller.Root = "/other" },
		"digest":       func(r *Request) { r.Caller.Digest = "other" },
		"definition":   func(r *Request) { r.Caller.Definition = "other" },
		"plugin":       func(r *Request) { r.Caller.Plugin = "other" },
		"builtin":      func(r *Request) { r.Caller.Builtin = true },
		"tool":         func(r *Request) { r.Caller.Tool = "weather/other" },
		"effects":      func(r *Request) { r.Caller.Effects = tool.Write },
		"irreversible": func(r *Request) { r.Caller.Irreversible = true },
		"review":       func(r *Request) { r.Caller.Review = "other" },
		"action":       func(r *Request) { r.Action = "weather/other" },
		"resources":    func(r *Request) { r.Resources = []string{"a b"} },
		"save":         func(r *Request) { r.Save = []string{"*"} },
		"metadata":     func(r *Request) { r.Metadata = map[string]string{"k": "other"} },
		"why":          func(r *Request) { r.Why = "other" },
	}
	synctest.Test(t, func(t *testing.T) {
		var a answers
		q := NewQueue(QueueOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		base := func(call string) Request { return asks("s", call, "a", "b") }
		a.ask(ctx, q, base("first"), base("second"))
		shows(t, q, "first")
		for name, change := range change {
			r := base(name)
			change(&r)
			a.ask(ctx, q, r)
			if all := q.Pending(); all[len(all)-1].Request.Caller.Identity.Call != name {
				t.Errorf("a request with another %s is not shown", name)
			}
		}
		cancel()
		synctest.Wait()
		empty(t, q)
	})
}

// TestCaseC15HostMadeIDs: two sessions use the same ids for their calls. Seen to
// fail with the call's id as the request's.
func TestCaseC15HostMadeIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(QueueOptions{})
		var one, other answers
		one.ask(t.Context(), q, asks("one", "1", "a"))
		other.ask(t.Context(), q, asks("other", "1", "a"))
		ids := shows(t, q, "1", "1")
		if len(ids[0]) != idLength || ids[0] == ids[1] {
			t.Fatalf("ids are %v", ids)
		}
		reply(t, q, ids[0], Answer{Kind: Reject})
		one.want(t, map[string]Reply{"1": declined})
		other.want(t, nil)
		reply(t, q, ids[1], Answer{Kind: Once})
		other.want(t, map[string]Reply{"1": yes})
		empty(t, q)
	})
}

// blocking is a store that saves when it is let.
type blocking struct {
	Memory
	save chan error
}

func (b *blocking) Save(ctx context.Context, approval Approval) error {
	if err := <-b.save; err != nil {
		return err
	}
	return b.Memory.Save(ctx, approval)
}

// An ending context is over for whoever looks a little before it is done.
type ending struct {
	context.Context
	over atomic.Bool
}

func (e *ending) Err() error {
	if e.over.Load() {
		return context.Canceled
	}
	return e.Context.Err()
}

// TestCaseC16AYesAfterTheCancelComesTooLate. Seen to fail with a Reply that does not
// look at the call, and with an Ask that does not after it has its reply.
func TestCaseC16AYesAfterTheCancelComesTooLate(t *testing.T) {
	cancelled := map[string]Reply{"1": {Kind: tool.KindCancelled}}
	t.Run("after it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var a answers
			q := NewQueue(QueueOptions{})
			ctx, cancel := context.WithCancel(t.Context())
			a.ask(ctx, q, asks("s", "1", "a"))
			id := shows(t, q, "1")[0]
			cancel() // and before the request can be withdrawn:
			if _, err := q.Reply(t.Context(), id, Answer{Kind: Once}); !errors.Is(err, ErrNotPending) {
				t.Errorf("Reply: got %v, want ErrNotPending", err)
			}
			a.want(t, cancelled)
			empty(t, q)
		})
	})
	t.Run("with it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var a answers
			q := NewQueue(QueueOptions{})
			ctx, cancel := context.WithCancel(t.Context())
			a.ask(ctx, q, asks("s", "1", "a"))
			reply(t, q, shows(t, q, "1")[0], Answer{Kind: Once})
			cancel()
			synctest.Wait()
			// Which came first is the scheduler's; nothing else may come of it.
			if got := a.got["1"]; got != yes && got != cancelled["1"] {
				t.Errorf("got %+v", got)
			}
			empty(t, q)
		})
	})
	t.Run("while it is saved", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var a answers
			store := &blocking{save: make(chan error)}
			q := NewQueue(QueueOptions{Approvals: store})
			ctx, cancel := context.WithCancel(t.Context())
			ends, too := &ending{Context: ctx}, &ending{Context: ctx}
			a.ask(ends, q, asks("s", "1", "a"))
			a.ask(t.Context(), q, asks("s", "2", "a"))
			a.ask(too, q, asks("s", "3", "a"))
			id := shows(t, q, "1")[0]
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				released, err := q.Reply(t.Context(), id, Answer{Kind: Always})
				if !errors.Is(err, ErrNotPending) || !strings.Contains(err.Error(), "stands") || len(released) != 1 {
					t.Errorf("Reply: got %v, %v", released, err)
				}
			}()
			synctest.Wait()
			ends.over.Store(true)
			too.over.Store(true)
			store.save <- nil
			<-ended
			a.want(t, map[string]Reply{"2": yes})
			cancel()
			a.want(t, map[string]Reply{"1": cancelled["1"], "2": yes, "3": cancelled["1"]})
			empty(t, q)
		})
	})
	t.Run("before it is asked", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		q := NewQueue(QueueOptions{})
		if got, err := q.Ask(ctx, asks("s", "1", "a")); err != nil || got != cancelled["1"] {
			t.Errorf("got %+v, %v", got, err)
		}
		empty(t, q)
	})
}

// TestLaw37Timeout: nobody waits for ever, in line or not; and who is shown because
// a person answered has the whole time. Seen to fail without the timer, and
// without the refreshing.
func TestLaw37Timeout(t *testing.T) {
	late := Reply{Kind: tool.KindTimedOut}
	synctest.Test(t, func(t *testing.T) {
		var a answers
		q := NewQueue(QueueOptions{Timeout: time.Minute})
		a.ask(t.Context(), q, asks("s", "1", "a"), asks("s", "2", "a"), asks("s", "3", "a"), asks("s", "4", "b"))
		time.Sleep(50 * time.Second)
		reply(t, q, shows(t, q, "1", "4")[0], Answer{Kind: Once})
		if got := time.Until(q.Pending()[0].Expires); got != time.Minute {
			t.Errorf("the next expires in %s, want a minute", got)
		}
		time.Sleep(10 * time.Second)
		a.want(t, map[string]Reply{"1": yes, "3": late, "4": late})
		shows(t, q, "2")
		time.Sleep(50 * time.Second)
		a.want(t, map[string]Reply{"1": yes, "2": late, "3": late, "4": late})
		empty(t, q)
	})
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(QueueOptions{})
		begin := time.Now()
		if got, _ := q.Ask(t.Context(), asks("s", "1", "a")); got != late || time.Since(begin) != DefaultTimeout {
			t.Errorf("got %+v after %s", got, time.Since(begin))
		}
	})
}

// TestLaw35NotSaved: never "always" without a record. What was not saved still
// waits, and times out if its time went by meanwhile; while it is being saved a no
// holds and a second yes waits. Seen to fail with the request settled before the
// saving, and with a timer that fires during it.
func TestLaw35NotSaved(t *testing.T) {
	full := errors.New("disk is full")
	always := func(t *testing.T, q *Queue, id string) (ended chan error) {
		ended = make(chan error, 1)
		go func() {
			_, err := q.Reply(t.Context(), id, Answer{Kind: Always})
			ended <- err
		}()
		synctest.Wait()
		return ended
	}
	tests := map[string]struct {
		meanwhile func(t *testing.T, q *Queue, id string)
		err       error // of the saving
		want      map[string]Reply
		shown     []string
	}{
		"saved":   {want: map[string]Reply{"1": yes}},
		"failing": {err: full, shown: []string{"1"}},
		"saved late": {
			meanwhile: func(*testing.T, *Queue, string) { time.Sleep(DefaultTimeout + 1) }, want: map[string]Reply{"1": yes},
		},
		"failing late": {
			meanwhile: func(*testing.T, *Queue, string) { time.Sleep(DefaultTimeout + 1) },
			err:       full, want: map[string]Reply{"1": {Kind: tool.KindTimedOut}},
		},
		"another yes": {
			meanwhile: func(t *testing.T, q *Queue, id string) {
				for _, kind := range []AnswerKind{Once, Always} {
					if _, err := q.Reply(t.Context(), id, Answer{Kind: kind}); !errors.Is(err, ErrSaving) {
						t.Errorf("%s: got %v, want ErrSaving", kind, err)
					}
				}
			},
			err: full, shown: []string{"1"},
		},
		"a no": {
			meanwhile: func(t *testing.T, q *Queue, id string) { reply(t, q, id, Answer{Kind: Reject}) },
			err:       full, want: map[string]Reply{"1": declined},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var a answers
				store := &blocking{save: make(chan error)}
				q := NewQueue(QueueOptions{Approvals: store})
				ctx, cancel := context.WithCancel(t.Context())
				a.ask(ctx, q, asks("s", "1", "a"))
				id := shows(t, q, "1")[0]
				ended := always(t, q, id)
				if test.meanwhile != nil {
					test.meanwhile(t, q, id)
				}
				store.save <- test.err
				if err := <-ended; !errors.Is(err, test.err) {
					t.Errorf("Reply: got %v, want %v", err, test.err)
				}
				a.want(t, test.want)
				shows(t, q, test.shown...)
				if got := len(store.All()); got > 0 != (test.err == nil) {
					t.Errorf("saved are %d", got)
				}
				cancel()
				synctest.Wait()
				empty(t, q)
			})
		})
	}
}

// slow is a store that is slow to say what it found.
type slow struct {
	Memory
	found chan struct{} // nil: at once
}

func (s *slow) Saved(ctx context.Context, key ApprovalKey) ([]SavedPattern, error) {
	saved, err := s.Memory.Saved(ctx, key)
	if s.found != nil {
		<-s.found
	}
	return saved, err
}

// TestCaseC13NotAskedForWhatWasJustSaved: the answer comes after the approvals were
// looked at and before the request waits. Seen to fail without the second look.
func TestCaseC13NotAskedForWhatWasJustSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a answers
		store := new(slow)
		q := NewQueue(QueueOptions{Approvals: store})
		a.ask(t.Context(), q, asks("s", "1", "a"))
		store.found = make(chan struct{})
		a.ask(t.Context(), q, asks("s", "2", "a"))
		looking := store.found
		store.found = nil
		reply(t, q, shows(t, q, "1")[0], Answer{Kind: Always})
		close(looking)
		a.want(t, map[string]Reply{"1": yes, "2": yes})
		empty(t, q)
	})
}

// TestLaw37Bounded: beyond the bound the answer is no, with its reason, and room is
// made by answering. Seen to fail without the bound.
func TestLaw37Bounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(QueueOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		for i := range MaxPending {
			go func() { _, _ = q.Ask(ctx, asks("s", fmt.Sprint(i), fmt.Sprint(i/2))) }()
		}
		synctest.Wait()
		got, err := q.Ask(ctx, asks("s", "more", "more"))
		if want := (Reply{Kind: tool.KindNobodyToAsk, Reason: "1000 requests wait for an answer already"}); err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
		if got := len(q.Pending()); got != MaxPending/2 {
			t.Errorf("shown are %d", got)
		}
		reply(t, q, q.Pending()[0].ID, Answer{Kind: Once})
		var a answers
		a.ask(ctx, q, asks("s", "more", "more"))
		a.want(t, nil)
		cancel()
		synctest.Wait()
		empty(t, q)
	})
}

// A watcher is told once for any number of changes, and of every kind of change.
func TestQueueWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a answers
		q := NewQueue(QueueOptions{})
		changes, stop := q.Watch()
		told := func(want bool, after string) {
			t.Helper()
			synctest.Wait()
			select {
			case <-changes:
				if !want {
					t.Errorf("told after %s", after)
				}
			default:
				if want {
					t.Errorf("not told after %s", after)
				}
			}
		}
		told(false, "nothing")
		ctx, cancel := context.WithCancel(t.Context())
		a.ask(ctx, q, asks("s", "1", "a"), asks("s", "2", "a"), asks("s", "3", "b"), asks("s", "4", "c"))
		told(true, "asking")
		told(false, "reading")
		reply(t, q, q.Pending()[0].ID, Answer{Kind: Once})
		told(true, "a reply")
		q.RejectSession("other", "", "")
		told(false, "nothing to reject")
		cancel()
		told(true, "the end of calls")
		a.ask(t.Context(), q, asks("s", "5", "a"))
		told(true, "asking again")
		time.Sleep(DefaultTimeout)
		told(true, "the timeout")
		stop()
		empty(t, q)
	})
}

// What is listed belongs to who asked for the list, and is what was asked.
func TestQueuePendingIsACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a answers
		q := NewQueue(QueueOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		r := asks("s", "1", "a")
		r.Save = []string{"a", ""}
		r.Metadata = map[string]string{"k": "v"}
		r.Caller.Review, r.Caller.Effects, r.Caller.Irreversible = "writes a", tool.Write, true
		r.Caller.Asking = func(tool.PermissionRequest) func() { return func() {} }
		a.ask(ctx, q, r)
		p := q.Pending()[0]
		p.Request.Resources[0], p.Request.Save[0], p.Request.Metadata["k"] = "x", "x", "x"
		p = q.Pending()[0]
		got := p.Request
		if got.Resources[0] != "a" || !slices.Equal(got.Save, []string{"a"}) || got.Metadata["k"] != "v" || got.Caller.Asking != nil ||
			got.Caller.Review != "writes a" || got.Caller.Effects != tool.Write || !got.Caller.Irreversible || got.Why != r.Why ||
			!p.Asked.Equal(time.Now()) || !p.Expires.Equal(p.Asked.Add(DefaultTimeout)) {
			t.Errorf("listed is %+v", p)
		}
		cancel()
		synctest.Wait()
	})
}

func TestQueueRefusesAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a answers
		q := NewQueue(QueueOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		unsavable := asks("s", "1", "a")
		unsavable.Save = nil
		unknown := asks("s", "4", "a") // of a plugin without a digest
		unknown.Caller.Digest = ""
		a.ask(ctx, q, unsavable, asks("s", "2", "b"), asks("s", "3", "b"), unknown)
		ids := shows(t, q, "1", "2", "4")
		q.mu.Lock()
		hidden := q.lines[q.requests[ids[1]].identity][1].id
		q.mu.Unlock()
		tests := map[string]struct {
			id     string
			answer Answer
			want   string
		}{
			"unknown kind":    {ids[0], Answer{Kind: "maybe"}, `answer "maybe" is unknown: answer with once, always or reject`},
			"no id":           {"", Answer{Kind: Once}, ErrNotPending.Error()},
			"a caller's id":   {"1", Answer{Kind: Once}, ErrNotPending.Error()},
			"not shown":       {hidden, Answer{Kind: Once}, ErrNotPending.Error()},
			"always unshown":  {hidden, Answer{Kind: Always}, ErrNotPending.Error()},
			"nothing to save": {ids[0], Answer{Kind: Always}, ErrNotSavable.Error()},
			"nobody's":        {ids[2], Answer{Kind: Always}, ErrNotSavable.Error()},
			"in the past":     {ids[1], Answer{Kind: Always, Expires: -time.Hour}, "the approval would have expired 1h0m0s ago: give a time to come"},
			"once expires":    {ids[1], Answer{Kind: Once, Expires: time.Hour}, "answer once saves nothing that could expire"},
			"long feedback": {
				ids[1], Answer{Kind: Reject, Feedback: strings.Repeat("x", MaxFeedback+1)},
				"feedback has 4097 bytes: give text in UTF-8 of at most 4096",
			},
			"who is no text": {ids[1], Answer{Kind: Once, By: "\xff"}, "name of who answers has 1 bytes: give text in UTF-8 of at most 256"},
		}
		for name, test := range tests {
			if _, err := q.Reply(ctx, test.id, test.answer); err == nil || err.Error() != test.want {
				t.Errorf("%s: got %v, want %s", name, err, test.want)
			}
		}
		a.want(t, nil)
		cancel()
		synctest.Wait()
	})
}
