package process

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/toolhost/toolhost/service"
)

// A session is the processes of one session, by their ids.
type session struct {
	processes map[string]*beside
}

// A beside is a process that runs beside the call that started it. What is not marked does not
// change.
type beside struct {
	id, plugin string
	number     int64 // of its start, in the Location
	command    *command
	started    time.Time
	output     kept
	execution  *execution    // set before ready is closed
	ready      chan struct{} // closed when it runs, or failed to
	ended      chan struct{} // closed when result is set
	result     service.CommandResult
	cancel     context.CancelCauseFunc // ends it at any time

	input chan struct{} // holds a token while something is sent to it; the holder owns over
	over  bool          // it gets no more

	typing     sync.Mutex // guards what follows
	typed      int64      // bytes that were sent to it
	unfinished []byte     // those since the last end of a line, of many the last ones
}

func (b *beside) isOver() bool {
	select {
	case <-b.ended:
		return true
	default:
		return false
	}
}

// info is what is known of it now.
func (b *beside) info() service.ProcessInfo {
	i := service.ProcessInfo{
		ID: b.id, Name: b.command.Name, Line: b.command.Line, Directory: b.command.place.Path, Terminal: b.command.Terminal,
		Started: b.started, Written: b.output.total(),
	}
	i.Unfinished, i.At = b.line()
	if b.isOver() {
		result := b.result
		i.Result = &result
	}
	return i
}

// mayStart says why no process is started for a session, if none is.
func (s *Service) mayStart(session string) error {
	if s.options.OneShot != "" {
		return &service.ProcessError{Kind: service.ProcessOneShot, Detail: s.options.OneShot}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.room(session)
}

// room says why no further process has room, if none has. mu is held.
func (s *Service) room(session string) error {
	running, all := 0, 0
	for name, one := range s.sessions {
		for _, b := range one.processes {
			if b.isOver() {
				continue
			}
			if all++; name == session {
				running++
			}
		}
	}
	if running >= service.MaxProcesses {
		return &service.ProcessError{Kind: service.ProcessTooMany, Detail: fmt.Sprintf(
			"%d processes of this session run already, which is the most: stop one", running)}
	}
	if all >= service.MaxLocationProcesses {
		return &service.ProcessError{Kind: service.ProcessTooMany, Detail: fmt.Sprintf(
			"%d processes run in this project already, which is the most: wait for one to end", all)}
	}
	return nil
}

// Start starts a command that goes on when the call has ended, until it ends by itself, is
// stopped, or its session or the Location ends. ctx bounds the starting. Errors are
// [*service.ProcessError]s, [*tool.Refusal]s, or the context's cause; nothing is left then.
func (s *Service) Start(ctx context.Context, caller Caller, command service.Command) (service.ProcessInfo, error) {
	if err := s.mayStart(caller.Session); err != nil {
		return service.ProcessInfo{}, err
	}
	c, err := s.permitted(ctx, caller, command)
	if err != nil {
		return service.ProcessInfo{}, err
	}
	done, err := s.begin()
	if err != nil {
		return service.ProcessInfo{}, err
	}
	work, cancel := context.WithCancelCause(s.life.Context())
	b := &beside{
		plugin: caller.Plugin, command: c, started: time.Now(), cancel: cancel,
		ready: make(chan struct{}), ended: make(chan struct{}), input: make(chan struct{}, 1),
	}
	if err := s.enter(caller.Session, b); err != nil {
		cancel(nil)
		done()
		return service.ProcessInfo{}, err
	}
	failed := make(chan error, 1)
	err = s.life.Go("process "+b.id, func(context.Context) error {
		defer done()
		defer cancel(nil)
		failed <- s.beside(work, b)
		return nil
	})
	if err != nil {
		cancel(nil)
		done()
		s.leave(caller.Session, b)
		return service.ProcessInfo{}, errEnded
	}
	select {
	case <-b.ready:
		return b.info(), nil
	case err = <-failed:
		s.leave(caller.Session, b)
		return service.ProcessInfo{}, err
	case <-ctx.Done():
		cancel(context.Cause(ctx))
		<-failed //nolint:errcheck // it is gone, whatever it says
		s.leave(caller.Session, b)
		return service.ProcessInfo{}, context.Cause(ctx)
	}
}

// beside runs a process to its end. The error is why it did not start.
func (s *Service) beside(ctx context.Context, b *beside) error {
	b.input <- struct{}{} // until its first input is taken, or it is over
	fed := sync.OnceFunc(func() { <-b.input })
	defer fed()
	defer b.output.end()
	defer close(b.ended)
	began := false
	b.took(b.command.Stdin)
	out := &sinks{chunk: func(c service.Chunk) error { b.output.add(c.Data); return nil }, fed: fed, joined: true}
	result, err := s.execute(ctx, b.command, out, func(e *execution) {
		began, b.execution = true, e
		close(b.ready)
	})
	if !began {
		return err
	}
	b.result = result
	b.result.Lost = max(0, b.output.total()-service.HeadOutput-service.TailOutput)
	return nil
}

// enter gives a process its id and makes it known.
func (s *Service) enter(name string, b *beside) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.room(name); err != nil {
		return err
	}
	s.started++
	b.number, b.id = s.started, "p"+strconv.FormatInt(s.started, 10)
	one := s.sessions[name]
	if one == nil {
		one = &session{processes: map[string]*beside{}}
		s.sessions[name] = one
	}
	one.processes[b.id] = b
	s.tidy()
	return nil
}

// leave forgets a process.
func (s *Service) leave(name string, b *beside) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(name, b.id)
}

// remove forgets a process. mu is held.
func (s *Service) remove(name, id string) {
	one := s.sessions[name]
	if one == nil {
		return
	}
	if delete(one.processes, id); len(one.processes) == 0 {
		delete(s.sessions, name)
	}
}

// tidy forgets the oldest of those that have ended, where there are too many. mu is held.
func (s *Service) tidy() {
	type ended struct {
		session, id string
		number      int64
	}
	var all []ended
	for name, one := range s.sessions {
		var here []ended
		for _, b := range one.processes {
			if b.isOver() {
				here = append(here, ended{name, b.id, b.number})
			}
		}
		slices.SortFunc(here, func(x, y ended) int { return cmp.Compare(x.number, y.number) })
		for ; len(here) > service.MaxProcesses; here = here[1:] {
			s.remove(name, here[0].id)
		}
		all = append(all, here...)
	}
	slices.SortFunc(all, func(x, y ended) int { return cmp.Compare(x.number, y.number) })
	for ; len(all) > service.MaxLocationProcesses; all = all[1:] {
		s.remove(all[0].session, all[0].id)
	}
}

// find gives a process of a session.
func (s *Service) find(caller Caller, id string) (*beside, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.sessions[caller.Session]; one != nil {
		if b := one.processes[id]; b != nil && b.plugin == caller.Plugin {
			return b, nil
		}
	}
	return nil, &service.ProcessError{Kind: service.ProcessUnknown, Subject: id,
		Detail: "this session has no such process; those that it has can be listed, and the oldest that have ended are forgotten"}
}

// of are the processes that a condition holds for, the oldest first.
func (s *Service) of(is func(session string, b *beside) bool) []*beside {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*beside
	for name, one := range s.sessions {
		for _, b := range one.processes {
			if is(name, b) {
				all = append(all, b)
			}
		}
	}
	slices.SortFunc(all, func(x, y *beside) int { return cmp.Compare(x.number, y.number) })
	return all
}

// List lists the processes that the caller's plugin started in the session, the oldest first.
func (s *Service) List(_ context.Context, caller Caller) ([]service.ProcessInfo, error) {
	var list []service.ProcessInfo
	for _, b := range s.of(func(name string, b *beside) bool { return name == caller.Session && b.plugin == caller.Plugin }) {
		list = append(list, b.info())
	}
	return list, nil
}

// Output gives a part of the output of a process. It waits for what there is not yet, as long
// as the query says, and ends with ctx, whose cause is the error then.
func (s *Service) Output(ctx context.Context, caller Caller, query service.OutputQuery) (service.ProcessOutput, error) {
	b, err := s.find(caller, query.ID)
	if err != nil {
		return service.ProcessOutput{}, err
	}
	wait := min(query.Wait, service.MaxWait)
	if caller.Left != nil { // so that there is still an answer
		left := caller.Left()
		wait = min(wait, left-min(reserve, left/2))
	}
	if wait > 0 {
		if news := b.output.news(query.Since); news != nil {
			timer := time.NewTimer(wait)
			defer timer.Stop()
			select {
			case <-news:
			case <-timer.C:
			case <-ctx.Done():
				return service.ProcessOutput{}, context.Cause(ctx)
			}
		}
	}
	out := service.ProcessOutput{Process: b.info()}
	out.From, out.Data, out.Dropped = b.output.part(query.Since)
	out.Next = out.From + int64(len(out.Data))
	return out, nil
}

// Stop ends a process with all that it started: it is asked to, and killed [grace] later. It
// returns when nothing of it is left, or with the cause of ctx; the process ends all the same.
// One that has ended is no error.
func (s *Service) Stop(ctx context.Context, caller Caller, id string) (service.ProcessInfo, error) {
	b, err := s.find(caller, id)
	if err != nil {
		return service.ProcessInfo{}, err
	}
	b.stop()
	select {
	case <-b.ended:
		return b.info(), nil
	case <-ctx.Done():
		return service.ProcessInfo{}, context.Cause(ctx)
	}
}

func (b *beside) stop() {
	select {
	case <-b.ready:
		b.execution.requestStop()
	default:
		b.cancel(errEnded)
	}
}

// EndSession ends the processes of a session, all at the same time, and forgets them. It returns
// when nothing of them is left, or with the cause of ctx.
func (s *Service) EndSession(ctx context.Context, session string) error {
	return s.endAll(ctx, func(name string, _ *beside) bool { return name == session })
}

// EndPlugin does so with the processes that a plugin started, in every session.
func (s *Service) EndPlugin(ctx context.Context, plugin string) error {
	return s.endAll(ctx, func(_ string, b *beside) bool { return b.plugin == plugin })
}

func (s *Service) endAll(ctx context.Context, is func(string, *beside) bool) error {
	all := s.of(is)
	for _, b := range all {
		b.stop()
	}
	for _, b := range all {
		select {
		case <-b.ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, one := range s.sessions {
		for _, b := range all {
			if one.processes[b.id] == b {
				s.remove(name, b.id)
			}
		}
	}
	return nil
}

// Running is how many processes run beside their calls, in all sessions.
func (s *Service) Running() int {
	return len(s.of(func(_ string, b *beside) bool { return !b.isOver() }))
}

// Info is a process, whose it is, and which plugin started it.
type Info struct {
	Session, Plugin string
	service.ProcessInfo
}

// Processes are those of all sessions, the oldest first, with those that have ended and are
// not forgotten.
func (s *Service) Processes() []Info {
	var all []Info
	s.of(func(session string, b *beside) bool {
		all = append(all, Info{session, b.plugin, b.info()})
		return false
	})
	slices.SortFunc(all, func(x, y Info) int { return x.Started.Compare(y.Started) })
	return all
}
