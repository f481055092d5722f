package filesystem

import (
	"context"
	"slices"
	"sync"
	"time"
)

// turnLife is how long a change has turns at most, from the first that it gets: as long
// as it takes to work it out and to make it, where nobody is asked. After that the next
// change of the file is worked out, and of the two the later one finds another file than
// it expects.
const turnLife = 5 * time.Second

// turns lets changes of the same file be worked out and made one after the other, so
// that calls at the same time do not refuse each other (case A20). What is changed is
// compared all the same: a turn is a courtesy, and not a lock.
type turns struct {
	mu    sync.Mutex // guards files
	files map[string]*turn
}

// A turn is the one of a file.
type turn struct {
	token chan struct{} // full while somebody has it
	users int           // under turns.mu: those who have it or wait for it
}

// take waits for the turns of the files at paths, which are resolved. They are given
// back together, by the first call of back or turnLife after the first of them came:
// a change that still waits for others then goes on without any, so that who waits for
// those it has does not wait for those it has not. ctx bounds the waiting.
func (t *turns) take(ctx context.Context, paths []string) (back func(), err error) {
	paths = slices.Compact(slices.Sorted(slices.Values(paths))) // in one order, so that nobody waits in a circle
	if len(paths) == 0 {
		return func() {}, nil
	}
	if err := t.acquire(ctx, paths[0]); err != nil {
		return nil, err
	}
	within, over := context.WithCancel(ctx)
	h := &holding{turns: t, paths: paths[:1:1]}
	timer := time.AfterFunc(turnLife, func() { h.end(); over() })
	back = func() { timer.Stop(); h.end(); over() }
	for _, path := range paths[1:] {
		err := t.acquire(within, path)
		switch {
		case err == nil:
			h.add(path)
		case ctx.Err() != nil:
			back()
			return nil, context.Cause(ctx)
		default: // they are over
			return back, nil
		}
	}
	return back, nil
}

// A holding is the turns that one change has.
type holding struct {
	turns *turns
	mu    sync.Mutex // guards what follows
	paths []string
	ended bool
}

// add adds a turn that was taken, or gives it back if the others were.
func (h *holding) add(path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		h.turns.release(path)
		return
	}
	h.paths = append(h.paths, path)
}

// end gives all of them back, once.
func (h *holding) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, path := range h.paths {
		h.turns.release(path)
	}
	h.paths, h.ended = nil, true
}

func (t *turns) acquire(ctx context.Context, path string) error {
	t.mu.Lock()
	if t.files == nil {
		t.files = map[string]*turn{}
	}
	one := t.files[path]
	if one == nil {
		one = &turn{token: make(chan struct{}, 1)}
		t.files[path] = one
	}
	one.users++
	t.mu.Unlock()
	select {
	case one.token <- struct{}{}:
		return nil
	case <-ctx.Done():
		t.leave(path)
		return context.Cause(ctx)
	}
}

func (t *turns) release(path string) {
	t.mu.Lock()
	<-t.files[path].token
	t.mu.Unlock()
	t.leave(path)
}

func (t *turns) leave(path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one := t.files[path]; one.users > 1 {
		one.users--
	} else {
		delete(t.files, path)
	}
}
