package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolhost/toolhost/tool"
)

// A call runs what was captured, or nothing; a plugin that was started again is
// the same tool where digest and definition are equal.
//
// Seen to fail: without the check of closed; with same always true; each of its
// comparisons left out.
func TestLaw07CapturedExecution(t *testing.T) {
	pinned := Owner{Name: "weather", Digest: "sha256:1"}
	described := func(text, description string) map[string]tool.Tool {
		x := says(text)
		x.Description = description
		return map[string]tool.Tool{"forecast": x}
	}
	// changed starts the plugin again with another tool.
	changed := func(change func(*tool.Tool)) func(*bench, *Registration) {
		return func(b *bench, first *Registration) {
			first.Lost()
			x := says("new")
			change(&x)
			b.register(pinned, map[string]tool.Tool{"forecast": x})
		}
	}
	const gone = `rejected, unavailable, ran false: tool "forecast" is unavailable: its plugin was stopped or replaced`
	tests := []struct {
		name  string
		first Owner
		after func(b *bench, first *Registration)
		want  string
	}{
		{"replaced", pinned, func(b *bench, _ *Registration) {
			b.register(pinned, described("new", "other"))
		}, `"old" [text old]`},
		{"taken over", pinned, func(b *bench, _ *Registration) {
			b.Register(Owner{Name: "climate", Override: []string{"forecast"}}, described("stranger", "for a test"))
		}, `"old" [text old]`},
		{"closed", pinned, func(_ *bench, first *Registration) { first.Close() }, `"old" [text old]`},
		{"closed, another has the name", pinned, func(b *bench, first *Registration) {
			first.Close()
			b.register(pinned, described("new", "other"))
		}, `"old" [text old]`},
		{"closed, and then gone", pinned, func(_ *bench, first *Registration) { first.Close(); first.Lost() }, gone},
		{"gone", pinned, func(_ *bench, first *Registration) { first.Lost() }, gone},
		{"gone, another plugin has the name", pinned, func(b *bench, first *Registration) {
			first.Lost()
			b.Register(Owner{Name: "climate", Digest: "sha256:1", Override: []string{"forecast"}}, described("stranger", "for a test"))
		}, gone},
		{"started again", pinned, func(b *bench, first *Registration) {
			first.Lost()
			b.register(pinned, described("again", "for a test"))
		}, `"again" [text again]`},
		{"started again while the old one stops", pinned, func(b *bench, first *Registration) {
			b.register(pinned, described("again", "for a test"))
			first.Lost()
		}, `"again" [text again]`},
		{"another digest", pinned, func(b *bench, first *Registration) {
			first.Lost()
			b.register(Owner{Name: "weather", Digest: "sha256:2"}, described("new", "for a test"))
		}, gone},
		{"no digest", weather, func(b *bench, first *Registration) {
			first.Lost()
			b.register(weather, described("new", "for a test"))
		}, gone},
		{"another description", pinned, func(b *bench, first *Registration) {
			first.Lost()
			b.register(pinned, described("new", "other"))
		}, gone},
		{"another title", pinned, func(b *bench, first *Registration) {
			first.Lost()
			x := says("new")
			x.Title = "New"
			b.register(pinned, map[string]tool.Tool{"forecast": x})
		}, gone},
		{"other effects", pinned, func(b *bench, first *Registration) {
			first.Lost()
			x := says("new")
			x.Effects = tool.Read
			b.register(pinned, map[string]tool.Tool{"forecast": x})
		}, gone},
		{"another input", pinned, func(b *bench, first *Registration) {
			first.Lost()
			x := says("new")
			x.Input = json.RawMessage(`{"type":"object","properties":{"a":{}}}`)
			b.register(pinned, map[string]tool.Tool{"forecast": x})
		}, gone},
		{"another output", pinned, func(b *bench, first *Registration) {
			first.Lost()
			x := says("new")
			x.Output = json.RawMessage(`{"type":"string"}`)
			b.register(pinned, map[string]tool.Tool{"forecast": x})
		}, gone},
		{"another structured value", pinned, func(b *bench, first *Registration) {
			first.Lost()
			x := says("new")
			x.Structured = json.RawMessage(`{"type":"string"}`)
			b.register(pinned, map[string]tool.Tool{"forecast": x})
		}, gone},
		{"another request", pinned, changed(func(x *tool.Tool) {
			x.Requests = []tool.PermissionRequest{{Action: "weather/forecast", Resources: []string{"a"}}}
		}), gone},
		{"another target", pinned, changed(func(x *tool.Tool) { x.Targets = []string{"path"} }), gone},
		{"irreversible", pinned, changed(func(x *tool.Tool) { x.Irreversible = true }), gone},
		{"prepared", pinned, changed(func(x *tool.Tool) {
			x.Prepare = func(context.Context, tool.Call) (tool.Preparation, error) { return tool.Preparation{}, nil }
		}), gone},
		{"unavailable", pinned, changed(func(x *tool.Tool) { x.Unavailable = "no compiler" }), gone},
		{"lost, and then closed", pinned, func(_ *bench, first *Registration) { first.Lost(); first.Close() }, gone},
		{"another authored name", pinned, func(b *bench, first *Registration) {
			first.Lost()
			b.register(pinned, map[string]tool.Tool{"rain": says("rain")})
		}, gone},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			first := b.register(tt.first, described("old", "for a test"))
			capture := b.Capture()
			before, _ := json.Marshal(capture.Definitions())
			tt.after(b, first)
			if got := b.callIn(capture, "forecast", ""); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if after, _ := json.Marshal(capture.Definitions()); string(after) != string(before) {
				t.Errorf("the capture changed from %s to %s", before, after)
			}
		})
	}
}

// A captured tool is pinned for a bounded time after its registration was closed.
//
// Seen to fail: with PinFor left out of what stands.
func TestLaw07PinnedForABoundedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		registration := b.register(weather, map[string]tool.Tool{"forecast": says("old")})
		capture := b.Capture()
		registration.Close()
		time.Sleep(PinFor - time.Second)
		if got := b.callIn(capture, "forecast", ""); got != `"old" [text old]` {
			t.Errorf("shortly before: got %s", got)
		}
		time.Sleep(2 * time.Second)
		if got := b.callIn(capture, "forecast", ""); !strings.Contains(got, "unavailable") {
			t.Errorf("shortly after: got %s", got)
		}
	})
}

// The same registrations are shown with the same bytes, sorted by name.
//
// Seen to fail: with the view in the order of the map.
func TestLaw08DeterministicAdvertisement(t *testing.T) {
	full := says("x")
	full.Title, full.Description, full.Effects = "Full", "All of it <& more>\xff", tool.Read|tool.Network
	full.Input = json.RawMessage(` { "type": "object", "properties": { "b": {}, "a": {} } } `)
	full.Output = json.RawMessage(`{ "type": "string" }`)
	small := says("x")
	small.Output, small.Structured = json.RawMessage(`{"type":"string"}`), json.RawMessage(`{"type": "integer"}`)
	small.Effects = tool.None
	owners := []Owner{builtin, weather, climate}
	sets := []map[string]tool.Tool{{"full": full, "small": small}, set("z", "a", "b.c"), set("B", "_", "-")}
	const everything = `["read","write","process","network","user_interaction","delegation"]`
	plain := func(name, id string) string {
		return fmt.Sprintf(`{"name":%q,"id":%q,"description":"for a test","input_schema":{"type":"object","properties":{}},"effects":%s}`, name, id, everything)
	}
	want := `[` + strings.Join([]string{
		plain("-", "climate/-"), plain("B", "climate/B"), plain("_", "climate/_"), plain("a", "weather/a"), plain("b_c", "weather/b.c"),
		`{"name":"full","id":"filesystem/full","title":"Full","description":"All of it \u003c\u0026 more\u003e` + "\uFFFD" + `","input_schema":{"type":"object","properties":{"b":{},"a":{}}},"output_schema":{"type":"string"},"effects":["read","network"]}`,
		`{"name":"small","id":"filesystem/small","description":"for a test","input_schema":{"type":"object","properties":{}},"output_schema":{"type":"integer"},"effects":[],"projected":true}`,
		plain("z", "weather/z"),
	}, ",") + `]`
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		b := newBench(t)
		for _, i := range order {
			b.register(owners[i], sets[i])
		}
		extra := b.register(weather, set("a", "more"))
		b.Capture()
		extra.Close()
		b.Forget("weather")
		for range 3 {
			got, err := json.Marshal(b.Capture().Definitions())
			if err != nil || string(got) != want {
				t.Errorf("in order %v\n got %s, %v\nwant %s", order, got, err, want)
			}
		}
	}
}

// What is not advertised cannot be called, and what it would have done is not done.
//
// Seen to fail: with a contested name given to the first who claims it.
func TestLaw10VisibilityIsNotAuthority(t *testing.T) {
	b := newBench(t)
	var ran atomic.Int32
	sneaky := executes(func(context.Context, tool.Call) (tool.Result, error) {
		ran.Add(1)
		return tool.Result{}, nil
	})
	b.register(builtin, set("read", "grep"))
	b.Register(weather, map[string]tool.Tool{"read": sneaky, "both": sneaky, "execute": sneaky, "forecast": sneaky})
	b.Register(climate, map[string]tool.Tool{"both": sneaky})
	tests := []struct{ name, want string }{
		{"read", `"read" [text read]`},
		{"both", `rejected, unavailable, ran false: tool "both" is unavailable: more than one plugin registers it`},
		{"execute", `rejected, unknown_tool, ran false: tool "execute" is unknown`},
		{"weather/forecast", `rejected, unknown_tool, ran false: tool "weather/forecast" is unknown: did you mean "forecast"?`},
		{"reed", `rejected, unknown_tool, ran false: tool "reed" is unknown: did you mean "read"?`},
		{"Forecast", `rejected, unknown_tool, ran false: tool "Forecast" is unknown: did you mean "forecast"?`},
		{"", `rejected, unknown_tool, ran false: tool "" is unknown`},
		{"a\xffb" + strings.Repeat("x", 1<<20), `rejected, unknown_tool, ran false: tool "a` + "\uFFFD" + `b` + strings.Repeat("x", 59) + `…" is unknown`},
	}
	for _, tt := range tests {
		if got := b.call(tt.name, ""); got != tt.want {
			t.Errorf("%.20q: got %s, want %s", tt.name, got, tt.want)
		}
	}
	// A tool that was advertised passes the same checks as any other.
	b.approver.kind = tool.KindDeclined
	if got := b.call("forecast", ""); got != `rejected, declined, ran false: weather/forecast of "*" was declined` {
		t.Errorf("got %s", got)
	}
	if ran.Load() != 0 {
		t.Errorf("the hidden tools ran %d times", ran.Load())
	}
}
