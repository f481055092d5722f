package client

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/toolhost/toolhost/plugin/internal/wire"
	"github.com/toolhost/toolhost/scope"
)

// A LocalPlugin is a plugin in this process. Connect dials the services of the
// host; release ends what the plugin started.
type LocalPlugin func(connect func(id uint32) (wire.Connection, error)) (_ wire.Plugin, release func(context.Context) error)

// StartLocal activates a plugin that runs in this process: the same protocol and
// the same services over real gRPC, but no process, no handshake and no transport
// security. It is for tests of a plugin. spec's command is not used.
func StartLocal(ctx context.Context, parent *scope.Scope, host Host, spec Spec, plugin LocalPlugin) (*Incarnation, error) {
	return begin(ctx, parent, host, spec, func(i *Incarnation, _ context.Context) (*link, error) {
		return i.connectLocal(plugin)
	})
}

// memory is the size of the buffer of a connection in memory.
const memory = 256 << 10

// connectLocal serves the plugin on a connection in memory, and gives it another
// one for the services.
func (i *Incarnation) connectLocal(plugin LocalPlugin) (*link, error) {
	main, services := bufconn.Listen(memory), bufconn.Listen(memory)
	adapted, release := plugin(func(uint32) (wire.Connection, error) { return dialMemory(services) })
	server := grpc.NewServer(append(wire.ServerOptions(), grpc.WaitForHandlers(true))...)
	wire.ServePlugin(server, adapted)
	if err := i.life.Defer("plugin", release); err != nil {
		return nil, err
	}
	if err := i.life.Go("plugin server", func(context.Context) error { return serveUntilStopped(server, main) }); err != nil {
		return nil, err
	}
	conn, err := dialMemory(main)
	if err != nil {
		return nil, err
	}
	if err := i.life.Defer("plugin server", func(context.Context) error {
		err := conn.Close()
		server.Stop()
		return err
	}); err != nil {
		return nil, err
	}
	return &link{conn: conn, accept: func() (uint32, net.Listener, grpc.ServerOption, error) {
		return 1, services, grpc.Creds(insecure.NewCredentials()), nil
	}}, nil
}

func dialMemory(l *bufconn.Listener) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///memory", append(wire.DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
	)...)
	if err != nil {
		return nil, fmt.Errorf("connect in memory: %w", err)
	}
	return conn, nil
}
