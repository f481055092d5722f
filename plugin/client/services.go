package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolhost/toolhost/plugin/broker"
	"github.com/toolhost/toolhost/plugin/internal/wire"
)

// serve puts the granted services on a brokered connection, which only the
// plugin's own processes can use. It gives the connection's number.
func (i *Incarnation) serve(link *link, b *broker.Broker) (uint32, error) {
	id, listener, security, err := link.accept()
	if err != nil {
		return 0, err
	}
	watch := &callbacks{logs: i.logs}
	server := grpc.NewServer(append(wire.CallbackOptions(), security,
		grpc.ChainUnaryInterceptor(watch.unary), grpc.ChainStreamInterceptor(watch.stream))...)
	b.Serve(server)
	if err := i.life.Go("services", func(context.Context) error {
		return serveUntilStopped(server, listener)
	}); err != nil {
		_ = listener.Close()
		return 0, err
	}
	return id, i.life.Defer("services", func(context.Context) error {
		b.Close()
		server.Stop()
		_ = listener.Close()
		return watch.wait(callbackGrace)
	})
}

// serveUntilStopped serves until the server is stopped, which may be before it
// has begun.
func serveUntilStopped(server *grpc.Server, listener net.Listener) error {
	if err := server.Serve(listener); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// callbacks watches over what a plugin asks of the host: no callback brings the
// host down, and what breaks in one is for the host's log, not for the plugin.
type callbacks struct {
	logs *logs

	mu      sync.Mutex
	running int           // under mu
	idle    chan struct{} // under mu: closed when none runs any more; nil while nobody waits
}

func (c *callbacks) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (response any, err error) {
	defer c.begin()()
	defer c.contain(info.FullMethod, &err)
	return handler(ctx, request)
}

func (c *callbacks) stream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer c.begin()()
	defer c.contain(info.FullMethod, &err)
	return handler(server, stream)
}

// contain replaces a panic, or an error that was not made for the plugin, by one
// that says nothing.
func (c *callbacks) contain(method string, err *error) {
	if p := recover(); p != nil {
		c.logs.out.Error("panic in a callback of the plugin", "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		*err = status.Error(codes.Internal, "the host could not do it")
		return
	}
	if _, ok := status.FromError(*err); ok {
		return // nil is
	}
	if over := status.FromContextError(*err); over.Code() != codes.Unknown || errors.Is(*err, broker.ErrOver) {
		*err = status.Error(codes.Canceled, "the call is over")
		return
	}
	c.logs.warn("callback of the plugin", "method", method, "error", (*err).Error())
	*err = status.Error(codes.Internal, "the host could not do it")
}

func (c *callbacks) begin() (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.running--; c.running == 0 && c.idle != nil {
			close(c.idle)
			c.idle = nil
		}
	}
}

// wait waits until no callback runs. None begins any more.
func (c *callbacks) wait(most time.Duration) error {
	c.mu.Lock()
	if c.running == 0 {
		c.mu.Unlock()
		return nil
	}
	idle := make(chan struct{})
	c.idle = idle
	c.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-time.After(most):
		return errors.New("a callback of the plugin does not end")
	}
}
