package laws

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

func effects(e tool.Effects) uint16 { return uint16(e) }

// Effects, irreversibility, requests and targets may depend on the arguments, within what was declared; an answer beyond
// is a contradiction; unknown means all. Seen to fail: with a contradiction let through.
func TestLaw23Effects(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		w.peer("a").register(map[string]spec{
			"declared": {Effects: effects(tool.Read | tool.Network), Prepares: true},
			"unknown":  {Prepares: true},
			"none":     {Effects: effects(tool.None), Irreversible: true},
		})
		shown := map[string]string{}
		for _, d := range w.definitions() {
			shown[d.Name] = fmt.Sprint(d.Effects, " ", d.Irreversible)
		}
		for name, want := range map[string]string{
			"declared": "read,network false", "unknown": tool.AllEffects.String() + " false", "none": "none true",
		} {
			if shown[name] != want {
				t.Errorf("%s is shown with %q, want %q", name, shown[name], want)
			}
		}
		for i, tt := range []struct {
			name string
			p    preparation
			want tool.Effects
		}{
			{"declared", preparation{Effects: effects(tool.Read)}, tool.Read},
			{"declared", preparation{Effects: effects(tool.None), Irreversible: true}, tool.None},
			{"declared", preparation{}, tool.Read | tool.Network},
			{"unknown", preparation{Effects: effects(tool.Process)}, tool.Process},
			{"unknown", preparation{}, tool.AllEffects},
		} {
			w.want(w.call(tt.name, order{Prepare: &tt.p}), `completed: ""…`)
			if got := w.approver.asked[i].Caller; got.Effects.Effective() != tt.want.Effective() || got.Irreversible != tt.p.Irreversible {
				t.Errorf("%s %+v: asked with %v, irreversible %t", tt.name, tt.p, got.Effects, got.Irreversible)
			}
		}
		for _, beyond := range []tool.Effects{tool.Write, tool.Read | tool.Process, tool.AllEffects} {
			e := w.call("declared", order{Prepare: &preparation{Effects: effects(beyond), Action: true}})
			w.want(e, "error, contradiction, ran false: …")
			if got := w.did(e.call); got != "prepare, discard" {
				t.Errorf("%v: it did %s", beyond, got)
			}
		}
		told := w.contradictionsSoFar()
		if len(told) != 3 || told[0].During != "prepare" || told[0].Wanted != tool.Write || told[0].Tool != "a/declared" || told[0].Identity.Session != "s" {
			t.Errorf("told of %+v", told)
		}
	})
}

// What exceeds the call's effects is refused by the brokered services, and reported. Seen to fail: with the services not
// looking at the effects.
func TestLaw24EffectsAreEnforced(t *testing.T) {
	everyTransportWith(t, settings{grants: services()}, func(t *testing.T, w *world) {
		if w.over == fake {
			t.Skip("a fake has no brokered services")
		}
		w.write("f", "text of f")
		w.peer("a").register(map[string]spec{
			"reads": {Effects: effects(tool.Read)}, "computes": {Effects: effects(tool.None)},
			"varies": {Effects: effects(tool.Read | tool.Network), Prepares: true},
		})
		read := order{Do: "read", Text: "f"}
		w.want(w.call("reads", read), `completed: "text of f"…`)
		less := read
		less.Prepare = &preparation{Effects: effects(tool.Network)}
		more := read
		more.Prepare = &preparation{Effects: effects(tool.Read)}
		w.want(w.call("varies", more), `completed: "text of f"…`)
		for _, tt := range []struct {
			name string
			o    order
		}{{"computes", read}, {"varies", less}} {
			before := len(w.contradictionsSoFar())
			e := w.call(tt.name, tt.o)
			w.want(e, "error, internal, ran true: …")
			if !strings.Contains(e.cause(), "takes the effect read") {
				t.Errorf("%s: the operator reads %s", tt.name, e.cause())
			}
			if told := w.contradictionsSoFar()[before:]; len(told) != 1 || told[0].During != "filesystem.read" || told[0].Wanted != tool.Read || told[0].Identity.Call != e.call {
				t.Errorf("%s: told of %+v", tt.name, told)
			}
		}
		// Asking is no effect.
		w.want(w.call("computes", order{Do: "assert", Text: "x"}), `completed: "went on"…`)
	})
}

// During Prepare the services only read, and nothing is asked; what is asked afterwards is what the prepared action
// needs. Seen to fail: with the gate of the execution given to the preparation, and with the review not shown.
func TestLaw25PreparingChangesNothing(t *testing.T) {
	asks := []rule{ask("read", "private")}
	everyTransportWith(t, settings{grants: services(), rules: asks}, func(t *testing.T, w *world) {
		w.write("f", "text of f")
		w.write("private", "text")
		w.peer("a").register(map[string]spec{"x": {Says: "x", Prepares: true}})
		e := w.call("x", order{Prepare: &preparation{Do: "assert", Text: "early"}})
		w.want(e, "error, internal, ran false: …")
		for _, q := range w.approver.questions() {
			t.Errorf("asked %q while it was prepared", q)
		}
		if w.over != fake {
			e = w.call("x", order{Prepare: &preparation{Do: "read", Text: "f"}})
			w.want(e, `completed: "x"…`)
			if d := w.deeds(e.call); len(d) != 3 || d[1].Text != "text of f <nil>" {
				t.Errorf("it did %+v, want that it read", d)
			}
			// What would be asked for is refused.
			w.want(w.call("x", order{Prepare: &preparation{Do: "read", Text: "private"}}), `rejected, nobody_to_ask, ran false: …`)
		}
		before := len(w.approver.questions())
		w.want(w.call("x", order{Prepare: &preparation{
			Action: true, Review: "will replace f", Effects: effects(tool.Write), Irreversible: true,
			Requests: []tool.PermissionRequest{{Action: "a/x", Resources: []string{"f", "g"}}, {Action: "a/more", Resources: []string{"h"}}},
		}}), `completed: "x"…`)
		if got := strings.Join(w.approver.questions()[before:], "; "); got != "a/x f,g; a/more h" {
			t.Errorf("asked %q, want the requests of the preparation, in order", got)
		}
		for _, r := range w.approver.asked[before:] {
			if r.Caller.Review != "will replace f" || !r.Caller.Irreversible || r.Caller.Effects != tool.Write {
				t.Errorf("asked with %+v, want what describes the action", r.Caller)
			}
		}
	})
}

// A prepared action commits at most once, for what was approved; not committed, it is discarded, once; it dies with its
// process and is never prepared again behind the user's back. Seen to fail: with an action kept though permission was
// refused, and with one that is lost taken as committed.
func TestLaw26OneShot(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		p := w.peer("a")
		p.register(map[string]spec{"x": {Says: "x", Prepares: true}})
		action := order{Prepare: &preparation{Action: true}}
		e := w.call("x", action)
		w.want(e, `completed: "x"…`)
		if got := w.did(e.call); got != "prepare, commit" {
			t.Errorf("it did %s", got)
		}
		w.approver.answers(func(context.Context, permission.Request) (permission.Reply, error) {
			return permission.Reply{Reason: "not like that"}, nil
		})
		e = w.call("x", action)
		w.want(e, `rejected, declined, ran false: …`)
		if got := w.did(e.call); got != "prepare, discard" {
			t.Errorf("when it was declined it did %s", got)
		}
		replies := w.approver.waits()
		r := w.begin(w.request("x", action.String()))
		w.await(r.call, "prepare")
		asked := len(w.approver.questions())
		eventually(t, "it is asked", func() bool {
			return len(w.approver.questions()) >= asked && asked >= 3 || len(w.approver.questions()) >= 3
		})
		r.cancel(errors.New("enough"))
		w.want(r.wait(t), "interrupted, ran false: enough")
		eventually(t, "it is discarded", func() bool { return w.did(r.call) == "prepare, discard" })

		// The process ends between the approval and the commit.
		r = w.begin(w.request("x", action.String()))
		eventually(t, "it is asked", func() bool { return len(w.approver.questions()) == 4 })
		p.crash()
		p.start()
		p.register(map[string]spec{"x": {Says: "x", Prepares: true}}) // the same tool
		replies <- permission.Reply{Granted: true}
		if w.over == fake { // whose action is in this process, and lives
			w.want(r.wait(t), `completed: "x"…`)
			return
		}
		w.want(r.wait(t), `rejected, unavailable, ran true: …`)
		if n := strings.Count(w.did(r.call), "prepare") + strings.Count(w.did(r.call), "commit"); n != 1 {
			t.Errorf("it did %s, want that it was prepared once and never committed", w.did(r.call))
		}
	})
}

// Reads at the head of a batch run together; anything else when what stands before it has ended; settlements are in call
// order. Seen to fail: with every call at the head, and with none.
func TestLaw29Order(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		w.peer("a").register(map[string]spec{
			"read": {Says: "read", Effects: effects(tool.Read)}, "write": {Says: "write", Effects: effects(tool.Write)},
			"prepares": {Says: "prepares", Effects: effects(tool.Write), Prepares: true},
		})
		var requests []registry.Request
		for _, name := range []string{"read", "read", "nothing", "read", "write", "read", "prepares", "read"} {
			requests = append(requests, w.request(name, `{"do":"wait","prepare":{"action":true}}`))
		}
		outcomes := make(chan []registry.Outcome, 1)
		go func() { outcomes <- w.Capture().Batch(context.Background(), requests) }()
		for _, i := range []int{3, 1, 0} { // ended in another order
			w.await(requests[i].Identity.Call, "execute")
		}
		for i, stage := range [][]int{{3, 1, 0}, {4}, {5}, {6}, {7}} {
			if i > 0 {
				w.await(requests[stage[0]].Identity.Call, "e")
			}
			for _, later := range requests[stage[0]+1:] {
				if i > 0 && w.did(later.Identity.Call) != "" {
					t.Errorf("%s began while %s ran", later.Identity.Call, requests[stage[0]].Identity.Call)
				}
			}
			for _, n := range stage {
				w.release(requests[n].Identity.Call)
			}
		}
		var got []string
		for i, o := range <-outcomes {
			got = append(got, fmt.Sprintf("%.20s", ended{o.Settlement, o.Err, requests[i].Identity.Call}.String()))
		}
		want := "completed: \"read\" [t; completed: \"read\" [t; rejected, unknown_to; completed: \"read\" [t; " +
			"completed: \"write\" [; completed: \"read\" [t; completed: \"prepares; completed: \"read\" [t"
		if strings.Join(got, "; ") != want {
			t.Errorf("got %s\nwant %s", strings.Join(got, "; "), want)
		}
	})
}

// Targets choose the instructions that are nearest to them, each given once per session; those outside the root are
// ignored, and they are no permission. Seen to fail: with the files given again, and with those of a failed call given.
func TestLaw30ContextTargets(t *testing.T) {
	everyTransportWith(t, settings{grants: services()}, func(t *testing.T, w *world) {
		w.write("AGENTS.md", "of the root")
		w.write("sub/deep/AGENTS.md", "of deep")
		w.write("other/AGENTS.md", "of other")
		w.peer("a").register(map[string]spec{
			"x": {Says: "x", Targets: []string{"path", "paths"}}, "prepares": {Says: "x", Prepares: true}, "none": {Says: "x"},
		})
		given := func(session, name string, o order) string {
			t.Helper()
			r := w.request(name, o.String())
			r.Identity.Session, r.Instructions = session, true
			e := w.callIn(context.Background(), w.Capture(), r)
			w.want(e, "…")
			var all []string
			for _, i := range e.Instructions {
				all = append(all, i.Path+": "+i.Text)
			}
			return strings.Join(all, "; ")
		}
		for _, tt := range []struct {
			session, name, want string
			o                   order
		}{
			{"1", "none", "", order{Path: "sub/f"}},
			{"1", "x", "AGENTS.md: of the root; sub/deep/AGENTS.md: of deep", order{Path: "sub/deep/f"}},
			{"1", "x", "", order{Path: "sub/deep/f"}},
			{"1", "x", "other/AGENTS.md: of other", order{Paths: []string{"sub/deep/g", "other/h", "../outside", "/etc/passwd"}}},
			{"2", "x", "AGENTS.md: of the root", order{Path: "f"}},
			{"3", "prepares", "AGENTS.md: of the root; other/AGENTS.md: of other", order{Prepare: &preparation{Targets: []string{"other"}}}},
			{"4", "x", "", order{Path: "../outside"}},
			{"5", "x", "", order{Do: "fail", Path: "f"}},
		} {
			if got := given(tt.session, tt.name, tt.o); got != tt.want {
				t.Errorf("session %s, %s %s: got %q, want %q", tt.session, tt.name, tt.o, got, tt.want)
			}
		}
		for _, q := range w.approver.questions() {
			if strings.Contains(q, "sub") || strings.Contains(q, "other") {
				t.Errorf("asked %q: a target is no resource", q)
			}
		}
	})
}

// Progress of a call is passed on in order, growing, and without the terminal's control. Seen to fail: with every report
// passed on.
func TestProgress(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		w.peer("a").register(map[string]spec{"x": {}})
		r := w.request("x", order{Do: "progress", Times: 500, Text: "step\x1b[2J"}.String())
		var reports []tool.Progress
		r.Progress = func(p tool.Progress) { reports = append(reports, p) }
		start := time.Now()
		w.want(w.callIn(context.Background(), w.Capture(), r), `completed: "done"…`)
		most := 25 + int(20*time.Since(start).Seconds())
		if len(reports) == 0 || len(reports) > most || reports[len(reports)-1].Done != 500 {
			t.Fatalf("%d reports, want up to %d and the last one", len(reports), most)
		}
		last := 0.0
		for _, p := range reports {
			if p.Done <= last || strings.Contains(p.Message, "\x1b") {
				t.Errorf("report %+v after %v", p, last)
			}
			last = p.Done
		}
	})
}
