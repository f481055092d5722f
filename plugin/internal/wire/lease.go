package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"

	pluginv1 "github.com/toolhost/toolhost/plugin/proto/toolhost/plugin/v1"
	"github.com/toolhost/toolhost/tool"
)

// maxIdle is how many streams are kept for further calls.
const maxIdle = 64

// Leasing is the client of a plugin whose calls travel on leased streams: a pool of
// long-lived streams, each of which carries one call at a time. It is what
// [NewPlugin] gives in everything else. Against a stream for every call it saves
// what gRPC does to begin and to end one, on both sides, and the plugin runs a
// handler where the last one ran.
//
// No event of one call reaches another: each has the number of its call. A stream is
// leased again only after it brought the outcome of its call. What comes after that
// is dropped when the next call meets it, and once that is over, so is the stream. A
// call that was cancelled, that timed out, or that broke takes its stream with it,
// which is how the plugin learns of the first.
//
// Streams are opened when calls need them, and the one that was used last is leased
// first. 64 are kept; a call that finds none has one of its own.
type Leasing struct {
	Plugin
	client pluginv1.PluginServiceClient

	mu     sync.Mutex
	idle   []*leased // under mu: the one that was used last stands last
	closed bool      // under mu: no stream is kept any more
}

var _ Plugin = (*Leasing)(nil)

// NewLeasing is the client of the plugin on the other side of conn, which has named
// [FeatureLease]. Whoever makes it closes it.
func NewLeasing(conn grpc.ClientConnInterface) *Leasing {
	return &Leasing{Plugin: NewPlugin(conn), client: pluginv1.NewPluginServiceClient(conn)}
}

// Close ends the streams that are idle, and lets no other become so. A call that
// runs ends with its own context.
func (l *Leasing) Close() {
	l.mu.Lock()
	idle := l.idle
	l.idle, l.closed = nil, true
	l.mu.Unlock()
	for _, s := range idle {
		end(s.stream, s.cancel)
	}
}

// Execute runs one call on a stream that no other call uses meanwhile.
func (l *Leasing) Execute(ctx context.Context, e Execution, progress func(tool.Progress), output io.Writer) (tool.Result, error) {
	if err := ctx.Err(); err != nil {
		return tool.Result{}, err
	}
	s, stop, err := l.lease(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	result, err := s.execute(e, answer{progress: progress, output: output})
	switch reusable := stop() && s.clean && (err == nil || Ended(err)); {
	case !reusable:
		end(s.stream, s.cancel)
	case !l.give(s):
		s.cancel()
	}
	return result, err
}

// lease gives an idle stream, or a new one. It is cancelled with ctx, until stop says
// that it was in time.
func (l *Leasing) lease(ctx context.Context) (s *leased, stop func() bool, err error) {
	if s := l.take(); s != nil {
		return s, context.AfterFunc(ctx, s.cancel), nil
	}
	life, cancel := context.WithCancel(context.Background()) // it may outlive the call
	stop = context.AfterFunc(ctx, cancel)
	stream, err := l.client.Lease(life)
	if err != nil {
		stop()
		cancel()
		return nil, nil, err
	}
	return &leased{stream: stream, cancel: cancel, clean: true}, stop, nil
}

func (l *Leasing) take() *leased {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := len(l.idle) - 1
	if last < 0 {
		return nil
	}
	s := l.idle[last]
	l.idle[last] = nil
	l.idle = l.idle[:last]
	return s
}

// give keeps a stream for another call, if there is room for it.
func (l *Leasing) give(s *leased) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.idle) >= maxIdle {
		return false
	}
	l.idle = append(l.idle, s)
	return true
}

// leased is one stream. Whoever took it is the only one who uses it.
type leased struct {
	stream grpc.BidiStreamingClient[pluginv1.LeaseRequest, pluginv1.LeaseResponse]
	cancel context.CancelFunc // ends the stream
	number uint64             // of the last call
	clean  bool               // it may carry a further call
}

// execute runs the next call. It believes nothing that it can check.
func (s *leased) execute(e Execution, a answer) (tool.Result, error) {
	s.number++
	err := s.stream.Send(&pluginv1.LeaseRequest{Number: s.number, Call: executionToWire(e)})
	if err != nil && !errors.Is(err, io.EOF) { // after that, receiving says why
		return tool.Result{}, err
	}
	for {
		r, err := s.stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return tool.Result{}, errors.New("the plugin ended the call without an outcome")
		case err != nil:
			return tool.Result{}, err
		case r.GetNumber() > s.number || r.GetNumber() == 0:
			return tool.Result{}, fmt.Errorf("the plugin sent an event of call %d on a stream that is at call %d", r.GetNumber(), s.number)
		case r.GetNumber() < s.number:
			s.clean = false // it is of a call that is over, and nothing to this one
			continue
		}
		if result, over, err := a.take(r.GetEvent()); over {
			s.clean = s.clean && !r.GetLast()
			return result, err
		}
	}
}

// Lease runs calls one after the other where the stream is served. Nothing has to be
// received meanwhile: what cancels a call ends the stream, and its context.
func (s *pluginServer) Lease(stream grpc.BidiStreamingServer[pluginv1.LeaseRequest, pluginv1.LeaseResponse]) error {
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.leased(r, stream); err != nil {
			return err
		}
	}
}

// leased runs one call, whose context ends with it.
func (s *pluginServer) leased(r *pluginv1.LeaseRequest, stream grpc.BidiStreamingServer[pluginv1.LeaseRequest, pluginv1.LeaseResponse]) error {
	ctx, cancel := bounded(stream.Context(), r.GetCall().GetDeadlineMs())
	defer cancel()
	events := &leasedEvents{stream: stream, number: r.GetNumber()}
	return s.execute(ctx, r.GetCall(), events, func() { events.last = true })
}

func bounded(ctx context.Context, milliseconds int64) (context.Context, context.CancelFunc) {
	if milliseconds <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Duration(milliseconds)*time.Millisecond)
}

// leasedEvents are the events of one call on a leased stream.
type leasedEvents struct {
	stream grpc.BidiStreamingServer[pluginv1.LeaseRequest, pluginv1.LeaseResponse]
	number uint64
	last   bool // the goroutine ends that serves the stream
}

func (l *leasedEvents) Send(event *pluginv1.ExecuteResponse) error {
	return l.stream.Send(&pluginv1.LeaseResponse{Number: l.number, Event: event, Last: l.last})
}
