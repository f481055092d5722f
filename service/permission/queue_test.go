package permission

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
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
		"directory":    func(r *Request) { r.Directory = "other" },
		"part":         func(r *Request) { r.Judged = append(r.Judged, Judged{}) },
		"part's kind":  func(r *Request) { r.Judged[0].Kind = "other" },
		"part's act":   func(r *Request) { r.Judged[0].Action = "other" },
		"part's text":  func(r *Request) { r.Judged[0].Text = "other" },
		"part's end":   func(r *Request) { r.Judged[0].Effect = Ask },
		"part's why":   func(r *Request) { r.Judged[0].Why = "other" },
		"part's cut":   func(r *Request) { r.Judged[0].Cut = true },
		"unlisted":     func(r *Request) { r.Unlisted = 1 },
		"why":          func(r *Request) { r.Why = "other" },
	}
	synctest.Test(t, func(t *testing.T) {
		var a answers
		q := NewQueue(QueueOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		base := func(call string) Request {
			r := asks("s", call, "a", "b")
			r.Judged = []Judged{{Text: "a", Effect: Allow}}
			return r
		}
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

// A request behind an identical one is shown when somebody must ask about it, and both
// can be answered, each for itself (law 35). Seen to fail with the first one as the only
// one that can be answered.
func TestLaw35ShownAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a answers
		q := NewQueue(QueueOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		for _, call := range []string{"1", "2", "3"} {
			a.ask(ctx, q, asks("s", call, "a"))
			synctest.Wait()
		}
		shows(t, q, "1")
		q.mu.Lock()
		var third string
		for id, r := range q.requests {
			if r.request.Caller.Identity.Call == "3" {
				third = id
			}
		}
		q.mu.Unlock()
		if !q.Show(third) || q.Show("nothing") {
			t.Error("the third is not shown, or nothing is")
		}
		ids := shows(t, q, "1", "3")
		reply(t, q, ids[1], Answer{Kind: Once})
		a.want(t, map[string]Reply{"3": yes})
		shows(t, q, "1")
		reply(t, q, ids[0], Answer{Kind: Once})
		shows(t, q, "2")
		cancel()
		synctest.Wait()
		empty(t, q)
	})
}
