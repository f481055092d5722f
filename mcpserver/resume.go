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

	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// binding is what the state of this request's call is bound to.
func (f *face) binding(req *mcp.CallToolRequest, name string) binding {
	return binding{
		principal: principal(req.Extra), location: f.name, tool: name,
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
func (f *face) resume(ctx context.Context, l *location.Location, req *mcp.CallToolRequest, name string) (*mcp.CallToolResult, error) {
	capture := l.Capture()
	definition := digestOf(capture, name)
	st, err := f.server.seal.open(req.Params.RequestState, f.binding(req, name))
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	c := f.server.options.Approver.resumed(st.Identity, st.Handle)
	if c == nil { // its time is over: what became of it may still be told
		_, c = f.server.options.Approver.begin(ctx, st.Identity, f.asks(req, askLater))
	}
	// What was shown is not what an answer would be for, if the tool is another one now.
	changed := st.Definition != definition
	withdrawn := changed
	for _, id := range st.Asked {
		withdrawn = withdrawn || f.answer(ctx, c, id, req.Params.InputResponses[id])
	}
	var settlement tool.Settlement
	if err = registry.ErrRunning; withdrawn {
		settlement, err = l.Withdraw(ctx, st.Identity.Session, st.Handle)
	}
	if errors.Is(err, registry.ErrRunning) { // also if it was answered elsewhere before it could be withdrawn
		c.tell(f.progress(ctx, req, name))
		settlement, err = l.Resume(ctx, st.Identity.Session, st.Handle, suspendAfter)
		settlement, err = f.untilShown(ctx, l, c, settlement, err)
		c.tell(nil)
	}
	if again, ok := errors.AsType[*tool.Suspension](err); ok {
		return f.inputRequired(req, name, definition, c, again)
	}
	c.end()
	if errors.Is(err, registry.ErrNotSuspended) {
		return lapsed(st.Ran), nil
	}
	result, err := f.result(req, capture, name, st.Identity, settlement, err)
	if changed && result != nil && result.IsError {
		result.Content = append(result.Content, &mcp.TextContent{
			Text: "the tool is gone, or another one, since the question was asked; the answer was not used",
		})
	}
	return result, err
}

// lapsed says that nothing waits for the answers any more, and that they did nothing.
// Whether the call had begun is known up to when it was suspended; it may have been
// approved elsewhere since.
func lapsed(ran bool) *mcp.CallToolResult {
	text := "the call that this answers waits no more: it lapsed, or its plugin or Location ended; these answers ran nothing; "
	meta := mcp.Meta{metaKind: string(tool.KindTimedOut)}
	if ran {
		meta[metaRan] = true
		text += "the call had begun before it asked: look at what it did before you call the tool again"
	} else {
		text += "unless it was approved elsewhere meanwhile, it was not run; call the tool again"
	}
	return &mcp.CallToolResult{IsError: true, Meta: meta, Content: []mcp.Content{&mcp.TextContent{Text: text}}}
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
