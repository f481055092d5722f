package schema

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

const fiveFields = `{
	"type": "object",
	"properties": {
		"path": {"type": "string", "minLength": 1},
		"offset": {"type": "integer", "minimum": 0},
		"limit": {"type": "integer", "minimum": 1, "maximum": 2000},
		"mode": {"enum": ["text", "binary"]},
		"follow": {"type": "boolean"}
	},
	"required": ["path"],
	"additionalProperties": false
}`

// fiveFieldInput is about 1 KiB.
func fiveFieldInput() []byte {
	return []byte(`{"path":"` + strings.Repeat("internal/some/folder/", 45) + `file.go","offset":120,"limit":2000,"mode":"text","follow":true}`)
}

func compiledForBench(b *testing.B, raw string) *Schema {
	b.Helper()
	s, err := Compile(json.RawMessage(raw))
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// Reading and validating what a model sends: the strict decoder, the check of the
// keys, and the validator.
func BenchmarkSchemaDecode1KiB(b *testing.B) {
	s := compiledForBench(b, fiveFields)
	raw := fiveFieldInput()
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Decode(raw); err != nil {
			b.Fatal(err)
		}
	}
}

// The validator alone, on a value that is decoded already: the floor of
// BenchmarkSchemaDecode1KiB.
func BenchmarkValidatorAlone(b *testing.B) {
	compiled := jsonschema.MustCompileString("schema:///bench", fiveFields)
	v, err := Decode(fiveFieldInput())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := compiled.Validate(v); err != nil {
			b.Fatal(err)
		}
	}
}

// Decoding alone, beside encoding/json on the same bytes.
func BenchmarkDecode1KiB(b *testing.B) {
	raw := fiveFieldInput()
	b.Run("strict", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Decode(raw); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding-json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var v any
			if err := json.Unmarshal(raw, &v); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkCheckKeys(b *testing.B) {
	s := compiledForBench(b, fiveFields)
	v, err := Decode(fiveFieldInput())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if problem := s.shape.check(v); problem != nil {
			b.Fatal(problem)
		}
	}
}

// Bulk text in one string, which must stay cheap.
func BenchmarkSchemaDecode1MiBString(b *testing.B) {
	s := compiledForBench(b, `{"type":"object","properties":{"text":{"type":"string"}}}`)
	raw := []byte(`{"text":"` + strings.Repeat("all work and no play makes a tool. ", 30_000) + `"}`)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Decode(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSchemaDecode1MiBStructure(b *testing.B) {
	s := compiledForBench(b, `{"type":"array","items":`+fiveFields+`}`)
	item := `{"path":"internal/some/folder/file.go","offset":120,"limit":2000,"mode":"text","follow":true}`
	raw := []byte(`[` + strings.Repeat(item+",", 11_000) + item + `]`)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Decode(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := CompileInput(json.RawMessage(fiveFields)); err != nil {
			b.Fatal(err)
		}
	}
}
