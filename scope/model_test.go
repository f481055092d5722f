package scope_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/toolhost/toolhost/scope"
)

// The model: every sequence of operations on a tree of scopes leaves the tree, the order of release and the errors that the
// laws say. It runs in a bubble, where synctest.Wait makes the ends of goroutines visible.
func TestScopeModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(bubble{t}, func(t *rapid.T) {
			m := &model{}
			m.scopes = []*modelScope{{real: scope.New(context.Background(), "top"), name: "top", m: m}}
			t.Repeat(map[string]func(*rapid.T){
				"":          m.check,
				"fork":      m.fork,
				"defer":     m.deferred,
				"go":        m.goroutine,
				"serve":     m.serve,
				"end":       m.end,
				"cancel":    m.cancel,
				"close":     m.close,
				"close now": m.closeNow,
			})
			m.closeScope(t, m.scopes[0], context.Background())
			m.check(t)
		})
	})
}

// A bubble keeps rapid from asking for the test's deadline, which has no meaning in fake time.
type bubble struct{ *testing.T }

type model struct {
	journal journal
	scopes  []*modelScope // all that were ever made
	next    int           // for unique names
	closing *modelScope   // what the finalizers that run now should see cancelled
}

type modelScope struct {
	m         *model
	real      *scope.Scope
	name      string
	parent    *modelScope
	items     []*modelItem
	failures  []string // of goroutines that have ended
	cancelled bool
	closed    bool
	result    error
}

type modelItem struct {
	name  string
	path  string
	fails bool          // as a finalizer, or as a goroutine that is cancelled
	told  chan error    // a goroutine's end when it is told; nil for the rest
	stop  chan struct{} // of a server; its finalizer closes it
	fork  *modelScope
}

func (m *model) name(kind string) string {
	m.next++
	return fmt.Sprintf("%s%d", kind, m.next)
}

func (m *model) anyScope(t *rapid.T) *modelScope { return rapid.SampledFrom(m.scopes).Draw(t, "scope") }

func (s *modelScope) path(name string) string {
	if s.parent == nil {
		return s.name + "/" + name
	}
	return s.parent.path(s.name + "/" + name)
}

// subtree is s and every scope that was ever made below it.
func (s *modelScope) subtree() []*modelScope {
	var all []*modelScope
	for _, other := range s.m.scopes {
		for up := other; up != nil; up = up.parent {
			if up == s {
				all = append(all, other)
				break
			}
		}
	}
	return all
}

func (m *model) fork(t *rapid.T) {
	s, name := m.anyScope(t), m.name("fork")
	real, err := s.real.Fork(name)
	if s.refused(t, "Fork", err) {
		return
	}
	fork := &modelScope{m: m, real: real, name: name, parent: s, cancelled: s.cancelled}
	s.items = append(s.items, &modelItem{name: name, fork: fork})
	m.scopes = append(m.scopes, fork)
}

// refused checks err, which says that s is closed or is nil.
func (s *modelScope) refused(t *rapid.T, what string, err error) bool {
	if errors.Is(err, scope.ErrClosed) != s.closed || !s.closed && err != nil {
		t.Fatalf("%s on %s (closed: %v) = %v", what, s.name, s.closed, err)
	}
	return s.closed
}

var errModel = errors.New("model")

func (m *model) deferred(t *rapid.T) {
	s := m.anyScope(t)
	item := s.item("file")
	end := rapid.SampledFrom([]string{"nil", "error", "panic"}).Draw(t, "end")
	item.fails = end != "nil"
	err := s.real.Defer(item.name, func(context.Context) error {
		m.journal.add(item.path)
		if m.closing != nil {
			for _, below := range m.closing.subtree() {
				if below.real.Context().Err() == nil {
					m.journal.add(below.name + " is not cancelled")
				}
			}
		}
		switch end {
		case "error":
			return errModel
		case "panic":
			panic(errModel)
		}
		return nil
	})
	if s.refused(t, "Defer", err) {
		if got, want := m.journal.take(), []string{item.path}; !slices.Equal(got, want) {
			t.Fatalf("Defer on a closed scope ran %q, want %q", got, want)
		}
		if errors.Is(err, errModel) != item.fails {
			t.Fatalf("Defer on a closed scope = %v, finalizer fails: %v", err, item.fails)
		}
		return
	}
	s.items = append(s.items, item)
}

func (s *modelScope) item(kind string) *modelItem {
	name := s.m.name(kind)
	return &modelItem{name: name, path: s.path(name)}
}

// goroutine starts one that ends when it is told or cancelled.
func (m *model) goroutine(t *rapid.T) {
	s := m.anyScope(t)
	item := s.item("work")
	item.told = make(chan error, 1)
	item.fails = len(s.failures) < 8 && len(s.items) < 8 && rapid.Bool().Draw(t, "fails")
	err := s.real.Go(item.name, func(ctx context.Context) error {
		defer m.journal.add(item.path)
		select {
		case err := <-item.told:
			return err
		case <-ctx.Done():
			if item.fails {
				return errModel
			}
			return context.Cause(ctx)
		}
	})
	if s.refused(t, "Go", err) {
		return
	}
	s.items = append(s.items, item)
	if s.cancelled {
		synctest.Wait()
		s.ended(item, item.fails)
		m.journal.take()
	}
}

// serve starts a goroutine that heeds nothing but the finalizer that stands after it.
func (m *model) serve(t *rapid.T) {
	s := m.anyScope(t)
	work, stop := s.item("serve"), s.item("stop")
	work.stop = make(chan struct{})
	err := s.real.Go(work.name, func(context.Context) error {
		<-work.stop
		m.journal.add(work.path)
		return nil
	})
	if s.refused(t, "Go", err) {
		return
	}
	err = s.real.Defer(stop.name, func(context.Context) error {
		m.journal.add(stop.path)
		close(work.stop)
		return nil
	})
	s.refused(t, "Defer", err)
	s.items = append(s.items, work, stop)
}

// end tells a goroutine to end.
func (m *model) end(t *rapid.T) {
	s := m.anyScope(t)
	running := slices.DeleteFunc(slices.Clone(s.items), func(it *modelItem) bool { return it.told == nil })
	if len(running) == 0 {
		t.Skip("no goroutine is running")
	}
	item := rapid.SampledFrom(running).Draw(t, "goroutine")
	var err error
	if item.fails {
		err = errModel
	}
	item.told <- err
	synctest.Wait()
	s.ended(item, item.fails)
	m.journal.take()
}

func (s *modelScope) ended(item *modelItem, failed bool) {
	s.forget(item)
	if failed {
		s.failures = append(s.failures, item.path+": model")
	}
}

func (s *modelScope) forget(item *modelItem) {
	s.items = slices.DeleteFunc(s.items, func(it *modelItem) bool { return it == item })
}

func (m *model) cancel(t *rapid.T) {
	s := m.anyScope(t)
	s.real.Cancel(errors.New("cancelled by the model"))
	synctest.Wait()
	for _, below := range s.subtree() {
		below.cancelled = true
		for _, item := range slices.Clone(below.items) {
			if item.told != nil {
				below.ended(item, item.fails)
			}
		}
	}
	m.journal.take()
}

func (m *model) close(t *rapid.T)    { m.closeScope(t, m.anyScope(t), context.Background()) }
func (m *model) closeNow(t *rapid.T) { m.closeScope(t, m.anyScope(t), past()) }

func (m *model) closeScope(t *rapid.T, s *modelScope, ctx context.Context) {
	if s.closed {
		if err := s.real.Close(ctx); s.result != nil && err != s.result {
			t.Fatalf("second Close = %v, want %v", err, s.result)
		}
		return
	}
	wantOrder, wantErrors := s.expect()
	m.closing = s
	s.result = s.real.Close(ctx)
	m.closing = nil

	if got := m.journal.take(); !validOrder(got, wantOrder) {
		t.Fatalf("Close of %s released\n%q, want\n%q", s.name, got, paths(wantOrder))
	}
	got := firstLines(s.result)
	for i, line := range got {
		if path, ok := strings.CutSuffix(line, ": panic: model"); ok {
			got[i] = path + ": model"
		}
	}
	slices.Sort(got)
	slices.Sort(wantErrors)
	if !slices.Equal(got, wantErrors) {
		t.Fatalf("Close of %s = %q, want %q", s.name, got, wantErrors)
	}
	for _, below := range s.subtree() {
		below.closed, below.cancelled, below.items = true, true, nil
	}
	if s.parent != nil {
		for _, item := range s.parent.items {
			if item.fork == s {
				s.parent.forget(item)
				break
			}
		}
	}
}

// expect is the order in which a Close of s takes things away, and the errors that it reports.
func (s *modelScope) expect() (order []*modelItem, errs []string) {
	errs = slices.Clone(s.failures)
	for _, item := range slices.Backward(s.items) {
		if item.fork != nil {
			itemsBelow, errsBelow := item.fork.expect()
			order, errs = append(order, itemsBelow...), append(errs, errsBelow...)
			continue
		}
		order = append(order, item)
		if item.fails {
			errs = append(errs, item.path+": model")
		}
	}
	return order, errs
}

// validOrder reports whether got is want, except that a goroutine that is told by its context may end before its place.
func validOrder(got []string, want []*modelItem) bool {
	if len(got) != len(want) {
		return false
	}
	early := map[string]bool{}
	for _, item := range want {
		for len(got) > 0 && got[0] != item.path && !early[item.path] {
			if !slices.ContainsFunc(want, func(it *modelItem) bool { return it.path == got[0] && it.told != nil }) {
				return false
			}
			early[got[0]] = true
			got = got[1:]
		}
		if early[item.path] {
			continue
		}
		if len(got) == 0 {
			return false
		}
		got = got[1:]
	}
	return true
}

func paths(items []*modelItem) []string {
	var all []string
	for _, item := range items {
		all = append(all, item.path)
	}
	return all
}

func (m *model) check(t *rapid.T) {
	if diff := cmp.Diff(m.scopes[0].tree(), m.scopes[0].real.Tree()); diff != "" {
		t.Fatalf("tree (-want +got):\n%s", diff)
	}
	for _, s := range m.scopes {
		if got := s.real.Context().Err() != nil; got != s.cancelled {
			t.Fatalf("%s is cancelled: %v, want %v", s.name, got, s.cancelled)
		}
	}
	if events := m.journal.take(); len(events) > 0 {
		t.Fatalf("released without a Close: %q", events)
	}
}

func (s *modelScope) tree() scope.Tree {
	tree := scope.Tree{Name: s.name}
	for _, item := range s.items {
		if item.fork != nil {
			tree.Forks = append(tree.Forks, item.fork.tree())
		} else {
			tree.Owned = append(tree.Owned, item.name)
		}
	}
	return tree
}

// Many owners at once, while the top is closed: whatever was accepted or refused, every finalizer ran once when all is over,
// none ran before its scope's context was cancelled, and nothing is held any more.
func TestScopeConcurrently(t *testing.T) {
	for seed := range uint64(20) {
		top := scope.New(t.Context(), "top")
		mid, err := top.Fork("mid")
		if err != nil {
			t.Fatal(err)
		}
		var deferred, ran, early atomic.Int64
		var owners sync.WaitGroup
		for owner := range uint64(8) {
			owners.Go(func() {
				r := rand.New(rand.NewPCG(seed, owner))
				scopes := []*scope.Scope{top, mid}
				for range 200 {
					s := scopes[r.IntN(len(scopes))]
					switch r.IntN(5) {
					case 0:
						if fork, err := s.Fork("fork"); err == nil {
							scopes = append(scopes, fork)
						}
					case 1, 2:
						deferred.Add(1)
						s.Defer("file", func(context.Context) error {
							if s.Context().Err() == nil {
								early.Add(1)
							}
							ran.Add(1)
							return nil
						})
					case 3:
						s.Go("work", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
					case 4:
						if s != top && s != mid || r.IntN(50) == 0 {
							if err := s.Close(context.Background()); err != nil {
								t.Errorf("Close = %v", err)
							}
						}
					}
				}
			})
		}
		if err := mid.Close(context.Background()); err != nil {
			t.Errorf("Close = %v", err)
		}
		if err := top.Close(context.Background()); err != nil {
			t.Errorf("Close = %v", err)
		}
		owners.Wait()
		if got, want := ran.Load(), deferred.Load(); got != want || early.Load() != 0 {
			t.Errorf("seed %d: %d finalizers ran, %d of them before the context was cancelled; want %d and 0", seed, got, early.Load(), want)
		}
		if diff := cmp.Diff(scope.Tree{Name: "top"}, top.Tree()); diff != "" {
			t.Errorf("seed %d: tree (-want +got):\n%s", seed, diff)
		}
	}
}
