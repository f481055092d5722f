package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolhost/toolhost/state"
)

func (a *app) callsCommand() *cobra.Command {
	limit := count(50)
	command := &cobra.Command{
		Use:   "calls",
		Short: "List the calls that could do more than read",
		Long: `List the calls that could do more than read, of every project, the newest first:
what runs, how the others ended, and those whose outcome is unknown, because the
host died before they ended. Such a call is never run again by itself: look at
what it did.

Records are kept for seven days and have nothing of a call's input or answer. They
are in the user's own state, $XDG_STATE_HOME/toolhost or ~/.local/state/toolhost.`,
		Example: `  toolhost calls
  toolhost calls --limit 500 --json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.listCalls(cmd.Context(), int(limit))
		},
	}
	command.Flags().Var(&limit, "limit", "how many are listed")
	_ = command.RegisterFlagCompletionFunc("limit", cobra.NoFileCompletions)
	return command
}

func (a *app) listCalls(ctx context.Context, limit int) error {
	// Else what a dead host left would be listed as running.
	abandoned, err := a.state.Abandoned(ctx)
	if err != nil {
		a.notice(fmt.Sprintf("what is listed as running may belong to a host that died: %v", err))
	}
	if n := len(abandoned); n > 0 {
		a.notice(fmt.Sprintf("the host died during %d of these calls; their outcome is unknown", n))
	}
	records, err := a.state.CallRecords(ctx, state.CallFilter{Limit: limit})
	if err != nil {
		return operational(err)
	}
	if a.json {
		return a.printJSON(append([]state.CallRecord{}, records...))
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "STARTED\tSTATUS\tTOOK\tTOOL\tEFFECTS\tSESSION\tROOT")
	for _, r := range records {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Started.Local().Format(time.DateTime), ending(r), took(r),
			cell(r.Tool), cell(strings.Join(r.Effects, ",")), cell(r.Identity.Session), cell(r.Root))
	}
	return table.Flush()
}

// ending is how a call ended, and why where it did not complete.
func ending(r state.CallRecord) string {
	switch {
	case r.Status == state.CallUnknown:
		return "outcome unknown"
	case r.Kind != "" && string(r.Kind) != string(r.Status):
		return cell(fmt.Sprintf("%s (%s)", r.Status, r.Kind))
	default:
		return cell(string(r.Status))
	}
}

// took is how long a call took, as far as that is known.
func took(r state.CallRecord) string {
	if r.Ended.IsZero() || r.Status == state.CallUnknown {
		return "-"
	}
	return max(0, r.Ended.Sub(r.Started)).String()
}

// count is a flag for how many of something are listed.
type count int

func (c *count) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > state.MaxCalls {
		return errors.New("give a number from 1 to " + strconv.Itoa(state.MaxCalls))
	}
	*c = count(n)
	return nil
}

func (c *count) String() string { return strconv.Itoa(int(*c)) }
func (c *count) Type() string   { return "number" }
