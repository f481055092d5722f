package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/state"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// patient is an approver whose answers come from elsewhere.
type patient struct{ answers chan permission.Reply }

func (p patient) Ask(ctx context.Context, _ permission.Request) (permission.Reply, error) {
	select {
	case reply := <-p.answers:
		return reply, nil
	case <-ctx.Done():
		return permission.Reply{}, context.Cause(ctx)
	}
}

func says(text string) map[string]tool.Tool {
	return map[string]tool.Tool{text: {Description: "for a test", Execute: func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Output: json.RawMessage(`"` + text + `"`)}, nil
	}}}
}

func names(h *host.Host, t *testing.T, location string) string {
	t.Helper()
	var names []string
	for _, d := range activate(t, h, location).Capture().Definitions() {
		names = append(names, d.ID)
	}
	return strings.Join(names, " ")
}

// Tools of the program are in every Location, whenever it is activated, until they
// are closed; a plugin of the same name keeps them out of its Location only (law
// 6).
//
// Seen to fail: with tools registered in active Locations only.
func TestLaw06ToolsOfTheProgram(t *testing.T) {
	h := open(t, []string{"a", "b"}, "probe")
	activate(t, h, "a")
	first, err := h.Register("program", says("first"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Register("program", says("second")); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Register("probe", says("third")); err != nil {
		t.Fatal(err)
	}
	for _, location := range []string{"a", "b"} {
		if got := names(h, t, location); !strings.Contains(got, "program/first") || !strings.Contains(got, "program/second") || strings.Contains(got, "third") {
			t.Errorf("%s: got %s", location, got)
		}
	}
	first.Close()
	first.Close()
	for _, location := range []string{"a", "b"} {
		if got := names(h, t, location); strings.Contains(got, "program/first") || !strings.Contains(got, "program/second") {
			t.Errorf("%s afterwards: got %s", location, got)
		}
	}
	if _, err := h.Register("no/name", nil); err == nil {
		t.Error("a name that cannot be was taken")
	}
}

// A call that waits for a person is suspended by the Location, outlives its
// caller's context, and runs when it is answered; hooks and the journal see it once.
func TestLaw37SuspendedThroughTheHost(t *testing.T) {
	store := state.New(state.Options{Dir: t.TempDir()})
	defer func() { _ = store.Close() }()
	asked := patient{make(chan permission.Reply)}
	var seen []string
	o := options()
	o.Approver, o.State = asked, store
	o.Hooks = registry.Hooks{After: []registry.AfterHook{{Name: "test", Run: func(_ context.Context, call registry.HookCall, s tool.Settlement, _ []string) (tool.Settlement, error) {
		seen = append(seen, call.Tool+" "+string(s.Status))
		return s, nil
	}}}}
	h, err := host.Open(context.Background(), configure(t, []string{"a"}, "probe"), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if _, err := h.Register("program", says("hello")); err != nil {
		t.Fatal(err)
	}
	l := activate(t, h, "a")
	ctx, cancel := context.WithCancel(context.Background())
	_, err = l.Capture().Call(ctx, registry.Request{
		Identity: tool.Identity{Session: "s", Agent: "a", Message: "m", Call: "c"}, Name: "hello", SuspendAfter: time.Millisecond,
	})
	cancel()
	suspended, ok := errors.AsType[*tool.Suspension](err)
	if !ok || suspended.Tool != "program/hello" {
		t.Fatalf("got %v, want a suspension", err)
	}
	if got := l.Suspended(); len(got) != 1 {
		t.Errorf("suspended are %v", got)
	}
	asked.answers <- permission.Reply{Granted: true}
	s, err := l.Resume(context.Background(), "s", suspended.Handle, time.Minute)
	if err != nil || string(s.Structured) != `"hello"` {
		t.Errorf("got %+v, %v", s, err)
	}
	if got := strings.Join(seen, ", "); got != "program/hello completed" {
		t.Errorf("hooks saw %s", got)
	}
	records, err := store.CallRecords(context.Background(), state.CallFilter{})
	if err != nil || len(records) != 1 || records[0].Status != tool.Completed {
		t.Errorf("recorded %+v, %v", records, err)
	}
	// Closing withdraws what waits.
	_, err = l.Capture().Call(context.Background(), registry.Request{
		Identity: tool.Identity{Session: "s", Agent: "a", Message: "m", Call: "d"}, Name: "hello", SuspendAfter: time.Millisecond,
	})
	if _, ok := errors.AsType[*tool.Suspension](err); !ok {
		t.Fatalf("got %v, want a suspension", err)
	}
}

// What the program does later to the tools that it registered changes nothing, in a
// Location that is activated later either (law 4).
//
// Seen to fail: with the map copied and not what is in it.
func TestLaw04ToolsOfTheProgramAreCopied(t *testing.T) {
	h := open(t, []string{"a"})
	tools := says("hello")
	x := tools["hello"]
	x.Input = json.RawMessage(`{"type":"object","properties":{"first":{}}}`)
	tools["hello"] = x
	if _, err := h.Register("program", tools); err != nil {
		t.Fatal(err)
	}
	copy(x.Input, `{"type":"object","properties":{"other"`)
	delete(tools, "hello")
	for _, d := range activate(t, h, "a").Capture().Definitions() {
		if d.Name == "hello" && !strings.Contains(string(d.Input), "first") {
			t.Errorf("got %s", d.Input)
		}
	}
	if got := names(h, t, "a"); !strings.Contains(got, "program/hello") {
		t.Errorf("got %s", got)
	}
}
