package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/output"
)

// ending is a tool that ends so.
func ending(result tool.Result, err error) tool.Tool {
	return tool.Tool{Description: "for a test", Input: anyObject, Execute: func(context.Context, tool.Call) (tool.Result, error) { return result, err }}
}

// What a tool gives reaches the client whole, in both eras: structured values with a
// mirror as text, once, and a string as text alone; every kind of block; what is too long as a link; and failures,
// rejections and what broke told apart (cases E17, E20).
//
// Seen to fail: without the mirror; with one of any length; with a string declared; with media left out; with an
// empty blob beside the text of a resource; with the
// cause of what broke.
func TestCaseE20WhatCallsGive(t *testing.T) {
	object := json.RawMessage(`{"type":"object"}`)
	declared := func(x tool.Tool) tool.Tool { x.Output = object; return x }
	large := json.RawMessage(`{"a":"` + strings.Repeat("x", 20<<10) + `"}`)
	huge := json.RawMessage(`{"a":"` + strings.Repeat("x", 80<<10) + `"}`)
	long := strings.Repeat("x", 20<<10)
	s := func(t *testing.T) *served {
		return serve(t, Deny, map[string]tool.Tool{
			"structured": declared(ending(tool.Result{Output: json.RawMessage(`{"a":1}`)}, nil)),
			"large":      declared(ending(tool.Result{Output: large}, nil)),
			"undeclared": ending(tool.Result{Output: large}, nil),
			"string":     {Description: "for a test", Input: anyObject, Output: json.RawMessage(`{"type":"string"}`), Execute: says(long).Execute},
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
		if r := call("undeclared"); r.IsError || r.StructuredContent != nil || text(r) != string(large) {
			t.Errorf("undeclared: %d bytes, %.100s", len(structured(r)), text(r))
		}
		if r := call("string"); r.IsError || r.StructuredContent != nil || text(r) != long {
			t.Errorf("string: %d bytes beside %.100s", len(structured(r)), text(r))
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

// whole calls a tool of files and gives what a client that shows its model content alone
// shows, and one that shows it structured values alone, if there is one. meta is that of
// the call.
func whole(t *testing.T, session *mcp.ClientSession, meta mcp.Meta, name string, arguments map[string]any) (texts, values string) {
	t.Helper()
	r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Meta: meta, Name: name, Arguments: arguments})
	if err != nil || r.IsError {
		t.Fatalf("%s: %+v, %v", name, r, err)
	}
	texts = text(r)
	if values = texts; r.StructuredContent != nil {
		encoded, err := json.Marshal(r.StructuredContent)
		if err != nil {
			t.Fatal(err)
		}
		values = string(encoded)
	}
	return texts, values
}

// Whichever of content and structured values a client shows its model, nothing of an answer
// is missing, and nothing is in it twice: tools with content of their own declare no
// structured value, and give it only to whoever asks (laws 16, 17; case H09).
//
// Seen to fail: with a schema declared; with the structured value beside the content; with
// no regard to what is asked for.
func TestCaseH09NothingTwiceNothingMissing(t *testing.T) {
	everywhere(t, func(t *testing.T, over, era string) {
		s := serve(t, Deny, nil)
		line := strings.Repeat("x", 60) + "\n"
		for name, content := range map[string]string{"a.txt": "one\nneedle\ntwo\n", "big.txt": strings.Repeat(line, 500)} {
			if err := os.WriteFile(filepath.Join(s.root, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		session := s.connect(t, over, era, nil)
		list, err := session.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range list.Tools {
			if x.OutputSchema != nil {
				t.Errorf("%s declares its structured value", x.Name)
			}
		}
		for _, c := range []struct {
			tool      string
			arguments map[string]any
			has       []string // of the answer
			value     []string // of the structured value
		}{
			{"grep", map[string]any{"pattern": "needle", "context": 1}, []string{"a.txt-1- one", "a.txt:2: needle", "a.txt-3- two"}, []string{`"text":"needle"`, `"text":"one"`}},
			{"read", map[string]any{"path": "big.txt", "limit": 2}, []string{line + line, "next page: offset=3"}, []string{`"next_offset":3`, "next page: offset=3"}},
			{"list", map[string]any{}, []string{"a.txt  15 B"}, []string{`"path":"a.txt"`}},
			{"glob", map[string]any{"pattern": "*.md"}, []string{"no file matches"}, []string{"no file matches"}},
		} {
			texts, values := whole(t, session, nil, c.tool, c.arguments)
			_, asked := whole(t, session, mcp.Meta{metaStructured: true}, c.tool, c.arguments)
			for _, part := range c.has {
				if !strings.Contains(texts, part) || !strings.Contains(values, part) {
					t.Errorf("%s: %q is not in %s, or not in %s", c.tool, part, texts, values)
				}
			}
			for _, part := range c.value {
				if !strings.Contains(asked, part) {
					t.Errorf("%s: %q is not in %s", c.tool, part, asked)
				}
			}
		}
		r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "read", Arguments: map[string]any{"path": "big.txt"}})
		if err != nil {
			t.Fatal(err)
		}
		encoded, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(string(encoded), strings.TrimSuffix(line, "\n")); got != 500 {
			t.Errorf("of 500 lines %d are sent", got)
		}
	})
}

// What bounds the text of an answer bounds all that a model may be shown of it.
//
// Seen to fail: with the structured value beside the content.
func TestLaw17NothingBesideTheBound(t *testing.T) {
	s := serve(t, Deny, nil)
	big := strings.Repeat("a line\n", 20_000)
	if err := os.WriteFile(filepath.Join(s.root, "big.txt"), []byte(big), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, era := range []string{withSessions, withoutSessions} {
		session := s.connect(t, "stdio", era, nil)
		texts, values := whole(t, session, nil, "read", map[string]any{"path": "big.txt"})
		if limit := output.DefaultLimits(); texts != values || len(texts) > limit.MaxBytes || strings.Count(texts, "\n") > limit.MaxLines {
			t.Errorf("%s: %d bytes of text, %d of what is structured", era, len(texts), len(values))
		}
	}
}
