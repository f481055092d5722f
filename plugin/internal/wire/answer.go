package wire

import (
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pluginv1 "github.com/toolhost/toolhost/plugin/proto/toolhost/plugin/v1"
	"github.com/toolhost/toolhost/tool"
)

// errorEvent is the terminal event of a call that did not complete.
func errorEvent(err error) *pluginv1.ExecuteResponse {
	if failure, ok := errors.AsType[*tool.Failure](err); ok {
		return &pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_Failed{
			Failed: &pluginv1.Failed{Message: cutAt(failure.Message, maxFailureText)},
		}}
	}
	remote, _ := errors.AsType[*RemoteError](err)
	_, refused := errors.AsType[*tool.Refusal](err)
	return &pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_Errored{
		Errored: &pluginv1.Errored{Message: cut(err.Error()), Panicked: remote != nil && remote.Panicked, Refused: refused},
	}}
}

// sendCompleted sends a small answer whole and a large one in pieces, so that no
// message is large.
func sendCompleted(stream grpc.ServerStreamingServer[pluginv1.ExecuteResponse], result tool.Result) error {
	completed, err := resultToWire(result)
	if err != nil {
		return stream.Send(errorEvent(err))
	}
	size := proto.Size(completed)
	if size <= MaxWhole {
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

func resultToWire(r tool.Result) (*pluginv1.Completed, error) {
	content, err := contentToWire(r.Content)
	if err != nil {
		return nil, err
	}
	return &pluginv1.Completed{Output: r.Output, Structured: r.Structured, Content: content}, nil
}

func resultFromWire(c *pluginv1.Completed) tool.Result {
	return tool.Result{Output: c.GetOutput(), Structured: c.GetStructured(), Content: contentFromWire(c.GetContent())}
}

// An answer is put together from the events of one call. It believes nothing
// that it can check.
type answer struct {
	progress func(tool.Progress) // may be nil
	pieces   []byte
}

// take takes the next event. After the terminal one, or a wrong one, the answer
// is over and nothing more is to be taken.
func (a *answer) take(r *pluginv1.ExecuteResponse) (result tool.Result, over bool, err error) {
	switch event := r.GetEvent().(type) {
	case *pluginv1.ExecuteResponse_Progress:
		if a.progress != nil {
			p := event.Progress
			a.progress(tool.Progress{Done: p.GetDone(), Total: p.GetTotal(), Message: cutAt(p.GetMessage(), maxProgressText)})
		}
		return tool.Result{}, false, nil
	case *pluginv1.ExecuteResponse_Chunk:
		err := a.add(event.Chunk)
		return tool.Result{}, err != nil, err
	case *pluginv1.ExecuteResponse_Completed:
		if len(a.pieces) > 0 {
			return tool.Result{}, true, errors.New("the plugin sent pieces of an answer and then another one whole")
		}
		return resultFromWire(event.Completed), true, nil
	case *pluginv1.ExecuteResponse_CompletedInChunks:
		result, err := a.assemble(event.CompletedInChunks.GetSize())
		return result, true, err
	case *pluginv1.ExecuteResponse_Failed:
		return tool.Result{}, true, &tool.Failure{Message: cutAt(event.Failed.GetMessage(), maxFailureText)}
	case *pluginv1.ExecuteResponse_Errored:
		e := event.Errored
		return tool.Result{}, true, &RemoteError{Message: cut(e.GetMessage()), Panicked: e.GetPanicked(), Refused: e.GetRefused()}
	default:
		return tool.Result{}, true, errors.New("the plugin sent an event that this version of the protocol does not have")
	}
}

func (a *answer) add(piece []byte) error {
	switch {
	case len(piece) == 0:
		return errors.New("the plugin sent an empty piece of an answer")
	case len(piece) > MaxChunk:
		return fmt.Errorf("the plugin sent a piece of an answer of %d bytes; at most %d", len(piece), MaxChunk)
	case len(a.pieces)+len(piece) > MaxOutput:
		return fmt.Errorf("the plugin's answer is over %d bytes", MaxOutput)
	}
	a.pieces = append(a.pieces, piece...)
	return nil
}

func (a *answer) assemble(size int64) (tool.Result, error) {
	if int64(len(a.pieces)) != size {
		return tool.Result{}, fmt.Errorf("the plugin announced an answer of %d bytes and sent %d", size, len(a.pieces))
	}
	var completed pluginv1.Completed
	if err := proto.Unmarshal(a.pieces, &completed); err != nil {
		return tool.Result{}, fmt.Errorf("the plugin's answer cannot be read: %w", err)
	}
	return resultFromWire(&completed), nil
}
