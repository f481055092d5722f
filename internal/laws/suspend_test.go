package laws

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/tool/registry"
)

// A call that waits for a person is kept with its executor, also when it asks while it executes: it is resumed, withdrawn, or
// ends with its plugin, and it ends once. Seen to fail: with an outcome given twice.
func TestLaw37Suspension(t *testing.T) {
	everyTransportWith(t, settings{grants: services()}, func(t *testing.T, w *world) {
		p := w.peer("a")
		p.register(map[string]spec{"x": {Says: "x"}})
		replies := make(chan permission.Reply, 1)
		w.approver.answers(func(ctx context.Context, r permission.Request) (permission.Reply, error) {
			if r.Resources[0] == "*" { // that it may be called at all
				return permission.Reply{Granted: true}, nil
			}
			select {
			case reply := <-replies:
				return reply, nil
			case <-ctx.Done():
				return permission.Reply{}, context.Cause(ctx)
			}
		})
		suspend := func() (call, handle string) {
			t.Helper()
			r := w.request("x", order{Do: "assert", Text: "later"}.String())
			r.SuspendAfter = time.Millisecond
			w.want(w.callIn(context.Background(), w.Capture(), r), "suspended, ran true")
			all := w.Suspended()
			if len(all) != 1 || all[0].Identity != r.Identity || all[0].Tool != "a/x" || len(all[0].Requests) != 1 || all[0].Requests[0].Resources[0] != "later" {
				t.Fatalf("suspended are %+v", all)
			}
			return r.Identity.Call, all[0].Handle
		}
		resume := func(call, handle string) ended {
			s, err := w.Resume(context.Background(), "s", handle, patience)
			return ended{s, err, call}
		}

		call, handle := suspend()
		if _, err := w.Resume(context.Background(), "s", handle, time.Millisecond); err == nil || !strings.Contains(err.Error(), "suspended") {
			t.Errorf("resumed without an answer: %v", err)
		}
		replies <- permission.Reply{Granted: true}
		w.want(resume(call, handle), `completed: "went on" [text went on]`)
		w.want(resume(call, handle), "error: "+registry.ErrNotSuspended.Error())
		if got := w.did(call); got != "execute, asserted" {
			t.Errorf("it did %s", got)
		}

		call, handle = suspend()
		replies <- permission.Reply{Reason: "not like that"}
		w.want(resume(call, handle), `rejected, declined, ran true: a/x of "later" was declined: not like that`)

		call, handle = suspend()
		s, err := w.Withdraw(context.Background(), "s", handle)
		w.want(ended{s, err, call}, "rejected, cancelled, ran true: the call was withdrawn while it waited for approval")
		w.want(resume(call, handle), "error: "+registry.ErrNotSuspended.Error())

		call, handle = suspend()
		if p.crash(); w.over == fake {
			replies <- permission.Reply{Granted: true}
			w.want(resume(call, handle), `completed: "went on"…`)
			return
		}
		want := "rejected, unavailable, ran true: the tool is unavailable" // it was closed
		if w.over == process {
			want = "error, crashed, ran true: the tool is unavailable"
		}
		w.want(resume(call, handle), want)
		if left := w.Suspended(); len(left) > 0 {
			t.Errorf("%d are left", len(left))
		}
	})
}
