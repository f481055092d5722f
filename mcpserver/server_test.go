package mcpserver

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhost/toolhost/tool"
)

func text(r *mcp.CallToolResult) string {
	var words []string
	for _, c := range r.Content {
		if c, ok := c.(*mcp.TextContent); ok {
			words = append(words, c.Text)
		}
	}
	return strings.Join(words, "|")
}

// Tools are listed and called in both eras over each transport, with the effects that
// they declare as hints.
func TestListAndCall(t *testing.T) {
	everywhere(t, func(t *testing.T, over, era string) {
		s := serve(t, Deny, nil)
		session := s.connect(t, over, era, nil)
		list, err := session.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		names := []string{}
		for _, x := range list.Tools {
			names = append(names, x.Name)
			reads := !slices.Contains([]string{"edit", "mkdir", "move", "patch", "remove", "write"}, x.Name)
			undone := reads || x.Name == "mkdir" || x.Name == "move"
			if x.Annotations.ReadOnlyHint != reads || *x.Annotations.DestructiveHint == undone {
				t.Errorf("%s: annotations %+v", x.Name, x.Annotations)
			}
		}
		if got, want := strings.Join(names, " "), "edit glob grep list mkdir move output_read output_search patch read remove write"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "list", Arguments: map[string]any{"path": "."}})
		if err != nil || result.IsError || result.StructuredContent != nil || !strings.Contains(text(result), "has no entries") {
			t.Errorf("got %+v, %v", result, err)
		}
		_, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "nothing"})
		if err == nil || !strings.Contains(err.Error(), "unknown") {
			t.Errorf("an unknown tool: %v", err)
		}
		result, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "list", Arguments: map[string]any{"pth": "."}})
		if err != nil || !result.IsError || !strings.Contains(text(result), "invalid_input") {
			t.Errorf("invalid input: %+v, %v", result, err)
		}
	})
}

// A question reaches the person at the client in each era, with what would happen, and
// what they answer is what holds.
func TestApprovalAtTheClient(t *testing.T) {
	everywhere(t, func(t *testing.T, over, era string) {
		for answer, want := range map[string]string{
			"once": `"hello"`, "reject": "declined: program/hello of \"*\" was declined: because", "decline": "declined:", "cancel": "cancelled:",
		} {
			t.Run(answer, func(t *testing.T) {
				s := serve(t, Deny, map[string]tool.Tool{"hello": says("hello")})
				asked := ""
				session := s.connect(t, over, era, &mcp.ClientOptions{
					ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
						asked = r.Params.Message
						if answer == "decline" || answer == "cancel" {
							return &mcp.ElicitResult{Action: answer}, nil
						}
						return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": answer, "reason": "because"}}, nil
					},
				})
				result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "hello", Arguments: map[string]any{}})
				if err != nil {
					t.Fatal(err)
				}
				if got := text(result); !strings.Contains(got, strings.Trim(want, `"`)) || result.IsError != (answer != "once") {
					t.Errorf("got %s, want %s", got, want)
				}
				if !strings.Contains(asked, "tool     program/hello") {
					t.Errorf("asked: %s", asked)
				}
			})
		}
	})
}

// A client that cannot ask its user is denied, with what to do about it.
func TestNobodyToAsk(t *testing.T) {
	everywhere(t, func(t *testing.T, over, era string) {
		s := serve(t, Deny, map[string]tool.Tool{"hello": says("hello")})
		session := s.connect(t, over, era, nil)
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "hello"})
		if err != nil || !result.IsError || !strings.Contains(text(result), "toolhost approvals") {
			t.Errorf("got %+v, %v", result, err)
		}
	})
}
