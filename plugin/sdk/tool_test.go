package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/schema"
)

type Place struct {
	Name string  `json:"name" jsonschema:"where it is"`
	Lat  float64 `json:"lat,omitempty"`
	ID   int64   `json:"id,omitempty"`
}

type Weather struct {
	Sky   string   `json:"sky"`
	Hours []string `json:"hours,omitempty"`
}

func forecast(_ context.Context, _ Call, in Place) (Weather, error) {
	return Weather{Sky: "clear over " + in.Name}, nil
}

// Types become schemas in the encoded form, which refuse what the handler could
// not decode.
func TestSchemasFromTypes(t *testing.T) {
	made := New("Forecast", forecast, Network, Title("Forecast"))
	if made.err != nil {
		t.Fatal(made.err)
	}
	v := made.value
	if v.Description != "Forecast" || v.Title != "Forecast" || v.Effects != tool.Network || v.Structured != nil {
		t.Errorf("tool = %+v", v)
	}
	input, err := schema.CompileInput(v.Input)
	if err != nil {
		t.Fatal(err)
	}
	output, err := schema.Compile(v.Output)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		schema *schema.Schema
		value  string
		valid  bool
	}{
		{input, `{"name":"Oslo"}`, true},
		{input, `{"name":"Oslo","lat":59.9,"id":9223372036854775807}`, true},
		{input, `{}`, false},
		{input, `{"name":1}`, false},
		{input, `{"name":"Oslo","Name":"Bergen"}`, false},
		{input, `{"name":"Oslo","id":1.5}`, false},
		{input, `{"name":"Oslo","more":1}`, false},
		{input, `[]`, false},
		{output, `{"sky":"clear"}`, true},
		{output, `{}`, false},
	} {
		if err := tt.schema.Validate([]byte(tt.value)); (err == nil) != tt.valid {
			t.Errorf("%s: %v, want valid: %t", tt.value, err, tt.valid)
		}
	}
	if !strings.Contains(string(v.Input), "where it is") {
		t.Errorf("the description of a field is lost: %s", v.Input)
	}
}

// The handler gets the digits that were sent, also where a type does not say what
// they are (law 11).
func TestLaw11ExactNumbers(t *testing.T) {
	type exact struct {
		Int   int64          `json:"int"`
		Uint  uint64         `json:"uint"`
		Any   any            `json:"any"`
		Map   map[string]any `json:"map"`
		Raw   json.RawMessage
		Float float64 `json:"float"`
	}
	var got exact
	made := New("", func(_ context.Context, _ Call, in exact) (exact, error) { got = in; return in, nil })
	if made.err != nil {
		t.Fatal(made.err)
	}
	const in = `{"int":-9223372036854775808,"uint":18446744073709551615,"any":12345678901234567890,"map":{"k":0.1000000000000000055},"Raw":1e400,"float":0.1}`
	result, err := made.run(t.Context(), Call{}, json.RawMessage(in))
	if err != nil {
		t.Fatal(err)
	}
	want := exact{math.MinInt64, math.MaxUint64, json.Number("12345678901234567890"), map[string]any{"k": json.Number("0.1000000000000000055")}, json.RawMessage("1e400"), 0.1}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the handler got %+v, want %+v", got, want)
	}
	if string(result.Output) != in {
		t.Errorf("output = %s, want %s", result.Output, in)
	}
	for name, bad := range map[string]string{"two values": `{} {}`, "trailing text": `{}x`, "overflow": `{"int":9223372036854775808}`, "none": ``} {
		if _, err := made.run(t.Context(), Call{}, json.RawMessage(bad)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A tool that cannot be is an error when it is registered, and no panic when it
// is made.
func TestToolsThatCannotBe(t *testing.T) {
	type text string
	type recursive struct{ Next []recursive }
	for name, made := range map[string]Tool{
		"nil handler":          New[Place, Weather]("", nil),
		"nil projection":       NewProjected[Place, Weather, Weather]("", forecast, nil),
		"nil dynamic":          Dynamic(Declaration{}, nil),
		"an input of text":     New("", func(context.Context, Call, text) (int, error) { return 0, nil }),
		"an input of numbers":  New("", func(context.Context, Call, []int) (int, error) { return 0, nil }),
		"a channel":            New("", func(context.Context, Call, struct{ C chan int }) (int, error) { return 0, nil }),
		"an output of a func":  New("", func(context.Context, Call, Place) (func(), error) { return nil, nil }),
		"an endless type":      New("", func(context.Context, Call, recursive) (int, error) { return 0, nil }),
		"not made at all":      {},
		"structured of a func": NewProjected("", forecast, func(Place, Weather) (func(), []Content) { return nil, nil }),
	} {
		s := &server{executors: executors{all: map[uint64]Tool{}}}
		if _, err := (Registrar{s}).Register(t.Context(), Tools{"x": made}); err == nil || !strings.HasPrefix(err.Error(), `tool "x": `) {
			t.Errorf("%s: %v", name, err)
		}
		if len(s.executors.all) > 0 {
			t.Errorf("%s: an executor is left", name)
		}
	}
	for name, made := range map[string]Tool{
		"a map":     New("", func(context.Context, Call, map[string]int) (int, error) { return 0, nil }),
		"a pointer": New("", func(context.Context, Call, *Place) (int, error) { return 0, nil }),
		"nothing":   New("", func(context.Context, Call, struct{}) (struct{}, error) { return struct{}{}, nil }),
	} {
		if made.err != nil {
			t.Errorf("an input that is %s: %v", name, made.err)
		}
	}
}

// What cannot be encoded is an error of the handler; what can is sent as it is.
func TestOutputs(t *testing.T) {
	run := func(made Tool) (Result, error) { return made.run(t.Context(), Call{}, json.RawMessage(`{}`)) }
	type none = struct{}
	text := New("", func(context.Context, Call, none) (string, error) { return "<&> \xff\u2028", nil })
	if r, err := run(text); err != nil || !json.Valid(r.Output) || !strings.Contains(string(r.Output), "<&>") {
		t.Errorf("output = %s, %v", r.Output, err)
	}
	if _, err := run(New("", func(context.Context, Call, none) (float64, error) { return math.NaN(), nil })); err == nil {
		t.Error("not a number became an output")
	}
	failed := errors.New("failed")
	if r, err := run(New("", func(context.Context, Call, none) (string, error) { return "partial", failed })); err != failed || r.Output != nil {
		t.Errorf("result = %s, %v, want the error alone", r.Output, err)
	}
	projected := NewProjected("", func(context.Context, Call, none) (Weather, error) {
		return Weather{Sky: "clear", Hours: []string{"1"}}, nil
	}, func(_ none, out Weather) (string, []Content) {
		return out.Sky, []Content{Text("It is " + out.Sky), Link("https://example.org", "more"), Image([]byte{1}, "image/png"), Audio([]byte{2}, "audio/wav"),
			TextResource("file:///x", "text/plain", "x"), DataResource("file:///y", "", []byte{3})}
	})
	r, err := run(projected)
	if err != nil || string(r.Output) != `{"sky":"clear","hours":["1"]}` || string(r.Structured) != `"clear"` || len(r.Content) != 6 {
		t.Errorf("result = %+v, %v", r, err)
	}
}

// What happens to the declaration after a tool was made changes nothing (law 4),
// and a dynamic handler gets the very bytes.
func TestLaw04CapturedValues(t *testing.T) {
	schema := json.RawMessage(`{"type":"object"}`)
	d := Declaration{Description: "d", Input: schema, Output: schema}
	made := Dynamic(d, func(_ context.Context, _ Call, in json.RawMessage) (Result, error) { return Result{Output: in}, nil }, Read, Write)
	schema[0] = 'x'
	if string(made.value.Input) != `{"type":"object"}` || string(made.value.Output) != `{"type":"object"}` || made.value.Effects != tool.Read|tool.Write {
		t.Errorf("tool = %+v", made.value)
	}
	const in = ` { "a" : 1.0 } `
	if r, err := made.run(t.Context(), Call{}, json.RawMessage(in)); err != nil || string(r.Output) != in {
		t.Errorf("the handler got %q, %v", r.Output, err)
	}
}
