package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolhost/toolhost/tool"
)

// prepared is a tool that prepares an action, and says what happened to it.
type prepared struct {
	preparation tool.Preparation
	err         error

	mu      sync.Mutex
	journal []string // under mu: in the order in which it happened
}

func (p *prepared) note(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.journal = append(p.journal, what)
}

func (p *prepared) story() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.journal, ", ")
}

func (p *prepared) tool(effects tool.Effects) tool.Tool {
	x := executes(func(context.Context, tool.Call) (tool.Result, error) {
		p.note("executed")
		return tool.Result{}, nil
	})
	x.Effects = effects
	x.Prepare = func(context.Context, tool.Call) (tool.Preparation, error) {
		p.note("prepared")
		return p.preparation, p.err
	}
	return x
}

func (p *prepared) action() *tool.Action {
	return &tool.Action{
		Review: "writes it",
		Commit: func(_ context.Context, call tool.Call) (tool.Result, error) {
			p.note("committed " + string(call.Input))
			return tool.Result{Output: json.RawMessage(`"done"`)}, nil
		},
		Discard: func(context.Context) { p.note("discarded") },
	}
}

// A call runs its executor or the action that was prepared, once; an action that
// is not committed is discarded.
//
// Seen to fail: with the executor run beside the action; without discard after a
// refusal.
func TestLaw26OneShot(t *testing.T) {
	for _, tt := range []struct {
		name   string
		direct bool
		refuse tool.Kind
		err    error
		want   string
		story  string
	}{
		{"committed", false, "", nil, `"done" [text done]`, `prepared, committed {"a":1}`},
		{"direct", true, "", nil, ``, "prepared, executed"},
		{"declined", false, tool.KindDeclined, nil, `rejected, declined, ran false: weather/write of "*" was declined`, "prepared, discarded"},
		{"failed to prepare", false, "", &tool.Failure{Message: "no such file"}, "failed, failure, ran false: no such file", "prepared, discarded"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.approver.kind = tt.refuse
			p := &prepared{err: tt.err}
			if !tt.direct {
				p.preparation.Action = p.action()
			}
			x := p.tool(tool.Write)
			x.Input = json.RawMessage(`{"type":"object","properties":{"a":{}}}`)
			b.register(weather, map[string]tool.Tool{"write": x})
			if got := b.call("write", `{"a":1}`); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if got := p.story(); got != tt.story {
				t.Errorf("got %s, want %s", got, tt.story)
			}
		})
	}
}

// An action that comes after its call was given up is discarded too.
//
// Seen to fail: with nothing done about what comes too late.
func TestLaw26LateActionIsDiscarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		discarded := make(chan struct{})
		x := says("never")
		x.Prepare = func(context.Context, tool.Call) (tool.Preparation, error) {
			time.Sleep(time.Minute) // it does not heed its context
			return tool.Preparation{Action: &tool.Action{
				Commit:  func(context.Context, tool.Call) (tool.Result, error) { return tool.Result{}, nil },
				Discard: func(context.Context) { close(discarded) },
			}}, nil
		}
		b.register(builtin, map[string]tool.Tool{"slow": x})
		request := b.request("slow", "")
		request.Deadline = time.Second
		if got := inWords(b.Capture().Call(t.Context(), request)); !strings.Contains(got, "deadline, ran false") {
			t.Errorf("got %s", got)
		}
		<-discarded
	})
}

// What a tool says of a call stays within what it declared, and unknown is all.
//
// Seen to fail: with the preparation's effects taken as they come.
func TestLaw23DeclaredCeiling(t *testing.T) {
	for _, tt := range []struct {
		declared, said tool.Effects
		want           string
	}{
		{tool.Read | tool.Write, tool.Read, "read"},
		{tool.Read, 0, "read"},
		{0, tool.Network, "network"},
		{0, 0, "read,write,process,network,user_interaction,delegation"},
		{tool.Read, tool.None, "none"},
		{tool.Read, tool.Write, "error, contradiction, ran false: the tool is unavailable"},
		{tool.None, tool.AllEffects, "error, contradiction, ran false: the tool is unavailable"},
	} {
		t.Run(fmt.Sprintf("%v of %v", tt.said, tt.declared), func(t *testing.T) {
			var told []tool.Contradiction
			b := newBenchWith(t, func(o *Options) {
				o.Contradicted = func(c tool.Contradiction) { told = append(told, c) }
			})
			x := executes(func(_ context.Context, call tool.Call) (tool.Result, error) {
				return tool.Result{Content: []tool.Content{tool.Text(call.Effects.String())}}, nil
			})
			x.Effects = tt.declared
			x.Prepare = func(context.Context, tool.Call) (tool.Preparation, error) {
				return tool.Preparation{Effects: tt.said}, nil
			}
			b.register(builtin, map[string]tool.Tool{"x": x})
			got := strings.TrimSuffix(strings.TrimPrefix(b.call("x", ""), " [text "), "]")
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if contradicted := strings.Contains(tt.want, "contradiction"); (len(told) == 1) != contradicted {
				t.Errorf("told %v", told)
			}
		})
	}
}

// While a call is prepared nobody is asked, and its gate only answers from rules.
//
// Seen to fail: with the gate of the execution given to Prepare.
func TestLaw25NothingIsAskedWhilePreparing(t *testing.T) {
	b := newBench(t)
	x := says("ran")
	x.Prepare = func(ctx context.Context, call tool.Call) (tool.Preparation, error) {
		if call.Effects != tool.Read {
			t.Errorf("it may %v", call.Effects)
		}
		err := call.Gate.Assert(ctx, tool.PermissionRequest{Action: "edit", Resources: []string{"a"}})
		if err == nil || errors.As(err, new(*tool.Refusal)) {
			t.Errorf("asserting gave %v, want an error that is no refusal", err)
		}
		if err := call.Gate.Permit(ctx, "read", "a"); err != nil {
			t.Errorf("reading gave %v", err)
		}
		return tool.Preparation{}, nil
	}
	b.register(builtin, map[string]tool.Tool{"x": x})
	if got := b.call("x", ""); got != `"ran" [text ran]` {
		t.Errorf("got %s", got)
	}
	if len(b.approver.asked) > 0 {
		t.Errorf("asked %v", b.approver.asked)
	}
}

// What a preparation requests is asked in order, up to the first no, in place of
// the question about the whole tool.
//
// Seen to fail: with the requests asked after the first no; with the tool asked for
// beside its requests.
func TestLaw33RequestsOfAPreparation(t *testing.T) {
	b := newBench(t)
	x := says("ran")
	x.Effects = tool.Write
	x.Requests = []tool.PermissionRequest{
		{Action: "weather/write", Resources: []string{"a"}, Save: []string{"a*"}},
		{Action: "weather/write", Resources: []string{"b"}},
	}
	b.register(weather, map[string]tool.Tool{"write": x})
	if got := b.call("write", ""); got != `"ran" [text ran]` {
		t.Errorf("got %s", got)
	}
	b.approver.kind = tool.KindDeclined
	if got, want := b.call("write", ""), `rejected, declined, ran false: weather/write of "a" was declined`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	want := "weather/write a save a*|weather/write b save |weather/write a save a*"
	if got := strings.Join(b.approver.asked, "|"); got != want {
		t.Errorf("asked %s, want %s", got, want)
	}
}

// journal is what was recorded.
type journal struct {
	refuse error
	lines  []string
}

func (j *journal) Start(_ context.Context, start tool.Start) (func(tool.Status, tool.Kind), error) {
	if j.refuse != nil {
		return nil, j.refuse
	}
	j.lines = append(j.lines, fmt.Sprintf("start %s %s %s", start.Identity.Session, start.Tool, start.Effects))
	return func(status tool.Status, kind tool.Kind) {
		j.lines = append(j.lines, fmt.Sprintf("end %s %s", status, kind))
	}, nil
}

// What may do more than read is recorded before it runs and when it ended, and not
// run where it cannot be.
//
// Seen to fail: with the record made after the execution; with a failed record
// ignored.
func TestLaw15StartsAreRecorded(t *testing.T) {
	j := &journal{}
	b := newBenchWith(t, func(o *Options) { o.Journal = j })
	b.register(builtin, map[string]tool.Tool{
		"reads": func() tool.Tool { x := says("r"); x.Effects = tool.Read; return x }(),
		"pure":  func() tool.Tool { x := says("p"); x.Effects = tool.None; return x }(),
		"writes": func() tool.Tool {
			x := executes(func(context.Context, tool.Call) (tool.Result, error) {
				j.lines = append(j.lines, "running")
				return tool.Result{}, errors.New("disk on fire")
			})
			x.Effects = tool.Write
			return x
		}(),
	})
	b.call("reads", "")
	b.call("pure", "")
	b.call("writes", "")
	if got, want := strings.Join(j.lines, ", "), "start s filesystem/writes write, running, end error internal"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	j.refuse, j.lines = errors.New("state is read-only"), nil
	if got := b.call("writes", ""); got != "error, internal, ran false: the tool is unavailable" || len(j.lines) > 0 {
		t.Errorf("got %s, %v", got, j.lines)
	}
}

// The paths that a call is about come from the properties that the tool named, or
// from its preparation, and the instructions near them with the settlement of a
// completed call only.
//
// Seen to fail: with the instructions of a failed call.
func TestLaw30ContextTargets(t *testing.T) {
	var asked [][]string
	b := newBenchWith(t, func(o *Options) {
		o.Instructions = func(_ context.Context, gate tool.Gate, session string, targets []string) ([]tool.Instruction, error) {
			if gate == nil || session != "s" {
				t.Errorf("gate %v, session %q", gate, session)
			}
			asked = append(asked, targets)
			return []tool.Instruction{{Path: "AGENTS.md", Text: "tabs"}}, nil
		}
	})
	input := json.RawMessage(`{"type":"object","properties":{"path":{},"more":{},"n":{}}}`)
	targeted := func(x tool.Tool) tool.Tool {
		x.Input, x.Targets = input, []string{"path", "more", "n", "absent"}
		return x
	}
	dynamic := says("ok")
	dynamic.Prepare = func(context.Context, tool.Call) (tool.Preparation, error) {
		return tool.Preparation{Targets: []string{"cmd"}}, nil
	}
	b.register(builtin, map[string]tool.Tool{
		"static": targeted(says("ok")), "fails": targeted(returns(tool.Result{}, &tool.Failure{Message: "no"})),
		"dynamic": dynamic, "none": says("ok"),
	})
	for _, tt := range []struct {
		name, input string
		want        string
	}{
		{"static", `{"path":"a/b.go","more":["c","d"],"n":5}`, "[[a/b.go c d]]"},
		{"static", `{}`, "[[.]]"},
		{"fails", `{"path":"a"}`, "[]"},
		{"dynamic", ``, "[[cmd]]"},
		{"none", ``, "[]"},
	} {
		asked = nil
		request := b.request(tt.name, tt.input)
		if s, err := b.Capture().Call(t.Context(), request); err != nil || len(asked)+len(s.Instructions) > 0 {
			t.Errorf("%s: got %v, %v without asking for instructions", tt.name, s.Instructions, err)
		}
		request.Instructions = true
		s, err := b.Capture().Call(t.Context(), request)
		if got := fmt.Sprint(asked); err != nil || got != tt.want || (len(s.Instructions) == 1) != (tt.want != "[]") {
			t.Errorf("%s %s: got %s, %v, %v, want %s", tt.name, tt.input, got, s.Instructions, err, tt.want)
		}
	}
}

// A tool that outlives its call asks nobody any more: its gate is over with the call.
//
// Seen to fail: with the permission engine's gate given to the tool as it is.
func TestLaw12GateEndsWithItsCall(t *testing.T) {
	b := newBench(t)
	var kept tool.Gate
	b.register(builtin, map[string]tool.Tool{"x": executes(func(_ context.Context, call tool.Call) (tool.Result, error) {
		kept = call.Gate
		return tool.Result{}, nil
	})})
	b.call("x", "")
	err := kept.Assert(t.Context(), tool.PermissionRequest{Action: "edit", Resources: []string{"a"}})
	if err == nil || kept.Permit(t.Context(), "read", "a") == nil || kept.PermitCommand(t.Context(), tool.CommandLine{Line: "ls", Directory: "."}) == nil || kept.Allows("read", "a") || len(b.approver.asked) > 0 {
		t.Errorf("got %v, asked %v", err, b.approver.asked)
	}
}
