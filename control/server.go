package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/state"
	"github.com/toolhost/toolhost/tool"
)

// Options say what a [Server] speaks for.
type Options struct {
	// Dir is where the socket is made; empty is [DefaultDir]. It is created with mode
	// 0700, and is refused if others could put something into it.
	Dir string
	// Host is the host; it must not be nil.
	Host *host.Host
	// Queue is where the host's requests for permission wait. Nil means that none can
	// be answered here: the list is empty, and the status says so.
	Queue *permission.Queue
	// Audit is the audit log, of which the status tells; it may be nil.
	Audit *state.Audit
	// Reload loads the configuration anew and makes the host what it says, by
	// [host.Host.ReloadFrom], when a client asks for it. It may be called concurrently. Nil
	// means that this cannot be asked for.
	Reload func(ctx context.Context) (host.Report, error)
	// Version is that of the program.
	Version string
	// Log is where the server logs; nil is nowhere.
	Log *slog.Logger
}

const (
	maxConnections = 64
	maxWatchers    = 16
	maxHeader      = 16 << 10
	maxBody        = 64 << 10

	// patience is how long a client may take to send a request, and twice that how long
	// until it has taken the answer. Half of it is for the saving of an approval.
	patience = 10 * time.Second
	// idle is how long a connection is kept for the next request.
	idle = 30 * time.Second
	// heartbeat is after how long a watcher is told that nothing happened, and pause
	// for how long it is told nothing after a list.
	heartbeat = 15 * time.Second
	pause     = 50 * time.Millisecond
	// farewell is how long requests may take to end when the server is closed.
	farewell = 250 * time.Millisecond
)

// A pace is how long things take; tests have less time.
type pace struct{ patience, idle, heartbeat, pause time.Duration }

// A Server is the control socket of one host. Its methods may be called concurrently.
type Server struct {
	options Options
	queue   *permission.Queue // never nil
	path    string
	by      string // the name of the user, who is the only one that gets in
	started time.Time
	pace    pace
	life    *scope.Scope
	http    *http.Server

	connections sync.WaitGroup
	watchers    chan struct{} // holds one for each
	reloads     chan struct{} // holds one for each
}

// Listen makes the control socket of a host and serves it until life, to which it
// belongs, is closed or [Server.Close] is called; when life is cancelled it ends as
// well. It also removes the sockets that killed hosts left. An error says what to do
// about the directory or the length of its path.
func Listen(life *scope.Scope, options Options) (*Server, error) {
	return listen(life, options, pace{patience, idle, heartbeat, pause})
}

func listen(life *scope.Scope, options Options, p pace) (*Server, error) {
	if options.Host == nil {
		return nil, errors.New("control socket: there is no host to speak for")
	}
	s := &Server{options: options, queue: options.Queue, started: time.Now(), pace: p, watchers: make(chan struct{}, maxWatchers), reloads: make(chan struct{}, maxReloads)}
	if s.queue == nil {
		s.queue = permission.NewQueue(permission.QueueOptions{}) // nobody asks there
	}
	if s.options.Log == nil {
		s.options.Log = slog.New(slog.DiscardHandler)
	}
	s.by = userName(os.Geteuid())
	fork, err := life.Fork("control socket")
	if err != nil {
		return nil, err
	}
	s.life = fork
	if err := s.open(); err != nil {
		return nil, errors.Join(err, fork.Close(context.WithoutCancel(life.Context())))
	}
	return s, nil
}

// userName is how a user is called in what they approve.
func userName(uid int) string {
	name := fmt.Sprintf("user %d", uid)
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil && u.Username != "" && len(u.Username) <= tool.MaxID {
		name = u.Username
	}
	return name
}

func (s *Server) open() error {
	dir := s.options.Dir
	if dir == "" {
		dir = DefaultDir()
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("control directory: %w", err)
	}
	first, path, err := socketPaths(dir)
	if err != nil {
		return err
	}
	if err := makeDir(dir); err != nil {
		return err
	}
	if err := sweep(s.life.Context(), dir); err != nil {
		s.options.Log.Warn("sockets of hosts that were killed are left", slog.Any("error", err))
	}
	s.path = path
	l, err := bind(first, path)
	if err != nil {
		return err
	}
	door := newDoorkeeper(l, os.Geteuid(), maxConnections)
	if err := s.life.Defer("socket "+path, func(context.Context) error {
		err := removeSocket(path)
		_ = door.Close() // serving closes it as well
		return err
	}); err != nil {
		return err
	}
	s.http = s.server()
	if err := s.life.Go("serve", func(context.Context) error { return s.serve(door) }); err != nil {
		return err
	}
	// Joined first, so that serving ends.
	return s.life.Go("stop", func(ctx context.Context) error {
		<-ctx.Done()
		return s.stop(context.WithoutCancel(ctx))
	})
}

func (s *Server) server() *http.Server {
	return &http.Server{
		Handler:        s.handler(),
		ReadTimeout:    s.pace.patience, // of the header as well
		WriteTimeout:   2 * s.pace.patience,
		IdleTimeout:    s.pace.idle,
		MaxHeaderBytes: maxHeader,
		ErrorLog:       slog.NewLogLogger(s.options.Log.Handler(), slog.LevelDebug),
		BaseContext:    func(net.Listener) context.Context { return s.life.Context() },
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				s.connections.Add(1)
			case http.StateClosed:
				s.connections.Done()
			}
		},
	}
}

// serve returns when every connection has ended.
func (s *Server) serve(door *doorkeeper) error {
	err := s.http.Serve(door)
	s.connections.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	s.options.Log.Error("control socket is not served any more", slog.Any("error", err))
	return err
}

// stop takes the socket away and ends every connection.
func (s *Server) stop(ctx context.Context) error {
	gone := removeSocket(s.path)
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	if err := s.http.Shutdown(ctx); err == nil {
		return gone
	}
	_ = s.http.Close() // of connections that are ended by force there is nothing to report
	return gone
}

// Path is where the socket is.
func (s *Server) Path() string { return s.path }

// Close ends the server and everything that it has: the socket, its connections,
// and those who watch. It takes less than a second and may be called more than once.
func (s *Server) Close(ctx context.Context) error { return s.life.Close(ctx) }
