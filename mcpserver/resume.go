package mcpserver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// binding is what the state of this request's call is bound to.
func (f *face) binding(req *mcp.CallToolRequest, name, definition string) binding {
	return binding{
		principal: principal(req.Extra), location: f.location.Name(), tool: name, definition: definition,
		arguments: sha256.Sum256(canonical(req.Params.Arguments)),
	}
}

// canonical is the same for the same arguments, however a client spells them.
func canonical(arguments json.RawMessage) []byte {
	decoder := json.NewDecoder(bytes.NewReader(arguments))
	decoder.UseNumber() // 1 and 1.0 may be two things to a tool
	var value any
	if decoder.Decode(&value) != nil || value == nil {
		value = map[string]any{}
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return arguments
	}
	return encoded
}

// resume goes on with a suspended call: it answers what the client brings the answers
// of, and waits for the call's end or its next question (law 37).
func (f *face) resume(ctx context.Context, req *mcp.CallToolRequest, name string) (*mcp.CallToolResult, error) {
	definition := digestOf(f.location.Capture(), name)
	st, err := f.server.seal.open(req.Params.RequestState, f.binding(req, name, definition))
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	c := f.server.options.Approver.of(st.Identity)
	if c == nil { // its time is over: what became of it may still be told
		c = f.server.options.Approver.begin(st.Identity, asks(req, askLater))
	}
	for _, id := range st.Asked {
		if dismissed := f.answer(ctx, c, id, req.Params.InputResponses[id]); dismissed {
			settlement, err := f.location.Withdraw(ctx, st.Identity.Session, st.Handle)
			c.end()
			return f.outcome(req, name, st.Identity, settlement, err)
		}
	}
	c.tell(f.progress(ctx, req, name))
	settlement, err := f.location.Resume(ctx, st.Identity.Session, st.Handle, suspendAfter)
	c.tell(nil)
	if again, ok := errors.AsType[*tool.Suspension](err); ok {
		return f.inputRequired(req, name, definition, c, again)
	}
	c.end()
	return f.outcome(req, name, st.Identity, settlement, err)
}

// outcome is result, for a call that may be gone.
func (f *face) outcome(req *mcp.CallToolRequest, name string, identity tool.Identity, s tool.Settlement, err error) (*mcp.CallToolResult, error) {
	if errors.Is(err, registry.ErrNotSuspended) {
		return lapsed(), nil
	}
	return f.result(req, name, identity, s, err)
}

// lapsed says that nothing waits for the answers any more. Nothing was done.
func lapsed() *mcp.CallToolResult {
	return &mcp.CallToolResult{
		IsError: true, Meta: mcp.Meta{metaKind: string(tool.KindTimedOut), metaRan: false},
		Content: []mcp.Content{&mcp.TextContent{
			Text: "the call that this answers waits no more: it lapsed, or its plugin or Location ended; it was not run; call the tool again",
		}},
	}
}

// answer answers one question with what the client brought, and reports whether its
// user dismissed it. A question without an answer is asked again.
func (f *face) answer(ctx context.Context, c *conversation, id string, response mcp.InputResponse) (dismissed bool) {
	result, ok := response.(*mcp.ElicitResult)
	if !ok || result == nil {
		return false
	}
	queue := f.server.options.Approver.queue
	p, pending := queue.Find(id)
	if !pending || !slices.Contains(c.waiting(), id) {
		return false // it was answered elsewhere
	}
	answer, said := answerOf(result, p, c.asking.by)
	if !said {
		return true
	}
	if _, err := queue.Reply(ctx, id, answer); err != nil && !errors.Is(err, permission.ErrNotPending) {
		f.log.Warn("the client's answer was not taken", slog.String("request", id), slog.Any("error", err))
	}
	return false
}
