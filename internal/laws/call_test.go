package laws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolhost/toolhost/plugin/sdk"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// Invalid input never reaches the tool, which gets exactly the bytes that were validated; invalid output never becomes a
// success. Seen to fail: with the input not validated, and with the output decoded only.
func TestLaw11InvalidValues(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		w.peer("a").register(map[string]spec{
			"in": {Input: `{"type":"object","properties":{"do":{"type":"string"},"path":{"type":"string"},"id":{"type":"integer"}}}`},
			// What is valid encoded is not what is valid decoded: each direction has its own schema.
			"out":        {Output: `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`},
			"structured": {Output: `{"type":"string"}`, Structured: `{"type":"integer"}`},
		})
		for _, input := range []string{`{"path":5}`, `{"path":"a","PATH":"b"}`, `{"path":"a","path":"b"}`, `{"id":"10"}`, `[]`, `{`, `5`} {
			e := w.callRaw("in", input)
			w.want(e, `rejected, invalid_input, ran false: input of "in" is invalid: …`)
			if d := w.did(e.call); d != "" {
				t.Errorf("%s reached the tool, which did %s", input, d)
			}
		}
		for _, input := range []string{`{"do":"show","id":9007199254740993}`, " {\"do\" :\t\"show\", \"id\": 1.0, \"x\":1e400} "} {
			e := w.callRaw("in", input)
			w.want(e, fmt.Sprintf("completed: %s…", quoted(input)))
			if d := w.deeds(e.call); len(d) != 1 || d[0].Input != input {
				t.Errorf("the tool saw %+v, want %q", d, input)
			}
		}
		for _, tt := range []struct {
			name string
			a    answer
			want string
		}{
			{"out", answer{Output: `{"n":1}`}, `completed: {"n":1}`},
			{"out", answer{Output: `{"n":"1"}`}, ""}, {"out", answer{Output: `{"n":1,"n":2}`}, ""}, {"out", answer{Output: `{"n":1,"N":2}`}, ""},
			{"out", answer{Content: []tool.Content{tool.Text("no value")}}, ""}, {"out", answer{Output: `{`}, ""},
			{"structured", answer{Output: `"text"`, Structured: `5`}, `completed: 5 [text text]`},
			{"structured", answer{Output: `"text"`, Structured: `"5"`}, ""}, {"structured", answer{Output: `5`, Structured: `5`}, ""},
			{"structured", answer{Output: `"text"`}, ""},
		} {
			e := w.call(tt.name, order{Do: "result", Result: &tt.a})
			if tt.want == "" {
				tt.want = "error, invalid_output, ran true: the tool is unavailable"
			}
			w.want(e, tt.want)
		}
	})
}

// The four ids are exactly those of the runner; an incomplete identity is refused before anything happens. Seen to fail:
// with an incomplete identity taken, and with two ids swapped by the SDK.
func TestLaw12DurableIdentity(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		w.peer("a").register(map[string]spec{"x": {}, "prepares": {Prepares: true}, "reads": {Effects: uint16(tool.Read)}})
		whole := tool.Identity{Session: "sess\u00efon/1", Agent: "agent 7", Message: "msg_01", Call: "call:\u2603"}
		hostMade := whole
		hostMade.HostMade = true
		for _, id := range []tool.Identity{whole, hostMade} {
			r := w.request("x", `{"do":"who"}`)
			r.Identity = id
			w.want(w.callIn(context.Background(), w.Capture(), r), "completed: "+string(quoted(id)))
			r = w.request("prepares", `{"do":"who","prepare":{"action":true}}`)
			r.Identity = id
			w.want(w.callIn(context.Background(), w.Capture(), r), "completed: "+string(quoted(id)))
		}
		for _, r := range []struct{ want, got tool.Identity }{{whole, w.approver.asked[0].Caller.Identity}, {hostMade, w.approver.asked[2].Caller.Identity}} {
			if r.got != r.want {
				t.Errorf("asked for %+v, want %+v", r.got, r.want)
			}
		}
		for i := range 5 {
			id := whole
			part := []*string{&id.Session, &id.Agent, &id.Message, &id.Call, &id.Call}[i]
			if *part = ""; i == 4 {
				*part = strings.Repeat("x", tool.MaxID+1)
			}
			before := len(w.deeds(""))
			r := w.request("reads", "") // of which the journal, which refuses it too, does not hear
			r.Identity = id
			w.want(w.callIn(context.Background(), w.Capture(), r), "error, internal, ran false: …")
			if len(w.deeds("")) != before {
				t.Errorf("%+v: something ran", id)
			}
		}
	})
}

// Callbacks carry the token of a live call: what a call keeps for later is worth nothing. Seen to fail: with leases that
// do not end.
func TestLaw12CallbacksOfLiveCalls(t *testing.T) {
	everyTransportWith(t, settings{grants: services()}, func(t *testing.T, w *world) {
		if w.over == fake {
			t.Skip("a fake makes no callbacks: it holds the gate of its call itself")
		}
		w.peer("a").register(map[string]spec{"x": {}})
		e := w.call("x", order{Do: "assert", Text: "during"})
		w.want(e, `completed: "went on"…`)
		r := w.begin(w.request("x", order{Do: "assert when cancelled", Text: "after"}.String()))
		w.await(r.call, "execute")
		r.cancel(errors.New("enough"))
		w.want(r.wait(t), "interrupted, ran true: enough")
		w.await(r.call, "asserted")
		for _, d := range w.deeds(r.call) {
			if d.What == "asserted" && d.Text == "<nil>" {
				t.Error("a call that was over was granted something")
			}
		}
		for _, q := range w.approver.questions() {
			if strings.Contains(q, "after") {
				t.Errorf("asked %q for a call that was over", q)
			}
		}
	})
}

// An unknown, rejected or hung call leaves every other call's outcome as it is; a panic, or a crash, ends the calls of
// its own incarnation and no others, operationally. Seen to fail: with a failing call that takes its registration away,
// and with a crash reported as any other error.
func TestLaw13IsolationOfCalls(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		a, b := w.peer("a"), w.peer("b")
		a.register(map[string]spec{"x": {Says: "x"}})
		b.register(map[string]spec{"y": {Says: "y"}})
		mine, others := w.begin(w.request("x", `{"do":"wait"}`)), w.begin(w.request("y", `{"do":"wait"}`))
		w.await(mine.call, "execute")
		w.await(others.call, "execute")
		w.want(w.call("nothing", order{}), `rejected, unknown_tool, ran false: …`)
		w.want(w.callRaw("x", `[]`), `rejected, invalid_input, ran false: …`)
		w.want(w.call("x", order{Do: "error", Text: "x"}), `error, internal, ran true: …`)
		w.want(w.call("x", order{}), `completed: "x"…`)
		w.want(w.call("x", order{Do: "panic", Text: "boom"}), `error, internal, ran true: the tool is unavailable`)
		w.want(w.call("x", order{}), `completed: "x"…`)
		switch w.over {
		case fake: // has no process that could end
			w.release(mine.call)
			w.want(mine.wait(t), `completed: "x"…`)
		case grpc: // closing is all that can be done to it
			a.crash()
			w.want(mine.wait(t), `rejected, unavailable, ran true: …`)
		case process:
			w.want(w.call("x", order{Do: "exit"}), `error, crashed, ran true: the tool is unavailable`)
			w.want(mine.wait(t), `error, crashed, ran true: the tool is unavailable`)
			w.want(w.call("x", order{}), `rejected, unavailable, ran false: …`)
		}
		w.want(w.call("y", order{}), `completed: "y"…`)
		w.release(others.call)
		w.want(others.wait(t), `completed: "y"…`)
	})
}

// Cancelling reaches the executor, ends the call within a bound, and says nothing to the model, whatever the tool makes
// of it. Seen to fail: with a cancelled call settled, with an executor waited for, and with the cancelling kept from the
// plugin.
func TestLaw14Interruption(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		w.peer("a").register(map[string]spec{"x": {Says: "x"}, "prepares": {Prepares: true}})
		cause := errors.New("the person went away")
		for _, tt := range []struct{ name, input, reached string }{
			{"x", `{"do":"wait"}`, "execute"}, {"x", `{"do":"fail on cancel"}`, "execute"}, {"x", `{"do":"answer on cancel"}`, "execute"},
			{"prepares", `{"do":"wait","prepare":{"action":true}}`, "commit"}, {"x", `{"do":"ignore cancel"}`, "execute"},
		} {
			r := w.begin(w.request(tt.name, tt.input))
			w.await(r.call, tt.reached)
			start := time.Now()
			r.cancel(cause)
			e := r.wait(t)
			w.want(e, "interrupted, ran true: the person went away")
			if !errors.Is(e.err, cause) || e.Status != "" || e.Content != nil || e.Structured != nil {
				t.Errorf("%s: got %+v, want the cause and nothing else", tt.input, e)
			}
			if took := time.Since(start); took > 5*registry.StopGrace {
				t.Errorf("%s ended %v after it was cancelled", tt.input, took)
			}
			if !strings.Contains(tt.input, "ignore") {
				w.await(r.call, "cancelled")
			}
		}
		r := w.begin(w.request("prepares", `{"prepare":{"do":"wait"}}`))
		w.await(r.call, "prepare")
		r.cancel(cause)
		w.want(r.wait(t), "interrupted, ran false: the person went away")
	})
}

// Every call ends once, and every call that may do more than read is recorded before it starts and when it has ended.
// Seen to fail: with an interruption not recorded, and with reads recorded.
func TestLaw15EndsOnce(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		p := w.peer("a")
		p.register(map[string]spec{
			"reads": {Effects: uint16(tool.Read)}, "writes": {Effects: uint16(tool.Write)}, "unknown": {},
			"prepares": {Prepares: true},
		})
		r := w.begin(w.request("writes", `{"do":"wait"}`))
		w.await(r.call, "execute")
		if got := strings.Join(w.journal(), "; "); got != r.call+" running" {
			t.Errorf("while it runs the journal has %q", got)
		}
		r.cancel(errors.New("enough"))
		w.want(r.wait(t), "interrupted, …")
		w.call("reads", order{})
		w.call("unknown", order{Do: "fail", Text: "no"})
		w.call("prepares", order{Prepare: &preparation{Effects: uint16(tool.Read)}})
		w.call("prepares", order{Do: "error", Prepare: &preparation{Effects: uint16(tool.Write), Action: true}})
		w.callRaw("writes", `[]`)
		if got, want := strings.Join(w.journal(), "; "), "c1 interrupted; c3 failed failure; c5 error internal"; got != want {
			t.Errorf("the journal has %q, want %q", got, want)
		}
		lost := w.begin(w.request("writes", `{"do":"wait"}`))
		w.await(lost.call, "execute")
		if p.crash(); w.over == fake {
			w.release(lost.call)
		}
		lost.wait(t)
		if got := w.journal(); strings.HasSuffix(got[len(got)-1], "running") || len(got) != 4 {
			t.Errorf("after a crash the journal has %q", got)
		}
		if n := len(w.deeds(lost.call)); n > 2 {
			t.Errorf("it ran again: %s", w.did(lost.call))
		}
	})
}

// What cannot be recorded does not run. Seen to fail: with the journal's error ignored.
func TestLaw15UnrecordedDoesNotRun(t *testing.T) {
	everyTransportWith(t, settings{unrecorded: errors.New("the disk is full")}, func(t *testing.T, w *world) {
		w.peer("a").register(map[string]spec{"writes": {Prepares: true}, "reads": {Says: "reads", Effects: uint16(tool.Read)}})
		e := w.call("writes", order{Prepare: &preparation{Action: true}})
		w.want(e, "error, internal, ran false: the tool is unavailable")
		if got := w.did(e.call); got != "prepare, discard" {
			t.Errorf("it did %s", got)
		}
		w.want(w.call("reads", order{}), `completed: "reads"…`)
	})
}

// The projection is what the executor gives back beside the output: without one the output stays structured and a string
// is also text; a structured value may be smaller, has its own schema, and is what is advertised. (That the function of
// the SDK sees no context and no identity is its type: sdk.NewProjected.) Seen to fail: with a string not given as text,
// and with the output's schema advertised where there is one of the structured value.
func TestLaw16Projection(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		w.peer("a").register(map[string]spec{
			"x":       {},
			"smaller": {Output: `{"type":"object","required":["all"]}`, Structured: `{"type":"object","required":["some"]}`},
		})
		for _, tt := range []struct {
			a    answer
			want string
		}{
			{answer{Output: `"text"`}, `completed: "text" [text text]`},
			{answer{Output: `{"a":[1.0,2]}`}, `completed: {"a":[1.0,2]}`},
			{answer{Output: `"text"`, Content: []tool.Content{tool.Text("shown")}}, `completed: "text" [text shown]`},
			{answer{Output: `{}`, Content: []tool.Content{tool.Image([]byte{1, 2}, "image/png"), tool.Link("file:///f", "f")}},
				`completed: {} [image image/png] [resource_link file:///f]`},
			{answer{}, "completed: "}, {answer{Content: []tool.Content{tool.Text("only")}}, "completed:  [text only]"},
		} {
			w.want(w.call("x", order{Do: "result", Result: &tt.a}), tt.want)
		}
		w.want(w.call("smaller", order{Do: "result", Result: &answer{Output: `{"all":1}`, Structured: `{"some":1}`}}), `completed: {"some":1}`)
		w.want(w.call("smaller", order{Do: "result", Result: &answer{Output: `{"all":1}`, Structured: `{"all":1}`}}), `error, invalid_output, …`)
		if got := string(w.definitions()[0].Output); got != `{"type":"object","required":["some"]}` {
			t.Errorf("advertised %s, want the schema of the structured value", got)
		}
	})
}

// A projection of the SDK sees the decoded input and the output, and its panic is operational. Seen to fail: with the
// projected value dropped by the SDK.
func TestLaw16ProjectionOfTheSDK(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		if w.over == fake {
			t.Skip("a fake is made without the SDK")
		}
		w.peer("a").offers(command{Typed: true})
		w.want(w.callRaw("projected", `{"place":"Oslo"}`), `completed: {"mean":2} [text Oslo] [image image/png]`)
		w.want(w.callRaw("whole", `{"place":"Oslo"}`), `completed: {"place":"Oslo","all":[1,2,3]}`)
		e := w.callRaw("breaks", `{"place":"Oslo"}`)
		w.want(e, "error, internal, ran true: the tool is unavailable")
		if !strings.Contains(e.cause(), "in a projection") {
			t.Errorf("the operator reads %s", e.cause())
		}
		for _, d := range w.definitions() {
			if shown := string(d.Output); d.Name == "projected" && !strings.Contains(shown, "mean") {
				t.Errorf("advertised %s, want the schema of the smaller value", shown)
			}
		}
		w.want(w.callRaw("projected", `{"place":5}`), `rejected, invalid_input, …`)
	})
}

// What a handler is given beside its input says whose call it is, and nothing else: no raw input, no service, no helper
// that asserts permissions. A projection is given less. Seen to fail: with the raw input as a field of the call.
func TestInvocationContext(t *testing.T) {
	t.Parallel()
	var fields, methods []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[sdk.Call]()) {
		if f.IsExported() {
			fields = append(fields, f.Name)
		}
	}
	for m := range reflect.TypeFor[sdk.Call]().Methods() {
		methods = append(methods, m.Name)
	}
	if got, want := strings.Join(fields, " "), "SessionID Agent MessageID CallID HostMade Tool"; got != want {
		t.Errorf("fields %s, want %s", got, want)
	}
	if got, want := strings.Join(methods, " "), "Lost Output Progress"; got != want {
		t.Errorf("methods %s, want %s", got, want)
	}
	projects := reflect.TypeOf(sdk.NewProjected[struct{}, int, int]).In(2)
	if got, want := projects.String(), "func(struct {}, int) (int, []tool.Content)"; got != want {
		t.Errorf("a projection is %s, want %s", got, want)
	}
}

// Before hooks run in order, each on the last one's input, and may reject; after hooks get the bounded settlement and the
// paths, and what they make of it stands; one that breaks is contained. Seen to fail: with each hook given the first
// input, and with what hooks made bounded again.
func TestLaw21Hooks(t *testing.T) {
	everyTransport(t, func(t *testing.T, plain *world) {
		var mu sync.Mutex
		var seen []string
		note := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, fmt.Sprintf(format, args...))
		}
		before := func(name string) registry.BeforeHook {
			return registry.BeforeHook{Name: name, Run: func(_ context.Context, call registry.HookCall) (json.RawMessage, error) {
				note("%s %s %s", name, call.Tool, call.Input)
				switch {
				case strings.Contains(string(call.Input), "stop at "+name):
					return nil, errors.New("not today")
				case strings.Contains(string(call.Input), "panic"):
					panic("in a hook")
				}
				return json.RawMessage(strings.Replace(string(call.Input), `"text":"`, `"text":"`+name, 1)), nil
			}}
		}
		after := func(name string) registry.AfterHook {
			return registry.AfterHook{Name: name, Run: func(_ context.Context, _ registry.HookCall, s tool.Settlement, paths []string) (tool.Settlement, error) {
				note("%s %s %d paths, %d bytes", name, s.Status, len(paths), len(s.Content[0].Text)/1000)
				if name == "breaks" {
					panic("in a hook")
				}
				s.Content = append(s.Content, tool.Text(strings.Repeat(name, 100_000)))
				return s, nil
			}}
		}
		w := newWorld(t, plain.over, t.TempDir(), settings{hooks: registry.Hooks{
			Before: []registry.BeforeHook{before("1"), before("2")}, After: []registry.AfterHook{after("3"), after("breaks"), after("4")},
		}})
		w.peer("a").register(map[string]spec{"x": {Output: `{}`, Result: &answer{Content: []tool.Content{tool.Text("ok")}}}})
		e := w.call("x", order{Do: "text", Text: "t", Size: 100_000})
		if e.Status != tool.Completed || len(e.Content) != 3 || len(e.Content[2].Text) != 100_000 || len(e.Retained) != 1 {
			t.Errorf("got %.200s and %d blocks, %v kept; want what the hooks made, not bounded again", e, len(e.Content), e.Retained)
		}
		if d := w.deeds(e.call); len(d) != 1 || d[0].Input != `{"do":"text","text":"21t","size":100000}` {
			t.Errorf("the tool saw %+v, want what both hooks made", d)
		}
		e = w.call("x", order{Do: "stop at 2"})
		w.want(e, "rejected, blocked, ran false: not today")
		e = w.call("x", order{Do: "panic"})
		w.want(e, "error, internal, ran false: the tool is unavailable")
		if got := w.did(e.call); got != "" {
			t.Errorf("it did %s", got)
		}
		want := []string{
			`1 a/x {"do":"text","text":"t","size":100000}`, `2 a/x {"do":"text","text":"1t","size":100000}`,
			"3 completed 1 paths, 51 bytes", "breaks completed 1 paths, 51 bytes", "4 completed 1 paths, 51 bytes",
		}
		if got := strings.Join(seen[:len(want)], "\n"); got != strings.Join(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
		}
		if !strings.Contains(w.logged(), "breaks") {
			t.Error("a broken hook was not reported")
		}
	})
}

// Only an error that was made as a failure is shown; a refusal, a cancellation, or what broke is none, whatever it says.
// Seen to fail: with every error shown as a failure, and with a refusal that the tool can go on from.
func TestLaw22DeliberateFailures(t *testing.T) {
	everyTransportWith(t, settings{grants: services(), rules: []rule{deny("a/x", "secret")}}, func(t *testing.T, w *world) {
		w.peer("a").register(map[string]spec{"x": {Says: "x"}, "prepares": {Prepares: true}})
		e := w.call("x", order{Do: "fail", Text: "the file is locked: try later"})
		w.want(e, "failed, failure, ran true: the file is locked: try later")
		w.want(w.call("prepares", order{Prepare: &preparation{Do: "fail", Text: "no"}}), "failed, failure, ran false: no")
		for _, name := range []string{"error", "panic"} {
			e = w.call("x", order{Do: name, Text: "password=hunter2"})
			w.want(e, "error, internal, ran true: the tool is unavailable")
			if !strings.Contains(e.cause(), "hunter2") {
				t.Errorf("the operator reads %q, want the whole story", e.cause())
			}
		}
		// A refusal stays one, also when the tool goes on.
		for _, do := range []string{"assert", "assert and go on"} {
			w.want(w.call("x", order{Do: do, Text: "secret"}), `rejected, denied, ran true: …`)
		}
	})
}
