package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// many joins n members made by f with commas.
func many(n int, f func(i int) string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = f(i)
	}
	return strings.Join(parts, ",")
}

// Schemas whose compilation would hang, overflow the stack or take gigabytes are
// refused with a reason, soon (-v shows how soon).
//
// Seen to fail: without survey, when "wide and deep" took 4 s.
func TestHostileSchemasAreRefused(t *testing.T) {
	deep := strings.Repeat(`{"type":["object","null"],"properties":{"a":`, 50) + `{"properties":{` +
		many(2000, func(i int) string { return fmt.Sprintf(`"p%d":{"type":3}`, i) }) + `}}` + strings.Repeat(`}}`, 50)
	tests := []struct{ name, schema, want string }{
		{"wide and deep", deep, "too large"},
		{"too many subschemas", `{"properties":{` + many(20_000, func(i int) string { return fmt.Sprintf(`"p%d":{}`, i) }) + `}}`, "too large"},
		{"too many boolean subschemas", `{"properties":{` + many(50_000, func(i int) string { return fmt.Sprintf(`"p%d":true`, i) }) + `}}`, "too large"},
		{"many invalid subschemas", `{"properties":{` + many(80_000, func(i int) string { return fmt.Sprintf(`"p%d":1`, i) }) + `}}`, "too large"},
		{"deep", strings.Repeat(`{"items":`, 500) + `{}` + strings.Repeat(`}`, 500), "too large"},
		{"very deep", strings.Repeat(`{"items":`, 60_000) + `{}` + strings.Repeat(`}`, 60_000), "nested deeper"},
		{"over a mebibyte", `{"description":"` + strings.Repeat("x", MaxBytes) + `"}`, "bytes"},
		{"long path", `{"properties":{"` + strings.Repeat("x", 5000) + `":{}}}`, "path"},
		{"mutual allOf", `{"allOf":[{"$ref":"#/$defs/b"}],"$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"allOf":[{"$ref":"#/$defs/a"}]}}}`, "without end"},
		{"loop through a child", `{"$ref":"#/$defs/a","$defs":{"a":{"properties":{"p":{"$ref":"#/$defs/x"}},"dependentSchemas":{"q":{"$ref":"#/$defs/x"}}},"x":{"allOf":[{"$ref":"#/$defs/a"}]}}}`, "without end"},
		{"self", `{"$ref":"#"}`, "without end"},
		{"long chain", `{"$ref":"#/$defs/d0","$defs":{` + many(1500, func(i int) string {
			return fmt.Sprintf(`"d%d":{"$ref":"#/$defs/d%d"}`, i, i+1)
		}) + `,"d1500":{}}}`, "one behind another"},
		{"respelled references", `{"$defs":{"abcdefgh":{"properties":{` + many(1500, func(i int) string { return fmt.Sprintf(`"p%d":{}`, i) }) + `}}},"anyOf":[` +
			many(64, func(i int) string { return fmt.Sprintf(`{"$ref":"#/$defs/%s"}`, respell("abcdefgh", i)) }) + `]}`, "too large"},
		{"references by name", `{"$defs":{` + many(2000, func(i int) string { return fmt.Sprintf(`"d%d":{"$anchor":"a%d"}`, i, i) }) + `},"anyOf":[` +
			many(2000, func(i int) string { return fmt.Sprintf(`{"$ref":"#a%d"}`, i) }) + `]}`, "too large"},
		{"nested repetition", `{"pattern":"((a{100}){100}){100}"}`, "RE2"},
		{"very large pattern", `{"pattern":"(` + strings.Repeat("[a-z]", 200) + `){999}"}`, "too large"},
		{"long pattern", `{"pattern":"` + strings.Repeat("a", 5000) + `"}`, "bytes"},
		{"large patternProperties", `{"patternProperties":{"(` + strings.Repeat("[a-z]", 200) + `){999}":{}}}`, "too large"},
		{"many patterns", `{"anyOf":[` + many(500, func(i int) string { return `{"pattern":"(` + strings.Repeat("[a-z]", 18) + `){999}"}` }) + `]}`, "too large"},
		{"large pattern where no schema is expected", `{"default":{"pattern":"(` + strings.Repeat("[a-z]", 200) + `){999}"},"$ref":"#/default"}`, "too large"},
		{"huge number", `{"maximum":1e99999999}`, "exponent"},
		{"keyword of the wrong type in an unknown place", `{"x":{"$anchor":5},"$ref":"#/x"}`, ""},
		{"keyword that only the compiler knows", `{"regexProperties":"x"}`, "cannot be compiled"},
		{"combining", `{"$ref":"#/$defs/d0","$defs":{` + many(60, func(i int) string {
			return fmt.Sprintf(`"d%d":{"$ref":"#/$defs/d%d","properties":{%s}}`, i, i+1, many(60, func(k int) string { return fmt.Sprintf(`"p%d_%d":{}`, i, k) }))
		}) + `,"d60":{}}}`, "combine"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			start := time.Now()
			_, err := Compile(json.RawMessage(tt.schema))
			t.Logf("%v: %v", time.Since(start).Round(time.Millisecond), err)
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Fatalf("got %v, want a Error", err)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %q, want it to say %q", err, tt.want)
			}
			if len(err.Error()) > maxPathBytes+2*maxMessageBytes {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// respell writes name with other characters percent-encoded for each i.
func respell(name string, i int) string {
	var b strings.Builder
	for k, r := range name {
		if i>>k&1 == 1 {
			fmt.Fprintf(&b, "%%%02x", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Values that would keep the validator busy for minutes, or fill the memory with
// its errors, are refused before it sees them.
//
// Seen to fail: with maxSteps at 1e15, when "alternatives of alternatives" did not
// end within a minute.
func TestHostileValuesAreRefused(t *testing.T) {
	ladder := `{"$ref":"#/$defs/d0","$defs":{` + many(30, func(i int) string {
		return fmt.Sprintf(`"d%d":{"anyOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, i+1, i+1)
	}) + `,"d30":{"type":"object"}}}`
	union := `{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#/$defs/n"}}},"$defs":{"n":{"oneOf":[` +
		many(8, func(i int) string {
			return fmt.Sprintf(`{"properties":{"kind":{"const":%d},"kid":{"$ref":"#/$defs/n"}}}`, i)
		}) + `]}}}`
	enum := `{"type":"array","items":{"enum":[` + many(20_000, func(i int) string { return fmt.Sprintf(`"e%d"`, i) }) + `]}}`
	tests := []struct{ name, schema, value string }{
		{"alternatives of alternatives", ladder, `1`},
		{"alternatives at every depth", union, `{"kids":[` + strings.Repeat(`{"kind":9,"kid":`, 30) + `{}` + strings.Repeat(`}`, 30) + `]}`},
		{"alternatives of many items", `{"items":{"anyOf":[` + many(100, func(i int) string { return fmt.Sprintf(`{"const":%d}`, i) }) + `]}}`,
			`[` + strings.Repeat(`1,`, 100_000) + `1]`},
		{"large enum", enum, `[` + strings.Repeat(`"x",`, 10_000) + `"x"]`},
		{"absent properties", `{"items":{"properties":{` + many(3000, func(i int) string { return fmt.Sprintf(`"p%d":{}`, i) }) + `}}}`,
			`[` + strings.Repeat(`{},`, 100_000) + `{}]`},
		{"large pattern and long text", `{"pattern":"(a?b?c?d?){500}x$"}`, `"` + strings.Repeat("abcd", 1_000_000) + `"`},
		{"large pattern and long key", `{"patternProperties":{"(a?b?c?d?){500}x$":{}}}`, `{"` + strings.Repeat("abcd", 1_000_000) + `":1}`},
		{"large pattern of names and long key", `{"propertyNames":{"pattern":"(a?b?c?d?){500}x$"}}`, `{"` + strings.Repeat("abcd", 1_000_000) + `":1}`},
		{"unique composites", `{"uniqueItems":true}`, `[` + many(20_000, func(i int) string { return fmt.Sprintf(`[%d]`, i) }) + `]`},
		{"errors at great depth", `{"$ref":"#/$defs/n","$defs":{"n":{"items":{"$ref":"#/$defs/n"},"properties":{"x":{"type":"null"}},"allOf":[{"properties":{"x":{"type":"array"}}}]}}}`,
			strings.Repeat(`[`, 450) + `[` + strings.Repeat(`{"x":1},`, 50_000) + `{"x":1}]` + strings.Repeat(`]`, 450)},
		{"long chain at every depth", `{"$ref":"#/$defs/d0","$defs":{` + many(50, func(i int) string {
			return fmt.Sprintf(`"d%d":{"$ref":"#/$defs/d%d"}`, i, i+1)
		}) + `,"d50":{"items":{"$ref":"#/$defs/d0"}}}}`, strings.Repeat(`[`, 500) + strings.Repeat(`]`, 500)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Compile(json.RawMessage(tt.schema))
			if err != nil {
				t.Fatal(err)
			}
			v, err := Decode([]byte(tt.value))
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			err = s.Check(v)
			t.Logf("%v: %v", time.Since(start).Round(time.Millisecond), err)
			if err == nil || !strings.Contains(err.Error(), "to be validated against this schema") {
				t.Errorf("got %v, want it refused as too dear", err)
			}
		})
	}
}

// What a tool may reasonably exchange is not refused (-v shows how dear it is).
//
// Seen to fail: with maxSteps at 1e5.
func TestDearValuesAreValidated(t *testing.T) {
	tests := []struct{ name, schema, value string }{
		{"every item is wrong", `{"items":{"anyOf":[{"type":"object"},{"type":"array"},{"type":"null"}]}}`, `[` + strings.Repeat(`1,`, 30_000) + `1]`},
		{"five fields", `{"items":` + fiveFields + `}`, `[` + strings.Repeat(`{"path":"internal/some/folder/file.go","offset":120,"limit":2000,"mode":"text","follow":true},`, 20_000) + `{"path":"x"}]`},
		{"unique strings", `{"uniqueItems":true}`, `[` + many(100_000, func(i int) string { return fmt.Sprintf(`"s%d"`, i) }) + `]`},
		{"pattern", `{"pattern":"^[a-z ]+$"}`, `"` + strings.Repeat("all work ", 500_000) + `"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Compile(json.RawMessage(tt.schema))
			if err != nil {
				t.Fatal(err)
			}
			v, err := Decode([]byte(tt.value))
			if err != nil {
				t.Fatal(err)
			}
			c := checker{}
			c.value(v, []member{{s.shape.root, 1}}, 0, 0)
			start := time.Now()
			err = s.Check(v)
			took := time.Since(start)
			t.Logf("%v for %.0f steps: %v", took.Round(time.Millisecond), c.steps, err)
			if err != nil && strings.Contains(err.Error(), "to be validated against this schema") {
				t.Errorf("got %v, want it validated", err)
			}
		})
	}
}

// What generators write for large interfaces is not taken for hostile.
//
// Seen to fail: with costOfAnchor charged for "#"; with costOfPair at 1; without the
// case of a mere reference in joinPlace.
func TestLargeSchemasAreCompiled(t *testing.T) {
	tests := []struct{ name, schema string }{
		{"a thousand properties", `{"properties":{` + many(1000, func(i int) string {
			return fmt.Sprintf(`"p%d":{"type":["string","null"],"description":"The property number %d","enum":["a","b",null]}`, i, i)
		}) + `}}`},
		{"references to itself", `{"properties":{` + many(1500, func(i int) string { return fmt.Sprintf(`"p%d":{"$ref":"#"}`, i) }) + `}}`},
		{"references to definitions", `{"properties":{` + many(500, func(i int) string { return fmt.Sprintf(`"p%d":{"$ref":"#/$defs/d%d"}`, i, i%50) }) + `},"$defs":{` +
			many(50, func(i int) string {
				return fmt.Sprintf(`"d%d":{"type":"object","properties":{"next":{"$ref":"#/$defs/d%d"},"id":{"type":"integer"}},"required":["id"]}`, i, (i+1)%50)
			}) + `}}`},
		{"references to places of another specification", `{"properties":{` + many(100, func(i int) string { return fmt.Sprintf(`"p%d":{"$ref":"#/components/schemas/d%d"}`, i, i) }) + `},"components":{"schemas":{` +
			many(100, func(i int) string {
				return fmt.Sprintf(`"d%d":{"type":"object","properties":{"id":{"type":"integer"}}}`, i)
			}) + `}}}`},
		{"a union of many", `{"oneOf":[` + many(100, func(i int) string {
			return fmt.Sprintf(`{"type":"object","properties":{"kind":{"const":"k%d"},"value":{"type":"string"}},"required":["kind"]}`, i)
		}) + `]}`},
		{"nested", strings.Repeat(`{"type":"object","properties":{"a":`, 20) + `{"type":"string"}` + strings.Repeat(`}}`, 20)},
		{"a large enum", `{"enum":[` + many(5000, func(i int) string { return fmt.Sprintf(`"value-%d"`, i) }) + `]}`},
	}
	for _, tt := range tests {
		if _, err := Compile(json.RawMessage(tt.schema)); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
