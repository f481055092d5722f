package sdk

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

type numbers struct {
	I     int64          `json:"i"`
	U     uint64         `json:"u"`
	F     float64        `json:"f"`
	Any   any            `json:"any"`
	Text  string         `json:"text"`
	Exact json.Number    `json:"exact"`
	More  map[string]any `json:"more"`
}

// Whole numbers in any spelling reach an int; every digit is kept (law 11, D01).
func TestDecodeInput(t *testing.T) {
	for _, test := range []struct {
		input string
		want  numbers
	}{
		{`{"i": 9007199254740993, "u": 18446744073709551615}`, numbers{I: 9007199254740993, U: 18446744073709551615}},
		{`{"i": 5.0, "text": "5.0 \" 1e3"}`, numbers{I: 5, Text: `5.0 " 1e3`}},
		{`{"i": -1.2e1, "f": 0.5}`, numbers{I: -12, F: 0.5}},
		{`{"any": 0.10, "exact": 1e400}`, numbers{Any: json.Number("0.10"), Exact: "1e400"}},
		{`{"i": 1e3, "more": {"a": 2.50}}`, numbers{I: 1000, More: map[string]any{"a": json.Number("2.50")}}},
	} {
		got, err := decodeInput[numbers](json.RawMessage(test.input), true)
		g, _ := json.Marshal(got)
		w, _ := json.Marshal(test.want)
		if err != nil || string(g) != string(w) {
			t.Errorf("%s: got %s, %v, want %s", test.input, g, err, w)
		}
	}
}

// What fits the schema and not the type is told to the model.
func TestDecodeInputThatDoesNotFit(t *testing.T) {
	for _, input := range []string{`{"i": 1e30}`, `{"i": 9223372036854775808}`, `{"u": -1}`, `{"i": 1e999999999}`} {
		_, err := decodeInput[numbers](json.RawMessage(input), true)
		if err == nil || !strings.Contains(err.Error(), "fits") {
			t.Errorf("%s: got %v, want a failure", input, err)
		}
	}
}

func TestHoldsInterface(t *testing.T) {
	type plain struct {
		A []map[string]int
		B *plain
	}
	type deep struct {
		A []map[string]*struct{ B any }
	}
	for _, test := range []struct {
		value any
		want  bool
	}{{plain{}, false}, {deep{}, true}, {map[string]any{}, true}, {echoIn{}, false}} {
		if got := holdsInterface(reflect.TypeOf(test.value), map[reflect.Type]bool{}); got != test.want {
			t.Errorf("%T: got %t", test.value, got)
		}
	}
}

type echoIn struct{ Text string }

func FuzzWholeNumbers(f *testing.F) {
	f.Add(`{"a": [1.0, -2e2, "3.0", 0.5e1]}`)
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) {
			return
		}
		if out := wholeNumbers([]byte(text)); !json.Valid(out) {
			t.Errorf("%q became %q", text, out)
		}
	})
}
