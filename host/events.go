package host

import (
	"context"
	"log/slog"
	"sync"

	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/scope"
)

// An Event is something that happened in the host, for the embedding program.
type Event struct {
	// Seq counts the events, the dropped ones included.
	Seq uint64 `json:"seq"`
	// Dropped is how many events came before this one and were not told, because whoever
	// takes them was too slow.
	Dropped int `json:"dropped,omitempty"`
	location.Event
}

// maxQueued is how many events wait for whoever takes them.
const maxQueued = 4096

// events are told in order, by one goroutine, so that nobody in the host waits for who
// takes them.
type events struct {
	take func(Event)
	log  *slog.Logger
	wake chan struct{} // has room for one

	mu      sync.Mutex
	queue   []Event // under mu
	seq     uint64  // under mu: of the last
	dropped int     // under mu: since the last that was queued
	over    bool    // under mu: nothing comes any more
}

// newEvents tells events until life is closed, those of the closing included.
func newEvents(life *scope.Scope, take func(Event), log *slog.Logger) (*events, error) {
	q := &events{take: take, log: log, wake: make(chan struct{}, 1)}
	if err := life.Go("events", func(context.Context) error {
		for range q.wake {
			if q.tellAll() {
				return nil
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	// It is released before the goroutine is joined, and after all that tells something.
	return q, life.Defer("events", func(context.Context) error {
		q.mu.Lock()
		q.over = true
		q.mu.Unlock()
		q.awake()
		return nil
	})
}

// put queues an event, or counts it as dropped. It does not block.
func (q *events) put(e location.Event) {
	q.mu.Lock()
	q.seq++
	if len(q.queue) < maxQueued {
		q.queue = append(q.queue, Event{Seq: q.seq, Dropped: q.dropped, Event: e})
		q.dropped = 0
	} else {
		q.dropped++
	}
	q.mu.Unlock()
	q.awake()
}

func (q *events) awake() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// tellAll tells what is queued, and reports whether nothing comes any more.
func (q *events) tellAll() (over bool) {
	for {
		q.mu.Lock()
		queue := q.queue
		q.queue = nil
		over = q.over
		q.mu.Unlock()
		if len(queue) == 0 {
			return over
		}
		for _, e := range queue {
			q.tell(e)
		}
	}
}

// tell tells one event. A panic of who takes it is nobody else's trouble.
func (q *events) tell(e Event) {
	defer func() {
		if v := recover(); v != nil {
			q.log.Error("who takes the events panicked", slog.Any("panic", v))
		}
	}()
	q.take(e)
}
