package sandbox

import (
	"bufio"
	"errors"
	"strconv"
	"strings"
	"syscall"
)

// The words in which the reaper reports, one line each, on its third descriptor.
const (
	reportStarted = "started" // pid
	reportFailed  = "failed"  // errno
	reportExited  = "exited"  // wait status
	reportLeft    = "left"    // how many descendants would not end
)

// watch follows the tree until it is gone. It runs on the thread that started
// it. What it learns first, that the program runs or why it does not, it sends to
// running.
func (p *Process) watch(running chan<- error) {
	if p.method == MethodGroup {
		p.pid.Store(int64(p.cmd.Process.Pid))
		running <- nil
		_ = p.cmd.Wait()
		// A group outlives its leader while a member is left, so its id is still ours
		// or nobody's.
		_ = syscall.Kill(-p.Pid(), syscall.SIGKILL)
		p.exit = exitOf(p.cmd.ProcessState.Sys().(syscall.WaitStatus))
		close(p.exited)
		close(p.gone)
		return
	}
	exited := false
	lines := bufio.NewScanner(p.pipes.status)
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		number, _ := strconv.Atoi(rest)
		switch word {
		case reportStarted:
			p.pid.Store(int64(number))
			running <- nil
		case reportFailed:
			running <- syscall.Errno(number)
		case reportExited:
			p.exit = exitOf(syscall.WaitStatus(number))
			exited = true
			close(p.exited)
		case reportLeft:
			p.left = number
		}
	}
	_ = p.cmd.Wait()
	if !exited {
		p.reaperLost(running)
	}
	close(p.gone)
}

// reaperLost is for a reaper that ended without a report. The program got its
// parent-death signal; its group is ended as well.
func (p *Process) reaperLost(running chan<- error) {
	if p.Pid() == 0 {
		select {
		case running <- errors.New("the reaper ended before it ran the program: " + p.cmd.ProcessState.String()):
		default: // it had said why
		}
	} else {
		_ = syscall.Kill(-p.Pid(), syscall.SIGKILL)
	}
	p.exit = Exit{Code: -1, Lost: true}
	close(p.exited)
}

func exitOf(status syscall.WaitStatus) Exit {
	if status.Signaled() {
		return Exit{Code: -1, Signal: status.Signal().String()}
	}
	return Exit{Code: status.ExitStatus()}
}
