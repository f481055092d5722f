package mcpserver

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhost/toolhost/tool"
)

// When as many calls wait for approval as a Location suspends, the client of one more is
// told so at once, in a time that no person takes, and nothing runs; when one of them has
// ended there is room again.
//
// Seen to fail: with the question left to the queue, when the client waits for ever.
func TestLaw37NoRoomForAnotherSuspendedCall(t *testing.T) {
	for _, fallback := range []Fallback{Deny, Wait} {
		t.Run(string(fallback), func(t *testing.T) {
			const room = 256 // the registry's
			ran := new(recorded)
			s := serve(t, fallback, map[string]tool.Tool{"act": ran.tool()})
			session := s.connect(t, "http", withoutSessions, byHand())
			arguments := func(i int) string { return fmt.Sprintf(`{"i":%d}`, i) }
			params, asked := make([]*mcp.CallToolParams, room), make([]*mcp.CallToolResult, room)
			var group sync.WaitGroup
			limit := make(chan struct{}, 16)
			for i := range room {
				group.Go(func() {
					limit <- struct{}{}
					defer func() { <-limit }()
					params[i] = &mcp.CallToolParams{Name: "act", Arguments: json.RawMessage(arguments(i))}
					var err error
					if asked[i], err = session.CallTool(t.Context(), params[i]); err != nil || !asked[i].NeedsInput() {
						t.Errorf("call %d: %+v, %v", i, asked[i], err)
					}
				})
			}
			group.Wait()
			if t.Failed() {
				return
			}
			for i := range 3 {
				begun := time.Now()
				result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "act", Arguments: json.RawMessage(arguments(room + i))})
				if err != nil || !result.IsError || result.Meta[metaKind] != string(tool.KindNobodyToAsk) || !strings.Contains(text(result), noRoom) {
					t.Errorf("got %+v %s, %v", result, text(result), err)
				}
				if took := time.Since(begun); took > 5*time.Second {
					t.Errorf("took %s", took)
				}
			}
			if pending := len(s.queue.Pending()); pending != room {
				t.Errorf("%d questions are left, want %d", pending, room)
			}
			ran.wantInputs(t)
			if result, err := session.CallTool(t.Context(), reply(params[0], asked[0], "accept", "once")); err != nil || text(result) != "ran" {
				t.Errorf("got %+v, %v", result, err)
			}
			again, next := ask(t, session, "act", arguments(room))
			if result, err := session.CallTool(t.Context(), reply(again, next, "accept", "once")); err != nil || text(result) != "ran" {
				t.Errorf("got %+v, %v", result, err)
			}
			ran.wantInputs(t, arguments(0), arguments(room))
		})
	}
}
