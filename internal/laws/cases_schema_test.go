package laws

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// A shape is a schema, and what becomes of inputs through a whole call: "" is ok, else a part of the reason.
type shape struct {
	name, input string
	values      map[string]string
}

// throughCalls registers a tool of each shape and calls it with each value.
func throughCalls(t *testing.T, shapes []shape) {
	t.Helper()
	everyTransport(t, func(t *testing.T, w *world) {
		tools := map[string]spec{}
		for _, s := range shapes {
			tools[s.name] = spec{Says: "ok", Input: s.input}
		}
		w.peer("a").register(tools)
		for _, s := range shapes {
			for value, reason := range s.values {
				start := time.Now()
				e := w.callRaw(s.name, value)
				if reason == "" {
					w.want(e, `completed: "ok"…`)
				} else if got := e.String(); !strings.HasPrefix(got, "rejected, invalid_input, ran false: ") || !strings.Contains(got, reason) {
					t.Errorf("%s %.80s: got %.300s, want it invalid for %q", s.name, value, got, reason)
				}
				if took := time.Since(start); took > patience {
					t.Errorf("%s %.80s took %v", s.name, value, took)
				}
			}
		}
	})
}

// Digits come out as they went in, through validation, both ways over the line, and the bounding. Seen to fail: with the
// output decoded into floating point on the way.
func TestCaseD01ExactNumbers(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		w.peer("a").register(map[string]spec{"x": {
			Input:  `{"type":"object","properties":{"id":{"type":"integer"},"d":{"type":"number"}}}`,
			Output: `{"type":"object","properties":{"id":{"type":"integer"}}}`,
		}})
		const input = `{"do":"echo","id":9007199254740993,"n":-9223372036854775808,"u":18446744073709551615,"d":0.10,"e":1e400}`
		w.want(w.callRaw("x", input), "completed: "+input)
	})
}

// A schema that refers to itself is accepted, for inputs and for outputs; one that repeats itself without end is refused.
// Seen to fail: with schemas that refer to themselves refused.
func TestCaseD03RecursiveSchema(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		const tree = `{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#/$defs/n"}}},"$defs":{"n":{"$ref":"#"}}}`
		start := time.Now()
		s := w.peer("a").offers(command{Tools: map[string]spec{
			"tree": {Input: tree, Output: tree},
			"loop": {Input: `{"type":"object","$ref":"#/$defs/a","$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"allOf":[{"$ref":"#/$defs/a"}]}}}`},
			"ok":   {Says: "ok"},
		}})
		if took := time.Since(start); len(s.refused) != 1 || s.refused["loop"] == "" || took > patience {
			t.Errorf("refused %v in %v, want loop", s.refused, took)
		}
		w.want(w.callRaw("tree", `{"do":"echo","kids":[{"kids":[]},{}]}`), `completed: {"do":"echo","kids":[{"kids":[]},{}]}`)
		w.want(w.callRaw("tree", `{"kids":[{"kids":[5]}]}`), `rejected, invalid_input, ran false: input of "tree" is invalid: /kids/0/kids/0…`)
		w.want(w.call("ok", order{}), `completed: "ok"…`)
	})
}

// One bad schema is one bad tool, and a tool without a schema takes an empty object. Seen to fail: with a bad tool left
// out silently.
func TestCaseD05OneBadTool(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		s := w.peer("a").offers(command{Tools: map[string]spec{
			"ok1": {Says: "ok1"}, "bad": {Input: `{"type":"object","properties":{"x":{"type":"int"}}}`}, "missing": {Says: "missing"},
			"null": {Says: "null", Input: "null"}, "ok2": {Says: "ok2", Input: `{}`},
		}})
		if got := s.refusedNames(); got != "bad" || !strings.Contains(s.refused["bad"], `"int"`) || !strings.Contains(w.logged(), `int`) {
			t.Errorf("refused %v, want bad with its fragment, also in the log", s.refused)
		}
		for _, name := range []string{"ok1", "missing", "null", "ok2"} {
			w.want(w.call(name, order{}), fmt.Sprintf("completed: %q…", name))
		}
	})
}

// A tool without arguments is shown with an object schema, and may be called without any. Seen to fail: with an empty
// input not taken for an object.
func TestCaseD07NoArguments(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		w.peer("a").register(map[string]spec{
			"empty": {Says: "ok", Input: "{}"}, "nil": {Says: "ok"}, "null": {Says: "ok", Input: "null"},
			"nulls": {Says: "ok", Input: `{"type":"object","properties":null,"required":null}`},
		})
		for _, d := range w.definitions() {
			if got := string(d.Input); strings.Contains(got, "null") || !strings.Contains(got, `"type":"object"`) || !strings.Contains(got, `"properties":{}`) {
				t.Errorf("%s is shown with %s", d.Name, got)
			}
			for _, input := range []string{"", "null", "{}", " \n"} {
				e := w.callRaw(d.Name, input)
				w.want(e, `completed: "ok"…`)
				if seen := w.deeds(e.call); len(seen) != 1 || seen[0].Input != "{}" {
					t.Errorf("%s %q: the tool saw %+v", d.Name, input, seen)
				}
			}
		}
	})
}

// Values are not coerced, and the error names path, what was expected, and what came. Seen to fail: with the input not
// validated.
func TestCaseD08Strict(t *testing.T) {
	throughCalls(t, []shape{{"x",
		`{"type":"object","properties":{"n":{"type":"integer"},"l":{"type":"array","items":{"type":"string"}},"s":{"type":"string"}}}`,
		map[string]string{
			`{"n":"10"}`: `/n: expected integer, got string "10"`, `{"l":"[\"a\"]"}`: `/l: expected array, got string`,
			`{"n":"0x10"}`: "/n", `{"n":"1e3"}`: "/n", `{"n":" 1"}`: "/n", `{"n":"1,000"}`: "/n",
			`{"s":"10"}`: "", `{"n":10,"l":["a"]}`: "",
		}}})
}

// Names that become equal are all refused with their originals; between plugins neither has one; the rest is reachable,
// in whatever order they start. Seen to fail: with the first of equal names taken.
func TestCaseD09NamesThatBecomeEqual(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		first := command{Tools: map[string]spec{"a.b": {}, "a_b": {}, "a b": {}, "A.B": {Says: "A.B"}, "one": {Says: "one"}}}
		second := command{Tools: map[string]spec{"a/b": {Says: "a/b"}, "ä": {Says: "ä"}, "one": {}}}
		in := func(w *world, names ...string) []string {
			for _, name := range names {
				c := map[string]command{"first": first, "second": second}[name]
				s := w.peer(name).offers(c)
				if name == "first" && (s.refused["a.b"] == "" || s.refused["a_b"] == "" || s.refused["a b"] == "" ||
					!strings.Contains(s.refused["a.b"], `"a b"`)) {
					t.Errorf("refused %v, want all three, with all of them named", s.refused)
				}
			}
			return w.names()
		}
		names := in(w, "first", "second")
		other := newWorld(t, w.over, t.TempDir(), settings{})
		if again := in(other, "second", "first"); !slices.Equal(names, again) {
			t.Errorf("in another order %q, want %q", again, names)
		}
		if got := strings.Join(names, " "); got != "A_B _ a_b" {
			t.Errorf("names %q", got)
		}
		for name, says := range map[string]string{"A_B": "A.B", "_": "ä", "a_b": "a/b"} {
			w.want(w.call(name, order{}), fmt.Sprintf("completed: %q…", says))
		}
		w.want(w.call("one", order{}), `rejected, unavailable, …`)
	})
}

// A pattern that cannot be enforced refuses its tool, which is said; one that can takes no exponential time. Seen to
// fail: with a bad tool left out silently.
func TestCaseD12Patterns(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		pattern := func(p string) spec {
			return spec{Says: "ok", Input: fmt.Sprintf(`{"type":"object","properties":{"x":{"type":"string","pattern":%q}}}`, p)}
		}
		s := w.peer("a").offers(command{Tools: map[string]spec{"lookahead": pattern(`^(?!tmp-)[a-z]+$`), "dear": pattern(`(a+)+$`)}})
		if s.refusedNames() != "lookahead" || !strings.Contains(s.refused["lookahead"], "(?!") {
			t.Errorf("refused %v, want the lookahead with its fragment", s.refused)
		}
		start := time.Now()
		w.want(w.callRaw("dear", `{"x":"`+strings.Repeat("a", 40)+`!"}`), "rejected, invalid_input, …")
		if took := time.Since(start); took > patience {
			t.Errorf("it took %v", took)
		}
	})
}

// The guard against cycles stops neither early nor late, and what is nested too deeply is an error and no crash. Seen to
// fail: with a bound of nesting that is out of reach.
func TestCaseD13DeepTree(t *testing.T) {
	deep := func(levels, nameless int) string {
		var text strings.Builder
		for n := range levels {
			if n != nameless {
				text.WriteString(`{"name":"n","kid":`)
			} else {
				text.WriteString(`{"kid":`)
			}
		}
		return text.String() + `{"name":"leaf"}` + strings.Repeat("}", levels)
	}
	throughCalls(t, []shape{{"x",
		`{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"kid":{"$ref":"#"}}}`,
		map[string]string{
			deep(200, -1): "", deep(200, 150): strings.Repeat("/kid", 150), deep(100_000, -1): "is nested deeper than",
			strings.Repeat(`{"kid":`, 100_000): "is nested deeper than",
		}}})
	t.Run("schemas", func(t *testing.T) { // which are as deep
		everyTransport(t, func(t *testing.T, w *world) {
			nested := strings.Repeat(`{"type":"object","properties":{"a":`, 10_000) + "{}" + strings.Repeat("}}", 10_000)
			s := w.peer("a").offers(command{Tools: map[string]spec{"deep": {Input: nested}, "out": {Output: nested}, "ok": {Says: "ok"}}})
			if got := s.refusedNames(); got != "deep out" {
				t.Errorf("refused %q", got)
			}
			w.want(w.call("ok", order{}), `completed: "ok"…`)
		})
	})
}

// One policy for formats per draft; what is not known is ignored, but a dialect that is not known is refused, and not
// fetched (see TestLaw05NothingIsLoaded). Seen to fail: with formats asserted in every draft.
func TestCaseD14FormatPerDraft(t *testing.T) {
	draft := func(uri, format string) string {
		return fmt.Sprintf(`{"$schema":%q,"type":"object","properties":{"x":{"type":"string","format":%q}}}`, uri, format)
	}
	wrong, right := `{"x":"yesterday"}`, `{"x":"2024-01-02T03:04:05Z"}`
	asserted, annotated := map[string]string{wrong: "date-time", right: ""}, map[string]string{wrong: "", right: ""}
	throughCalls(t, []shape{
		{"draft4", draft("http://json-schema.org/draft-04/schema#", "date-time"), asserted},
		{"draft6", draft("http://json-schema.org/draft-06/schema#", "date-time"), asserted},
		{"draft7", draft("http://json-schema.org/draft-07/schema#", "date-time"), asserted},
		{"draft2019", draft("https://json-schema.org/draft/2019-09/schema", "date-time"), annotated},
		{"draft2020", draft("https://json-schema.org/draft/2020-12/schema", "date-time"), annotated},
		{"none", `{"type":"object","properties":{"x":{"type":"string","format":"date-time"}}}`, annotated},
		{"unknown", draft("http://json-schema.org/draft-07/schema#", "shoe-size"), annotated},
	})
	t.Run("unknown dialect", func(t *testing.T) {
		everyTransport(t, func(t *testing.T, w *world) {
			s := w.peer("a").offers(command{Tools: map[string]spec{"x": {Input: draft("https://example.com/schema", "date-time")}}})
			if !strings.Contains(s.refused["x"], "dialect") {
				t.Errorf("refused %v", s.refused)
			}
		})
	})
}

// Each draft is read by its own rules. Seen to fail: with every schema read as one of 2020-12.
func TestSchemaOfEachDraft(t *testing.T) {
	exclusive, tuple := map[string]string{`{"n":5}`: "/n", `{"n":6}`: ""}, map[string]string{`{"t":["a",1]}`: "", `{"t":["a","b"]}`: "/t/1"}
	in := func(uri, properties string) string {
		return fmt.Sprintf(`{"$schema":%q,"type":"object","properties":{%s}}`, uri, properties)
	}
	const items = `"t":{"type":"array","items":[{"type":"string"},{"type":"integer"}]}`
	throughCalls(t, []shape{
		{"four", in("http://json-schema.org/draft-04/schema#", `"n":{"minimum":5,"exclusiveMinimum":true}`), exclusive},
		{"four-items", in("http://json-schema.org/draft-04/schema#", items), tuple},
		{"six", in("http://json-schema.org/draft-06/schema#", `"n":{"exclusiveMinimum":5}`), exclusive},
		{"seven", in("http://json-schema.org/draft-07/schema#", `"n":{"if":{"minimum":0},"then":{"exclusiveMinimum":5}}`), exclusive},
		{"nineteen", in("https://json-schema.org/draft/2019-09/schema", items+`,"n":{"exclusiveMinimum":5}`), exclusive},
		{"nineteen-items", in("https://json-schema.org/draft/2019-09/schema", items), tuple},
		{"twenty", in("https://json-schema.org/draft/2020-12/schema", `"t":{"prefixItems":[{"type":"string"},{"type":"integer"}]}`), tuple},
	})
}

// Odd shapes are accepted as what they mean. Seen to fail: with the input not validated.
func TestCaseD15OddShapes(t *testing.T) {
	x := func(schema string) string { return `{"type":"object","properties":{"x":` + schema + `}}` }
	throughCalls(t, []shape{
		{"any", x(`{"anyOf":[{"enum":["x"]},{"enum":["x"],"type":"null"}]}`), map[string]string{`{"x":"x"}`: "", `{"x":null}`: "/x"}},
		{"types", x(`{"type":["string","null"]}`), map[string]string{`{"x":"x"}`: "", `{"x":null}`: "", `{"x":5}`: "/x"}},
		{"nullable", x(`{"type":"string","nullable":true}`), map[string]string{`{"x":"x"}`: "", `{"x":null}`: "/x"}},
		{"enum-of-array", x(`{"type":"array","enum":["a","b"]}`), map[string]string{`{"x":"a"}`: "/x", `{"x":["a"]}`: "/x", `{}`: ""}},
	})
}

// Five thousand tools of one registration are all listed, sorted, and callable. Seen to fail: with names in the order of
// a map.
func TestFiveThousandTools(t *testing.T) {
	many := 5000
	if testing.Short() || raceEnabled {
		many = 1000
	}
	everyTransport(t, func(t *testing.T, w *world) {
		p := w.peerOf(registry.Owner{Name: "a", Builtin: true})
		start := time.Now()
		s := p.offers(command{Many: many})
		registered := time.Since(start)
		names := w.names()
		if len(s.refused) != 0 || len(names) != many || !slices.IsSorted(names) {
			t.Fatalf("%d are listed, %d refused", len(names), len(s.refused))
		}
		start = time.Now()
		captured := w.Capture()
		for _, name := range names {
			e := w.callIn(t.Context(), captured, w.request(name, ""))
			if e.Status != tool.Completed || string(e.Structured) != string(quoted(name)) {
				t.Fatalf("%s: %s", name, e)
			}
		}
		t.Logf("registered in %v, all called in %v", registered, time.Since(start))
		start = time.Now()
		s.close()
		if left := w.names(); len(left) > 0 {
			t.Errorf("%d are left", len(left))
		}
		t.Logf("closed in %v", time.Since(start))
	})
}
