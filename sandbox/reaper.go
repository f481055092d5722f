package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The reaper's descriptors. What the program gets as its standard input, it gets from the host.
const (
	lifelineFile     = iota // tells the program's environment, then is open for as long as the tree is to live
	stdoutFile              // the program's
	stderrFile              // the program's, and the reaper's
	reportFile              // where the reaper reports to
	programStdinFile        // the program's
)

// How long the reaper waits before it looks again for descendants to end: doubled from the first to the last.
const (
	firstPause = time.Millisecond
	lastPause  = 100 * time.Millisecond
)

// reaperEnvironment is the reaper's own environment. One processor saves it a thread and a twentieth of its memory, but only
// when the runtime starts with it. Measured and left out, as without effect: no garbage collection, and a poller in place of
// the thread that reads the lifeline. The host waits for its end, which the race detector, where there is one, would delay by
// a second.
func reaperEnvironment() []string { return []string{"GOMAXPROCS=1", "GORACE=atexit_sleep_ms=0"} }

// Main is the reaper: it runs the program that args name and returns when no process is left below it. It returns the exit
// status for os.Exit: 0, or not when there was no program to run. A host binary calls it first thing in main when it is
// run with the arguments of its [Launcher]; args is what follows those. Exit status 0 is what tells [Start] that nothing is
// left, so the caller exits with it and at once. It takes over the whole process: its signals, its
// children, and descriptors 0 to 4, which [Start] gives it together with a session of its own.
func Main(args []string) int {
	// The program's parent-death signal fires when this thread ends.
	runtime.LockOSThread()
	if len(args) == 1 && args[0] == confinedWord {
		return launch()
	}
	host := os.Getppid()
	if session, err := unix.Getsid(0); len(args) == 0 || err != nil || session != os.Getpid() {
		fmt.Fprintln(os.Stderr, "the reaper is started by the host, in a session of its own and with a program to run")
		return 2
	}
	r := &reaper{report: os.NewFile(reportFile, "report")}
	if err := keepPrivate(); err != nil {
		return r.fail(reportUnfit, err)
	}
	// The program has the same user. It must not report in the reaper's place, by way of /proc/PID/fd, nor trace it.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return r.fail(reportUnfit, err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return r.fail(reportUnfit, err)
	}
	env, err := receiveEnvironment(os.Stdin)
	if err != nil {
		return 2 // the host is gone
	}
	changed, asked := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGCHLD)
	signal.Notify(asked, askSignal)
	end := endSignals(host)
	if err := r.start(args, env); err != nil {
		return r.fail(reportFailed, err)
	}
	for r.reap() {
		select {
		case <-changed:
		case <-asked:
			own := os.Getpid()
			askWhere(func(p process) bool { return p.pid != own && Descends(p.pid, own) })
		case <-end:
			end = nil
			r.end()
		case <-r.retry:
			r.endChildren()
		}
	}
	sayUsage(r.report)
	return 0
}

// askSignal has a reaper, or a launcher, ask the tree to end.
const askSignal = syscall.SIGUSR1

// keepPrivate keeps every descriptor but the first three from the program, also those that the host itself inherited.
func keepPrivate() error {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if fd, err := strconv.Atoi(name); err == nil && fd > stderrFile {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}

// endSignals gives a channel that is closed when the host wants the tree to end, or is gone.
func endSignals(host int) <-chan struct{} {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGCONT)
	over, end := make(chan struct{}), make(chan struct{})
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(over)
	}()
	go func() { // ends with the process
		defer close(end)
		for {
			select {
			case <-over:
				return
			case s := <-signals:
				// SIGCONT is the parent-death signal, or an end of having been stopped.
				if s != syscall.SIGCONT || os.Getppid() != host {
					return
				}
			}
		}
	}()
	return end
}

// A reaper is the state of [Main].
type reaper struct {
	report  *os.File
	program int              // its pid; 0 once it was reaped
	retry   <-chan time.Time // when descendants are looked for next; nil until the tree is to end
	due     time.Time        // the same as a time
	pause   time.Duration    // until then, from the last look
}

func (r *reaper) say(word string, number int) {
	fmt.Fprintf(r.report, "%s %d\n", word, number)
}

func (r *reaper) fail(word string, err error) int {
	var number syscall.Errno
	if !errors.As(err, &number) {
		number = syscall.EINVAL
	}
	r.say(word, int(number))
	return 126
}

// start runs the program in a group of its own and lets go of what only the program is to hold. One whose input is a terminal
// leads a session, which that controls, and has it as its output, too.
func (r *reaper) start(args, env []string) error {
	attr := &syscall.ProcAttr{
		Env:   env,
		Files: []uintptr{programStdinFile, stdoutFile, stderrFile},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	if _, err := unix.IoctlGetTermios(programStdinFile, unix.TCGETS); err == nil {
		attr.Files = []uintptr{programStdinFile, programStdinFile, programStdinFile}
		attr.Sys = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	}
	pid, err := whileBusy(func() (int, error) { return syscall.ForkExec(args[0], args, attr) })
	if err != nil {
		return err
	}
	r.program = pid
	r.say(reportStarted, pid)
	_ = syscall.Close(programStdinFile)
	if null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0); err == nil {
		_ = unix.Dup3(int(null.Fd()), stdoutFile, 0)
		_ = null.Close()
	}
	return nil
}

// reap takes in the children that have ended, and reports whether there is any child left. With the program, the tree ends.
func (r *reaper) reap() (left bool) {
	// A tree that forks faster than it is reaped must not keep its end from coming.
	for r.retry == nil || time.Now().Before(r.due) {
		// Look first and reap later: a group that is to be killed is named by the id of one that was not reaped.
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if errors.Is(err, unix.ECHILD) {
			return false
		}
		child := siginfoPid(&info)
		if err != nil || child == 0 {
			return true
		}
		if child == r.program {
			r.look()
			r.end()
		}
		var status syscall.WaitStatus
		_, _ = syscall.Wait4(child, &status, 0, nil)
		if child == r.program {
			r.program = 0
			r.say(reportExited, int(status))
		}
		if r.retry != nil {
			r.hasten()
		}
	}
	return true
}

// look reports whether the program, which has ended by itself, left others running: they are children of this process by
// then, or below one.
func (r *reaper) look() {
	own := os.Getpid()
	if r.retry == nil && slices.ContainsFunc(processes(), func(p process) bool { return p.parent == own && p.living() }) {
		r.say(reportLeft, 1)
	}
}

// end begins the end of the tree: the program and its group at one stroke, and soon whatever that leaves.
func (r *reaper) end() {
	if r.program != 0 {
		_ = syscall.Kill(-r.program, syscall.SIGKILL)
	}
	r.hasten()
}

// hasten has descendants looked for soon, since a child that was reaped may have left some. It never puts that off: a tree
// whose children end all the time would not be ended.
func (r *reaper) hasten() {
	if r.retry == nil || r.pause > firstPause {
		r.lookIn(firstPause)
	}
}

func (r *reaper) lookIn(pause time.Duration) {
	r.pause, r.due, r.retry = pause, time.Now().Add(pause), time.After(pause)
}

// endChildren ends the processes right below, each with its group, so that one that forks without end is caught. Deeper ones
// become children in their turn. Only the ids of children are sure not to be somebody else's, since only this process
// reaps them; and no group reaches beyond the tree, since the reaper leads a session.
func (r *reaper) endChildren() {
	own := os.Getpid()
	for _, p := range processes() {
		if p.parent != own {
			continue
		}
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
		if p.group > 1 && p.group != own {
			_ = syscall.Kill(-p.group, syscall.SIGKILL)
		}
	}
	r.lookIn(min(2*r.pause, lastPause))
}
