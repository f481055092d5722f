package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

func (a *app) toolsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "tools",
		Short: "List the tools of the Location",
		Long: `List the tools of the Location: name, canonical id (what permission rules speak
of), the effects that a call may have, and what it does. With --json the whole
definitions, schemas included.`,
		Example: `  toolhost tools
  toolhost tools --json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withCapture(cmd.Context(), func(_ context.Context, capture *registry.Capture) error {
				return a.printTools(capture.Definitions())
			})
		},
	}
}

func (a *app) printTools(definitions []tool.Definition) error {
	if len(definitions) == 0 {
		a.notice("there are no tools; toolhost check says why")
	}
	if a.json {
		if definitions == nil {
			definitions = []tool.Definition{}
		}
		return a.printJSON(definitions)
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tID\tEFFECTS\tDESCRIPTION")
	for _, d := range definitions {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", d.Name, cell(d.ID), d.Effects, cell(summary(d.Description)))
	}
	return table.Flush()
}

// summary is the first sentence of a description, cut to a line.
func summary(description string) string {
	first, _, _ := strings.Cut(description, "\n")
	if at := strings.Index(first, ". "); at >= 0 {
		first = first[:at+1]
	}
	const most = 100
	if runes := []rune(first); len(runes) > most {
		first = string(runes[:most-1]) + "…"
	}
	return first
}

// cell makes a text fit for one cell of a table, whatever a plugin wrote.
func cell(text string) string {
	return strings.Join(strings.Fields(plain(text)), " ")
}

func (a *app) completeTools(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	_ = a.withCapture(cmd.Context(), func(_ context.Context, capture *registry.Capture) error {
		for _, d := range capture.Definitions() {
			names = append(names, cobra.CompletionWithDesc(d.Name, cell(summary(d.Description))))
		}
		return nil
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) completeLocations(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	cfg, err := a.load(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, l := range cfg.Locations {
		names = append(names, cobra.CompletionWithDesc(l.Name, l.Root))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
