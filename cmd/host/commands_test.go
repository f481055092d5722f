package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/toolhost/toolhost/control"
	"github.com/toolhost/toolhost/tool"
)

// commandsAllowed allows the commands of which it is known what they are. Those of the tests
// of which it is not stand in programs, since nobody answers there.
const commandsAllowed = `
plugins: {filesystem: {}, process: {}}
permissions: [{action: shell, resource: "*", effect: allow}]
`

// program makes a program in the root.
func (s *serving) program(name, script string) {
	s.t.Helper()
	if err := os.Chmod(write(s.t, filepath.Join(s.dir, name), "#!/bin/sh\n"+script), 0o755); err != nil {
		s.t.Fatal(err)
	}
}

// calls calls a tool, and gives the result as it came.
func (s *serving) calls(id, name string, arguments map[string]any) mcpResult {
	s.t.Helper()
	s.requests(id, name, arguments)
	return s.result(id)
}

// requests calls a tool and waits for nothing.
func (s *serving) requests(id, name string, arguments map[string]any) {
	s.t.Helper()
	message, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": map[string]any{"name": name, "arguments": arguments},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.send(string(message))
}

// mcpResult is what an agent gets of a call.
type mcpResult struct {
	Content []struct{ Type, Text string }
	IsError bool
}

func (r mcpResult) text() string {
	var text strings.Builder
	for _, c := range r.Content {
		text.WriteString(c.Text)
	}
	return text.String()
}

func (s *serving) result(id string) mcpResult {
	s.t.Helper()
	answer := s.answer(id)
	if !utf8.ValidString(answer) {
		s.t.Errorf("%q is not UTF-8", answer)
	}
	var r mcpResult
	if err := json.Unmarshal([]byte(answer), &r); err != nil {
		s.t.Fatalf("%v in %s", err, answer)
	}
	return r
}

// An agent is told that a command failed, and how, with what it wrote (case B13).
func TestCaseB13FailedIsFlagged(t *testing.T) {
	s := newServingOf(t, commandsAllowed)
	s.program("killed", "echo p; kill -9 $$\n")
	for _, tt := range []struct {
		command, want string
		fails         bool
	}{
		{"./killed", "p\n[ended by SIGKILL, which a shell calls status 137, ", true},
		{"echo p; exit 7", "p\n[exit status 7, ", true},
		{"echo p", "p\n[exit status 0, ", false},
	} {
		if got := s.calls(tt.command, "shell", map[string]any{"command": tt.command}); got.IsError != tt.fails || !strings.HasPrefix(got.text(), tt.want) {
			t.Errorf("%s: got %+v, want %q", tt.command, got, tt.want)
		}
	}
}

// What an agent cancels is over when it is not said to be: nothing writes any more, the host
// lives, and the agent hears nothing of it (case B06).
func TestCaseB06CancelledByTheAgent(t *testing.T) {
	s := newServingOf(t, commandsAllowed)
	log := filepath.Join(s.dir, "t.log")
	s.program("long", "while :; do date >>t.log; sleep .05; done & setsid sleep 60\n")
	s.requests("long", "shell", map[string]any{"command": "./long"})
	size := func() int64 {
		info, err := os.Stat(log)
		if err != nil {
			return 0
		}
		return info.Size()
	}
	eventually(t, "the command to write", func() bool { return size() > 0 })
	s.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"long"}}`)
	var before int64
	eventually(t, "the command to end", func() bool {
		before = size()
		time.Sleep(500 * time.Millisecond)
		return size() == before
	})
	if got := s.calls("after", "shell", map[string]any{"command": "echo alive"}); got.IsError || !strings.HasPrefix(got.text(), "alive\n") {
		t.Errorf("got %+v", got)
	}
}

// What is started goes on from one call of the agent to the next, and ends with the host.
func TestProcessesOfAnAgent(t *testing.T) {
	s := newServingOf(t, commandsAllowed)
	s.program("echoes", "while read x; do echo got $x; done\n")
	got := s.calls("start", "process_start", map[string]any{"command": "./echoes", "name": "echo"})
	_, id, found := strings.Cut(got.text(), "process_output with id=")
	if id, _, _ = strings.Cut(id, " "); got.IsError || !found {
		t.Fatalf("got %+v", got)
	}
	if got = s.calls("in", "process_input", map[string]any{"id": id, "text": "echo one\n"}); got.IsError {
		t.Fatalf("got %+v", got)
	}
	if got = s.calls("out", "process_output", map[string]any{"id": id, "wait_ms": 10_000}); !strings.HasPrefix(got.text(), "got echo one\n[process "+id+` "echo": running for `) {
		t.Errorf("got %+v", got)
	}
	if err := s.in.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(s.out); err != nil {
		t.Fatal(err)
	}
	if err := s.command.Wait(); err != nil {
		t.Errorf("%v\n%s", err, s.notices)
	}
	if left := sleepers(t, s.dir); len(left) > 0 {
		t.Errorf("%d processes are left", len(left))
	}
}

// What goes on beside calls outlives a reload that does not change how it may run, and ends with
// one that does, or that removes its plugin.
// Seen to fail with the processes of a plugin that was changed left alone, and of one that was removed.
func TestLaw43ProcessesOfAPluginThatChanged(t *testing.T) {
	s := newServingOf(t, commandsAllowed)
	file := filepath.Join(s.dir, "toolhost.yaml")
	processes := func() (plugins, lines string) {
		out, _ := toolhost(t, "status", "--tree", "--json")
		var statuses []control.Status
		if err := json.Unmarshal([]byte(out), &statuses); err != nil || len(statuses) != 1 || len(statuses[0].Locations) != 1 {
			t.Fatalf("%v in %s", err, out)
		}
		l := statuses[0].Locations[0]
		for _, p := range l.Plugins {
			plugins += p.Name + " "
		}
		for _, p := range l.Processes {
			lines += p.Plugin + ": " + p.Line + "\n"
		}
		return plugins, lines
	}
	begin := func(id string) {
		t.Helper()
		if got := s.calls(id, "process_start", map[string]any{"command": "sleep 300"}); got.IsError {
			t.Fatalf("got %+v", got)
		}
		if _, lines := processes(); lines != "process: sleep 300\n" {
			t.Fatalf("got %q", lines)
		}
	}
	begin("one")
	write(t, file, commandsAllowed+"instructions: []\noutput: {max_lines: 30}\n")
	out, _ := toolhost(t, "reload")
	for _, want := range []string{"    process: kept\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("got %s, want %q", out, want)
		}
	}
	if _, lines := processes(); lines == "" {
		t.Error("it ended with a reload that did not change its plugin")
	}
	write(t, file, strings.Replace(commandsAllowed, "process: {}", "process: {sandbox: {limits: {files: 200}}}", 1))
	toolhost(t, "reload")
	eventually(t, "its end with another sandbox", func() bool { _, lines := processes(); return lines == "" })
	begin("two")
	write(t, file, strings.Replace(commandsAllowed, ", process: {}", "", 1))
	toolhost(t, "reload")
	eventually(t, "its end with its plugin", func() bool { plugins, lines := processes(); return lines == "" && plugins == "filesystem " })
}

// A command finds no terminal, though its host has one, and writes nothing there (case B08).
//
// The editor is asked to open it, as git asks one.
func TestCaseB08HostWithATerminal(t *testing.T) {
	isolate(t)
	run, err := os.MkdirTemp("/tmp", "th") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(run) })
	t.Setenv("XDG_RUNTIME_DIR", run)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, link := t.TempDir(), filepath.Join(t.TempDir(), "toolhost")
	if err := os.Symlink(exe, link); err != nil {
		t.Fatal(err)
	}
	file := write(t, filepath.Join(dir, "toolhost.yaml"), commandsAllowed)
	program, person := openTerminal(t)
	defer func() { _ = person.Close() }()
	command := exec.Command(link, "-C", dir, "-c", file, "call", "shell", `{"command": "(echo stolen | tr a-z A-Z >/dev/tty) 2>&1; vi x </dev/tty"}`, "--approve", "all")
	command.Stdin, command.Stdout, command.Stderr = program, program, program
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	began := time.Now()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	_ = program.Close() // the command has it
	shown := &screen{}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(shown, person) // ends with an error when the other side is closed
	}()
	err = command.Wait()
	<-over
	if took := time.Since(began); took > 10*time.Second || command.ProcessState.ExitCode() != 1 {
		t.Errorf("it took %v and ended with %v", took, err)
	}
	if got := shown.String(); strings.Contains(got, "STOLEN") || !strings.Contains(got, "/dev/tty") {
		t.Errorf("the terminal shows %q", got)
	}
}

// The bytes that a command wrote are kept as they were, whatever is shown of them (case B16).
func TestCaseB16BytesAreKept(t *testing.T) {
	isolate(t)
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "toolhost.yaml"), commandsAllowed)
	var all []byte
	for i := range 200 {
		all = append(all, byte(i*7+128))
	}
	want := "\xff\xfe\x00\xe9 ok\n" + string(all)
	write(t, filepath.Join(dir, "bytes"), string(all))
	var stdout, stderr bytes.Buffer
	status := run(context.Background(), []string{"-C", dir, "-c", file, "call", "shell", `{"command": "printf '\\377\\376\\000\\351 ok\\n'; cat bytes"}`, "--json"}, nil, &stdout, &stderr)
	var got struct {
		Content  []struct{ Text string }
		Retained []tool.Retained
	}
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil || status != 0 || !utf8.Valid(stdout.Bytes()) || len(got.Retained) != 1 || !strings.Contains(got.Content[0].Text, " ok\n") {
		t.Fatalf("status %d, %v\n%s%s", status, err, &stdout, &stderr)
	}
	stdout.Reset()
	status = run(context.Background(), []string{"-C", dir, "outputs", "show", got.Retained[0].Handle, "--limit", fmt.Sprint(len(want))}, nil, &stdout, &stderr)
	if status != 0 || stdout.String() != want {
		t.Errorf("status %d, kept %q, want %q\n%s", status, &stdout, want, &stderr)
	}
}
