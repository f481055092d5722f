package location

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/sandbox"
)

// Confinement is how a plugin is confined.
type Confinement struct {
	// Tier is how strongly.
	Tier sandbox.Tier `json:"tier"`
	// Reason is why it is not confined: the user's words, or what the machine lacks and
	// what would change that.
	Reason string `json:"reason,omitempty"`
	// Lacks are bounds that could not be set on this machine, in words.
	Lacks []string `json:"lacks,omitempty"`
}

// confine gives the policy of a plugin, or nil where it is not confined. Strict is never
// made less without a word: a plugin from outside does not start where it cannot be had,
// unless the user says so, and a built-in starts and says that it is not confined
// (law 46).
func (l *Location) confine(ctx context.Context, p config.Plugin) (*sandbox.Policy, Confinement, error) {
	builtin := p.Builtin != ""
	if p.Sandbox.Mode == config.Off {
		reason := modeOff(p.Sandbox)
		l.log.Warn("a plugin is not confined: it has all rights of its user", slog.String("plugin", p.Name), slog.String("reason", reason))
		return nil, Confinement{Tier: sandbox.Off, Reason: reason}, nil
	}
	found := l.tier(ctx)
	switch {
	case found.Tier == sandbox.Strict:
		policy, err := l.policy(p.Sandbox)
		return policy, Confinement{Tier: sandbox.Strict}, err
	case builtin && p.Sandbox.Mode == "":
		l.log.Warn("a built-in plugin is not confined on this machine", slog.String("plugin", p.Name), slog.String("reason", found.Reason))
		return nil, Confinement{Tier: sandbox.Off, Reason: found.Reason}, nil
	default:
		return nil, Confinement{}, fmt.Errorf(
			"it cannot be confined on this machine: %s. To run it with all the rights of your user, say sandbox: {mode: off} in its entry", found.Reason)
	}
}

// modeOff is why a plugin with mode off is not confined.
func modeOff(s config.Sandbox) string {
	if s.ModeSource == (config.Position{}) {
		return "the configuration says so"
	}
	return "mode: off at " + s.ModeSource.String()
}

// tier is how strongly this machine confines.
func (l *Location) tier(ctx context.Context) sandbox.Finding {
	if l.options.Tier == nil {
		return sandbox.Finding{Tier: sandbox.Off, Reason: "the program that embeds the host did not find out how"}
	}
	return l.options.Tier(ctx)
}

// policy is what config says, with its paths as they are on this machine now.
func (l *Location) policy(s config.Sandbox) (*sandbox.Policy, error) {
	policy, err := l.resolve(policyOf(s))
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	return policy, nil
}

// policyOf is what config says.
func policyOf(s config.Sandbox) sandbox.Policy {
	return sandbox.Policy{
		Read: s.Read, Write: s.Write, Network: s.Network, Exec: s.Exec,
		Limits: sandbox.Limits{Memory: s.Limits.Memory, Processes: s.Limits.Processes, Files: s.Limits.Files, CPU: s.Limits.CPU},
	}
}

// resolve is a policy with its paths as they are on this machine now.
func (l *Location) resolve(policy sandbox.Policy) (*sandbox.Policy, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // there is none that could be given away
	}
	policy, err = policy.Resolve(l.forbidden(), home)
	return &policy, err
}

// forbidden are the directories that no sandbox is given: what the host relies on, and
// where the user says what it does.
func (l *Location) forbidden() []string {
	all := []string{l.options.RunDir}
	if dir, err := os.UserConfigDir(); err == nil {
		all = append(all, filepath.Join(dir, "toolhost"))
	}
	if l.options.Outputs != "" {
		all = append(all, l.options.Outputs)
	}
	if l.options.State != nil {
		if path, err := l.options.State.Path(); err == nil {
			all = append(all, filepath.Dir(path))
		}
	}
	return all
}
