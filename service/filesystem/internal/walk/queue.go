package walk

import (
	"container/heap"
	"context"
	"sync"
)

// holdBytes is how much the results may hold that are done and not yet
// delivered.
const holdBytes = 8 << 20

// A task is a piece of work with a place in the order.
type task struct {
	order string
	do    func()
}

// A queue hands out the task that is first in the order. Its workers end when
// nothing is left to do, or when it is stopped.
type queue struct {
	mu      sync.Mutex
	changed sync.Cond
	tasks   tasks // a heap
	running int   // tasks that were handed out and are not done
	held    int   // bytes of results that were not delivered
	// awaited is closed when what the delivery waits for is done; nil when it does
	// not wait.
	awaited <-chan struct{}
	stopped bool
}

func newQueue() *queue {
	q := &queue{}
	q.changed.L = &q.mu
	return q
}

func (q *queue) add(more ...task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range more {
		heap.Push(&q.tasks, t)
	}
	q.changed.Broadcast()
}

// stop lets the workers end when their task is done. What was not begun is
// dropped.
func (q *queue) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stopped = true
	q.tasks = nil
	q.changed.Broadcast()
}

// hold counts bytes of results: more when they are made, less when they are
// delivered.
func (q *queue) hold(bytes int) {
	if bytes == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held += bytes
	if bytes < 0 {
		q.changed.Broadcast()
	}
}

// wait waits for the delivery until something is done; what was cut short because
// ctx ended does not count.
func (q *queue) wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
	default:
		q.await(done)
		defer q.await(nil)
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// await says what the delivery waits for: nil when it goes on.
func (q *queue) await(done <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.awaited = done
	if q.held >= holdBytes {
		q.changed.Broadcast()
	}
}

// starving says that nobody works at what the delivery waits for.
func (q *queue) starving() bool {
	if q.awaited == nil || q.running > 0 {
		return false
	}
	select {
	case <-q.awaited:
		return false // the delivery will go on
	default:
		return true
	}
}

// work does tasks until none is left.
func (q *queue) work() {
	for {
		t, ok := q.next()
		if !ok {
			return
		}
		t.do()
		q.finished()
	}
}

// next waits for a task. While too much is held, one is handed out only when the
// delivery starves: then the first of all is what it waits for, or leads to it.
func (q *queue) next() (task, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		switch {
		case q.stopped, len(q.tasks) == 0 && q.running == 0:
			return task{}, false
		case len(q.tasks) > 0 && (q.held < holdBytes || q.starving()):
			q.running++
			return heap.Pop(&q.tasks).(task), true
		}
		q.changed.Wait()
	}
}

func (q *queue) finished() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running--
	if q.running == 0 {
		q.changed.Broadcast() // also so that all see that nothing is left
	}
}

type tasks []task

func (t tasks) Len() int           { return len(t) }
func (t tasks) Less(i, j int) bool { return t[i].order < t[j].order }
func (t tasks) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }

// Push and Pop are called by container/heap.

func (t *tasks) Push(x any) { *t = append(*t, x.(task)) }

func (t *tasks) Pop() any {
	old := *t
	last := old[len(old)-1]
	old[len(old)-1] = task{}
	*t = old[:len(old)-1]
	return last
}
