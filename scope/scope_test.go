package scope_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/toolhost/toolhost/scope"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A journal records what happened, in order.
type journal struct {
	mu     sync.Mutex
	events []string
}

func (j *journal) add(event string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, event)
}

// take returns the events since the last take.
func (j *journal) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	events := j.events
	j.events = nil
	return events
}

// finalizer records its name and returns err.
func (j *journal) finalizer(name string, err error) func(context.Context) error {
	return func(context.Context) error {
		j.add(name)
		return err
	}
}

func (j *journal) want(t testing.TB, want ...string) {
	t.Helper()
	if got := j.take(); !slices.Equal(got, want) {
		t.Errorf("events = %q, want %q", got, want)
	}
}

func mustDefer(t testing.TB, s *scope.Scope, name string, f func(context.Context) error) {
	t.Helper()
	if err := s.Defer(name, f); err != nil {
		t.Fatalf("Defer(%q) = %v", name, err)
	}
}

func mustGo(t testing.TB, s *scope.Scope, name string, f func(context.Context) error) {
	t.Helper()
	if err := s.Go(name, f); err != nil {
		t.Fatalf("Go(%q) = %v", name, err)
	}
}

func mustFork(t testing.TB, s *scope.Scope, name string) *scope.Scope {
	t.Helper()
	fork, err := s.Fork(name)
	if err != nil {
		t.Fatalf("Fork(%q) = %v", name, err)
	}
	return fork
}

func mustClose(t testing.TB, s *scope.Scope) {
	t.Helper()
	if err := s.Close(context.Background()); err != nil {
		t.Errorf("Close = %v, want nil", err)
	}
}

// firstLines takes a joined error apart and returns the first line of each error in it, which leaves out stacks.
func firstLines(err error) []string {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		line, _, _ := strings.Cut(err.Error(), "\n")
		return []string{line}
	}
	var lines []string
	for _, err := range joined.Unwrap() {
		lines = append(lines, firstLines(err)...)
	}
	return lines
}

func past() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func isClosed(s *scope.Scope) bool { return errors.Is(context.Cause(s.Context()), scope.ErrClosed) }
