package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/grpc"

	pluginv1 "github.com/toolhost/toolhost/plugin/proto/toolhost/plugin/v1"
	"github.com/toolhost/toolhost/service"
)

// Process is the host's process service. Errors are [*service.ProcessError] or
// [*tool.Refusal]; anything else means that the connection broke. Processes belong to the
// session of the call that started them.
type Process interface {
	// Plan finds out what is known of a command before it is run.
	Plan(ctx context.Context, command service.Command) (service.CommandPlan, error)
	// Run runs a command to its end. With output it gets each piece of the output in the order
	// of its arrival, one at a time and before Run returns, and an error of it ends the
	// command; without, the output is that of the call, and so is the progress.
	Run(ctx context.Context, command service.Command, output TakeChunk) (service.CommandResult, error)
	// Start starts a command that goes on when the call has ended.
	Start(ctx context.Context, command service.Command) (service.ProcessInfo, error)
	// Output gives a part of the output of a process.
	Output(ctx context.Context, query service.OutputQuery) (service.ProcessOutput, error)
	// Input writes to the standard input of a process.
	Input(ctx context.Context, input service.ProcessInput) error
	// Stop ends a process with all that it started.
	Stop(ctx context.Context, id string) (service.ProcessInfo, error)
	// List lists the processes of the session, the oldest first.
	List(ctx context.Context) ([]service.ProcessInfo, error)
}

// TakeChunk takes a piece of output, of which it keeps nothing. It waits for whoever reads
// it, but no longer than ctx, which is that of the run.
type TakeChunk func(ctx context.Context, chunk service.Chunk) error

// ServeProcess puts p on server. What reaches p is within the bounds of package service:
// whatever else a plugin asks for is answered with an error of the kind that it is.
func ServeProcess(server grpc.ServiceRegistrar, p Process) {
	pluginv1.RegisterProcessServiceServer(server, &processServer{process: p})
}

type processServer struct {
	pluginv1.UnimplementedProcessServiceServer
	process Process
}

func (s *processServer) Plan(ctx context.Context, r *pluginv1.PlanRequest) (*pluginv1.PlanResponse, error) {
	command, err := commandFromWire(r.GetCommand())
	var plan service.CommandPlan
	if err == nil {
		plan, err = s.process.Plan(ctx, command)
	}
	e, err := serviceError(err)
	return &pluginv1.PlanResponse{
		Error: e, Directory: []byte(plan.Directory), Place: text(plan.Place), Shell: []byte(plan.Shell), Confined: text(plan.Confined),
		CannotStart: text(plan.CannotStart),
	}, err
}

func (s *processServer) Run(r *pluginv1.RunRequest, stream grpc.ServerStreamingServer[pluginv1.RunResponse]) error {
	command, err := commandFromWire(r.GetCommand())
	var result service.CommandResult
	switch {
	case err != nil:
	case r.GetToOutput():
		result, err = s.process.Run(stream.Context(), command, nil)
	default:
		result, err = s.runSending(stream, command)
	}
	e, err := serviceError(err)
	switch {
	case err != nil:
		return err
	case e != nil:
		return stream.Send(&pluginv1.RunResponse{Event: &pluginv1.RunResponse_Error{Error: e}})
	default:
		return stream.Send(&pluginv1.RunResponse{Event: &pluginv1.RunResponse_Result{Result: resultOfCommandToWire(&result)}})
	}
}

// runSending runs a command and sends its output. The command waits for a plugin that does
// not read, but its end does not: only what is being sent is left to the stream then, which
// ends with whoever is on its other side.
func (s *processServer) runSending(stream grpc.ServerStreamingServer[pluginv1.RunResponse], command service.Command) (service.CommandResult, error) {
	sender := &chunkSender{
		stream: stream, pieces: make(chan *pluginv1.RunResponse), failed: make(chan struct{}), over: make(chan struct{}),
	}
	var sending sync.WaitGroup
	sending.Go(sender.send)
	defer sending.Wait()
	defer close(sender.over)
	return s.process.Run(stream.Context(), command, sender.take)
}

// chunkSender sends one piece while the next one comes.
type chunkSender struct {
	stream grpc.ServerStreamingServer[pluginv1.RunResponse]
	pieces chan *pluginv1.RunResponse
	err    error         // why it does not send any more; set before failed is closed
	failed chan struct{} // closed when it does not send any more
	over   chan struct{} // closed when there is nothing more to send
}

func (s *chunkSender) send() {
	for {
		select {
		case piece := <-s.pieces:
			if s.err = s.stream.Send(piece); s.err != nil {
				close(s.failed)
				return
			}
		case <-s.over:
			return
		}
	}
}

// take hands over a copy, since a piece may still be waiting to be sent when the command is
// given up.
func (s *chunkSender) take(ctx context.Context, chunk service.Chunk) error {
	dropped := chunk.Dropped
	for rest := chunk.Data; len(rest) > 0; {
		n := min(len(rest), MaxChunk)
		piece := &pluginv1.RunResponse{Event: &pluginv1.RunResponse_Piece{Piece: &pluginv1.OutputPiece{
			Stream: pluginv1.OutputStream(chunk.Stream), Data: bytes.Clone(rest[:n]), Dropped: dropped,
		}}}
		dropped = 0
		select {
		case s.pieces <- piece:
		case <-s.failed:
			return s.err
		case <-s.over:
			return errRunOver
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		rest = rest[n:]
	}
	return nil
}

// errRunOver is the error of output that comes behind the result.
var errRunOver = errors.New("the command is over")

func (s *processServer) Start(ctx context.Context, r *pluginv1.StartRequest) (*pluginv1.StartResponse, error) {
	command, err := commandFromWire(r.GetCommand())
	var info service.ProcessInfo
	if err == nil {
		info, err = s.process.Start(ctx, command)
	}
	e, err := serviceError(err)
	return &pluginv1.StartResponse{Error: e, Process: processToWire(info)}, err
}

func (s *processServer) Output(ctx context.Context, r *pluginv1.OutputRequest) (*pluginv1.OutputResponse, error) {
	query, err := outputQueryFromWire(r)
	var output service.ProcessOutput
	if err == nil {
		output, err = s.process.Output(ctx, query)
	}
	e, err := serviceError(err)
	return &pluginv1.OutputResponse{
		Error: e, Process: processToWire(output.Process), From: output.From, Next: output.Next, Data: output.Data, Dropped: output.Dropped,
	}, err
}

func (s *processServer) Input(ctx context.Context, r *pluginv1.InputRequest) (*pluginv1.InputResponse, error) {
	err := checkInput(r)
	if err == nil {
		err = s.process.Input(ctx, service.ProcessInput{ID: r.GetId(), Data: r.GetData(), Last: r.GetLast(), At: r.GetAt()})
	}
	e, err := serviceError(err)
	return &pluginv1.InputResponse{Error: e}, err
}

func (s *processServer) Stop(ctx context.Context, r *pluginv1.StopRequest) (*pluginv1.StopResponse, error) {
	err := checkProcessID(r.GetId())
	var info service.ProcessInfo
	if err == nil {
		info, err = s.process.Stop(ctx, r.GetId())
	}
	e, err := serviceError(err)
	return &pluginv1.StopResponse{Error: e, Process: processToWire(info)}, err
}

func (s *processServer) List(ctx context.Context, _ *pluginv1.ProcessServiceListRequest) (*pluginv1.ProcessServiceListResponse, error) {
	list, err := s.process.List(ctx)
	e, err := serviceError(err)
	out := &pluginv1.ProcessServiceListResponse{Error: e}
	for _, info := range list {
		out.Processes = append(out.Processes, processToWire(info))
	}
	return out, err
}

// NewProcess is the client of the process service on the other side of conn.
func NewProcess(conn grpc.ClientConnInterface) Process {
	return &processClient{pluginv1.NewProcessServiceClient(conn)}
}

type processClient struct {
	client pluginv1.ProcessServiceClient
}

func (c *processClient) Plan(ctx context.Context, command service.Command) (service.CommandPlan, error) {
	sent, err := commandToWire(command)
	if err != nil {
		return service.CommandPlan{}, err
	}
	r, err := c.client.Plan(outgoing(ctx), &pluginv1.PlanRequest{Command: sent})
	if err != nil {
		return service.CommandPlan{}, err
	}
	return service.CommandPlan{
		Directory: string(r.GetDirectory()), Place: r.GetPlace(), Shell: string(r.GetShell()), Confined: r.GetConfined(),
		CannotStart: r.GetCannotStart(),
	}, plainError(r.GetError())
}

// Run ends its stream when it returns, and with it the command.
func (c *processClient) Run(ctx context.Context, command service.Command, output TakeChunk) (service.CommandResult, error) {
	sent, err := commandToWire(command)
	if err != nil {
		return service.CommandResult{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.client.Run(outgoing(ctx), &pluginv1.RunRequest{Command: sent, ToOutput: output == nil})
	if err != nil {
		return service.CommandResult{}, err
	}
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return service.CommandResult{}, errors.New("the host ended the output of a command without a result")
		}
		if err != nil {
			return service.CommandResult{}, err
		}
		switch event := r.GetEvent().(type) {
		case *pluginv1.RunResponse_Piece:
			if err := takePiece(ctx, event.Piece, output); err != nil {
				return service.CommandResult{}, err
			}
		case *pluginv1.RunResponse_Result:
			return resultOfCommandFromWire(event.Result), ended(stream)
		case *pluginv1.RunResponse_Error:
			return service.CommandResult{}, plainError(event.Error)
		default:
			return service.CommandResult{}, errors.New("the host sent an event that this version of the protocol does not have")
		}
	}
}

// takePiece gives a piece to whoever takes it. It believes nothing that it can check.
func takePiece(ctx context.Context, piece *pluginv1.OutputPiece, output TakeChunk) error {
	switch {
	case output == nil:
		return errors.New("the host sent output of a command that was not asked for")
	case len(piece.GetData()) == 0:
		return errors.New("the host sent an empty piece of output")
	case len(piece.GetData()) > MaxChunk:
		return fmt.Errorf("the host sent a piece of output of %d bytes; at most %d", len(piece.GetData()), MaxChunk)
	}
	chunk := service.Chunk{Data: piece.GetData(), Dropped: piece.GetDropped()}
	switch piece.GetStream() {
	case pluginv1.OutputStream_OUTPUT_STREAM_STDOUT:
		chunk.Stream = service.Stdout
	case pluginv1.OutputStream_OUTPUT_STREAM_STDERR:
		chunk.Stream = service.Stderr
	default:
		return fmt.Errorf("the host sent output of the unknown stream %d", piece.GetStream())
	}
	return output(ctx, chunk)
}

// ended says whether a stream ends behind its result.
func ended(stream grpc.ServerStreamingClient[pluginv1.RunResponse]) error {
	_, err := stream.Recv()
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return errors.New("the host sent more behind the result of a command")
	default:
		return err
	}
}

func (c *processClient) Start(ctx context.Context, command service.Command) (service.ProcessInfo, error) {
	sent, err := commandToWire(command)
	if err != nil {
		return service.ProcessInfo{}, err
	}
	r, err := c.client.Start(outgoing(ctx), &pluginv1.StartRequest{Command: sent})
	if err != nil {
		return service.ProcessInfo{}, err
	}
	return processFromWire(r.GetProcess()), plainError(r.GetError())
}

func (c *processClient) Output(ctx context.Context, q service.OutputQuery) (service.ProcessOutput, error) {
	r, err := c.client.Output(outgoing(ctx), &pluginv1.OutputRequest{Id: text(q.ID), Since: q.Since, WaitNs: int64(q.Wait)})
	switch {
	case err != nil:
		return service.ProcessOutput{}, err
	case len(r.GetData()) > service.MaxOutputPart:
		return service.ProcessOutput{}, fmt.Errorf("the host sent a part of an output of %d bytes; at most %d", len(r.GetData()), service.MaxOutputPart)
	}
	return service.ProcessOutput{
		Process: processFromWire(r.GetProcess()), From: r.GetFrom(), Next: r.GetNext(), Data: r.GetData(), Dropped: r.GetDropped(),
	}, plainError(r.GetError())
}

func (c *processClient) Input(ctx context.Context, in service.ProcessInput) error {
	r, err := c.client.Input(outgoing(ctx), &pluginv1.InputRequest{Id: text(in.ID), Data: in.Data, Last: in.Last, At: text(in.At)})
	if err != nil {
		return err
	}
	return plainError(r.GetError())
}

func (c *processClient) Stop(ctx context.Context, id string) (service.ProcessInfo, error) {
	r, err := c.client.Stop(outgoing(ctx), &pluginv1.StopRequest{Id: text(id)})
	if err != nil {
		return service.ProcessInfo{}, err
	}
	return processFromWire(r.GetProcess()), plainError(r.GetError())
}

func (c *processClient) List(ctx context.Context) ([]service.ProcessInfo, error) {
	r, err := c.client.List(outgoing(ctx), &pluginv1.ProcessServiceListRequest{})
	if err != nil {
		return nil, err
	}
	var list []service.ProcessInfo
	for _, info := range r.GetProcesses() {
		list = append(list, processFromWire(info))
	}
	return list, plainError(r.GetError())
}
