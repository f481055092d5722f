package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"

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

// Execution is one call, to be prepared, executed or committed.
type Execution struct {
	Executor uint64
	// Action is the number of the prepared action: to be kept, when the call is being
	// prepared, and to be committed in place of the executor otherwise, if not 0.
	Action uint64
	// Tool is the canonical id.
	Tool     string
	Identity tool.Identity
	// Token is for callbacks while the call lives.
	Token string
	Input json.RawMessage
	// Deadline is how long the call may take; 0 when only ctx bounds it.
	Deadline time.Duration
}

// The additions to the version.
const (
	// FeatureAwait is that a plugin answers Await.
	FeatureAwait = "await"
	// FeatureLease is that calls travel on leased streams; see [NewLeasing].
	FeatureLease = "lease"
)

// Plugin is the service of the plugin.
//
// The error of Prepare and of Execute is a [*tool.Failure], or a [*RemoteError]
// for anything that broke in the handler: these say that it has ended. Any other
// error, the context's among them, does not; see [Ended]. Progress is called, and output
// written to, in order and not after Execute returned; an error of output ends the
// call with an [*OutputError]. Activate's error says why the plugin is not ready.
type Plugin interface {
	Describe(ctx context.Context, features []string) (Description, error)
	Activate(ctx context.Context, a Activation) error
	Prepare(ctx context.Context, e Execution) (Preparation, error)
	Execute(ctx context.Context, e Execution, progress func(tool.Progress), output io.Writer) (tool.Result, error)
	Discard(ctx context.Context, action uint64) error
	Await(ctx context.Context, token string) error
	Drain(ctx context.Context) error
}

// OutputError says that the output of a call could not be taken.
type OutputError struct{ Err error }

func (e *OutputError) Error() string { return "output of the call: " + e.Err.Error() }

// Unwrap gives Err.
func (e *OutputError) Unwrap() error { return e.Err }

// RemoteError is an error that a plugin returned from a handler, or a panic in
// one. It is for the operator.
type RemoteError struct {
	Message string
	// Panicked: Message has the panic and its stack.
	Panicked bool
	// Refused: the handler gave up because a permission was refused.
	Refused bool
	// TooLarge: its answer is larger than may be sent.
	TooLarge bool
}

func (e *RemoteError) Error() string { return e.Message }

// Ended reports whether the error of a call says that the handler has ended: it is
// the handler's own.
func Ended(err error) bool {
	_, failed := errors.AsType[*tool.Failure](err)
	_, broke := errors.AsType[*RemoteError](err)
	return failed || broke
}

// Where texts from the other side are cut, in bytes.
const (
	maxErrorText    = 16 << 10
	maxFailureText  = 1 << 20
	maxProgressText = 1 << 10
)

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

func (s *pluginServer) Prepare(ctx context.Context, r *pluginv1.PrepareRequest) (*pluginv1.PrepareResponse, error) {
	var p Preparation
	err := Contain(func() (err error) {
		p, err = s.plugin.Prepare(WithToken(ctx, r.GetToken()), Execution{
			Executor: r.GetExecutor(), Action: r.GetAction(), Tool: r.GetTool(), Identity: identityFromWire(r.GetIdentity()),
			Token: r.GetToken(), Input: r.GetInput(), Deadline: time.Duration(r.GetDeadlineMs()) * time.Millisecond,
		})
		return err
	})
	return preparationResponse(p, err), nil
}

func (s *pluginServer) Discard(ctx context.Context, r *pluginv1.DiscardRequest) (*pluginv1.DiscardResponse, error) {
	return &pluginv1.DiscardResponse{}, Contain(func() error { return s.plugin.Discard(ctx, r.GetAction()) })
}

func (s *pluginServer) Await(ctx context.Context, r *pluginv1.AwaitRequest) (*pluginv1.AwaitResponse, error) {
	return &pluginv1.AwaitResponse{}, s.plugin.Await(ctx, r.GetToken())
}

func (s *pluginServer) Execute(r *pluginv1.ExecuteRequest, stream grpc.ServerStreamingServer[pluginv1.ExecuteResponse]) error {
	return s.execute(stream.Context(), r, stream, func() {})
}

// execute runs the handler and sends the outcome, or returns the error of a ctx
// that is over, with which nobody reads one. A panic in the handler is an error; one
// that ends its goroutine, as a failing test does, ends the call as well: then
// goexit is called before the outcome is sent.
func (s *pluginServer) execute(ctx context.Context, r *pluginv1.ExecuteRequest, stream events, goexit func()) error {
	returned := false
	defer func() {
		if !returned {
			goexit()
			_ = stream.Send(errorEvent(ErrGoexit))
		}
	}()
	var result tool.Result
	err := Contain(func() (err error) {
		result, err = s.plugin.Execute(WithToken(ctx, r.GetToken()), Execution{
			Executor: r.GetExecutor(), Action: r.GetAction(), Tool: r.GetTool(), Identity: identityFromWire(r.GetIdentity()),
			Token: r.GetToken(), Input: r.GetInput(), Deadline: time.Duration(r.GetDeadlineMs()) * time.Millisecond,
		}, func(p tool.Progress) {
			_ = stream.Send(&pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_Progress{
				Progress: &pluginv1.Progress{Done: p.Done, Total: p.Total, Message: text(p.Message)},
			}})
		}, outputTo{stream})
		return err
	})
	returned = true
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return stream.Send(errorEvent(err))
	default:
		return sendCompleted(stream, result)
	}
}

// ErrGoexit is the error of a handler that neither returned nor panicked.
var ErrGoexit = errors.New("the handler ended its goroutine (runtime.Goexit)")

// Contain runs what the author of a plugin wrote. A panic in it is a
// [*RemoteError].
func Contain(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &RemoteError{Message: fmt.Sprintf("panic: %v\n\n%s", p, debug.Stack()), Panicked: true}
		}
	}()
	return f()
}

// outputTo sends output in pieces.
type outputTo struct{ stream events }

func (o outputTo) Write(p []byte) (written int, err error) {
	for len(p) > 0 {
		n := min(len(p), MaxChunk)
		if err := o.stream.Send(&pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_Output{Output: p[:n]}}); err != nil {
			return written, err
		}
		p, written = p[n:], written+n
	}
	return written, nil
}

// NewPlugin is the client of the plugin on the other side of conn.
func NewPlugin(conn grpc.ClientConnInterface) Plugin {
	return &pluginClient{pluginv1.NewPluginServiceClient(conn)}
}

type pluginClient struct{ client pluginv1.PluginServiceClient }

func (c *pluginClient) Describe(ctx context.Context, features []string) (Description, error) {
	r, err := c.client.Describe(ctx, &pluginv1.DescribeRequest{Features: texts(features)})
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
		Settings: a.Settings, Grants: texts(a.Grants), Token: a.Token, Features: texts(a.Features),
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

func (c *pluginClient) Prepare(ctx context.Context, e Execution) (Preparation, error) {
	r, err := c.client.Prepare(ctx, &pluginv1.PrepareRequest{
		Executor: e.Executor, Action: e.Action, Tool: text(e.Tool), Identity: identityToWire(e.Identity), Token: e.Token,
		Input: e.Input, DeadlineMs: e.Deadline.Milliseconds(),
	})
	if err != nil {
		return Preparation{}, err
	}
	return preparationFromWire(r)
}

func (c *pluginClient) Discard(ctx context.Context, action uint64) error {
	_, err := c.client.Discard(ctx, &pluginv1.DiscardRequest{Action: action})
	return err
}

func (c *pluginClient) Await(ctx context.Context, token string) error {
	_, err := c.client.Await(ctx, &pluginv1.AwaitRequest{Token: token})
	return err
}

func (c *pluginClient) Execute(ctx context.Context, e Execution, progress func(tool.Progress), output io.Writer) (tool.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.client.Execute(ctx, executionToWire(e))
	if err != nil {
		return tool.Result{}, err
	}
	answer := answer{progress: progress, output: output}
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return tool.Result{}, errors.New("the plugin ended the call without an outcome")
		}
		if err != nil {
			return tool.Result{}, err
		}
		if result, over, err := answer.take(event); over {
			end(stream, cancel)
			return result, err
		}
	}
}

func executionToWire(e Execution) *pluginv1.ExecuteRequest {
	return &pluginv1.ExecuteRequest{
		Executor: e.Executor, Action: e.Action, Tool: text(e.Tool), Identity: identityToWire(e.Identity), Token: e.Token,
		Input: e.Input, DeadlineMs: e.Deadline.Milliseconds(),
	}
}

// end cancels a stream and waits until that was said, so that whatever is sent
// next comes after it.
func end[Event any](stream interface{ Recv() (*Event, error) }, cancel context.CancelFunc) {
	cancel()
	for {
		if _, err := stream.Recv(); err != nil {
			return
		}
	}
}

// cutMiddle bounds a text that is to be read: its head and tail stay, since a failure
// says at its end what went wrong. lost is how many bytes of it are gone.
func cutMiddle(s string, most int) (short string, lost int64) {
	s = text(s)
	if len(s) <= most {
		return s, 0
	}
	const mark = "\n[… the middle was dropped …]\n"
	head, tail := (most-len(mark))/2, len(s)-(most-len(mark))/2
	for head > 0 && !utf8.RuneStart(s[head]) {
		head--
	}
	for tail < len(s) && !utf8.RuneStart(s[tail]) {
		tail++
	}
	return s[:head] + mark + s[tail:], int64(tail - head)
}

// cut bounds the text of an error from the other side.
func cut(s string) string { return cutAt(s, maxErrorText) }

// cutAt bounds a text and makes it fit for a message. What was cut is not cut
// again on the other side.
func cutAt(s string, most int) string {
	s = text(s)
	if len(s) <= most {
		return s
	}
	const mark = " …"
	end := most - len(mark)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}
