package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/service/permission/command"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// maxInput is the most bytes of input that are read from standard input.
const maxInput = 16 << 20

// callFlags are the flags of one call.
type callFlags struct {
	identityFlags
	context bool
}

func (a *app) callCommand() *cobra.Command {
	flags := &callFlags{}
	command := &cobra.Command{
		Use:   "call NAME [JSON|-]",
		Short: "Call a tool and print its answer",
		Long: `Call a tool of the Location and print its answer.

The input is a JSON object; - reads it from standard input; without one it is {}.
The answer is on standard output, everything else on standard error.

Of a long answer the head and the tail are shown; the whole is kept, for the
session to read with the tool output_read, and for you with toolhost outputs. A
session that spans several commands has one name: --session. --context also shows
the project's instructions (AGENTS.md) near what the call was about, each once per
session.

What no rule decides is asked for: on the terminal, where there is one, with the
exact pattern that "always" would save (toolhost approvals has what was saved), and
for toolhost approvals in another one. Without a terminal nobody is asked, and the
answer is no; with --approve ask the question waits for toolhost approvals.
--approve deny asks nobody; --approve all allows it all, but for what a rule denies.
Waiting for an answer is no part of --timeout; --approve-timeout bounds it.

Exit status: 0 the tool answered, 1 the tool says that it failed, 2 usage or
configuration, 3 rejected (unknown tool, invalid input, denied, declined, not
answered in time, nobody to ask), 4 something broke, 130 interrupted.`,
		Example: `  toolhost call grep '{"pattern": "func main", "include": "*.go"}'
  toolhost call read '{"path": "README.md", "limit": 20}'
  echo '{"path": "."}' | toolhost call list - --json
  toolhost call read '{"path": "cmd/main.go"}' --session review-7 --context
  toolhost call read '{"path": ".env"}' --approve ask`,
		Args:              callArgs("call"),
		ValidArgsFunction: a.completeTools,
		RunE: func(cmd *cobra.Command, args []string) error {
			input, err := a.input(args[1:])
			if err != nil {
				return err
			}
			a.calls = true
			return a.withCapture(cmd.Context(), func(ctx context.Context, capture *registry.Capture) error {
				return a.call(ctx, capture, args[0], input, flags)
			})
		},
	}
	flags.register(command)
	command.Flags().Var(&a.approve, "approve", "who answers what no rule does: ask, deny or all (default ask where there is a terminal)")
	_ = command.RegisterFlagCompletionFunc("approve", cobra.FixedCompletions([]string{approveAsk, approveDeny, approveAll}, cobra.ShellCompDirectiveNoFileComp))
	a.registerPatience(command)
	command.Flags().BoolVar(&flags.context, "context", false, "show the project's instructions near what the call is about")
	return command
}

// callArgs checks the arguments of a command that takes what call takes.
func callArgs(command string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return fmt.Errorf("%s needs the name of a tool; toolhost tools lists them", command)
		case len(args) > 2:
			return fmt.Errorf("%s takes one input, and %d were given: put the JSON in quotes", command, len(args)-1)
		}
		return nil
	}
}

// input is the JSON of the command line, or of standard input.
func (a *app) input(args []string) (json.RawMessage, error) {
	if len(args) == 0 {
		return nil, nil
	}
	if args[0] != "-" {
		return json.RawMessage(args[0]), nil
	}
	data, err := io.ReadAll(io.LimitReader(a.stdin, maxInput+1))
	if err != nil {
		return nil, fmt.Errorf("read the input: %w", err)
	}
	if len(data) > maxInput {
		return nil, fmt.Errorf("the input is over %d bytes", maxInput)
	}
	return data, nil
}

// call runs one call and prints how it ended.
func (a *app) call(ctx context.Context, capture *registry.Capture, name string, input json.RawMessage, flags *callFlags) error {
	identity, made := flags.identity()
	whose := caller{identity.Session, identity.Agent, identity.Message, identity.Call, identity.HostMade, made}
	settlement, err := capture.Call(ctx, registry.Request{
		Identity: identity, Name: name, Input: input, Deadline: a.timeout, Instructions: flags.context,
	})
	if interruption, ok := errors.AsType[*tool.Interruption](err); ok {
		return a.printInterruption(interruption, whose)
	}
	if err != nil {
		return operational(err)
	}
	hint := sessionHint(settlement.Error, made)
	if a.json {
		if hint != "" {
			a.notice(hint)
		}
		return a.printOutcome(outcome{Settlement: settlement, Identity: whose}, settled(settlement), settlement.Error)
	}
	if settlement.Error == nil {
		return a.printText(settlement)
	}
	described := describe(name, input, settlement.Error)
	if hint != "" {
		between := "; "
		if strings.Contains(described.Error(), "\n") {
			between = "\n"
		}
		described = fmt.Errorf("%w%s%s", described, between, hint)
	}
	return &exitError{settled(settlement), described}
}

// sessionHint is what to do about a file that the session has not read, where nobody
// said which session it is: another command would be another one again. An output is its
// session's, too, and you read it without one.
func sessionHint(e *tool.Error, made []string) string {
	switch {
	case e == nil || e.Kind != tool.KindFailure:
	case slices.Contains(made, "session") && strings.Contains(e.Message, "this session has not read it"):
		return "each command without --session is a session of its own: give reading and changing the same one, such as --session review-7"
	case strings.HasPrefix(e.Message, "there is no output ") && strings.Contains(e.Message, " of this session: "):
		return "an output is for the session that it was made in: give the --session of that call, or read it with toolhost outputs show HANDLE"
	}
	return ""
}

// outcome is what --json prints of a call. Every key is always there.
type outcome struct {
	tool.Settlement
	Structured   json.RawMessage    `json:"structured"`
	Content      []tool.Content     `json:"content"`
	Error        *tool.Error        `json:"error"`
	Retained     []tool.Retained    `json:"retained"`
	Lost         int64              `json:"lost"`
	Instructions []tool.Instruction `json:"instructions"`
	Identity     caller             `json:"identity"`
}

// caller is for whom a call ran, and which parts of that were made here.
type caller struct {
	Session  string   `json:"session"`
	Agent    string   `json:"agent"`
	Message  string   `json:"message"`
	Call     string   `json:"call"`
	HostMade bool     `json:"host_made"`
	Made     []string `json:"made"`
}

func (a *app) printOutcome(o outcome, status int, cause *tool.Error) error {
	s := o.Settlement
	o.Structured, o.Error, o.Lost = s.Structured, s.Error, s.Lost
	o.Content = append([]tool.Content{}, s.Content...)
	o.Retained = append([]tool.Retained{}, s.Retained...)
	o.Instructions = append([]tool.Instruction{}, s.Instructions...)
	o.Identity.Made = append([]string{}, o.Identity.Made...)
	if err := a.printJSON(o); err != nil {
		return err
	}
	if status == exitCompleted {
		return nil
	}
	exit := &exitError{status: status}
	if cause != nil && cause.Kind.Status() == tool.Errored && cause.Cause != nil {
		exit.err = cause.Cause // the object has what a model may see; the operator is told the rest
	}
	return exit
}

func (a *app) printInterruption(i *tool.Interruption, whose caller) error {
	exit := &exitError{exitInterrupted, errors.New("interrupted")}
	if !a.json {
		return exit
	}
	e := &tool.Error{Kind: tool.KindCancelled, Message: "interrupted"}
	interrupted := tool.Settlement{Status: tool.Interrupted, Error: e, Ran: i.Ran}
	if err := a.printOutcome(outcome{Settlement: interrupted, Identity: whose}, exitInterrupted, nil); err != nil {
		return err
	}
	return exit
}

// printText prints what a model would read; of what is no text, what it is.
func (a *app) printText(s tool.Settlement) error {
	var text strings.Builder
	if len(s.Content) == 0 {
		fmt.Fprintf(&text, "%s\n", s.Structured)
	}
	for _, c := range s.Content {
		switch c.Type {
		case tool.TextContent:
			text.WriteString(c.Text)
		case tool.ResourceLink:
			fmt.Fprintf(&text, "[%s] %s", cell(c.URI), cell(c.Name))
		case tool.EmbeddedResource:
			printResource(&text, c)
		default:
			fmt.Fprintf(&text, "[%s, %s, %d bytes]", c.Type, cell(c.MIMEType), len(c.Data))
		}
		endLine(&text)
	}
	for _, i := range s.Instructions {
		fmt.Fprintf(&text, "\n--- instructions of the project: %s ---\n%s", cell(i.Path), i.Text)
		endLine(&text)
	}
	if _, err := io.WriteString(a.stdout, text.String()); err != nil {
		return err
	}
	for _, r := range s.Retained {
		a.notice(fmt.Sprintf("the whole output as it came (%d bytes) is kept: toolhost outputs show %s", r.Bytes, r.Handle))
	}
	if s.Lost > 0 {
		a.notice(fmt.Sprintf("the tool itself dropped %d bytes, which nobody has", s.Lost))
	}
	return nil
}

// printResource prints where a resource stands and of what type it is, if that is said,
// and under that its text, or how many bytes it has.
func printResource(text *strings.Builder, c tool.Content) {
	is := []string{cell(c.URI)}
	if c.MIMEType != "" {
		is = append(is, cell(c.MIMEType))
	}
	if len(c.Data) > 0 {
		is = append(is, fmt.Sprintf("%d bytes", len(c.Data)))
	}
	fmt.Fprintf(text, "[%s]", strings.Join(is, ", "))
	if c.Text != "" {
		text.WriteString("\n" + c.Text)
	}
}

// endLine ends the last line, if there is one that has not ended.
func endLine(text *strings.Builder) {
	if s := text.String(); s != "" && !strings.HasSuffix(s, "\n") {
		text.WriteString("\n")
	}
}

// describe puts an error of a call into a line for a person, with what an
// operator must know, and what to do next where that is known here.
func describe(name string, input json.RawMessage, e *tool.Error) error {
	switch e.Kind {
	case tool.KindInvalidInput:
		if !json.Valid(input) && len(input) > 0 {
			return fmt.Errorf("%s: %s: %s; the input is a JSON object, such as '{\"path\": \"README.md\"}'", name, e.Kind, e.Message)
		}
	case tool.KindUnknownTool:
		return fmt.Errorf("%s: %s: %s; toolhost tools lists those that there are, and toolhost check says which plugins did not start", name, e.Kind, e.Message)
	case tool.KindTimedOut:
		return fmt.Errorf("%s: %s: %s, here or with toolhost approvals; --approve-timeout says how long the question waits", name, e.Kind, cell(e.Message))
	case tool.KindNobodyToAsk:
		refusal, ok := errors.AsType[*tool.Refusal](e.Cause)
		if !ok {
			break
		}
		advice := "--approve ask waits for an answer from another terminal"
		if strings.Contains(refusal.Reason, "(default)") || strings.Contains(refusal.Reason, "no rule speaks of it") {
			advice += "; " + allowing(name, refusal)
		}
		return fmt.Errorf("%s: %s: %s; %s", name, e.Kind, e.Message, advice)
	}
	if e.Kind.Status() == tool.Errored && e.Cause != nil {
		return fmt.Errorf("%s: %s: %w", name, e.Kind, e.Cause)
	}
	if e.Kind.Status() == tool.Rejected { // one line, whoever wrote the reason
		return fmt.Errorf("%s: %s: %s", name, e.Kind, cell(e.Message))
	}
	if strings.Contains(strings.TrimSuffix(e.Message, "\n"), "\n") { // what the tool says is exact, its first line too
		return fmt.Errorf("%s: %s:\n%s", name, e.Kind, strings.TrimSuffix(e.Message, "\n"))
	}
	return fmt.Errorf("%s: %s: %s", name, e.Kind, e.Message)
}

// allowing says which rule would allow what was refused, or why none would. A rule is looked
// at for each simple command of a command line, and never for the line.
func allowing(name string, refusal *tool.Refusal) string {
	resource := refusal.Resource
	if refusal.Action == service.ActionShell {
		line := command.Read(resource)
		doubt := line.Doubt
		var certain []string
		for _, c := range line.Commands {
			if !c.Possible {
				certain = append(certain, c.Plain)
				doubt = cmp.Or(doubt, c.Doubt)
			}
		}
		for _, w := range line.Writes {
			doubt = cmp.Or(doubt, w.Doubt)
		}
		switch {
		case doubt != "":
			return "no rule can allow it, since it " + cell(doubt)
		case len(certain) != 1 || len(line.Writes) > 0:
			return "a rule in your own or the project's configuration for each of its commands, and of the files that it writes, that is asked for allows it: toolhost explain " +
				name + " with the same input lists them"
		}
		resource = certain[0]
	}
	return fmt.Sprintf("a rule in your own or the project's configuration allows it: {action: %q, resource: %q, effect: allow}",
		refusal.Action, permission.Escape(resource))
}
