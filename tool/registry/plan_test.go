package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolhost/toolhost/tool"
)

// untouched gives options by which everything that a call leaves behind fails the test.
func untouched(t testingT) func(*Options) {
	return func(o *Options) {
		gate := o.Gate
		o.Gate = func(c Caller) tool.Gate {
			if !c.Explaining {
				t.Errorf("the gate of a call that is explained does not know it")
			}
			return gate(c)
		}
		o.Journal, o.Recorder = touched{t}, touched{t}
		o.Contradicted = func(c tool.Contradiction) { t.Errorf("contradicted: %+v", c) }
		o.Hooks.Before = []BeforeHook{{Name: "hook", Run: func(_ context.Context, call HookCall) (json.RawMessage, error) {
			t.Errorf("a hook was run")
			return call.Input, nil
		}}}
	}
}

// touched is told what calls do.
type touched struct{ t testingT }

func (x touched) Start(context.Context, tool.Start) (func(tool.Status, tool.Kind), error) {
	x.t.Errorf("the journal was told")
	return func(tool.Status, tool.Kind) {}, nil
}
func (x touched) Started(r Record) { x.t.Errorf("started %s", r.Tool) }
func (x touched) Ended(r Record)   { x.t.Errorf("ended %s", r.Tool) }

// plan is the plan of a call, in words.
func (b *bench) plan(name, input string) string {
	b.t.Helper()
	p, err := b.Capture().Plan(b.t.Context(), b.request(name, input))
	if err != nil {
		return "error: " + err.Error()
	}
	effects := "unknown"
	if p.Effects != 0 {
		effects = p.Effects.String()
	}
	text := fmt.Sprintf("%s of %s builtin %v effects %s irreversible %v review %q targets %v asks", p.Tool, p.Plugin, p.Builtin, effects, p.Irreversible, p.Review, p.Targets)
	if p.Tool == "" {
		text = "nothing asks"
	}
	for _, r := range p.Requests {
		text += fmt.Sprintf(" %s %q save %q %v", r.Action, r.Resources, r.Save, r.Metadata)
	}
	if p.Error != nil {
		text += fmt.Sprintf(" error %s: %s", p.Error.Kind, p.Error.Message)
		if p.Error.Cause != nil {
			text += " | " + p.Error.Cause.Error()
		}
	}
	return text
}

// A plan has what the call says of itself and asks for, and why it would not get so far;
// what is not built in, or prepares an action, is not run, and the action is discarded.
//
// Seen to fail: with the executor of any tool run; with the action kept; with the
// contradiction reported; with requests of its own made up for a built-in.
func TestLaw33PlannedRequests(t *testing.T) {
	reads := tool.PermissionRequest{Action: "weather/write", Resources: []string{"Bern"}, Save: []string{"B*"}}
	for _, tt := range []struct {
		name        string
		owner       Owner
		preparation tool.Preparation
		action      bool
		err         error
		change      func(*tool.Tool)
		input       string
		want        string
		story       string
	}{
		{
			name: "an action", owner: weather, action: true, input: `{}`,
			preparation: tool.Preparation{Effects: tool.Write, Irreversible: true, Requests: []tool.PermissionRequest{reads}, Targets: []string{"a"}},
			want:        `weather/write of weather builtin false effects write irreversible true review "writes it" targets [a] asks weather/write ["Bern"] save ["B*"] map[]`,
			story:       "prepared, discarded",
		},
		{
			name: "no request", owner: weather, input: `null`,
			want:  `weather/write of weather builtin false effects write irreversible false review "" targets [] asks weather/write ["*"] save ["*"] map[]`,
			story: "prepared",
		},
		{
			name: "every call alike", owner: weather, input: `{"a":"x"}`,
			change: func(x *tool.Tool) {
				x.Prepare, x.Requests, x.Targets, x.Irreversible = nil, []tool.PermissionRequest{reads}, []string{"a"}, true
			},
			want: `weather/write of weather builtin false effects write irreversible true review "" targets [x] asks weather/write ["Bern"] save ["B*"] map[]`,
		},
		{
			name: "the program's", owner: Owner{Name: "program", Application: true}, input: `{}`,
			want:  `program/write of program builtin false effects write irreversible false review "" targets [] asks program/write ["*"] save ["*"] map[]`,
			story: "prepared",
		},
		{
			name: "the host's", owner: Owner{Name: "toolhost", Host: true}, input: `{}`,
			want:  `toolhost/output_read of toolhost builtin true effects write irreversible false review "" targets [] asks`,
			story: "prepared",
		},
		{
			name: "a built-in's action", owner: builtin, action: true, input: `{}`,
			want:  `filesystem/write of filesystem builtin true effects write irreversible false review "writes it" targets [] asks`,
			story: "prepared, discarded",
		},
		{
			name: "a built-in's request", owner: builtin, input: `{}`,
			preparation: tool.Preparation{Requests: []tool.PermissionRequest{{Action: "edit", Resources: []string{"a"}}}},
			want:        `filesystem/write of filesystem builtin true effects write irreversible false review "" targets [] asks edit ["a"] save [] map[]`,
			story:       "prepared",
		},
		{
			name: "failed to prepare", owner: weather, action: true, err: &tool.Failure{Message: "no such file"}, input: `{}`,
			want:  `weather/write of weather builtin false effects unknown irreversible false review "" targets [] asks error failure: no such file`,
			story: "prepared, discarded",
		},
		{
			name: "a contradiction", owner: weather, input: `{}`, preparation: tool.Preparation{Effects: tool.Process},
			want: `weather/write of weather builtin false effects unknown irreversible false review "" targets [] asks error contradiction: the tool is unavailable | ` +
				`weather/write says that this call would have the effects process, and declares no more than write: declare them at registration`,
			story: "prepared",
		},
		{
			name: "invalid", owner: weather, input: `[]`,
			want: `weather/write of weather builtin false effects unknown irreversible false review "" targets [] asks error invalid_input: …`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBenchWith(t, untouched(t))
			p := &prepared{preparation: tt.preparation, err: tt.err}
			if tt.action {
				p.preparation.Action = p.action()
			}
			x := p.tool(tool.Write)
			if tt.change != nil {
				tt.change(&x)
			}
			name := "write"
			if tt.owner.Host {
				name = "output_read"
			}
			b.register(tt.owner, map[string]tool.Tool{name: x})
			got := b.plan(name, tt.input)
			if head, cut := strings.CutSuffix(tt.want, "…"); got != tt.want && !(cut && strings.HasPrefix(got, head)) {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
			if got := p.story(); got != tt.story {
				t.Errorf("the tool did %q, want %q", got, tt.story)
			}
			if len(b.approver.asked) > 0 {
				t.Errorf("asked %v", b.approver.asked)
			}
		})
	}
	t.Run("no tool", func(t *testing.T) {
		b := newBenchWith(t, untouched(t))
		if got, want := b.plan("wrte", `{}`), `nothing asks error unknown_tool: tool "wrte" is unknown`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// A built-in that asks while it runs is run until it asks, may only read, and is refused
// from then on, whatever it asks and whoever asks for it.
//
// Seen to fail: with a gate that grants; with one that forgets that it refused; with the
// declared effects; with the second request told.
func TestLaw32RehearsedBuiltins(t *testing.T) {
	var went []string // by the one call that is on its way
	goOn := func(ctx context.Context, call tool.Call, err error) {
		went = append(went, fmt.Sprint(err), fmt.Sprint(call.Gate.Permit(ctx, "edit", "b")), fmt.Sprint(call.Gate.Refused()), call.Effects.String())
	}
	const refused = ` was withdrawn`
	for _, tt := range []struct {
		name    string
		execute func(context.Context, tool.Call) (tool.Result, error)
		want    string
		went    int
	}{
		{"asserts", func(ctx context.Context, call tool.Call) (tool.Result, error) {
			request := tool.PermissionRequest{Action: "edit", Resources: []string{"a", "b"}, Save: []string{"?"}, Metadata: map[string]string{"k": "v"}}
			err := call.Gate.Assert(ctx, request)
			request.Resources[0] = "other"
			goOn(ctx, call, err)
			return tool.Result{}, err
		}, `edit ["a" "b"] save ["?"] map[k:v]`, 4},
		{"permits", func(ctx context.Context, call tool.Call) (tool.Result, error) {
			err := call.Gate.Permit(ctx, "read", "a")
			goOn(ctx, call, err)
			return tool.Result{Output: json.RawMessage(`"done"`)}, nil
		}, `read ["a"] save [] map[]`, 4},
		{"permits a command", func(ctx context.Context, call tool.Call) (tool.Result, error) {
			err := call.Gate.PermitCommand(ctx, tool.CommandLine{Line: "ls", Directory: "sub"})
			goOn(ctx, call, err)
			return tool.Result{}, err
		}, `shell ["ls"] save [] map[directory:sub]`, 4},
		{"asserts nothing", func(context.Context, tool.Call) (tool.Result, error) {
			panic("no file")
		}, `error internal: the tool is unavailable | filesystem/x panicked: no file`, 0},
		{"fails first", func(_ context.Context, call tool.Call) (tool.Result, error) {
			if !call.Gate.Allows("read", "a") || call.Gate.Allows("read", ".env") {
				return tool.Result{}, errors.New("it allows what the rules do not")
			}
			return tool.Result{}, &tool.Failure{Message: "no such file"}
		}, `error failure: no such file`, 0},
		{"does nothing", func(context.Context, tool.Call) (tool.Result, error) { return tool.Result{}, nil }, ``, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			went = nil
			b := newBenchWith(t, untouched(t))
			x := executes(tt.execute)
			x.Effects = tool.Read | tool.Write
			b.register(builtin, map[string]tool.Tool{"x": x})
			want := `filesystem/x of filesystem builtin true effects read,write irreversible false review "" targets [] asks ` + tt.want
			if got := b.plan("x", `{}`); !strings.HasPrefix(got+" ", want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if len(went) != tt.went {
				t.Fatalf("it went on to %q", went)
			}
			for i, said := range went {
				if i < 3 && !strings.Contains(said, refused) || i == 3 && said != "read" {
					t.Errorf("%d: it was told %q", i, said)
				}
			}
			if len(b.approver.asked) > 0 {
				t.Errorf("asked %v", b.approver.asked)
			}
		})
	}
}

// A plan is bounded as a call is, and its input and identity are checked as those of one.
func TestPlanIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBenchWith(t, untouched(t))
		waits := executes(func(ctx context.Context, _ tool.Call) (tool.Result, error) {
			<-ctx.Done()
			return tool.Result{}, context.Cause(ctx)
		})
		b.register(builtin, map[string]tool.Tool{"waits": waits})
		request := b.request("waits", `{}`)
		request.Deadline = time.Second
		begun := time.Now()
		plan, err := b.Capture().Plan(t.Context(), request)
		if err != nil || plan.Error == nil || plan.Error.Kind != tool.KindDeadline || time.Since(begun) != time.Second {
			t.Errorf("past its deadline: got %+v, %v after %v", plan, err, time.Since(begun))
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("enough"))
		if plan, err := b.Capture().Plan(ctx, request); err == nil || err.Error() != "enough" || plan.Tool != "" {
			t.Errorf("for nobody: got %+v, %v", plan, err)
		}
		request.Identity.Call = ""
		if _, err := b.Capture().Plan(t.Context(), request); err == nil {
			t.Error("a call without identity is planned")
		}
	})
}
