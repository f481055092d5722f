package schema

import (
	"encoding/json"
	"strings"
	"testing"
)

// Parts that contradict each other are accepted, as they are valid, enforced as
// they stand, and named (case D15).
//
// Seen to fail: with integers that are written 1.0 taken for no integers; with the
// values of "enum" looked at as schemas.
func TestCaseD15ContradictoryPartsAreNamed(t *testing.T) {
	for _, tt := range []struct{ schema, want string }{
		{`{"anyOf":[{"enum":["x"]},{"enum":["x"],"type":"null"}]}`, "/anyOf/1: no value of enum has the type null"},
		{`{"properties":{"tags":{"type":"array","enum":["a","b"]}}}`, "/properties/tags: no value of enum has the type array"},
		{`{"type":["string","null"],"enum":["x",null]}`, ""},
		{`{"type":"integer","enum":[1.0,"x"]}`, ""},
		{`{"type":"integer","const":1.5}`, "/: no value of const has the type integer"},
		{`{"type":"object","const":{"type":"null","enum":["x"]}}`, ""},
		{`{"minimum":2,"maximum":1.5}`, "/: minimum is above maximum"},
		{`{"minLength":1,"maxLength":1}`, ""},
		{`{"items":{"minItems":3,"maxItems":2}}`, "/items: minItems is above maxItems"},
		{`{"properties":{"type":{"type":"string"},"enum":{"type":"array"},"minimum":{},"maximum":{}}}`, ""},
		{`true`, ""},
	} {
		s, err := Compile(json.RawMessage(tt.schema))
		if err != nil {
			t.Errorf("%s: %v", tt.schema, err)
			continue
		}
		if got := strings.Join(s.Doubts(), "; "); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.schema, got, tt.want)
		}
	}
	many := `{"anyOf":[` + strings.Repeat(`{"type":"null","const":1},`, 100) + `true]}`
	if s, err := Compile(json.RawMessage(many)); err != nil || len(s.Doubts()) != maxDoubts {
		t.Errorf("of many: got %v, %v", s.Doubts(), err)
	}
}
