package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// servingHTTP starts toolhost serve --http with a configuration, and connects a client of
// the era without sessions, which leaves the rounds of a call to the test.
func servingHTTP(t *testing.T, dir, config string) (_ *mcp.ClientSession, process *exec.Cmd, notices *screen) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "toolhost")
	if err := os.Symlink(exe, link); err != nil {
		t.Fatal(err)
	}
	notices = &screen{}
	command := exec.Command(link, "-C", dir, "-c", config, "serve", "--http", "127.0.0.1:0")
	command.Stderr = notices
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(os.Interrupt)
		_ = command.Wait()
		if t.Failed() {
			t.Log(notices)
		}
	})
	url := ""
	eventually(t, "the server to listen", func() bool {
		url = regexp.MustCompile(`http://\S+`).FindString(notices.String())
		return strings.Contains(notices.String(), url+"\n") && url != ""
	})
	client := mcp.NewClient(&mcp.Implementation{Name: "tester", Version: "1"}, &mcp.ClientOptions{
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return nil, errors.New("this client is not asked by a request")
		},
	})
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url}, &mcp.ClientSessionOptions{ProtocolVersion: "2026-07-28"})
	if err != nil {
		t.Fatalf("%v\n%s", err, notices)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session, command, notices
}

// approved is the call again, with yes to all that was asked.
func approved(params *mcp.CallToolParams, asked *mcp.CallToolResult) *mcp.CallToolParams {
	again := *params
	again.RequestState, again.InputResponses = asked.RequestState, mcp.InputResponseMap{}
	for id := range asked.InputRequests {
		again.InputResponses[id] = &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "once"}}
	}
	return &again
}

// What a person approved of one process runs there, once, and in no other process, which
// has the same Location, tools and arguments; and not after the plugin was killed that
// asked (laws 26 and 37).
//
// Seen to fail: with a key of the states that all processes share; with a plugin that is
// not killed.
func TestLaw37ApprovalAndProcesses(t *testing.T) {
	isolate(t)
	dir, err := os.MkdirTemp("/tmp", "th") // sockets are in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	t.Setenv("XDG_RUNTIME_DIR", dir)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	deeds := filepath.Join(dir, "deeds")
	if err := os.Mkdir(deeds, 0o700); err != nil {
		t.Fatal(err)
	}
	config := write(t, filepath.Join(dir, "toolhost.yaml"), fmt.Sprintf("plugins: {writer: {command: [%q, %s], sandbox: {fs: {write: [%q]}}}}\n", exe, writerCommand, deeds))
	a, process, notices := servingHTTP(t, dir, config)
	b, _, _ := servingHTTP(t, dir, config)

	file := filepath.Join(deeds, "written")
	exists := func() bool {
		_, err := os.Stat(file)
		return err == nil
	}
	params := &mcp.CallToolParams{Name: "write", Arguments: map[string]any{"file": file}}
	ask := func() *mcp.CallToolResult {
		t.Helper()
		asked, err := a.CallTool(t.Context(), params)
		if err != nil || len(asked.InputRequests) != 1 || asked.RequestState == "" {
			t.Fatalf("not asked: %+v, %v", asked, err)
		}
		return asked
	}

	asked := ask()
	result, err := b.CallTool(t.Context(), approved(params, asked))
	if wire, ok := errors.AsType[*jsonrpc.Error](err); !ok || wire.Code != jsonrpc.CodeInvalidParams || !strings.Contains(wire.Message, "another server process") {
		t.Errorf("another process: got %+v, %v", result, err)
	}
	if exists() {
		t.Fatal("it ran in another process")
	}
	if result, err := a.CallTool(t.Context(), approved(params, asked)); err != nil || result.IsError || !exists() {
		t.Fatalf("its own process: got %+v, %v", result, err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if result, err := a.CallTool(t.Context(), approved(params, asked)); err == nil || !strings.Contains(err.Error(), "used already") {
		t.Errorf("again: got %+v, %v", result, err)
	}

	asked = ask()
	killPlugin(t, process.Process.Pid, writerCommand)
	eventually(t, "the host to see it", func() bool { return strings.Contains(notices.String(), "plugin failed") })
	result, err = a.CallTool(t.Context(), approved(params, asked))
	if err != nil || !result.IsError || result.Meta["toolhost/ran"] != false || !strings.Contains(said(result), "the answer was not used") {
		t.Errorf("after its plugin was killed: got %+v, %v", result, err)
	}
	if result, err := a.CallTool(t.Context(), params); err == nil && !result.IsError {
		t.Errorf("called without its plugin: got %+v", result)
	}
	if exists() {
		t.Error("it ran after its plugin was killed")
	}
}

// said is the text of a result.
func said(result *mcp.CallToolResult) string {
	var all []string
	for _, c := range result.Content {
		if c, ok := c.(*mcp.TextContent); ok {
			all = append(all, c.Text)
		}
	}
	return strings.Join(all, "\n")
}

// killPlugin kills the plugin of a host that was started with the argument.
func killPlugin(t *testing.T, host int, argument string) {
	t.Helper()
	for _, child := range children(t, host) { // a confined plugin, or the reaper of another one
		for _, pid := range append(children(t, child), child) {
			line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if err != nil || !strings.Contains(string(line), argument) {
				continue
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("no plugin of %d was started with %s", host, argument)
}
