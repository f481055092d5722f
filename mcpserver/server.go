package mcpserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/scope"
)

// Options is what a [Server] needs.
type Options struct {
	// Host is whose Locations are served; it must not be nil.
	Host *host.Host
	// Approver is the one that the host asks; it must not be nil.
	Approver *Approver
	// Version is that of the program.
	Version string
	// Log is where the server logs; nil is nowhere.
	Log *slog.Logger
}

// A Server serves the Locations of a host to clients of the Model Context Protocol. Its
// methods may be called concurrently.
type Server struct {
	options Options
	life    *scope.Scope
	seal    *seal
	secret  string // of this process, for the sessions that it makes
	// listening is how many doors are open. Behind one a principal that has no session of the
	// protocol has one of this process, which is never over.
	listening atomic.Int64

	mu    sync.Mutex
	faces map[string]*face // under mu: by the Location's name
}

// New makes a server, whose goroutines belong to life.
func New(life *scope.Scope, options Options) (*Server, error) {
	switch {
	case options.Host == nil:
		return nil, errors.New("mcpserver: Options.Host is nil")
	case options.Approver == nil:
		return nil, errors.New("mcpserver: Options.Approver is nil: questions need somebody to ask")
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{
		options: options, life: life, seal: newSeal(), secret: rand.Text(), faces: map[string]*face{},
	}, nil
}

// face is the face of a Location, which is activated if it is not active.
func (s *Server) face(ctx context.Context, name string) (*face, error) {
	s.mu.Lock()
	known := s.faces[name]
	s.mu.Unlock()
	if known != nil {
		if _, err := known.now(ctx); err != nil {
			return nil, err
		}
		return known, nil
	}
	l, err := s.options.Host.Location(ctx, name)
	if err != nil {
		return nil, err
	}
	f, err := s.faceOf(l)
	if err != nil || f.location() == l {
		return f, err
	}
	if _, err := f.now(ctx); err != nil {
		return nil, err
	}
	return f, nil
}

// faceOf is the face of all Locations of that name, one after another.
func (s *Server) faceOf(l *location.Location) (*face, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.faces[l.Name()]; f != nil {
		return f, nil
	}
	f := s.newFace(l)
	if err := s.life.Go("tools of "+l.Name(), f.follow); err != nil {
		return nil, fmt.Errorf("serve %s: %w", l.Name(), err)
	}
	s.faces[l.Name()] = f
	return f, nil
}

// A face is one Location as its clients see it, and the one that takes its place when it is
// closed, or its root is not where it was: their sessions go on.
type face struct {
	server *Server
	name   string
	sdk    *mcp.Server
	log    *slog.Logger

	current  atomic.Pointer[location.Location]
	renewing chan struct{} // has room for the one who asks the host for the Location
	awaiting atomic.Bool   // the host is asked
	moved    chan struct{} // tells follow that current is another one

	captures captures
	mirror   mirror
	posts    posts
	running  atomic.Int64 // how many requests are being answered
	lines    atomic.Int64 // how many clients are served over streams
}

// callName is the name under which the SDK knows what runs every call. It is reserved,
// so that no tool has it.
const callName = "toolhost_call"

func (s *Server) newFace(l *location.Location) *face {
	f := &face{
		server: s, name: l.Name(), log: s.options.Log.With("location", l.Name()),
		renewing: make(chan struct{}, 1), moved: make(chan struct{}, 1),
	}
	f.current.Store(l)
	f.sdk = mcp.NewServer(&mcp.Implementation{Name: "toolhost", Title: "toolhost: " + l.Name(), Version: s.options.Version}, &mcp.ServerOptions{
		Logger: slog.New(quiet{f.log.Handler()}),
		Capabilities: &mcp.ServerCapabilities{
			Tools: &mcp.ToolCapabilities{ListChanged: true}, Resources: &mcp.ResourceCapabilities{},
		},
		PageSize: pageSize,
		// What a principal is shown is not for another one.
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.CacheScope = "private" },
	})
	f.sdk.AddTool(&mcp.Tool{Name: callName, InputSchema: anyObject}, f.call)
	f.sdk.AddSendingMiddleware(initializedFirst)
	f.sdk.AddReceivingMiddleware(negotiated, visits, f.middleware)
	f.addResources()
	f.mirrorTools()
	return f
}

// middleware answers itself what depends on a capture: the list, and calls.
func (f *face) middleware(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		f.running.Add(1)
		defer f.running.Add(-1)
		if strings.HasPrefix(method, "prompts/") { // the SDK would answer for what is not offered
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: method + " is not offered: there are no prompts"}
		}
		switch r := req.(type) {
		case *mcp.ListToolsRequest:
			return f.list(ctx, method, r, next)
		case *mcp.CallToolRequest:
			// The SDK finds a tool by its name; what is called may be one that was captured and
			// is registered no more.
			params := *r.Params
			params.Name = callName
			return next(context.WithValue(ctx, calledKey{}, r.Params.Name), method, &mcp.CallToolRequest{Session: r.Session, Params: &params, Extra: r.Extra})
		default:
			return next(ctx, method, req)
		}
	}
}

// calledKey is under which a call's context has the name that the client called.
type calledKey struct{}
