package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// reapPatience is how long the reaper tries to end what is below it.
const reapPatience = 5 * time.Second

// Main is the reaper: it runs the program that args name and ends when the
// whole tree below it has ended. It returns the exit status for os.Exit. A host
// binary calls it first thing in main when it is run with the arguments of its
// [Launcher]; args is what follows those.
//
// Descriptors: 0 is the reaper's lifeline, 1 and 2 are the program's output, 3 is
// where the reaper reports to, 4 is the program's standard input.
func Main(args []string) int {
	// The program's parent-death signal fires when this thread ends.
	runtime.LockOSThread()
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "the reaper is started by the host, with a program to run")
		return 2
	}
	report, lifeline := os.NewFile(3, "report"), os.NewFile(4, "stdin")
	syscall.CloseOnExec(3)
	syscall.CloseOnExec(4)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintf(report, "%s %d\n", reportFailed, errno(err))
		return 126
	}
	end := endSignals()
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGCHLD)

	program := exec.Command(args[0], args[1:]...)
	program.Stdin, program.Stdout, program.Stderr = lifeline, os.Stdout, os.Stderr
	program.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := program.Start(); err != nil {
		fmt.Fprintf(report, "%s %d\n", reportFailed, errno(err))
		return 126
	}
	pid := program.Process.Pid
	fmt.Fprintf(report, "%s %d\n", reportStarted, pid)
	_ = lifeline.Close()

	status, ended := await(pid, changed, end)
	if !ended {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
		status, _ = reap(pid, time.Now().Add(reapPatience))
	}
	fmt.Fprintf(report, "%s %d\n", reportExited, status)
	if left := endAll(time.Now().Add(reapPatience)); left > 0 {
		fmt.Fprintf(report, "%s %d\n", reportLeft, left)
		return 1
	}
	return 0
}

// endSignals gives a channel that is closed when the host wants the tree to end
// or is gone itself.
func endSignals() <-chan struct{} {
	end := make(chan struct{})
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	over := make(chan struct{}, 2)
	go func() { // ends with the process
		_, _ = os.Stdin.Read(make([]byte, 1))
		over <- struct{}{}
	}()
	go func() { // ends with the process
		select {
		case <-signals:
		case <-over:
		}
		close(end)
	}()
	return end
}

// await waits until the program has ended, reaping orphans meanwhile, or until
// the tree is to be ended. The program's group is ended before the program is
// reaped, while the id still belongs to it.
func await(pid int, changed <-chan os.Signal, end <-chan struct{}) (status int, ended bool) {
	for {
		for {
			child := exitedChild()
			if child == 0 {
				break
			}
			if child == pid {
				_ = syscall.Kill(-pid, syscall.SIGKILL)
			}
			var s syscall.WaitStatus
			_, _ = syscall.Wait4(child, &s, 0, nil)
			if child == pid {
				return int(s), true
			}
		}
		select {
		case <-changed:
		case <-end:
			return 0, false
		}
	}
}

// exitedChild is a child that has ended and was not reaped, or 0.
func exitedChild() int {
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil); err != nil {
		return 0
	}
	return siginfoPid(&info)
}

// reap waits for one child that was killed.
func reap(pid int, until time.Time) (status int, ok bool) {
	for {
		var s syscall.WaitStatus
		got, err := syscall.Wait4(pid, &s, syscall.WNOHANG, nil)
		if got == pid {
			return int(s), true
		}
		if err != nil && !errors.Is(err, syscall.EINTR) || time.Now().After(until) {
			return int(syscall.SIGKILL), false
		}
		time.Sleep(time.Millisecond)
	}
}

// endAll ends every descendant. Only direct children are killed, because their
// ids cannot be reused before they are reaped here; what they leave becomes a
// direct child in turn. There are none left when the system says so.
func endAll(until time.Time) (left int) {
	for pause := 200 * time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		for {
			var s syscall.WaitStatus
			got, err := syscall.Wait4(-1, &s, syscall.WNOHANG, nil)
			if errors.Is(err, syscall.ECHILD) {
				return 0
			}
			if got <= 0 && !errors.Is(err, syscall.EINTR) {
				break
			}
		}
		below := children(os.Getpid())
		for _, pid := range below {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if time.Now().After(until) {
			return len(below)
		}
		time.Sleep(pause)
	}
}

func errno(err error) int {
	var number syscall.Errno
	if errors.As(err, &number) {
		return int(number)
	}
	return int(syscall.EINVAL)
}
