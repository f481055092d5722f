package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pluginv1 "github.com/toolhost/toolhost/plugin/proto/toolhost/plugin/v1"
	"github.com/toolhost/toolhost/tool"
)

// Description is what a plugin says of itself.
type Description struct {
	Name, Version string
	// SDK is the library that speaks the protocol, with its version.
	SDK string
	// Services are the grants that the plugin cannot work without.
	Services []string
	// Settings is the JSON Schema of the settings; empty when there are none.
	Settings json.RawMessage
	// Features are the additions to the version that the plugin understands.
	Features []string
}

// Activation is what a plugin learns of its Location.
type Activation struct {
	// ServicesID is the brokered connection with the host's services.
	ServicesID uint32
	// Plugin is the plugin's key in the configuration.
	Plugin string
	// Location and Root are the Location's name and the absolute path of its root.
	Location, Root string
	// Settings fit the schema; empty when there are none.
	Settings json.RawMessage
	Grants   []string
	// Token is for callbacks during activation.
	Token    string
	Features []string
}

// Execution is one call.
type Execution struct {
	Executor uint64
	// Tool is the canonical id.
	Tool     string
	Identity tool.Identity
	// Token is for callbacks while the call lives.
	Token string
	Input json.RawMessage
	// Deadline is how long the call may take; 0 when only ctx bounds it.
	Deadline time.Duration
}

// Plugin is the service of the plugin.
//
// Execute's error is a [*tool.Failure], or a [*RemoteError] for anything that
// broke, or the context's; progress is called in order and not after Execute
// returned. Activate's error says why the plugin is not ready.
type Plugin interface {
	Describe(ctx context.Context, features []string) (Description, error)
	Activate(ctx context.Context, a Activation) error
	Execute(ctx context.Context, e Execution, progress func(tool.Progress)) (tool.Result, error)
	Drain(ctx context.Context) error
}

// RemoteError is an error that a plugin returned from a handler, or a panic in
// one. It is for the operator.
type RemoteError struct {
	Message string
	// Panicked: Message has the panic and its stack.
	Panicked bool
	// Refused: the handler gave up because a permission was refused.
	Refused bool
}

func (e *RemoteError) Error() string { return e.Message }

// maxErrorText is where the text of an error from the other side is cut.
const maxErrorText = 16 << 10

// ServePlugin puts p on server.
func ServePlugin(server grpc.ServiceRegistrar, p Plugin) {
	pluginv1.RegisterPluginServiceServer(server, &pluginServer{plugin: p})
}

type pluginServer struct {
	pluginv1.UnimplementedPluginServiceServer
	plugin Plugin
}

func (s *pluginServer) Describe(ctx context.Context, r *pluginv1.DescribeRequest) (*pluginv1.DescribeResponse, error) {
	d, err := s.plugin.Describe(ctx, r.GetFeatures())
	if err != nil {
		return nil, err
	}
	return &pluginv1.DescribeResponse{
		Name: text(d.Name), Version: text(d.Version), Sdk: text(d.SDK), Services: texts(d.Services),
		SettingsSchema: d.Settings, Features: texts(d.Features),
	}, nil
}

func (s *pluginServer) Activate(ctx context.Context, r *pluginv1.ActivateRequest) (*pluginv1.ActivateResponse, error) {
	err := s.plugin.Activate(WithToken(ctx, r.GetToken()), Activation{
		ServicesID: r.GetServicesId(), Plugin: r.GetPlugin(), Location: r.GetLocation(), Root: r.GetRoot(),
		Settings: r.GetSettings(), Grants: r.GetGrants(), Token: r.GetToken(), Features: r.GetFeatures(),
	})
	if err != nil {
		return &pluginv1.ActivateResponse{Error: cut(err.Error())}, nil
	}
	return &pluginv1.ActivateResponse{}, nil
}

func (s *pluginServer) Drain(ctx context.Context, _ *pluginv1.DrainRequest) (*pluginv1.DrainResponse, error) {
	return &pluginv1.DrainResponse{}, s.plugin.Drain(ctx)
}

func (s *pluginServer) Execute(r *pluginv1.ExecuteRequest, stream grpc.ServerStreamingServer[pluginv1.ExecuteResponse]) error {
	result, err := s.execute(stream.Context(), r, stream)
	if stream.Context().Err() != nil {
		return stream.Context().Err() // nobody reads it
	}
	if err != nil {
		return stream.Send(errorEvent(err))
	}
	return sendCompleted(stream, result)
}

// execute runs the handler and turns a panic in it into an error.
func (s *pluginServer) execute(ctx context.Context, r *pluginv1.ExecuteRequest, stream grpc.ServerStreamingServer[pluginv1.ExecuteResponse]) (result tool.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &RemoteError{Message: fmt.Sprintf("panic: %v\n\n%s", p, debug.Stack()), Panicked: true}
		}
	}()
	return s.plugin.Execute(WithToken(ctx, r.GetToken()), Execution{
		Executor: r.GetExecutor(), Tool: r.GetTool(), Identity: identityFromWire(r.GetIdentity()),
		Token: r.GetToken(), Input: r.GetInput(), Deadline: time.Duration(r.GetDeadlineMs()) * time.Millisecond,
	}, func(p tool.Progress) {
		_ = stream.Send(&pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_Progress{
			Progress: &pluginv1.Progress{Done: p.Done, Total: p.Total, Message: text(p.Message)},
		}})
	})
}

func errorEvent(err error) *pluginv1.ExecuteResponse {
	var failure *tool.Failure
	if errors.As(err, &failure) {
		return &pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_Failed{
			Failed: &pluginv1.Failed{Message: text(failure.Message)},
		}}
	}
	var remote *RemoteError
	var refusal *tool.Refusal
	return &pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_Errored{
		Errored: &pluginv1.Errored{
			Message: cut(err.Error()), Panicked: errors.As(err, &remote) && remote.Panicked,
			Refused: errors.As(err, &refusal),
		},
	}}
}

// sendCompleted sends a small answer whole and a large one in pieces, so that no
// message is large.
func sendCompleted(stream grpc.ServerStreamingServer[pluginv1.ExecuteResponse], result tool.Result) error {
	content, err := contentToWire(result.Content)
	if err != nil {
		return stream.Send(errorEvent(err))
	}
	completed := &pluginv1.Completed{Output: result.Output, Structured: result.Structured, Content: content}
	size := proto.Size(completed)
	if size <= MaxChunk {
		return stream.Send(&pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_Completed{Completed: completed}})
	}
	if size > MaxOutput {
		return stream.Send(errorEvent(fmt.Errorf("the answer has %d bytes; at most %d may be sent", size, MaxOutput)))
	}
	data, err := proto.Marshal(completed)
	if err != nil {
		return stream.Send(errorEvent(err))
	}
	for rest := data; len(rest) > 0; {
		n := min(len(rest), MaxChunk)
		if err := stream.Send(&pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_Chunk{Chunk: rest[:n]}}); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return stream.Send(&pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_CompletedInChunks{
		CompletedInChunks: &pluginv1.CompletedInChunks{Size: int64(size)},
	}})
}

// NewPlugin is the client of the plugin on the other side of conn.
func NewPlugin(conn grpc.ClientConnInterface) Plugin {
	return &pluginClient{pluginv1.NewPluginServiceClient(conn)}
}

type pluginClient struct{ client pluginv1.PluginServiceClient }

func (c *pluginClient) Describe(ctx context.Context, features []string) (Description, error) {
	r, err := c.client.Describe(ctx, &pluginv1.DescribeRequest{Features: features})
	if err != nil {
		return Description{}, err
	}
	return Description{
		Name: r.GetName(), Version: r.GetVersion(), SDK: r.GetSdk(), Services: r.GetServices(),
		Settings: r.GetSettingsSchema(), Features: r.GetFeatures(),
	}, nil
}

func (c *pluginClient) Activate(ctx context.Context, a Activation) error {
	r, err := c.client.Activate(ctx, &pluginv1.ActivateRequest{
		ServicesId: a.ServicesID, Plugin: text(a.Plugin), Location: text(a.Location), Root: text(a.Root),
		Settings: a.Settings, Grants: texts(a.Grants), Token: a.Token, Features: a.Features,
	})
	if err != nil {
		return err
	}
	if r.GetError() != "" {
		return &RemoteError{Message: cut(r.GetError())}
	}
	return nil
}

func (c *pluginClient) Drain(ctx context.Context) error {
	_, err := c.client.Drain(ctx, &pluginv1.DrainRequest{})
	return err
}

func (c *pluginClient) Execute(ctx context.Context, e Execution, progress func(tool.Progress)) (tool.Result, error) {
	// However it ends, the stream is over when this returns.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.client.Execute(ctx, &pluginv1.ExecuteRequest{
		Executor: e.Executor, Tool: e.Tool, Identity: identityToWire(e.Identity), Token: e.Token,
		Input: e.Input, DeadlineMs: e.Deadline.Milliseconds(),
	})
	if err != nil {
		return tool.Result{}, err
	}
	var pieces []byte
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return tool.Result{}, errors.New("the plugin ended the call without an outcome")
		}
		if err != nil {
			return tool.Result{}, err
		}
		switch event := r.GetEvent().(type) {
		case *pluginv1.ExecuteResponse_Progress:
			if progress != nil {
				progress(tool.Progress{Done: event.Progress.GetDone(), Total: event.Progress.GetTotal(), Message: cut(event.Progress.GetMessage())})
			}
		case *pluginv1.ExecuteResponse_Chunk:
			if len(pieces)+len(event.Chunk) > MaxOutput {
				return tool.Result{}, fmt.Errorf("the answer is over %d bytes", MaxOutput)
			}
			pieces = append(pieces, event.Chunk...)
		case *pluginv1.ExecuteResponse_Completed:
			return resultFromWire(event.Completed), nil
		case *pluginv1.ExecuteResponse_CompletedInChunks:
			return resultFromPieces(pieces, event.CompletedInChunks.GetSize())
		case *pluginv1.ExecuteResponse_Failed:
			return tool.Result{}, &tool.Failure{Message: event.Failed.GetMessage()}
		case *pluginv1.ExecuteResponse_Errored:
			return tool.Result{}, &RemoteError{
				Message: cut(event.Errored.GetMessage()), Panicked: event.Errored.GetPanicked(), Refused: event.Errored.GetRefused(),
			}
		default:
			return tool.Result{}, errors.New("the plugin sent an event that this version does not know")
		}
	}
}

func resultFromPieces(pieces []byte, size int64) (tool.Result, error) {
	if int64(len(pieces)) != size {
		return tool.Result{}, fmt.Errorf("the plugin announced an answer of %d bytes and sent %d", size, len(pieces))
	}
	var completed pluginv1.Completed
	if err := proto.Unmarshal(pieces, &completed); err != nil {
		return tool.Result{}, fmt.Errorf("the plugin's answer cannot be read: %w", err)
	}
	return resultFromWire(&completed), nil
}

func resultFromWire(c *pluginv1.Completed) tool.Result {
	return tool.Result{Output: c.GetOutput(), Structured: c.GetStructured(), Content: contentFromWire(c.GetContent())}
}

// cut bounds a text from the other side and makes it fit for a message.
func cut(s string) string {
	if len(s) > maxErrorText {
		s = s[:maxErrorText] + " …"
	}
	return text(s)
}
