package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/output"
)

// outputScheme begins the addresses of kept outputs.
const outputScheme = "toolhost://outputs/"

// The keys of the _meta of a part, all in bytes: where it begins, how many it has, how
// many the whole has, and where the next part begins. The last is absent at the end.
const (
	metaOffset = "toolhost/offset"
	metaBytes  = "toolhost/bytes"
	metaSize   = "toolhost/size"
	metaNext   = "toolhost/next_offset"
)

// outputLink is where the whole of an output can be read.
func outputLink(kept tool.Retained) mcp.Content {
	size := kept.Bytes
	return &mcp.ResourceLink{
		URI: outputScheme + kept.Handle, Name: kept.Handle, Title: "The whole output", Size: &size,
		Description: "the whole of the output that was cut, from its beginning; ?offset=N&limit=N reads a part of it, in bytes, " +
			"and " + metaNext + " of a part is where the next one begins",
	}
}

// addResources makes kept outputs readable. They are not listed: a handle is known to
// whom it was given.
func (f *face) addResources() {
	f.sdk.AddReceivingMiddleware(f.addressed)
	f.sdk.AddResourceTemplate(&mcp.ResourceTemplate{
		URITemplate: outputScheme + "{handle}{?offset,limit}", Name: "output", Title: "An output that was cut",
		Description: fmt.Sprintf("The whole of an output of this session that was cut, in parts of %d bytes at most; the links in the "+
			"results of calls have the handles. offset is the first byte, 0 without it, and limit the most bytes.", output.MaxPart),
	}, f.readOutput)
}

// addressed answers itself what has no address of an output: the SDK says of any
// address that it is not found by quoting it in a way that is not JSON for every one.
func (f *face) addressed(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		r, ok := req.(*mcp.ReadResourceRequest)
		if !ok {
			return next(ctx, method, req)
		}
		a, err := parseAddress(r.Params.URI)
		switch {
		case errors.Is(err, errNoAddress):
			return nil, notFound(r)
		case err != nil:
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
		}
		return next(context.WithValue(ctx, addressKey{}, a), method, req)
	}
}

// addressKey is under which a read's context has its address.
type addressKey struct{}

// readOutput reads a part of an output of the request's own session.
func (f *face) readOutput(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	a, ok := ctx.Value(addressKey{}).(address)
	if !ok { // only the middleware comes here
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the read has no address"}
	}
	said, _ := req.Params.Meta[metaSession].(string)
	session := f.sessionOf(principal(req.Extra), req.Session.ID(), said)
	l, err := f.now(ctx)
	if err != nil {
		return nil, unserved(err)
	}
	part, err := l.Output(ctx, session, a.handle, a.offset, a.limit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, notFound(req)
	case errors.Is(err, output.ErrRange):
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		f.log.Error("an output was not read", slog.String("output", a.handle), slog.Any("error", err))
		return nil, &jsonrpc.Error{
			Code: jsonrpc.CodeInternalError, Message: "the output cannot be read: the operator's log says why; run the tool again that made it",
		}
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{contents(part)}}, nil
}

// contents is a part as the protocol says it: as text if it is text, and else its bytes
// as they are (case B16).
func contents(part output.Part) *mcp.ResourceContents {
	size := int64(len(part.Data))
	c := &mcp.ResourceContents{
		URI:  address{handle: part.Meta.Handle, offset: part.Offset, limit: size}.String(),
		Meta: mcp.Meta{metaOffset: part.Offset, metaBytes: size, metaSize: part.Meta.Bytes},
	}
	if next, more := part.Next(); more {
		c.Meta[metaNext] = next
	}
	switch {
	case !utf8.Valid(part.Data):
		c.MIMEType, c.Blob = "application/octet-stream", part.Data
	case part.Meta.Kind == output.KindJSON && size == part.Meta.Bytes:
		c.MIMEType, c.Text = "application/json", string(part.Data)
	default: // a piece of JSON is none
		c.MIMEType, c.Text = "text/plain; charset=utf-8", string(part.Data)
	}
	return c
}

// codeNotFound is the error's code in the first era; the second has that of invalid
// parameters.
const codeNotFound = -32002

// notFound is the same whatever the reason is: a foreign output is not told from one
// that never was.
func notFound(req *mcp.ReadResourceRequest) error {
	e := &jsonrpc.Error{Code: codeNotFound, Message: "resource not found: an output is there for the session that made it, until it expires"}
	if sessionless(req) {
		e.Code = jsonrpc.CodeInvalidParams
	}
	var err error
	if e.Data, err = json.Marshal(map[string]string{"uri": cut(req.Params.URI, maxAddress)}); err != nil {
		return err
	}
	return e
}

// An address is what a read is of: a part of an output.
type address struct {
	handle        string
	offset, limit int64 // limit 0 is as much as a part has at most
}

// maxAddress is more bytes than an address has.
const maxAddress = 256

// errNoAddress says that a uri is no address of an output at all.
var errNoAddress = errors.New("is not the address of an output")

// parseAddress reads an address. A handle is of letters and digits; each of offset and
// limit may be there once, as decimal digits, with nothing else in them or beside them.
func parseAddress(uri string) (address, error) {
	rest, ok := strings.CutPrefix(uri, outputScheme)
	if !ok || len(uri) > maxAddress {
		return address{}, errNoAddress
	}
	var a address
	a.handle, rest, ok = strings.Cut(rest, "?")
	if a.handle == "" || strings.ContainsFunc(a.handle, func(r rune) bool { return (r < 'a' || 'z' < r) && (r < '0' || '9' < r) }) {
		return address{}, errNoAddress
	}
	seen := map[string]bool{}
	for ok {
		var field string
		field, rest, ok = strings.Cut(rest, "&")
		key, value, _ := strings.Cut(field, "=")
		number, least := &a.offset, int64(0)
		switch key {
		case "offset":
		case "limit":
			number, least = &a.limit, 1
		default:
			return address{}, fmt.Errorf("%.40q is no part of an output's address: offset=N and limit=N are", field)
		}
		if seen[key] {
			return address{}, fmt.Errorf("%s is there twice in the address", key)
		}
		seen[key] = true
		n, err := strconv.ParseUint(value, 10, 63) // which takes no sign
		if err != nil || int64(n) < least {
			return address{}, fmt.Errorf("%s is %.40q: it must be a number of bytes, %d or more, in decimal digits", key, value, least)
		}
		*number = int64(n)
	}
	return a, nil
}

// String is the address as a client reads it.
func (a address) String() string {
	return fmt.Sprintf("%s%s?offset=%d&limit=%d", outputScheme, a.handle, a.offset, a.limit)
}
