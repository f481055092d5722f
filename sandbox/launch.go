package sandbox

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/sandbox/internal/jail"
	"github.com/toolhost/toolhost/sandbox/internal/seccomp"
)

// The launcher's further descriptors, beside the reaper's.
const (
	planFile    = programStdinFile + 1 // what to do, as a file in memory
	programFile = programStdinFile + 2 // the program, if it is not run by its path
	handFile    = programStdinFile + 3 // where the terminal is handed to the host, if there is one
)

// confinedWord is the launcher's only argument where a plan says the rest. No path is
// like it.
const confinedWord = "confined"

// launch is the launcher, in namespaces of its own. It becomes the program, or starts it
// and ends with it. It returns the exit status.
func launch() int {
	runtime.LockOSThread() // its rights are the program's
	l := &launcherProcess{report: os.NewFile(reportFile, "report")}
	if err := keepPrivate(); err != nil {
		return l.fail(err)
	}
	if err := gob.NewDecoder(os.NewFile(planFile, "plan")).Decode(&l.plan); err != nil {
		return l.fail(fmt.Errorf("read the plan: %w", err))
	}
	if os.Getpid() != 1 {
		return l.fail(errors.New("the launcher is started by the host, in namespaces of its own"))
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return l.fail(err)
	}
	lacks, err := jail.Build(l.plan)
	if place, ok := errors.AsType[*jail.DirectoryError](err); ok {
		l.say(reportPlace, int(place.Number))
		return 126
	}
	if err != nil {
		return l.fail(fmt.Errorf("%w%s", err, hint(err))) // the machine's settings can still be read
	}
	l.say(reportLacks, int(lacks))
	switch {
	case l.plan.Probe:
		return l.probe()
	case l.plan.Init:
		return l.start()
	default:
		return l.fail(l.become())
	}
}

// A launcherProcess is the state of [launch].
type launcherProcess struct {
	report *os.File
	plan   jail.Plan
}

func (l *launcherProcess) say(word string, number int) {
	fmt.Fprintf(l.report, "%s %d\n", word, number)
}

// fail says in words why there is no program.
func (l *launcherProcess) fail(err error) int {
	fmt.Fprintf(l.report, "%s %s\n", reportJail, strings.ReplaceAll(err.Error(), "\n", "; "))
	return 126
}

// become runs the program in place of the launcher. It returns only with an error.
func (l *launcherProcess) become() error {
	if err := l.throughTheJail(); err != nil {
		return err
	}
	program, err := l.putAside()
	if err != nil {
		return err
	}
	filter, err := l.filter(program)
	if err != nil {
		return err
	}
	name, err := unix.BytePtrFromString("")
	if err != nil {
		return err
	}
	args, err := syscall.SlicePtrFromStrings(l.plan.Args)
	if err != nil {
		return err
	}
	env, err := syscall.SlicePtrFromStrings(l.plan.Env)
	if err != nil {
		return err
	}
	if err := l.seal(filter, lifelineFile); err != nil {
		return err
	}
	_, _, errno := unix.RawSyscall6(unix.SYS_EXECVEAT, uintptr(program), pointer(name), pointer(&args[0]), pointer(&env[0]), unix.AT_EMPTY_PATH, 0)
	return fmt.Errorf("run %s: %w", l.plan.Path, errno)
}

// throughTheJail opens the program once more where the jail has it, if it has: the one that
// the host opened could be changed in its mode and times, by way of /proc/self/exe.
func (l *launcherProcess) throughTheJail() error {
	inside, err := unix.Open(l.plan.Path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil // a copy in memory is not in the jail
	}
	defer unix.Close(inside) //nolint:errcheck // it is kept under the other number
	var here, there unix.Stat_t
	if err := errors.Join(unix.Fstat(inside, &here), unix.Fstat(programFile, &there)); err != nil {
		return err
	}
	if here.Dev != there.Dev || here.Ino != there.Ino {
		return nil // there is another file of this name
	}
	return unix.Dup3(inside, programFile, unix.O_CLOEXEC)
}

// putAside gives the program a descriptor that is beyond any that it can open itself.
func (l *launcherProcess) putAside() (int, error) {
	var most unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &most); err != nil {
		return -1, err
	}
	l.plan.Files = max(1, min(l.plan.Files, int(most.Max)-1)) //nolint:gosec // the system bounds it
	most.Cur = most.Max
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &most); err != nil {
		return -1, err
	}
	fd, err := unix.FcntlInt(programFile, unix.F_DUPFD_CLOEXEC, l.plan.Files)
	if err != nil {
		return -1, fmt.Errorf("put the program aside: %w", err)
	}
	return fd, unix.Close(programFile)
}

func (l *launcherProcess) filter(program int) ([]unix.SockFilter, error) {
	options := seccomp.Options{Exec: l.plan.Exec, Network: l.plan.Network, ExecFD: program}
	if l.plan.Command {
		return seccomp.Command(options)
	}
	return seccomp.Plugin(options)
}

// seal gives up what the calling thread and its children are not to have: rights, files,
// system calls.
func (l *launcherProcess) seal(filter []unix.SockFilter, lifeline int) error {
	if err := jail.Drop(); err != nil {
		return err
	}
	// Giving up rights has the kernel forget this.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	if over(lifeline) {
		return errors.New("the host is gone")
	}
	if err := jail.Restrict(l.plan); err != nil {
		return err
	}
	if err := jail.Limit(l.plan); err != nil {
		return err
	}
	return seccomp.Apply(filter)
}

// over says whether the other side of a pipe is closed.
func over(lifeline int) bool {
	polled := []unix.PollFd{{Fd: int32(lifeline)}} //nolint:gosec // it is a small number
	n, err := unix.Poll(polled, 0)
	return err == nil && n > 0 && polled[0].Revents&unix.POLLHUP != 0
}

// start starts the program with the rights of this thread, which gives them up, and stays
// as the first process: with it the kernel ends all others. Its other threads keep what
// they have, and are there for the runtime only.
func (l *launcherProcess) start() int {
	filter, err := l.filter(programFile)
	if err != nil {
		return l.fail(err)
	}
	input, err := l.input()
	if err != nil {
		return l.fail(err)
	}
	changed, asked := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGCHLD)
	signal.Notify(asked, askSignal)
	end := endSignals(os.Getppid())
	if err := l.seal(filter, lifelineFile); err != nil {
		return l.fail(err)
	}
	program, err := l.forkExec(input)
	if err != nil {
		return l.fail(err)
	}
	l.say(reportStarted, program)
	if l.plan.Rows == 0 { // a terminal is kept, so that it has no end before the tree has
		_ = syscall.Close(input)
	}
	if null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0); err == nil {
		_ = unix.Dup3(int(null.Fd()), stdoutFile, 0)
		_ = unix.Dup3(int(null.Fd()), stderrFile, 0)
	}
	for {
		if status, over := reapUntil(program); over {
			l.ended(status, changed)
			return 0
		}
		select {
		case <-changed:
		case <-asked: // who is first in its namespace asks all others in it, and nobody else
			_ = syscall.Kill(-1, syscall.SIGTERM)
			_ = syscall.Kill(-1, syscall.SIGCONT)
		case <-end:
			return 0
		}
	}
}

// input is what the program gets as its standard input, and with a terminal as its output as
// well. What is of the jail is made here.
func (l *launcherProcess) input() (fd int, err error) {
	switch {
	case l.plan.Rows > 0:
		holder, program, err := openTerminal(TerminalSize{l.plan.Columns, l.plan.Rows})
		if err != nil {
			return -1, err
		}
		defer holder.Close()
		if err := giveTerminal(handFile, holder); err != nil {
			return -1, fmt.Errorf("hand the terminal over: %w", err)
		}
		defer program.Close()
		return unix.FcntlInt(program.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	case l.plan.NoInput:
		return unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	default:
		return programStdinFile, nil
	}
}

// endPatience is how long the launcher waits for what the program left, to count it. It is
// ended all the same.
const endPatience = 100 * time.Millisecond

// ended reports how the program ended, and what was left of its tree, which is ended here so
// that it can be counted. The kernel ends it in any case, with this process.
func (l *launcherProcess) ended(status syscall.WaitStatus, changed <-chan os.Signal) {
	defer sayUsage(l.report)
	if reapAll() {
		l.say(reportExited, int(status))
		return
	}
	l.say(reportLeft, 1)
	l.say(reportExited, int(status))
	for patience := time.After(endPatience); ; {
		_ = syscall.Kill(-1, syscall.SIGKILL)
		select {
		case <-changed:
		case <-patience:
			return
		}
		if reapAll() {
			return
		}
	}
}

// reapAll takes in the children that have ended, and says whether there are no others. Who is
// first in its namespace has a child for as long as there is any other process.
func reapAll() bool {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.ECHILD):
			return true
		case errors.Is(err, syscall.EINTR):
		case pid <= 0:
			return false
		}
	}
}

// sayUsage reports what the children that were taken in used, and those of theirs.
func sayUsage(report io.Writer) {
	var all syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &all); err != nil {
		return
	}
	usage := usageOf(&all)
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil || usage.Memory <= own.Maxrss<<10 {
		usage.Memory = 0 // it may be what this process had when it began the other
	}
	fmt.Fprintf(report, "%s %d\n%s %d\n", reportCPU, usage.CPU, reportMemory, usage.Memory)
}

// reapUntil takes in the children that have ended, and says whether the program is among
// them.
func reapUntil(program int) (status syscall.WaitStatus, over bool) {
	for {
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case pid == program, errors.Is(err, syscall.ECHILD):
			return status, true
		case errors.Is(err, syscall.EINTR):
		case pid <= 0:
			return status, false
		}
	}
}

// forkExec runs the program by its path, which the jail has.
func (l *launcherProcess) forkExec(input int) (int, error) {
	attr := &syscall.ProcAttr{
		Env:   l.plan.Env,
		Files: []uintptr{uintptr(input), stdoutFile, stderrFile},
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	}
	if l.plan.Rows > 0 {
		attr.Files = []uintptr{uintptr(input), uintptr(input), uintptr(input)}
		attr.Sys.Setctty = true // descriptor 0
	}
	pid, err := syscall.ForkExec(l.plan.Path, l.plan.Args, attr)
	if err != nil {
		return 0, fmt.Errorf("run %s: %w", l.plan.Path, explain(l.plan.Path, err))
	}
	return pid, nil
}
