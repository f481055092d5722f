package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/toolhost/toolhost/sandbox/internal/cgroup"
	"github.com/toolhost/toolhost/scope"
)

// What [Process.Kill] waits for, two seconds in all.
const (
	reaperPatience = 500 * time.Millisecond // for the reaper, or for the program where there is none
	hurriedReaper  = 200 * time.Millisecond // for it once the context is over
	handPatience   = 900 * time.Millisecond // for what is killed by hand, while the reaper goes on as it can
	lastPatience   = 600 * time.Millisecond // for the reaper that was killed then, and for the sweep after it
	sweepPatience  = 300 * time.Millisecond // for the sweep alone
)

// A Process is a running program with its tree. Its owner reads Stdout and Stderr, and calls Kill at last, also after the
// program ended by itself: that is what releases everything. All methods may be called concurrently.
type Process struct {
	// Stdout and Stderr are the program's output. Stdout ends when every process that holds its other side has closed it.
	// The reaper holds the other side of Stderr, for words of its own, until the tree is gone. Both end when Kill closes
	// them: who wants all of the output reads both to their end first, which is near once Gone is closed: nothing is left then
	// that holds the other side. With [MethodGroup], or a reaper that others ended, something may be left, and the reader
	// sets a bound, such as a deadline of the file.
	Stdout, Stderr *os.File
	// Stdin is the program's standard input, of [StdinPipe]; otherwise nil. Its owner closes it when there is no more. It fails
	// with EPIPE once nothing reads it, and Kill closes it, also under one that writes.
	Stdin *os.File
	// Terminal is the other side of the program's terminal, if it has one; otherwise nil. Reading it gives the output, for which
	// Stdout and Stderr then have nothing, and writing to it types. Reading ends with an error that is EIO, the end of file of
	// terminals, when the tree is gone and all was read, and not before; what holds for Stdout after Gone does for it.
	Terminal *os.File

	method Method
	pipes  *pipes
	top    *os.Process  // the reaper, or the program itself when there is none
	pid    atomic.Int64 // the program's; 0 until it runs
	lacks  atomic.Int64 // what a jail could not bound
	said   atomic.Bool  // a launcher said that it went well, in so many words

	group     *cgroup.Group // of a confined tree, or nil; set by launch
	ungrouped string        // why there is none

	exited chan struct{} // closed when the program ended
	exit   Exit          // set before exited is closed
	gone   chan struct{} // closed when the whole tree ended
	proven bool          // nothing is left of the tree; set before gone is closed
	usage  Usage         // set before gone is closed
	left   bool          // set before gone is closed

	killed atomic.Bool // Kill was called

	becomes bool       // the launcher became the program
	reaping sync.Mutex // of reaped, and of the id of the program being its own
	reaped  bool

	byHand  sync.Once   // around killByHand, for which one of several callers of Kill is enough
	emptied atomic.Bool // it found nothing left below a reaper that did not answer
}

// A Usage is what a tree used, of those of its processes that ended in time to be counted: not of those that the system
// ended together with the first one. 0 is not known.
type Usage struct {
	// CPU is the processor time, for the program and for the system.
	CPU time.Duration
	// Memory is the most bytes that one of its processes had in memory at a time. It is 0 where that is no more than what
	// the process took that started the program, since it may be that.
	Memory int64
}

// Start runs spec in a tree of its own, with what its environment, its directory and its standard input say.
//
// ctx bounds only the starting: when it is over before the program runs, nothing is left behind and the error wraps
// its cause. Other errors say why the program, or the reaper, cannot be run and wrap the system's.
//
// The goroutine that watches the process belongs to owner and ends when the tree is gone, not when owner is cancelled. So
// Kill is called before owner is closed, or given to [scope.Scope.Defer] of owner after Start. On a closed owner Start
// fails with [scope.ErrClosed].
func Start(ctx context.Context, owner *scope.Scope, launcher Launcher, spec Spec) (*Process, error) {
	if err := launcher.check(); err != nil {
		return nil, err
	}
	if err := spec.check(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Path, context.Cause(ctx))
	}
	pipes, err := openPipes(spec)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Path, err)
	}
	p := &Process{
		Stdout: pipes.stdout, Stderr: pipes.stderr, Stdin: pipes.stdin, Terminal: pipes.terminal,
		method: MethodReaper, pipes: pipes, becomes: spec.becomes(),
		exited: make(chan struct{}), gone: make(chan struct{}),
	}
	switch {
	case spec.Policy != nil:
		p.method = MethodNamespace
	case launcher.Path == "":
		p.method = MethodGroup
	}
	launched, running := make(chan error, 1), make(chan error, 1)
	err = owner.Go("process "+spec.Path, func(context.Context) error {
		// The parent-death signal fires when the thread that started the child ends, so this one is kept until the child is
		// gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.launch(launcher, spec)
		pipes.closeTheirs()
		launched <- err
		if err == nil {
			p.watch(spec, running)
		}
		return nil
	})
	if err == nil {
		err = <-launched
	}
	if err != nil {
		pipes.closeTheirs()
		pipes.closeOurs()
		return nil, fmt.Errorf("start %s: %w", spec.Path, err)
	}
	select {
	case err = <-running:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err == nil && pipes.terminals != nil { // it was handed over before the program ran
		pipes.terminal, err = takeTerminal(pipes.terminals)
		p.Terminal = pipes.terminal
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Path, errors.Join(err, p.Kill(context.WithoutCancel(ctx))))
	}
	return p, nil
}

// launch starts the reaper, which is told the program in its arguments, or the program itself. The calling thread is the
// one that the parent-death signal depends on.
func (p *Process) launch(launcher Launcher, spec Spec) (err error) {
	if p.method == MethodNamespace {
		return p.launchJail(launcher, spec)
	}
	dir, release, err := spec.hold()
	if err != nil {
		return err
	}
	defer release()
	attr := &os.ProcAttr{
		Dir:   dir,
		Env:   reaperEnvironment(),
		Files: []*os.File{p.pipes.reaperLifeline, p.pipes.programStdout, p.pipes.programStderr, p.pipes.report, p.pipes.programStdin},
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGCONT},
	}
	path, argv := launcher.Path, append([]string{launcher.Path}, launcher.Args...)
	if p.method == MethodGroup {
		path, argv = spec.Path, nil
		attr.Env = append([]string{}, spec.Env...) // nil would mean the host's
		attr.Files = []*os.File{p.pipes.programStdin, p.pipes.programStdout, p.pipes.programStderr}
		attr.Sys.Pdeathsig = syscall.SIGKILL
		if end := p.pipes.terminalEnd; end != nil {
			attr.Files = []*os.File{end, end, end}
			attr.Sys.Setctty = true // descriptor 0
		}
	}
	argv = append(append(argv, spec.Path), spec.Args...)
	p.top, err = whileBusy(func() (*os.Process, error) { return os.StartProcess(path, argv, attr) })
	switch {
	case err == nil:
		return nil
	case p.method == MethodGroup:
		return explain(path, err)
	default:
		return fmt.Errorf("reaper %s: %w", path, explain(path, err))
	}
}

// Pid is the program's process id, as the reaper reported it.
func (p *Process) Pid() int { return int(p.pid.Load()) }

// Top is the process id of the reaper, or the program's own when there is none: every process of the tree descends from
// it, as [Descends] says. The id means nothing any more once Gone is closed.
func (p *Process) Top() int { return p.top.Pid }

// Method is how the tree is ended.
func (p *Process) Method() Method { return p.method }

// Exited is closed when the program itself has ended. Its descendants are then being ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Gone is closed when the whole tree has ended, as far as the method reaches.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Exit is how the program ended. It is meaningful once Exited is closed.
func (p *Process) Exit() Exit {
	select {
	case <-p.exited:
		return p.exit
	default:
		return Exit{}
	}
}

// LeftRunning says that the program ended by itself while other processes of its tree were still running, which were then
// ended. It is meaningful once Gone is closed.
func (p *Process) LeftRunning() bool {
	select {
	case <-p.gone:
		return p.left
	default:
		return false
	}
}

// Usage is what the tree used. It is meaningful once Gone is closed.
func (p *Process) Usage() Usage {
	select {
	case <-p.gone:
		return p.usage
	default:
		return Usage{}
	}
}

// Terminate asks the tree to end: each of its processes gets a SIGTERM, and a SIGCONT for it to be heard, as far as the method
// reaches. It does not wait, and may be called at any time; once the tree is gone it does nothing. What does not end
// is for Kill to end.
func (p *Process) Terminate() {
	switch {
	case p.method == MethodGroup:
		p.reaping.Lock()
		defer p.reaping.Unlock()
		if top := p.Top(); !p.reaped {
			askWhere(func(q process) bool { return q.session == top || Descends(q.pid, top) })
		}
	case p.becomes:
		_ = p.top.Signal(syscall.SIGTERM)
		_ = p.top.Signal(syscall.SIGCONT)
	default:
		_ = p.top.Signal(askSignal)
		_ = p.top.Signal(syscall.SIGCONT) // it may have been stopped
	}
}

// Kill ends the whole tree, waits until it is gone, and releases the pipes. It may be called at any time, also after the
// tree has ended, and more than once. The program gets no time to clean up: who wants to ask it first does so by
// Terminate, or other means, and then calls Kill.
//
// It takes two seconds at most (law 42). When ctx is over, the reaper is given 200 ms more before Kill does its work by hand.
// An error says what may be left, and is nil whenever nothing of the tree can be left that the method reaches.
func (p *Process) Kill(ctx context.Context) error {
	defer p.pipes.closeOurs()
	return p.End(ctx)
}

// End is Kill without releasing the pipes, for an owner that reads what was written to its end. It calls Kill afterwards.
func (p *Process) End(ctx context.Context) error {
	p.killed.Store(true)
	p.pipes.closeLifelines()
	if p.group != nil {
		_ = p.group.Kill() // which does not wait for the first process to be told
	}
	if p.method != MethodReaper {
		_ = p.top.Kill() // watch ends the rest of the session before it reaps this one, or the kernel does
	} else {
		_ = p.top.Signal(syscall.SIGCONT) // it may have been stopped
	}
	if p.awaitGone(ctx, reaperPatience) {
		return p.verdict()
	}
	p.byHand.Do(p.killByHand)
	if p.awaitGone(context.Background(), lastPatience) {
		return p.verdict()
	}
	return fmt.Errorf("process %d was killed and does not end, the system holds it", p.Pid())
}

// awaitGone waits for the end of the tree, and reports whether it came.
func (p *Process) awaitGone(ctx context.Context, patience time.Duration) bool {
	until := time.Now().Add(patience)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for over := ctx.Done(); ; {
		select {
		case <-p.gone:
			return true
		case <-timer.C:
			return false
		case <-over:
			over = nil
			timer.Reset(min(time.Until(until), hurriedReaper))
		}
	}
}

// killByHand is for a reaper that does not answer, such as one that a debugger holds: everything below it is ended from here
// while it still adopts what is orphaned, then the reaper.
func (p *Process) killByHand() {
	top := p.Top()
	below := func(q process) bool { return q.pid != top && (q.session == top || Descends(q.pid, top)) }
	if endWhere(below, time.Now().Add(handPatience)) {
		p.emptied.Store(true)
	}
	_ = p.top.Kill()
	_ = p.pipes.status.Close() // whoever else got hold of the other side must not delay the end
}

// verdict is what Kill knows once the tree is gone.
func (p *Process) verdict() error {
	if p.proven || p.emptied.Load() || p.Pid() == 0 {
		return nil
	}
	return fmt.Errorf("process %d: its reaper was ended by others, what made a session of its own may be left", p.Pid())
}
