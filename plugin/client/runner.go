package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/hashicorp/go-plugin/runner"

	"github.com/toolhost/toolhost/plugin/client/internal/lines"
	"github.com/toolhost/toolhost/sandbox"
	"github.com/toolhost/toolhost/scope"
)

// process runs a plugin for go-plugin. It reads the plugin's output itself and
// passes on nothing but one checked line; go-plugin waits for the process, not
// for its pipes.
type process struct {
	owner *scope.Scope
	name  string
	logs  *logs
	// set by prepare
	dir     string // where the plugin's sockets must be
	run     func() (*sandbox.Process, error)
	spawned func(*sandbox.Process) error

	line      *io.PipeReader // to go-plugin: the handshake
	lineWrite *io.PipeWriter
	reading   atomic.Int32     // how many outputs are still being read
	drained   chan struct{}    // closed when both were read to their end
	printed   [2]*lines.Writer // what comes through os.Stdout and os.Stderr once it serves

	mu      sync.Mutex
	running *sandbox.Process // under mu; nil before it was started
	socket  string           // under mu: where it serves, once it said so
	killed  bool             // under mu: go-plugin ended it after that
	problem error            // under mu: what was wrong with the handshake
	aborted error            // under mu: why it must not be started any more
}

var _ runner.Runner = (*process)(nil)

func newProcess(owner *scope.Scope, name string, l *logs) *process {
	p := &process{owner: owner, name: name, logs: l, drained: make(chan struct{})}
	p.line, p.lineWrite = io.Pipe()
	p.printed = [2]*lines.Writer{lines.NewWriter(l.stdout), lines.NewWriter(l.stderr)}
	return p
}

// prepare takes what is known once go-plugin made the directory of the sockets:
// how to run the process, and what to do once it runs.
func (p *process) prepare(dir string, run func() (*sandbox.Process, error), spawned func(*sandbox.Process) error) {
	p.dir, p.run, p.spawned = dir, run, spawned
}

// Start runs the process. The goroutines that read its output belong to the
// incarnation and end with the pipes.
func (p *process) Start(context.Context) error {
	if err := p.abortion(); err != nil {
		return err
	}
	running, err := p.run()
	if err != nil {
		return err
	}
	p.reading.Store(2)
	p.mu.Lock()
	p.running = running
	p.mu.Unlock()
	err = errors.Join(
		p.read("standard output", func() { p.readStdout(running.Stdout) }),
		p.read("standard error", func() { p.logs.readStderr(running.Stderr) }),
		p.spawned(running),
		p.abortion(),
	)
	if err != nil {
		_ = p.line.CloseWithError(err) // go-plugin will not read it
		return errors.Join(err, running.Kill(context.Background()))
	}
	return nil
}

// read runs one of the two readers of the plugin's output.
func (p *process) read(what string, f func()) error {
	return p.owner.Go(what, func(context.Context) error {
		f()
		if p.reading.Add(-1) == 0 {
			close(p.drained)
		}
		return nil
	})
}

// readStdout checks the first line and passes it on. What follows is no
// protocol.
func (p *process) readStdout(stdout io.Reader) {
	in := bufio.NewReaderSize(stdout, maxHandshake)
	first, err := in.ReadSlice('\n')
	if err != nil && len(first) == 0 {
		_ = p.lineWrite.Close() // the process ended without a word
		return
	}
	socket, problem := checkHandshake(string(first), p.sockets())
	if problem == nil && err != nil {
		problem = fmt.Errorf("it printed %s and no end of line", excerpt(string(first)))
	}
	p.mu.Lock()
	p.socket, p.problem = socket, problem
	p.mu.Unlock()
	if problem == nil {
		_, _ = p.lineWrite.Write(first)
	}
	_ = p.lineWrite.Close()
	p.logs.readStdout(in)
}

// flush passes on what was printed without an end of line.
func (p *process) flush() {
	for _, w := range p.printed {
		w.Flush()
	}
}

// abort ends the process, or keeps it from being started.
func (p *process) abort(cause error) {
	p.mu.Lock()
	p.aborted = cause
	p.mu.Unlock()
	_ = p.Kill(context.Background())
}

func (p *process) abortion() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.aborted
}

func (p *process) get() *sandbox.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running
}

func (p *process) handshakeProblem() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.problem
}

// dial connects to the socket that was announced.
func (p *process) dial(ctx context.Context, _ string) (net.Conn, error) {
	p.mu.Lock()
	socket, running := p.socket, p.running
	p.mu.Unlock()
	if running == nil {
		return nil, errors.New("the plugin does not run")
	}
	return p.sockets().dial(ctx, socket, running.Top())
}

// sockets is where the plugin's are.
func (p *process) sockets() socketPlace {
	place := socketPlace{dir: p.dir}
	if running := p.get(); running != nil {
		place.root = running.Root()
	}
	return place
}

// Kill ends the whole tree.
func (p *process) Kill(ctx context.Context) error {
	p.mu.Lock()
	running := p.running
	p.killed = p.killed || p.socket != ""
	p.mu.Unlock()
	if running == nil {
		return nil
	}
	return p.end(ctx, running)
}

// end ends the whole tree. Of a process that has ended by itself, or is about to,
// the last words are read before: ending the tree closes the pipes.
func (p *process) end(ctx context.Context, running *sandbox.Process) error {
	p.mu.Lock()
	// After the handshake the SDK closes the standard output of a plugin that lives.
	ended := p.socket == "" && p.reading.Load() < 2
	p.mu.Unlock()
	select {
	case <-running.Exited():
		ended = true
	default:
	}
	if ended {
		patience, stop := context.WithTimeout(ctx, wordsPatience)
		defer stop()
		for _, last := range []<-chan struct{}{p.drained, running.Exited()} { // how it ended is known last
			select {
			case <-last:
			case <-patience.Done():
			}
		}
	}
	return running.Kill(ctx)
}

// wasKilled reports whether the process ended because go-plugin gave up on it,
// and not by itself or by others.
func (p *process) wasKilled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killed && p.running.Exit().Signal == syscall.SIGKILL.String()
}

// Wait waits until the process has ended.
func (p *process) Wait(ctx context.Context) error {
	running := p.get()
	if running == nil {
		return nil
	}
	select {
	case <-running.Exited():
		if exit := running.Exit(); exit != (sandbox.Exit{}) {
			return errors.New(exit.String())
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ID is never empty: go-plugin takes an empty one for "nothing to clean up".
func (p *process) ID() string {
	if running := p.get(); running != nil {
		return strconv.Itoa(running.Pid())
	}
	return p.name
}

func (p *process) Name() string                    { return p.name }
func (p *process) Stdout() io.ReadCloser           { return p.line }
func (p *process) Stderr() io.ReadCloser           { return io.NopCloser(strings.NewReader("")) }
func (p *process) Diagnose(context.Context) string { return "" }

// PluginToHost checks every address that the plugin names.
func (p *process) PluginToHost(network, address string) (string, string, error) {
	return network, address, p.sockets().check(network, address)
}

// HostToPlugin leaves the host's addresses as they are: both sides see the same
// files.
func (p *process) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}
