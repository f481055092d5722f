package wire

import (
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"

	pluginv1 "github.com/toolhost/toolhost/plugin/proto/toolhost/plugin/v1"
	"github.com/toolhost/toolhost/tool"
)

// ErrTooLarge says that an answer is beyond [MaxOutput].
var ErrTooLarge = errors.New("it is too large")

// outcomeOf is the outcome of what did not complete: a failure that was made on
// purpose, or what broke.
func outcomeOf(err error) (*pluginv1.Failed, *pluginv1.Errored) {
	if failure, ok := errors.AsType[*tool.Failure](err); ok {
		message, lost := cutMiddle(failure.Message, maxFailureText)
		return &pluginv1.Failed{Message: message, Lost: max(0, failure.Lost) + lost}, nil
	}
	remote, _ := errors.AsType[*RemoteError](err)
	_, refused := errors.AsType[*tool.Refusal](err)
	return nil, &pluginv1.Errored{
		Message: cut(err.Error()), Panicked: remote != nil && remote.Panicked, Refused: refused, TooLarge: errors.Is(err, ErrTooLarge),
	}
}

func failureFromWire(f *pluginv1.Failed) error {
	message, lost := cutMiddle(f.GetMessage(), maxFailureText)
	return &tool.Failure{Message: message, Lost: max(0, f.GetLost()) + lost}
}

func remoteError(e *pluginv1.Errored) error {
	return &RemoteError{
		Message: cut(e.GetMessage()), Panicked: e.GetPanicked(), Refused: e.GetRefused(), TooLarge: e.GetTooLarge(),
	}
}

// errorEvent is the terminal event of a call that did not complete.
func errorEvent(err error) *pluginv1.ExecuteResponse {
	failed, errored := outcomeOf(err)
	if failed != nil {
		return &pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_Failed{Failed: failed}}
	}
	return &pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_Errored{Errored: errored}}
}

// events takes the events of one call, on a stream of its own or on a leased one.
type events interface {
	Send(event *pluginv1.ExecuteResponse) error
}

// sendCompleted sends a small answer whole and a large one in pieces, so that no
// message is large.
func sendCompleted(stream events, result tool.Result) error {
	completed, err := resultToWire(result)
	if err != nil {
		return stream.Send(errorEvent(err))
	}
	size := proto.Size(completed)
	if size <= MaxWhole {
		return stream.Send(&pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_Completed{Completed: completed}})
	}
	if size > MaxOutput {
		return stream.Send(errorEvent(fmt.Errorf("the answer has %d bytes; at most %d may be sent: %w", size, MaxOutput, ErrTooLarge)))
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
	return &pluginv1.Completed{Output: r.Output, Structured: r.Structured, Content: content, Lost: r.Lost}, nil
}

func resultFromWire(c *pluginv1.Completed) tool.Result {
	return tool.Result{
		Output: c.GetOutput(), Structured: c.GetStructured(), Content: contentFromWire(c.GetContent()), Lost: max(0, c.GetLost()),
	}
}

// An answer is put together from the events of one call. It believes nothing
// that it can check.
type answer struct {
	progress func(tool.Progress) // may be nil
	output   io.Writer
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
	case *pluginv1.ExecuteResponse_Output:
		err := a.pass(event.Output)
		return tool.Result{}, err != nil, err
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
		return tool.Result{}, true, failureFromWire(event.Failed)
	case *pluginv1.ExecuteResponse_Errored:
		return tool.Result{}, true, remoteError(event.Errored)
	default:
		return tool.Result{}, true, errors.New("the plugin sent an event that this version of the protocol does not have")
	}
}

// pass passes on a piece of the output.
func (a *answer) pass(piece []byte) error {
	switch {
	case len(piece) == 0:
		return errors.New("the plugin sent an empty piece of output")
	case len(piece) > MaxChunk:
		return fmt.Errorf("the plugin sent a piece of output of %d bytes; at most %d", len(piece), MaxChunk)
	}
	n, err := a.output.Write(piece)
	if err == nil && n < len(piece) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return &OutputError{err}
	}
	return nil
}

func (a *answer) add(piece []byte) error {
	switch {
	case len(piece) == 0:
		return errors.New("the plugin sent an empty piece of an answer")
	case len(piece) > MaxChunk:
		return fmt.Errorf("the plugin sent a piece of an answer of %d bytes; at most %d", len(piece), MaxChunk)
	case len(a.pieces)+len(piece) > MaxOutput:
		return fmt.Errorf("the plugin's answer is over %d bytes: %w", MaxOutput, ErrTooLarge)
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
