package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// A bare plugin is the least that go-plugin asks of a gRPC plugin: a service that answers with what it was sent, in one
// message or as a stream of one, with every setting as go-plugin and gRPC have it.

const bareName = "bare"

// bareService is written by hand, so that there is no protocol of its own to generate.
var bareService = grpc.ServiceDesc{
	ServiceName: "bench.Bare",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Echo", Handler: func(
		_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor,
	) (any, error) {
		in := new(wrapperspb.BytesValue)
		return in, decode(in)
	}}},
	Streams: []grpc.StreamDesc{{StreamName: "Stream", ServerStreams: true, Handler: func(_ any, stream grpc.ServerStream) error {
		in := new(wrapperspb.BytesValue)
		if err := stream.RecvMsg(in); err != nil {
			return err
		}
		return stream.SendMsg(in)
	}}},
}

type barePlugin struct{ plugin.NetRPCUnsupportedPlugin }

var _ plugin.GRPCPlugin = (*barePlugin)(nil)

func (*barePlugin) GRPCServer(_ *plugin.GRPCBroker, server *grpc.Server) error {
	server.RegisterService(&bareService, nil)
	return nil
}

func (*barePlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}

func bareHandshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: "BENCH_BARE", MagicCookieValue: "bare"}
}

func serveBare() {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: bareHandshake(),
		Plugins:         plugin.PluginSet{bareName: &barePlugin{}},
		GRPCServer:      plugin.DefaultGRPCServer,
	})
}

// bare is the host's side of a bare plugin.
type bare struct {
	client *plugin.Client
	conn   *grpc.ClientConn
	pid    int
}

// startBare starts a bare plugin and waits for its first answer. Whoever starts it kills it.
func startBare(tb testing.TB, autoMTLS bool) *bare {
	tb.Helper()
	b := &bare{}
	cmd := exec.Command(self, bareRole)
	b.client = plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  bareHandshake(),
		Plugins:          plugin.PluginSet{bareName: &barePlugin{}},
		Cmd:              cmd,
		AutoMTLS:         autoMTLS,
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		Logger:           hclog.NewNullLogger(),
	})
	if err := b.connect(); err != nil {
		b.client.Kill()
		tb.Fatalf("start a bare plugin: %v", err)
	}
	b.pid = cmd.Process.Pid
	return b
}

func (b *bare) connect() error {
	protocol, err := b.client.Client()
	if err != nil {
		return err
	}
	conn, err := protocol.Dispense(bareName)
	if err != nil {
		return err
	}
	b.conn = conn.(*grpc.ClientConn)
	return b.unary([]byte("first"))
}

func (b *bare) kill() { b.client.Kill() }

// unary is one call.
func (b *bare) unary(payload []byte) error {
	out := new(wrapperspb.BytesValue)
	if err := b.conn.Invoke(context.Background(), "/bench.Bare/Echo", wrapperspb.Bytes(payload), out); err != nil {
		return err
	}
	return same(payload, out)
}

// stream is one call that is answered by a stream.
func (b *bare) stream(payload []byte) error {
	stream, err := b.conn.NewStream(context.Background(), &bareService.Streams[0], "/bench.Bare/Stream")
	if err != nil {
		return err
	}
	if err := errors.Join(stream.SendMsg(wrapperspb.Bytes(payload)), stream.CloseSend()); err != nil {
		return err
	}
	out := new(wrapperspb.BytesValue)
	if err := stream.RecvMsg(out); err != nil {
		return err
	}
	if err := stream.RecvMsg(new(wrapperspb.BytesValue)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("got %w after the answer, want the end of the stream", err)
	}
	return same(payload, out)
}

func same(payload []byte, out *wrapperspb.BytesValue) error {
	if len(out.GetValue()) != len(payload) {
		return fmt.Errorf("got %d bytes for %d", len(out.GetValue()), len(payload))
	}
	return nil
}
