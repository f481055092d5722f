package permission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/toolhost/toolhost/tool"
)

// fragile is a store that can be made to fail.
type fragile struct {
	Memory
	broken bool // set between the steps of a bubble
}

// modelTimeout is how long the model's requests wait.
const modelTimeout = 10 * time.Millisecond

var errBroken = errors.New("broken")

func (f *fragile) Save(ctx context.Context, approval Approval) error {
	if f.broken {
		return errBroken
	}
	return f.Memory.Save(ctx, approval)
}

func (f *fragile) Saved(ctx context.Context, key ApprovalKey) ([]SavedPattern, error) {
	if f.broken {
		return nil, errBroken
	}
	return f.Memory.Saved(ctx, key)
}

// modelAsked is what the model knows of a request.
type modelAsked struct {
	call            string
	session, plugin string
	resources, save string // a letter each; of save, * matches all of them
	expires         time.Time
	cancel          context.CancelFunc
	got             chan Reply
	want            *Reply // nil while it waits
}

func (m *modelAsked) looks() string {
	return fmt.Sprint(m.session, m.plugin, " ", m.resources, " ", m.save)
}

type modelApproval struct {
	plugin, patterns string
	expires          time.Time
}

// A queueModel says, without the queue's structures, who waits and who was
// answered with what.
type queueModel struct {
	asked []*modelAsked // that wait, oldest first
	saved []modelApproval
}

// approved says whether the saved patterns allow all that the request is about.
func (m *queueModel) approved(r *modelAsked) bool {
	for _, resource := range r.resources {
		if !slices.ContainsFunc(m.saved, func(a modelApproval) bool {
			return a.plugin == r.plugin && time.Now().Before(a.expires) &&
				slices.ContainsFunc([]rune(a.patterns), func(pattern rune) bool { return pattern == '*' || pattern == resource })
		}) {
			return false
		}
	}
	return true
}

// shown are the first of those that look the same.
func (m *queueModel) shown() (shown []*modelAsked) {
	for _, r := range m.asked {
		if !slices.ContainsFunc(shown, func(other *modelAsked) bool { return other.looks() == r.looks() }) {
			shown = append(shown, r)
		}
	}
	return shown
}

// settle answers the requests that it holds for.
func (m *queueModel) settle(reply Reply, which func(*modelAsked) bool) (settled []*modelAsked) {
	m.asked = slices.DeleteFunc(m.asked, func(r *modelAsked) bool {
		if !which(r) {
			return false
		}
		r.want = &reply
		settled = append(settled, r)
		return true
	})
	return settled
}

// answered settles the request that a person answered; the next one that looks the
// same has its whole time from now.
func (m *queueModel) answered(r *modelAsked, reply Reply) {
	m.settle(reply, func(other *modelAsked) bool { return other == r })
}

func (m *queueModel) refresh(looks string) {
	for _, r := range m.shown() {
		if r.looks() == looks {
			r.expires = time.Now().Add(modelTimeout)
		}
	}
}

// Whatever is asked, answered, withdrawn, rejected and left to time out, in
// whatever order, and with a store that fails at times: each request has exactly
// one answer, the one that the model says; what is shown is what the model shows;
// nobody is granted what was neither shown to who said yes nor matches what was
// saved; and nothing is left in the end.
//
// Seen to fail: with a reject that settles the line; with approvals of another
// plugin heeded; with expired ones heeded; with a release of whatever the plugin asks;
// with a store that fails taken for one that approves; without the refreshing.
func TestLaw35Model(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Behind an interface, since a bubble's T has no deadline to give; and with short
		// times, since rapid counts the bubble's as its own.
		rapid.Check(struct{ rapid.TB }{t}, func(rt *rapid.T) {
			store := new(fragile)
			q := NewQueue(QueueOptions{Approvals: store, Timeout: modelTimeout})
			m := new(queueModel)
			var all []*modelAsked

			pick := func(rt *rapid.T) (*modelAsked, string) {
				pending := q.Pending()
				if len(pending) == 0 {
					rt.Skip("nothing is shown")
				}
				i := rapid.IntRange(0, len(pending)-1).Draw(rt, "which")
				return m.shown()[i], pending[i].ID
			}
			rt.Repeat(map[string]func(*rapid.T){
				"ask": func(rt *rapid.T) {
					r := &modelAsked{
						call:      fmt.Sprint(len(all)),
						session:   rapid.SampledFrom([]string{"s", "t"}).Draw(rt, "session"),
						plugin:    rapid.SampledFrom([]string{"p", "q"}).Draw(rt, "plugin"),
						resources: rapid.SampledFrom([]string{"a", "b", "ab"}).Draw(rt, "resources"),
						save:      rapid.SampledFrom([]string{"", "a", "b", "ab", "*"}).Draw(rt, "save"),
						expires:   time.Now().Add(modelTimeout), got: make(chan Reply, 2),
					}
					if len(m.asked) > 0 && rapid.Bool().Draw(rt, "the same") {
						other := rapid.SampledFrom(m.asked).Draw(rt, "as")
						r.session, r.plugin, r.resources, r.save = other.session, other.plugin, other.resources, other.save
					}
					ctx, cancel := context.WithCancel(t.Context())
					r.cancel = cancel
					all = append(all, r)
					if !store.broken && m.approved(r) {
						r.want = &yes
					} else {
						m.asked = append(m.asked, r)
					}
					go func() {
						reply, _ := q.Ask(ctx, r.request())
						r.got <- reply
					}()
				},
				"cancel": func(rt *rapid.T) {
					if len(m.asked) == 0 {
						rt.Skip("nobody waits")
					}
					r := rapid.SampledFrom(m.asked).Draw(rt, "who")
					r.cancel()
					m.answered(r, Reply{Kind: tool.KindCancelled})
				},
				"once": func(rt *rapid.T) {
					r, id := pick(rt)
					if released, err := q.Reply(t.Context(), id, Answer{Kind: Once}); err != nil || len(released) > 0 {
						rt.Fatalf("once: %v, %v", released, err)
					}
					m.answered(r, yes)
					m.refresh(r.looks())
				},
				"reject": func(rt *rapid.T) {
					r, id := pick(rt)
					if released, err := q.Reply(t.Context(), id, Answer{Kind: Reject}); err != nil || len(released) > 0 {
						rt.Fatalf("reject: %v, %v", released, err)
					}
					m.answered(r, declined)
					m.refresh(r.looks())
				},
				"always": func(rt *rapid.T) {
					r, id := pick(rt)
					answer := Answer{Kind: Always, Expires: rapid.SampledFrom([]time.Duration{time.Hour, modelTimeout / 2}).Draw(rt, "expires")}
					released, err := q.Reply(t.Context(), id, answer)
					switch {
					case r.save == "":
						if !errors.Is(err, ErrNotSavable) {
							rt.Fatalf("always: %v, want ErrNotSavable", err)
						}
						return
					case store.broken:
						if !errors.Is(err, errBroken) {
							rt.Fatalf("always: %v, want the store's error", err)
						}
						return
					case err != nil:
						rt.Fatalf("always: %v", err)
					}
					// The same words replace what they said before.
					m.saved = slices.DeleteFunc(m.saved, func(a modelApproval) bool { return a.plugin == r.plugin && a.patterns == r.save })
					m.saved = append(m.saved, modelApproval{r.plugin, r.save, time.Now().Add(answer.Expires)})
					m.answered(r, yes)
					others := m.settle(yes, func(other *modelAsked) bool { return other.plugin == r.plugin && m.approved(other) })
					if len(others) != len(released) {
						rt.Fatalf("always released %d, want %d", len(released), len(others))
					}
					m.refresh(r.looks())
				},
				"reject session": func(rt *rapid.T) {
					session := rapid.SampledFrom([]string{"s", "t"}).Draw(rt, "session")
					want := m.settle(declined, func(r *modelAsked) bool { return r.session == session })
					if got := q.RejectSession(session, "", ""); got != len(want) {
						rt.Fatalf("rejected %d, want %d", got, len(want))
					}
				},
				"wait": func(rt *rapid.T) {
					time.Sleep(rapid.SampledFrom([]time.Duration{modelTimeout / 10, modelTimeout / 3, modelTimeout}).Draw(rt, "how long"))
					m.settle(Reply{Kind: tool.KindTimedOut}, func(r *modelAsked) bool { return !time.Now().Before(r.expires) })
				},
				"break or mend": func(*rapid.T) { store.broken = !store.broken },
				"":              func(rt *rapid.T) { m.check(rt, q, all) },
			})
			for _, r := range all {
				r.cancel()
			}
			m.settle(Reply{Kind: tool.KindCancelled}, func(*modelAsked) bool { return true })
			m.check(rt, q, all)
			empty(t, q)
		})
	})
}

func (m *modelAsked) request() Request {
	r := asks(m.session, m.call)
	r.Caller.Plugin = m.plugin
	for _, resource := range m.resources {
		r.Resources = append(r.Resources, string(resource))
	}
	for _, pattern := range m.save {
		r.Save = append(r.Save, string(pattern))
	}
	return r
}

// check compares what is shown and what was answered.
func (m *queueModel) check(rt *rapid.T, q *Queue, all []*modelAsked) {
	synctest.Wait()
	var got, want []string
	for _, p := range q.Pending() {
		got = append(got, fmt.Sprint(p.Request.Caller.Identity.Call, p.Behind, p.Expires))
	}
	for _, r := range m.shown() {
		behind := -1
		for _, other := range m.asked {
			if other.looks() == r.looks() {
				behind++
			}
		}
		want = append(want, fmt.Sprint(r.call, behind, r.expires))
	}
	if !slices.Equal(got, want) {
		rt.Fatalf("shown are\n%v, want\n%v", got, want)
	}
	for _, r := range all {
		switch answered := len(r.got); {
		case r.want == nil && answered != 0:
			rt.Fatalf("%s was answered with %+v and should wait", r.call, <-r.got)
		case r.want != nil && answered != 1:
			rt.Fatalf("%s was answered %d times, want once: %+v", r.call, answered, *r.want)
		case r.want != nil:
			reply := <-r.got
			if r.got <- reply; reply.Granted != r.want.Granted || reply.Kind != r.want.Kind {
				rt.Fatalf("%s was answered with %+v, want %+v", r.call, reply, *r.want)
			}
		}
	}
}
