package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The words in which the reaper reports, one line each, with a number.
const (
	reportUnfit   = "unfit"   // errno: the reaper cannot adopt descendants
	reportFailed  = "failed"  // errno: the program cannot be run
	reportStarted = "started" // pid
	reportExited  = "exited"  // wait status of the program
	reportLacks   = "lacks"   // what of its bounds a jail is without
	reportJail    = "jail"    // words: why there is no jail, or no program in it
	reportPlace   = "place"   // errno: the working directory is not there, or 0: it is another one
	reportLeft    = "left"    // 1: others of the tree ran when the program ended
	reportCPU     = "cpu"     // nanoseconds that the tree used
	reportMemory  = "memory"  // bytes that one of the tree had
)

// watch follows the tree until it is gone. It runs on the thread that started it. What it learns first, that the program
// runs or why it does not, it sends to running.
func (p *Process) watch(spec Spec, running chan error) {
	defer close(p.gone)
	defer p.pipes.closeTerminalEnd()
	switch p.method {
	case MethodGroup:
		p.watchProgram(running)
	case MethodNamespace:
		p.watchJail(spec, running)
	default:
		p.watchReaper(spec, running)
	}
}

func (p *Process) watchProgram(running chan error) {
	p.pid.Store(int64(p.Top()))
	running <- nil
	awaitExit(p.Top())
	top := p.Top()
	p.left = !p.killed.Load() && slices.ContainsFunc(processes(), func(q process) bool { return q.session == top && q.pid != top && q.living() })
	p.sweep()
	p.proven = true
	p.exit = p.reap()
	close(p.exited)
}

func (p *Process) watchReaper(spec Spec, running chan error) {
	// A reaper that cannot be told ends, and that is seen below.
	_ = sendEnvironment(p.pipes.holdReaper, spec.Env)
	exited := p.listen(spec, running)
	// That nothing is left is not for the reports to say, which others could add to: only how the reaper ended says it.
	if p.proven = awaitExit(p.Top()); !p.proven {
		p.sweep()
	}
	ended := p.reap()
	tell(running, fmt.Errorf("its reaper ended before it ran it: %v", ended))
	if !exited {
		p.exit = Exit{Code: -1, Lost: true}
		close(p.exited)
	}
}

// listen takes in what the reaper reports until it has no more to say, and tells whether the program's exit was among it. The
// reports are not believed further than they must be: a program with the rights of the same user could add to them.
func (p *Process) listen(spec Spec, running chan error) (exited bool) {
	for lines := bufio.NewScanner(p.pipes.status); lines.Scan(); {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		number, err := strconv.Atoi(rest)
		switch {
		case word == reportJail:
			tell(running, &JailError{reason: rest})
		case err != nil:
		case word == reportUnfit:
			tell(running, fmt.Errorf("its reaper cannot adopt descendants: %w", syscall.Errno(number)))
		case word == reportFailed:
			tell(running, explain(spec.Path, syscall.Errno(number)))
		case word == reportPlace:
			missing := &DirectoryError{Dir: spec.Dir}
			if number != 0 {
				missing.Cause = syscall.Errno(number)
			}
			tell(running, missing)
		case word == reportLeft:
			p.left = true
		case word == reportCPU:
			p.usage.CPU = time.Duration(max(number, 0))
		case word == reportMemory:
			p.usage.Memory = int64(max(number, 0))
		case word == reportLacks:
			p.lacks.Store(int64(number))
		case word == reportStarted && number > 1 && p.Pid() == 0:
			p.said.Store(true)
			if p.method == MethodNamespace {
				number = p.Top() // what it reported is its number inside
			}
			p.pid.Store(int64(number))
			tell(running, nil)
		case word == reportExited && !exited:
			exited = true
			p.exit = exitOf(syscall.WaitStatus(number))
			close(p.exited)
		}
	}
	return exited
}

// tell sends what is learnt first; nobody asks for the rest.
func tell(running chan error, err error) {
	select {
	case running <- err:
	default:
	}
}

// awaitExit waits until a child has ended and leaves it to be reaped, so that its id, and the id of its session, are still
// its own. It reports whether the child ended by itself and with exit status 0.
func awaitExit(pid int) (well bool) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err == nil && info.Code == codeExited && siginfoStatus(&info) == 0
		}
	}
}

// sweep ends what is left of the session that the reaper, or the program where there is none, led until its end. It is what
// can be found without a reaper: orphans have lost the way up to it.
func (p *Process) sweep() {
	top := p.Top()
	_ = syscall.Kill(-top, syscall.SIGKILL) // the group at one stroke, so that none escapes by forking
	endWhere(func(q process) bool { return q.session == top && q.pid != top }, time.Now().Add(sweepPatience))
}

// reap takes in the child that was started.
func (p *Process) reap() Exit {
	p.reaping.Lock()
	defer p.reaping.Unlock()
	state, err := p.top.Wait()
	p.reaped = true
	if err != nil {
		return Exit{Code: -1, Lost: true}
	}
	if p.method == MethodGroup {
		var own syscall.Rusage
		p.usage = usageOf(state.SysUsage().(*syscall.Rusage))
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil || p.usage.Memory <= own.Maxrss<<10 {
			p.usage.Memory = 0 // it may be what the host had
		}
	}
	return exitOf(state.Sys().(syscall.WaitStatus))
}

// usageOf is what the system says of processes that were taken in. The memory of one is counted from before it was run, when
// it had that of this process.
func usageOf(of *syscall.Rusage) Usage {
	return Usage{CPU: time.Duration(of.Utime.Nano() + of.Stime.Nano()), Memory: of.Maxrss << 10}
}
