package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhost/toolhost/tool"
)

// ending is a tool that ends so.
func ending(result tool.Result, err error) tool.Tool {
	return tool.Tool{Description: "for a test", Input: anyObject, Execute: func(context.Context, tool.Call) (tool.Result, error) { return result, err }}
}

// What a tool gives reaches the client whole, in both eras: structured values with a
// mirror as text, once; every kind of block; what is too long as a link; and failures,
// rejections and what broke told apart (cases E17, E20).
//
// Seen to fail: without the mirror; with one of any length; with media left out; with an
// empty blob beside the text of a resource; with the
// cause of what broke.
func TestCaseE20WhatCallsGive(t *testing.T) {
	object := json.RawMessage(`{"type":"object"}`)
	declared := func(x tool.Tool) tool.Tool { x.Output = object; return x }
	large := json.RawMessage(`{"a":"` + strings.Repeat("x", 20<<10) + `"}`)
	huge := json.RawMessage(`{"a":"` + strings.Repeat("x", 80<<10) + `"}`)
	s := func(t *testing.T) *served {
		return serve(t, Deny, map[string]tool.Tool{
			"structured": declared(ending(tool.Result{Output: json.RawMessage(`{"a":1}`)}, nil)),
			"large":      declared(ending(tool.Result{Output: large}, nil)),
			"huge":       declared(ending(tool.Result{Output: huge}, nil)),
			"media": ending(tool.Result{Output: json.RawMessage(`{}`), Content: []tool.Content{
				tool.Text("t"), tool.Image([]byte{1, 2}, "image/png"), tool.Audio([]byte{3}, "audio/wav"), tool.Link("file:///x", "x"), tool.Link("file:///y", ""),
				tool.TextResource("file:///z", "text/plain", "z"), tool.DataResource("file:///b", "", []byte{4, 5}),
			}}, nil),
			"fails":  ending(tool.Result{}, &tool.Failure{Message: "no such thing"}),
			"breaks": ending(tool.Result{}, errors.New("the secret of the operator")),
			"wrong":  declared(ending(tool.Result{Output: json.RawMessage(`7`)}, nil)),
		}, allowed)
	}
	everywhere(t, func(t *testing.T, over, era string) {
		session := s(t).connect(t, over, era, nil)
		call := func(name string) *mcp.CallToolResult {
			t.Helper()
			result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: name})
			if err != nil {
				t.Fatal(err)
			}
			return result
		}
		structured := func(r *mcp.CallToolResult) string {
			if r.StructuredContent == nil {
				return ""
			}
			encoded, _ := json.Marshal(r.StructuredContent)
			return string(encoded)
		}
		if r := call("structured"); r.IsError || structured(r) != `{"a":1}` || text(r) != `{"a":1}` || len(r.Content) != 1 {
			t.Errorf("structured: %s %s", structured(r), text(r))
		}
		if r := call("large"); r.IsError || structured(r) != string(large) || len(text(r)) > 200 || text(r) == "" {
			t.Errorf("large: %d bytes, %.100s", len(structured(r)), text(r))
		}
		r := call("huge")
		if !r.IsError || r.StructuredContent != nil || !strings.Contains(text(r), "the call completed") || r.Meta[metaKind] != string(tool.KindTooLarge) || r.Meta[metaRan] != true {
			t.Errorf("huge: %t %v %.100s", r.IsError, r.Meta, text(r))
		}
		links := 0
		for _, c := range r.Content {
			if link, ok := c.(*mcp.ResourceLink); ok && strings.HasPrefix(link.URI, outputScheme) && *link.Size >= int64(len(huge)) {
				links++
			}
		}
		if links != 1 {
			t.Errorf("huge has %d links", links)
		}
		r = call("media")
		kinds := ""
		for _, c := range r.Content {
			switch c := c.(type) {
			case *mcp.TextContent:
				kinds += "t:" + c.Text
			case *mcp.ImageContent:
				kinds += " i:" + c.MIMEType + string('0'+rune(len(c.Data)))
			case *mcp.AudioContent:
				kinds += " a:" + c.MIMEType + string('0'+rune(len(c.Data)))
			case *mcp.ResourceLink:
				kinds += " l:" + c.URI + "," + c.Name
			case *mcp.EmbeddedResource:
				contents, _ := json.Marshal(c.Resource)
				kinds += " r:" + string(contents)
			}
		}
		if want := `t:t i:image/png2 a:audio/wav1 l:file:///x,x l:file:///y,file:///y` +
			` r:{"uri":"file:///z","mimeType":"text/plain","text":"z"} r:{"uri":"file:///b","blob":"BAU="}`; kinds != want || r.IsError {
			t.Errorf("media: %s, want %s", kinds, want)
		}
		for name, want := range map[string]struct{ kind, text string }{
			"fails": {"failure", "no such thing"}, "breaks": {"internal", "operator's log"}, "wrong": {"invalid_output", "operator's log"},
		} {
			r := call(name)
			if !r.IsError || r.Meta[metaKind] != want.kind || !strings.Contains(text(r), want.text) || strings.Contains(text(r), "secret") || r.StructuredContent != nil {
				t.Errorf("%s: %v %s", name, r.Meta, text(r))
			}
		}
		_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "nothing"})
		if got, _ := code(err); got != jsonrpc.CodeInvalidParams {
			t.Errorf("unknown: %v", err)
		}
	})
}
