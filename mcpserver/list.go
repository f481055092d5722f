package mcpserver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"sort"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// pageSize is how many tools a page of the list has.
const pageSize = 500

// anyObject is the schema of any object.
var anyObject = json.RawMessage(`{"type":"object"}`)

// definition is a tool as the protocol says it.
func definition(d tool.Definition) *mcp.Tool {
	t := &mcp.Tool{
		Name: d.Name, Title: d.Title, Description: d.Description, InputSchema: d.Input, Annotations: annotations(d),
		Meta: mcp.Meta{metaID: d.ID},
	}
	if declares(d) {
		t.OutputSchema = d.Output
	}
	return t
}

// declares says whether clients are told what the structured value of a tool is. They are
// to be given it then with every result, and many give their model nothing else; so not
// where a tool has content of its own, which is what a model is to read, nor of a string,
// which is given as text.
func declares(d tool.Definition) bool {
	return len(d.Output) > 0 && !d.Projected && !describesAll(d.Output, "string")
}

// withoutValues takes from a tool what the era with sessions does not know: structured
// values that are no objects, of which its clients refuse the whole list.
func withoutValues(t *mcp.Tool) *mcp.Tool {
	if schema, ok := t.OutputSchema.(json.RawMessage); ok && !describesObject(schema) {
		t.OutputSchema = nil
	}
	return t
}

// describesObject reports whether all that a schema allows are objects.
func describesObject(schema json.RawMessage) bool { return describesAll(schema, "object") }

// describesAll reports whether all that a schema allows is of that type.
func describesAll(schema json.RawMessage, of string) bool {
	var described struct {
		Type any `json:"type"`
	}
	return json.Unmarshal(schema, &described) == nil && described.Type == of
}

// annotations are hints, from the effects that the tool declares. Only what can be
// undone, and changes nothing but the Location, is not destructive.
func annotations(d tool.Definition) *mcp.ToolAnnotations {
	readOnly := d.Effects.Beyond(tool.Read) == 0
	open := d.Effects.Has(tool.Network) || d.Effects.Has(tool.Process) || d.Effects.Has(tool.Delegation)
	destructive := !readOnly && (d.Irreversible || d.Effects.Beyond(tool.Read|tool.Write) != 0)
	return &mcp.ToolAnnotations{
		Title: d.Title, ReadOnlyHint: readOnly, IdempotentHint: readOnly, DestructiveHint: &destructive, OpenWorldHint: &open,
	}
}

// list answers tools/list with a page of a capture. In the first era the first page
// takes a new one for the session, and the further pages are of that.
func (f *face) list(ctx context.Context, method string, req *mcp.ListToolsRequest, next mcp.MethodHandler) (mcp.Result, error) {
	cursor := ""
	if req.Params != nil {
		cursor = req.Params.Cursor
	}
	after, ok := pageOf(cursor)
	if !ok {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the cursor is none of this server's: begin without one"}
	}
	l, err := f.now(ctx)
	if err != nil {
		return nil, unserved(err)
	}
	var definitions []tool.Definition // sorted by name
	if sessionless(req) {
		definitions = l.Capture().Definitions()
	} else {
		definitions = f.captures.forList(f.sdk, req.Session, l, after != "").Definitions()
	}
	// What the SDK adds to a result is its own affair; the tools are not.
	params := mcp.ListToolsParams{}
	if req.Params != nil {
		params.Meta = req.Params.Meta
	}
	result, err := next(ctx, method, &mcp.ListToolsRequest{Session: req.Session, Params: &params, Extra: req.Extra})
	if err != nil {
		return nil, err
	}
	page, ok := result.(*mcp.ListToolsResult)
	if !ok {
		return result, nil
	}
	begin := sort.Search(len(definitions), func(i int) bool { return definitions[i].Name > after })
	end := min(begin+pageSize, len(definitions))
	page.Tools, page.NextCursor = make([]*mcp.Tool, 0, end-begin), ""
	for _, d := range definitions[begin:end] {
		t := definition(d)
		if !sessionless(req) {
			t = withoutValues(t)
		}
		page.Tools = append(page.Tools, t)
	}
	if end < len(definitions) {
		page.NextCursor = cursorOf(definitions[end-1].Name)
	}
	return page, nil
}

// cursorPrefix begins every cursor before it is encoded, to tell those of this server.
const cursorPrefix = "tools:"

// cursorOf is of the page that begins after the tool of that name: so whatever comes and
// goes between two pages, no tool is listed twice, and one that stays is listed (case E09).
func cursorOf(name string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(cursorPrefix + name))
}

// pageOf is the name after which the page of a cursor begins; it is empty for the first.
func pageOf(cursor string) (after string, ok bool) {
	if cursor == "" {
		return "", true
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return "", false
	}
	after, ok = strings.CutPrefix(string(text), cursorPrefix)
	return after, ok && after != "" && cursorOf(after) == cursor
}

// captures are those of the sessions, as their last lists showed them.
type captures struct {
	mu  sync.Mutex
	all map[*mcp.ServerSession]captured // under mu
}

// forList is the capture that a page of the list is of: now's, or for a further page
// that of the first, if that is of the same Location.
func (c *captures) forList(sdk *mcp.Server, session *mcp.ServerSession, l *location.Location, further bool) captured {
	now := capture(l)
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.all[session]; further && last.location == l {
		return last
	}
	if c.all == nil {
		c.all = map[*mcp.ServerSession]captured{}
	}
	c.all[session] = now
	c.prune(sdk)
	return now
}

// forCall is the capture that a session's call of a tool runs in a Location, or now's if it
// never listed. The error says that there is none any more.
func (c *captures) forCall(session *mcp.ServerSession, l *location.Location, name string) (*registry.Capture, *tool.Error) {
	c.mu.Lock()
	last, listed := c.all[session]
	c.mu.Unlock()
	switch {
	case !listed:
		return l.Capture(), nil
	case last.location == l:
		return last.Capture, nil
	}
	return last.in(l, name)
}

// prune forgets the captures of sessions that have ended, when those may be the most of
// them. c.mu is held.
func (c *captures) prune(sdk *mcp.Server) {
	live := map[*mcp.ServerSession]bool{}
	for session := range sdk.Sessions() {
		live[session] = true
	}
	if len(c.all) < 2*len(live)+16 {
		return
	}
	for session := range c.all {
		if !live[session] {
			delete(c.all, session)
		}
	}
}

// mirror is what the SDK was told of the tools. It needs their schemas to check the
// headers of a request, and says by itself that the list changed; it never runs one.
type mirror struct {
	mu    sync.Mutex
	known map[string]tool.Definition // under mu
}

// mirrorTools tells the SDK what changed.
func (f *face) mirrorTools() {
	f.mirror.mu.Lock()
	defer f.mirror.mu.Unlock()
	now := map[string]tool.Definition{}
	for _, d := range f.location().Capture().Definitions() {
		now[d.Name] = d
		if known, ok := f.mirror.known[d.Name]; !ok || !sameDefinition(known, d) {
			f.addTool(definition(d))
		}
	}
	var gone []string
	for name := range f.mirror.known {
		if _, ok := now[name]; !ok {
			gone = append(gone, name)
		}
	}
	if len(gone) > 0 {
		f.sdk.RemoveTools(gone...)
	}
	f.mirror.known = now
}

// addTool tells the SDK of a tool. It panics at what it refuses, of which a plugin's
// schema may have some: then it is told of one without a schema, and checks no headers.
func (f *face) addTool(t *mcp.Tool) {
	defer func() {
		if refused := recover(); refused != nil {
			f.log.Warn("the input schema of a tool is not for headers", slog.String("tool", t.Name), slog.Any("error", refused))
			f.sdk.AddTool(&mcp.Tool{Name: t.Name, InputSchema: anyObject}, f.call)
		}
	}()
	f.sdk.AddTool(t, f.call)
}

// initializedFirst sends no change of a list to a client that has not initialized, or has
// not asked for it in the era without sessions (case E06).
func initializedFirst(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		params, changed := req.GetParams().(*mcp.ToolListChangedParams)
		session, ok := req.GetSession().(*mcp.ServerSession)
		if changed && ok && session.InitializeParams() == nil && params.Meta[mcp.MetaKeySubscriptionID] == nil {
			return nil, nil
		}
		return next(ctx, method, req)
	}
}

func sameDefinition(a, b tool.Definition) bool {
	return a.ID == b.ID && a.Title == b.Title && a.Description == b.Description && a.Effects == b.Effects &&
		a.Irreversible == b.Irreversible && a.Projected == b.Projected && string(a.Input) == string(b.Input) && string(a.Output) == string(b.Output)
}

// follow mirrors the tools of the Locations that the face has, one after another, until ctx
// is over.
func (f *face) follow(ctx context.Context) error {
	for ctx.Err() == nil {
		f.followOne(ctx, f.location())
	}
	return nil
}

// followOne mirrors the tools of a Location until another one takes its place.
func (f *face) followOne(ctx context.Context, l *location.Location) {
	changes, stop := l.Subscribe()
	defer stop()
	f.mirrorTools() // what changed before
	for {
		select {
		case <-changes:
			// That its tools go is not told where others are about to take their place.
			if !l.Closed() || !f.awaiting.Load() {
				f.mirrorTools()
			}
		case <-f.moved:
			return
		case <-ctx.Done():
			return
		}
	}
}
