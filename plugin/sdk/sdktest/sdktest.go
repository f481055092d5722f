// Package sdktest runs a plugin inside a test. The plugin is activated as a host
// would do it, over real gRPC in this process: its tools are registered and
// validated by the real registry, which bounds their outputs and holds them to their
// effects, and the filesystem is the real engine on a directory of the test's, and so is what
// runs commands there, which are not confined. Only the permission service is the test's own,
// so that a test decides what is refused.
//
//	func TestForecast(t *testing.T) {
//		plugin := sdktest.Start(t, weather.New(), sdktest.Options{})
//		outcome := plugin.Call("forecast", `{"place": "Oslo"}`)
//		if outcome.Status != "completed" {
//			t.Fatal(outcome)
//		}
//	}
package sdktest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/toolhost/toolhost/plugin/broker"
	"github.com/toolhost/toolhost/plugin/client"
	"github.com/toolhost/toolhost/plugin/internal/wire"
	"github.com/toolhost/toolhost/plugin/sdk"
	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem"
	"github.com/toolhost/toolhost/service/process"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/output"
	"github.com/toolhost/toolhost/tool/registry"
)

// Options is the world that the plugin sees. The zero value is an empty
// directory, every service, and a permission service that says yes.
type Options struct {
	// Name is the plugin's key in the configuration; empty for the plugin's own name.
	Name string
	// Files are the files of the Location's root, by slash-separated path.
	Files map[string]string
	// Settings are the plugin's settings as JSON.
	Settings json.RawMessage
	// Grants are the services that the plugin gets; nil is all of them.
	Grants []sdk.Service
	// Permission answers what the plugin asserts, and what its tools require or request
	// in a preparation; nil says yes. An error that is not
	// a [*sdk.Refusal] is made one of kind "denied", with the error's text as reason.
	Permission func(r sdk.PermissionRequest) error
	// Outside makes the plugin one that is not built in: the host then asks for each
	// of its tools before it runs.
	Outside bool
}

// Plugin is an activated plugin. Its methods may be called concurrently.
type Plugin struct {
	t           testing.TB
	root        string
	incarnation *client.Incarnation
	registry    *registry.Registry
}

// Start activates the plugin, and ends it with the test. A plugin that does not
// become ready fails the test.
func Start(t testing.TB, p sdk.Plugin, o Options) *Plugin {
	t.Helper()
	started, err := Activate(t, p, o)
	if err != nil {
		t.Fatal(err)
	}
	return started
}

// Activate is Start for a plugin that may fail to become ready.
func Activate(t testing.TB, p sdk.Plugin, o Options) (*Plugin, error) {
	t.Helper()
	if o.Name == "" {
		o.Name = p.Name
	}
	life := scope.New(context.Background(), "sdktest")
	t.Cleanup(func() {
		if err := life.Close(context.Background()); err != nil {
			t.Errorf("end plugin %s: %v", o.Name, err)
		}
	})
	root := writeFiles(t, o.Files)
	files, err := filesystem.Open(root, filesystem.Options{})
	if err != nil {
		return nil, err
	}
	if err := life.Defer("files", func(context.Context) error { return files.Close() }); err != nil {
		return nil, err
	}
	commands, err := process.New(process.Options{Scope: life, Root: files.Path(), Find: broker.Places(files)})
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(testLog{t}, nil))
	tools, err := registry.New(registry.Options{
		Gate: func(registry.Caller) tool.Gate { return &gate{permission: o.Permission} }, Scope: life, Log: log,
		Output: output.NewKeeper(output.KeeperOptions{Limits: output.DefaultLimits(), Store: output.NewStore(output.StoreOptions{Dir: t.TempDir()})}),
	})
	if err != nil {
		return nil, err
	}
	owner := registry.Owner{Name: o.Name, Builtin: !o.Outside}
	incarnation, err := client.StartLocal(context.Background(), life, client.Host{
		FileSystem: files, Process: commands, Activation: &gate{}, Log: log,
		Register: func(t map[string]tool.Tool) (client.Registered, []client.Refused) {
			registration, report := tools.Register(owner, t)
			var refused []client.Refused
			for _, x := range report.Refused {
				refused = append(refused, client.Refused{Name: x.Name, Reason: x.Reason})
			}
			return registration, refused
		},
	}, client.Spec{
		Name: o.Name, Command: []string{"/nothing"}, Settings: o.Settings, Grants: grants(o.Grants), Location: "test", Root: root,
		Profile: &process.Profile{Env: []string{"PATH=" + os.Getenv("PATH")}},
	}, func(connect func(uint32) (wire.Connection, error)) (wire.Plugin, func(context.Context) error) {
		return sdk.Adapt(p, connect, func(error) {})
	})
	if err != nil {
		return nil, err
	}
	return &Plugin{t: t, root: root, incarnation: incarnation, registry: tools}, nil
}

func grants(services []sdk.Service) []service.Grant {
	if services == nil {
		return service.Grants()
	}
	out := []service.Grant{}
	for _, s := range services {
		out = append(out, service.Grant(s))
	}
	return out
}

func writeFiles(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, content := range files {
		full := filepath.Join(root, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// Root is the directory of the Location, for a test that needs more than Files.
func (p *Plugin) Root() string { return p.root }

// Tool is a tool as a model would see it.
type Tool = tool.Definition

// Tools lists the plugin's tools, sorted by name.
func (p *Plugin) Tools() []Tool { return p.registry.Capture().Definitions() }

// Refused says why tools were not accepted, one line each.
func (p *Plugin) Refused() []string {
	var out []string
	for _, x := range p.incarnation.Status().Refused {
		out = append(out, x.Name+": "+x.Reason)
	}
	return out
}

// Outcome is how a call ended.
type Outcome struct {
	// Settlement has the status, the structured value, the content and the error.
	tool.Settlement
	// Text is the text of the content, its blocks joined by a line end.
	Text string
}

// String shows the outcome in a test's message.
func (o Outcome) String() string {
	if o.Error != nil {
		text := fmt.Sprintf("%s: %s: %s", o.Status, o.Error.Kind, o.Error.Message)
		if o.Error.Cause != nil {
			text += fmt.Sprintf(" (%v)", o.Error.Cause)
		}
		return text
	}
	return fmt.Sprintf("%s: %s\n%s", o.Status, o.Structured, o.Text)
}

// Call calls a tool with JSON as a model would send it.
func (p *Plugin) Call(name, input string) Outcome {
	p.t.Helper()
	outcome, err := p.CallContext(context.Background(), name, input)
	if err != nil {
		p.t.Fatal(err)
	}
	return outcome
}

// CallContext is Call with a context. The error is that of a call that was
// interrupted.
func (p *Plugin) CallContext(ctx context.Context, name, input string) (Outcome, error) {
	return p.CallProgress(ctx, name, input, nil)
}

// CallProgress is CallContext with the progress that the tool reports, of which a
// caller gets as much as a person can follow, in order.
func (p *Plugin) CallProgress(ctx context.Context, name, input string, progress func(Progress)) (Outcome, error) {
	s, err := p.registry.Capture().Call(ctx, registry.Request{
		Identity: tool.Identity{Session: "session", Agent: "agent", Message: "message", Call: "call"},
		Name:     name, Input: json.RawMessage(input), Progress: progress,
	})
	if err != nil {
		return Outcome{}, err
	}
	var texts []string
	for _, c := range s.Content {
		if c.Type == tool.TextContent {
			texts = append(texts, c.Text)
		}
	}
	return Outcome{Settlement: s, Text: strings.Join(texts, "\n")}, nil
}

// Progress is one report of a running call.
type Progress = tool.Progress

// gate asks the test.
type gate struct {
	permission func(r sdk.PermissionRequest) error

	mu      sync.Mutex
	refused *tool.Refusal // under mu: the first one
}

var _ tool.Gate = (*gate)(nil)

func (g *gate) Assert(_ context.Context, r tool.PermissionRequest) error {
	if g.permission == nil {
		return nil
	}
	err := g.permission(r)
	if err == nil {
		return nil
	}
	refusal, ok := err.(*tool.Refusal) //nolint:errorlint // a wrapped refusal is the test's own error
	if !ok {
		refusal = &tool.Refusal{Kind: tool.KindDenied, Action: r.Action, Resource: strings.Join(r.Resources, ", "), Reason: err.Error()}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refused == nil {
		g.refused = refusal
	}
	return refusal
}

func (g *gate) Permit(context.Context, string, ...string) error       { return nil }
func (g *gate) PermitCommand(context.Context, tool.CommandLine) error { return nil }
func (g *gate) Allows(string, string) bool                            { return true }
func (g *gate) Denies(string, string) bool                            { return false }

func (g *gate) Refused() *tool.Refusal {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refused
}

// testLog writes to the test's log.
type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}
