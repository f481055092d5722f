package bench

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/mcpserver"
	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/tool"
)

// echoSchema is that of the tool which both servers have.
var echoSchema = json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`)

// openFace opens a host with one tool of the program, which answers with its input, and
// serves it.
func openFace(tb testing.TB) *mcpserver.Server {
	tb.Helper()
	whatever, err := permission.ParsePattern("*")
	if err != nil {
		tb.Fatal(err)
	}
	life := scope.New(context.Background(), "bench")
	approver := mcpserver.NewApprover(life, permission.NewQueue(permission.QueueOptions{}), mcpserver.Deny, nil)
	h, err := host.Open(context.Background(), &config.Config{Locations: []config.Location{{
		Name: "a", Root: tb.TempDir(),
		Policy: &permission.Policy{Lists: []permission.List{{Rules: []permission.Rule{{Action: whatever, Resource: whatever, Effect: permission.Allow}}}}},
	}}}, host.Options{Approver: approver})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := life.Close(context.Background()); err != nil {
			tb.Error(err)
		}
		if err := h.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	if _, err := h.Register("program", map[string]tool.Tool{"echo": {
		Description: "Echo", Input: echoSchema, Effects: tool.None,
		Execute: func(_ context.Context, call tool.Call) (tool.Result, error) {
			var in struct{ Text string }
			err := json.Unmarshal(call.Input, &in)
			return tool.Result{Output: call.Input, Content: []tool.Content{tool.Text(in.Text)}}, err
		},
	}}); err != nil {
		tb.Fatal(err)
	}
	server, err := mcpserver.New(life, mcpserver.Options{Host: h, Approver: approver})
	if err != nil {
		tb.Fatal(err)
	}
	return server
}

// bareFace is the SDK's own server with the same tool.
func bareFace() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "bare", Version: "1"}, nil)
	type text struct {
		Text string `json:"text"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, in text) (*mcp.CallToolResult, text, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text}}}, in, nil
	})
	return server
}

// caller connects a client in the era with sessions, and calls the tool.
func caller(tb testing.TB, transport mcp.Transport, text string) func() error {
	tb.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	session, err := client.Connect(context.Background(), transport, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = session.Close() }) // the other end may be closed already
	return func() error {
		_, err := session.CallTool(context.Background(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": text}})
		return err
	}
}

// piped is a client's end of a pair of pipes, served at the other one.
func piped(tb testing.TB, serve func(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error) mcp.Transport {
	tb.Helper()
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, fromClient, toClient) }()
	tb.Cleanup(func() {
		cancel()
		<-ended // its error is that it was cancelled
	})
	return &mcp.IOTransport{Reader: fromServer, Writer: toServer}
}

func measureFace(tb testing.TB, n size, t *table) {
	input := string(queryOf(tb, 1<<10))
	face := openFace(tb)
	stdio := caller(tb, piped(tb, func(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
		return face.ServeStdio(ctx, "a", in, out)
	}), input)
	bareStdio := caller(tb, piped(tb, func(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
		return bareFace().Run(ctx, &mcp.IOTransport{Reader: in, Writer: out})
	}), input)

	handler, err := face.Handler(mcpserver.HTTPOptions{Limits: mcpserver.Limits{Rate: 1e6, Burst: 1e6}})
	if err != nil {
		tb.Fatal(err)
	}
	ours := httptest.NewServer(handler)
	tb.Cleanup(ours.Close)
	bare := bareFace()
	theirs := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return bare }, nil))
	tb.Cleanup(theirs.Close)
	overHTTP := caller(tb, &mcp.StreamableClientTransport{Endpoint: ours.URL + "/locations/a/mcp", DisableStandaloneSSE: true}, input)
	bareHTTP := caller(tb, &mcp.StreamableClientTransport{Endpoint: theirs.URL, DisableStandaloneSSE: true}, input)

	calls := max(n.calls/4, 1)
	figures := interleave(n.rounds, inTurn(tb, calls, stdio), inTurn(tb, calls, bareStdio), inTurn(tb, calls, overHTTP), inTurn(tb, calls, bareHTTP))
	t.add(faceStdio, figures[0], figures[1])
	t.add(faceHTTP, figures[2], figures[3])
	figures = interleave((n.rounds+3)/4, byMany(tb, max(n.concurrent/4, 1), overHTTP), byMany(tb, max(n.concurrent/4, 1), bareHTTP))
	t.add(faceAtOnce, figures[0], figures[1])
}
