package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/toolhost/toolhost/plugin/internal/wire"
	"github.com/toolhost/toolhost/tool"
)

// Prepare says what a call would do, and keeps the action that it prepared.
func (s *server) Prepare(ctx context.Context, e wire.Execution) (wire.Preparation, error) {
	ctx, end, err := s.begin(ctx, e)
	if err != nil {
		return wire.Preparation{}, err
	}
	defer end()
	t, ok := s.executors.get(e.Executor)
	if !ok || t.prepare == nil {
		return wire.Preparation{}, fmt.Errorf("%s: its registration was closed, or it does not prepare", e.Tool)
	}
	var p Preparation[Result]
	err = s.apart("preparation of "+e.Tool, func() (err error) {
		p, err = t.prepare(ctx, newCall(e, nil), e.Input)
		return err
	})
	if err != nil {
		return wire.Preparation{}, err
	}
	out := wire.Preparation{
		Effects: tool.Effects(p.Effects), Irreversible: p.Irreversible, Requests: named(p.Requests, e.Tool), Targets: p.Targets,
		Prepared: p.Commit != nil, Review: p.Review,
	}
	_, problem := wire.CheckNeeds(out.Requests, out.Targets)
	if p.Commit == nil && (p.Review != "" || p.Discard != nil) {
		problem = errors.New("a Review and a Discard belong to a Commit, and there is none")
	}
	if problem != nil {
		return wire.Preparation{}, errors.Join(fmt.Errorf("%s: its preparation: %w", e.Tool, problem), (&action{call: e, preparation: p}).discard())
	}
	if p.Commit == nil {
		return out, nil
	}
	if err := s.actions.keep(e, p); err != nil {
		return wire.Preparation{}, err
	}
	if ctx.Err() != nil { // nobody waits for it
		s.actions.drop(e.Action)
		return wire.Preparation{}, context.Cause(ctx)
	}
	return out, nil
}

// Execute runs the executor, or commits the prepared action.
func (s *server) Execute(ctx context.Context, e wire.Execution, progress func(tool.Progress), output io.Writer) (result tool.Result, err error) {
	ctx, end, err := s.begin(ctx, e)
	if err != nil {
		return tool.Result{}, err
	}
	defer end()
	running := &running{progress: progress, output: output}
	defer running.end()
	if e.Action != 0 {
		kept, err := s.actions.take(e)
		if err != nil {
			return tool.Result{}, err
		}
		result, err = kept.preparation.Commit(ctx, newCall(e, running))
		return withLoss(result, err, running.end())
	}
	t, ok := s.executors.get(e.Executor)
	if !ok {
		return tool.Result{}, fmt.Errorf("%s: its registration was closed", e.Tool)
	}
	result, err = t.run(ctx, newCall(e, running), e.Input)
	return withLoss(result, err, running.end())
}

// withLoss adds what the handler dropped to what it gave back, a failure included
// (law 19).
func withLoss(result Result, err error, lost int64) (Result, error) {
	result.Lost += lost
	if failure, ok := errors.AsType[*tool.Failure](err); ok && lost > 0 {
		return Result{}, &tool.Failure{Message: failure.Message, Lost: failure.Lost + lost}
	}
	return result, err
}

// apart runs what the plugin's author wrote in a goroutine of its own, and waits for
// it: one that ends its goroutine, as a failing test does, must not take the answer
// with it.
func (s *server) apart(name string, f func() error) error {
	err := wire.ErrGoexit
	ended := make(chan struct{})
	if closed := s.life.Go(name, func(context.Context) error {
		defer close(ended)
		err = wire.Contain(f)
		return nil
	}); closed != nil {
		return closed
	}
	<-ended
	return err
}

// Discard releases a prepared action that will not be committed.
func (s *server) Discard(_ context.Context, number uint64) error {
	if kept := s.actions.remove(number); kept != nil {
		return kept.discard()
	}
	return nil
}

// Await waits until the handler of a call has ended.
func (s *server) Await(ctx context.Context, token string) error {
	select {
	case <-s.live.ended(token):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begin notes a call as live, unless it is over already: then no handler runs.
func (s *server) begin(ctx context.Context, e wire.Execution) (_ context.Context, end func(), err error) {
	forget := s.live.add(e.Token)
	if ctx.Err() != nil {
		forget()
		return nil, nil, ctx.Err()
	}
	cancel := func() {}
	if _, bounded := ctx.Deadline(); !bounded && e.Deadline > 0 {
		ctx, cancel = context.WithTimeout(ctx, e.Deadline)
	}
	return ctx, func() {
		cancel()
		forget()
	}, nil
}

// live are the calls whose handlers run, by token.
type live struct {
	mu  sync.Mutex
	all map[string]chan struct{} // under mu
}

func (l *live) add(token string) (forget func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	over := make(chan struct{})
	l.all[token] = over
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.all[token] == over {
			delete(l.all, token)
		}
		close(over)
	}
}

// ended is closed when the call has ended. A token that is not known is that of one
// that has.
func (l *live) ended(token string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if over, ok := l.all[token]; ok {
		return over
	}
	over := make(chan struct{})
	close(over)
	return over
}
