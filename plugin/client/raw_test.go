package client_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/rpc"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/toolhost/toolhost/plugin/internal/wire"
	pluginv1 "github.com/toolhost/toolhost/plugin/proto/toolhost/plugin/v1"
	"github.com/toolhost/toolhost/tool"
)

// serveRaw is a plugin that speaks the wire without the SDK, and wrongly.
func serveRaw(kind string) {
	handshake := wire.Handshake()
	versions := map[int]plugin.PluginSet{wire.ProtocolVersion: {wire.PluginName: &rawPlugin{kind: kind}}}
	protocolOutput = os.Stdout
	server := func(options []grpc.ServerOption) *grpc.Server {
		return grpc.NewServer(append(options, wire.ServerOptions()...)...)
	}
	switch kind {
	case "raw-version-0", "raw-version-99":
		handshake.ProtocolVersion = map[string]uint{"raw-version-0": 0, "raw-version-99": 99}[kind]
		versions = map[int]plugin.PluginSet{int(handshake.ProtocolVersion): versions[wire.ProtocolVersion]}
	case "raw-cookie":
		handshake.MagicCookieValue = "toolhost.plugin.v99"
	case "raw-netrpc":
		versions[wire.ProtocolVersion] = plugin.PluginSet{wire.PluginName: rpcPlugin{}}
		server = nil
	}
	plugin.Serve(&plugin.ServeConfig{HandshakeConfig: handshake, VersionedPlugins: versions, GRPCServer: server})
	_, _ = os.NewFile(2, "stderr").WriteString("served to the end\n")
	if kind == "raw-stays" {
		select {}
	}
	os.Exit(0)
}

// protocolOutput is the standard output before go-plugin puts its own there.
var protocolOutput *os.File

type rpcPlugin struct{}

func (rpcPlugin) Server(*plugin.MuxBroker) (any, error) { return &struct{}{}, nil }
func (rpcPlugin) Client(*plugin.MuxBroker, *rpc.Client) (any, error) {
	return nil, errors.New("not here")
}

type rawPlugin struct {
	plugin.NetRPCUnsupportedPlugin
	kind string
}

func (p *rawPlugin) GRPCServer(broker *plugin.GRPCBroker, server *grpc.Server) error {
	pluginv1.RegisterPluginServiceServer(server, &rawServer{kind: p.kind, broker: broker})
	return nil
}

func (*rawPlugin) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("not here")
}

type rawServer struct {
	pluginv1.UnimplementedPluginServiceServer
	kind   string
	broker *plugin.GRPCBroker

	mu     sync.Mutex
	conn   *grpc.ClientConn
	tokens []string          // of the activation and of every call, in order
	leased int               // streams that were opened
	what   map[uint64]string // was prepared, by number
}

func (s *rawServer) Describe(_ context.Context, _ *pluginv1.DescribeRequest) (*pluginv1.DescribeResponse, error) {
	switch s.kind {
	case "raw-describe-hangs":
		select {} // whatever the host's deadline says
	case "raw-describe-stops":
		_ = stop()
	case "raw-describe-exits":
		os.Exit(4)
	case "raw-describe-fails":
		return nil, status.Error(codes.Internal, "no\x1b[2J idea\nwho I am")
	case "raw-describe-odd":
		return &pluginv1.DescribeResponse{Name: "\x1b[2J" + strings.Repeat("n", 1<<20), Version: "1\n2\u2028", Sdk: "\u202e"}, nil
	case "raw-describe-needs":
		return &pluginv1.DescribeResponse{Services: []string{"root\x1b[2J"}}, nil
	case "raw-leases":
		return &pluginv1.DescribeResponse{Name: s.kind, Features: []string{wire.FeatureLease, "more"}}, nil
	}
	return &pluginv1.DescribeResponse{Name: s.kind}, nil
}

func (s *rawServer) Activate(ctx context.Context, r *pluginv1.ActivateRequest) (*pluginv1.ActivateResponse, error) {
	switch s.kind {
	case "raw-no-session":
		return &pluginv1.ActivateResponse{}, nil
	case "raw-slow-dial":
		for _, err := os.Stat(r.GetRoot() + "/go"); err != nil; _, err = os.Stat(r.GetRoot() + "/go") {
			time.Sleep(time.Millisecond)
		}
	case "raw-no-certificate":
		return &pluginv1.ActivateResponse{Error: "services without a certificate: " + dialWithout()}, nil
	}
	conn, err := s.broker.DialWithOptions(r.GetServicesId(), wire.DialOptions()...)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.conn, s.tokens = conn, append(s.tokens, r.GetToken())
	s.mu.Unlock()
	if err := attach(conn); err != nil {
		return nil, err
	}
	if s.kind == "raw-prints" {
		fmt.Fprint(os.Stdout, "to std")
		fmt.Fprint(os.Stdout, "out and to stderr\n")
		fmt.Fprint(os.Stderr, "no end of line")
	}
	if s.kind == "raw-floods-broker" {
		for id := range uint32(400) {
			if listener, err := s.broker.Accept(1000 + id); err == nil {
				_ = listener.Close()
			}
		}
	}
	if s.kind == "raw-leaves-in-activate" {
		_ = conn.Close()
		select {}
	}
	if s.kind == "raw-floods-tools" {
		return &pluginv1.ActivateResponse{Error: floodTools(ctx, conn)}, nil
	}
	_, _, err = wire.NewTools(conn).Register(ctx, []wire.RemoteTool{
		{Name: "raw", Executor: 1}, {Name: "raw", Executor: 2}, {Name: strings.Repeat("n", 1<<20) + "\x1b", Executor: 3},
		{Name: "prepares", Executor: 4, Prepares: true},
		{Name: "differs", Executor: 5, Tool: tool.Tool{Description: "one"}}, {Name: "differs", Executor: 6, Tool: tool.Tool{Description: "another"}},
		{Name: "differs", Executor: 7, Tool: tool.Tool{Description: "one"}},
	})
	return &pluginv1.ActivateResponse{}, err
}

// attach opens the session and holds it for as long as the process lives.
func attach(conn *grpc.ClientConn) error {
	opened, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		failed <- wire.NewSession(conn).Attach(context.Background(), func() { close(opened) })
	}()
	select {
	case <-opened:
		return nil
	case err := <-failed:
		return err
	}
}

// floodTools registers more than a plugin may, and says what the host made of it.
func floodTools(ctx context.Context, conn *grpc.ClientConn) string {
	tools := wire.NewTools(conn)
	var first uint64
	for n := range 1000 {
		var list []wire.RemoteTool
		for k := range 999 {
			list = append(list, wire.RemoteTool{Name: fmt.Sprintf("t%d-%d", n, k)})
		}
		number, _, err := tools.Register(ctx, list)
		if err != nil {
			if n < 10 {
				return "too early: " + err.Error()
			}
			if err := tools.Unregister(ctx, first); err != nil {
				return err.Error()
			}
			if _, _, again := tools.Register(ctx, list); again != nil {
				return "not after others were removed: " + again.Error()
			}
			_, _, large := tools.Register(ctx, []wire.RemoteTool{{Name: "large", Tool: tool.Tool{Input: make(json.RawMessage, 15<<20)}}})
			_, _, larger := tools.Register(ctx, []wire.RemoteTool{{Name: "larger", Tool: tool.Tool{Input: make(json.RawMessage, 2<<20)}}})
			return fmt.Sprint(err, "; ", large, "; ", larger)
		}
		if n == 0 {
			first = number
		}
	}
	return "there is no bound"
}

// dialWithout connects to the services of this plugin as one that has no
// certificate.
func dialWithout() string {
	sockets, _ := filepath.Glob(os.Getenv("PLUGIN_UNIX_SOCKET_DIR") + "/plugin*")
	for _, socket := range sockets {
		conn, err := grpc.NewClient("passthrough:///services", append(wire.DialOptions(),
			grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})),
			grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return net.Dial("unix", socket) }))...)
		if err != nil {
			return err.Error()
		}
		defer conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if _, _, err := wire.NewTools(conn).Register(ctx, nil); err == nil {
			return socket + " let it in"
		}
	}
	return fmt.Sprintf("refused on %d sockets", len(sockets))
}

// Execute does what the input says.
func (s *rawServer) Execute(r *pluginv1.ExecuteRequest, stream grpc.ServerStreamingServer[pluginv1.ExecuteResponse]) error {
	if r.GetAction() != 0 {
		_, _ = syscall.Write(2, []byte("commits\n"))
		return stream.Send(&pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_Completed{
			Completed: &pluginv1.Completed{Output: fmt.Appendf(nil, "%q", r.GetInput())},
		}})
	}
	s.mu.Lock()
	s.tokens = append(s.tokens, r.GetToken())
	conn, tokens := s.conn, s.tokens
	s.mu.Unlock()
	var what, argument string
	_ = json.Unmarshal(r.GetInput(), &what)
	what, argument, _ = strings.Cut(what, " ")
	chunk := func(n int) {
		_ = stream.Send(&pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_Chunk{Chunk: make([]byte, n)}})
	}
	completed := func(output string) error {
		return stream.Send(&pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_Completed{
			Completed: &pluginv1.Completed{Output: []byte(output)},
		}})
	}
	switch what {
	case "nothing":
		return nil
	case "status":
		return status.Error(codes.DeadlineExceeded, "I made this\x1b[2J up")
	case "unknown-event":
		return stream.Send(&pluginv1.ExecuteResponse{})
	case "large-piece":
		chunk(wire.MaxChunk + 1)
	case "empty-piece":
		chunk(0)
	case "large-output":
		return stream.Send(&pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_Output{Output: make([]byte, wire.MaxChunk+1)}})
	case "empty-output":
		return stream.Send(&pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_Output{}})
	case "lost":
		return stream.Send(&pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_Completed{
			Completed: &pluginv1.Completed{Output: []byte("1"), Lost: -1},
		}})
	case "hang":
		time.Sleep(patience)
	case "wrong-size":
		chunk(10)
		return stream.Send(&pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_CompletedInChunks{
			CompletedInChunks: &pluginv1.CompletedInChunks{Size: 11},
		}})
	case "no-message":
		chunk(10)
		return stream.Send(&pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_CompletedInChunks{
			CompletedInChunks: &pluginv1.CompletedInChunks{Size: 10},
		}})
	case "pieces-and-whole":
		chunk(10)
		return completed(`"x"`)
	case "no-json":
		return completed("\xff{")
	case "after-the-end":
		_ = completed(`"first"`)
		_ = completed(`"second"`)
		return stream.Send(&pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_Failed{Failed: &pluginv1.Failed{Message: "third"}}})
	case "large-message":
		return completed(strings.Repeat("x", wire.MaxMessage+1))
	case "errored":
		return stream.Send(&pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_Errored{
			Errored: &pluginv1.Errored{Message: "\x1b[2J" + strings.Repeat("e", 1<<20)},
		}})
	case "flood":
		for n := range 3000 {
			_ = stream.Send(&pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_Progress{
				Progress: &pluginv1.Progress{Done: float64(n), Message: strings.Repeat("\x1b", 4<<10)},
			}})
		}
	case "print":
		for range 1024 {
			if _, err := protocolOutput.WriteString(argument); err != nil {
				return err
			}
		}
	case "disconnect":
		_ = conn.Close()
		<-stream.Context().Done()
	case "token":
		return completed(fmt.Sprintf("%q", r.GetToken()))
	case "assert":
		return completed(fmt.Sprintf("%q", assertWith(stream.Context(), conn, argument, tokens)))
	}
	return completed(`"done"`)
}

func (s *rawServer) Prepare(_ context.Context, r *pluginv1.PrepareRequest) (*pluginv1.PrepareResponse, error) {
	var what string
	_ = json.Unmarshal(r.GetInput(), &what)
	s.mu.Lock()
	if s.what == nil {
		s.what = map[uint64]string{}
	}
	s.what[r.GetAction()] = what
	s.tokens = append(s.tokens, r.GetToken())
	s.mu.Unlock()
	p := &pluginv1.Preparation{}
	switch what {
	case "nothing":
		return &pluginv1.PrepareResponse{}, nil
	case "requests":
		p.Requests = make([]*pluginv1.PermissionRequest, wire.MaxRequests+1)
		for i := range p.Requests {
			p.Requests[i] = &pluginv1.PermissionRequest{}
		}
	case "targets":
		p.Targets = make([][]byte, wire.MaxTargets+1)
	case "action":
		p.Action = &pluginv1.PreparedAction{Review: "r"}
	case "status":
		return nil, status.Error(codes.FailedPrecondition, "no\x1b[2J idea")
	}
	return &pluginv1.PrepareResponse{Outcome: &pluginv1.PrepareResponse_Preparation{Preparation: p}}, nil
}

func (s *rawServer) Discard(_ context.Context, r *pluginv1.DiscardRequest) (*pluginv1.DiscardResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = syscall.Write(2, []byte("discards "+s.what[r.GetAction()]+"\n"))
	return &pluginv1.DiscardResponse{}, nil
}

// assertWith asks for a permission with one of several tokens.
func assertWith(ctx context.Context, conn *grpc.ClientConn, which string, tokens []string) string {
	switch which {
	case "none":
	case "own":
		ctx = wire.WithToken(ctx, tokens[len(tokens)-1])
	case "activation":
		ctx = wire.WithToken(ctx, tokens[0])
	case "previous":
		ctx = wire.WithToken(ctx, tokens[len(tokens)-2])
	case "flood":
		ctx = wire.WithToken(ctx, tokens[len(tokens)-1])
		return fmt.Sprint(wire.NewPermission(conn).Assert(ctx, tool.PermissionRequest{Action: "a", Resources: make([]string, 1<<20)}))
	default:
		ctx = wire.WithToken(ctx, which)
	}
	err := wire.NewPermission(conn).Assert(ctx, tool.PermissionRequest{Action: "raw/raw", Resources: []string{which}})
	if err == nil {
		return "granted"
	}
	return err.Error()
}

func (s *rawServer) Drain(context.Context, *pluginv1.DrainRequest) (*pluginv1.DrainResponse, error) {
	return &pluginv1.DrainResponse{}, nil
}

// someCertificate is one, as a handshake announces it.
func someCertificate() string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return base64.RawStdEncoding.EncodeToString(der)
}
