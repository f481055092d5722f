package registry

import (
	"testing"

	"github.com/toolhost/toolhost/tool"
)

// Many changes are one notice until it is read, and a subscription ends.
//
// Seen to fail: with a channel without room, where the registration waits.
func TestChangesCoalesce(t *testing.T) {
	b := newBench(t)
	changes, stop := b.Subscribe()
	told := func() bool {
		select {
		case <-changes:
			return true
		default:
			return false
		}
	}
	if told() {
		t.Error("told before anything changed")
	}
	for range 100 {
		b.register(weather, set("a", "b")).Close()
	}
	if !told() || told() {
		t.Error("want one notice of many changes")
	}
	registration := b.register(weather, set("a"))
	told()
	registration.Close()
	if !told() {
		t.Error("not told of a registration that was closed")
	}
	registration.Close()
	b.Capture()
	if told() {
		t.Error("told of nothing")
	}
	stop()
	b.register(weather, set("c"))
	if told() {
		t.Error("told after the end")
	}
}

// A tool may say that it is unavailable: it is in no list, and calling it is
// rejected with its reason.
//
// Seen to fail: with the reason kept for the list only.
func TestLaw10OwnAvailability(t *testing.T) {
	b := newBench(t)
	x := says("never")
	x.Unavailable = "there is no compiler"
	b.register(builtin, map[string]tool.Tool{"build": x, "other": says("o")})
	if got := b.names(); got != "other=filesystem/other" {
		t.Errorf("listed %s", got)
	}
	hidden := b.Capture().Unavailable()
	if len(hidden) != 1 || hidden[0].Name != "build" || hidden[0].Unavailable != x.Unavailable {
		t.Errorf("hidden are %v", hidden)
	}
	want := `rejected, unavailable, ran false: tool "build" is unavailable: there is no compiler`
	if got := b.call("build", ""); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	registration := b.register(builtin, map[string]tool.Tool{"build": says("built")})
	if got := b.call("build", ""); got != `"built" [text built]` {
		t.Errorf("with a later registration: got %s", got)
	}
	registration.Close()
	if got := b.call("build", ""); got != want {
		t.Errorf("afterwards: got %s", got)
	}
}

// The embedding program's tools come after those of the Location, and get none of
// its services.
//
// Seen to fail: with applications ranked as plugins; with the gate given to all.
func TestLaw06Placements(t *testing.T) {
	b := newBench(t)
	program := Owner{Name: "program", Application: true}
	gated := make(chan bool, 2)
	tools := map[string]tool.Tool{"forecast": says("program"), "clock": {Description: "for a test", Execute: returnsGate(gated)}}
	b.register(program, tools)
	if got := b.call("forecast", ""); got != `"program" [text program]` {
		t.Errorf("alone: got %s", got)
	}
	registration := b.register(weather, map[string]tool.Tool{"forecast": says("plugin")})
	if got := b.call("forecast", ""); got != `"plugin" [text plugin]` {
		t.Errorf("with a plugin: got %s", got)
	}
	if got := reasons(b.Refusals("program")); got != `forecast: the Location's plugin "weather" has the name "forecast", and comes before the tools of the program` {
		t.Errorf("refused %s", got)
	}
	if got := reasons(b.Refusals("weather")); got != "" {
		t.Errorf("refused %s", got)
	}
	registration.Close()
	b.Forget("weather")
	if got := b.call("forecast", ""); got != `"program" [text program]` {
		t.Errorf("alone again: got %s", got)
	}
	b.call("clock", "")
	if <-gated {
		t.Error("a tool of the program got a gate")
	}
	b.register(builtin, map[string]tool.Tool{"other": {Description: "for a test", Execute: returnsGate(gated)}})
	b.call("other", "")
	if !<-gated {
		t.Error("a tool of the Location got no gate")
	}
}

// Only the host's own tools have the reserved names, and it has no others.
func TestLaw02ReservedNames(t *testing.T) {
	b := newBench(t)
	host := Owner{Name: "toolhost", Host: true}
	b.register(host, set("output_read"))
	if got := b.call("output_read", ""); got != `"output_read" [text output_read]` {
		t.Errorf("got %s", got)
	}
	for _, by := range []Owner{builtin, weather, {Name: "x", Override: []string{"output_read"}}} {
		if _, report := b.Register(by, set("output_read")); len(report.Refused) != 1 {
			t.Errorf("%s was given a reserved name: %v", by.Name, report)
		}
	}
	if _, report := b.Register(host, set("forecast")); len(report.Refused) != 1 {
		t.Errorf("the host has another name: %v", report)
	}
}
