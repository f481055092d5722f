package sdk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/toolhost/toolhost/plugin/sdk"
	"github.com/toolhost/toolhost/plugin/sdk/sdktest"
)

func say(text string) sdk.Tool {
	return sdk.New("Says "+text, func(context.Context, sdk.Call, struct{}) (string, error) { return text, nil }, sdk.NoEffect)
}

// Registrations shadow each other and reveal what they shadowed (law 3), across
// the line; a call that is on its way runs what was captured (law 7).
func TestRegistrations(t *testing.T) {
	var loc sdk.Location
	p := sdktest.Start(t, sdk.Plugin{Name: "p", Activate: func(_ context.Context, l sdk.Location) error {
		loc = l
		return nil
	}}, sdktest.Options{})
	register := func(tools sdk.Tools) *sdk.Registration {
		t.Helper()
		r, err := loc.Tools.Register(t.Context(), tools)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	want := func(what string) {
		t.Helper()
		var names []string
		for _, tool := range p.Tools() {
			names = append(names, tool.Name)
		}
		if got := fmt.Sprint(names); got != what {
			t.Errorf("tools = %s, want %s", got, what)
		}
	}
	tools := sdk.Tools{"a": say("first"), "b": say("b")}
	first := register(tools)
	tools["a"], tools["c"] = say("changed"), say("c")
	want("[a b]")
	second := register(sdk.Tools{"a": say("second"), "bad name": say(""), "": say("")})
	want("[a b bad_name]")
	if refused := second.Refused(); len(refused) != 1 || refused[0].Name != "" || refused[0].Reason == "" {
		t.Errorf("refused = %+v", refused)
	}
	if got := string(p.Call("a", `{}`).Structured); got != `"second"` {
		t.Errorf("a = %s", got)
	}
	for range 2 {
		if err := second.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	want("[a b]")
	if got := string(p.Call("a", `{}`).Structured); got != `"first"` {
		t.Errorf("a = %s after closing what shadowed it", got)
	}
	if err := first.Close(t.Context()); err != nil {
		t.Error(err)
	}
	want("[]")
	if again := register(sdk.Tools{"a": say("again")}); len(again.Refused()) != 0 {
		t.Errorf("refused = %+v", again.Refused())
	}
	want("[a]")
}

// Handlers run at the same time, and registering does too.
func TestConcurrency(t *testing.T) {
	var loc sdk.Location
	var all sync.WaitGroup
	met := make(chan struct{})
	p := sdktest.Start(t, sdk.Plugin{Name: "p", Activate: func(ctx context.Context, l sdk.Location) error {
		loc = l
		_, err := l.Tools.Register(ctx, sdk.Tools{
			"meet": sdk.New("", func(ctx context.Context, call sdk.Call, _ struct{}) (bool, error) {
				call.Progress(1, 2, "waiting")
				select {
				case met <- struct{}{}:
				case <-met:
				case <-ctx.Done():
				}
				l.Log.Info("met")
				return ctx.Err() == nil, ctx.Err()
			}, sdk.NoEffect),
		})
		return err
	}}, sdktest.Options{})
	for n := range 10 {
		all.Go(func() {
			if got := p.Call("meet", `{}`); string(got.Structured) != "true" {
				t.Error(got)
			}
		})
		all.Go(func() {
			r, err := loc.Tools.Register(t.Context(), sdk.Tools{fmt.Sprint("t", n): say("x")})
			if err != nil {
				t.Error(err)
				return
			}
			if err := r.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if names := p.Tools(); len(names) != 1 {
		t.Errorf("tools = %v", names)
	}
}

// A plugin that is no plugin says so, and one that breaks in Activate is not
// ready.
func TestActivation(t *testing.T) {
	for name, p := range map[string]sdk.Plugin{
		"no name":            {Activate: func(context.Context, sdk.Location) error { return nil }},
		"no Activate":        {Name: "p"},
		"panics":             {Name: "p", Activate: func(context.Context, sdk.Location) error { panic("x") }},
		"bad settings":       {Name: "p", Settings: make(chan int), Activate: func(context.Context, sdk.Location) error { return nil }},
		"no settings schema": {Name: "p", Settings: json.RawMessage(`{`), Activate: func(context.Context, sdk.Location) error { return nil }},
	} {
		if _, err := sdktest.Activate(t, p, sdktest.Options{Name: "p"}); err == nil {
			t.Errorf("%s: it is ready", name)
		}
	}
	var drained bool
	t.Run("drains", func(t *testing.T) {
		sdktest.Start(t, sdk.Plugin{
			Name: "p", Activate: func(context.Context, sdk.Location) error { return nil },
			Drain: func(context.Context) error { drained = true; return nil },
		}, sdktest.Options{})
	})
	if !drained {
		t.Error("Drain was not called")
	}
}

// A service that was not granted is an error that says which.
func TestNotGranted(t *testing.T) {
	var errs []string
	sdktest.Start(t, sdk.Plugin{Name: "p", Activate: func(_ context.Context, loc sdk.Location) error {
		_, files := loc.FileSystem()
		_, permission := loc.Permission()
		errs = []string{fmt.Sprint(files), fmt.Sprint(permission)}
		return nil
	}}, sdktest.Options{Grants: []sdk.Service{}})
	want := []string{
		"plugin p was not granted filesystem:read: add it to its grants in the configuration",
		"plugin p was not granted permission: add it to its grants in the configuration",
	}
	if !slices.Equal(errs, want) {
		t.Errorf("errors = %q", errs)
	}
}
