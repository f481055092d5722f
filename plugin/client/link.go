package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/toolhost/toolhost/plugin/internal/wire"
	"github.com/toolhost/toolhost/sandbox"
)

// link is the connection to a plugin that runs.
type link struct {
	conn grpc.ClientConnInterface
	// accept opens the brokered connection for the services: its number, a listener
	// that only the plugin can use, and how it is secured.
	accept func() (id uint32, listener net.Listener, security grpc.ServerOption, err error)
}

// launch verifies the executable, runs it, and connects to it. What it acquires
// belongs to the incarnation's scope. When ctx is over before the plugin is
// ready, the process is ended, which is all that stops go-plugin.
func (i *Incarnation) launch(ctx context.Context) (*link, error) {
	if err := checkLength(i.host.RunDir); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(i.host.RunDir, "p")
	if err != nil {
		return nil, fmt.Errorf("private directory: %w", err)
	}
	if err := i.life.Defer("directory "+dir, func(context.Context) error { return removeAll(dir) }); err != nil {
		return nil, err
	}
	command, err := stage(i.spec, dir)
	if err != nil {
		return nil, err
	}
	i.proc = newProcess(i.life, i.spec.Name, i.logs)
	config, err := i.clientConfig(ctx, dir, command)
	if err != nil {
		return nil, err
	}
	client := plugin.NewClient(config)
	if err := i.ownClient(client); err != nil {
		return nil, err
	}
	i.stopWaiting = context.AfterFunc(ctx, func() { i.proc.abort(context.Cause(ctx)) })
	protocol, err := i.speak(ctx, client)
	if err != nil {
		return nil, i.explain(ctx, err)
	}
	dispensed, err := protocol.Dispense(wire.PluginName)
	if err != nil {
		return nil, err
	}
	side := dispensed.(*remote)
	return &link{conn: side.conn, accept: func() (uint32, net.Listener, grpc.ServerOption, error) {
		id := side.broker.NextId()
		listener, err := side.broker.Accept(id)
		if err != nil {
			return 0, nil, nil, i.explain(ctx, err)
		}
		security := grpc.Creds(insecure.NewCredentials())
		if config.TLSConfig != nil {
			security = grpc.Creds(credentials.NewTLS(config.TLSConfig))
		}
		return id, newPeerListener(listener, i.proc.get().Top()), security, nil
	}}, nil
}

// speakGrace is for go-plugin to notice that the process was ended.
const speakGrace = 2 * time.Second

// speak has go-plugin start the process and speak to it. What it waits for is ended with
// ctx; where it waits all the same, as for a system call that a hostile plugin holds up, it
// is left behind.
func (i *Incarnation) speak(ctx context.Context, client *plugin.Client) (plugin.ClientProtocol, error) {
	type answer struct {
		protocol plugin.ClientProtocol
		err      error
	}
	answered := make(chan answer, 1)
	if err := i.life.Go("go-plugin's start", func(context.Context) error {
		protocol, err := client.Client()
		answered <- answer{protocol, err}
		return nil
	}); err != nil {
		return nil, err
	}
	select {
	case a := <-answered:
		return a.protocol, a.err
	case <-ctx.Done():
	}
	select {
	case a := <-answered:
		return a.protocol, a.err
	case <-time.After(speakGrace):
		return nil, context.Cause(ctx)
	}
}

// clientConfig is made anew for each incarnation, because go-plugin changes it. The two
// sides of a plugin that is not confined prove to each other who they are: anybody of the
// same user could dial its socket. That of a confined one has no name for other plugins,
// and who can reach into its namespaces could trace it as well.
func (i *Incarnation) clientConfig(ctx context.Context, dir string, command []string) (config *plugin.ClientConfig, err error) {
	var identity *tls.Config
	var said []string
	if i.spec.Policy == nil {
		var certificate []byte
		if identity, certificate, err = newIdentity(); err != nil {
			return nil, err
		}
		said = []string{"PLUGIN_CLIENT_CERT=" + string(certificate)}
	}
	return &plugin.ClientConfig{
		HandshakeConfig:  wire.Handshake(),
		VersionedPlugins: map[int]plugin.PluginSet{wire.ProtocolVersion: {wire.PluginName: &hostSide{}}},
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, socketDir string) (runner.Runner, error) {
			protocol := slices.Concat(cmd.Env, said)
			if i.spec.Policy != nil {
				i.proc.prepare(jailSockets, func() (*sandbox.Process, error) { return i.runConfined(ctx, dir, command, protocol) }, i.spawned)
				return i.proc, nil
			}
			i.proc.prepare(socketDir, func() (*sandbox.Process, error) {
				tmp := filepath.Join(dir, "tmp")
				if err := os.Mkdir(tmp, 0o700); err != nil {
					return nil, err
				}
				return sandbox.Start(ctx, i.life, i.host.Launcher, sandbox.Spec{
					Path: command[0], Args: command[1:], Env: environment(tmp, i.spec.Env, protocol), Dir: i.spec.Root,
				})
			}, i.spawned)
			return i.proc, nil
		},
		SkipHostEnv:      true,
		TLSConfig:        identity,
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		StartTimeout:     time.Hour, // the incarnation has a bound of its own
		GRPCDialOptions: append(wire.DialOptions(),
			grpc.WithContextDialer(i.proc.dial), grpc.WithChainStreamInterceptor(i.conns.note)),
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: dir},
		Logger:           hclog.NewNullLogger(),
		Stderr:           io.Discard,
		SyncStdout:       i.proc.printed[0],
		SyncStderr:       i.proc.printed[1],
	}, nil
}

// runConfined runs the plugin in a jail.
func (i *Incarnation) runConfined(ctx context.Context, dir string, command, protocol []string) (*sandbox.Process, error) {
	j, err := confine(i.host, i.spec, command, dir)
	if err != nil {
		return nil, err
	}
	if err := i.life.Defer("program", func(context.Context) error { j.release(); return nil }); err != nil {
		j.release()
		return nil, err
	}
	protocol = append(protocol, "PLUGIN_UNIX_SOCKET_DIR="+jailSockets)
	return sandbox.Start(ctx, i.life, i.host.Launcher, sandbox.Spec{
		Path: j.path, Name: j.command[0], Args: j.command[1:], Env: environment("/tmp", i.spec.Env, protocol), Dir: i.spec.Root,
		Policy: &j.policy, Program: j.program,
	})
}

// ownClient runs go-plugin's Kill where it cannot hold anything up: it may wait
// for ever, and what lets it go is that the tree was ended. A start that failed
// needs it too, for go-plugin's directory.
func (i *Incarnation) ownClient(client *plugin.Client) error {
	end, ended := make(chan struct{}), make(chan struct{})
	i.endClient = sync.OnceValue(func() <-chan struct{} {
		close(end)
		return ended
	})
	if err := i.life.Go("go-plugin", func(context.Context) error {
		<-end
		client.Kill()
		i.conns.close()
		close(ended)
		return nil
	}); err != nil {
		return err
	}
	return i.life.Defer("go-plugin", func(context.Context) error {
		select {
		case <-i.endClient():
			i.proc.flush()
			return nil
		case <-time.After(clientGrace):
			return errors.New("go-plugin did not let go of the process")
		}
	})
}

// connections are the connections that go-plugin made to the plugin. It forgets
// to close one when the plugin ends at the wrong moment, so they are noted by the
// first stream on each, which go-plugin opens itself.
type connections struct {
	mu  sync.Mutex
	all map[*grpc.ClientConn]struct{} // under mu
}

func (c *connections) note(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, stream grpc.Streamer, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	c.mu.Lock()
	if c.all == nil {
		c.all = map[*grpc.ClientConn]struct{}{}
	}
	c.all[conn] = struct{}{}
	c.mu.Unlock()
	opened, err := stream(ctx, desc, conn, method, options...)
	if err != nil || method != brokerMethod {
		return opened, err
	}
	return brokerStream{opened}, nil
}

// brokerMethod is the stream by which go-plugin's sides tell each other of their brokered
// connections.
const brokerMethod = "/plugin.GRPCBroker/StartStream"

// A brokerStream passes nothing on of what the plugin tells: this host asks for no
// connection, and go-plugin keeps a goroutine for some seconds for each that it is told of.
type brokerStream struct{ grpc.ClientStream }

func (s brokerStream) RecvMsg(message any) error {
	for {
		if err := s.ClientStream.RecvMsg(message); err != nil {
			return err
		}
	}
}

// broken reports whether there is no connection that works.
func (c *connections) broken() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.all {
		if conn.GetState() == connectivity.Ready {
			return false
		}
	}
	return len(c.all) > 0
}

func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.all {
		_ = conn.Close() // closed already, as a rule
	}
}

// spawned notes the process, watches it, and makes the incarnation's scope the
// owner of its tree. It is called when everything that ends with the process was
// started, so that this is what ends it.
func (i *Incarnation) spawned(running *sandbox.Process) error {
	i.mu.Lock()
	i.status.Pid, i.status.Method, i.status.Lacks = running.Pid(), running.Method(), running.Lacks()
	i.mu.Unlock()
	watching := i.life.Go("watch", func(life context.Context) error {
		select {
		case <-running.Exited():
			if exit := i.exited(); exit != "" {
				i.lost(errors.New(exit))
			}
		case <-life.Done():
		}
		return nil
	})
	return errors.Join(watching, i.life.Defer("process", func(ctx context.Context) error {
		// Asked politely, a plugin ends by itself.
		if i.wasReady() {
			_ = i.endClient()
			select {
			case <-running.Exited():
			case <-time.After(endGrace):
			case <-ctx.Done():
			}
		}
		return i.proc.end(ctx, running)
	}))
}

// remote is what go-plugin dispenses on the host's side.
type remote struct {
	conn   *grpc.ClientConn
	broker *plugin.GRPCBroker
}

// hostSide makes it.
type hostSide struct {
	plugin.NetRPCUnsupportedPlugin
}

var _ plugin.GRPCPlugin = (*hostSide)(nil)

func (*hostSide) GRPCClient(_ context.Context, broker *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return &remote{conn: conn, broker: broker}, nil
}

func (*hostSide) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error {
	return errors.New("a host is not a plugin")
}
