package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolhost/toolhost/service/permission/shown"
	"github.com/toolhost/toolhost/state"
)

// auditFlags say which entries are wanted.
type auditFlags struct {
	filter state.AuditFilter
	since  time.Duration
	limit  count
	follow bool
}

func (a *app) auditCommand() *cobra.Command {
	flags := &auditFlags{limit: 100}
	command := &cobra.Command{
		Use:   "audit",
		Short: "Print what was asked, answered, refused and done",
		Long: `Print the audit log of every project, the oldest first: what was asked for, by which
tool and with what input (request), what was answered and by whom (reply), what a rule
refused (denial), calls that could do more than read (start), how each call ended
(settlement), tools that would have done more than they declared (contradiction), and
what was trusted and revoked. -f goes on with what comes, until interrupted. With
--json the entries as they are in the log, a line each.

The log is audit.jsonl in the user's own state, $XDG_STATE_HOME/toolhost or
~/.local/state/toolhost: 5 files of 10 MiB at most, which nobody else can read. What
looks like a secret is not in it; audit.redact in your own configuration has patterns
for more.`,
		Example: `  toolhost audit -f
  toolhost audit --since 24h --kind denial
  toolhost audit --session review-7 --json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if kind := flags.filter.Kind; kind != "" && !slices.Contains(state.AuditKinds(), kind) {
				return fmt.Errorf("kind %q is unknown: it is one of %s", kind, join(state.AuditKinds()))
			}
			return a.audit(cmd.Context(), flags)
		},
	}
	f := command.Flags()
	f.BoolVarP(&flags.follow, "follow", "f", false, "go on with what comes, until interrupted")
	f.Var((*positive)(&flags.since), "since", "only what happened since so long ago, such as 24h")
	f.StringVar((*string)(&flags.filter.Kind), "kind", "", "only entries of this kind")
	f.StringVar(&flags.filter.Session, "session", "", "only entries of this session")
	f.StringVar(&flags.filter.Tool, "tool", "", "only entries of the tool with this id, plugin/tool")
	f.StringVar(&flags.filter.Root, "root", "", "only entries of the project with this root")
	f.Var(&flags.limit, "limit", "how many of what is there are printed, the newest")
	kinds := make([]string, 0, len(state.AuditKinds()))
	for _, kind := range state.AuditKinds() {
		kinds = append(kinds, string(kind))
	}
	_ = command.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp))
	for _, name := range []string{"since", "session", "tool", "limit"} {
		_ = command.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
	_ = command.MarkFlagDirname("root")
	return command
}

func (a *app) audit(ctx context.Context, flags *auditFlags) error {
	filter := flags.filter
	filter.Limit = int(flags.limit)
	if flags.since > 0 {
		filter.Since = time.Now().Add(-flags.since)
	}
	reader := state.ReadAudit("", filter)
	entries := reader.Entries
	if flags.follow {
		entries = reader.Follow
	}
	for entry, err := range entries(ctx) {
		if err != nil {
			return operational(err)
		}
		if err := a.printEntry(entry); err != nil {
			return err
		}
		if a.stdout.gone() {
			return nil
		}
	}
	if n := reader.Skipped(); n > 0 {
		a.notice(fmt.Sprintf("%d lines of the log are no entries: torn when a host died, or changed by somebody", n))
	}
	return nil
}

func (a *app) printEntry(e state.AuditEntry) error {
	if a.json {
		return a.printLine(e)
	}
	words := []string{e.At.Local().Format(time.DateTime), fmt.Sprintf("%-13s", e.Kind)}
	add := func(label, text string) {
		if text != "" {
			words = append(words, label+cell(text))
		}
	}
	tool := e.Tool
	if tool == "" {
		tool = e.Plugin
	}
	add("", tool)
	add("", string(e.Status))
	add("", string(e.ErrorKind))
	if e.Kind != state.AuditRequest && e.Kind != state.AuditDenial {
		add("", e.Effect)
	}
	add("", e.Answer)
	if e.Action != "" && e.Action != e.Tool {
		add("", e.Action)
	}
	if len(e.Resources) > 0 {
		add("of ", strings.Join(shown.Exactly(e.Resources), ", "))
	}
	if len(e.Patterns) > 0 {
		add("by ", strings.Join(shown.Exactly(e.Patterns), ", "))
	}
	add("by ", e.By)
	if e.Kind == state.AuditRequest || e.Kind == state.AuditStart || e.Kind == state.AuditSettlement {
		add("", string(e.Input))
	}
	add("effects ", strings.Join(e.Effects, ","))
	add("because ", e.Reason)
	add("session ", e.Session)
	add("request ", e.Request)
	_, err := fmt.Fprintln(a.stdout, strings.Join(words, " "))
	return err
}

// record appends what was done here, outside of a host, to the audit log. That it could
// not is said; what was done stays.
func (a *app) record(entry state.AuditEntry) {
	entry.By = userName()
	audit := state.NewAudit(state.AuditOptions{})
	if err := errors.Join(audit.Append(entry), audit.Close()); err != nil {
		a.notice(err.Error())
	}
}
