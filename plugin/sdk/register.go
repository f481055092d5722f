package sdk

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/toolhost/toolhost/plugin/internal/wire"
)

// Registrar registers tools: the one right that every plugin has. It may be used
// at any time after Activate began, concurrently.
type Registrar struct{ server *server }

// Register adds tools in one act. A tool that the host refuses, for its name or
// its schema, does not hold up the others; the handle lists it, and the host
// reports it. A tool that could not be made at all, and a lost host, are errors,
// and nothing is registered.
//
// Of several active registrations of one name the latest counts. What happens
// later to the map changes nothing.
func (r Registrar) Register(ctx context.Context, tools Tools) (*Registration, error) {
	var remote []wire.RemoteTool
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		t := tools[name]
		if t.err == nil && t.run == nil {
			t.err = fmt.Errorf("it was not made with New, NewProjected, NewPrepared, Dynamic or DynamicPrepared")
		}
		if t.err != nil {
			return nil, fmt.Errorf("tool %q: %w", name, t.err)
		}
		value := t.value
		value.Requests = named(value.Requests, r.server.id(name))
		remote = append(remote, wire.RemoteTool{Name: name, Tool: value, Prepares: t.prepare != nil})
	}
	// The host may call a tool before it has answered the registration, so the
	// executors are there first.
	numbers := make([]uint64, len(remote))
	for i := range remote {
		numbers[i] = r.server.executors.add(tools[remote[i].Name])
		remote[i].Executor = numbers[i]
	}
	id, refused, err := r.server.tools().Register(ctx, remote)
	if err != nil {
		r.server.executors.retire(numbers)
		return nil, fmt.Errorf("register tools: %w", err)
	}
	registration := &Registration{server: r.server, id: id, numbers: numbers}
	for _, x := range refused {
		registration.refused = append(registration.refused, Refused{Name: x.Name, Reason: x.Reason})
	}
	return registration, nil
}

// Refused is a tool that the host did not accept, and why.
type Refused struct{ Name, Reason string }

// Registration is the tools of one Register.
type Registration struct {
	server  *server
	id      uint64
	numbers []uint64
	refused []Refused
}

// Refused lists the tools that the host did not accept.
func (r *Registration) Refused() []Refused { return slices.Clone(r.refused) }

// Close removes exactly the tools of this registration, and reveals what they
// shadowed. Calls that are running go on. Closing twice is closing once.
func (r *Registration) Close(ctx context.Context) error {
	if err := r.server.tools().Unregister(ctx, r.id); err != nil {
		return fmt.Errorf("unregister tools: %w", err)
	}
	r.server.executors.retire(r.numbers)
	return nil
}

// executors are the tools that the host may call, by number. A number is never
// used twice. A tool stays callable for a while after its registration was
// closed, because the host may have shown it to a model before.
type executors struct {
	mu     sync.RWMutex
	next   uint64               // under mu
	all    map[uint64]Tool      // under mu
	closed map[uint64]time.Time // under mu: when its registration was closed
}

// afterClose is how long a tool stays callable after its registration was closed.
const afterClose = 15 * time.Minute

func (e *executors) add(t Tool) uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	for number, since := range e.closed {
		if time.Since(since) > afterClose {
			delete(e.all, number)
			delete(e.closed, number)
		}
	}
	e.next++
	e.all[e.next] = t
	return e.next
}

// retire forgets the tools once nobody can have been shown them any more.
func (e *executors) retire(numbers []uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, number := range numbers {
		if _, ok := e.closed[number]; !ok {
			e.closed[number] = time.Now()
		}
	}
}

func (e *executors) get(number uint64) (Tool, bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	t, ok := e.all[number]
	return t, ok
}
