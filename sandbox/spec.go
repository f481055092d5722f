package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Launcher is how a host runs its reaper: its own binary with a hidden subcommand that calls [Main]. The zero value means
// that there is none; trees are then ended by [MethodGroup].
type Launcher struct {
	// Path is the absolute path of the executable, for example /proc/self/exe. It is run with an environment of its own,
	// which holds nothing but settings of the Go runtime.
	Path string
	// Args are the arguments that lead to [Main], for example {"__launch"}.
	Args []string
}

func (l Launcher) check() error {
	if l.Path != "" && !filepath.IsAbs(l.Path) {
		return fmt.Errorf("reaper %q is not an absolute path", l.Path)
	}
	return nil
}

// Method is how a tree is ended, the strongest that is available.
type Method string

// The methods.
const (
	// MethodReaper adopts and ends every descendant.
	MethodReaper Method = "reaper"
	// MethodNamespace ends the first process of a namespace, with which the kernel ends all
	// others in it.
	MethodNamespace Method = "pid namespace"
	// MethodGroup ends the program's session and every process group in it. It misses a descendant that made a session of its
	// own, and with a host that is killed it ends only the program itself. The program inherits what descriptors the
	// host itself was started with and did not mark close-on-exec.
	MethodGroup Method = "group"
)

// A Spec is what to run.
type Spec struct {
	// Path is the absolute path of the executable.
	Path string
	// Name is what a confined program is told that it is called, by which some programs find
	// what belongs to them, or are one of several; empty is Path.
	Name string
	// Args are its arguments, without the name of the program. Every user of the machine can read them.
	Args []string
	// Env is its whole environment, as KEY=value. Nothing is added, dropped or reordered.
	Env []string
	// Dir is the absolute path of its working directory. Empty means the host's. Of a
	// confined process it is the root if it cannot see that directory, unless DirIs is set.
	Dir string
	// DirIs is which directory Dir has to be when the program starts in it; if it is missing
	// or another one, there is no program, and a [DirectoryError]. Nil is whichever it is.
	DirIs *FileID
	// Stdin is what the program has as its standard input.
	Stdin Stdin
	// Joined makes the standard error of the program its standard output, so that the order in
	// which it writes is kept; [Process.Stderr] is at its end then.
	Joined bool
	// Terminal gives it a terminal of its own, of that size, as its standard input, output
	// and error and as the controlling terminal of a session that it leads. Stdin is then
	// zero. A confined process needs the profile [Command] for it.
	Terminal *TerminalSize
	// Policy confines the process; nil leaves it all rights of its user. A confined
	// process needs a launcher.
	Policy *Policy
	// Program is what is run in place of the file at Path, for a policy that runs no
	// programs otherwise; Path is then only its name.
	Program *Program

	probe bool // nothing is run, and it is tried what is possible
}

// Stdin is what a program has as its standard input.
type Stdin uint8

// The standard inputs.
const (
	// StdinLifeline is open and empty for as long as the tree is to live, then at its end.
	// Of a confined command it is StdinEmpty.
	StdinLifeline Stdin = iota
	// StdinEmpty is at its end at once.
	StdinEmpty
	// StdinPipe is what the owner writes to [Process.Stdin].
	StdinPipe
)

func (s Spec) stdin() Stdin {
	if s.Stdin == StdinLifeline && s.Policy != nil && s.Policy.Profile == Command {
		return StdinEmpty
	}
	return s.Stdin
}

// becomes says whether a launcher becomes the program, rather than starting it.
func (s Spec) becomes() bool {
	return s.Policy != nil && s.Program != nil && !s.Policy.Exec && s.Policy.Profile != Command
}

// check finds the mistakes that the system would report late, or as something else. No value of the environment, which
// may be a secret, gets into an error.
func (s Spec) check() error {
	if !filepath.IsAbs(s.Path) {
		return fmt.Errorf("executable %q is not an absolute path", s.Path)
	}
	for _, text := range append([]string{s.Path, s.Dir}, s.Args...) {
		if strings.ContainsRune(text, 0) {
			return fmt.Errorf("start %q: a NUL byte in the path, an argument or the directory", s.Path)
		}
	}
	for i, entry := range s.Env {
		if strings.IndexByte(entry, '=') < 1 || strings.ContainsRune(entry, 0) {
			return fmt.Errorf("start %s: entry %d of the environment is not KEY=value without a NUL byte", s.Path, i)
		}
	}
	if err := s.checkInput(); err != nil {
		return fmt.Errorf("start %s: %w", s.Path, err)
	}
	if s.Dir == "" {
		return nil
	}
	switch err := checkDir(s.Dir); {
	case err == nil:
		return nil
	case s.DirIs != nil && filepath.IsAbs(s.Dir):
		return fmt.Errorf("start %s: %w", s.Path, &DirectoryError{Dir: s.Dir, Cause: err})
	default:
		return fmt.Errorf("start %s: working directory %q: %w", s.Path, s.Dir, err)
	}
}

func (s Spec) checkInput() error {
	switch {
	case s.DirIs != nil && s.Dir == "":
		return errors.New("it is said which directory it is to be, and not where")
	case s.Stdin > StdinPipe:
		return fmt.Errorf("there is no standard input %d", s.Stdin)
	case s.Stdin != StdinLifeline && s.becomes():
		return errors.New("a program that runs no others has its lifeline as its standard input")
	case s.Terminal == nil:
		return nil
	case s.Stdin != StdinLifeline:
		return errors.New("its standard input is its terminal")
	case s.Policy != nil && s.Policy.Profile != Command:
		return errors.New("of what is confined only a command has a terminal")
	default:
		return s.Terminal.check()
	}
}

// checkDir is because a failing chdir of a child cannot be told from a failing execve.
func checkDir(dir string) error {
	if !filepath.IsAbs(dir) {
		return errors.New("not an absolute path")
	}
	switch info, err := os.Stat(dir); {
	case err != nil:
		return errors.Unwrap(err)
	case !info.IsDir():
		return syscall.ENOTDIR
	}
	return unix.Access(dir, unix.X_OK)
}

// Exit is how a program ended.
type Exit struct {
	// Code is the exit status, or -1 when it is none: a signal ended the program, or Lost.
	Code int
	// Signal is what package os calls the signal that ended it, such as "killed"; otherwise
	// empty.
	Signal string
	// Lost is set when the reaper itself was ended, so that how the program ended is not known.
	Lost bool
}

// String is the exit in the words of package os.
func (e Exit) String() string {
	switch {
	case e.Lost:
		return "ended with its reaper"
	case e.Signal != "":
		return "signal: " + e.Signal
	default:
		return fmt.Sprintf("exit status %d", e.Code)
	}
}

// SignalName is the name of the signal that ended the program, such as "SIGKILL", or empty.
func (e Exit) SignalName() string {
	number := e.signal()
	if number == 0 {
		return ""
	}
	return cmp.Or(unix.SignalName(number), fmt.Sprintf("SIG%d", number)) // those of real time have none
}

// Status is the exit status as a shell tells it of a child: 128 and the number of the signal
// where that ended the program, and -1 where it is not known.
func (e Exit) Status() int {
	if number := e.signal(); number != 0 {
		return 128 + int(number)
	}
	return e.Code
}

// signal is the number to the word of package os, or 0.
func (e Exit) signal() syscall.Signal {
	for number := syscall.Signal(1); e.Signal != "" && number <= lastSignal; number++ {
		if number.String() == e.Signal {
			return number
		}
	}
	return 0
}

// lastSignal is the last one that there is.
const lastSignal = 64

func exitOf(status syscall.WaitStatus) Exit {
	if status.Signaled() {
		return Exit{Code: -1, Signal: status.Signal().String()}
	}
	return Exit{Code: status.ExitStatus()}
}
