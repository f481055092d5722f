package scope

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrClosed is wrapped by the error of every operation on a scope whose closing, or that of a scope above it, has begun,
// and by the cause of a context that a closing cancelled.
var ErrClosed = errors.New("scope is closed")

// A Scope owns finalizers, goroutines and forks, and releases them when it is closed. Make one with [New] or [Scope.Fork].
// All methods may be called concurrently.
type Scope struct {
	name   string
	parent *Scope        // nil at the top of a tree
	place  *list.Element // in parent.owned; written once, under parent.mu
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when all is released
	result error         // of Close; written before done is closed

	mu       sync.Mutex              // guards what follows
	owned    list.List               // of *item, oldest first
	polite   context.Context         // bounds the politeness of the closing that has begun here or above; nil while open
	hurry    context.CancelCauseFunc // ends polite early; nil until this scope itself is being closed
	errs     []error                 // what Close will report
	failures int                     // goroutines that ended with an error, kept in errs or not
}

// An item is one thing owned by a scope. Exactly one of its last three fields is set.
type item struct {
	name      string
	finalizer func(context.Context) error
	fork      *Scope
	goroutine chan struct{} // closed when the goroutine has ended
}

// New makes a scope at the top of a tree. The caller owns it and must call [Scope.Close].
//
// The context of the scope has the values of ctx and is cancelled with it. That ends the work and releases nothing: only
// Close does. The name begins the path in every error of the tree.
func New(ctx context.Context, name string) *Scope {
	s := &Scope{name: name, done: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	return s
}

// Context is what the scope's work runs under. It is cancelled by [Scope.Cancel] or Close, of this scope or one above, and
// with the context given to [New]. [context.Cause] tells which: after Close it wraps [ErrClosed] and names the scope that
// was closed.
func (s *Scope) Context() context.Context { return s.ctx }

// Cancel cancels the context of the scope and of all scopes below it, and releases nothing. The first cause stands; nil
// stands for [context.Canceled]. A cancelled scope still takes what it is given, until it is closed.
func (s *Scope) Cancel(cause error) { s.cancel(cause) }

// Defer gives the scope something to release. Whatever Defer returns, the caller does not own it any more (law 1).
//
// While the scope is open, f is kept for Close and the error is nil. Once the closing of this scope, or of one above it, has
// begun, Defer runs f before it returns, as Close would: in a goroutine of its own, with what is left of that closing's
// politeness, and waited for no longer than [Overtime] after it. After Close there is none left. The error then wraps
// [ErrClosed], and the error of f if it has one.
//
// f is called exactly once. Its context carries the values of the context given to Close. It must use force rather than
// give up when that context ends, and must return soon after. A panic in it is contained as a [PanicError].
func (s *Scope) Defer(name string, f func(context.Context) error) error {
	_, polite := s.own(&item{name: name, finalizer: f})
	if polite == nil {
		return nil
	}
	return errors.Join(s.closedError(name), s.finalize(polite, name, f))
}

// Fork makes a scope below this one. Its context is a child of this one's, and it is closed at this place in the order if it
// was not closed before. The caller owns it and may close it at any time; its errors then go to the caller alone. An error
// of Fork wraps [ErrClosed].
func (s *Scope) Fork(name string) (*Scope, error) {
	fork := New(s.ctx, name)
	fork.parent = s
	if _, polite := s.own(&item{name: name, fork: fork}); polite != nil {
		err := s.closedError(name)
		fork.cancel(err)
		return nil, err
	}
	return fork, nil
}

// Go runs f in a goroutine that the scope joins at this place in the order. When the closing of this scope, or of one above
// it, has begun, f is not run, and the error wraps [ErrClosed].
//
// The context of f is the scope's; f must return soon after it was cancelled. An error of f does not cancel the scope or its
// siblings (call [Scope.Cancel] for that) and is joined into the result of Close. Returning the context's error or cause
// once it was cancelled, wrapped or not, is how a goroutine stops and is no error. A panic in f is contained as a
// [PanicError]. A scope keeps the first 16 errors of its goroutines and counts the others (law 7).
func (s *Scope) Go(name string, f func(context.Context) error) error {
	g := &item{name: name, goroutine: make(chan struct{})}
	place, polite := s.own(g)
	if polite != nil {
		return s.closedError(name)
	}
	start(s.mark(s.ctx, name), f, func(err error) {
		s.ended(place, g, err)
	})
	return nil
}

// own puts it at the end of the order and returns its place. Once a closing has begun it does nothing but return the context
// that bounds its politeness.
func (s *Scope) own(it *item) (place *list.Element, polite context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.polite != nil {
		return nil, s.polite
	}
	place = s.owned.PushBack(it)
	if it.fork != nil {
		it.fork.place = place
	}
	return place, nil
}

// forget drops what is at place, which may be gone already.
func (s *Scope) forget(place *list.Element) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owned.Remove(place)
}

// keptFailures bounds the errors of goroutines that one scope keeps for Close.
const keptFailures = 16

// ended forgets the goroutine g, which returned err.
func (s *Scope) ended(place *list.Element, g *item, err error) {
	if stoppedAsAsked(s.ctx, err) {
		err = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(g.goroutine)
	s.owned.Remove(place)
	if err == nil {
		return
	}
	if s.failures++; s.failures <= keptFailures {
		s.errs = append(s.errs, fmt.Errorf("%s: %w", s.path(g.name), err))
	}
}

// stoppedAsAsked reports whether err says no more than that ctx was cancelled.
func stoppedAsAsked(ctx context.Context, err error) bool {
	if _, panicked := err.(*PanicError); panicked || ctx.Err() == nil { //nolint:errorlint // only a panic of this goroutine counts
		return false
	}
	return errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))
}

// path is where name stands in the tree: "host/location a/plugin fs/name".
func (s *Scope) path(name string) string {
	for ; s != nil; s = s.parent {
		name = s.name + "/" + name
	}
	return name
}

func (s *Scope) closedError(name string) error {
	return fmt.Errorf("%s: %w", s.path(name), ErrClosed)
}

// A Tree is what a scope and the scopes below it held at one moment.
type Tree struct {
	Name  string
	Owned []string // names of finalizers and running goroutines, oldest first
	Forks []Tree   // oldest first
}

// Tree returns what the scope holds now, for a person to read. During Close it shows what is still to be released. Every
// scope is looked at once, one after another, so that a tree that changes meanwhile may be seen half changed.
func (s *Scope) Tree() Tree {
	tree := Tree{Name: s.name}
	for _, it := range s.items() {
		if it.fork != nil {
			tree.Forks = append(tree.Forks, it.fork.Tree())
		} else {
			tree.Owned = append(tree.Owned, it.name)
		}
	}
	return tree
}

// items returns what is owned, oldest first.
func (s *Scope) items() []*item {
	s.mu.Lock()
	defer s.mu.Unlock()
	items := make([]*item, 0, s.owned.Len())
	for e := s.owned.Front(); e != nil; e = e.Next() {
		items = append(items, e.Value.(*item))
	}
	return items
}
