package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/plugin/client"
)

func (a *app) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Check the configuration and start every plugin once",
		Long: `Check the configuration, activate the Location, and print the state of each
plugin with the reason where one does not serve. Rules that are for a directory and
not for what is in it are said, and those for a line of several commands.

Exit status: 0 every plugin is ready, 2 the configuration is wrong, 4 a plugin
failed.`,
		Example: `  toolhost check
  toolhost check -c toolhost.yaml --json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.examines = true
			if err := a.checkUntrusted(cmd.Context()); err != nil {
				return err
			}
			return a.withLocation(cmd.Context(), func(_ context.Context, l *location.Location) error {
				return a.printCheck(l)
			})
		},
	}
}

// checkUntrusted checks the files that are not in effect, as they would be if they were
// trusted: else what is wrong in them is known only afterwards.
func (a *app) checkUntrusted(ctx context.Context) error {
	cfg, err := config.Load(ctx, config.Options{
		Dir: a.dir, File: a.file, Builtins: builtinNames(), TrustedDigest: a.trustedDigest, TrustedContent: a.trustedContent,
	})
	if err != nil {
		return err
	}
	for _, file := range cfg.Files {
		if file.Trusted {
			continue
		}
		if _, err := a.candidate(ctx, file.Path); err != nil {
			return err
		}
		a.notice("what follows is without " + cell(file.Path) + ", which has no mistakes and is not in effect")
	}
	return nil
}

// checked is what --json prints.
type checked struct {
	Location string                  `json:"location"`
	Root     string                  `json:"root"`
	Plugins  []location.PluginStatus `json:"plugins"`
}

func (a *app) printCheck(l *location.Location) error {
	plugins := l.Plugins()
	if len(plugins) == 0 {
		a.notice(noPlugins)
	}
	failed := 0
	for _, p := range plugins {
		if p.State != client.Ready {
			failed++
		}
	}
	if a.json {
		if err := a.printJSON(checked{l.Name(), l.Root(), plugins}); err != nil {
			return err
		}
	} else if err := a.printPlugins(l, plugins); err != nil {
		return err
	}
	if failed > 0 {
		return operational(fmt.Errorf("%d of %s failed", failed, counted(len(plugins), "plugin")))
	}
	return nil
}

func (a *app) printPlugins(l *location.Location, plugins []location.PluginStatus) error {
	fmt.Fprintf(a.stdout, "location %s at %s\n\n", cell(l.Name()), cell(l.Root()))
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PLUGIN\tSTATE\tVERSION\tTOOLS\tCONFINED\tTREE KILL\tREASON")
	for _, p := range plugins {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			cell(p.Name), p.State, orDash(p.Version), strconv.Itoa(len(p.Tools)), orDash(string(p.Confinement.Tier)), orDash(p.TreeKill), orDash(p.Reason))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, p := range plugins {
		if sandbox := p.Sandbox.String(); sandbox != "" {
			fmt.Fprintf(a.stdout, "\n%s: sandbox: %s\n", cell(p.Name), cell(sandbox))
		}
		if reason := p.Confinement.Reason; reason != "" && p.Sandbox.Mode != config.Off {
			fmt.Fprintf(a.stdout, "\n%s: not confined: %s\n", cell(p.Name), cell(reason))
		}
		if c := p.Commands; c != nil {
			fmt.Fprintf(a.stdout, "\n%s: %s\n", cell(p.Name), cell(commandsInWords(*c)))
		}
		for _, lacks := range p.Confinement.Lacks {
			fmt.Fprintf(a.stdout, "\n%s: not bounded: %s\n", cell(p.Name), cell(lacks))
		}
		for _, refused := range p.Refused {
			fmt.Fprintf(a.stdout, "\n%s: tool refused: %s\n", cell(p.Name), cell(refused))
		}
		for _, doubt := range p.Doubts {
			fmt.Fprintf(a.stdout, "\n%s: doubtful: %s\n", cell(p.Name), cell(doubt))
		}
		for _, unavailable := range p.Unavailable {
			fmt.Fprintf(a.stdout, "\n%s: tool unavailable: %s\n", cell(p.Name), cell(unavailable))
		}
	}
	return nil
}

// commandsInWords says how the commands of a plugin are run, and what they get of the
// environment. Which variables those are --json lists.
func commandsInWords(c location.Commands) string {
	words := "commands: " + c.String()
	if c.Reason != "" {
		words += ": " + c.Reason
	}
	if c.Tier != "" {
		words += fmt.Sprintf("; of the environment they get %s, and %d are withheld (--json names them)", counted(len(c.Passed), "variable"), len(c.Withheld))
		if len(c.Missing) > 0 {
			words += "; env names what is not set here: " + strings.Join(c.Missing, ", ")
		}
	}
	return words
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return cell(text)
}
