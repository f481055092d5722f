package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolhost/toolhost/state"
	"github.com/toolhost/toolhost/tool"
)

// listCalls runs `toolhost calls` on a state.
func listCalls(t *testing.T, dir string, asJSON bool, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, notices bytes.Buffer
	a := &app{stdout: newOutput(&out), stderr: newOutput(&notices), state: state.New(state.Options{Dir: dir}), json: asJSON}
	defer a.state.Close()
	cmd := a.callsCommand()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{}, args...)) // nil would be those of the test
	err = cmd.ExecuteContext(t.Context())
	return out.String(), notices.String(), err
}

// TestLaw15CallsAreListed: those that run, those that ended, and those of which
// nobody knows, the newest first. Seen to fail without looking for abandoned calls.
func TestLaw15CallsAreListed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "toolhost")
	if out, _, err := listCalls(t, dir, false); err != nil || strings.Count(out, "\n") != 1 {
		t.Errorf("without a state: got %q, %v", out, err)
	}
	if out, _, err := listCalls(t, dir, true); err != nil || out != "[]\n" {
		t.Errorf("without a state: got %q, %v", out, err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("listing made the state")
	}

	s := state.New(state.Options{Dir: dir})
	defer s.Close()
	begin := func(c *state.Calls, call string) state.CallID {
		t.Helper()
		id, err := c.Start(t.Context(), "/the project", tool.Start{
			Identity: tool.Identity{Session: "s\x1b[31m", Agent: "a", Message: "m", Call: call}, Tool: "weather/fore\tcast",
			Effects: tool.Write | tool.Process, At: time.Now().Add(-time.Second),
		})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	dead, living := s.OpenCalls(), s.OpenCalls()
	defer living.Close()
	begin(dead, "lost")
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []tool.Kind{"", tool.KindFailure} {
		id, status := begin(living, "over"), tool.Completed
		if kind != "" {
			status = kind.Status()
		}
		if err := living.End(t.Context(), id, status, kind); err != nil {
			t.Fatal(err)
		}
	}
	begin(living, "running")

	out, notices, err := listCalls(t, dir, false)
	if err != nil || notices != "toolhost: the host died during 1 of these calls; their outcome is unknown\n" {
		t.Errorf("got notices %q, %v", notices, err)
	}
	var lines []string
	for line := range strings.Lines(out) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	const about = " weather/fore cast write,process s\ufffd[31m /the project"
	for i, want := range []string{"STARTED STATUS", " running -" + about, " failed (failure) 1", " completed 1", " outcome unknown -" + about} {
		if i >= len(lines) || !strings.Contains(lines[i], want) {
			t.Errorf("line %d: %q is missing in\n%s", i, want, out)
		}
	}

	out, notices, err = listCalls(t, dir, true, "--limit", "2")
	if err != nil || notices != "" {
		t.Errorf("got notices %q, %v", notices, err)
	}
	var records []state.CallRecord
	if err := json.Unmarshal([]byte(out), &records); err != nil || len(records) != 2 || records[0].Identity.Call != "running" {
		t.Errorf("got %s, %v", out, err)
	}
	if strings.Count(out, `"ended"`) != 1 {
		t.Errorf("a call that runs has an end: %s", out)
	}
}

func TestCallsLimit(t *testing.T) {
	for _, limit := range []string{"0", "-1", "x", "100001", ""} {
		if _, _, err := listCalls(t, t.TempDir(), false, "--limit", limit); err == nil || !strings.HasSuffix(err.Error(), "give a number from 1 to 100000") {
			t.Errorf("%q: got %v", limit, err)
		}
	}
}
