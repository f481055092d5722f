package registry

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/tool"
)

func TestNewRefusesWhatCannotWork(t *testing.T) {
	if _, err := New(Options{Scope: scope.New(t.Context(), "x")}); err == nil || !strings.Contains(err.Error(), "Gate") {
		t.Errorf("without a gate: %v", err)
	}
	if _, err := New(Options{Gate: func(Caller) tool.Gate { return nil }}); err == nil || !strings.Contains(err.Error(), "Scope") {
		t.Errorf("without a scope: %v", err)
	}
}

// Authored names are shown normalised and known by their canonical id.
//
// Seen to fail: with the authored name as the definition's.
func TestLaw02NamesOfRegisteredTools(t *testing.T) {
	b := newBench(t)
	b.register(builtin, set("read", "Größe in m"))
	b.register(weather, set(strings.Repeat("x", 70)))
	want := `Gr__e_in_m=filesystem/Größe in m read=filesystem/read ` +
		strings.Repeat("x", 55) + `_c71bd109=weather/` + strings.Repeat("x", 70)
	if got := b.names(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	_, report := b.Register(climate, set("execute", "", "a\x00", "ok"))
	want = `: tool name is empty
a` + "\x00" + `: tool name "a\x00" has control characters
execute: tool name "execute" is reserved for the host: choose another`
	if got := reasons(report.Refused); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	_, report = b.Register(Owner{Name: "a/b"}, set("c"))
	if got := reasons(report.Refused); !strings.Contains(got, `plugin name "a/b" may only have`) {
		t.Errorf("got %s", got)
	}
}

// Within one owner the latest registration wins, and closing reveals.
//
// Seen to fail: with top looking at the oldest first; with Close closing the
// latest.
func TestLaw03WithinOneOwner(t *testing.T) {
	b := newBench(t)
	first := b.register(weather, map[string]tool.Tool{"forecast": says("first"), "rain": says("rain")})
	second := b.register(weather, map[string]tool.Tool{"forecast": says("second")})
	third := b.register(weather, map[string]tool.Tool{"forecast": says("third")})
	steps := []struct {
		act      func()
		forecast string
		names    string
	}{
		{func() {}, `"third" [text third]`, "forecast=weather/forecast rain=weather/rain"},
		{second.Close, `"third" [text third]`, "forecast=weather/forecast rain=weather/rain"}, // a loser
		{second.Close, `"third" [text third]`, "forecast=weather/forecast rain=weather/rain"}, // twice
		{third.Close, `"first" [text first]`, "forecast=weather/forecast rain=weather/rain"},  // the winner
		{third.Close, `"first" [text first]`, "forecast=weather/forecast rain=weather/rain"},
		{first.Close, `rejected, unavailable, ran false: tool "forecast" is unavailable: plugin "weather" is not running`, ""},
	}
	for i, step := range steps {
		step.act()
		if got := b.call("forecast", ""); got != step.forecast {
			t.Errorf("step %d: got %s, want %s", i, got, step.forecast)
		}
		if got := b.names(); got != step.names {
			t.Errorf("step %d: got %q, want %q", i, got, step.names)
		}
	}
}

// Between owners a name has one owner, whoever came first and whoever runs.
//
// Seen to fail: with the claims dropped by close; with two overrides given to the
// first; without winner's case for built-ins.
func TestLaw03BetweenOwners(t *testing.T) {
	overriding := func(o Owner, names ...string) Owner { o.Override = names; return o }
	tests := []struct {
		name   string
		owners []Owner
		want   string            // the id that has the name
		told   map[string]string // what the others are told
	}{
		{"built-in first", []Owner{builtin, weather}, "filesystem/t", map[string]string{
			"weather": `t: the name "t" belongs to the built-in plugin "filesystem": say override: [t] in the config of plugin "weather" to take it over`}},
		{"override", []Owner{builtin, overriding(weather, "t")}, "weather/t", map[string]string{
			"filesystem": `t: the name "t" went to plugin "weather", whose config says override`}},
		{"override of another name", []Owner{builtin, overriding(weather, "u")}, "filesystem/t", map[string]string{
			"weather": `t: the name "t" belongs to the built-in plugin "filesystem": say override: [t] in the config of plugin "weather" to take it over`}},
		{"two outside", []Owner{weather, climate}, "", map[string]string{
			"weather": `t: the name "t" is claimed by the plugins "climate" and "weather", so that none of them has it: say override: [t] in the config of exactly one`,
			"climate": `t: the name "t" is claimed by the plugins "climate" and "weather", so that none of them has it: say override: [t] in the config of exactly one`}},
		{"two outside, one overrides", []Owner{overriding(weather, "t"), climate}, "weather/t", map[string]string{
			"climate": `t: the name "t" went to plugin "weather", whose config says override`}},
		{"two overrides", []Owner{overriding(weather, "t"), overriding(climate, "t"), builtin}, "filesystem/t", map[string]string{
			"weather": `t: the plugins "climate" and "weather" all say override for the name "t", so that it stays with plugin "filesystem": keep one`,
			"climate": `t: the plugins "climate" and "weather" all say override for the name "t", so that it stays with plugin "filesystem": keep one`}},
		{"two built-ins", []Owner{builtin, {Name: "mcp", Builtin: true}, weather}, "", map[string]string{
			"weather": `t: the name "t" is claimed by the plugins "filesystem", "mcp" and "weather", so that none of them has it: say override: [t] in the config of exactly one`}},
		{"many outside", []Owner{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}, {Name: "e"}, {Name: "f"}, {Name: "g"}}, "", map[string]string{
			"a": `t: the name "t" is claimed by the plugins "a", "b", "c", "d", "e" and 2 more, so that none of them has it: say override: [t] in the config of exactly one`}},
	}
	for _, tt := range tests {
		for _, backwards := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, backwards %v", tt.name, backwards), func(t *testing.T) {
				b := newBench(t)
				registrations := make([]*Registration, len(tt.owners))
				for i := range tt.owners {
					if backwards {
						i = len(tt.owners) - 1 - i
					}
					registrations[i], _ = b.Register(tt.owners[i], set("t"))
				}
				check := func(when, want string) {
					t.Helper()
					got, _, _ := strings.Cut(b.names(), " ")
					if got != want {
						t.Errorf("%s: got %q, want %q", when, got, want)
					}
				}
				want := ""
				if tt.want != "" {
					want = "t=" + tt.want
				}
				check("at first", want)
				for owner, told := range tt.told {
					if got := reasons(b.Refusals(owner)); got != told {
						t.Errorf("%s is told\n%s\nwant\n%s", owner, got, told)
					}
				}
				// Each crashes and starts again: nobody else gets the name meanwhile.
				for i, o := range tt.owners {
					registrations[i].Close()
					if o.Name+"/t" == tt.want {
						check(o.Name+" crashed", "")
					} else {
						check(o.Name+" crashed", want)
					}
					registrations[i], _ = b.Register(o, set("t"))
					check(o.Name+" is back", want)
				}
			})
		}
	}
}

// A collision that appears after a registration is told to its owner, and logged
// once.
//
// Seen to fail: without told, and with Forget not clearing it.
func TestLaw03LaterCollisions(t *testing.T) {
	b := newBench(t)
	b.register(weather, set("forecast"))
	if got := b.Refusals("weather"); len(got) > 0 {
		t.Errorf("got %v before the collision", got)
	}
	for range 3 {
		registration, report := b.Register(climate, set("forecast", "rain"))
		if got := reasons(report.Refused); !strings.HasPrefix(got, `forecast: the name "forecast" is claimed by`) {
			t.Errorf("climate is told %q", got)
		}
		if got := b.call("forecast", ""); got != `rejected, unavailable, ran false: tool "forecast" is unavailable: more than one plugin registers it` {
			t.Errorf("got %s", got)
		}
		registration.Close()
	}
	if got := reasons(b.Refusals("weather")); !strings.HasPrefix(got, `forecast: the name "forecast" is claimed by`) {
		t.Errorf("weather is told %q", got)
	}
	if got := b.Refusals("nobody"); got != nil {
		t.Errorf("nobody is told %v", got)
	}
	if n := strings.Count(b.log.String(), "tool=forecast"); n != 2 { // one line for each side
		t.Errorf("logged %d times:\n%s", n, b.log)
	}
	b.Forget("climate")
	if got := b.names(); got != "forecast=weather/forecast" {
		t.Errorf("after Forget: %q", got)
	}
	b.Forget("climate")
	b.Forget("nobody")
	if n := len(b.claims); n != 1 {
		t.Errorf("%d names are claimed, want 1", n)
	}
	b.Register(climate, set("forecast"))
	if n := strings.Count(b.log.String(), "plugin=climate tool=forecast"); n != 2 { // it was forgotten, and is told anew
		t.Errorf("logged %d times:\n%s", n, b.log)
	}
}

// A reload that fails leaves no claim behind: what the new generation registered
// is closed and forgotten, and what still runs keeps its names.
//
// Seen to fail: with Forget dropping the claims of active registrations.
func TestLaw43ForgetKeepsWhatIsActive(t *testing.T) {
	b := newBench(t)
	b.register(weather, set("forecast"))
	b.register(climate, set("trend"))
	next := weather
	next.Override = []string{"trend"}
	generation, _ := b.Register(next, set("forecast", "trend"))
	if got := b.names(); got != "forecast=weather/forecast trend=weather/trend" {
		t.Errorf("during the reload: %q", got)
	}
	generation.Close()
	b.Forget("weather")
	if got := b.names(); got != "forecast=weather/forecast trend=climate/trend" {
		t.Errorf("after it failed: %q", got)
	}
	if got := b.Refusals("climate"); len(got) > 0 {
		t.Errorf("climate is told %v", got)
	}
}

// Authored names that become equal are all refused, in whatever order.
//
// Seen to fail: with the last one kept.
func TestCaseD09NamesThatBecomeEqual(t *testing.T) {
	b := newBench(t)
	_, report := b.Register(weather, set("a.b", "a_b", "a b", "a/b", "A.B", "ä", "fine"))
	want := `a b: the names "a b", "a.b", "a/b" and "a_b" become equal, "a_b": rename all but one
a.b: the names "a b", "a.b", "a/b" and "a_b" become equal, "a_b": rename all but one
a/b: the names "a b", "a.b", "a/b" and "a_b" become equal, "a_b": rename all but one
a_b: the names "a b", "a.b", "a/b" and "a_b" become equal, "a_b": rename all but one`
	if got := reasons(report.Refused); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := b.names(); got != "A_B=weather/A.B _=weather/ä fine=weather/fine" {
		t.Errorf("got %q", got)
	}
	// In two plugins it is a collision, which says who.
	b.register(climate, set("a.b"))
	b.Register(Owner{Name: "other"}, set("a b"))
	if got := reasons(b.Refusals("climate")); !strings.Contains(got, `a.b: the name "a_b" is claimed by the plugins "climate" and "other"`) {
		t.Errorf("got %q", got)
	}
}

// Seen to fail: with the name in place of the id as the action.
func TestCaseC23RulesSpeakOfCanonicalIDs(t *testing.T) {
	b := newBench(t)
	b.register(Owner{Name: "a_b"}, set("c"))
	b.register(Owner{Name: "a"}, set("b_c"))
	b.call("c", "")
	b.call("b_c", "")
	if got := strings.Join(b.approver.asked, "; "); got != "a_b/c * save *; a/b_c * save *" {
		t.Errorf("asked %q", got)
	}
}

// What the caller does later to the map, the tools or the bytes changes nothing,
// and one value serves under two names and in two registries.
//
// Seen to fail: with the override not cloned, and with the definitions not cloned.
func TestLaw04CapturedValues(t *testing.T) {
	schema := []byte(`{"type":"object","properties":{"n":{"type":"integer"}}}`)
	echo := echoes("")
	echo.Input = schema
	tools := map[string]tool.Tool{"one": echo, "two": echo}
	override := []string{"one"}
	b, other := newBench(t), newBench(t)
	b.register(builtin, set("one"))
	registration, _ := b.Register(Owner{Name: "weather", Override: override}, tools)
	other.register(weather, tools)
	capture := b.Capture()
	before, _ := json.Marshal(capture.Definitions())

	copy(schema, strings.ReplaceAll(string(schema), "integer", "boolean"))
	override[0] = "xxx"
	tools["one"] = says("changed")
	delete(tools, "two")
	capture.Definitions()[0].Description = "changed"
	b.register(climate, nil) // what is effective is worked out anew

	for _, c := range []*Capture{capture, b.Capture(), other.Capture()} {
		for _, name := range []string{"one", "two"} {
			if got := b.callIn(c, name, `{"n":1}`); got != `{"n":1}` {
				t.Errorf("%s: got %s", name, got)
			}
		}
	}
	for _, c := range []*Capture{capture, b.Capture()} {
		if after, _ := json.Marshal(c.Definitions()); string(after) != string(before) {
			t.Errorf("got  %s\nwant %s", after, before)
		}
	}
	registration.Close()
	if got := other.call("one", `{"n":1}`); got != `{"n":1}` {
		t.Errorf("the other registry: got %s", got)
	}
}

// One bad tool is one bad tool: it is named with the fragment, and the others run.
//
// Seen to fail: with prepare ending at the first error.
func TestCaseD05OneBadTool(t *testing.T) {
	b := newBench(t)
	tools := set("ok1", "ok2")
	bad := func(input, output, structured string) tool.Tool {
		x := says("bad")
		x.Input, x.Output, x.Structured = json.RawMessage(input), json.RawMessage(output), json.RawMessage(structured)
		return x
	}
	tools["bad"] = bad(`{"type":"object","properties":{"x":{"type":"int"}}}`, "", "")
	tools["output"] = bad("", `{"type":"int"}`, "")
	tools["structured"] = bad("", "", `{"$ref":"file:///etc/passwd"}`)
	tools["lookahead"] = bad(`{"type":"object","properties":{"x":{"type":"string","pattern":"^(?!tmp-)[a-z]+$"}}}`, "", "") // case D12
	tools["loop"] = bad("", `{"$ref":"#/$defs/a","$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"allOf":[{"$ref":"#/$defs/a"}]}}}`, "")
	tools["empty"] = tool.Tool{}
	tools["missing"] = bad("", "", "")
	tools["null"] = bad("null", "null", "null")
	_, report := b.Register(builtin, tools)
	want := `bad: input schema at /properties/x/type ("int"): value must be one of "array", "boolean", "integer", "null", "number", "object", "string"
empty: tool "empty" has nothing to execute
lookahead: input schema at /properties/x/pattern ("^(?!tmp-)[a-z]+$"): the pattern is not one of Go's regular expressions (RE2): error parsing regexp: invalid or unsupported Perl syntax: ` + "`(?!`" + `
loop: output schema: it refers to itself on the same value, without end: #/$ref/allOf/0/$ref/allOf/0/$ref
output: output schema at /type ("int"): value must be one of "array", "boolean", "integer", "null", "number", "object", "string"
structured: structured schema: it refers to "file:///etc/passwd", and nothing is loaded: put what it needs under $defs`
	if got := reasons(report.Refused); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := reasons(b.Refusals("filesystem")); got != want {
		t.Errorf("later, got\n%s\nwant\n%s", got, want)
	}
	if got, want := b.names(), "missing=filesystem/missing null=filesystem/null ok1=filesystem/ok1 ok2=filesystem/ok2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, name := range []string{"ok1", "ok2"} {
		if got := b.call(name, ""); got != fmt.Sprintf("%q [text %s]", name, name) {
			t.Errorf("got %s", got)
		}
	}
	for _, name := range []string{"bad", "output", "structured", "lookahead", "loop", "empty"} {
		if !strings.Contains(b.log.String(), "tool="+name+" reason=") {
			t.Errorf("%s was not logged", name)
		}
	}
}

// An owner cannot fill the registry.
//
// Seen to fail: without limit, and without the check in prepare.
func TestNamesOfOneOwnerAreLimited(t *testing.T) {
	b := newBench(t)
	many := func(prefix string, n int) map[string]tool.Tool {
		tools, x := make(map[string]tool.Tool, n), says("x")
		for i := range n {
			tools[fmt.Sprintf("%s%05d", prefix, i)] = x
		}
		return tools
	}
	first := b.register(builtin, many("a", MaxNames-1))
	_, report := b.Register(builtin, many("b", 3))
	want := `b00001: plugin "filesystem" registers more than 10000 names
b00002: plugin "filesystem" registers more than 10000 names`
	if got := reasons(report.Refused); got != want {
		t.Errorf("got %s", got)
	}
	first.Close()
	if _, report := b.Register(builtin, many("a", 2)); len(report.Refused) > 0 {
		t.Errorf("a name that is claimed already is refused: %v", report.Refused)
	}
	tooMany := many("c", MaxNames)
	bad := says("x")
	bad.Input = json.RawMessage(`{"type":"array"}`)
	tooMany["d"] = bad // nobody looks at it
	_, report = b.Register(weather, tooMany)
	if got := reasons(report.Refused); got != `d: plugin "weather" registers more than 10000 names` {
		t.Errorf("got %s", got)
	}
	if n := strings.Count(b.log.String(), "\n"); n > 10 {
		t.Errorf("logged %d lines", n)
	}
}
