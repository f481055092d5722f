package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolhost/toolhost/tool"
)

// before is a hook that adds a letter to the input's text.
func before(letter string) BeforeHook {
	return BeforeHook{Name: letter, Run: func(_ context.Context, call HookCall) (json.RawMessage, error) {
		return json.RawMessage(strings.Replace(string(call.Input), `"}`, letter+`"}`, 1)), nil
	}}
}

// after is a hook that adds a letter to the first text.
func after(letter string) AfterHook {
	return AfterHook{Name: letter, Run: func(_ context.Context, _ HookCall, s tool.Settlement, _ []string) (tool.Settlement, error) {
		s.Content = []tool.Content{tool.Text(s.Content[0].Text + letter)}
		return s, nil
	}}
}

// Hooks run in order, each seeing what the last one left; an error rejects the
// call before anything ran; what breaks is contained, and the settlement is not
// lost.
//
// Seen to fail: with every hook given the first input; with the call gone on after
// an error.
func TestLaw21Hooks(t *testing.T) {
	keeps := BeforeHook{Name: "keeps", Run: func(context.Context, HookCall) (json.RawMessage, error) { return nil, nil }}
	for _, tt := range []struct {
		name  string
		hooks Hooks
		want  string
		ran   bool
		log   string
	}{
		{"in order", Hooks{Before: []BeforeHook{before("1"), keeps, before("2")}, After: []AfterHook{after("3"), after("4")}}, `{"a":"x12"} [text x1234]`, true, ""},
		{"rejects", Hooks{Before: []BeforeHook{{Name: "no", Run: func(context.Context, HookCall) (json.RawMessage, error) {
			return nil, errors.New("not on Sundays")
		}}, before("2")}}, "rejected, blocked, ran false: not on Sundays", false, ""},
		{"makes it invalid", Hooks{Before: []BeforeHook{{Name: "bad", Run: func(context.Context, HookCall) (json.RawMessage, error) {
			return json.RawMessage(`{"a":5}`), nil
		}}}}, "rejected, invalid_input, ran false: ", false, ""},
		{"panics before", Hooks{Before: []BeforeHook{{Name: "oops", Run: func(context.Context, HookCall) (json.RawMessage, error) {
			panic("oops")
		}}}}, "error, internal, ran false: the tool is unavailable", false, "oops"},
		{"panics after", Hooks{After: []AfterHook{{Name: "oops", Run: func(context.Context, HookCall, tool.Settlement, []string) (tool.Settlement, error) {
			panic("oops")
		}}, after("4")}}, `{"a":"x"} [text x4]`, true, "oops"},
		{"fails after", Hooks{After: []AfterHook{{Name: "sorry", Run: func(context.Context, HookCall, tool.Settlement, []string) (tool.Settlement, error) {
			return tool.Settlement{}, errors.New("sorry")
		}}}}, `{"a":"x"} [text x]`, true, "sorry"},
		{"hangs before", Hooks{Before: []BeforeHook{{Name: "sleepy", Run: func(ctx context.Context, _ HookCall) (json.RawMessage, error) {
			time.Sleep(time.Hour)
			return nil, nil
		}}}}, "error, internal, ran false: the tool is unavailable", false, "did not return within"},
		{"hangs after", Hooks{After: []AfterHook{{Name: "sleepy", Run: func(context.Context, HookCall, tool.Settlement, []string) (tool.Settlement, error) {
			time.Sleep(time.Hour)
			return tool.Settlement{}, nil
		}}}}, `{"a":"x"} [text x]`, true, "did not return within"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBenchWith(t, func(o *Options) { o.Hooks = tt.hooks })
				ran := false
				x := executes(func(_ context.Context, call tool.Call) (tool.Result, error) {
					ran = true
					return tool.Result{Output: call.Input, Content: []tool.Content{tool.Text("x" + strings.Trim(string(call.Input), `{}":ax`))}}, nil
				})
				x.Input = json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}}}`)
				b.register(builtin, map[string]tool.Tool{"x": x})
				if got := b.call("x", `{"a":"x"}`); !strings.HasPrefix(got, tt.want) || ran != tt.ran {
					t.Errorf("got %s, ran %v, want %s, %v", got, ran, tt.want, tt.ran)
				}
				if !strings.Contains(b.log.String(), tt.log) || tt.log == "" && b.log.Len() > 0 {
					t.Errorf("logged %q, want %q", b.log, tt.log)
				}
				time.Sleep(2 * time.Hour) // what hangs ends
			})
		})
	}
}

// A hook sees a call as it is and changes nothing of it by accident; an unknown
// tool has no id; what never began is not settled for the hooks after.
func TestLaw21WhatHooksSee(t *testing.T) {
	var seen []string
	b := newBenchWith(t, func(o *Options) {
		o.Hooks = Hooks{
			Before: []BeforeHook{{Name: "b", Run: func(_ context.Context, call HookCall) (json.RawMessage, error) {
				seen = append(seen, fmt.Sprintf("before %s %s %s", call.Name, call.Tool, call.Input))
				if len(call.Input) > 0 {
					call.Input[0] = '!'
				}
				return nil, nil
			}}},
			After: []AfterHook{{Name: "a", Run: func(_ context.Context, call HookCall, s tool.Settlement, paths []string) (tool.Settlement, error) {
				seen = append(seen, fmt.Sprintf("after %s %s %d", call.Tool, s.Status, len(paths)))
				return s, nil
			}}},
		}
	})
	b.register(builtin, map[string]tool.Tool{"x": says("hi"), "fails": returns(tool.Result{}, &tool.Failure{Message: "no"})})
	for _, name := range []string{"x", "fails", "nothing"} {
		b.call(name, `{}`)
	}
	want := "before x filesystem/x {}, after filesystem/x completed 0, before fails filesystem/fails {}, after filesystem/fails failed 0, before nothing  {}"
	if got := strings.Join(seen, ", "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
