package process

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhost/toolhost/plugin/sdk"
	"github.com/toolhost/toolhost/service"
)

// texts are the blocks that a model reads.
func texts(t *testing.T, content []sdk.Content) []string {
	t.Helper()
	var out []string
	for _, c := range content {
		if c.Type != sdk.Text("").Type {
			t.Fatalf("a block of %s", c.Type)
		}
		out = append(out, c.Text)
	}
	return out
}

func TestBoundsAreThoseOfTheService(t *testing.T) {
	for name, pair := range map[string][2]int64{
		"line":    {maxLine, service.MaxCommandLine},
		"stdin":   {maxStdin, service.MaxStdin},
		"name":    {maxName, service.MaxProcessName},
		"wait":    {maxWait, service.MaxWait.Milliseconds()},
		"timeout": {int64(longest), int64(service.MaxTimeout)},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: at most %d, and the service takes %d", name, pair[0], pair[1])
		}
	}
	if textBytes > service.MaxOutputPart || maxLine > service.MaxInput {
		t.Error("a part of the service is smaller than one of a tool")
	}
	if !strings.Contains(startDescription, "At most 16 ") || service.MaxProcesses != 16 {
		t.Errorf("at most %d processes, and the description says otherwise", service.MaxProcesses)
	}
}

// A mistake in the settings is said when the plugin is activated, with what to write.
//
// Seen to fail: without the check of the shell; with a timeout that may be over the most.
func TestSettings(t *testing.T) {
	for _, tt := range []struct {
		settings settings
		want     running
		err      string
	}{
		{settings{}, running{"", 2 * time.Minute, 30 * time.Minute, 0}, ""},
		{settings{"/bin/bash", "90s", "1h", "5s"}, running{"/bin/bash", 90 * time.Second, time.Hour, 5 * time.Second}, ""},
		{settings{Shell: "dash"}, running{"dash", 2 * time.Minute, 30 * time.Minute, 0}, ""},
		{settings{Timeout: "1h"}, running{"", time.Hour, time.Hour, 0}, ""},
		{settings{MaxTimeout: "30s"}, running{"", 30 * time.Second, 30 * time.Second, 0}, ""},
		{settings{Shell: "fish"}, running{}, `setting shell is "fish": give the name of one of sh, bash`},
		{settings{Shell: "/usr/bin/zsh"}, running{}, `setting shell is "/usr/bin/zsh"`},
		{settings{Shell: "bin/sh"}, running{}, "an absolute path of one"},
		{settings{Timeout: "2 minutes"}, running{}, `setting timeout is "2 minutes", which is no duration: write one such as 90s`},
		{settings{Timeout: "120"}, running{}, "is no duration"},
		{settings{MaxTimeout: "25h"}, running{}, "setting max_timeout is 25h: it can be 1ms to 24h"},
		{settings{IdleTimeout: "-1s"}, running{}, "setting idle_timeout is -1s"},
		{settings{IdleTimeout: "0"}, running{}, "leave it out for its default"},
		{settings{Timeout: "2m", MaxTimeout: "1m"}, running{}, "timeout is 2m and max_timeout is 1m"},
	} {
		got, err := tt.settings.parse()
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%+v: got the error %v, want %q", tt.settings, err, tt.err)
		}
		if got != tt.want {
			t.Errorf("%+v: got %+v, want %+v", tt.settings, got, tt.want)
		}
	}
}

func TestTerminal(t *testing.T) {
	for _, tt := range []struct {
		pty           bool
		columns, rows int
		want          *sdk.TerminalSize
		err           string
	}{
		{want: nil},
		{pty: true, want: &sdk.TerminalSize{Columns: 80, Rows: 24}},
		{pty: true, columns: 132, rows: 1000, want: &sdk.TerminalSize{Columns: 132, Rows: 1000}},
		{columns: 80, err: "give pty too"},
		{pty: true, columns: 1001, err: "columns is 1001: give 1 to 1000"},
		{pty: true, rows: -1, err: "rows is -1"},
	} {
		got, err := terminal(tt.pty, tt.columns, tt.rows)
		if diff := cmp.Diff(tt.want, got); diff != "" || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%+v: got %v, %v", tt, got, err)
		}
	}
}

// What a model reads below the output of a command, and whether it is flagged as failed.
//
// Seen to fail: without the count of what was dropped; with a signal that counts as a success.
func TestCaseB13EndingsInWords(t *testing.T) {
	tools := tools{run: running{timeout: 2 * time.Minute, max: 30 * time.Minute}}
	command := sdk.Command{Timeout: 2 * time.Second, Idle: 90 * time.Second}
	ms := time.Millisecond
	for name, tt := range map[string]struct {
		result sdk.CommandResult
		want   []string
		fails  bool
	}{
		"success": {sdk.CommandResult{Ending: sdk.EndedItself, Stdout: 1, Duration: 214 * ms}, []string{"exit status 0, 0.2 s"}, false},
		"nothing": {sdk.CommandResult{Ending: sdk.EndedItself, Duration: 3 * ms}, []string{"no output", "exit status 0, 0.003 s"}, false},
		"failure": {sdk.CommandResult{Ending: sdk.EndedItself, Code: 7, Stderr: 1, Duration: 1230 * ms}, []string{"exit status 7, 1.2 s"}, true},
		"signal": {
			sdk.CommandResult{Ending: sdk.EndedItself, Code: -1, Signal: "SIGKILL", Stdout: 1, Duration: 100 * ms},
			[]string{"ended by SIGKILL, which a shell calls status 137, 0.1 s"}, true,
		},
		"signal without a name": {
			sdk.CommandResult{Ending: sdk.EndedItself, Code: -1, Signal: "signal 40", Stdout: 1, Duration: 100 * ms},
			[]string{"ended by signal 40, 0.1 s"}, true,
		},
		"signal within": {
			sdk.CommandResult{Ending: sdk.EndedItself, Code: 139, Stdout: 1, Duration: 75 * time.Second},
			[]string{"exit status 139, which a shell gives when SIGSEGV ended a command, 75 s"}, true,
		},
		"timeout": {
			sdk.CommandResult{Ending: sdk.EndedByTimeout, Code: -1, Signal: "SIGKILL", Stdout: 1, Duration: 2100 * ms},
			[]string{"timed out after 2 s: the command and all that it started were ended; " +
				"give timeout_ms, at most 1800000, or use process_start for what goes on"}, true,
		},
		"timeout that the call sets": {
			sdk.CommandResult{Ending: sdk.EndedByCall, Stdout: 1, Duration: 2100 * ms},
			[]string{"timed out after 2.1 s, as long as this call may take: the command and all that it started were ended; use process_start for what takes longer"},
			true,
		},
		"idle": {
			sdk.CommandResult{Ending: sdk.EndedByIdle, Stdout: 1, Duration: 95 * time.Second},
			[]string{"wrote nothing for 90 s: the command and all that it started were ended; use process_start for what waits"}, true,
		},
		"stopped": {sdk.CommandResult{Ending: sdk.EndedByStop, Stdout: 1, Duration: time.Second}, []string{"stopped, 1 s"}, true},
		"dropped and left": {
			sdk.CommandResult{Ending: sdk.EndedItself, Stdout: 1 << 30, Lost: 12345, LeftRunning: true, Duration: 200 * time.Second},
			[]string{
				"12345 bytes in the middle of the output were dropped, and nobody has them: write to a file what is needed whole",
				"exit status 0, 3 m 20 s", "processes that it left running were ended with it: process_start is for what is to go on",
			}, false,
		},
		"survivors": {
			sdk.CommandResult{Ending: sdk.EndedByTimeout, Stdout: 1, Survivors: "process 12 waits for a disk."},
			[]string{
				"timed out after 2 s: the command was ended; give timeout_ms, at most 1800000, or use process_start for what goes on",
				"not all could be ended: process 12 waits for a disk",
			}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tools.notes(command, tt.result)); diff != "" {
				t.Error(diff)
			}
			if got := !succeeded(tt.result); got != tt.fails {
				t.Errorf("it fails: %v, want %v", got, tt.fails)
			}
		})
	}
}

// A program reads null for the status of what a signal ended, and never 0 (case B13).
func TestCaseB13StatusOfASignalIsNull(t *testing.T) {
	got, err := json.Marshal(endingOf(sdk.CommandResult{Ending: sdk.EndedItself, Code: -1, Signal: "SIGTERM", Duration: time.Second}))
	want := `{"ending":"exited","exit_code":null,"signal":"SIGTERM","duration_ms":1000,"output_bytes":0}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 4 * time.Millisecond: "0.004 s", 160 * time.Millisecond: "0.2 s", 2 * time.Second: "2 s",
		9949 * time.Millisecond: "9.9 s", 9950 * time.Millisecond: "10 s", 119 * time.Second: "119 s", 2 * time.Minute: "2 m",
		125 * time.Second: "2 m 5 s", 2 * time.Hour: "2 h", 150 * time.Minute: "2 h 30 m",
	} {
		if got := seconds(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

// A page has whole lines where it can, never half a character, and leaves none out: page
// after page is the whole.
//
// Seen to fail: without the look at characters that are not finished.
func TestPages(t *testing.T) {
	for name, data := range map[string]string{
		"nothing":        "",
		"short":          "a\nb",
		"many lines":     strings.Repeat("x\n", 5000),
		"a long line":    strings.Repeat("é€😀", 20_000),
		"long lines":     strings.Repeat(strings.Repeat("é", 1000)+"\n", 100),
		"no characters":  strings.Repeat("\xff\x80", 40_000),
		"half at an end": "a€"[:3],
	} {
		var got, whole []byte
		for rest := []byte(data); len(rest) > 0; {
			p, _ := page(rest, true)
			if len(p) == 0 {
				t.Fatalf("%s: nothing of %d bytes is shown", name, len(rest))
			}
			if len(p) > textBytes || strings.Count(string(p), "\n") > textLines {
				t.Errorf("%s: %d bytes", name, len(p))
			}
			if utf8.ValidString(data) && !utf8.Valid(p) {
				t.Errorf("%s: a character is cut", name)
			}
			got, rest = append(got, p...), rest[len(p):]
		}
		if whole = []byte(data); !slices.Equal(got, whole) {
			t.Errorf("%s: the pages are %d bytes of %d", name, len(got), len(whole))
		}
	}
	for data, want := range map[string]string{
		"a€"[:3]: "a", "a\x1b": "a", "a\x1b[": "a", "a\x1b[31": "a", "a\x1b[31m": "a\x1b[31m", "a\x1b]0;t": "a", "a\x1b]0;t\a": "a\x1b]0;t\a",
		"a\x1b(": "a", "a\x1b(B": "a\x1b(B", "a\x1b7": "a\x1b7", "a\x1b[3\nb": "a\x1b[3\nb", "a\x1b[" + strings.Repeat("1", 300): "a\x1b[" + strings.Repeat("1", 300),
	} {
		if got, cut := page([]byte(data), false); string(got) != want || cut {
			t.Errorf("of %q, which may go on: got %q, %t, want %q", data, got, cut, want)
		}
		if got, _ := page([]byte(data), true); string(got) != data {
			t.Errorf("of %q, which is all: got %q", data, got)
		}
	}
}

func TestProjectOutput(t *testing.T) {
	running := process{ID: "1", Name: "web", Running: true, DurationMS: 3000, Written: 6}
	ended := process{ID: "2", DurationMS: 200, Written: 6, Result: &ending{Ending: "exited", ExitCode: new(3)}}
	for name, tt := range map[string]struct {
		out  outputOutput
		want []string
	}{
		"it runs":        {outputOutput{Process: running, Text: "hello\n", Next: 6}, []string{"hello\n", `[process 1 "web": running for 3 s; go on with since=6]`}},
		"nothing yet":    {outputOutput{Process: running, From: 6, Next: 6}, []string{`[process 1 "web": running for 3 s; no output from since=6 on yet]`}},
		"more":           {outputOutput{Process: running, Text: "hel", Next: 3, more: true}, []string{"hel", `[process 1 "web": running for 3 s; more of its output follows: since=3]`}},
		"it ended":       {outputOutput{Process: ended, Text: "hello\n", Next: 6}, []string{"hello\n", "[process 2: exit status 3 after 0.2 s; this is the end of its output]"}},
		"nothing after":  {outputOutput{Process: ended, From: 6, Next: 6}, []string{"[process 2: exit status 3 after 0.2 s; no output from since=6 on]"}},
		"nothing at all": {outputOutput{Process: process{ID: "3", Result: &ending{Ending: "stopped"}}}, []string{"[process 3: stopped after 0 s; it wrote nothing]"}},
		"what is missing": {
			outputOutput{Process: ended, Text: "lo\ufffd", From: 3, Next: 6, Dropped: 3, Raw: true},
			[]string{
				"lo\ufffd", "[3 bytes before this are not kept any more]\n[not valid UTF-8: bytes that are no characters are shown as \ufffd]\n" +
					"[process 2: exit status 3 after 0.2 s; this is the end of its output]",
			},
		},
		"what it left": {
			outputOutput{Process: process{ID: "4", Result: &ending{Ending: "exited", ExitCode: new(0), LeftRunning: true, Survivors: "process 12"}}},
			[]string{"[process 4: exit status 0 after 0 s; it wrote nothing]\n[processes that it left running were ended with it]\n[not all could be ended: process 12]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, content := projectOutput(outputInput{}, tt.out)
			if diff := cmp.Diff(tt.want, texts(t, content)); diff != "" {
				t.Error(diff)
			}
			if last := tt.want[len(tt.want)-1]; bracketed(out.Notes) != last {
				t.Errorf("got the notes %q, want those of %s", out.Notes, last)
			}
		})
	}
}

// A list is a line for each process, whatever is in its command, and bounded.
//
// Seen to fail: with commands as they are.
func TestProjectList(t *testing.T) {
	_, content := projectList(listInput{}, listOutput{})
	if diff := cmp.Diff([]string{"[this session has started no processes]"}, texts(t, content)); diff != "" {
		t.Error(diff)
	}
	_, content = projectList(listInput{}, listOutput{[]process{
		{ID: "1", Name: "web", Command: "npm run dev", Directory: "app", Running: true, DurationMS: 180_000},
		{ID: "2", Command: "a\nb \x1b[2J", Directory: ".", Result: &ending{Ending: "exited", ExitCode: new(0)}},
		{ID: "3", Name: "\"q\"\n", Command: `echo "a\b"`, Directory: ".", Result: &ending{Ending: "stopped"}},
	}})
	want := `process 1 "web": running for 3 m; in app: npm run dev
process 2: exit status 0 after 0 s; in .: "a\nb \x1b[2J"
process 3 "\"q\"\n": stopped after 0 s; in .: echo "a\b"
`
	if diff := cmp.Diff([]string{want}, texts(t, content)); diff != "" {
		t.Error(diff)
	}
	info := sdk.ProcessInfo{ID: "1", Name: strings.Repeat("n", maxName), Line: strings.Repeat("é\n", maxLine/3), Directory: strings.Repeat("d/", 2000)}
	out := listOutput{slices.Repeat([]process{processOf(info)}, 2*service.MaxProcesses)}
	_, content = projectList(listInput{}, out)
	structured, err := json.Marshal(out)
	if text := texts(t, content)[0]; err != nil || len(text) > textBytes || len(structured) > 1<<20 || strings.Count(text, "\n") != len(out.Processes) {
		t.Errorf("%d bytes and %d of the value, %v", len(text), len(structured), err)
	}
}

func TestProjectInputAndStart(t *testing.T) {
	for want, out := range map[string]inputOutput{
		"[1 byte written to process 1; process_output with since=7 shows what it wrote from then on]":                           {ID: "1", Bytes: 1, Since: 7},
		"[2 bytes written to process 1, and its input is closed; process_output with since=0 shows what it wrote from then on]": {ID: "1", Bytes: 2, Ended: true},
		"[the input of process 1 is closed; process_output with since=7 shows what it wrote from then on]":                      {ID: "1", Ended: true, Since: 7},
	} {
		_, content := projectInput(inputInput{}, out)
		if diff := cmp.Diff([]string{want}, texts(t, content)); diff != "" {
			t.Error(diff)
		}
	}
	_, content := projectStart(startInput{}, startOutput{process{ID: "4", Name: "web", Directory: "app"}})
	want := `[started process 4 "web" in app; process_output with id=4 shows what it writes, process_stop ends it]`
	if diff := cmp.Diff([]string{want}, texts(t, content)); diff != "" {
		t.Error(diff)
	}
}
