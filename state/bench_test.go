package state

import (
	"errors"
	"testing"

	"github.com/toolhost/toolhost/tool"
)

// BenchmarkCall is what the journal adds to one call: its start and its end.
func BenchmarkCall(b *testing.B) {
	c := New(Options{Dir: b.TempDir()}).OpenCalls()
	defer c.Close()
	start := tool.Start{Identity: tool.Identity{Session: "s", Agent: "a", Message: "m", Call: "c"}, Tool: "weather/forecast"}
	call := func() {
		id, err := c.Start(b.Context(), "/project", start)
		if err == nil {
			err = c.End(b.Context(), id, tool.Completed, "")
		}
		if err != nil {
			b.Error(err)
		}
	}
	call()
	b.Run("alone", func(b *testing.B) {
		for b.Loop() {
			call()
		}
	})
	b.Run("64 at once", func(b *testing.B) {
		b.SetParallelism(64)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				call()
			}
		})
	})
}

// BenchmarkHost is a host that makes one call and ends, as a command does.
func BenchmarkHost(b *testing.B) {
	dir := b.TempDir()
	start := tool.Start{Identity: tool.Identity{Session: "s", Agent: "a", Message: "m", Call: "c"}, Tool: "weather/forecast"}
	for b.Loop() {
		s := New(Options{Dir: dir})
		if _, err := s.Abandoned(b.Context()); err != nil {
			b.Fatal(err)
		}
		c := s.OpenCalls()
		id, err := c.Start(b.Context(), "/project", start)
		if err == nil {
			err = c.End(b.Context(), id, tool.Completed, "")
		}
		if err := errors.Join(err, c.Close(), s.Close()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSeen is a call near instructions that were all given before.
func BenchmarkSeen(b *testing.B) {
	s := New(Options{Dir: b.TempDir()})
	defer s.Close()
	for b.Loop() {
		if _, err := s.Seen(b.Context(), "/project", "s", []string{"AGENTS.md"}); err != nil {
			b.Fatal(err)
		}
	}
}
