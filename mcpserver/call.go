package mcpserver

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// suspendAfter is how long a call of the era without sessions waits for a person before
// its client is given the questions: as good as not at all, but an answer that is there
// already needs no second request.
const suspendAfter = 20 * time.Millisecond

// call runs one call. It is the handler of every tool that the SDK knows.
func (f *face) call(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	name, ok := ctx.Value(calledKey{}).(string)
	if !ok { // only the middleware calls this
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the call has no tool"}
	}
	l, err := f.now(ctx)
	if err != nil {
		return f.unavailable(ctx, req, name, err)
	}
	if sessionless(req) {
		return f.callSessionless(ctx, l, req, name)
	}
	identity, err := f.identity(req)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	capture, gone := f.captures.forCall(req.Session, l, name)
	if gone != nil {
		return f.unavailable(ctx, req, name, gone)
	}
	ctx, conversation := f.server.options.Approver.begin(ctx, identity, f.asks(req, askNow))
	defer conversation.end()
	conversation.tell(f.progress(ctx, req, name))
	settlement, err := capture.Call(ctx, request(req, identity, name, conversation))
	conversation.tell(nil)
	return f.result(req, capture, name, identity, settlement, err)
}

// unavailable is the result of a call that was not begun, as there is nothing that runs it.
func (f *face) unavailable(ctx context.Context, req *mcp.CallToolRequest, name string, err error) (*mcp.CallToolResult, error) {
	why, ok := errors.AsType[*tool.Error](err)
	if !ok {
		return nil, err
	}
	identity, err := f.identity(req)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	return f.result(req, nil, name, identity, tool.Settlement{Status: why.Kind.Status(), Error: why}, context.Cause(ctx))
}

// request is the call as the registry takes it.
func request(req *mcp.CallToolRequest, identity tool.Identity, name string, c *conversation) registry.Request {
	return registry.Request{Identity: identity, Name: name, Input: req.Params.Arguments, Instructions: true, Progress: c.report}
}

// progress tells a client how far its call is, if it wants to know.
func (f *face) progress(ctx context.Context, req *mcp.CallToolRequest, name string) func(tool.Progress) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return nil
	}
	last := math.Inf(-1)
	return func(p tool.Progress) { // one at a time
		if p.Done <= last { // preparing and running each count from the beginning
			return
		}
		last = p.Done
		err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: token, Progress: p.Done, Total: p.Total, Message: p.Message,
		})
		if err != nil && ctx.Err() == nil {
			f.log.Debug("progress was not told", slog.String("tool", name), slog.Any("error", err))
		}
	}
}

// callSessionless runs a call of the era without sessions, or goes on with one that
// waits for the answers which this request brings.
func (f *face) callSessionless(ctx context.Context, l *location.Location, req *mcp.CallToolRequest, name string) (*mcp.CallToolResult, error) {
	if req.Params.RequestState != "" {
		return f.resume(ctx, l, req, name)
	}
	identity, err := f.identity(req)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	capture := l.Capture()
	ctx, conversation := f.server.options.Approver.begin(ctx, identity, f.asks(req, askLater))
	conversation.tell(f.progress(ctx, req, name))
	call := request(req, identity, name, conversation)
	if conversation.asking.how == askLater {
		call.SuspendAfter = suspendAfter
	}
	settlement, err := capture.Call(ctx, call)
	if _, ok := errors.AsType[*tool.Suspension](err); ok {
		conversation.leave()
	}
	settlement, err = f.untilShown(ctx, l, conversation, settlement, err)
	conversation.tell(nil)
	if suspended, ok := errors.AsType[*tool.Suspension](err); ok {
		return f.inputRequired(req, name, digestOf(capture, name), conversation, suspended)
	}
	conversation.end()
	return f.result(req, capture, name, identity, settlement, err)
}
