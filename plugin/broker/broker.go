// Package broker is the host's side of what one plugin may ask of it: a gRPC
// server that has the granted services registered on it and no others, and the
// tokens that tie each callback to a live call.
//
// It holds no policy. What a call may do is decided by its gate and its effects;
// what the filesystem does is the engine's. A grant that was not given is a service
// that does not exist (law 9).
//
// Every callback is held to the effects of the call that it belongs to (law 24),
// and to reading while a call is being prepared or the plugin is being activated
// (law 25). Which call that is, the token says, and tokens are the process's: a
// plugin that has several live calls may use the token of any of them. So against
// a hostile plugin the bound is the union of the effects of its live calls; against
// one that is only mistaken it is each call's own.
package broker

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/toolhost/toolhost/plugin/internal/wire"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem"
	"github.com/toolhost/toolhost/service/process"
	"github.com/toolhost/toolhost/tool"
)

// Options is what one plugin may use.
type Options struct {
	// Plugin is its key in the configuration.
	Plugin string
	// Grants are the services that it was given.
	Grants []service.Grant
	// FileSystem is the Location's; needed for the filesystem grants.
	FileSystem *filesystem.FileSystem
	// Process is the Location's, and Profile how this plugin's commands run; both are
	// needed for the grant to run commands.
	Process *process.Service
	Profile *process.Profile
	// Activation judges what the plugin reads while it is being activated. It must
	// not ask anybody (law 25). Nil refuses everything.
	Activation tool.Gate
	// Contradicted is told of what was refused because it is beyond the effects of
	// the call, once for each call and service (law 24). It must not block, and may
	// be called concurrently. It may be nil.
	Contradicted func(tool.Contradiction)
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

	lastStage atomic.Uint64 // the number of the stage that was made last

	mu     sync.Mutex
	leases map[string]*Lease // under mu: the live calls by token
	closed bool              // under mu: no more leases
}

// New makes the services of one incarnation.
func New(o Options) (*Broker, error) {
	granted := func(g service.Grant) bool { return slices.Contains(o.Grants, g) }
	if (granted(service.GrantFileSystemRead) || granted(service.GrantFileSystemWrite)) && o.FileSystem == nil {
		return nil, errors.New("the filesystem is granted, and the Location has none")
	}
	if granted(service.GrantProcess) && (o.Process == nil || o.Profile == nil) {
		return nil, errors.New("running commands is granted, and the Location runs none")
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
	if slices.Contains(b.options.Grants, service.GrantFileSystemWrite) {
		wire.ServeFileSystemWrite(server, &changes{b})
	}
	if slices.Contains(b.options.Grants, service.GrantPermission) {
		wire.ServePermission(server, &permission{b})
	}
	if slices.Contains(b.options.Grants, service.GrantProcess) {
		wire.ServeProcess(server, &processes{b})
	}
}

// Begin gives a lease for a call, whose effects bound what its callbacks may do.
// Effects that nobody declared are all. Its gate answers permission questions; a nil
// one refuses them all. What commands write goes into its output, and its progress is
// told of it; see [Lease.Events]. The caller ends the lease. On a closed broker it is an
// error.
func (b *Broker) Begin(call tool.Call) (*Lease, error) { return b.begin(call, "") }

// BeginCommit is Begin for a call that may make the changes that were staged while it
// was prepared. They end with the lease; on an error they are still the caller's. Nil is
// none.
func (b *Broker) BeginCommit(call tool.Call, stages *Stages) (*Lease, error) {
	l, err := b.begin(call, "")
	if err != nil || stages == nil {
		return l, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stages = stages
	return l, nil
}

// BeginPreparing gives a lease for the time in which a call is being prepared: it
// only reads, and nothing is asked (law 25).
func (b *Broker) BeginPreparing(call tool.Call) (*Lease, error) {
	call.Effects = tool.Read
	return b.begin(call, "nothing is asked while a call is being prepared: put the request into the preparation")
}

// BeginActivation gives the lease of the activation. It only reads, and nothing is
// asked (law 25).
func (b *Broker) BeginActivation() (*Lease, error) {
	return b.begin(tool.Call{Gate: b.options.Activation, Effects: tool.Read},
		"nothing is asked while the plugin is being activated: ask during a call")
}

func (b *Broker) begin(call tool.Call, silent string) (*Lease, error) {
	if call.Gate == nil {
		call.Gate = closedGate{}
	}
	l := newLease(b, call, silent)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errors.New("the plugin is closing")
	}
	b.leases[l.token] = l
	return l, nil
}

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
