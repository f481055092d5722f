package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/plugin/client"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/state"
	"github.com/toolhost/toolhost/tool"
)

// prepared is a tool whose calls ask about each of the resources, in order, and report
// progress when they are prepared and when they are committed.
func prepared(committed *atomic.Int64, resources ...string) tool.Tool {
	preparation := tool.Preparation{}
	for _, resource := range resources {
		preparation.Requests = append(preparation.Requests, tool.PermissionRequest{Action: "program/act", Resources: []string{resource}})
	}
	return tool.Tool{
		Description: "for a test", Input: anyObject,
		Prepare: func(_ context.Context, call tool.Call) (tool.Preparation, error) {
			p := preparation
			p.Action = &tool.Action{
				Commit: func(_ context.Context, call tool.Call) (tool.Result, error) {
					committed.Add(1)
					if call.Progress != nil {
						call.Progress(tool.Progress{Done: 1, Total: 2})
						call.Progress(tool.Progress{Done: 2, Total: 2})
					}
					return tool.Result{Output: json.RawMessage(`"committed"`)}, nil
				},
				Discard: func(context.Context) {},
			}
			return p, nil
		},
		Execute: func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Result{Output: json.RawMessage(`"executed"`)}, nil
		},
	}
}

// Two questions of one prepared call take two rounds; progress goes to the request that
// waits when there is some, under its token alone.
//
// Seen to fail: with a state of the first round that is given again; with the progress
// of the first request.
func TestLaw37TwoQuestionsInTwoRounds(t *testing.T) {
	overEach(t, func(t *testing.T, over string) {
		var committed atomic.Int64
		var mu sync.Mutex
		var told []string
		s := serve(t, Deny, map[string]tool.Tool{"act": prepared(&committed, "one", "two")})
		options := byHand()
		options.ProgressNotificationHandler = func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprintf("%v: %v", r.Params.ProgressToken, r.Params.Progress))
		}
		session := s.connect(t, over, withoutSessions, options)
		params := &mcp.CallToolParams{Name: "act", Arguments: json.RawMessage(`{}`)}
		for round, resource := range []string{"one", "two"} {
			params.SetProgressToken(fmt.Sprint("token ", round))
			asked, err := session.CallTool(t.Context(), params)
			if err != nil || len(asked.InputRequests) != 1 {
				t.Fatalf("round %d: %+v, %v", round, asked, err)
			}
			for _, request := range asked.InputRequests {
				if form := request.(*mcp.ElicitParams); !strings.Contains(form.Message, "on       "+resource) {
					t.Errorf("round %d asks %s", round, form.Message)
				}
			}
			params = reply(params, asked, "accept", "once")
			params.Meta = nil
		}
		params.SetProgressToken("token 2")
		result, err := session.CallTool(t.Context(), params)
		if err != nil || text(result) != "committed" || committed.Load() != 1 {
			t.Errorf("got %+v %s, %v; committed %d times", result, text(result), err, committed.Load())
		}
		eventually(t, func() string {
			mu.Lock()
			defer mu.Unlock()
			if got := strings.Join(told, ","); got != "token 2: 1,token 2: 2" {
				return "told " + got
			}
			return ""
		})
		s.settled(t)
	})
}

// A prepared action dies with its process: an approval after that has ended commits
// nothing, and says so.
//
// Seen to fail: with a plugin that is not killed.
func TestLaw26PluginEndedWhileAsked(t *testing.T) {
	s := serve(t, Deny, nil, func(w *setup) { w.plugins = []config.Plugin{{Name: "preparing", Builtin: "preparing"}} })
	session := s.connect(t, "http", withoutSessions, byHand())
	params, asked := ask(t, session, "commit", `{"message":"x"}`)
	pid := 0
	for _, p := range s.location(t, "a").Plugins() {
		if p.Name == "preparing" {
			pid = p.Pid
		}
	}
	if pid <= 0 || pid == os.Getpid() {
		t.Fatalf("the plugin is process %d", pid)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		for _, p := range s.location(t, "a").Plugins() {
			if p.Name == "preparing" && (p.Pid != pid || p.State != client.Ready) {
				return ""
			}
		}
		return fmt.Sprintf("the plugin runs on: %+v", s.location(t, "a").Plugins())
	})
	result, err := session.CallTool(t.Context(), reply(params, asked, "accept", "once"))
	if err != nil {
		t.Fatal(err)
	}
	got := text(result)
	if !result.IsError || strings.Contains(got, "committed") || strings.Contains(got, "executed") || result.Meta[metaRan] != false ||
		!strings.Contains(got, "the answer was not used") {
		t.Errorf("got %+v %s", result, got)
	}
	s.settled(t)
}

// A call that is identical to one that is asked about waits for it, and when that takes
// long is asked about by itself: nobody knows whether the other one's client is there
// any more. The answer to one of them is none to the other (case C13).
//
// Seen to fail: with a call that goes on waiting for the other; with a state that is good
// for what was asked of another call.
func TestCaseC13IdenticalCallIsAskedByItself(t *testing.T) {
	ran := new(recorded)
	s := serve(t, Deny, map[string]tool.Tool{"act": ran.tool()})
	s.options.Approver.patience = 100 * time.Millisecond
	session := s.connect(t, "http", withoutSessions, byHand())
	first, askedFirst := ask(t, session, "act", `{}`)
	second, askedSecond := ask(t, session, "act", `{}`)
	if len(askedFirst.InputRequests) != 1 || len(askedSecond.InputRequests) != 1 {
		t.Fatalf("asked %+v and %+v", askedFirst.InputRequests, askedSecond.InputRequests)
	}
	// The answer of the first is none to the second, which is asked again.
	stolen := reply(first, askedFirst, "accept", "once")
	stolen.RequestState = askedSecond.RequestState
	again, err := session.CallTool(t.Context(), stolen)
	if err != nil || len(again.InputRequests) != 1 {
		t.Fatalf("got %+v, %v", again, err)
	}
	ran.wantInputs(t)
	if result, err := session.CallTool(t.Context(), reply(second, again, "accept", "reject")); err != nil || !result.IsError {
		t.Errorf("got %+v, %v", result, err)
	}
	ran.wantInputs(t)
	if result, err := session.CallTool(t.Context(), reply(first, askedFirst, "accept", "once")); err != nil || text(result) != "ran" {
		t.Errorf("got %+v, %v", result, err)
	}
	ran.wantInputs(t, `{}`)
	s.settled(t)
}

// A burst of identical calls asks one question at a time, in each era, and "always" ends
// it (case C13).
//
// Seen to fail: with clients that are told to try again while an identical call is asked
// about, who give up; with a queue that shows all.
func TestCaseC13Burst(t *testing.T) {
	everywhere(t, func(t *testing.T, over, era string) {
		const calls = 10
		s := serve(t, Deny, nil)
		if err := os.WriteFile(s.root+"/.env", []byte("SECRET=1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var questions, atOnce atomic.Int64
		session := s.connect(t, over, era, &mcp.ClientOptions{
			ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				n := questions.Add(1)
				if atOnce.Add(1) > 1 {
					t.Error("asked two questions at once")
				}
				defer atOnce.Add(-1)
				time.Sleep(100 * time.Millisecond) // a person reads
				answer := permission.Once
				if n == 3 {
					answer = permission.Always
				}
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{formAnswer: string(answer)}}, nil
			},
		})
		var group sync.WaitGroup
		for range calls {
			group.Go(func() {
				// One session, whatever the connections are.
				result, err := session.CallTool(t.Context(), &mcp.CallToolParams{
					Name: "read", Arguments: map[string]any{"path": ".env"}, Meta: mcp.Meta{metaSession: "s"},
				})
				if err != nil || result.IsError || !strings.Contains(text(result), "SECRET=1") {
					t.Errorf("got %+v, %v", result, err)
				}
			})
		}
		group.Wait()
		if got := questions.Load(); got != 3 {
			t.Errorf("asked %d questions, want 3", got)
		}
		saved, err := s.store.Approvals(t.Context(), state.ApprovalFilter{})
		if err != nil || len(saved) != 1 || fmt.Sprint(saved[0].Patterns) != "[.env]" {
			t.Errorf("saved %+v, %v", saved, err)
		}
		s.settled(t)
	})
}

// Two hundred calls may wait for their answers at once, with states of a bounded size,
// however long the ids; each runs once, with its own arguments.
//
// Seen to fail: with the handle of a conversation that is not compared.
func TestLaw37ManySuspendedCalls(t *testing.T) {
	calls := load(200, 64)
	ran := new(recorded)
	s := serve(t, Deny, map[string]tool.Tool{"act": ran.tool()})
	session := s.connect(t, "http", withoutSessions, byHand())
	meta := func(i int) mcp.Meta {
		long := strings.Repeat("\x01", 250)
		return mcp.Meta{metaSession: long, metaAgent: long, metaMessage: long, metaCall: fmt.Sprint(long, i)}
	}
	var group sync.WaitGroup
	limit := make(chan struct{}, 32)
	asked := make([]*mcp.CallToolResult, calls)
	params := make([]*mcp.CallToolParams, calls)
	each := func(do func(i int)) {
		for i := range calls {
			group.Go(func() {
				limit <- struct{}{}
				defer func() { <-limit }()
				do(i)
			})
		}
		group.Wait()
	}
	each(func(i int) {
		params[i] = &mcp.CallToolParams{Name: "act", Arguments: json.RawMessage(fmt.Sprintf(`{"i":%d}`, i)), Meta: meta(i)}
		var err error
		if asked[i], err = session.CallTool(t.Context(), params[i]); err != nil || len(asked[i].InputRequests) != 1 {
			t.Errorf("call %d: %+v, %v", i, asked[i], err)
			return
		}
		if n := len(asked[i].RequestState); n > 12<<10 {
			t.Errorf("a state of %d bytes", n)
		}
	})
	if t.Failed() {
		return
	}
	ran.wantInputs(t)
	each(func(i int) {
		answer := "once"
		if i%2 == 1 {
			answer = "reject"
		}
		if result, err := session.CallTool(t.Context(), reply(params[i], asked[i], "accept", answer)); err != nil || result.IsError != (i%2 == 1) {
			t.Errorf("call %d: %+v, %v", i, result, err)
		}
	})
	seen := map[string]int{}
	for _, input := range ran.inputs() {
		seen[input]++
	}
	for i := range calls {
		if got, want := seen[fmt.Sprintf(`{"i":%d}`, i)], 1-i%2; got != want {
			t.Errorf("call %d ran %d times, want %d", i, got, want)
		}
	}
	s.settled(t)
}

// Calls with the same ids stay apart: a person is asked about the call of their client,
// and answers that one (case C15).
func TestCaseC15EqualIds(t *testing.T) {
	everywhere(t, func(t *testing.T, over, era string) {
		ran := new(recorded)
		s := serve(t, Deny, map[string]tool.Tool{"act": ran.tool()})
		ids := mcp.Meta{metaSession: "s", metaAgent: "a", metaMessage: "m", metaCall: "1"}
		var group sync.WaitGroup
		both := make(chan struct{})
		var asked atomic.Int64
		for i := range 2 {
			session := s.connect(t, over, era, &mcp.ClientOptions{
				ElicitationHandler: func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					if asked.Add(1) == 2 {
						close(both)
					}
					select {
					case <-both:
					case <-ctx.Done():
						return nil, ctx.Err()
					}
					if want := fmt.Sprintf(`{"client":%d}`, i); !strings.Contains(r.Params.Message, want) {
						t.Errorf("client %d is asked %s", i, r.Params.Message)
					}
					answer := []string{"once", "reject"}[i]
					return &mcp.ElicitResult{Action: "accept", Content: map[string]any{formAnswer: answer}}, nil
				},
			})
			group.Go(func() {
				result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "act", Arguments: map[string]any{"client": i}, Meta: maps.Clone(ids)}) // the client writes in it
				if err != nil || result.IsError != (i == 1) {
					t.Errorf("client %d: %+v, %v", i, result, err)
				}
			})
		}
		group.Wait()
		ran.wantInputs(t, `{"client":0}`)
		s.settled(t)
	})
}
