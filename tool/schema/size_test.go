package schema

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// heap is how many bytes are in use.
func heap() int {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // what sync.Pool kept
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

// The size of a schema is at least what it occupies, and not far from it (-v shows
// how far).
//
// Seen to fail: with sizeOfInstruction at 16, sizeOfNode at 500, sizeOfDeclared at
// 1 and sizeOfMember at 1.
func TestLaw05SizeOfSchema(t *testing.T) {
	patterns := func(pattern string) string {
		return `{"properties":{` + many(10, func(i int) string { return fmt.Sprintf(`"p%d":{"pattern":%q}`, i, pattern) }) + `}}`
	}
	properties := func(schema string) string {
		return `{"properties":{` + many(1000, func(i int) string { return fmt.Sprintf(`"p%d":%s`, i, schema) }) + `}}`
	}
	required := `{"required":[` + many(4000, func(i int) string { return fmt.Sprintf(`"p%d"`, i) }) + `]}`
	tests := []struct{ name, schema string }{
		{"repetitions", patterns(strings.Repeat("a{1000}", 7))},
		{"anchored", patterns("^" + strings.Repeat("a{90}", 10) + "$")},
		{"classes", patterns("^(?:" + strings.Repeat("[a-z0-9_]", 90) + "){10}$")},
		{"alternatives", patterns(strings.Repeat("(a?b?){900}", 2))},
		{"optional", patterns(strings.Repeat("(?:ab){0,900}", 3))},
		{"a long literal", patterns("(?i)" + strings.Repeat("k", 4000))},
		{"Unicode", patterns(strings.Repeat(`\\pL`, 25))},
		{"pattern of names", `{"patternProperties":{"` + strings.Repeat("a{1000}", 7) + `":{}}}`},
		{"properties", properties(`{}`)},
		{"objects", properties(`{"type":"object","properties":{"a":{},"b":{}}}`)},
		{"numbers", properties(`{"minimum":1e-900,"maximum":1e900}`)},
		{"long paths", `{"properties":{"` + strings.Repeat("x", 3000) + `":` + properties(`{}`) + `}}`},
		{"required", required},
		{"combined", strings.Repeat(`{"required":["z"],"allOf":[true,`, 8) + required + strings.Repeat(`]}`, 8)},
		{"enum", `{"enum":[` + many(10_000, func(i int) string { return fmt.Sprintf(`"p%d"`, i) }) + `]}`},
		{"enum of objects", `{"enum":[` + many(4000, func(i int) string { return fmt.Sprintf(`{"a":[%d]}`, i) }) + `]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			raw := json.RawMessage(tt.schema)
			before := heap()
			s, err := Compile(raw)
			if err != nil {
				t.Fatal(err)
			}
			occupied := heap() - before
			t.Logf("occupies %d, Size %d, %.1f times", occupied, s.Size(), float64(s.Size())/float64(occupied))
			if s.Size() < occupied || s.Size() > 6*occupied {
				t.Errorf("Size() = %d, want a little more than the %d bytes that it occupies", s.Size(), occupied)
			}
			runtime.KeepAlive(s)
			runtime.KeepAlive(raw)
		})
	}
}

// A small schema that becomes large is refused with the reason, before its
// patterns are compiled.
//
// Seen to fail: without the bound in surveyor.pattern.
func TestLaw05SchemaThatBecomesLarge(t *testing.T) {
	pattern := strings.Repeat("a{1000}", 7)
	tests := []struct{ name, schema, want string }{
		{"patterns", `{"properties":{` + many(50, func(i int) string { return fmt.Sprintf(`"p%d":{"pattern":%q}`, i, pattern) }) + `}}`,
			`schema: its patterns take more than 8 MiB of memory with "a{1000}a{1000}`},
		{"patterns of names", `{"patternProperties":{` + many(50, func(i int) string { return fmt.Sprintf(`"%s%d":{}`, pattern, i) }) + `}}`,
			`schema: its patterns take more than 8 MiB of memory with "a{1000}a{1000}`},
		{"combined", strings.Repeat(`{"required":["z"],"allOf":[true,`, 15) + `{"required":[` + many(5000, func(i int) string { return fmt.Sprintf(`"p%d"`, i) }) + `]}` + strings.Repeat(`]}`, 15),
			"of memory once it is compiled: at most 8388608"},
	}
	for _, tt := range tests {
		if _, err := Compile(json.RawMessage(tt.schema)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}
