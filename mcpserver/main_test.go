package mcpserver

import (
	"context"
	"encoding/json"
	"io"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/plugin/sdk"
	"github.com/toolhost/toolhost/plugins/filesystem"
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
			sdk.Serve(filesystem.New())
		}
	}
	goleak.VerifyTestMain(m)
}

// served is a host with one Location, "a", and a server for it.
type served struct {
	*Server
	host  *host.Host
	queue *permission.Queue
	store *state.Store
	root  string
	life  *scope.Scope
}

// serve opens a host with the built-in filesystem plugin and the tools of the program,
// and a server for it.
func serve(t testing.TB, fallback Fallback, tools map[string]tool.Tool) *served {
	t.Helper()
	s := &served{root: t.TempDir(), life: scope.New(context.Background(), "test"), store: state.New(state.Options{Dir: t.TempDir()})}
	s.queue = permission.NewQueue(permission.QueueOptions{Approvals: host.Approvals(s.store)})
	approver := NewApprover(s.life, s.queue, fallback, nil)
	cfg := &config.Config{Locations: []config.Location{{
		Name: "a", Root: s.root, Policy: &permission.Policy{Defaults: permission.Defaults()}, Instructions: []string{"AGENTS.md"},
		Plugins: []config.Plugin{{Name: "filesystem", Builtin: "filesystem"}},
	}}}
	var err error
	s.host, err = host.Open(context.Background(), cfg, host.Options{
		Approver: approver, State: s.store, Launcher: sandbox.Launcher{Path: "/proc/self/exe", Args: []string{"__launch"}},
		Builtins: map[string][]string{"filesystem": {"/proc/self/exe", "__plugin", "filesystem"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.host.Register("program", tools); err != nil {
		t.Fatal(err)
	}
	if s.Server, err = New(s.life, Options{Host: s.host, Approver: approver, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, close := range []func() error{
			func() error { return s.life.Close(context.Background()) }, func() error { return s.host.Close(context.Background()) }, s.store.Close,
		} {
			if err := close(); err != nil {
				t.Error(err)
			}
		}
	})
	return s
}

// The eras of the protocol, by a revision of each.
const (
	withSessions    = "2025-11-25"
	withoutSessions = "2026-07-28"
)

// transports are the ways in which a client reaches the server.
func transports() []string { return []string{"stdio", "http"} }

// connect connects a client in an era over a transport.
func (s *served) connect(t testing.TB, over, era string, options *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "tester", Version: "1"}, options)
	var transport mcp.Transport
	switch over {
	case "stdio":
		fromClient, toServer := io.Pipe()
		fromServer, toClient := io.Pipe()
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- s.ServeStdio(ctx, "a", fromClient, toClient) }()
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		transport = &mcp.IOTransport{Reader: fromServer, Writer: toServer}
	case "http":
		server := httptest.NewServer(s.locations())
		t.Cleanup(server.Close)
		transport = &mcp.StreamableClientTransport{Endpoint: server.URL + "/locations/a/mcp"}
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

// says is a tool that answers with the text, and may do everything.
func says(text string) tool.Tool {
	return tool.Tool{Description: "for a test", Execute: func(context.Context, tool.Call) (tool.Result, error) {
		encoded, err := json.Marshal(text)
		return tool.Result{Output: encoded}, err
	}}
}
