package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolhost/toolhost/control"
	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/sandbox"
)

// withHosts gives f the hosts that run now. Those that do not answer are said.
func (a *app) withHosts(ctx context.Context, f func([]*control.Client) error) error {
	hosts, err := control.Hosts(ctx, "")
	defer func() {
		for _, h := range hosts {
			h.Close()
		}
	}()
	if err != nil && len(hosts) == 0 {
		return operational(err)
	}
	if err != nil {
		a.notice(err.Error())
	}
	return f(hosts)
}

// statusFlags say how much is shown.
type statusFlags struct{ log, tree bool }

func (a *app) statusCommand() *cobra.Command {
	flags := &statusFlags{}
	command := &cobra.Command{
		Use:   "status",
		Short: "Show the hosts that run now",
		Long: `Show the hosts of yours that run now and have a control socket: programs that embed
the host, toolhost serve, and every toolhost call that asks somebody. Of each its process, its
Locations with their plugins, how many requests wait for an answer, whether the audit log is
written, and whether what is configured is in effect, or why not. Below a plugin stands what
is wrong with it; --log adds the last of what each wrote, and --tree what the host owns,
and the processes that go on beside calls. --json has all of a plugin: since when it is in
its state, restarts, exit, digest, grants, how it is confined and ended, memory, and calls.`,
		Example: `  toolhost status
  toolhost status --log
  toolhost status --json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withHosts(cmd.Context(), func(hosts []*control.Client) error {
				statuses := []control.Status{}
				var failed error
				for _, h := range hosts {
					ask := h.Status
					if flags.tree {
						ask = h.StatusTree
					}
					status, err := ask(cmd.Context())
					if err != nil { // it may have ended just now
						failed = errors.Join(failed, fmt.Errorf("host %d: %w", h.Pid(), err))
						continue
					}
					statuses = append(statuses, status)
				}
				if failed != nil {
					a.notice(failed.Error())
				}
				return a.printStatuses(statuses, flags)
			})
		},
	}
	command.Flags().BoolVar(&flags.log, "log", false, "also show what each plugin wrote last")
	command.Flags().BoolVar(&flags.tree, "tree", false, "also show what the host owns, and the processes beside calls")
	return command
}

func (a *app) printStatuses(statuses []control.Status, flags *statusFlags) error {
	if a.json {
		return a.printJSON(statuses)
	}
	if len(statuses) == 0 {
		a.notice("no host runs")
	}
	for _, s := range statuses {
		pending := counted(s.Pending, "request") + " pending"
		if !s.Approvals {
			pending = "nothing can be answered here"
		}
		fmt.Fprintf(a.stdout, "host %d (%s) since %s, %s\n", s.Pid, cell(s.Version), s.Started.Local().Format(time.DateTime), pending)
		if s.Audit.Failures > 0 {
			fmt.Fprintf(a.stdout, "  the audit log lacks %d entries: %s\n", s.Audit.Failures, cell(s.Audit.LastFailure))
		}
		if s.Stale != "" {
			fmt.Fprintf(a.stdout, "  not all that is configured is in effect: %s\n", indented(s.Stale, "    "))
		}
		for _, l := range s.Locations {
			a.printLocation(l, s.Stale, flags)
		}
		if s.Tree != nil {
			a.printTree(*s.Tree, "  ")
		}
	}
	return nil
}

func (a *app) printLocation(l control.Location, stale string, flags *statusFlags) {
	fmt.Fprintf(a.stdout, "  location %s at %s, %s, %d suspended, %s\n", cell(l.Name), cell(l.Root),
		counted(l.Calls, "call"), l.Suspended, countedProcesses(l.Running))
	if l.Stale != "" && !strings.Contains(stale, l.Stale) {
		fmt.Fprintf(a.stdout, "    it is as it was before: %s\n", indented(l.Stale, "      "))
	}
	var lines strings.Builder
	table := tabwriter.NewWriter(&lines, 0, 0, 2, ' ', 0)
	for _, p := range l.Plugins {
		fmt.Fprintln(table, pluginLine(p))
	}
	_ = table.Flush() // to memory
	rest := lines.String()
	for _, p := range l.Plugins {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		fmt.Fprintln(a.stdout, strings.TrimRight(line, " "))
		for _, wrong := range wrongWith(p) {
			fmt.Fprintf(a.stdout, "      %s\n", indented(wrong, "        "))
		}
		if flags.log && p.Log != "" {
			fmt.Fprintf(a.stdout, "      | %s\n", indented(p.Log, "      | "))
		}
	}
	for _, p := range l.Processes {
		fmt.Fprintf(a.stdout, "    process %s of session %s, by %s since %s: %s\n", cell(p.ID), cell(p.Session), cell(p.Plugin), at(p.Started), cell(p.Line))
	}
}

func countedProcesses(n int) string {
	if n == 1 {
		return "1 process beside them"
	}
	return fmt.Sprintf("%d processes beside them", n)
}

// at is a time of day, with the day where it is another one.
func at(t time.Time) string {
	if local := t.Local(); local.Format(time.DateOnly) == time.Now().Format(time.DateOnly) {
		return local.Format(time.TimeOnly)
	}
	return t.Local().Format(time.DateTime)
}

// pluginLine is the line of a plugin, in cells.
func pluginLine(p location.PluginStatus) string {
	confined := "confined"
	if p.Confinement.Tier != sandbox.Strict {
		confined = "not confined"
	}
	if p.Commands != nil {
		confined += ", commands " + p.Commands.String()
	}
	state := string(p.State)
	if !p.Since.IsZero() {
		state += " since " + at(p.Since)
	}
	var more []string
	add := func(there bool, format string, args ...any) {
		if there {
			more = append(more, fmt.Sprintf(format, args...))
		}
	}
	add(p.Pid > 0, "pid %d", p.Pid)
	add(p.Memory > 0, "%d MiB", (p.Memory+1<<20-1)>>20)
	add(p.Calls > 0, "%s", counted(p.Calls, "call"))
	add(p.Restarts > 0, "%s", counted(p.Restarts, "restart"))
	add(p.Draining > 0, "%d replaced and still there", p.Draining)
	return strings.Join([]string{"    " + cell(p.Name), state, counted(len(p.Tools), "tool"), confined, strings.Join(more, ", ")}, "\t")
}

// wrongWith is what is wrong with a plugin.
func wrongWith(p location.PluginStatus) (wrong []string) {
	add := func(text, words string) {
		if text != "" {
			wrong = append(wrong, words+text)
		}
	}
	add(p.Reason, "")
	if p.Exit != "" && !strings.Contains(p.Reason, p.Exit) {
		add(p.Exit, "it ended last by itself: ")
	}
	add(p.Update, "what is newer of it is not in effect: ")
	if p.Stuck > 0 {
		add(counted(p.Stuck, "call"), "cancelled, and goes on: ")
	}
	if p.Confinement.Tier != sandbox.Strict {
		add(p.Confinement.Reason, "not confined: ")
	}
	for _, refused := range p.Refused {
		add(refused, "tool refused: ")
	}
	return wrong
}

func (a *app) printTree(t control.Tree, indent string) {
	fmt.Fprintf(a.stdout, "%s%s\n", indent, cell(t.Name))
	for _, name := range t.Owned {
		fmt.Fprintf(a.stdout, "%s  - %s\n", indent, cell(name))
	}
	for _, fork := range t.Forks {
		a.printTree(fork, indent+"  ")
	}
	if t.More > 0 {
		fmt.Fprintf(a.stdout, "%s  - and %d more\n", indent, t.More)
	}
}
