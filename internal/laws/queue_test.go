package laws

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/state"
	"github.com/toolhost/toolhost/tool"
)

// People who answer by the queue of a world.

// queued are the settings of a world in which they do.
func queued(rules ...rule) settings { return settings{queued: true, rules: rules} }

// An answer of a person.
func says(kind permission.AnswerKind) permission.Answer {
	return permission.Answer{Kind: kind, By: "tester"}
}

// pending waits until so many requests can be answered.
func (w *world) pending(n int) []permission.Pending {
	w.t.Helper()
	var all []permission.Pending
	eventually(w.t, "requests that can be answered", func() bool {
		all = w.queue.Pending()
		return len(all) == n
	})
	return all
}

// about is the one that can be answered about the resource, and aboutIn the one of a session.
func (w *world) about(resource string) permission.Pending {
	w.t.Helper()
	return w.one(func(p permission.Pending) bool { return strings.Join(p.Request.Resources, ",") == resource })
}

func (w *world) aboutIn(session, resource string) permission.Pending {
	w.t.Helper()
	return w.one(func(p permission.Pending) bool {
		return p.Request.Caller.Identity.Session == session && strings.Join(p.Request.Resources, ",") == resource
	})
}

func (w *world) one(which func(permission.Pending) bool) permission.Pending {
	w.t.Helper()
	all := w.queue.Pending()
	i := slices.IndexFunc(all, which)
	if i < 0 {
		w.t.Fatalf("it is not asked for: %+v", all)
	}
	return all[i]
}

// reply answers, and gives what was released by it.
func (w *world) reply(id string, a permission.Answer) []string {
	w.t.Helper()
	released, err := w.queue.Reply(context.Background(), id, a)
	if err != nil {
		w.t.Fatalf("answer %s with %s: %v", id, a.Kind, err)
	}
	return released
}

// answered makes a call, gives every question of it the answer, and says what was asked.
func (w *world) answered(name, input string, a permission.Answer) (asked []string, e ended) {
	w.t.Helper()
	changes, stop := w.queue.Watch()
	defer stop()
	r := w.begin(w.request(name, input))
	over := time.After(patience)
	for {
		select {
		case <-changes:
			for _, p := range w.queue.Pending() {
				asked = append(asked, p.Request.Action+" "+strings.Join(p.Request.Resources, ","))
				w.reply(p.ID, a)
			}
		case e := <-r.ended:
			return asked, e
		case <-over:
			w.t.Fatalf("call %s does not end", r.call)
		}
	}
}

// wantAsked makes a call, declines what is asked, and compares it with what is wanted; without a question the call has
// to be completed.
func (w *world) wantAsked(name, input string, want ...string) {
	w.t.Helper()
	asked, e := w.answered(name, input, says(permission.Reject))
	if got := strings.Join(asked, "; "); got != strings.Join(want, "; ") {
		w.t.Errorf("%s %s: asked %q, want %q", name, input, got, want)
	}
	if status := map[bool]tool.Status{true: tool.Completed, false: tool.Rejected}[len(want) == 0]; e.Status != status {
		w.t.Errorf("%s %s: got %s, want %s", name, input, e, status)
	}
}

// saved are the approvals of the state, oldest first.
func (w *world) saved() []state.Approval {
	w.t.Helper()
	all, err := w.state.Approvals(context.Background(), state.ApprovalFilter{})
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// declines makes every question be answered with no.
func (w *world) declines() {
	w.approver.answers(func(context.Context, permission.Request) (permission.Reply, error) { return permission.Reply{}, nil })
}
