// Package config turns toolhost.yaml and the user's own file into one validated
// value, with the file, line and column of each mistake.
//
// # Files
//
// A project's file is the nearest toolhost.yaml from the working directory
// upward, as far as the directory with .git; where there is no .git above, only the
// directory itself is looked in. It takes effect once the user trusted its content
// at its place (law 40); until then its denies hold and nothing else of it does: it
// does not hide the next one upward either.
// [Options].File, or TOOLHOST_CONFIG, names another file instead, which is trusted
// for that run. The user's own file is toolhost/config.yaml below XDG_CONFIG_HOME,
// or below ~/.config; it has the same keys except locations. Apart from
// TOOLHOST_CONFIG, XDG_CONFIG_HOME and HOME no variable of the environment is
// looked at, and PATH is not searched.
//
// Paths are relative to the file they stand in. "~/" at the beginning of a path is
// the home directory. Where there is no project's file, the working directory is
// the one Location, named "default", with the built-in filesystem plugin; a
// directory that holds the home directory is refused then, and so is one that would be the
// root only because a named file without locations is kept there.
//
// # Layers
//
// The plugins of a Location come from the defaults, the user's file, the top of
// the project's file, and the Location's own entry, in this order. Entries of the
// same name add up: mappings key by key, while a text or a list replaces the one
// below, and null takes it away. But an entry that names its program, by command
// or builtin, stands by itself, and nothing of the entries below it remains: what
// was granted to one program is never handed on to another.
//
// So it is with sandbox: mode, net, exec, the two lists of paths and each limit are keys
// of their own. Like the command and the grants it counts from every file that is in
// effect, in the user's own words or trusted by them; what a file that is not trusted says
// of it, mode off above all, is as if it were not there (law 40).
//
// Permissions do not add up. Each file's rules are a list of their own, the
// top of the file before the Location's entry, and the strictest file wins (law
// 31), so that no layer can drop what another denies.
//
// Output adds up key by key, the limits of a tool too, and null brings a default
// back. A project's file may lower what the user's file says of retention and
// quota, and not raise it. Instructions are a list like any other.
//
// The patterns of audit add up, of the user's file and a named one. A project's file
// has none.
//
// # Mistakes
//
// Every mistake of every file is reported at once, in an [Error]. A line of the
// file is never quoted, since a secret may stand beside the mistake, and no value
// of env or settings ever is.
//
// # Bounds
//
// A file has at most 1 MiB, and its lists are bounded too: 64 Locations, 256
// plugins, 1,024 rules at its top and in each Location, 16 names of instructions,
// 64 paths in each list of a sandbox, and 256 of what else is listed. A project's file is read before anybody trusts
// it, so no file takes more than a second or two.
package config

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/toolhost/toolhost/config/internal/form"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/permission"
)

// DefaultLocation is the name of the only Location of a file without locations.
const DefaultLocation = "default"

// A Config is what the files say. It is a snapshot that nothing changes once
// Load returned it, and so safe for concurrent use; callers must not change it
// either.
type Config struct {
	// Locations are in the order of the file; there is at least one.
	Locations []Location
	// Audit is about the audit log, which is the user's and not a Location's.
	Audit Audit
	// Files are those that were read, the user's first.
	Files []File
	// Notices are for the user, one line each: what was left out, and the command
	// that changes it.
	Notices []string

	dir string // where the work is
}

// A Location is one project root with what is configured for it.
type Location struct {
	// Name is unique within the config.
	Name string
	// Root is the root directory, absolute and clean, as it was spelled; it need
	// not exist.
	Root string
	// Plugins are sorted by name.
	Plugins []Plugin
	// Policy judges the Location's calls.
	Policy *permission.Policy
	// Output is how outputs are bounded and kept.
	Output Output
	// Instructions are the names of the files of instructions for agents, AGENTS.md
	// by default, in the order of the file. They have no slashes; without any, none
	// are given.
	Instructions []string
}

// A Plugin is one entry of plugins, after the layers were put together.
type Plugin struct {
	// Name is the key in config, the first part of the canonical ids of its tools.
	Name string
	// Builtin is the built-in that it is; empty if it has a Command.
	Builtin string
	// Command is the program, an absolute path that need not exist, and its
	// arguments; nil for a built-in.
	Command []string
	// SHA256 is the digest that the program must have, in lower-case hex; empty if
	// it is not pinned.
	SHA256 string
	// Files are further files that are pinned, such as what an interpreter runs,
	// sorted by path.
	Files []PinnedFile
	// Grants are the services that it is given, in the order of the file. A built-in
	// has none here: it gets what it declares.
	Grants []service.Grant
	// Settings is the plugin's own section, a JSON object with sorted keys in which
	// numbers have every digit of the file; nil if there is none.
	Settings json.RawMessage
	// Env names the variables of the host's environment that are passed through.
	Env []string
	// Override names the tools that it may take over from another plugin (law 3).
	Override []string
	// Sandbox is what it may do beside what it was granted (law 46).
	Sandbox Sandbox
	// Source is where the entry stands; of several layers, the last.
	Source Position
}

// A PinnedFile is a file with the digest that it must have.
type PinnedFile struct {
	// Path is absolute and clean.
	Path string
	// SHA256 is in lower-case hex.
	SHA256 string
}

// A Position is a place in a file.
type Position struct {
	// File is absolute.
	File string
	// Line and Column count from 1; the column counts characters.
	Line, Column int
}

// String is the position as file:line:column.
func (p Position) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column) }

// Role is why a file was read.
type Role string

// The roles.
const (
	UserFile    Role = "user"    // the user's own
	ProjectFile Role = "project" // found beside or above the working directory
	NamedFile   Role = "named"   // named by an option or by TOOLHOST_CONFIG
)

// A File is a config file that was read.
type File struct {
	// Path is absolute, with the links of its directory resolved: the place that
	// trust is recorded for.
	Path string
	// Digest is the SHA-256 of the content that was read, in lower-case hex.
	Digest string
	Role   Role
	// Trusted says that all of the file is in effect, and not only its denies.
	Trusted bool
}

// Location returns the Location of that name. An empty name stands for the only
// Location, or of several for the one whose root holds the working directory, the
// innermost if there are more. The error names those that there are.
func (c *Config) Location(name string) (*Location, error) {
	names := make([]string, 0, len(c.Locations))
	var best *Location
	for i := range c.Locations {
		l := &c.Locations[i]
		names = append(names, l.Name)
		switch {
		case name != "":
			if l.Name == name {
				return l, nil
			}
		case len(c.Locations) == 1:
			return l, nil
		case isWithin(resolve(l.Root), resolve(c.dir)) && (best == nil || len(resolve(l.Root)) > len(resolve(best.Root))):
			best = l
		}
	}
	switch {
	case best != nil:
		return best, nil
	case name != "":
		return nil, fmt.Errorf("location %q is not configured; there is %s%s", name, strings.Join(names, ", "), form.DidYouMean(name, names))
	default:
		return nil, fmt.Errorf("%s is in none of the Locations %s: name one", c.dir, strings.Join(names, ", "))
	}
}

// isWithin says whether path is dir or below it. Both are absolute and clean.
func isWithin(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
