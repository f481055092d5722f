package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhost/toolhost/tool"
)

// untilOver is a tool that runs until its call is over, and counts those that run.
func untilOver(running *atomic.Int64) tool.Tool {
	return tool.Tool{Description: "for a test", Input: anyObject, Execute: func(ctx context.Context, _ tool.Call) (tool.Result, error) {
		running.Add(1)
		defer running.Add(-1)
		<-ctx.Done()
		return tool.Result{}, context.Cause(ctx)
	}}
}

// A call runs for whom the client says, exactly; what it does not say is made here and
// marked so (law 12).
//
// Seen to fail: with HostMade always false; with ids that are trimmed; with a message
// that is made though one was said.
func TestLaw12Identity(t *testing.T) {
	everywhere(t, func(t *testing.T, over, era string) {
		ran := new(recorded)
		s := serve(t, Deny, map[string]tool.Tool{"act": ran.tool()}, allowed)
		session := s.connect(t, over, era, nil)
		call := func(meta mcp.Meta) (tool.Identity, error) {
			result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "act", Meta: meta})
			if err != nil {
				return tool.Identity{}, err
			}
			got := ran.calls[len(ran.calls)-1].Identity
			if said := result.Meta[metaCall]; said != got.Call {
				t.Errorf("the result is of call %v, not %s", said, got.Call)
			}
			return got, nil
		}
		whole := tool.Identity{Session: " s ", Agent: "A/b", Message: "m\n1", Call: "é"}
		got, err := call(mcp.Meta{metaSession: whole.Session, metaAgent: whole.Agent, metaMessage: whole.Message, metaCall: whole.Call})
		if err != nil || got != whole {
			t.Errorf("got %+v, %v, want %+v", got, err, whole)
		}
		got, err = call(mcp.Meta{metaMessage: "m", metaCall: "c"})
		if err != nil || !got.HostMade || got.Session == "" || got.Agent != "tester" || got.Message != "m" || got.Call != "c" {
			t.Errorf("got %+v, %v", got, err)
		}
		first, err := call(nil)
		if err != nil || !first.HostMade || first.Session != got.Session || first.Message != first.Call {
			t.Errorf("got %+v, %v", first, err)
		}
		if second, err := call(nil); err != nil || second.Call == first.Call || second.Session != first.Session {
			t.Errorf("got %+v after %+v, %v", second, first, err)
		}
		for _, wrong := range []mcp.Meta{{metaCall: 7}, {metaSession: strings.Repeat("x", tool.MaxID+1)}, {metaAgent: []string{"a"}}} {
			before := len(ran.inputs())
			if _, err := call(wrong); err == nil || len(ran.inputs()) != before {
				t.Errorf("%v was taken: %v", wrong, err)
			} else if got, _ := code(err); got != jsonrpc.CodeInvalidParams {
				t.Errorf("%v: %v", wrong, err)
			}
		}
	})
}

// Progress is told with the client's token, only growing, and none where there is no
// token.
//
// Seen to fail: with progress that is passed on as it comes; with a token made up.
func TestProgress(t *testing.T) {
	everywhere(t, func(t *testing.T, over, era string) {
		var mu sync.Mutex
		var told []string
		s := serve(t, Deny, map[string]tool.Tool{"act": {
			Description: "for a test", Input: anyObject,
			Prepare: func(_ context.Context, call tool.Call) (tool.Preparation, error) {
				if call.Progress != nil {
					call.Progress(tool.Progress{Done: 2})
				}
				return tool.Preparation{}, nil
			},
			Execute: func(_ context.Context, call tool.Call) (tool.Result, error) {
				for _, done := range []float64{1, 2, 3, 3, 2, 5} {
					call.Progress(tool.Progress{Done: done, Total: 5, Message: "m"})
				}
				return tool.Result{Output: json.RawMessage(`"done"`)}, nil
			},
		}}, allowed)
		session := s.connect(t, over, era, &mcp.ClientOptions{
			ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, fmt.Sprintf("%v:%v", r.Params.ProgressToken, r.Params.Progress))
			},
		})
		for _, token := range []any{nil, "t"} {
			params := &mcp.CallToolParams{Name: "act"}
			if token != nil {
				params.SetProgressToken(token)
			}
			if result, err := session.CallTool(t.Context(), params); err != nil || result.IsError {
				t.Errorf("got %+v, %v", result, err)
			}
		}
		eventually(t, func() string {
			mu.Lock()
			defer mu.Unlock()
			got := strings.Join(told, " ")
			if got != "t:2 t:3 t:5" && got != "t:1 t:2 t:3 t:5" {
				return "told " + got
			}
			return ""
		})
	})
}

// A call that its client gives up ends its executor; a thousand of them leave nothing
// behind (case E10).
//
// Seen to fail: with an executor in a context that does not end; with conversations that
// are not ended.
func TestCaseE10ManyCancelled(t *testing.T) {
	everywhere(t, func(t *testing.T, over, era string) {
		cycles := load(250, 60)
		var running atomic.Int64
		s := serve(t, Deny, map[string]tool.Tool{"wait": untilOver(&running), "say": says("hello")}, allowed)
		session := s.connect(t, over, era, nil)
		cycle := func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { // when its executor runs; see TestCaseE10CancelledAtOnce
				for running.Load() == 0 && ctx.Err() == nil {
					time.Sleep(100 * time.Microsecond)
				}
				cancel()
			}()
			if result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "wait"}); err == nil || !errors.Is(err, context.Canceled) {
				t.Errorf("got %+v, %v", result, err)
			}
			eventually(t, func() string {
				if running.Load() > 0 {
					return "the executor runs on"
				}
				return ""
			})
		}
		quiet := func() int {
			eventually(t, func() string {
				if n := running.Load(); n > 0 {
					return fmt.Sprintf("%d executors run", n)
				}
				return ""
			})
			s.settled(t)
			return runtime.NumGoroutine()
		}
		cycle()
		before := quiet()
		for range cycles {
			cycle()
		}
		eventually(t, func() string {
			if after := quiet(); after > before+20 {
				return fmt.Sprintf("%d goroutines, then %d", before, after)
			}
			return ""
		})
		if result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "say"}); err != nil || text(result) != "hello" {
			t.Errorf("after it: %+v, %v", result, err)
		}
	})
}

// A call that is cancelled about when it ends has one end, and harms no other (case E11).
func TestCaseE11CancelRacesTheEnd(t *testing.T) {
	everywhere(t, func(t *testing.T, over, era string) {
		s := serve(t, Deny, map[string]tool.Tool{"nap": {
			Description: "for a test", Input: anyObject, Execute: func(ctx context.Context, _ tool.Call) (tool.Result, error) {
				select {
				case <-time.After(5 * time.Millisecond):
				case <-ctx.Done():
				}
				return tool.Result{Output: json.RawMessage(`"done"`)}, nil
			},
		}}, allowed)
		session := s.connect(t, over, era, nil)
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				for i := range 40 {
					ctx, cancel := context.WithTimeout(t.Context(), 4*time.Millisecond+time.Duration(i%20)*100*time.Microsecond)
					result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "nap"})
					if err == nil && text(result) != "done" || err != nil && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("got %+v, %v", result, err)
					}
					cancel()
				}
			})
		}
		group.Wait()
		if result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "nap"}); err != nil || text(result) != "done" {
			t.Errorf("after it: %+v, %v", result, err)
		}
		s.settled(t)
	})
}

// A session's call runs what its last list showed, or fails as unavailable, and never
// another tool; in the era without sessions it runs what there is at the call (law 7).
//
// Seen to fail: with calls of the capture of now in the first era.
func TestLaw07CapturedAtTheList(t *testing.T) {
	everywhere(t, func(t *testing.T, over, era string) {
		s := serve(t, Deny, map[string]tool.Tool{"act": says("old")}, allowed)
		session := s.connect(t, over, era, nil)
		call := func() (string, error) {
			result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "act"})
			if err != nil {
				return "", err
			}
			return text(result), nil
		}
		list := func() {
			if _, err := session.ListTools(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		list()
		next, err := s.host.Register("program", map[string]tool.Tool{"act": says("new")})
		if err != nil {
			t.Fatal(err)
		}
		got, err := call()
		if want := map[string]string{withSessions: "old", withoutSessions: "new"}[era]; err != nil || got != want {
			t.Errorf("re-registered: got %s, %v, want %s", got, err, want)
		}
		list()
		if got, err := call(); err != nil || got != "new" {
			t.Errorf("listed again: got %s, %v", got, err)
		}
		next.Close()
		s.program.Close()
		got, err = call()
		if era == withoutSessions {
			if code, _ := code(err); code != jsonrpc.CodeInvalidParams && !strings.Contains(got, "unavailable") {
				t.Errorf("gone: got %s, %v", got, err)
			}
		} else if err != nil || got != "new" && !strings.Contains(got, "unavailable") {
			t.Errorf("gone: got %s, %v", got, err)
		}
	})
}
