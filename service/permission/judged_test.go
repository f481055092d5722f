package permission

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/tool"
)

// asAsked is what an approver is asked when a service is to run the line for a plugin
// from outside, which is judged in full.
func asAsked(t *testing.T, policy *Policy, line, directory string) Request {
	t.Helper()
	yes := granting()
	if err := New(policy, yes).Gate(located(outsider())).PermitCommand(t.Context(), tool.CommandLine{Line: line, Directory: directory}); err != nil {
		t.Fatalf("%q in %q: %v", line, directory, err)
	}
	if len(yes.asked) != 1 {
		t.Fatalf("%q in %q: asked %d times, want once", line, directory, len(yes.asked))
	}
	return yes.asked[0]
}

// inWords are the parts of a request, one after the other.
func inWords(r *Request) string {
	var parts []string
	for _, j := range r.Judged {
		parts = append(parts, fmt.Sprintf("%s %s %s %q: %s", j.Effect, j.Kind, j.Action, j.Text, j.Why))
	}
	return strings.Join(parts, "\n")
}

// TestLaw38AskedWithItsParts: who is asked about a command line is told what each part of
// it was judged to be, whoever asks. Seen to fail with the possible commands that no rule
// speaks of listed as well, and with the parts left out of a request.
func TestLaw38AskedWithItsParts(t *testing.T) {
	edits := list(ask("shell", "*"), allow("shell", "git*"), ask("shell", "mytool*"), deny("shell", "rm*"), allow("edit", "*.log"), ask("edit", "*.txt"))
	for _, c := range []struct{ line, directory, want string }{
		{"make", "", `ask command shell "make": by toolhost.yaml:1`},
		{"git status && make  'a b'", "", `allow command shell "git status": by toolhost.yaml:1
ask command shell "make a b": by toolhost.yaml:1`},
		{"git log > out.txt 2> sub/err.log", "sub", `allow command shell "git log": by toolhost.yaml:1
ask write edit "sub/out.txt": by toolhost.yaml:1
allow write edit "sub/sub/err.log": by toolhost.yaml:1`},
		{"git log > out", "", `allow command shell "git log": by toolhost.yaml:1
ask write edit "out": no rule speaks of it`},
		{"git log > /etc/x", "", `allow command shell "git log": by toolhost.yaml:1
ask write edit "/etc/x": it writes to a file outside of the root`},
		{"git log $x", "", `ask command shell "git log $x": by toolhost.yaml:1, and it has $x in it, which is only known when it runs`},
		{"git log\r\n", "", `allow command shell "git log": by toolhost.yaml:1
ask doubt shell "": it has carriage returns, which shells take for different things`},
		{"./myrun mytool x", "", `ask command shell "./myrun mytool x": by toolhost.yaml:1
ask possible shell "mytool x": by toolhost.yaml:1, and it may be run by what stands in front of it`},
		{"sh -c 'git status; make'", "", `ask command shell "sh -c git status; make": by toolhost.yaml:1
allow command shell "git status": by toolhost.yaml:1
ask command shell "make": by toolhost.yaml:1`},
		{"", "", `ask doubt shell "": it has no command in it`},
	} {
		policy := &Policy{Root: "/r", Lists: []List{edits}}
		asked := asAsked(t, policy, c.line, c.directory)
		if got := inWords(&asked); got != c.want || asked.Unlisted != 0 {
			t.Errorf("%q in %q:\n got %s\nwant %s", c.line, c.directory, got, c.want)
		}
		yes := granting()
		assertion := request(service.ActionShell, c.line)
		assertion.Metadata = map[string]string{service.MetadataDirectory: c.directory}
		if err := New(policy, yes).Gate(builtin()).Assert(t.Context(), assertion); err != nil || len(yes.asked) != 1 {
			t.Fatalf("asserted %q: %v, asked %d times", c.line, err, len(yes.asked))
		}
		if got := inWords(&yes.asked[0]); got != c.want || yes.asked[0].Directory != asked.Directory {
			t.Errorf("asserted %q in %q: got %s in %q", c.line, c.directory, got, yes.asked[0].Directory)
		}
	}
	yes := granting() // what is no command line has none
	if err := New(&Policy{}, yes).Gate(builtin()).Assert(t.Context(), request("edit", "a")); err != nil || yes.asked[0].Judged != nil || yes.asked[0].Directory != "" {
		t.Errorf("got %v, asked %+v", err, yes.asked)
	}
}

// TestLaw38PartsAreThoseOfTheExplanation: what is told with a question is what is
// explained, for every line that somebody thought of to get past the rules.
func TestLaw38PartsAreThoseOfTheExplanation(t *testing.T) {
	policy := New(gitOnly(), nil).policy
	for _, c := range evasions {
		x := policy.Explain(service.ActionShell, c.line, "sub", "")
		brief := &trace{brief: true}
		v := policy.evaluate(service.ActionShell, c.line, "sub", "", brief)
		if v != x.Verdict || len(brief.parts) != len(x.Parts) {
			t.Fatalf("%.200q: got %s with %d parts, explained is %s with %d", c.line, v, len(brief.parts), x.Verdict, len(x.Parts))
		}
		for i, p := range brief.parts {
			if e := x.Parts[i]; p.Kind != e.Kind || p.Text != e.Text || p.Effect != e.Effect || p.Decided != e.Decided || p.verdict != e.verdict {
				t.Errorf("%.200q: part %d is %+v, explained is %+v", c.line, i, p, e)
			}
		}
	}
}

// TestLaw38PartsAreBounded: what is told of a line has bounds, says what it leaves out,
// and leaves out what asks last. Seen to fail with the parts taken in their order, with
// nothing cut, and with the room not counted.
func TestLaw38PartsAreBounded(t *testing.T) {
	var line strings.Builder
	for i := range 100 {
		fmt.Fprintf(&line, "git log %d; ", i)
	}
	asked := asAsked(t, gitOnly(), line.String()+"make", "")
	last := asked.Judged[len(asked.Judged)-1]
	if len(asked.Judged) != MaxJudged || asked.Unlisted != 101-MaxJudged || last.Text != "make" || last.Effect != Ask || asked.Judged[0].Text != "git log 0" {
		t.Errorf("%d parts and %d more, the last of which is %+v", len(asked.Judged), asked.Unlisted, last)
	}
	asked = asAsked(t, gitOnly(), "make "+strings.Repeat("é", 400)+"; git log", "")
	if first := asked.Judged[0]; !first.Cut || first.Text != "make "+strings.Repeat("é", 253) || asked.Judged[1].Cut {
		t.Errorf("got %+v", asked.Judged)
	}
	line.Reset()
	for i := range 60 {
		fmt.Fprintf(&line, "make %d %s; ", i, strings.Repeat("x", 1000))
	}
	asked = asAsked(t, gitOnly(), line.String(), "")
	size := 0
	for _, j := range asked.Judged {
		size += len(j.Text) + len(j.Why)
	}
	if size > maxJudgedSize || len(asked.Judged) < 20 || len(asked.Judged)+asked.Unlisted != 60 {
		t.Errorf("%d parts of %d bytes, and %d more", len(asked.Judged), size, asked.Unlisted)
	}
}

// TestLaw32DeniedWhereItRuns: a deny of a file in a directory holds for what a line
// writes there, whatever was asserted, for built-ins and for others. Seen to fail with
// the directory left out for built-ins, and for others.
func TestLaw32DeniedWhereItRuns(t *testing.T) {
	policy := &Policy{Root: "/r", Lists: []List{list(allow("shell", "*"), allow("edit", "*"), deny("edit", "sub/*.env"))}}
	for _, caller := range []Caller{builtin(), outsider()} {
		for _, c := range []struct {
			line, directory string
			denied          bool
		}{
			{"echo > secret.env", "sub", true},
			{"echo > secret.env", "./x/../sub/", true},
			{"make && (echo > ../sub/secret.env)", "sub", true},
			{"echo > secret.env", "", false},
			{"echo > secret.env", ".", false},
			{"echo > secret.env", "other", false},
			{"echo > ../secret.env", "sub", false},
			{"echo > sub/secret.env", "", true},
			{"echo > /r/sub/secret.env", "other", true},
			{"echo > x; echo 2> secret.env", "sub/deeper", true}, // since * crosses slashes
		} {
			yes := granting()
			gate := New(policy, yes).Gate(caller)
			err := gate.PermitCommand(t.Context(), tool.CommandLine{Line: c.line, Directory: c.directory})
			if refusal := gate.Refused(); (refusal != nil) != c.denied || (err != nil) != c.denied || len(yes.asked) != 0 {
				t.Errorf("%s: %q in %q: got %v, asked %v, want denied: %v", caller.Plugin, c.line, c.directory, err, yes.asked, c.denied)
			}
		}
		wantRefusal(t, New(policy, nil).Gate(caller).PermitCommand(t.Context(), tool.CommandLine{Line: "echo > secret.env", Directory: "sub"}), tool.KindDenied,
			`shell of "echo > secret.env" is denied: by toolhost.yaml:1: "> secret.env"`)
		for _, directory := range []string{"..", "../r", "/r", "/r/sub", "sub/../..", "a\x00b"} {
			wantRefusal(t, New(policy, nil).Gate(caller).PermitCommand(t.Context(), tool.CommandLine{Line: "ls", Directory: directory}), tool.KindDenied,
				`shell of "ls" is denied: it is to run in a directory that is not below the root`)
		}
	}
}

// TestLaw33CommandsOfOutsiders: for a built-in a service refuses only what is denied,
// since it asserts by itself; for anybody else it asks, for the line in its directory,
// and not twice. Seen to fail with what was answered remembered without the directory,
// and with everybody treated as a built-in.
func TestLaw33CommandsOfOutsiders(t *testing.T) {
	if err := New(gitOnly(), Nobody{}).Gate(builtin()).PermitCommand(t.Context(), tool.CommandLine{Line: "make; git log > x", Directory: "sub"}); err != nil {
		t.Errorf("a built-in: %v", err)
	}
	yes := granting()
	gate := New(gitOnly(), yes).Gate(located(outsider()))
	for _, c := range []struct {
		line, directory string
		asked           int
	}{{"git status", "a", 0}, {"make", "a", 1}, {"make", "a/", 1}, {"make", "b", 2}, {"make", "", 3}, {"make", ".", 3}, {"make", "b", 3}} {
		if err := gate.PermitCommand(t.Context(), tool.CommandLine{Line: c.line, Directory: c.directory}); err != nil || len(yes.asked) != c.asked {
			t.Errorf("%q in %q: %v, asked %d times, want %d", c.line, c.directory, err, len(yes.asked), c.asked)
		}
	}
	first := yes.asked[0]
	if first.Action != service.ActionShell || first.Directory != "a" || first.Metadata[service.MetadataDirectory] != "a" || !slices.Equal(first.Resources, []string{"make"}) {
		t.Errorf("asked %+v", first)
	}
	if got, want := yes.asked[2], "."; got.Directory != want || got.Metadata[service.MetadataDirectory] != want {
		t.Errorf("in the root: asked %+v", got)
	}
	assertion := request(service.ActionShell, "ls")
	wantRefusal(t, gate.Assert(t.Context(), assertion), tool.KindDenied,
		`shell of "ls" is denied: plugin weather may assert only its own actions, weather/…`)
}

// TestLaw34CommandSavedWhereItRuns: what "always" saves for a line that a service asks
// about is that line in that directory. Seen to fail with the line alone saved.
func TestLaw34CommandSavedWhereItRuns(t *testing.T) {
	caller := located(outsider())
	kept := new(Memory)
	always := &approver{answer: func(ctx context.Context, r Request) (Reply, error) {
		return Reply{Granted: true, Answer: Always}, kept.Save(ctx, Approval{ApprovalKey: caller.key(r.Action), Patterns: r.Save})
	}}
	engine := New(gitOnly(), always).WithApprovals(kept)
	const line = "make && make *.o"
	for i, c := range []struct {
		line, directory string
		asked           int
	}{{line, "sub", 1}, {line, "sub", 1}, {line, "./sub/", 1}, {"make", "sub", 2}, {line, "", 3}, {line, "sub/sub", 4}, {"make && make a.o", "sub", 5}, {line, ".", 5}} {
		if err := engine.Gate(caller).PermitCommand(t.Context(), tool.CommandLine{Line: c.line, Directory: c.directory}); err != nil || len(always.asked) != c.asked {
			t.Errorf("%d: %q in %q: %v, asked %d times, want %d", i, c.line, c.directory, err, len(always.asked), c.asked)
		}
	}
	if got, want := always.asked[0].Save, []string{"cd -- 'sub' && {\nmake && make \\*.o\n}"}; !slices.Equal(got, want) || got[0] != SavePattern(line, "sub") {
		t.Errorf("saved %q, want %q", got, want)
	}
}

// TestLaw34InputIsNeverApprovedForGood: what is typed to a process, or is the standard input of a
// line, may be commands that nobody saw; so neither is an approval of a line one of these, nor is
// anything of these saved. Seen to fail: with hasInput never true.
func TestLaw34InputIsNeverApprovedForGood(t *testing.T) {
	caller := located(outsider())
	kept := new(Memory)
	always := &approver{answer: func(ctx context.Context, r Request) (Reply, error) {
		if len(r.Save) == 0 {
			return Reply{Granted: true}, nil
		}
		return Reply{Granted: true, Answer: Always}, kept.Save(ctx, Approval{ApprovalKey: caller.key(r.Action), Patterns: r.Save})
	}}
	engine := New(gitOnly(), always).WithApprovals(kept)
	for i, c := range []struct {
		line  tool.CommandLine
		asked int
	}{
		{tool.CommandLine{Line: "sh", Process: "p1: sh"}, 1},
		{tool.CommandLine{Line: "sh", Process: "p1: sh"}, 2},
		{tool.CommandLine{Line: "sh"}, 3},
		{tool.CommandLine{Line: "sh"}, 3},
		{tool.CommandLine{Line: "sh", Process: "p1: sh"}, 4},
		{tool.CommandLine{Line: "sh", Stdin: `"rm"`}, 5},
		{tool.CommandLine{Line: "sh", Stdin: `"rm"`}, 6},
	} {
		if err := engine.Gate(caller).PermitCommand(t.Context(), c.line); err != nil || len(always.asked) != c.asked {
			t.Errorf("%d: %+v: %v, asked %d times, want %d", i, c.line, err, len(always.asked), c.asked)
		}
	}
	typed := Request{Action: "shell", Resources: []string{"sh"}, Metadata: map[string]string{"process": "p1: sh"}}
	if saved, err := kept.Saved(t.Context(), caller.key("shell")); err != nil || len(saved) != 1 || approvesAll(saved, &typed) {
		t.Errorf("what waits is answered by %+v, %v", saved, err)
	}
}

// permitted is the answer of a gate that is asked for a line in a directory, without
// anybody to ask.
func permitted(t *testing.T, policy *Policy, line string) tool.Kind {
	t.Helper()
	gate := New(policy, nil).Gate(outsider())
	if err := gate.PermitCommand(t.Context(), tool.CommandLine{Line: line, Directory: "sub"}); err == nil {
		return ""
	}
	return gate.Refused().Kind
}

// TestCaseC01ChainsAtTheGate: an allow for the first command lets no chain through.
func TestCaseC01ChainsAtTheGate(t *testing.T) {
	policy := &Policy{Lists: []List{list(ask("shell", "*"), allow("shell", "git status*"))}}
	if got := permitted(t, policy, "git status"); got != "" {
		t.Fatalf("the command alone: %s", got)
	}
	for _, connector := range []string{"&&", ";", "||", "|", "&", "\n", "\r\n"} {
		if got := permitted(t, policy, "git status "+connector+" touch pwn"); got != tool.KindNobodyToAsk {
			t.Errorf("%q: got %q, want it asked for", connector, got)
		}
	}
}

// TestCaseC05WrappersAtTheGate: what a program runs is not covered by its own allow.
func TestCaseC05WrappersAtTheGate(t *testing.T) {
	policy := &Policy{Lists: []List{list(allow("shell", "*"), deny("shell", "rm *"))}}
	for line, want := range map[string]tool.Kind{
		"env rm f": tool.KindDenied, "nice rm f": tool.KindDenied, "timeout 1 rm f": tool.KindDenied, "sudo rm f": tool.KindDenied,
		"find . -exec rm {} +": tool.KindDenied, "./myrun rm f": tool.KindDenied, "./myrun --with=rm f": tool.KindNobodyToAsk, "env ls": "",
	} {
		if got := permitted(t, policy, line); got != want {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
}

// TestCaseC07LineBreaksAtTheGate: a deny is found in whatever line of the text.
func TestCaseC07LineBreaksAtTheGate(t *testing.T) {
	policy := &Policy{Lists: []List{list(allow("shell", "*"), deny("shell", "*curl*"))}}
	for _, line := range []string{"cat <<E\nhi\nE\ncurl x", "cat\ncu''rl x"} {
		if got := permitted(t, policy, line); got != tool.KindDenied {
			t.Errorf("%q: got %q, want it denied", line, got)
		}
	}
}

// TestCaseC22NothingByNameAtTheGate: without rules every command is asked for, and only
// for a plugin from outside.
func TestCaseC22NothingByNameAtTheGate(t *testing.T) {
	policy := &Policy{Root: "/r", Defaults: Defaults()}
	for _, line := range []string{"git status", "ls", "pwd", "true", "echo", "cat x", ":", ""} {
		if got := permitted(t, policy, line); got != tool.KindNobodyToAsk {
			t.Errorf("%q: got %q, want it asked for", line, got)
		}
	}
}
