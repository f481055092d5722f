package mcpserver

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/plugin/sdk"
	"github.com/toolhost/toolhost/plugins/filesystem"
	"github.com/toolhost/toolhost/plugins/process"
	"github.com/toolhost/toolhost/sandbox"
	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/state"
	"github.com/toolhost/toolhost/tool"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case "__launch":
			os.Exit(sandbox.Main(os.Args[2:]))
		case "__plugin":
			switch os.Args[2] {
			case "preparing":
				sdk.Serve(preparing())
			case "process":
				sdk.Serve(process.New())
			}
			sdk.Serve(filesystem.New())
		}
	}
	goleak.VerifyTestMain(m)
}

// served is a host with two Locations, "a" and "b", and a server for them.
type served struct {
	*Server
	host  *host.Host
	queue *permission.Queue
	store *state.Store
	root  string
	life  *scope.Scope

	program *host.Registration // of the tools of the program
}

// setup is what a test wants otherwise.
type setup struct {
	suspension, timeout time.Duration   // of suspended calls, and of questions
	plugins             []config.Plugin // beside filesystem
	allow               bool            // whatever the tools of the program do
	log                 *slog.Logger    // of the approver
}

// serve opens a host with the built-in filesystem plugin and the tools of the program,
// and a server for it.
func serve(t testing.TB, fallback Fallback, tools map[string]tool.Tool, otherwise ...func(*setup)) *served {
	t.Helper()
	var want setup
	for _, change := range otherwise {
		change(&want)
	}
	s := &served{root: t.TempDir(), life: scope.New(context.Background(), "test"), store: state.New(state.Options{Dir: t.TempDir()})}
	s.queue = permission.NewQueue(permission.QueueOptions{Approvals: host.Approvals(s.store), Timeout: want.timeout})
	approver := NewApprover(s.life, s.queue, fallback, want.log)
	policy := &permission.Policy{Defaults: permission.Defaults()}
	if want.allow {
		policy.Lists = []permission.List{{Rules: []permission.Rule{{
			Action: pattern(t, "program/*"), Resource: pattern(t, "*"), Effect: permission.Allow, Source: "test",
		}}}}
	}
	cfg := &config.Config{Locations: []config.Location{{
		Name: "a", Root: s.root, Policy: policy, Instructions: []string{"AGENTS.md"},
		Plugins: append([]config.Plugin{{Name: "filesystem", Builtin: "filesystem"}}, want.plugins...),
	}, {
		Name: "b", Root: t.TempDir(), Policy: &permission.Policy{Defaults: permission.Defaults()},
	}}}
	var err error
	s.host, err = host.Open(context.Background(), cfg, host.Options{
		Approver: approver, State: s.store, Suspension: want.suspension, Launcher: sandbox.Launcher{Path: "/proc/self/exe", Args: []string{"__launch"}},
		Builtins: map[string][]string{
			"filesystem": {"/proc/self/exe", "__plugin", "filesystem"}, "preparing": {"/proc/self/exe", "__plugin", "preparing"},
			"process": {"/proc/self/exe", "__plugin", "process"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.program, err = s.host.Register("program", tools); err != nil {
		t.Fatal(err)
	}
	if s.Server, err = New(s.life, Options{Host: s.host, Approver: approver, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, end := range []func() error{
			func() error { return s.life.Close(context.Background()) }, func() error { return s.host.Close(context.Background()) }, s.store.Close,
		} {
			if err := end(); err != nil {
				t.Error(err)
			}
		}
	})
	return s
}

func pattern(t testing.TB, text string) permission.Pattern {
	t.Helper()
	p, err := permission.ParsePattern(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func allowed(w *setup) { w.allow = true }

// location is an active Location.
func (s *served) location(t testing.TB, name string) *location.Location {
	t.Helper()
	l, err := s.host.Location(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The eras of the protocol, by a revision of each.
const (
	withSessions    = "2025-11-25"
	withoutSessions = "2026-07-28"
)

// transports are the ways in which a client reaches the server.
func transports() []string { return []string{"stdio", "http"} }

// connect connects a client in an era over a transport to the Location "a".
func (s *served) connect(t testing.TB, over, era string, options *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	return s.connectTo(t, "a", over, era, options)
}

func (s *served) connectTo(t testing.TB, name, over, era string, options *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "tester", Version: "1"}, options)
	var transport mcp.Transport
	switch over {
	case "stdio":
		fromClient, toServer := io.Pipe()
		fromServer, toClient := io.Pipe()
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- s.ServeStdio(ctx, name, fromClient, toClient) }()
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		transport = &mcp.IOTransport{Reader: fromServer, Writer: toServer}
	case "http":
		handler, err := s.Handler(HTTPOptions{})
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		transport = &mcp.StreamableClientTransport{Endpoint: server.URL + "/locations/" + name + "/mcp"}
	}
	session, err := client.Connect(context.Background(), transport, &mcp.ClientSessionOptions{ProtocolVersion: era})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// everywhere runs a test in each era over each transport.
func everywhere(t *testing.T, run func(t *testing.T, over, era string)) {
	for _, over := range transports() {
		for _, era := range []string{withSessions, withoutSessions} {
			t.Run(over+"/"+era, func(t *testing.T) { run(t, over, era) })
		}
	}
}

// load is how much a test does: all of it, or part of it where tests are to be short, as with the race detector.
func load(all, part int) int {
	if testing.Short() {
		return part
	}
	return all
}

// says is a tool that answers with the text, and may do everything.
func says(text string) tool.Tool {
	return tool.Tool{Description: "for a test", Execute: func(context.Context, tool.Call) (tool.Result, error) {
		encoded, err := json.Marshal(text)
		return tool.Result{Output: encoded}, err
	}}
}

// preparing is a plugin whose calls are prepared, and committed in the same process.
func preparing() sdk.Plugin {
	type input struct {
		Message string `json:"message"`
	}
	return sdk.Plugin{Name: "preparing", Activate: func(ctx context.Context, loc sdk.Location) error {
		_, err := loc.Tools.Register(ctx, sdk.Tools{"commit": sdk.NewPrepared("for a test",
			func(_ context.Context, _ sdk.Call, in input) (sdk.Preparation[string], error) {
				return sdk.Preparation[string]{
					Requests: []sdk.PermissionRequest{{Resources: []string{"*"}}},
					Commit:   func(context.Context, sdk.Call) (string, error) { return "committed " + in.Message, nil },
				}, nil
			},
			func(context.Context, sdk.Call, input) (string, error) { return "executed", nil }, sdk.Write)})
		return err
	}}
}
