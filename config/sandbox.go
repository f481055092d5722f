package config

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/toolhost/toolhost/config/internal/form"
)

// The bounds of what a file may say of a sandbox. The lower ones are what a plugin
// needs to start at all.
const (
	maxSandboxPaths = 64

	minMemory, maxMemory       = 256 << 20, 1 << 40 // a plugin in Go starts with 160 MiB and not with less
	minProcesses, maxProcesses = 16, 32768
	minFiles, maxFiles         = 64, 1 << 20
	minCPU, maxCPU             = 0.1, 1024
)

// netHost is the network of the machine.
const netHost = "host"

// SandboxMode is how a plugin is confined.
type SandboxMode string

// The modes.
const (
	// Strict is every layer of confinement; where it cannot be had a plugin from outside
	// does not start, and a built-in starts and says that it is not confined.
	Strict SandboxMode = "strict"
	// Off is no confinement: the plugin has the rights of the user.
	Off SandboxMode = "off"
)

// Sandbox is what an entry says of what its plugin may do beside what it was granted.
// The zero value says nothing, and allows nothing. With [Off] the rest is without effect.
// Of a plugin with the grant process it also says what each of its commands may do, beside
// writing in the root.
//
// Several layers add up as all of an entry does: what stands in a higher one replaces
// what a lower one says of the same key, a list of paths as a whole, and null takes it
// away; an entry that names its program keeps nothing of those below. A project's file
// may widen what the user's says, since it is the user who trusted it, with all of it
// before their eyes (law 40).
type Sandbox struct {
	// Mode is empty where no file says one; that is [Strict] wherever it can be had.
	Mode SandboxMode `json:"mode"`
	// Read and Write are paths that it may read, and those that it may also write, with all
	// that is below: absolute and clean, in the order of the file. They need not exist, and
	// whether they may be given at all is known when the plugin starts.
	Read  []string `json:"read"`
	Write []string `json:"write"`
	// Network is the network of the machine; without it there is none.
	Network bool `json:"network"`
	// Exec allows it to run programs.
	Exec bool `json:"exec"`
	// Limits bound what it uses.
	Limits SandboxLimits `json:"limits"`
	// ModeSource is where the mode stands, for messages about it; it is zero where no file
	// says one.
	ModeSource Position `json:"-"`
}

// SandboxLimits bound what a plugin uses with all that it started. 0 is the default.
type SandboxLimits struct {
	// Memory is in bytes, 256 MiB to 1 TiB.
	Memory int64 `json:"memory"`
	// Processes are processes and threads together, 16 to 32,768.
	Processes int `json:"processes"`
	// Files are open files of one process, 64 to 1,048,576.
	Files int `json:"files"`
	// CPU is in processors, 0.1 to 1,024.
	CPU float64 `json:"cpu"`
}

// MarshalJSON has every key, and a list where there are no paths.
func (s Sandbox) MarshalJSON() ([]byte, error) {
	type plain Sandbox
	s.Read, s.Write = append([]string{}, s.Read...), append([]string{}, s.Write...)
	return json.Marshal(plain(s))
}

// String says it in words, for a person; it is empty where nothing was said. A path that
// could be taken for something else is in quotes, and none is cut.
func (s Sandbox) String() string {
	if s.Mode == Off {
		words := "not confined, with all the rights of its user: mode off"
		if s.ModeSource != (Position{}) { // which a value that was not loaded has not
			words += " at " + s.ModeSource.String()
		}
		return words
	}
	var words []string
	add := func(said bool, format string, args ...any) {
		if said {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	add(s.Mode == Strict, "strict")
	add(len(s.Read) > 0, "reads %s", pathsInWords(s.Read))
	add(len(s.Write) > 0, "reads and writes %s", pathsInWords(s.Write))
	add(s.Network, "uses the network")
	add(s.Exec, "runs programs")
	add(s.Limits.Memory != 0, "at most %s of memory", bytesInWords(s.Limits.Memory))
	add(s.Limits.Processes != 0, "at most %d processes", s.Limits.Processes)
	add(s.Limits.Files != 0, "at most %d open files", s.Limits.Files)
	add(s.Limits.CPU != 0, "at most %v processors", s.Limits.CPU)
	return strings.Join(words, "; ")
}

func pathsInWords(paths []string) string {
	words := make([]string, len(paths))
	for i, path := range paths {
		if words[i] = path; strings.ContainsFunc(path, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-+@=~", r)
		}) {
			words[i] = strconv.Quote(path)
		}
	}
	return strings.Join(words, ", ")
}

// bytesInWords is a size in the largest unit of which it is a whole number.
func bytesInWords(size int64) string {
	unit := ""
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if size%1024 != 0 {
			break
		}
		size, unit = size/1024, next
	}
	if unit == "" {
		unit = "B"
	}
	return strconv.FormatInt(size, 10) + unit
}

func sandboxForm() form.Form {
	return form.Form{Kind: form.Object, About: "What the plugin may do beside what it was granted, which the operating system enforces. Without this key, nothing. With the grant process it holds for each command that the plugin runs as well, which may write in the root besides.", Keys: []form.Key{
		{Name: keyMode, Form: form.Form{
			Kind: form.Text, OneOf: []string{string(Strict), string(Off)},
			About: "How it is confined: strict (every layer; where that cannot be had it does not start, unless it is built in, and runs no commands), or off (not at all: it has the rights of the user, so do its commands, and the rest is without effect). Strict by default.",
		}},
		{Name: keyFS, Form: form.Form{Kind: form.Object, About: "The files and directories that it sees beside its own temporary one and the system's libraries.", Keys: []form.Key{
			{Name: keyRead, Form: sandboxPathsForm("Files and directories, with all that is below, that it may read, and so may its commands.")},
			{Name: keyWrite, Form: sandboxPathsForm("Files and directories, with all that is below, that it may read and write, and so may its commands.")},
		}}},
		{Name: keyNet, Form: form.Form{
			Kind: form.Text, OneOf: []string{"none", netHost}, About: "The network that it and its commands have: none, which is the default, or host, that of the machine.",
		}},
		{Name: keyExec, Form: form.Form{Kind: form.Switch, About: "Whether it may run programs itself: those of the system, and those in fs. No by default. Its commands, which the host runs for it, need no word here."}},
		{Name: keyLimits, Form: form.Form{Kind: form.Object, About: "What it may use at most, with all that it started; and each of its commands as much again.", Keys: []form.Key{
			{Name: keyMemory, Form: form.Form{
				Kind: form.Size, Min: minMemory, Max: maxMemory, About: "Memory, in bytes or such as 512MiB; 1GiB by default, and 4GiB for each command that it runs.",
			}},
			{Name: keyProcesses, Form: form.Form{
				Kind: form.Integer, Min: minProcesses, Max: maxProcesses, About: "Processes and threads together; 512 by default, and 2048 for each command.",
			}},
			{Name: keyFiles, Form: form.Form{
				Kind: form.Integer, Min: minFiles, Max: maxFiles, About: "Open files of one process; 1024 by default, and 4096 for commands.",
			}},
			{Name: keyCPU, Form: form.Form{
				Kind: form.Decimal, Least: minCPU, Utmost: maxCPU, About: "Processors, such as 1.5; as many as there are by default.",
			}},
		}}},
	}}
}

func sandboxPathsForm(about string) form.Form {
	return form.Form{
		Kind: form.List, Most: maxSandboxPaths, About: about + " A path is relative to this file; ~/ is the home directory.",
		Each: &form.Form{Kind: form.Text, Pattern: `^(~/|[^~])`, Verify: checkPath},
	}
}

// sandbox decodes what the layers of an entry say together.
func (d *decoder) sandbox(e entry) Sandbox {
	var s Sandbox
	if mode, ok := e.inner(keySandbox, keyMode); ok {
		s.Mode, s.ModeSource = SandboxMode(mode.Text), mode.source.at(mode.At)
	}
	s.Read, s.Write = d.paths(e.inner(keySandbox, keyFS, keyRead)), d.paths(e.inner(keySandbox, keyFS, keyWrite))
	if net, ok := e.inner(keySandbox, keyNet); ok {
		s.Network = net.Text == netHost
	}
	if exec, ok := e.inner(keySandbox, keyExec); ok {
		s.Exec = exec.Text == "true"
	}
	limit := func(key string) int64 {
		found, ok := e.inner(keySandbox, keyLimits, key)
		if !ok {
			return 0
		}
		return number(found.Node, 0)
	}
	s.Limits = SandboxLimits{Memory: limit(keyMemory), Processes: int(limit(keyProcesses)), Files: int(limit(keyFiles))}
	if cpu, ok := e.inner(keySandbox, keyLimits, keyCPU); ok {
		f := form.Form{Least: minCPU, Utmost: maxCPU}
		s.Limits.CPU, _ = f.Decimal(cpu.Node) // checked with the form
	}
	return s
}

// paths makes the paths of a list absolute, if there is one.
func (d *decoder) paths(list leaf, there bool) []string {
	if !there {
		return nil
	}
	var paths []string
	for _, item := range list.Items {
		paths = append(paths, d.path(item, list.source))
	}
	return paths
}
