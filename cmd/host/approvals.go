package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolhost/toolhost/state"
)

func (a *app) approvalsCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "approvals",
		Short: "Answer what is asked, and show and revoke what was approved for good",
		Long: `Answer what the hosts that run ask for (pending, watch, approve, reject), and show and
revoke what was approved with "always", in every project (saved, revoke). What was
approved for good holds for exactly the patterns that were shown, in one project, for
one plugin as it was then, until it is revoked. A rule that denies is stronger.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	command.AddCommand(a.approvalsPendingCommand(), a.approvalsWatchCommand(), a.approvalsApproveCommand(), a.approvalsRejectCommand(),
		a.approvalsSavedCommand(), a.approvalsRevokeCommand())
	return command
}

func (a *app) approvalsSavedCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "saved",
		Short:             "List the saved approvals",
		Example:           `  toolhost approvals saved --json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			saved, err := a.state.Approvals(cmd.Context(), state.ApprovalFilter{})
			if err != nil {
				return operational(err)
			}
			return a.printApprovals(saved)
		},
	}
}

func (a *app) printApprovals(saved []state.Approval) error {
	if a.json {
		return a.printJSON(append([]state.Approval{}, saved...))
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tAPPROVED\tEXPIRES\tACTION\tON\tPLUGIN\tBY\tROOT")
	for _, s := range saved {
		expires := "-"
		if !s.Expires.IsZero() {
			expires = s.Expires.Local().Format(time.DateTime)
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.ID, s.At.Local().Format(time.DateTime), expires,
			cell(s.Action), cell(strings.Join(s.Patterns, ", ")), cell(s.Plugin), orDash(s.By), cell(s.Root))
	}
	return table.Flush()
}

func (a *app) approvalsRevokeCommand() *cobra.Command {
	var all bool
	command := &cobra.Command{
		Use:   "revoke [ID...]",
		Short: "Revoke saved approvals, by id or all",
		Example: `  toolhost approvals revoke 3
  toolhost approvals revoke --all`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return errors.New("give the ids to revoke, or --all; toolhost approvals saved has them")
			}
			return a.revokeApprovals(cmd, args)
		},
	}
	command.Flags().BoolVar(&all, "all", false, "revoke all saved approvals, of every project")
	return command
}

func (a *app) revokeApprovals(cmd *cobra.Command, args []string) error {
	saved, err := a.state.Approvals(cmd.Context(), state.ApprovalFilter{})
	if err != nil {
		return operational(err)
	}
	byID := map[string]state.Approval{}
	for _, s := range saved {
		byID[strconv.FormatInt(s.ID, 10)] = s
		if len(args) == 0 {
			err = errors.Join(err, a.revokeApproval(cmd, s))
		}
	}
	revoked := len(byID)
	if len(args) > 0 {
		revoked = 0
	}
	for _, arg := range args {
		s, found := byID[arg]
		if !found {
			err = errors.Join(err, fmt.Errorf("there is no approval %q; toolhost approvals saved has those that there are", arg))
			continue
		}
		if failed := a.revokeApproval(cmd, s); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		revoked++
	}
	if revoked == 0 && err != nil {
		return err
	}
	if a.json {
		return errors.Join(err, a.printJSON(map[string]int{"revoked": revoked}))
	}
	_, printed := fmt.Fprintf(a.stdout, "revoked %s\n", counted(revoked, "approval"))
	return errors.Join(err, printed)
}

// revokeApproval revokes one, and records what it was.
func (a *app) revokeApproval(cmd *cobra.Command, s state.Approval) error {
	if _, err := a.state.RevokeApproval(cmd.Context(), s.ID); err != nil {
		return operational(err)
	}
	a.record(state.AuditEntry{
		Kind: state.AuditRevoke, Root: s.Root, Tool: s.Tool, Plugin: s.Plugin, Action: s.Action, Patterns: s.Patterns,
		Reason: "the approval does not hold any more", Extra: map[string]string{"approval": strconv.FormatInt(s.ID, 10)},
	})
	return nil
}
