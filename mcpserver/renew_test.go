package mcpserver

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/tool"
)

// approving is a client whose user approves everything, and that counts the changes of the
// list.
func approving(told *atomic.Int64) *mcp.ClientOptions {
	return &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { told.Add(1) },
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "once"}}, nil
		},
	}
}

// write calls the tool that writes a file, and tells what came of it.
func write(t *testing.T, session *mcp.ClientSession, name string) (said string, failed bool) {
	t.Helper()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "write", Arguments: map[string]any{"path": name, "content": "x"}})
	if err != nil {
		return err.Error(), true
	}
	return text(result), result.IsError
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// A session goes on in the directory that is at the Location's root, whatever was there
// before, and its client is told once. That there is none is said with what to do.
//
// Seen to fail: with a face that keeps its Location; with a mirror that tells of the old one's end.
func TestSessionGoesOnInTheNewRoot(t *testing.T) {
	everywhere(t, func(t *testing.T, over, era string) {
		s := serve(t, Deny, nil)
		var told atomic.Int64
		session := s.connect(t, over, era, approving(&told))
		if _, err := session.ListTools(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if said, failed := write(t, session, "first"); failed || !exists(filepath.Join(s.root, "first")) {
			t.Fatalf("before: %s", said)
		}
		time.Sleep(200 * time.Millisecond) // what was told before
		before := told.Load()
		away := s.root + ".away"
		if err := os.Rename(s.root, away); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(away) })
		if over == "stdio" { // over HTTP there is no Location to begin a call in
			said, failed := write(t, session, "nowhere")
			if want := "unavailable: the project's directory " + s.root + " is not there: create it again, or end this session"; !failed || said != want {
				t.Errorf("got %q, want %q", said, want)
			}
			if _, err := session.ListTools(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "create it again") {
				t.Errorf("the list: %v", err)
			}
			time.Sleep(300 * time.Millisecond)
			before = told.Load()
		}
		if err := os.Mkdir(s.root, 0o700); err != nil {
			t.Fatal(err)
		}
		if said, failed := write(t, session, "second"); failed || !exists(filepath.Join(s.root, "second")) || exists(filepath.Join(away, "second")) {
			t.Errorf("in the new root: %s", said)
		}
		eventually(t, func() string {
			if told.Load() == before {
				return "the change was not told"
			}
			return ""
		})
		time.Sleep(300 * time.Millisecond)
		if n := told.Load() - before; n != 1 {
			t.Errorf("told %d times", n)
		}
		// The changes of the new one are followed.
		if _, err := s.host.Register("program", map[string]tool.Tool{"later": says("later")}); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() string {
			if told.Load() == before+1 {
				return "a change of the new Location was not told"
			}
			return ""
		})
		list, err := session.ListTools(t.Context(), nil)
		if err != nil || !slices.ContainsFunc(list.Tools, func(x *mcp.Tool) bool { return x.Name == "later" }) {
			t.Errorf("listed %+v, %v", list, err)
		}
	})
}

// without removes the Location "a" by a reload, and gives how it was configured.
func (s *served) without(t *testing.T) *config.Config {
	t.Helper()
	was := s.host.Config()
	now := *was
	now.Locations = now.Locations[1:]
	s.reload(t, &now)
	return was
}

func (s *served) reload(t *testing.T, cfg *config.Config) {
	t.Helper()
	if _, err := s.host.Reload(context.Background(), cfg); err != nil {
		t.Fatal(err)
	}
}

// A session goes on in a Location that a reload removed, when another one brings it back.
//
// Seen to fail: with a face that keeps its Location.
func TestSessionGoesOnWhenItsLocationIsBack(t *testing.T) {
	everywhere(t, func(t *testing.T, over, era string) {
		s := serve(t, Deny, nil)
		var told atomic.Int64
		session := s.connect(t, over, era, approving(&told))
		if _, err := session.ListTools(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		l := s.location(t, "a")
		was := s.without(t)
		if over == "stdio" { // over HTTP there is no such Location
			if said, failed := write(t, session, "nowhere"); !failed || !strings.Contains(said, "the Location a is not configured any more: configure it again") {
				t.Errorf("got %q", said)
			}
		}
		eventually(t, func() string {
			if !l.Closed() {
				return "the Location is not closed"
			}
			return ""
		})
		s.reload(t, was)
		if said, failed := write(t, session, "back"); failed || !exists(filepath.Join(s.root, "back")) {
			t.Errorf("when it is back: %s", said)
		}
	})
}

// A call of a tool that was listed before its Location was opened again runs the same tool,
// or none (law 7).
//
// Seen to fail: without the comparison of digests; without that of definitions.
func TestLaw07LocationOpenedAgain(t *testing.T) {
	t.Setenv("TOOLHOST_TEST_OF_FACES", "1")
	overEach(t, func(t *testing.T, over string) {
		s := serve(t, Deny, map[string]tool.Tool{"same": says("same"), "other": says("old")}, allowed)
		var told atomic.Int64
		session := s.connect(t, over, withSessions, approving(&told))
		if _, err := session.ListTools(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		was := *s.without(t)
		s.program.Close()
		other, added := says("new"), says("added")
		other.Description = "is another one"
		if _, err := s.host.Register("program", map[string]tool.Tool{"same": says("same"), "other": other, "added": added}); err != nil {
			t.Fatal(err)
		}
		was.Locations = slices.Clone(was.Locations)
		was.Locations[0].Plugins = slices.Clone(was.Locations[0].Plugins)
		was.Locations[0].Plugins[0].Env = []string{"TOOLHOST_TEST_OF_FACES"} // which makes its digest another one
		s.reload(t, &was)
		const again = "list the tools again"
		check := func(want map[string]string) {
			t.Helper()
			for _, name := range slices.Sorted(maps.Keys(want)) {
				result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: map[string]any{}})
				if err != nil || !strings.Contains(text(result), want[name]) || result.IsError != (want[name] == again) {
					t.Errorf("%s: got %+v, %v, want %s", name, result, err, want[name])
				}
			}
		}
		check(map[string]string{"same": "same", "other": again, "added": again, "list": again})
		if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "nothing"}); err == nil || !strings.Contains(err.Error(), "unknown") {
			t.Errorf("an unknown tool: %v", err)
		}
		if _, err := session.ListTools(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		check(map[string]string{"same": "same", "other": "new", "added": "added", "list": ""})
	})
}
