package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/toolhost/toolhost/tool"
)

// parse gives the flags of a command line.
func parse(args ...string) (*identityFlags, error) {
	f := &identityFlags{}
	cmd := &cobra.Command{Use: "x", SilenceErrors: true, SilenceUsage: true, RunE: func(*cobra.Command, []string) error { return nil }}
	f.register(cmd)
	cmd.SetArgs(args)
	return f, cmd.Execute()
}

// TestLaw12Identity: what is given is passed on exactly as it is; what is not is
// made, and both the mark and the list say so. Seen to fail with a mark that
// looks at the session only.
func TestLaw12Identity(t *testing.T) {
	long := strings.Repeat("é", tool.MaxID/2)
	for _, c := range []struct {
		args []string
		want tool.Identity // what is empty is made
		made []string
	}{
		{nil, tool.Identity{Agent: "cli"}, []string{"session", "agent", "message", "call"}},
		{[]string{"--session", "s", "--agent", " a\n", "--message", "m", "--call", long}, tool.Identity{Session: "s", Agent: " a\n", Message: "m", Call: long}, nil},
		{[]string{"--session", "s", "--agent", "a", "--message", "m"}, tool.Identity{Session: "s", Agent: "a", Message: "m"}, []string{"call"}},
		{[]string{"--call=c"}, tool.Identity{Agent: "cli", Call: "c"}, []string{"session", "agent", "message"}},
	} {
		f, err := parse(c.args...)
		if err != nil {
			t.Fatal(err)
		}
		got, made := f.identity()
		if !slices.Equal(made, c.made) || got.HostMade != (len(c.made) > 0) || got.Check() != nil {
			t.Errorf("%q: got %+v, made %q, %v", c.args, got, made, got.Check())
		}
		for _, part := range [][2]string{{got.Session, c.want.Session}, {got.Agent, c.want.Agent}, {got.Message, c.want.Message}, {got.Call, c.want.Call}} {
			if part[1] != "" && part[0] != part[1] || part[1] == "" && !strings.HasPrefix(part[0], "cli-") {
				t.Errorf("%q: got %q, want %q", c.args, part[0], part[1])
			}
		}
		next, _ := f.identity()
		if next.Session != got.Session || next.Message != got.Message || (next.Call == got.Call) != (c.want.Call != "") {
			t.Errorf("%q: the next call: got %+v after %+v", c.args, next, got)
		}
	}
	one, _ := parse()
	two, _ := parse()
	first, _ := one.identity()
	if second, _ := two.identity(); first.Session == second.Session {
		t.Error("two commands have the same session")
	}
}

func TestIdentityBounds(t *testing.T) {
	for value, want := range map[string]string{
		"":                                "an id is not empty; without the flag, one is made",
		strings.Repeat("x", tool.MaxID+1): "an id has at most 256 bytes",
		"\xff":                            "an id is text in UTF-8",
	} {
		for _, flag := range []string{"--session", "--agent", "--message", "--call"} {
			if _, err := parse(flag, value); err == nil || !strings.HasSuffix(err.Error(), want) || !strings.Contains(err.Error(), flag) {
				t.Errorf("%s %.10q: got %v, want …%s", flag, value, err, want)
			}
		}
	}
}
