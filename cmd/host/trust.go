package main

import (
	"context"
	"fmt"
	"os/user"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/state"
)

func (a *app) trustCommand() *cobra.Command {
	var list, revoke bool
	command := &cobra.Command{
		Use:   "trust [FILE]",
		Short: "Let a project's configuration file take effect",
		Long: `Record that a project's toolhost.yaml may take effect, as it is now: start its
plugins, pass its variables, and allow what it allows. Without FILE it is the one
that would be used here. A file that changes must be trusted again; until then
only its denies hold.

The record is in the user's own state, $XDG_STATE_HOME/toolhost or
~/.local/state/toolhost.`,
		Example: `  toolhost trust
  toolhost trust --list
  toolhost trust --revoke ./toolhost.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if list {
				return a.listTrust(ctx)
			}
			path, err := a.fileToTrust(args)
			if err != nil {
				return err
			}
			if revoke {
				return a.revokeTrust(ctx, path)
			}
			return a.trust(ctx, path)
		},
	}
	command.Flags().BoolVar(&list, "list", false, "list the files that are trusted")
	command.Flags().BoolVar(&revoke, "revoke", false, "trust the file no longer")
	command.MarkFlagsMutuallyExclusive("list", "revoke")
	return command
}

// trustedDigest is the digest that the user trusts a project's file to have.
func (a *app) trustedDigest(ctx context.Context, path string) (string, error) {
	record, found, err := a.state.Trusted(ctx, path)
	if err != nil || !found {
		return "", err
	}
	return record.Digest, nil
}

// fileToTrust is the file that the command names, or the one that would be used.
func (a *app) fileToTrust(args []string) (string, error) {
	if len(args) == 1 {
		return filepath.Join(a.dirFor(args[0]), args[0]), nil
	}
	dir, err := filepath.Abs(a.dir)
	if err != nil {
		return "", err
	}
	path, err := config.Discover(dir)
	if err == nil && path == "" {
		err = fmt.Errorf("there is no %s here to trust: name a file", config.FileName)
	}
	return path, err
}

// dirFor is what a path of the command line is relative to.
func (a *app) dirFor(path string) string {
	if filepath.IsAbs(path) {
		return ""
	}
	return a.dir
}

// trust says what the file would do, and records it.
func (a *app) trust(ctx context.Context, path string) error {
	path, err := config.Place(path)
	if err != nil {
		return err
	}
	// What is shown and what is recorded come from one reading of the file.
	cfg, err := config.Load(ctx, config.Options{Dir: filepath.Dir(path), File: path, Builtins: builtinNames()})
	if err != nil {
		return err
	}
	file := cfg.Files[len(cfg.Files)-1]
	if filepath.Base(file.Path) != config.FileName {
		return fmt.Errorf("%s is not found by itself, since it is not named %s: name it with -c, which trusts it for that run", file.Path, config.FileName)
	}
	if !a.json {
		a.printTrust(cfg, file)
	}
	record := state.TrustRecord{Path: file.Path, Digest: file.Digest, By: userName(), At: time.Now()}
	if err := a.state.Trust(ctx, record); err != nil {
		return operational(err)
	}
	if a.json {
		return a.printJSON(record)
	}
	_, err = fmt.Fprintf(a.stdout, "trusted %s\n", cell(file.Path))
	return err
}

// printTrust says what a file would start, grant, pass and allow.
func (a *app) printTrust(cfg *config.Config, file config.File) {
	for _, l := range cfg.Locations {
		fmt.Fprintf(a.stdout, "location %s at %s\n", cell(l.Name), cell(l.Root))
		for _, p := range l.Plugins {
			if p.Source.File != file.Path {
				continue // the user's own file names it
			}
			fmt.Fprintf(a.stdout, "  starts %s: %s\n", cell(p.Name), cell(program(p)))
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
		}
		for _, list := range l.Policy.Lists {
			for _, rule := range list.Rules {
				if rule.Effect == permission.Allow && strings.HasPrefix(rule.Source, filepath.Base(file.Path)+":") {
					fmt.Fprintf(a.stdout, "  allows %s of %s%s\n", cell(rule.Action.String()), cell(rule.Resource.String()), forAgent(rule.Agent))
				}
			}
		}
	}
}

func forAgent(agent string) string {
	if agent == "" {
		return ""
	}
	return " for the agent " + cell(agent)
}

func program(p config.Plugin) string {
	if p.Builtin != "" {
		return "built-in " + p.Builtin
	}
	pinned := "not pinned"
	if p.SHA256 != "" {
		pinned = "sha256 " + p.SHA256
	}
	return fmt.Sprintf("%s (%s)", strings.Join(p.Command, " "), pinned)
}

func join[T ~string](list []T) string {
	texts := make([]string, len(list))
	for i, x := range list {
		texts[i] = cell(string(x))
	}
	return strings.Join(texts, ", ")
}

func (a *app) revokeTrust(ctx context.Context, path string) error {
	place, err := config.Place(path) // the file itself may be gone by now
	if err != nil {
		return err
	}
	found, err := a.state.RevokeTrust(ctx, place)
	if err != nil {
		return operational(err)
	}
	if !found {
		return fmt.Errorf("%s was not trusted", place)
	}
	_, err = fmt.Fprintf(a.stdout, "no longer trusted: %s\n", cell(place))
	return err
}

func (a *app) listTrust(ctx context.Context) error {
	records, err := a.state.TrustRecords(ctx)
	if err != nil {
		return operational(err)
	}
	if a.json {
		return a.printJSON(append([]state.TrustRecord{}, records...))
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "FILE\tTRUSTED\tBY\tSHA256")
	for _, r := range records {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", cell(r.Path), r.At.Format(time.DateTime), orDash(r.By), r.Digest)
	}
	return table.Flush()
}

// userName is who records something, as far as it is known.
func userName() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}
