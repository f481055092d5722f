package sandbox

import (
	"errors"
	"fmt"
	"strings"
)

// A Launcher is how a host runs its reaper: its own binary with a hidden
// subcommand that calls [Main]. The zero value means that there is none; trees
// are then ended by process group, which misses a descendant that made a session
// of its own.
type Launcher struct {
	// Path is the executable, for example /proc/self/exe.
	Path string
	// Args are the arguments that lead to [Main], for example {"__launch"}.
	Args []string
}

// Method is how a tree is ended, the strongest that is available.
type Method string

// The methods.
const (
	// MethodReaper adopts and ends every descendant.
	MethodReaper Method = "reaper"
	// MethodGroup ends the process group only.
	MethodGroup Method = "group"
)

// A Spec is what to run.
type Spec struct {
	// Path is the absolute path of the executable.
	Path string
	// Args are its arguments, without the name of the program.
	Args []string
	// Env is its whole environment, as KEY=value. Nothing is added.
	Env []string
	// Dir is its working directory.
	Dir string
}

func (s Spec) check() error {
	if !strings.HasPrefix(s.Path, "/") {
		return fmt.Errorf("executable %q is not an absolute path", s.Path)
	}
	for _, arg := range append([]string{s.Path, s.Dir}, append(s.Args, s.Env...)...) {
		if strings.ContainsRune(arg, 0) {
			return errors.New("a NUL byte in the command, its environment or its directory")
		}
	}
	return nil
}

// Exit is how a program ended.
type Exit struct {
	// Code is the exit status, or -1 when a signal ended it.
	Code int
	// Signal is the name of the signal that ended it, such as "killed"; otherwise empty.
	Signal string
	// Lost is set when the reaper itself was ended, so that how the program ended
	// is not known.
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
