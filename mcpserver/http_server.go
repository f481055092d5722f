package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

const (
	maxHeader = 16 << 10
	// keptAlive is how long a connection is kept for the next request.
	keptAlive = 2 * time.Minute
	// sendBuffer is how much the system keeps for a client that does not read, instead of
	// what it thinks best, which grows to megabytes for each.
	sendBuffer = 256 << 10
)

// An HTTPServer serves the Locations of a Server at an address. Its methods may be called
// concurrently.
type HTTPServer struct {
	door     *door
	listener *places
	http     *http.Server

	connections sync.WaitGroup
}

// ListenHTTP listens at an address, HOST:PORT, of TCP; without a host, at loopback. It
// serves once [HTTPServer.Serve] is called. What it has belongs to the scope of the
// Server, and is closed with it.
//
// An address that is not of loopback alone needs tokens, since whoever reaches it would
// run tools: without any, it is an error. What is sent is not encrypted; that is for a
// proxy in front, whose name goes into [HTTPOptions.Hosts].
func (s *Server) ListenHTTP(addr string, options HTTPOptions) (*HTTPServer, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("listen: %q is not HOST:PORT: %w", addr, err)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	at, err := net.ResolveTCPAddr("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if !at.IP.IsLoopback() && options.Tokens.Empty() {
		return nil, fmt.Errorf("listen: %s can be reached from elsewhere, and there are no tokens: give tokens to those who may come in, or listen at 127.0.0.1:%s", addr, port)
	}
	options.Hosts = append([]string{host}, options.Hosts...)
	l, err := net.ListenTCP("tcp", at)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	d, err := s.newDoor(options)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	h := &HTTPServer{door: d, listener: newPlaces(l, d.options.Limits.Connections)}
	h.http = h.server()
	err = d.life.Go("stop", func(ctx context.Context) error {
		<-ctx.Done()
		h.stop()
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, h.listener.Close())
	}
	return h, nil
}

func (h *HTTPServer) server() *http.Server {
	patience := h.door.options.Limits.Patience
	return &http.Server{
		Handler:           h.door, // which bounds the reading of bodies, and each write
		ReadHeaderTimeout: patience,
		IdleTimeout:       keptAlive,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(h.door.log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(h.door.life.Context()) },
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				h.connections.Add(1)
			case http.StateClosed:
				h.connections.Done()
			}
		},
	}
}

// Addr is where the server listens.
func (h *HTTPServer) Addr() net.Addr { return h.listener.Addr() }

// URL is where a Location is served to clients on this machine.
func (h *HTTPServer) URL(location string) string {
	at := h.listener.Addr().(*net.TCPAddr)
	host := at.IP.String()
	if at.IP.IsUnspecified() {
		host = "localhost"
	}
	u := url.URL{Scheme: "http", Host: net.JoinHostPort(host, fmt.Sprint(at.Port)), Path: "/locations/" + location + "/mcp"}
	return u.String()
}

// Serve serves until ctx is over or the server is closed, and closes it. It is called
// once. An error says what could not be served or closed.
func (h *HTTPServer) Serve(ctx context.Context) error {
	failed := make(chan error, 1)
	err := h.door.life.Go("serve", func(over context.Context) error {
		err := h.http.Serve(h.listener)
		if over.Err() == nil {
			failed <- err
		}
		h.connections.Wait()
		return nil
	})
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-h.door.life.Context().Done():
	case err = <-failed:
	}
	return errors.Join(err, h.Close(context.WithoutCancel(ctx)))
}

// Close ends the server: it takes no more requests, ends streams, gives the requests and
// calls that run three seconds and then cancels them, and ends sessions and connections. It takes
// five seconds at most (law 42), and may be called more than once.
func (h *HTTPServer) Close(ctx context.Context) error { return h.door.life.Close(ctx) }

// stop ends everything. Connections are kept as long as requests run, to tell their
// clients that the server closes.
func (h *HTTPServer) stop() {
	_ = h.listener.Close() // there is nothing to lose
	h.door.stop()
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	if h.http.Shutdown(ctx) != nil {
		_ = h.http.Close() // of connections that are ended by force there is nothing to report
	}
}

// places is a listener that has so many connections at a time.
type places struct {
	*net.TCPListener
	taken  chan struct{} // holds one for each connection
	once   sync.Once
	closed chan struct{}
}

func newPlaces(l *net.TCPListener, most int) *places {
	return &places{TCPListener: l, taken: make(chan struct{}, most), closed: make(chan struct{})}
}

// Accept waits until there is a place and somebody for it.
func (p *places) Accept() (net.Conn, error) {
	select {
	case p.taken <- struct{}{}:
	case <-p.closed:
		return nil, net.ErrClosed
	}
	conn, err := p.AcceptTCP()
	if err != nil {
		<-p.taken
		return nil, err
	}
	_ = conn.SetWriteBuffer(sendBuffer) // without it there is the system's bound
	return &placed{TCPConn: conn, leave: sync.OnceFunc(func() { <-p.taken })}, nil
}

// Close also ends the waiting for a place. It may be called more than once.
func (p *places) Close() error {
	p.once.Do(func() { close(p.closed) })
	return p.TCPListener.Close()
}

// placed is a connection that has a place. It is all that one of TCP is, or net/http would
// cut off a client that it refuses while that still writes.
type placed struct {
	*net.TCPConn
	leave func()
}

// Close also gives the place back.
func (p *placed) Close() error {
	defer p.leave()
	return p.TCPConn.Close()
}
