package registry

import (
	"time"

	"github.com/toolhost/toolhost/tool/output"
)

// Use is who uses a registry at one moment.
type Use struct {
	// Calls are those that run, the suspended ones included; Subscribers those who
	// want to be told of changes.
	Calls, Subscribers int
	// Last is when a call ended, a capture was taken or a subscription ended last, or
	// when the registry was made.
	Last time.Time
}

// Use says who uses the registry now.
func (r *Registry) Use() Use {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Use{
		Calls: int(r.running.Load()), Subscribers: len(r.subscribers),
		Last: r.opened.Add(time.Duration(r.used.Load())),
	}
}

// use counts a call until the function that it returns is called.
func (r *Registry) use() (end func()) {
	r.running.Add(1)
	return func() {
		r.touch()
		r.running.Add(-1)
	}
}

func (r *Registry) touch() { r.used.Store(int64(time.Since(r.opened))) }

// SetOutput changes how outputs are bounded and kept, for the calls that begin from now
// on. Nil is ignored.
func (r *Registry) SetOutput(keeper *output.Keeper) {
	if keeper != nil {
		r.output.Store(keeper)
	}
}
