package filesystem

import (
	"context"
	"slices"
	"sync"
	"time"
)

// turnLife is how long a turn lasts at most: as long as it takes to work a change out
// and to make it, where nobody is asked. After that the next change of the file is
// worked out, and of the two the later one finds another file than it expects.
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

// take waits for the turns of the files at paths, which are resolved. It is given back
// once, by the first call of back or after turnLife. ctx bounds the waiting.
func (t *turns) take(ctx context.Context, paths []string) (back func(), err error) {
	paths = slices.Compact(slices.Sorted(slices.Values(paths))) // in one order, so that nobody waits in a circle
	var held []string
	release := func() {
		for _, path := range held {
			t.release(path)
		}
	}
	for _, path := range paths {
		if err := t.acquire(ctx, path); err != nil {
			release()
			return nil, err
		}
		held = append(held, path)
	}
	once := sync.OnceFunc(release)
	timer := time.AfterFunc(turnLife, once)
	return func() { timer.Stop(); once() }, nil
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
