package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/toolhost/toolhost/scope"
)

// killPatience is how long [Process.Kill] lets the reaper end the tree before it
// ends what it can find by itself, and then how long it waits for that.
const killPatience = time.Second

// A Process is a running program with its tree. Its owner reads Stdout and
// Stderr, and calls Kill at last, also after the program ended by itself: that is
// what releases everything. All methods may be called concurrently.
type Process struct {
	// Stdout and Stderr are the program's output. They end when every process that
	// holds the other side is gone, or when Kill closes them.
	Stdout, Stderr *os.File

	method Method
	cmd    *exec.Cmd // the reaper, or the program itself when there is none
	pipes  *pipes
	pid    atomic.Int64 // the program's; 0 until it runs

	exited chan struct{} // closed when the program ended
	exit   Exit          // set before exited is closed
	gone   chan struct{} // closed when the whole tree ended
	left   int           // descendants that would not end; set before gone is closed

	closing sync.Once
}

// Start runs spec in a tree of its own. ctx bounds only the starting: when it is
// over before the program runs, nothing is left behind. The goroutine that
// watches the process belongs to owner and ends when the tree is gone, so owner
// is closed after Kill.
func Start(ctx context.Context, owner *scope.Scope, launcher Launcher, spec Spec) (*Process, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	p := &Process{exited: make(chan struct{}), gone: make(chan struct{})}
	if err := p.prepare(launcher, spec); err != nil {
		return nil, fmt.Errorf("open pipes: %w", err)
	}
	launched, running := make(chan error, 1), make(chan error, 1)
	err := owner.Go("process "+spec.Path, func(context.Context) error {
		// The parent-death signal fires when the thread that started the child
		// ends, so this one is kept until the child is gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		p.pipes.closeTheirs()
		launched <- err
		if err == nil {
			p.watch(running)
		}
		return nil
	})
	if err == nil {
		err = <-launched
	}
	if err != nil {
		p.pipes.closeTheirs()
		p.pipes.closeOurs()
		return nil, explain(spec.Path, err)
	}
	select {
	case err = <-running:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = p.Kill(context.WithoutCancel(ctx))
		return nil, explain(spec.Path, err)
	}
	return p, nil
}

// prepare opens the pipes and builds the command that is started: the reaper,
// which is told the program in its arguments, or the program itself.
func (p *Process) prepare(launcher Launcher, spec Spec) error {
	pipes, err := openPipes()
	if err != nil {
		return err
	}
	p.pipes, p.Stdout, p.Stderr = pipes, pipes.stdout, pipes.stderr
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if launcher.Path == "" {
		p.method = MethodGroup
		p.cmd = exec.Command(spec.Path, spec.Args...)
		p.cmd.Stdin = pipes.programLifeline
		attr.Pdeathsig = syscall.SIGKILL
	} else {
		p.method = MethodReaper
		p.cmd = exec.Command(launcher.Path, append(append([]string{}, launcher.Args...), append([]string{spec.Path}, spec.Args...)...)...)
		p.cmd.Stdin = pipes.reaperLifeline
		p.cmd.ExtraFiles = []*os.File{pipes.report, pipes.programLifeline} // 3 and 4
	}
	p.cmd.Env, p.cmd.Dir, p.cmd.SysProcAttr = spec.Env, spec.Dir, attr
	if p.cmd.Env == nil {
		p.cmd.Env = []string{}
	}
	p.cmd.Stdout, p.cmd.Stderr = pipes.programStdout, pipes.programStderr
	return nil
}

// Pid is the program's process id.
func (p *Process) Pid() int { return int(p.pid.Load()) }

// Top is the process id of the reaper, or the program's own when there is none:
// every process of the tree descends from it.
func (p *Process) Top() int { return p.cmd.Process.Pid }

// Method is how the tree is ended.
func (p *Process) Method() Method { return p.method }

// Exited is closed when the program itself has ended. Its descendants are then
// being ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Gone is closed when the whole tree has ended.
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

// Kill ends the whole tree, waits until it is gone, and releases the pipes. It
// may be called at any time and more than once. It takes two seconds at most, and
// ctx may shorten how long the reaper is waited for. An error says what may be
// left.
func (p *Process) Kill(ctx context.Context) error {
	p.pipes.closeLifelines()
	if p.method == MethodGroup {
		p.killGroup(p.Top())
	}
	defer p.pipes.closeOurs()
	patience := time.NewTimer(killPatience)
	defer patience.Stop()
	select {
	case <-p.gone:
		return p.verdict()
	case <-patience.C:
	case <-ctx.Done():
	}
	p.killByHand()
	patience.Reset(killPatience)
	select {
	case <-p.gone:
		return p.verdict()
	case <-patience.C:
		return fmt.Errorf("process %d would not end", p.Pid())
	}
}

func (p *Process) verdict() error {
	if p.left > 0 {
		return fmt.Errorf("process %d: %d descendants would not end", p.Pid(), p.left)
	}
	return nil
}

// killByHand is for a reaper that does not answer, such as one that was stopped:
// everything below it is ended from here, then the reaper.
func (p *Process) killByHand() {
	top := p.Top()
	// Children of what was killed become children of the reaper, so a few rounds
	// find those that were forked meanwhile.
	for range 8 {
		below := descendants(top)
		if len(below) == 0 {
			break
		}
		for _, pid := range below {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(time.Millisecond)
	}
	p.killGroup(p.Pid())
	_ = syscall.Kill(top, syscall.SIGKILL)
}

// killGroup ends a process group unless the tree is gone and its id may belong
// to somebody else.
func (p *Process) killGroup(group int) {
	select {
	case <-p.gone:
	default:
		if group > 1 {
			_ = syscall.Kill(-group, syscall.SIGKILL)
		}
	}
}

// explain puts an error of starting into words that say what to do.
func explain(path string, err error) error {
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s cannot be run: it, or the interpreter or loader that it names, does not exist", path)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%s cannot be run: it is not executable, or its file system is mounted noexec", path)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%s cannot be run: it is neither a program of this machine nor a script with a #! line", path)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	default:
		return fmt.Errorf("%s cannot be run: %w", path, err)
	}
}
