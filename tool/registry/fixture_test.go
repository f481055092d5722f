package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// approver answers with what it holds: yes if that is empty.
type approver struct {
	mu    sync.Mutex
	kind  tool.Kind // under mu
	asked []string  // under mu: action and resource of each question
	// answers, if it is not nil, is what every question waits for.
	answers chan permission.Reply
}

func (a *approver) Ask(ctx context.Context, request permission.Request) (permission.Reply, error) {
	a.mu.Lock()
	a.asked = append(a.asked, request.Action+" "+strings.Join(request.Resources, ",")+" save "+strings.Join(request.Save, ","))
	kind := a.kind
	a.mu.Unlock()
	if a.answers != nil {
		select {
		case reply := <-a.answers:
			return reply, nil
		case <-ctx.Done():
			return permission.Reply{}, context.Cause(ctx)
		}
	}
	return permission.Reply{Granted: kind == "", Kind: kind}, nil
}

// bench is a registry with real permissions, and a log that can be read.
type bench struct {
	*Registry
	t        testingT
	approver *approver
	scope    *scope.Scope
	log      *strings.Builder
	calls    int
	closing  string // what every error of the scope's Close must say
}

// testingT is what *testing.T and *rapid.T have in common.
type testingT interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Cleanup(func())
	Context() context.Context
}

func newBench(t testingT) *bench {
	t.Helper()
	return newBenchWith(t, func(*Options) {})
}

// newBenchWith is newBench with further options.
func newBenchWith(t testingT, further func(*Options)) *bench {
	t.Helper()
	b := &bench{t: t, approver: &approver{}, scope: scope.New(context.WithoutCancel(t.Context()), "test"), log: &strings.Builder{}}
	engine := permission.New(&permission.Policy{Defaults: permission.Defaults()}, b.approver)
	var err error
	options := Options{
		Gate: func(c Caller) tool.Gate {
			return engine.Gate(permission.Caller{
				Identity: c.Identity, Tool: c.Tool, Plugin: c.Plugin, Builtin: c.Builtin, Preparing: c.Preparing, Asking: c.Asking,
			})
		},
		Scope: b.scope,
		Log:   slog.New(slog.NewTextHandler(b.log, nil)),
	}
	further(&options)
	b.Registry, err = New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.scope.Close(context.Background()); err != nil && (b.closing == "" || !strings.Contains(err.Error(), b.closing)) {
			t.Errorf("close the scope: %v", err)
		}
	})
	return b
}

// register registers and expects nothing to be refused.
func (b *bench) register(by Owner, tools map[string]tool.Tool) *Registration {
	b.t.Helper()
	registration, report := b.Register(by, tools)
	if len(report.Refused) > 0 {
		b.t.Errorf("Register(%q) refused %v", by.Name, report.Refused)
	}
	return registration
}

func (b *bench) request(name, input string) Request {
	b.calls++
	return Request{
		Identity: tool.Identity{Session: "s", Agent: "a", Message: "m", Call: fmt.Sprint(b.calls)},
		Name:     name, Input: json.RawMessage(input),
	}
}

// call calls what is effective now.
func (b *bench) call(name, input string) string { return b.callIn(b.Capture(), name, input) }

// callIn calls a captured tool and puts the outcome into words.
func (b *bench) callIn(c *Capture, name, input string) string {
	b.t.Helper()
	return inWords(c.Call(b.t.Context(), b.request(name, input)))
}

// inWords is one line about the outcome of a call.
func inWords(s tool.Settlement, err error) string {
	if err != nil {
		return err.Error()
	}
	if s.Error != nil {
		return fmt.Sprintf("%s, %s, ran %v: %s", s.Status, s.Error.Kind, s.Ran, s.Error.Message)
	}
	text := string(s.Structured)
	for _, c := range s.Content {
		text += fmt.Sprintf(" [%s %s%s%s]", c.Type, c.Text, c.MIMEType, c.URI)
	}
	return text
}

func (b *bench) names() string {
	var names []string
	for _, d := range b.Capture().Definitions() {
		names = append(names, d.Name+"="+d.ID)
	}
	return strings.Join(names, " ")
}

func reasons(refused []Refusal) string {
	var lines []string
	for _, x := range refused {
		lines = append(lines, x.Name+": "+x.Reason)
	}
	return strings.Join(lines, "\n")
}

// says is a tool that answers with the text.
func says(text string) tool.Tool {
	return returns(tool.Result{Output: json.RawMessage(fmt.Sprintf("%q", text))}, nil)
}

func returns(result tool.Result, err error) tool.Tool {
	return executes(func(context.Context, tool.Call) (tool.Result, error) { return result, err })
}

func executes(f func(context.Context, tool.Call) (tool.Result, error)) tool.Tool {
	return tool.Tool{Description: "for a test", Execute: f}
}

// echoes is a tool that answers with its input.
func echoes(input string) tool.Tool {
	echo := executes(func(_ context.Context, call tool.Call) (tool.Result, error) {
		return tool.Result{Output: call.Input}, nil
	})
	echo.Input = json.RawMessage(input)
	return echo
}

// set is a registration's tools that say their own name.
func set(names ...string) map[string]tool.Tool {
	tools := make(map[string]tool.Tool)
	for _, name := range names {
		tools[name] = says(name)
	}
	return tools
}

var (
	builtin = Owner{Name: "filesystem", Builtin: true}
	weather = Owner{Name: "weather"}
	climate = Owner{Name: "climate"}
)

// returnsGate reports whether the call has a gate.
func returnsGate(gated chan<- bool) func(context.Context, tool.Call) (tool.Result, error) {
	return func(_ context.Context, call tool.Call) (tool.Result, error) {
		gated <- call.Gate != nil
		return tool.Result{}, nil
	}
}

func (b *bench) callWith(request Request) string {
	b.t.Helper()
	return inWords(b.Capture().Call(b.t.Context(), request))
}

// eventually waits for what happens in another goroutine.
func (b *bench) eventually(happened func() bool) {
	b.t.Helper()
	for begin := time.Now(); !happened(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > 10*time.Second {
			b.t.Errorf("it did not happen")
			return
		}
	}
}
