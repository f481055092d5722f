package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/plugin/sdk"
	"github.com/toolhost/toolhost/sandbox"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/service/permission/shown"
	"github.com/toolhost/toolhost/state"
)

// trustShown is what trust --show --json prints. Every key is always there.
type trustShown struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	// Trusted says that the file is trusted as it is, Changed that it was trusted as it
	// is no longer.
	Trusted bool `json:"trusted"`
	Changed bool `json:"changed"`
	// Diff is from what was trusted to what is there; null when what was trusted was
	// not kept.
	Diff      *string         `json:"diff"`
	Locations []locationShown `json:"locations"`
}

// locationShown is what the file would do in one Location.
type locationShown struct {
	Name   string        `json:"name"`
	Root   string        `json:"root"`
	Starts []pluginShown `json:"starts"`
	Allows []ruleShown   `json:"allows"`
	// Instructions are the files whose text a model is given.
	Instructions []string `json:"instructions"`
}

type pluginShown struct {
	Name    string   `json:"name"`
	Builtin string   `json:"builtin"`
	Command []string `json:"command"`
	// SHA256 and Files are what is pinned.
	SHA256 string        `json:"sha256"`
	Files  []pinnedShown `json:"files"`
	// Program is what a program that is not pinned is now; null for the others.
	Program  *programShown   `json:"program"`
	Settings json.RawMessage `json:"settings"`
	Grants   []service.Grant `json:"grants"`
	Env      []string        `json:"env"`
	Override []string        `json:"override"`
	Sandbox  config.Sandbox  `json:"sandbox"`
	// Commands is how the commands would run that it runs; null if it runs none. Where the
	// machine cannot confine them they do not run.
	Commands *commandsShown `json:"commands"`
}

type commandsShown struct {
	Confined bool `json:"confined"`
	Network  bool `json:"network"`
}

type pinnedShown struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

type programShown struct {
	// SHA256 is empty, and Problem says why, when it cannot be read.
	SHA256  string `json:"sha256"`
	Problem string `json:"problem"`
	// Recorded is what it was when it was last looked at; empty if it never was.
	Recorded string `json:"recorded_sha256"`
}

type ruleShown struct {
	Action   string `json:"action"`
	Resource string `json:"resource"`
	Agent    string `json:"agent"`
}

// examine fills in what is shown of a file, and the programs that are recorded with it.
func (a *app) examine(ctx context.Context, cfg *config.Config, c *candidate) error {
	c.shown = trustShown{
		Path: c.file.Path, SHA256: c.file.Digest, Locations: []locationShown{},
		Trusted: c.before.Digest == c.file.Digest, Changed: c.before.Digest != "" && c.before.Digest != c.file.Digest,
	}
	var err error
	if c.shown.Diff, err = a.difference(ctx, c); err != nil {
		return operational(err)
	}
	seen := map[string]*programShown{}
	for _, l := range cfg.Locations {
		shown := locationShown{
			Name: l.Name, Root: l.Root, Starts: []pluginShown{}, Allows: allowsOf(l, c.file), Instructions: append([]string{}, l.Instructions...),
		}
		for _, p := range l.Plugins {
			if p.Source.File != c.file.Path {
				continue // the user's own file names it
			}
			starts := pluginOf(p)
			if p.Builtin == "" && p.SHA256 == "" {
				if starts.Program, err = a.examineProgram(ctx, p.Command[0], seen, c); err != nil {
					return err
				}
			}
			shown.Starts = append(shown.Starts, starts)
		}
		c.shown.Locations = append(c.shown.Locations, shown)
	}
	return nil
}

// difference is the unified diff from what was trusted to what is there, or nil
// when it is not known. It has no control characters.
func (a *app) difference(ctx context.Context, c *candidate) (*string, error) {
	if !c.shown.Changed {
		return new(""), nil
	}
	old, known, err := a.state.TrustedContent(ctx, c.file.Path)
	if err != nil || !known {
		return nil, err
	}
	name := filepath.Base(c.file.Path)
	return new(plain(udiff.Unified(name+" (trusted)", name+" (now)", string(old), c.content))), nil
}

func pluginOf(p config.Plugin) pluginShown {
	shown := pluginShown{
		Name: p.Name, Builtin: p.Builtin, SHA256: p.SHA256, Settings: p.Settings,
		Command: append([]string{}, p.Command...), Files: []pinnedShown{},
		Grants: append([]service.Grant{}, p.Grants...), Env: append([]string{}, p.Env...), Override: append([]string{}, p.Override...),
		Sandbox: p.Sandbox,
	}
	if runsCommands(p) {
		off := p.Sandbox.Mode == config.Off
		shown.Commands = &commandsShown{Confined: !off, Network: off || p.Sandbox.Network}
	}
	for _, f := range p.Files {
		shown.Files = append(shown.Files, pinnedShown(f))
	}
	return shown
}

// allowsOf are the rules of the file that allow.
func allowsOf(l config.Location, file config.File) []ruleShown {
	allows := []ruleShown{}
	for _, list := range l.Policy.Lists {
		for _, rule := range list.Rules {
			if rule.Effect == permission.Allow && strings.HasPrefix(rule.Source, filepath.Base(file.Path)+":") {
				allows = append(allows, ruleShown{rule.Action.String(), rule.Resource.String(), rule.Agent})
			}
		}
	}
	return allows
}

// examineProgram looks at the program of a plugin that is not pinned, once each.
func (a *app) examineProgram(ctx context.Context, path string, seen map[string]*programShown, c *candidate) (*programShown, error) {
	if shown := seen[path]; shown != nil {
		return shown, nil
	}
	before, _, err := a.state.Program(ctx, path)
	if err != nil {
		return nil, operational(err)
	}
	shown := &programShown{Recorded: before.SHA256}
	seen[path] = shown
	now, err := state.LookAtProgram(ctx, path)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, fs.ErrNotExist):
		shown.Problem = "it is not there yet"
	case err != nil:
		shown.Problem = strings.TrimPrefix(err.Error(), "program "+path+": ")
	default:
		shown.SHA256 = now.SHA256
		c.programs = append(c.programs, now)
	}
	return shown, nil
}

// showTrust prints what trust would record, and records nothing.
func (a *app) showTrust(c *candidate) error {
	if a.json {
		return a.printJSON(c.shown)
	}
	switch {
	case c.shown.Changed:
		a.printChange(c)
	case c.shown.Trusted:
		fmt.Fprintf(a.stdout, "%s is trusted as it is, since %s%s\n", cell(c.file.Path), c.before.At.Format(time.DateTime), by(c.before))
	default:
		fmt.Fprintf(a.stdout, "%s is not trusted\n", cell(c.file.Path))
	}
	a.printEffects(c.shown.Locations)
	return nil
}

// printChange says how the file differs from what was trusted.
func (a *app) printChange(c *candidate) {
	fmt.Fprintf(a.stdout, "%s has changed since it was trusted at %s%s", cell(c.file.Path), c.before.At.Format(time.DateTime), by(c.before))
	switch {
	case c.shown.Diff == nil:
		fmt.Fprint(a.stdout, "; the difference is not known, since its content was not kept then: look at the whole file\n")
	default:
		fmt.Fprint(a.stdout, ":\n")
		for _, line := range shown.Changes(*c.shown.Diff, a.stdout.columns()) {
			fmt.Fprintln(a.stdout, line)
		}
	}
}

func by(r state.TrustRecord) string {
	if r.By == "" {
		return ""
	}
	return " by " + cell(r.By)
}

// printEffects says what a file would start, grant, pass, allow and leave open.
func (a *app) printEffects(locations []locationShown) {
	for _, l := range locations {
		fmt.Fprintf(a.stdout, "location %s at %s\n", cell(l.Name), cell(l.Root))
		for _, p := range l.Starts {
			a.printPlugin(p)
		}
		for _, rule := range l.Allows {
			fmt.Fprintf(a.stdout, "  allows %s of %s%s\n", cell(rule.Action), cell(rule.Resource), forAgent(rule.Agent))
		}
		if len(l.Instructions) > 0 {
			fmt.Fprintf(a.stdout, "  gives models the text of files named %s\n", join(l.Instructions))
		}
	}
}

func (a *app) printPlugin(p pluginShown) {
	fmt.Fprintf(a.stdout, "  starts %s: %s\n", cell(p.Name), cell(whatStarts(p)))
	if p.Program != nil {
		fmt.Fprintf(a.stdout, "    program: %s\n", cell(p.Program.String()))
	}
	for _, pinned := range p.Files {
		fmt.Fprintf(a.stdout, "    pins %s: sha256 %s\n", cell(pinned.Path), pinned.SHA256)
	}
	if len(p.Settings) > 0 {
		fmt.Fprintf(a.stdout, "    settings %s\n", cell(string(p.Settings)))
	}
	if len(p.Grants) > 0 {
		fmt.Fprintf(a.stdout, "    grants %s\n", join(p.Grants))
	}
	if len(p.Env) > 0 {
		fmt.Fprintf(a.stdout, "    passes %s\n", join(p.Env))
	}
	if len(p.Override) > 0 {
		fmt.Fprintf(a.stdout, "    takes over %s\n", join(p.Override))
	}
	if said := p.Sandbox.String(); said != "" {
		fmt.Fprintf(a.stdout, "    sandbox: %s\n", cell(said))
	}
	if p.Commands != nil {
		fmt.Fprintf(a.stdout, "    runs commands: %s\n", p.Commands)
	}
}

// runsCommands says whether a plugin has the grant for it, which a built-in has that declares
// that it needs it.
func runsCommands(p config.Plugin) bool {
	if made := builtins()[p.Builtin]; made != nil {
		return slices.Contains(made().Needs, sdk.Commands)
	}
	return slices.Contains(p.Grants, service.GrantProcess)
}

// String says in words how commands run.
func (c commandsShown) String() string {
	tier := sandbox.Off
	if c.Confined {
		tier = sandbox.Strict
	}
	return location.Commands{Tier: tier, Network: c.Network}.String()
}

func whatStarts(p pluginShown) string {
	if p.Builtin != "" {
		return "built-in " + p.Builtin
	}
	pinned := "not pinned"
	if p.SHA256 != "" {
		pinned = "sha256 " + p.SHA256
	}
	return fmt.Sprintf("%s (%s)", strings.Join(p.Command, " "), pinned)
}

// String says what the program is, and whether it is another than before.
func (p *programShown) String() string {
	now := cmp.Or(p.Problem, "sha256 "+p.SHA256)
	switch {
	case p.Recorded == "" || p.Recorded == p.SHA256:
		return now
	case p.Problem != "":
		return now + "; it was sha256 " + p.Recorded
	default:
		return now + ", another than before: sha256 " + p.Recorded
	}
}

func forAgent(agent string) string {
	if agent == "" {
		return ""
	}
	return " for the agent " + cell(agent)
}

func join[T ~string](list []T) string {
	texts := make([]string, len(list))
	for i, x := range list {
		texts[i] = cell(string(x))
	}
	return strings.Join(texts, ", ")
}
