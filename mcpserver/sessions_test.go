package mcpserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/state"
	"github.com/toolhost/toolhost/tool"
)

// asked waits for the one request of the queue.
func (s *served) asked(t *testing.T) permission.Pending {
	t.Helper()
	eventually(t, func() string {
		if len(s.queue.Pending()) != 1 {
			return "nothing is asked"
		}
		return ""
	})
	return s.queue.Pending()[0]
}

// In the era with sessions the elicitation of a question that is answered at the host is
// withdrawn at the client, whose person then need not answer.
//
// Seen to fail: without the end of the elicitation's context.
func TestElicitationEndsWhenTheHostAnswers(t *testing.T) {
	overEach(t, func(t *testing.T, over string) {
		ran := new(recorded)
		s := serve(t, Deny, map[string]tool.Tool{"act": ran.tool()})
		asked, withdrawn := make(chan struct{}), make(chan struct{})
		session := s.connect(t, over, withSessions, &mcp.ClientOptions{
			ElicitationHandler: func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				close(asked)
				<-ctx.Done()
				close(withdrawn)
				return nil, ctx.Err()
			},
		})
		go func() {
			<-asked
			if _, err := s.queue.Reply(context.Background(), s.queue.Pending()[0].ID, permission.Answer{Kind: permission.Once}); err != nil {
				t.Error(err)
			}
		}()
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "act"})
		if err != nil || text(result) != "ran" {
			t.Errorf("got %+v, %v", result, err)
		}
		select {
		case <-withdrawn:
		case <-time.After(10 * time.Second):
			t.Error("the elicitation was not withdrawn")
		}
		s.settled(t)
	})
}

// A client that gives up while it is asked runs nothing, even if what it asked for is
// approved later (case C16).
//
// Seen to fail: with calls in a context that does not end.
func TestCaseC16ClientCancelsWhileAsked(t *testing.T) {
	overEach(t, func(t *testing.T, over string) {
		ran := new(recorded)
		s := serve(t, Wait, map[string]tool.Tool{"act": ran.tool()})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		session := s.connect(t, over, withSessions, &mcp.ClientOptions{
			ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
		})
		ended := make(chan error, 1)
		go func() {
			_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "act"})
			ended <- err
		}()
		p := s.asked(t)
		cancel()
		if err := <-ended; err == nil {
			t.Error("the call has a result")
		}
		s.lateApproval(t, p.ID, ran)
	})
}

// lateApproval shows that a request that was withdrawn cannot be approved.
func (s *served) lateApproval(t *testing.T, id string, ran *recorded) {
	t.Helper()
	s.settled(t)
	if _, err := s.queue.Reply(t.Context(), id, permission.Answer{Kind: permission.Once}); !errors.Is(err, permission.ErrNotPending) {
		t.Errorf("it can be approved: %v", err)
	}
	ran.wantInputs(t)
}

// A client that goes away while it is asked runs nothing, even if what it asked for is
// approved later (case C16).
//
// Seen to fail: with calls in a context that does not end.
func TestCaseC16ClientGoesWhileAsked(t *testing.T) {
	ran := new(recorded)
	s := serve(t, Wait, map[string]tool.Tool{"act": ran.tool()})
	w := s.wire(t)
	w.initialize(t, withSessions, `{"elicitation":{}}`)
	w.send(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"act","arguments":{}}}`)
	if got := w.receive(t); got.Method != "elicitation/create" {
		t.Fatalf("got %+v", got)
	}
	p := s.asked(t)
	w.close(t)
	s.lateApproval(t, p.ID, ran)
}

// The same over HTTP, where the client says nothing and closes its request.
//
// Seen to fail: with questions that do not end with their request.
func TestCaseC16ClientGoesWhileAskedOverHTTP(t *testing.T) {
	ran := new(recorded)
	s := serve(t, Wait, map[string]tool.Tool{"act": ran.tool()})
	handler, err := s.Handler(HTTPOptions{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	session := ""
	post := func(ctx context.Context, body string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/locations/a/mcp", strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set(headerPost, "forged")
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
			r.Header.Set("MCP-Protocol-Version", withSessions)
		}
		return server.Client().Do(r)
	}
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"raw","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
	} {
		response, err := post(t.Context(), body)
		if err != nil || response.StatusCode >= 300 {
			t.Fatalf("got %+v, %v", response, err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		if session == "" {
			session = response.Header.Get("Mcp-Session-Id")
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		response, err := post(ctx, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"act","arguments":{}}}`)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}()
	p := s.asked(t)
	cancel()
	<-ended
	s.lateApproval(t, p.ID, ran)
}

// Whatever a client answers, no more is allowed than it was shown and offered, and
// nothing is saved; one that fails to ask its user is one that cannot (case E27).
//
// Seen to fail: with failures left to the queue.
func TestCaseE27WhatAClientAnswers(t *testing.T) {
	const declined, nobody, cancelled = "declined", "nobody_to_ask", "cancelled"
	accept := func(content map[string]any) func() (*mcp.ElicitResult, error) {
		return func() (*mcp.ElicitResult, error) { return &mcp.ElicitResult{Action: "accept", Content: content}, nil }
	}
	for name, c := range map[string]struct {
		answer func() (*mcp.ElicitResult, error)
		want   string
	}{
		"an error":           {func() (*mcp.ElicitResult, error) { return nil, errors.New("broken") }, nobody},
		"an unknown action":  {func() (*mcp.ElicitResult, error) { return &mcp.ElicitResult{Action: "yes"}, nil }, ""},
		"no action":          {func() (*mcp.ElicitResult, error) { return &mcp.ElicitResult{}, nil }, ""},
		"not in the list":    {accept(map[string]any{formAnswer: "forever"}), ""},
		"missing":            {accept(map[string]any{}), ""},
		"nothing":            {accept(nil), ""},
		"another type":       {accept(map[string]any{formAnswer: true}), ""},
		"always not offered": {accept(map[string]any{formAnswer: "always"}), ""},
		"declined with once": {func() (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "decline", Content: map[string]any{formAnswer: "once"}}, nil
		}, declined},
		"cancelled with once": {func() (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "cancel", Content: map[string]any{formAnswer: "once"}}, nil
		}, cancelled},
		"more than asked for": {accept(map[string]any{formAnswer: "once", "always": true, "save": []string{"*"}}), "ran"},
		"a reason of no type": {accept(map[string]any{formAnswer: "reject", formReason: 7}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			ran := new(recorded)
			act := ran.tool()
			act.Requests = []tool.PermissionRequest{{Action: "program/act", Resources: []string{"*"}}} // with nothing to save
			s := serve(t, Deny, map[string]tool.Tool{"act": act})
			session := s.connect(t, "stdio", withSessions, &mcp.ClientOptions{
				ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) { return c.answer() },
			})
			begun := time.Now()
			result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "act"})
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("took %s", took)
			}
			kind, _ := result.Meta[metaKind].(string)
			if c.want == "ran" {
				ran.wantInputs(t, `{}`)
			} else {
				ran.wantInputs(t)
				if !result.IsError || c.want != "" && kind != c.want {
					t.Errorf("got %s %s", kind, text(result))
				}
			}
			saved, err := s.store.Approvals(t.Context(), state.ApprovalFilter{})
			if err != nil || len(saved) > 0 {
				t.Errorf("saved %+v, %v", saved, err)
			}
			s.settled(t)
		})
	}
}

// What a client answers with is not written to the log at its own length.
//
// Seen to fail: with the error as it is, in which the SDK quotes the answer.
func TestAnswerInTheLog(t *testing.T) {
	var log bytes.Buffer
	act := new(recorded).tool()
	act.Requests = []tool.PermissionRequest{{Action: "program/act", Resources: []string{"*"}}}
	s := serve(t, Deny, map[string]tool.Tool{"act": act}, func(w *setup) { w.log = slog.New(slog.NewTextHandler(&log, nil)) })
	session := s.connect(t, "stdio", withSessions, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{formAnswer: strings.Repeat("long ", 1<<18)}}, nil
		},
	})
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "act"})
	if err != nil || !result.IsError {
		t.Fatalf("got %+v, %v", result, err)
	}
	s.settled(t) // and with it whatever wrote to the log
	if !strings.Contains(log.String(), "could not ask its user") || log.Len() > 2048 {
		t.Errorf("%d bytes in the log: %.200s", log.Len(), &log)
	}
}

// A client that fails to ask, or does not answer, leaves the question to the host where
// that is the fallback; one that hangs holds nothing but its own call.
//
// Seen to fail: with failures that end the question whatever the fallback is.
func TestClientThatFailsToAskWithWait(t *testing.T) {
	for name, hangs := range map[string]bool{"fails": false, "hangs": true} {
		t.Run(name, func(t *testing.T) {
			ran := new(recorded)
			s := serve(t, Wait, map[string]tool.Tool{"act": ran.tool()})
			var called atomic.Bool
			session := s.connect(t, "http", withSessions, &mcp.ClientOptions{
				ElicitationHandler: func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					called.Store(true)
					if hangs {
						<-ctx.Done()
					}
					return nil, errors.New("broken")
				},
			})
			ended := make(chan *mcp.CallToolResult, 1)
			go func() {
				result, err := session.CallTool(context.Background(), &mcp.CallToolParams{Name: "act"})
				if err != nil {
					t.Error(err)
				}
				ended <- result
			}()
			p := s.asked(t)
			eventually(t, func() string {
				if !called.Load() {
					return "the client was not asked"
				}
				return ""
			})
			if result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "list", Arguments: map[string]any{"path": "."}}); err != nil || result.IsError {
				t.Errorf("another call: %+v, %v", result, err)
			}
			if _, err := s.queue.Reply(t.Context(), p.ID, permission.Answer{Kind: permission.Once}); err != nil {
				t.Error(err)
			}
			if result := <-ended; text(result) != "ran" {
				t.Errorf("got %+v", result)
			}
			ran.wantInputs(t, `{}`)
			s.settled(t)
		})
	}
}

// "Always" is offered only with the patterns that are shown, and saves exactly those; the
// next call of another session is not asked about.
//
// Seen to fail: with always offered whether or not there is something to save.
func TestLaw34AlwaysSavesWhatWasShown(t *testing.T) {
	everywhere(t, func(t *testing.T, over, era string) {
		s := serve(t, Deny, nil)
		for _, name := range []string{"/.env", "/.envrc"} {
			if err := os.WriteFile(s.root+name, []byte("SECRET\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var forms []*mcp.ElicitParams
		options := &mcp.ClientOptions{
			ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				forms = append(forms, r.Params)
				answer := "always"
				if len(forms) > 1 {
					answer = "reject"
				}
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{formAnswer: answer}}, nil
			},
		}
		read := func(session *mcp.ClientSession, path string) *mcp.CallToolResult {
			result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "read", Arguments: map[string]any{"path": path}})
			if err != nil {
				t.Fatal(err)
			}
			return result
		}
		if result := read(s.connect(t, over, era, options), ".env"); result.IsError {
			t.Fatalf("got %s", text(result))
		}
		if len(forms) != 1 || !strings.Contains(forms[0].Message, "always   .env\n") {
			t.Fatalf("asked %+v", forms)
		}
		other := s.connect(t, over, era, options)
		if result := read(other, ".env"); result.IsError || len(forms) != 1 {
			t.Errorf("got %s after %d questions", text(result), len(forms))
		}
		if result := read(other, ".envrc"); !result.IsError || len(forms) != 2 {
			t.Errorf("got %s after %d questions", text(result), len(forms))
		}
		saved, err := s.store.Approvals(t.Context(), state.ApprovalFilter{})
		if err != nil || len(saved) != 1 || len(saved[0].Patterns) != 1 || saved[0].Patterns[0] != ".env" {
			t.Errorf("saved %+v, %v", saved, err)
		}
	})
}
