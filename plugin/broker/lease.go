package broker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolhost/toolhost/plugin/internal/wire"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem"
	"github.com/toolhost/toolhost/tool"
)

const (
	// maxRoots is how many handles one call may hold at once.
	maxRoots = 256
	// callbackGrace is how long the end of a call waits for callbacks that were
	// cancelled.
	callbackGrace = time.Second
)

// A Lease is the right to call back during one call, while one is being prepared, or
// during activation. What was opened under it is closed when it ends.
type Lease struct {
	broker  *Broker
	token   string
	gate    tool.Gate
	effects tool.Effects
	whose   tool.Identity
	tool    string
	silent  string        // why nothing is asked; empty when it may be
	idle    chan struct{} // closed when it ended and the last callback did
	events  events
	left    func() time.Duration // how long the call may take yet; nil is as long as it likes

	mu      sync.Mutex
	told    map[string]bool                    // under mu: the services by which it was contradicted
	ended   bool                               // under mu: no more callbacks
	next    uint64                             // under mu: the last handle, and the last callback
	running map[uint64]context.CancelCauseFunc // under mu: the callbacks
	roots   map[uint64]*filesystem.Root        // under mu: the open handles
	stages  *Stages                            // under mu: the changes that wait
}

func newLease(b *Broker, call tool.Call, silent string) *Lease {
	return &Lease{
		broker: b, token: rand.Text(), idle: make(chan struct{}), silent: silent,
		gate: call.Gate, effects: call.Effects, whose: call.Identity, tool: call.Tool,
		left:    call.Left,
		events:  events{output: call.Output, progress: call.Progress},
		running: map[uint64]context.CancelCauseFunc{}, roots: map[uint64]*filesystem.Root{}, told: map[string]bool{},
		stages: new(Stages),
	}
}

// caller is on whose behalf the filesystem acts.
func (l *Lease) caller() filesystem.Caller {
	return filesystem.Caller{
		Gate: l.gate, Session: l.whose.Session, Preparing: l.silent != "",
		WriteOnly: !slices.Contains(l.broker.options.Grants, service.GrantFileSystemRead),
	}
}

// Token is what callbacks carry.
func (l *Lease) Token() string { return l.token }

// ErrOver is the cause by which the callbacks of an ended lease are cancelled.
var ErrOver = errors.New("the call is over")

// End refuses further callbacks, cancels those that are running, waits a second
// at most for them, and closes what was opened. A handle that a callback still
// uses then is closed when that has ended. Nothing goes into the output of the call any
// more when it returns: what is being written is waited for. Ending twice is ending once.
func (l *Lease) End() {
	l.refuse()
	patience := time.NewTimer(callbackGrace)
	defer patience.Stop()
	select {
	case <-l.idle:
	case <-patience.C:
	}
	l.events.end()
}

// refuse ends the lease without waiting.
func (l *Lease) refuse() {
	l.broker.forget(l.token)
	l.mu.Lock()
	var cancels []context.CancelCauseFunc
	for _, cancel := range l.running {
		cancels = append(cancels, cancel)
	}
	again := l.ended
	l.ended = true
	l.mu.Unlock()
	if again {
		return
	}
	for _, cancel := range cancels {
		cancel(ErrOver)
	}
	l.settle()
}

// settle closes what was opened, once nobody can use it any more.
func (l *Lease) settle() {
	l.mu.Lock()
	over := l.ended && len(l.running) == 0 && l.roots != nil
	roots, stages := l.roots, l.stages
	if over {
		l.roots = nil
	}
	l.mu.Unlock()
	if !over {
		return
	}
	stages.Discard()
	for _, root := range roots {
		_ = root.Close()
	}
	close(l.idle)
}

// use finds the live call that a callback belongs to, sees that the call may do what
// the method takes, and gives it a context that ends with that call. done is called
// when the callback has ended.
func (b *Broker) use(ctx context.Context, m method) (l *Lease, _ context.Context, done func(), err error) {
	l, ok := b.lease(wire.IncomingToken(ctx))
	if !ok {
		return nil, nil, nil, refused()
	}
	if err := l.permits(m); err != nil {
		return nil, nil, nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return nil, nil, nil, refused()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	l.next++
	callback := l.next
	l.running[callback] = cancel
	return l, ctx, func() {
		cancel(nil)
		l.mu.Lock()
		delete(l.running, callback)
		l.mu.Unlock()
		l.settle()
	}, nil
}

// refused does not say whether there ever was such a call.
func refused() error {
	return status.Error(codes.PermissionDenied, "this callback belongs to no live call of this plugin")
}

// keep gives a number to a handle that a callback opened. On an error the handle
// is still the caller's.
func (l *Lease) keep(root *filesystem.Root) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended:
		return 0, refused()
	case len(l.roots) >= maxRoots:
		return 0, &service.FileError{
			Kind: service.FileBadQuery, Detail: fmt.Sprintf("the call holds %d open handles, which is the most: release some", maxRoots),
		}
	}
	l.next++
	l.roots[l.next] = root
	return l.next, nil
}

func (l *Lease) root(handle uint64) (*filesystem.Root, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	root, ok := l.roots[handle]
	if !ok {
		return nil, &service.FileError{Kind: service.FileStaleHandle, Detail: "the handle was released, or belongs to another call"}
	}
	return root, nil
}

// drop takes a handle away and gives it to the caller to close, if there is one.
func (l *Lease) drop(handle uint64) *filesystem.Root {
	l.mu.Lock()
	defer l.mu.Unlock()
	root := l.roots[handle]
	delete(l.roots, handle)
	return root
}
