package scope_test

import (
	"context"
	"testing"
	"time"

	"github.com/toolhost/toolhost/scope"
)

// A fork that owns nothing, closed with the deadline that owners are asked for.
func BenchmarkForkClose(b *testing.B) {
	s := scope.New(b.Context(), "s")
	defer mustClose(b, s)
	ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		fork, err := s.Fork("fork")
		if err != nil {
			b.Fatal(err)
		}
		if err := fork.Close(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// A fork with one finalizer, as a call or a registration has.
func BenchmarkForkDeferClose(b *testing.B) {
	s := scope.New(b.Context(), "s")
	defer mustClose(b, s)
	ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		fork, err := s.Fork("fork")
		if err != nil {
			b.Fatal(err)
		}
		if err := fork.Defer("file", func(context.Context) error { return nil }); err != nil {
			b.Fatal(err)
		}
		if err := fork.Close(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGo(b *testing.B) {
	s := scope.New(b.Context(), "s")
	defer mustClose(b, s)
	ended := make(chan struct{})
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Go("work", func(context.Context) error { ended <- struct{}{}; return nil }); err != nil {
			b.Fatal(err)
		}
		<-ended
	}
}

// What [BenchmarkGo] costs without a scope.
func BenchmarkGoBare(b *testing.B) {
	ended := make(chan struct{})
	b.ReportAllocs()
	for b.Loop() {
		go func() { ended <- struct{}{} }()
		<-ended
	}
}
