package process

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolhost/toolhost/sandbox"
	"github.com/toolhost/toolhost/service"
)

const (
	// grace is how long a tree that was asked to end has before it is killed. It is short, since
	// a call that was cancelled ends with it.
	grace = 300 * time.Millisecond
	// readGrace is how long output is read once the tree is gone, from one piece to the next: what
	// was written is there, and only a process that got away could write more.
	readGrace = 200 * time.Millisecond
	// readSize is how much is read at once.
	readSize = 64 << 10
)

// sinks are where the output of a command goes.
type sinks struct {
	// chunk takes the pieces, one after the other. An error ends the command.
	chunk func(service.Chunk) error
	// last is called when no more pieces come; it may be nil.
	last     func() error
	joined   bool      // standard error goes where standard output does
	fed      func()    // called when the command has its input; it may be nil
	progress *progress // or nil

	mu  sync.Mutex // around chunk, so that pieces come one after the other
	err error      // under mu: of chunk; no more pieces go to it
}

func (s *sinks) take(c service.Chunk) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = s.chunk(c)
	}
	return s.err
}

func (s *sinks) end() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && s.last != nil {
		s.err = s.last()
	}
	return s.err
}

// An execution is a command while it runs.
type execution struct {
	process        *sandbox.Process
	sinks          *sinks
	began          time.Time
	stdout, stderr atomic.Int64  // bytes read
	heard          atomic.Int64  // when it last wrote, as time since began
	gone           atomic.Bool   // nothing that was to be ended is left
	failed         chan error    // what ends it from inside: an error of a sink
	stop           chan struct{} // closed when somebody asked for its end
	stopped        sync.Once
}

// requestStop asks for the end, once.
func (e *execution) requestStop() { e.stopped.Do(func() { close(e.stop) }) }

// execute runs a command to its end in a scope of its own. started, if it is not nil, is called
// once it runs. What remains of it when execute returns is told in the result.
func (s *Service) execute(ctx context.Context, c *command, out *sinks, started func(*execution)) (service.CommandResult, error) {
	life, err := s.life.Fork("command")
	if err != nil {
		return service.CommandResult{}, errEnded
	}
	detached := context.WithoutCancel(ctx)
	defer life.Close(detached) //nolint:errcheck // what is left is in the result
	spec := sandbox.Spec{
		Path: c.shell, Args: []string{"-c", c.Line}, Env: environment(c.profile.Env, c.Terminal), Dir: c.directory(s.options.Root),
		DirIs: &sandbox.FileID{Device: c.place.Device, Inode: c.place.Inode},
		Stdin: sandbox.StdinEmpty, Joined: out.joined, Policy: c.profile.Policy,
	}
	switch {
	case c.Terminal != nil:
		spec.Stdin = sandbox.StdinLifeline // which it is not then
		spec.Terminal = &sandbox.TerminalSize{Columns: c.Terminal.Columns, Rows: c.Terminal.Rows}
	case len(c.Stdin) > 0 || started != nil:
		spec.Stdin = sandbox.StdinPipe
	}
	e := &execution{sinks: out, failed: make(chan error, 2), stop: make(chan struct{})}
	e.process, err = sandbox.Start(ctx, life, s.options.Launcher, spec)
	if err != nil {
		return service.CommandResult{}, notStarted(ctx, c, err)
	}
	e.began = time.Now()
	if err := life.Defer("kill", e.process.Kill); err != nil {
		return service.CommandResult{}, errEnded
	}
	if started != nil {
		started(e)
	}
	var readers sync.WaitGroup
	for _, stream := range e.streams() {
		readers.Add(1)
		if err := life.Go("read", func(context.Context) error { defer readers.Done(); e.read(stream); return nil }); err != nil {
			readers.Done()
		}
	}
	if in := e.input(); in != nil {
		_ = life.Go("write", func(context.Context) error { // a scope that ends ends it, too
			e.write(in, c.Stdin, started == nil)
			if out.fed != nil {
				out.fed()
			}
			return nil
		})
	}
	if out.progress != nil {
		_ = life.Go("progress", func(ctx context.Context) error { return out.progress.run(ctx, e) })
	}
	ending, cause := e.await(ctx, life.Context(), c)
	survivors := e.end(detached, &readers)
	result := e.result(ending, survivors)
	if err := out.end(); err != nil && cause == nil {
		cause = err
	}
	return result, cause
}

// notStarted says why a command could not be started.
func notStarted(ctx context.Context, c *command, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if _, other := errors.AsType[*sandbox.DirectoryError](err); other {
		return moved(c.Directory)
	}
	return &service.ProcessError{Kind: service.ProcessNotStarted, Detail: "the command could not be started: " + err.Error()}
}

// A stream is what is read of a command.
type stream struct {
	file  *os.File
	kind  service.Stream
	count *atomic.Int64
}

func (e *execution) streams() []stream {
	if e.process.Terminal != nil {
		return []stream{{e.process.Terminal, service.Stdout, &e.stdout}}
	}
	return []stream{{e.process.Stdout, service.Stdout, &e.stdout}, {e.process.Stderr, service.Stderr, &e.stderr}}
}

// input is where the command reads from, or nil.
func (e *execution) input() *os.File {
	if e.process.Terminal != nil {
		return e.process.Terminal
	}
	return e.process.Stdin
}

// read passes on what the command writes until there is no more, or nobody takes it.
func (e *execution) read(s stream) {
	buffer := make([]byte, readSize)
	for {
		if e.gone.Load() {
			_ = s.file.SetReadDeadline(time.Now().Add(readGrace))
		}
		n, err := s.file.Read(buffer)
		if n > 0 {
			s.count.Add(int64(n))
			e.heard.Store(int64(time.Since(e.began)))
			if err := e.sinks.take(service.Chunk{Stream: s.kind, Data: buffer[:n]}); err != nil {
				select {
				case e.failed <- err:
				default:
				}
				return
			}
			if p := e.sinks.progress; p != nil {
				p.add(buffer[:n])
			}
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && !e.gone.Load() {
			continue // of a terminal, for writing
		}
		if err != nil {
			return
		}
	}
}

// write gives the command its input and, if it gets no more, ends it. A command that does not
// read it is nobody's trouble.
func (e *execution) write(in *os.File, input []byte, last bool) {
	switch _, err := in.Write(input); {
	case err != nil || !last:
	case in != e.process.Terminal:
		_ = in.Close()
	case len(input) > 0:
		_, _ = in.Write(endOfInput(input))
	}
}

// endOfInput is what is typed at a terminal to end the input, behind a text: once behind the end
// of a line, and otherwise twice, since the first hands over what stands in the line.
func endOfInput(behind []byte) []byte {
	const end = 0x04
	if len(behind) == 0 || behind[len(behind)-1] == '\n' {
		return []byte{end}
	}
	return []byte{end, end}
}

// await waits until the command ends, or is to be ended. The cause is why it is nobody's result.
func (e *execution) await(ctx, life context.Context, c *command) (ending service.Ending, cause error) {
	wall, idle, call := after(c.Timeout), after(c.Idle), after(c.patience())
	for {
		select {
		case <-e.process.Gone():
			return service.EndedItself, nil
		case <-wall:
			return service.EndedByTimeout, nil
		case <-call: // unless somebody was asked meanwhile
			more := c.patience()
			if more <= time.Millisecond {
				return service.EndedByCall, nil
			}
			call = time.After(more)
		case <-idle:
			left := c.Idle - (time.Since(e.began) - time.Duration(e.heard.Load()))
			if left <= 0 {
				return service.EndedByIdle, nil
			}
			idle = time.After(left)
		case <-e.stop:
			return service.EndedByStop, nil
		case err := <-e.failed:
			return service.EndedByStop, err
		case <-ctx.Done():
			return service.EndedByStop, context.Cause(ctx)
		case <-life.Done():
			return service.EndedByStop, errEnded
		}
	}
}

// reserve is how much time of a call is kept for ending its command and for the answer, or the
// half of it if that is less.
const reserve = 3 * time.Second

// patience is how long a command may go on before its call has too little time left; 0 is for
// ever.
func (c *command) patience() time.Duration {
	if c.left == nil {
		return 0
	}
	if c.least == 0 {
		c.least = min(reserve, c.left()/2)
	}
	return max(c.left()-c.least, time.Millisecond)
}

// after is a timer that never fires for no time.
func after(d time.Duration) <-chan time.Time {
	if d == 0 {
		return nil
	}
	return time.After(d)
}

// end ends what is left of the tree and reads what it wrote. It says what could not be ended.
func (e *execution) end(ctx context.Context, readers *sync.WaitGroup) (survivors string) {
	select {
	case <-e.process.Gone():
	default:
		e.process.Terminate()
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-e.process.Gone():
		case <-timer.C:
			if err := e.process.End(ctx); err != nil {
				survivors = err.Error()
			}
		}
	}
	e.gone.Store(true)
	for _, s := range e.streams() { // who waits for more already
		_ = s.file.SetReadDeadline(time.Now().Add(readGrace))
	}
	readers.Wait()
	if err := e.process.Kill(ctx); err != nil && survivors == "" {
		survivors = err.Error()
	}
	return survivors
}

// result is how the command ended.
func (e *execution) result(ending service.Ending, survivors string) service.CommandResult {
	exit, usage := e.process.Exit(), e.process.Usage()
	r := service.CommandResult{
		Ending: ending, Code: exit.Code, Signal: exit.SignalName(), Survivors: survivors,
		Duration: time.Since(e.began), Stdout: e.stdout.Load(), Stderr: e.stderr.Load(),
		CPU: usage.CPU, Memory: usage.Memory, Lacks: e.process.Lacks(),
	}
	r.LeftRunning = ending == service.EndedItself && e.process.LeftRunning()
	return r
}
