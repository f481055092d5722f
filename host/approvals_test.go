package host_test

import (
	"context"
	"testing"
	"time"

	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/state"
	"github.com/toolhost/toolhost/tool"
)

// What was approved for good through one host is not asked for in the next, in that
// Location, and is in another one; once it is revoked it is asked for again (laws 34,
// 45).
//
// Seen to fail: with an engine that is not given the approvals; with a key without the
// root.
func TestLaw34ApprovedForGood(t *testing.T) {
	store := state.New(state.Options{Dir: t.TempDir()})
	defer func() { _ = store.Close() }()
	queue := permission.NewQueue(permission.QueueOptions{Approvals: host.Approvals(store)})
	cfg := configure(t, []string{"a", "b"})
	// ask calls the tool, answers what is asked, and reports whether anything was.
	ask := func(h *host.Host, location string, answer permission.AnswerKind) (asked bool, status tool.Status) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		changes, stop := queue.Watch()
		defer stop()
		outcome := make(chan tool.Status, 1)
		go func() {
			s, err := call(ctx, activate(t, h, location), "hello")
			if err != nil {
				t.Error(err)
			}
			outcome <- s.Status
		}()
		for {
			select {
			case <-changes:
				for _, p := range queue.Pending() {
					asked = true
					if _, err := queue.Reply(ctx, p.ID, permission.Answer{Kind: answer, By: "tester"}); err != nil {
						t.Error(err)
					}
				}
			case status := <-outcome:
				return asked, status
			}
		}
	}
	with := func(approver permission.Approver, do func(*host.Host)) {
		t.Helper()
		o := options()
		o.State, o.Approver = store, approver
		h, err := host.Open(context.Background(), cfg, o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Register("program", says("hello")); err != nil {
			t.Fatal(err)
		}
		do(h)
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	with(queue, func(h *host.Host) {
		if asked, status := ask(h, "a", permission.Once); !asked || status != tool.Completed {
			t.Errorf("the first call: asked %v, %s", asked, status)
		}
		if asked, status := ask(h, "a", permission.Always); !asked || status != tool.Completed {
			t.Errorf("after a once: asked %v, %s", asked, status)
		}
		if asked, status := ask(h, "a", permission.Reject); asked || status != tool.Completed {
			t.Errorf("after an always: asked %v, %s", asked, status)
		}
	})
	with(nil, func(h *host.Host) {
		if asked, status := ask(h, "a", permission.Reject); asked || status != tool.Completed {
			t.Errorf("with nobody to ask: asked %v, %s", asked, status)
		}
	})
	with(queue, func(h *host.Host) {
		if asked, status := ask(h, "a", permission.Reject); asked || status != tool.Completed {
			t.Errorf("in the next host: asked %v, %s", asked, status)
		}
		if asked, status := ask(h, "b", permission.Reject); !asked || status != tool.Rejected {
			t.Errorf("in another Location: asked %v, %s", asked, status)
		}
		if n, err := store.RevokeApprovals(context.Background(), state.ApprovalFilter{}); n != 1 || err != nil {
			t.Errorf("revoked %d, %v", n, err)
		}
		if asked, status := ask(h, "a", permission.Reject); !asked || status != tool.Rejected {
			t.Errorf("after it was revoked: asked %v, %s", asked, status)
		}
	})
}
