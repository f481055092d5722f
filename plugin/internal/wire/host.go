package wire

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"google.golang.org/grpc"

	pluginv1 "github.com/toolhost/toolhost/plugin/proto/toolhost/plugin/v1"
)

// Session is the host's service that says how long a plugin is wanted.
type Session interface {
	// Attach calls opened once the session is open, and then waits until it is over.
	Attach(ctx context.Context, opened func()) error
}

// ServeSession puts s on server.
func ServeSession(server grpc.ServiceRegistrar, s Session) {
	pluginv1.RegisterSessionServiceServer(server, &sessionServer{session: s})
}

type sessionServer struct {
	pluginv1.UnimplementedSessionServiceServer
	session Session
}

func (s *sessionServer) Attach(_ *pluginv1.AttachRequest, stream grpc.ServerStreamingServer[pluginv1.AttachResponse]) error {
	var sent error
	err := s.session.Attach(stream.Context(), func() { sent = stream.Send(&pluginv1.AttachResponse{}) })
	return errors.Join(err, sent)
}

// NewSession is the client of the session on the other side of conn.
func NewSession(conn grpc.ClientConnInterface) Session {
	return &sessionClient{pluginv1.NewSessionServiceClient(conn)}
}

type sessionClient struct{ client pluginv1.SessionServiceClient }

func (c *sessionClient) Attach(ctx context.Context, opened func()) error {
	stream, err := c.client.Attach(ctx, &pluginv1.AttachRequest{})
	if err != nil {
		return err
	}
	for first := true; ; first = false {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if first {
			opened()
		}
	}
}

// Record is one line of a plugin's log.
type Record struct {
	Level   slog.Level
	Message string
	// Attributes are keys and values in turn, already formatted.
	Attributes []string
}

// Log is the host's service that takes a plugin's log.
type Log interface {
	Write(r Record)
}

// ServeLog puts l on server.
func ServeLog(server grpc.ServiceRegistrar, l Log) {
	pluginv1.RegisterLogServiceServer(server, &logServer{log: l})
}

type logServer struct {
	pluginv1.UnimplementedLogServiceServer
	log Log
}

func (s *logServer) Write(stream grpc.ClientStreamingServer[pluginv1.WriteRequest, pluginv1.WriteResponse]) error {
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(&pluginv1.WriteResponse{})
		}
		if err != nil {
			return err
		}
		s.log.Write(Record{Level: levelFromWire(r.GetLevel()), Message: r.GetMessage(), Attributes: r.GetAttributes()})
	}
}

// LogStream sends records to the log on the other side, in order.
type LogStream struct {
	stream grpc.ClientStreamingClient[pluginv1.WriteRequest, pluginv1.WriteResponse]
}

// OpenLog opens a stream for as long as ctx lasts. A LogStream is not for
// concurrent use.
func OpenLog(ctx context.Context, conn grpc.ClientConnInterface) (*LogStream, error) {
	stream, err := pluginv1.NewLogServiceClient(conn).Write(ctx)
	if err != nil {
		return nil, err
	}
	return &LogStream{stream}, nil
}

// Send sends one record. An error means that the stream is over.
func (l *LogStream) Send(r Record) error {
	return l.stream.Send(&pluginv1.WriteRequest{
		Level: levelToWire(r.Level), Message: text(r.Message), Attributes: texts(r.Attributes),
	})
}

func levelToWire(l slog.Level) pluginv1.Level {
	switch {
	case l >= slog.LevelError:
		return pluginv1.Level_LEVEL_ERROR
	case l >= slog.LevelWarn:
		return pluginv1.Level_LEVEL_WARN
	case l >= slog.LevelInfo:
		return pluginv1.Level_LEVEL_INFO
	default:
		return pluginv1.Level_LEVEL_DEBUG
	}
}

func levelFromWire(l pluginv1.Level) slog.Level {
	switch l {
	case pluginv1.Level_LEVEL_ERROR:
		return slog.LevelError
	case pluginv1.Level_LEVEL_WARN:
		return slog.LevelWarn
	case pluginv1.Level_LEVEL_INFO:
		return slog.LevelInfo
	default:
		return slog.LevelDebug
	}
}

// Refused is a tool that was not registered, and why.
type Refused struct{ Name, Reason string }

// Tools is the host's service with which a plugin registers its tools.
type Tools interface {
	Register(ctx context.Context, tools []RemoteTool) (registration uint64, refused []Refused, err error)
	Unregister(ctx context.Context, registration uint64) error
}

// ServeTools puts t on server.
func ServeTools(server grpc.ServiceRegistrar, t Tools) {
	pluginv1.RegisterToolsServiceServer(server, &toolsServer{tools: t})
}

type toolsServer struct {
	pluginv1.UnimplementedToolsServiceServer
	tools Tools
}

func (s *toolsServer) Register(ctx context.Context, r *pluginv1.RegisterRequest) (*pluginv1.RegisterResponse, error) {
	list := make([]RemoteTool, 0, len(r.GetTools()))
	for _, t := range r.GetTools() {
		list = append(list, toolFromWire(t))
	}
	registration, refused, err := s.tools.Register(ctx, list)
	if err != nil {
		return nil, err
	}
	out := &pluginv1.RegisterResponse{Registration: registration}
	for _, x := range refused {
		out.Refused = append(out.Refused, &pluginv1.Refused{Name: text(x.Name), Reason: text(x.Reason)})
	}
	return out, nil
}

func (s *toolsServer) Unregister(ctx context.Context, r *pluginv1.UnregisterRequest) (*pluginv1.UnregisterResponse, error) {
	return &pluginv1.UnregisterResponse{}, s.tools.Unregister(ctx, r.GetRegistration())
}

// NewTools is the client of the registration on the other side of conn.
func NewTools(conn grpc.ClientConnInterface) Tools {
	return &toolsClient{pluginv1.NewToolsServiceClient(conn)}
}

type toolsClient struct{ client pluginv1.ToolsServiceClient }

func (c *toolsClient) Register(ctx context.Context, tools []RemoteTool) (uint64, []Refused, error) {
	r := &pluginv1.RegisterRequest{}
	for _, t := range tools {
		r.Tools = append(r.Tools, toolToWire(t))
	}
	out, err := c.client.Register(outgoing(ctx), r)
	if err != nil {
		return 0, nil, err
	}
	var refused []Refused
	for _, x := range out.GetRefused() {
		refused = append(refused, Refused{Name: x.GetName(), Reason: x.GetReason()})
	}
	return out.GetRegistration(), refused, nil
}

func (c *toolsClient) Unregister(ctx context.Context, registration uint64) error {
	_, err := c.client.Unregister(outgoing(ctx), &pluginv1.UnregisterRequest{Registration: registration})
	return err
}
