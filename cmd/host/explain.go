package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/service/permission/shown"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

func (a *app) explainCommand() *cobra.Command {
	flags := &identityFlags{}
	command := &cobra.Command{
		Use:   "explain NAME [JSON|-]",
		Short: "Say what a call would be asked for, and by which rules",
		Long: `Say what a call would be asked for, without making it: each request, and for each
resource every rule that is looked at, the one that decides, and where it is written.
Of a command line each part is judged by itself, and the strictest answer holds.

A list of rules is looked at from its last rule up to the first one that matches.
Nothing is asked, saved, recorded or changed. Of a built-in that asks while it runs,
the first request is known.

Exit status: 0 it would be allowed, 3 it would be asked for, denied or rejected.`,
		Example: `  toolhost explain read '{"path": ".env"}'
  toolhost explain forecast '{"place": "Oslo"}' --agent reviewer --json`,
		Args:              callArgs("explain"),
		ValidArgsFunction: a.completeTools,
		RunE: func(cmd *cobra.Command, args []string) error {
			input, err := a.input(args[1:])
			if err != nil {
				return err
			}
			a.examines = true
			return a.withLocation(cmd.Context(), func(ctx context.Context, l *location.Location) error {
				return a.explain(ctx, l, args[0], input, flags)
			})
		},
	}
	flags.register(command)
	return command
}

func (a *app) explain(ctx context.Context, l *location.Location, name string, input json.RawMessage, flags *identityFlags) error {
	identity, _ := flags.identity()
	x, err := l.Explain(ctx, registry.Request{Identity: identity, Name: name, Input: input, Deadline: a.timeout})
	if err != nil {
		return operational(err)
	}
	answer := permission.Allow
	for _, r := range x.Requests {
		for _, e := range r.Explanations {
			answer = max(answer, e.Answer())
		}
	}
	switch {
	case a.json:
		err = a.printJSON(x)
	case x.Error == nil: // else it is the command's error
		err = a.printExplanation(x)
	}
	switch {
	case err != nil:
		return err
	case x.Error != nil:
		exit := &exitError{status: settled(tool.Settlement{Status: x.Error.Kind.Status()})}
		if !a.json || exit.status == exitOperational { // the object has what a model may see; the operator is told the rest
			exit.err = describe(name, input, x.Error)
		}
		return exit
	case answer > permission.Allow:
		return &exitError{status: exitRejected}
	}
	return nil
}

func (a *app) printExplanation(x location.Explanation) error {
	effects := x.Effects.String()
	if x.Irreversible {
		effects += "; it cannot be undone"
	}
	fmt.Fprintf(a.stdout, "%s may have the effects %s\n", cell(x.Tool), effects)
	for _, line := range shown.Changes(x.Diff, a.stdout.columns()-len("  ")) {
		fmt.Fprintf(a.stdout, "  %s\n", line)
	}
	if len(x.Requests) == 0 {
		fmt.Fprintln(a.stdout, "it asks for nothing")
	}
	for _, r := range x.Requests {
		for _, e := range r.Explanations {
			if err := a.printVerdict(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// printVerdict says what becomes of one resource, and all that was looked at for it.
func (a *app) printVerdict(e permission.Explanation) error {
	resource := shown.Exact(e.Resource)
	if e.Directory != "" && e.Directory != "." {
		resource += " in " + shown.Exact(e.Directory)
	}
	fmt.Fprintf(a.stdout, "\n%s of %s is %s\n", shown.Exact(e.Action), resource, cell(e.Why))
	switch {
	case e.Unassertable != "":
		fmt.Fprintf(a.stdout, "  no rule was looked at: %s\n", cell(e.Unassertable))
	case e.Approved != nil:
		fmt.Fprintf(a.stdout, "  it is allowed by the saved approval %d for %s\n", e.Approved.ID, shown.Exact(e.Approved.Pattern))
	case e.Unreadable != "":
		fmt.Fprintf(a.stdout, "  what was approved cannot be read: %s\n", cell(e.Unreadable))
	}
	if len(e.Always) > 0 {
		fmt.Fprintf(a.stdout, "  always would save %s\n", strings.Join(shown.Exactly(e.Always), ", "))
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, part := range e.Parts {
		decides := ""
		if part.Decided && len(e.Parts) > 1 {
			decides = ", which decides"
		}
		why := cmp.Or(part.Why, "nothing to say")
		fmt.Fprintf(table, "  %s %s of %s: %s%s\n", part.Kind, shown.Exact(part.Action), shown.Exact(part.Text), cell(why), decides)
		for _, list := range part.Lists {
			printList(table, list, part.Text)
		}
		if part.Defaults != nil {
			printList(table, *part.Defaults, part.Text)
		}
	}
	return table.Flush()
}

// printList says which rules of a list were looked at.
func printList(table *tabwriter.Writer, list permission.ListTrace, text string) {
	if list.Outside {
		fmt.Fprintf(table, "    the rules for %s say nothing of what is outside of it\n", shown.Exact(list.Base))
		return
	}
	if list.Text != "" && list.Text != text {
		fmt.Fprintf(table, "    as %s below %s:\n", shown.Exact(list.Text), shown.Exact(list.Base))
	}
	folded := list.Omitted
	for _, rule := range list.Rules {
		if rule.Source == "default" && !rule.Matched {
			folded++ // there are many, and nobody wrote them for this project
			continue
		}
		verdict := "  " + missed(rule.Miss)
		if rule.Matched {
			verdict = "  matches"
			if list.Decided {
				verdict = "* decides"
			}
		}
		resource := shown.Exact(rule.Resource)
		if rule.Agent != "" {
			resource += " for " + shown.Exact(rule.Agent)
		}
		fmt.Fprintf(table, "    %s\t%s\t%s\t%s\t%s\n", shown.Exact(rule.Source), rule.Effect, shown.Exact(rule.Action), resource, verdict)
	}
	if folded > 0 {
		fmt.Fprintf(table, "    and %s that do not match; --json has them\n", counted(folded, "rule"))
	}
}

// missed says why a rule is not an answer.
func missed(miss permission.Miss) string {
	switch miss {
	case permission.MissDoubtful:
		return "allows, which covers nothing that is only known when it runs"
	case permission.MissBroad:
		return "is about any command, and says nothing of what only may be one"
	case permission.MissUntrusted:
		return "matches, but its file is not trusted: only its denies hold"
	default:
		return "is about another " + string(miss)
	}
}
