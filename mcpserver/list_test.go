package mcpserver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhost/toolhost/tool"
)

// many are tools of the program with names in order.
func many(prefix string, n int) map[string]tool.Tool {
	all := map[string]tool.Tool{}
	for i := range n {
		all[fmt.Sprintf("%s%04d", prefix, i)] = says("hello")
	}
	return all
}

// Over all pages each tool is listed once, in order; a cursor that is none is an error;
// and what changes between two pages lists nothing twice and leaves out nothing that
// stays (case E09).
//
// Seen to fail: with cursors that are offsets, in the era without sessions.
func TestCaseE09Pages(t *testing.T) {
	everywhere(t, func(t *testing.T, over, era string) {
		const count = 1100
		s := serve(t, Deny, many("m", count))
		session := s.connect(t, over, era, nil)
		walk := func(between func(page int)) []string {
			var names []string
			params := &mcp.ListToolsParams{}
			for page := 1; ; page++ {
				list, err := session.ListTools(t.Context(), params)
				if err != nil || len(list.Tools) > pageSize {
					t.Fatalf("page %d has %d tools, %v", page, len(list.Tools), err)
				}
				for _, x := range list.Tools {
					names = append(names, x.Name)
				}
				if list.NextCursor == "" {
					return names
				}
				params.Cursor = list.NextCursor
				between(page)
			}
		}
		ours := func(names []string) (n int) {
			for _, name := range names {
				if strings.HasPrefix(name, "m0") || strings.HasPrefix(name, "m1") {
					n++
				}
			}
			return n
		}
		unique := func(names []string) {
			t.Helper()
			if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
				t.Errorf("%d names are not sorted, or not unique", len(names))
			}
			if got := ours(names); got != count {
				t.Errorf("%d of the tools, want %d", got, count)
			}
		}
		unique(walk(func(int) {}))
		registered := 0
		unique(walk(func(page int) {
			if page == 1 { // before what was listed, and after
				if _, err := s.host.Register("program", many("a", 20)); err != nil {
					t.Fatal(err)
				}
				if _, err := s.host.Register("program", many("z", 20)); err != nil {
					t.Fatal(err)
				}
				registered++
			}
		}))
		if registered != 1 {
			t.Error("nothing changed")
		}
		for _, cursor := range []string{"zzz", "?", cursorOf(""), "dG9vbHM", cursorOf("m0001") + "="} {
			list, err := session.ListTools(t.Context(), &mcp.ListToolsParams{Cursor: cursor})
			if got, _ := code(err); got != jsonrpc.CodeInvalidParams {
				t.Errorf("%q: got %+v, %v", cursor, list, err)
			}
		}
	})
}

// A burst of changes is told once, in both eras, to who asked for it (case E05).
//
// Seen to fail: with a mirror that is not followed.
func TestCaseE05ListChanges(t *testing.T) {
	everywhere(t, func(t *testing.T, over, era string) {
		s := serve(t, Deny, many("m", 3))
		var told atomic.Int64
		session := s.connect(t, over, era, &mcp.ClientOptions{
			ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { told.Add(1) },
		})
		if _, err := session.ListTools(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond) // what was registered before it connected
		before := told.Load()
		for i := range 20 {
			registration, err := s.host.Register("program", map[string]tool.Tool{fmt.Sprint("burst", i): says("x")})
			if err != nil {
				t.Fatal(err)
			}
			if i%2 == 0 {
				registration.Close()
			}
		}
		eventually(t, func() string {
			if told.Load() == before {
				return "the change was not told"
			}
			return ""
		})
		time.Sleep(200 * time.Millisecond)
		if n := told.Load() - before; n > 3 {
			t.Errorf("told %d times", n)
		}
		list, err := session.ListTools(t.Context(), nil)
		if err != nil || !slices.ContainsFunc(list.Tools, func(x *mcp.Tool) bool { return x.Name == "burst1" }) ||
			slices.ContainsFunc(list.Tools, func(x *mcp.Tool) bool { return x.Name == "burst0" }) {
			t.Errorf("listed %+v, %v", list, err)
		}
	})
}

// Nothing is sent before the answer to initialize, whatever changes (case E06).
//
// Seen to fail: without what holds it back.
func TestCaseE06QuietBeforeInitialize(t *testing.T) {
	s := serve(t, Deny, many("m", 3))
	w := s.wire(t)
	w.send(t, `{"jsonrpc":"2.0","id":0,"method":"ping"}`)
	if got := w.receive(t); string(got.ID) != "0" {
		t.Fatalf("got %+v", got)
	}
	if _, err := s.host.Register("program", many("n", 20)); err != nil {
		t.Fatal(err)
	}
	w.silent(t, 300*time.Millisecond)
	w.initialize(t, withSessions, "{}")
}

// A tool whose schema the SDK would not take is one bad tool, and the others are served
// (law 5).
//
// Seen to fail: without the recovering.
func TestLaw05ToolThatTheSDKRefuses(t *testing.T) {
	for name, input := range map[string]string{
		"a header of an object": `{"type":"object","properties":{"a":{"type":"object","x-mcp-header":"A"}}}`,
		"a header's name":       `{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A B"}}}`,
		"no type":               `{"properties":{"a":{"type":"string"}}}`,
		"types":                 `{"type":["object"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			bad := says("bad")
			bad.Input = []byte(input)
			s := serve(t, Deny, map[string]tool.Tool{"bad": bad, "good": says("good")}, allowed)
			session := s.connect(t, "stdio", withSessions, nil)
			if result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "good"}); err != nil || text(result) != "good" {
				t.Errorf("got %+v, %v", result, err)
			}
		})
	}
}
