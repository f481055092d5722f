package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/tool"
)

// open is a gate that refuses nothing, so that a benchmark measures the registry.
type open struct{}

func (open) Assert(context.Context, tool.PermissionRequest) error  { return nil }
func (open) Permit(context.Context, string, ...string) error       { return nil }
func (open) PermitCommand(context.Context, tool.CommandLine) error { return nil }
func (open) Allows(string, string) bool                            { return true }
func (open) Denies(string, string) bool                            { return false }
func (open) Refused() *tool.Refusal                                { return nil }

const readInput = `{
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

func benchRegistry(b *testing.B) *Registry {
	b.Helper()
	s := scope.New(context.WithoutCancel(b.Context()), "bench")
	b.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	r, err := New(Options{Gate: func(Caller) tool.Gate { return open{} }, Scope: s})
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// A whole call with 1 KiB in and out of an executor in the same process: capture,
// validate both ways, ask, run, settle.
func BenchmarkCall1KiB(b *testing.B) {
	r := benchRegistry(b)
	echo := echoes(readInput)
	echo.Output = echo.Input
	r.Register(Owner{Name: "bench"}, map[string]tool.Tool{"echo": echo})
	request := Request{
		Identity: tool.Identity{Session: "s", Agent: "a", Message: "m", Call: "c"}, Name: "echo",
		Input: json.RawMessage(`{"path":"` + strings.Repeat("internal/some/folder/", 45) + `file.go","offset":120,"limit":2000,"mode":"text","follow":true}`),
	}
	b.ReportAllocs()
	call := func() {
		s, err := r.Capture().Call(context.Background(), request)
		if err != nil || s.Status != tool.Completed {
			b.Fatal(s, err)
		}
	}
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			call()
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				call()
			}
		})
	})
}

// The same without schemas: what the steps of a call cost beside validation.
func BenchmarkCallBare(b *testing.B) {
	r := benchRegistry(b)
	r.Register(Owner{Name: "bench"}, map[string]tool.Tool{"echo": echoes("")})
	request := Request{Identity: tool.Identity{Session: "s", Agent: "a", Message: "m", Call: "c"}, Name: "echo"}
	b.ReportAllocs()
	for b.Loop() {
		if s, err := r.Capture().Call(context.Background(), request); err != nil || s.Status != tool.Completed {
			b.Fatal(s, err)
		}
	}
}

// Five thousand tools with schemas of their own: registered for the first time,
// registered again as after a restart, and captured after each change.
func BenchmarkRegister5000(b *testing.B) {
	tools := make(map[string]tool.Tool)
	for i := range 5000 {
		tools[fmt.Sprintf("tool_%d", i)] = echoes(strings.Replace(readInput, `"path"`, fmt.Sprintf(`"path%d": {}, "path"`, i), 1))
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			benchRegistry(b).Register(Owner{Name: "bench"}, tools)
		}
	})
	b.Run("again", func(b *testing.B) {
		r := benchRegistry(b)
		registration, _ := r.Register(Owner{Name: "bench"}, tools)
		for b.Loop() {
			registration.Close()
			registration, _ = r.Register(Owner{Name: "bench"}, tools)
		}
	})
	b.Run("capture changed", func(b *testing.B) {
		r := benchRegistry(b)
		r.Register(Owner{Name: "bench"}, tools)
		for b.Loop() {
			registration, _ := r.Register(Owner{Name: "bench"}, nil)
			r.Capture()
			registration.Close()
		}
	})
	b.Run("capture unchanged", func(b *testing.B) {
		r := benchRegistry(b)
		r.Register(Owner{Name: "bench"}, tools)
		for b.Loop() {
			r.Capture()
		}
	})
}
