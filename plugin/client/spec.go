package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/toolhost/toolhost/sandbox"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem"
	commands "github.com/toolhost/toolhost/service/process"
	"github.com/toolhost/toolhost/tool"
)

// Spec is which plugin to start, and for whom.
type Spec struct {
	// Name is the plugin's key in the configuration.
	Name string
	// Builtin plugins ship with the host. They get the services that they declare;
	// anybody else's get Grants and nothing else.
	Builtin bool
	// Command is the executable's absolute path and its arguments.
	Command []string
	// SHA256 is the digest of Command[0] in hexadecimal, or empty. With it a verified
	// copy is run.
	SHA256 string
	// Files are further files that are pinned, by absolute path, with their digests:
	// what an interpreter runs. An argument that names one is replaced by the path of
	// the verified copy.
	Files map[string]string
	// Env is passed through, as KEY=value.
	Env []string
	// Grants are the services that an outside plugin may use.
	Grants []service.Grant
	// Policy confines the plugin; nil leaves it all rights of the user.
	Policy *sandbox.Policy
	// Profile is how the commands run that the host starts for the plugin; it is needed for
	// the grant to run commands.
	Profile *commands.Profile
	// Settings are JSON; empty when there are none.
	Settings json.RawMessage
	// Location and Root are the Location's name and the absolute path of its root.
	Location, Root string
}

func (s Spec) check() error {
	if s.Name == "" || len(s.Command) == 0 {
		return errors.New("a plugin needs a name and a command")
	}
	if !filepath.IsAbs(s.Command[0]) {
		return fmt.Errorf("command %q is not an absolute path", s.Command[0])
	}
	return nil
}

// Host is what the host gives to its plugins' incarnations.
type Host struct {
	// Launcher runs the reaper.
	Launcher sandbox.Launcher
	// Programs keeps the executables of confined plugins; nil stands for one of the
	// plugin's own.
	Programs *sandbox.Programs
	// Forbidden are directories of which no confined plugin is given anything because an
	// argument of its command names it; see [sandbox.Policy.Resolve].
	Forbidden []string
	// RunDir is the host's private directory; see [OpenRunDir].
	RunDir string
	// FileSystem is the Location's.
	FileSystem *filesystem.FileSystem
	// Process is the Location's; it is needed for the grant to run commands.
	Process *commands.Service
	// Activation judges what a plugin reads while it is being activated. It asks
	// nobody.
	Activation tool.Gate
	// Register offers the tools of a plugin to the Location.
	Register func(tools map[string]tool.Tool) (Registered, []Refused)
	// Contradicted, if it is not nil, is told of what a plugin tried beyond the
	// effects of a call, and was refused (law 24). It must not block, and may be called
	// concurrently.
	Contradicted func(tool.Contradiction)
	// Log is the host's log.
	Log *slog.Logger
	// Tail keeps the end of what the plugin writes, beside the crash report; it may be nil.
	Tail *Tail
	// StartTimeout bounds a start, from the executable to ready. 0 means
	// [DefaultStartTimeout].
	StartTimeout time.Duration

	withheld string // a feature that this host does without, in tests
}

func (h Host) startTimeout() time.Duration {
	if h.StartTimeout == 0 {
		return DefaultStartTimeout
	}
	return h.StartTimeout
}

// DefaultStartTimeout is how long a plugin may take to become ready.
const DefaultStartTimeout = 20 * time.Second

// Registered is the tools of one registration. Each of its methods is called once at
// most, and one of them always.
type Registered interface {
	// Close is called when the plugin takes the tools back. Whoever was shown them
	// can still call them for a while.
	Close()
	// Lost is called when the incarnation is gone, and nobody can call them; also
	// after a Close that was not long ago.
	Lost()
}

// Refused is a tool that was not registered, and why.
type Refused struct{ Name, Reason string }

// State is where an incarnation is in its life.
type State string

// The states, in their order. An incarnation fails from any of the first four,
// and stays failed when it is closed.
const (
	Starting    State = "starting"    // the process is being started
	Negotiating State = "negotiating" // the two sides are getting to know each other
	Activating  State = "activating"  // the plugin builds its tools
	Ready       State = "ready"       // calls are served
	Draining    State = "draining"    // no more calls; those that run are ended
	Closed      State = "closed"      // it was closed
	Failed      State = "failed"      // it ended by itself, or could not be started
)

// order is how far in its life an incarnation is. Draining and failing come at
// the same place.
func (s State) order() int {
	switch s {
	case Starting:
		return 1
	case Negotiating:
		return 2
	case Activating:
		return 3
	case Ready:
		return 4
	case Draining, Failed:
		return 5
	case Closed:
		return 6
	default: // there is no state yet
		return 0
	}
}

// Status is what is known of an incarnation at one moment.
type Status struct {
	State State
	// Reason is why it failed; empty in any other state.
	Reason string
	// Pid is the plugin's process; 0 before it was started.
	Pid int
	// Method is how its tree is ended.
	Method sandbox.Method
	// Lacks are the bounds of a confined process that could not be set, in words.
	Lacks []string
	// Name, Version and SDK are what the plugin says of itself.
	Name, Version, SDK string
	// Grants are the services that it got.
	Grants []service.Grant
	// Refused are the tools that were not registered.
	Refused []Refused
	// Calls is how many run.
	Calls int
	// Stuck is how many calls were cancelled and go on in the plugin.
	Stuck int
	// Since is when the state was entered.
	Since time.Time
}
