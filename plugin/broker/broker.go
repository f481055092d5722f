// Package broker is the host's side of what one plugin may ask of it: a gRPC
// server that has the granted services registered on it and no others, and the
// tokens that tie each callback to a live call.
//
// It holds no policy. What a call may do is decided by its gate; what the
// filesystem does is the engine's. A grant that was not given is a service that
// does not exist (law 9).
package broker

import (
	"errors"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/toolhost/toolhost/plugin/internal/wire"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem"
	"github.com/toolhost/toolhost/tool"
)

// Options is what one plugin may use.
type Options struct {
	// Grants are the services that it was given.
	Grants []service.Grant
	// FileSystem is the Location's; needed for the filesystem grant.
	FileSystem *filesystem.FileSystem
	// Activation answers while the plugin is being activated. It must not ask
	// anybody, and allow no more than reading (law 25). Nil refuses everything.
	Activation tool.Gate
	// Session, Log and Tools are there for every plugin.
	Session wire.Session
	Log     wire.Log
	Tools   wire.Tools
}

// Broker is the services of one incarnation. Its methods are safe for concurrent
// use. It is done when the server that it registered its services on is stopped
// and it was closed.
type Broker struct {
	options Options

	mu     sync.Mutex
	leases map[string]*Lease // under mu: the live calls by token
	closed bool              // under mu: no more leases
}

// New makes the services of one incarnation.
func New(o Options) (*Broker, error) {
	if slices.Contains(o.Grants, service.GrantFileSystemRead) && o.FileSystem == nil {
		return nil, errors.New("the filesystem is granted, and the Location has none")
	}
	return &Broker{options: o, leases: map[string]*Lease{}}, nil
}

// Serve registers the granted services on server.
func (b *Broker) Serve(server grpc.ServiceRegistrar) {
	wire.ServeSession(server, b.options.Session)
	wire.ServeLog(server, b.options.Log)
	wire.ServeTools(server, b.options.Tools)
	if slices.Contains(b.options.Grants, service.GrantFileSystemRead) {
		wire.ServeFileSystemRead(server, &files{b})
	}
	if slices.Contains(b.options.Grants, service.GrantPermission) {
		wire.ServePermission(server, &permission{b})
	}
}

// Begin gives a lease for a call whose permission questions gate answers; nil
// refuses them all. The caller ends it. On a closed broker it is an error.
func (b *Broker) Begin(gate tool.Gate) (*Lease, error) {
	if gate == nil {
		gate = closedGate{}
	}
	l := newLease(b, gate)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errors.New("the plugin is closing")
	}
	b.leases[l.token] = l
	return l, nil
}

// BeginActivation gives the lease of the activation, which only reads.
func (b *Broker) BeginActivation() (*Lease, error) { return b.Begin(b.options.Activation) }

// Close ends every lease and gives no more. It waits for callbacks no longer than
// the ending of one lease does.
func (b *Broker) Close() {
	b.mu.Lock()
	b.closed = true
	leases := make([]*Lease, 0, len(b.leases))
	for _, l := range b.leases {
		leases = append(leases, l)
	}
	b.mu.Unlock()
	for _, l := range leases {
		l.refuse()
	}
	patience := time.NewTimer(callbackGrace)
	defer patience.Stop()
	for _, l := range leases {
		select {
		case <-l.idle:
		case <-patience.C:
			return
		}
	}
}

func (b *Broker) forget(token string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.leases, token)
}

func (b *Broker) lease(token string) (*Lease, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l, ok := b.leases[token]
	return l, ok
}
