package main

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/toolhost/toolhost/tool"
)

// identityFlags say for whom a call runs. A runner gives all four; what is not
// given is made here and nowhere else (law 12).
type identityFlags struct {
	given tool.Identity
	made  string // what stands for a session and a message that were not given: one of each per command
}

// register adds the flags to a command.
func (f *identityFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Var((*id)(&f.given.Session), "session", "the id of the conversation that the call belongs to")
	flags.Var((*id)(&f.given.Agent), "agent", "the name of the agent that calls (default cli)")
	flags.Var((*id)(&f.given.Message), "message", "the id of the message that holds the call")
	flags.Var((*id)(&f.given.Call), "call", "the id of the call in that message")
	for _, name := range []string{"session", "agent", "message", "call"} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
}

// identity is that of the next call, exactly as it was given, and the names of the
// parts that were made. Every call of a command has the same session and message,
// and a call id of its own unless one was given.
func (f *identityFlags) identity() (identity tool.Identity, made []string) {
	if f.made == "" {
		f.made = "cli-" + rand.Text()
	}
	own := tool.Identity{Session: f.made, Agent: "cli", Message: f.made, Call: "cli-" + rand.Text()}
	for _, part := range []struct{ name, given string }{
		{"session", f.given.Session}, {"agent", f.given.Agent}, {"message", f.given.Message}, {"call", f.given.Call},
	} {
		if part.given == "" {
			made = append(made, part.name)
		}
	}
	return tool.Identity{
		Session:  cmp.Or(f.given.Session, own.Session),
		Agent:    cmp.Or(f.given.Agent, own.Agent),
		Message:  cmp.Or(f.given.Message, own.Message),
		Call:     cmp.Or(f.given.Call, own.Call),
		HostMade: len(made) > 0,
	}, made
}

// id is a flag for a part of an identity.
type id string

func (i *id) Set(text string) error {
	switch {
	case text == "":
		return errors.New("an id is not empty; without the flag, one is made")
	case len(text) > tool.MaxID:
		return fmt.Errorf("an id has at most %d bytes", tool.MaxID)
	case !utf8.ValidString(text):
		return errors.New("an id is text in UTF-8")
	}
	*i = id(text)
	return nil
}

func (i *id) String() string { return string(*i) }
func (i *id) Type() string   { return "id" }
