package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolhost/toolhost/service/permission"
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
			if name := flags.filter.Tool; name != "" && !strings.Contains(name, "/") {
				return fmt.Errorf("tool %q is no id: give plugin/tool, such as filesystem/read; toolhost tools has the ids", name)
			}
			if flags.filter.Root != "" {
				place, err := filepath.Abs(filepath.Join(a.dirFor(flags.filter.Root), flags.filter.Root))
				if err == nil {
					place, err = filepath.EvalSymlinks(place)
				}
				if err != nil {
					return fmt.Errorf("--root: %w", err)
				}
				flags.filter.Root = place
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
	found := false
	for entry, err := range entries(ctx) {
		if err != nil {
			return operational(err)
		}
		found = true
		if err := a.printEntry(entry); err != nil {
			return err
		}
		if a.stdout.gone() {
			return nil
		}
	}
	if !found {
		a.notice("no entries")
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
	for _, text := range []string{whose(e), happened(e), about(e)} {
		if text != "" {
			words = append(words, cell(text))
		}
	}
	add := func(label, text string) {
		if text != "" {
			words = append(words, label+" "+cell(text))
		}
	}
	if e.Kind != state.AuditReply && e.Kind != state.AuditDenial {
		add("with", string(e.Input))
	}
	add("effects", strings.Join(e.Effects, ","))
	add("because", e.Reason)
	add("request", e.Request)
	if e.Session != "" {
		add("session", oneWord(e.Session))
	}
	_, err := fmt.Fprintln(a.stdout, strings.Join(words, " "))
	return err
}

// whose is what the entry is of.
func whose(e state.AuditEntry) string {
	if name := cmp.Or(e.Tool, e.Extra["name"], e.Plugin); name != "" {
		return oneWord(name)
	}
	return ""
}

// oneWord is a text that cannot be taken for several words of the line.
func oneWord(text string) string {
	if strings.ContainsAny(text, " ,\"") {
		return strconv.Quote(text)
	}
	return shown.Exact(text)
}

// wordEach is oneWord for each of a list.
func wordEach(list []string) string {
	words := make([]string, len(list))
	for i, text := range list {
		words[i] = oneWord(text)
	}
	return strings.Join(words, ", ")
}

// happened is what the entry tells, in words.
func happened(e state.AuditEntry) string {
	switch e.Kind {
	case state.AuditRequest:
		return "asks"
	case state.AuditReply:
		return replied(e)
	case state.AuditDenial:
		return "may not"
	case state.AuditStart:
		return "starts"
	case state.AuditSettlement:
		text := string(e.Status)
		if e.ErrorKind != "" && string(e.ErrorKind) != text {
			text += " (" + string(e.ErrorKind) + ")"
		}
		if took := e.Extra["took"]; took != "" {
			text += " after " + took
		}
		return text
	case state.AuditTrust, state.AuditRevoke:
		return "by " + oneWord(cmp.Or(e.By, "somebody"))
	default:
		return ""
	}
}

// replied is what was answered, and by whom.
func replied(e state.AuditEntry) string {
	text := "refused"
	switch {
	case e.Effect == permission.Allow.String():
		text = "allowed"
	case e.ErrorKind != "":
		text += " (" + string(e.ErrorKind) + ")"
	}
	switch e.Answer {
	case "saved":
		return text + " by the saved approval " + e.Extra["approval"]
	case string(permission.Always):
		text += " for good"
	case string(permission.Once):
		text += " once"
	}
	if e.By != "" {
		text += " by " + oneWord(e.By)
	}
	return text
}

// about is what the entry is about.
func about(e state.AuditEntry) string {
	var text string
	if e.Action != "" && e.Action != e.Tool {
		text = e.Action + " "
	}
	if len(e.Resources) > 0 {
		text += "of " + wordEach(e.Resources)
	}
	if len(e.Patterns) > 0 && e.Answer != "" || e.Kind == state.AuditRevoke {
		text += " by " + wordEach(e.Patterns)
	}
	return strings.TrimSuffix(strings.TrimSpace(text), " by")
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
