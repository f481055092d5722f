package location

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/plugin/broker"
	"github.com/toolhost/toolhost/sandbox"
	"github.com/toolhost/toolhost/service/process"
)

// Commands is how the commands are run that a plugin with the grant process runs.
type Commands struct {
	// Tier is how strongly they are confined; empty is that they are not run.
	Tier sandbox.Tier `json:"tier,omitempty"`
	// Reason is why they are not confined, or not run and what would change that.
	Reason string `json:"reason,omitempty"`
	// Network says that they have that of the machine.
	Network bool `json:"network"`
	// Passed are the names of the variables that they are given of the host's environment,
	// and Withheld those that they are not (case B12). No value of one is here.
	Passed   []string `json:"passed"`
	Withheld []string `json:"withheld"`
	// Missing are the names in the plugin's entry that the host's environment does not have.
	Missing []string `json:"missing"`
}

// String says in a few words how they are confined.
func (c Commands) String() string {
	switch {
	case c.Tier == sandbox.Strict && c.Network:
		return "confined to the project, with the network of the machine"
	case c.Tier == sandbox.Strict:
		return "confined to the project, without network"
	case c.Tier == sandbox.Off:
		return "not confined, with all the rights of your user"
	default:
		return "not run"
	}
}

// openProcesses makes what runs commands, in a scope of its own: when the Location is closed
// its calls are cancelled, and then the processes end while the plugins do, so that neither
// spends the time of the other (law 42).
func (l *Location) openProcesses() (err error) {
	if l.running, err = l.life.Fork("commands"); err != nil {
		return err
	}
	l.process, err = process.New(process.Options{
		Scope: l.running, Launcher: l.options.Launcher, Root: l.files.Path(), OneShot: l.options.OneShot, Find: broker.Places(l.files),
	})
	return err
}

// EndSession ends the processes that were started in a session and forgets them. Nothing
// happens where there are none. It is for whoever knows that the session is over; one that
// is not ended so ends with the Location. It takes about a second at most.
func (l *Location) EndSession(ctx context.Context, session string) error {
	return l.process.EndSession(ctx, session)
}

// profile is how the commands of a plugin are run, of which it takes a note.
func (l *Location) profile(ctx context.Context, p *plugin) *process.Profile {
	profile, said := l.commands(ctx, p.config)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commands = said
	return profile
}

// commands is how the commands of a plugin are run, and what there is to say about that. It
// is found out whether or not the plugin has the grant: a built-in says so only when it was
// started.
//
// Commands are confined, or run because the user said in words that they may be without, or
// not run at all. None of these keeps the plugin from its start: its other tools serve.
func (l *Location) commands(ctx context.Context, p config.Plugin) (*process.Profile, Commands) {
	profile, said := &process.Profile{}, Commands{}
	confined := p.Sandbox.Mode != config.Off
	if confined {
		said.Tier, said.Network = sandbox.Strict, p.Sandbox.Network
		var err error
		if profile.Policy, err = l.commandPolicy(ctx, p.Sandbox); err != nil {
			profile.Refused = fmt.Sprintf(
				"commands cannot be confined %v. To run them with all the rights of your user say sandbox: {mode: off} in the entry of the plugin %s", err, p.Name)
			said = Commands{Reason: profile.Refused}
		}
	} else {
		said.Tier, said.Network = sandbox.Off, true
		said.Reason = modeOff(p.Sandbox)
	}
	host := os.Environ()
	profile.Env, said.Passed, said.Withheld = commandEnvironment(host, p.Env, confined)
	said.Missing = missing(host, p.Env)
	return profile, said
}

// commandPolicy is what commands may do: write in the root, and what config says of their
// plugin. The error goes on from "cannot be confined".
func (l *Location) commandPolicy(ctx context.Context, s config.Sandbox) (*sandbox.Policy, error) {
	if found := l.tier(ctx); found.Tier != sandbox.Strict {
		return nil, fmt.Errorf("on this machine: %s", found.Reason)
	}
	if l.files.Path() == jailHome {
		return nil, fmt.Errorf("to the root of this Location: path %q: in its place a command has a directory of its own: work in one below it", jailHome)
	}
	if _, err := l.resolve(sandbox.Policy{Write: []string{l.files.Path()}}); err != nil {
		return nil, fmt.Errorf("to the root of this Location: %w", err)
	}
	policy := policyOf(s)
	policy.Profile = sandbox.Command
	policy.Limits = limitsOfCommands(policy.Limits)
	policy.Write = append([]string{l.files.Path()}, policy.Write...)
	policy.Protect = protected(l.files.Path())
	resolved, err := l.resolve(policy)
	if err != nil {
		return nil, fmt.Errorf("as the configuration says: %w", err)
	}
	return resolved, nil
}

// What commands may use where the configuration does not say: more than a plugin, since
// compilers and test runners are commands.
const (
	commandMemory    = 4 << 30
	commandProcesses = 2048
	commandFiles     = 4096
)

func limitsOfCommands(said sandbox.Limits) sandbox.Limits {
	said.Memory = cmp.Or(said.Memory, commandMemory)
	said.Processes = cmp.Or(said.Processes, commandProcesses)
	said.Files = cmp.Or(said.Files, commandFiles)
	return said
}

// protected is what a command may not change in the repository at the root: it says what git
// runs later, for whoever uses it, with all of their rights. What is not there when a command
// starts is left out then.
func protected(root string) []string {
	git := filepath.Join(root, ".git")
	if info, err := os.Lstat(git); err == nil && info.Mode().IsRegular() {
		return []string{git} // the repository is elsewhere, and out of reach
	}
	var paths []string
	for _, name := range []string{"hooks", "config"} {
		path := filepath.Join(git, name)
		paths = append(paths, path)
		// The sandbox follows no link. What is outside is not to be seen by naming it here.
		if real, err := filepath.EvalSymlinks(path); err == nil && real != path && strings.HasPrefix(real, root+"/") {
			paths = append(paths, real)
		}
	}
	return paths
}

// jailHome is the home directory of a confined command: in memory, its own, and gone with
// it. The sandbox's /etc/passwd says the same.
const jailHome = "/tmp"

// commandEnvironment makes the environment of commands out of the host's, by an allow list
// and the names in the plugin's entry, with the names of what they get of the host's and of
// what they do not, sorted (cases B11 and B12). What the entry names it gets as it is, also
// where that is of no use in a sandbox. Of PATH they get the absolute directories alone, or
// a file of the project could stand for the program that a rule allows.
func commandEnvironment(host, named []string, confined bool) (env, passed, withheld []string) {
	has := map[string]bool{}
	for _, entry := range host {
		name, _, _ := strings.Cut(entry, "=")
		if name == "" || has[name] {
			continue
		}
		isNamed := slices.Contains(named, name)
		private := confined && (name == "HOME" || name == "TMPDIR") // where there is nothing in a sandbox
		if !isNamed && (private || !isForCommands(name)) {
			withheld = append(withheld, name)
			continue
		}
		if name == "PATH" {
			if entry = absolutePath(entry); entry == "" {
				continue
			}
		}
		has[name] = true
		env, passed = append(env, entry), append(passed, name)
	}
	add := func(name, value string) {
		if !has[name] {
			has[name] = true
			env = append(env, name+"="+value)
		}
	}
	add("PATH", "/usr/local/bin:/usr/bin:/bin")
	if confined {
		add("HOME", jailHome)
		add("TMPDIR", jailHome)
	}
	if !has["LC_ALL"] && !has["LC_CTYPE"] {
		add("LANG", "C.UTF-8") // what they print is read as UTF-8
	}
	slices.Sort(env)
	slices.Sort(passed)
	slices.Sort(withheld)
	return env, passed, slices.Compact(withheld)
}

// absolutePath is the entry of PATH without its directories that depend on where one stands,
// the empty ones among them; empty if there are no others.
func absolutePath(entry string) string {
	dirs := slices.DeleteFunc(filepath.SplitList(strings.TrimPrefix(entry, "PATH=")), func(dir string) bool { return !filepath.IsAbs(dir) })
	if len(dirs) == 0 {
		return ""
	}
	return "PATH=" + strings.Join(dirs, string(filepath.ListSeparator))
}

// missing are the names that the host's environment does not have, sorted.
func missing(host, named []string) []string {
	gone := []string{}
	for _, name := range named {
		if !slices.ContainsFunc(host, func(entry string) bool { return strings.HasPrefix(entry, name+"=") }) {
			gone = append(gone, name)
		}
	}
	slices.Sort(gone)
	return slices.Compact(gone)
}

// isForCommands says whether every command is given a variable of the host's environment:
// those that say who the user is, where programs are, and in which language to speak. The
// terminal is not the host's, and is said by who starts the command.
func isForCommands(name string) bool {
	return strings.HasPrefix(name, "LC_") ||
		slices.Contains([]string{"HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER"}, name)
}
