package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// maxInput is the most bytes of input that are read from standard input.
const maxInput = 16 << 20

func (a *app) callCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "call NAME [JSON|-]",
		Short: "Call a tool and print its answer",
		Long: `Call a tool of the Location and print its answer.

The input is a JSON object; - reads it from standard input; without one it is {}.
The answer is on standard output, everything else on standard error.

Exit status: 0 the tool answered, 1 the tool says that it failed, 2 usage or
configuration, 3 rejected (unknown tool, invalid input, denied), 4 something
broke, 130 interrupted.`,
		Example: `  toolhost call grep '{"pattern": "func main", "include": "*.go"}'
  toolhost call read '{"path": "README.md", "limit": 20}'
  echo '{"path": "."}' | toolhost call list - --json`,
		Args:              callArgs,
		ValidArgsFunction: a.completeTools,
		RunE: func(cmd *cobra.Command, args []string) error {
			input, err := a.input(args[1:])
			if err != nil {
				return err
			}
			return a.withCapture(cmd.Context(), func(ctx context.Context, capture *registry.Capture) error {
				return a.call(ctx, capture, args[0], input)
			})
		},
	}
}

func callArgs(_ *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return errors.New("call needs the name of a tool; toolhost tools lists them")
	case len(args) > 2:
		return fmt.Errorf("call takes one input, and %d were given: put the JSON in quotes", len(args)-1)
	}
	return nil
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
func (a *app) call(ctx context.Context, capture *registry.Capture, name string, input json.RawMessage) error {
	settlement, err := capture.Call(ctx, registry.Request{
		Identity: madeIdentity(), Name: name, Input: input, Deadline: a.timeout,
	})
	if interruption, ok := errors.AsType[*tool.Interruption](err); ok {
		return a.printInterruption(interruption)
	}
	if err != nil {
		return operational(err)
	}
	if a.json {
		return a.printOutcome(outcome{
			Status: settlement.Status, Structured: settlement.Structured, Content: settlement.Content,
			Error: settlement.Error, Ran: settlement.Ran,
		}, settled(settlement), settlement.Error)
	}
	if settlement.Error == nil {
		return a.printText(settlement)
	}
	return &exitError{settled(settlement), describe(name, input, settlement.Error)}
}

// madeIdentity is the identity of a call that no runner makes: each command is a
// session of its own.
func madeIdentity() tool.Identity {
	id := rand.Text()
	return tool.Identity{Session: "cli-" + id, Agent: "cli", Message: "cli-" + id, Call: "cli-" + id, HostMade: true}
}

// outcome is what --json prints of a call.
type outcome struct {
	Status     tool.Status     `json:"status"`
	Structured json.RawMessage `json:"structured"`
	Content    []tool.Content  `json:"content"`
	Error      *tool.Error     `json:"error"`
	Ran        bool            `json:"ran"`
	Retained   []string        `json:"retained"`
}

func (a *app) printOutcome(o outcome, status int, cause *tool.Error) error {
	if o.Content == nil {
		o.Content = []tool.Content{}
	}
	o.Retained = []string{}
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

func (a *app) printInterruption(i *tool.Interruption) error {
	exit := &exitError{exitInterrupted, errors.New("interrupted")}
	if !a.json {
		return exit
	}
	e := &tool.Error{Kind: tool.KindCancelled, Message: "interrupted"}
	if err := a.printOutcome(outcome{Status: tool.Interrupted, Error: e, Ran: i.Ran}, exitInterrupted, nil); err != nil {
		return err
	}
	return exit
}

// printText prints what a model would read; of what is no text, what it is.
func (a *app) printText(s tool.Settlement) error {
	if len(s.Content) == 0 {
		_, err := fmt.Fprintf(a.stdout, "%s\n", s.Structured)
		return err
	}
	for _, c := range s.Content {
		text := c.Text
		switch c.Type {
		case tool.TextContent:
		case tool.ResourceLink:
			text = fmt.Sprintf("[%s] %s", c.URI, c.Name)
		default:
			text = fmt.Sprintf("[%s, %s, %d bytes]", c.Type, c.MIMEType, len(c.Data))
		}
		if !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		if _, err := io.WriteString(a.stdout, text); err != nil {
			return err
		}
	}
	return nil
}

// describe puts an error of a call into a line for a person, with what an
// operator must know, and what to do next where that is known here.
func describe(name string, input json.RawMessage, e *tool.Error) error {
	switch e.Kind {
	case tool.KindInvalidInput:
		if !json.Valid(input) && len(input) > 0 {
			return fmt.Errorf("%s: %s: %s; the input is a JSON object, such as '{\"path\": \"README.md\"}'", name, e.Kind, e.Message)
		}
	case tool.KindNobodyToAsk:
		if refusal, ok := errors.AsType[*tool.Refusal](e.Cause); ok {
			return fmt.Errorf("%s: %s: %s; a rule allows it: {action: %q, resource: %q, effect: allow}",
				name, e.Kind, e.Message, refusal.Action, refusal.Resource)
		}
	}
	if e.Kind.Status() == tool.Errored && e.Cause != nil {
		return fmt.Errorf("%s: %s: %w", name, e.Kind, e.Cause)
	}
	return fmt.Errorf("%s: %s: %s", name, e.Kind, e.Message)
}
