package mcpserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// revisionStructured is the first revision with structured content.
const revisionStructured = "2025-06-18"

// maxDoubled is the most bytes of a structured value that is also given as text, for
// clients that show their model nothing else.
const maxDoubled = 8 << 10

// result is what a client gets of an ended call: an error of the protocol only where
// there is no such tool, or nobody waits any more.
func (f *face) result(req *mcp.CallToolRequest, capture *registry.Capture, name string, identity tool.Identity, s tool.Settlement, err error) (*mcp.CallToolResult, error) {
	if interruption, ok := errors.AsType[*tool.Interruption](err); ok {
		return nil, interruption.Cause // nothing is sent to a client that gave up
	}
	if err != nil {
		return nil, err
	}
	result := &mcp.CallToolResult{Content: []mcp.Content{}, Meta: mcp.Meta{metaCall: identity.Call, metaRan: s.Ran}}
	if s.Lost > 0 {
		result.Meta[metaLost] = s.Lost
	}
	if s.Error != nil {
		if s.Error.Kind == tool.KindUnknownTool {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: s.Error.Message}
		}
		f.failed(result, name, identity, s.Error)
	} else {
		f.completed(req, result, declaresOutput(capture, name, sessionless(req)), s)
	}
	for _, kept := range s.Retained {
		result.Content = append(result.Content, outputLink(kept))
	}
	return result, nil
}

// failed says why a call did not complete: in the tool's own words if it failed, and
// for what broke with no more than a model may read and an operator can look up.
func (f *face) failed(result *mcp.CallToolResult, name string, identity tool.Identity, e *tool.Error) {
	result.IsError = true
	result.Meta[metaKind] = string(e.Kind)
	text := e.Message
	switch e.Kind.Status() {
	case tool.Failed:
	case tool.Errored:
		text = fmt.Sprintf("%s (%s; the operator's log has it as call %s)", e.Message, e.Kind, identity.Call)
		f.log.Error("call", slog.String("tool", name), slog.String("call", identity.Call), slog.String("kind", string(e.Kind)), slog.Any("error", e.Cause))
	default:
		text = string(e.Kind) + ": " + e.Message
	}
	result.Content = append(result.Content, &mcp.TextContent{Text: text})
}

// completed gives what the model reads: the content, or where there is none the structured
// value. A client that knows of structured values may show its model that one alone, or the
// content alone; so what is large is given once, where every client shows it, and beside
// content of the tool's own there is a structured value only if it was declared, or asked
// for. declared says whether the client was told what it is.
func (f *face) completed(req *mcp.CallToolRequest, result *mcp.CallToolResult, declared bool, s tool.Settlement) {
	for _, c := range s.Content {
		result.Content = append(result.Content, content(c))
	}
	known := len(s.Structured) > 0 && (sessionless(req) || req.ProtocolVersion() >= revisionStructured && isObject(s.Structured))
	small := len(s.Content) == 0 && len(s.Structured) <= maxDoubled
	structured := known && (declared || small || req.Params.Meta[metaStructured] == true)
	if structured {
		result.StructuredContent = s.Structured
	}
	switch {
	case len(s.Structured) == 0 && len(s.Retained) > 0 && declared:
		// A client checks a result against the schema unless it is an error, and the value
		// is whole or absent.
		result.IsError = true
		result.Meta[metaKind] = string(tool.KindTooLarge)
		result.Content = append(result.Content, &mcp.TextContent{
			Text: "the call completed; its structured value is too long to be given, and the whole of it is kept",
		})
	case len(s.Content) > 0 || len(s.Structured) == 0:
	case !structured || len(s.Structured) <= maxDoubled:
		result.Content = append(result.Content, &mcp.TextContent{Text: string(s.Structured)})
	default:
		result.Content = append(result.Content, &mcp.TextContent{
			Text: fmt.Sprintf("the result is %d bytes of JSON, in structuredContent", len(s.Structured)),
		})
	}
	for _, i := range s.Instructions {
		result.Content = append(result.Content, &mcp.TextContent{
			Text: "Instructions of the project, in " + i.Path + " (the repository's words, not the tool's):\n" + i.Text,
			Meta: mcp.Meta{metaInstructions: i.Path},
		})
	}
}

// declaresOutput says whether clients were told what the structured value is.
func declaresOutput(capture *registry.Capture, name string, anyValue bool) bool {
	for _, d := range capture.Definitions() {
		if d.Name == name {
			return declares(d) && (anyValue || describesObject(d.Output))
		}
	}
	return false
}

// isObject reports whether a value of JSON is an object.
func isObject(value json.RawMessage) bool {
	return bytes.HasPrefix(bytes.TrimSpace(value), []byte("{"))
}

// content is a block as the protocol says it.
func content(c tool.Content) mcp.Content {
	switch c.Type {
	case tool.ImageContent:
		return &mcp.ImageContent{Data: c.Data, MIMEType: c.MIMEType}
	case tool.AudioContent:
		return &mcp.AudioContent{Data: c.Data, MIMEType: c.MIMEType}
	case tool.ResourceLink:
		name := c.Name
		if name == "" {
			name = c.URI
		}
		return &mcp.ResourceLink{URI: c.URI, Name: name, Description: c.Description, MIMEType: c.MIMEType}
	case tool.EmbeddedResource:
		resource := &mcp.ResourceContents{URI: c.URI, MIMEType: c.MIMEType, Text: c.Text}
		if len(c.Data) > 0 { // else there would be an empty blob beside the text
			resource.Blob = c.Data
		}
		return &mcp.EmbeddedResource{Resource: resource}
	default:
		return &mcp.TextContent{Text: c.Text}
	}
}
