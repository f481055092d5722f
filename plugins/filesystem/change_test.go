package filesystem

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhost/toolhost/plugin/sdk"
	"github.com/toolhost/toolhost/plugin/sdk/sdktest"
)

// on is the input of a tool.
func on(pairs ...any) string {
	input := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		input[pairs[i].(string)] = pairs[i+1]
	}
	encoded, err := json.Marshal(input)
	if err != nil {
		panic(err)
	}
	return string(encoded)
}

func content(t *testing.T, p *sdktest.Plugin, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(p.Root(), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// wantFailure calls a tool that is to fail, and to say something.
func wantFailure(t *testing.T, p *sdktest.Plugin, name, input, says string) {
	t.Helper()
	if o := p.Call(name, input); o.Status != "failed" || !strings.Contains(o.Error.Message, says) {
		t.Errorf("%s %s: got %s, want a failure that says %q", name, input, o, says)
	}
}

// What each tool answers, and what it does.
func TestChangeTools(t *testing.T) {
	p := start(t, map[string]string{"a": "one\ntwo\n", "d/x": "x\n"})
	checkTexts(t, call(t, p, "write", on("path", "new/f", "content", "1\n2\n")).Content, "created new/f (+2 -0 lines)\n")
	o := call(t, p, "edit", on("path", "a", "old", "two", "new", "2"))
	if !strings.HasPrefix(o.Text, "changed a (+1 -1 lines)\n\n") || !strings.Contains(o.Text, "\n-two\n+2\n") {
		t.Errorf("got %s", o)
	}
	call(t, p, "edit", on("path", "a", "edits", []any{map[string]any{"old": "one", "new": "1"}, map[string]any{"old": "1\n2", "new": "1 2"}}))
	checkTexts(t, call(t, p, "move", on("from", "d", "to", "e/d")).Content, "moved directory d -> e/d\n  with 1 files and directories in it\n")
	checkTexts(t, call(t, p, "remove", on("path", "new", "recursive", true)).Content, "removed directory new\n  with 1 files and directories in it\n")
	checkTexts(t, call(t, p, "mkdir", on("path", "m/n")).Content, "made directory m/n\n")
	checkTexts(t, call(t, p, "mkdir", on("path", "m/n")).Content, "[nothing was to be done: everything is so already]")
	o = call(t, p, "patch", on("patch", "*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@\n-1 2\n+3\n*** Add File: c\n+c\n*** End Patch\n"))
	var out changeOutput
	if err := json.Unmarshal(o.Structured, &out); err != nil {
		t.Fatal(err)
	}
	want := []fileChange{{Kind: "moved", Path: "b", From: "a", Added: 1, Removed: 1, Size: 2}, {Kind: "created", Path: "c", Added: 1, Size: 2}}
	if diff := cmp.Diff(want, out.Changes); diff != "" {
		t.Error(diff)
	}
	if got := content(t, p, "b") + content(t, p, "c") + content(t, p, "e/d/x"); got != "3\nc\nx\n" {
		t.Errorf("got %q", got)
	}
	if _, err := os.Stat(p.Root() + "/new"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("new is there: %v", err)
	}
	wantFailure(t, p, "edit", on("path", "b", "new", "x"), "old is empty")
	wantFailure(t, p, "edit", on("path", "b", "edits", []any{}), "edits is empty: give at least one replacement in it, or old and new in place of it")
	wantFailure(t, p, "edit", on("path", "b", "edits", []any{map[string]any{"old": "3", "new": "4"}, map[string]any{"old": "", "new": "4"}}), "edit 2 of 2: old is empty")
	wantFailure(t, p, "edit", on("path", "b", "old", "3", "new", "4", "edits", []any{map[string]any{"old": "3", "new": "4"}}), "not both")
	wantFailure(t, p, "edit", on("path", "no", "old", "3", "new", "4"), "write makes new files")
	wantFailure(t, p, "remove", on("path", "."), "the root itself")
	wantFailure(t, p, "write", on("path", "../x", "content", ""), "out of the root")
}

// What each tool asks for before it does anything, and that nothing is done if it is
// refused (laws 25, 33, 36).
//
// Seen to fail: with the spelled path alone.
func TestLaw25ChangesAskBefore(t *testing.T) {
	files := map[string]string{"a": "one\n", "d/x*": "x\n"}
	for name, tt := range map[string]struct {
		tool, input     string
		resources, save []string
	}{
		"write":         {"write", on("path", "./n/../new", "content", "x"), []string{"new"}, []string{"new"}},
		"edit":          {"edit", on("path", "l", "old", "one", "new", "1"), []string{"l", "a"}, []string{"l", "a"}},
		"patch":         {"patch", on("patch", "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-one\n+1\n"), []string{"a"}, []string{"a"}},
		"move":          {"move", on("from", "d/x*", "to", "y"), []string{"d/x*", "y"}, []string{`d/x\*`, "y"}},
		"remove":        {"remove", on("path", "l"), []string{"l"}, []string{"l"}},
		"remove all":    {"remove", on("path", "d", "recursive", true), []string{"d"}, []string{"d"}},
		"mkdir":         {"mkdir", on("path", "m"), []string{"m"}, []string{"m"}},
		"nothing to do": {"mkdir", on("path", "d"), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []sdk.PermissionRequest
			p := sdktest.Start(t, New(), sdktest.Options{Files: files, Permission: func(r sdk.PermissionRequest) error {
				asked = append(asked, r)
				return errors.New("no")
			}})
			link(t, p, "a", "l")
			o := p.Call(tt.tool, tt.input)
			if tt.resources == nil {
				if o.Status != "completed" || len(asked) > 0 {
					t.Errorf("asked %v, got %s", asked, o)
				}
				return
			}
			want := []sdk.PermissionRequest{{Action: "edit", Resources: tt.resources, Save: tt.save}}
			if diff := cmp.Diff(want, asked); diff != "" || o.Status != "rejected" || o.Ran {
				t.Errorf("got %s; asked (-want +got):\n%s", o, diff)
			}
			got := map[string]string{}
			for name := range files {
				got[name] = content(t, p, name)
			}
			if entries, err := os.ReadDir(p.Root()); err != nil || !maps.Equal(got, files) || len(entries) != 3 {
				t.Errorf("%v, %v, %v", entries, got, err)
			}
		})
	}
}

// A link to what is not there does not make it (case A04).
func TestCaseA04DanglingLink(t *testing.T) {
	outside := t.TempDir()
	p := start(t, nil)
	link(t, p, outside+"/later", "draft")
	wantFailure(t, p, "write", on("path", "draft", "content", "x"), "out of the root")
	wantFailure(t, p, "patch", on("patch", "*** Begin Patch\n*** Add File: draft\n+x\n*** End Patch\n"), "out of the root")
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("outside: %v, %v", entries, err)
	}
}

// The bytes that an edit leaves, by case.
func TestCasesOfBytes(t *testing.T) {
	for name, tt := range map[string]struct{ before, tool, input, want, fails string }{
		"A08 lines of another end":   {"one\r\ntwo\r\nthree\r\n", "edit", on("path", "f", "old", "one\ntwo", "new", "one\nTWO\nplus"), "one\r\nTWO\r\nplus\r\nthree\r\n", ""},
		"A09 other lines stay":       {"p\r\nq\nr\r\ns", "edit", on("path", "f", "old", "s", "new", "S"), "p\r\nq\nr\r\nS", ""},
		"A11 the mark stays":         {"\xef\xbb\xbfalpha\nb\n", "edit", on("path", "f", "old", "alpha", "new", "beta"), "\xef\xbb\xbfbeta\nb\n", ""},
		"A12 other bytes stay":       {"caf\xe9\nport=1\n", "edit", on("path", "f", "old", "port=1", "new", "port=2"), "caf\xe9\nport=2\n", ""},
		"A14 no template":            {"KEEP\nT\nKEEP\n", "edit", on("path", "f", "old", "T", "new", "$& $1 ${1} $$ \\1 $` $'"), "KEEP\n$& $1 ${1} $$ \\1 $` $'\nKEEP\n", ""},
		"A15 blank":                  {"ab\ncd", "edit", on("path", "f", "old", " ", "new", "#", "replace_all", true), "ab\ncd", "blank"},
		"A15 empty":                  {"ab\ncd", "edit", on("path", "f", "old", "", "new", "#"), "ab\ncd", "empty"},
		"A17 no line end":            {"a\nb\nc", "patch", on("patch", "*** Begin Patch\n*** Update File: f\n@@\n-a\n+A\n b\n*** End Patch\n"), "A\nb\nc", ""},
		"A17 unified":                {"a\nb\nc", "patch", on("patch", "--- f\n+++ f\n@@ -1,2 +1,2 @@\n-a\n+A\n b\n"), "A\nb\nc", ""},
		"A17 a line end is added":    {"A\nb\nc", "patch", on("patch", "--- f\n+++ f\n@@ -3 +3 @@\n-c\n\\ No newline at end of file\n+c\n"), "A\nb\nc\n", ""},
		"A18 blank lines at the end": {"h\nt\n\n\n", "patch", on("patch", "*** Begin Patch\n*** Update File: f\n@@\n-h\n+H\n t\n*** End Patch\n"), "H\nt\n\n\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, map[string]string{"f": tt.before})
			if tt.fails != "" {
				wantFailure(t, p, tt.tool, tt.input, tt.fails)
			} else {
				call(t, p, tt.tool, tt.input)
			}
			if got := content(t, p, "f"); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// A write keeps what read does not show: the mark, and UTF-16 (case A11).
func TestCaseA11WriteKeepsTheMark(t *testing.T) {
	p := start(t, map[string]string{"u8": "\xef\xbb\xbfalpha\n", "u16": "\xff\xfeh\x00i\x00\n\x00"})
	for _, name := range []string{"u8", "u16"} {
		call(t, p, "read", on("path", name))
		call(t, p, "write", on("path", name, "content", "é\n"))
	}
	if got := content(t, p, "u8") + content(t, p, "u16"); got != "\xef\xbb\xbfé\n\xff\xfe\xe9\x00\n\x00" {
		t.Errorf("got %q", got)
	}
}

// Calls at the same time, through several spellings, lose nothing (case A20).
func TestCaseA20ParallelCalls(t *testing.T) {
	const lines = 50
	var before, want []string
	for i := range lines {
		before, want = append(before, fmt.Sprintf("L%d.\n", i)), append(want, fmt.Sprintf("E%d.\n", i))
	}
	p := start(t, map[string]string{"d/f": strings.Join(before, "")})
	link(t, p, "d", "alias")
	var calls sync.WaitGroup
	var mu sync.Mutex
	for i := range lines {
		calls.Go(func() {
			dir := []string{"d", "alias"}[i%2]
			o := p.Call("edit", on("path", dir+"/f", "old", fmt.Sprintf("L%d.", i), "new", fmt.Sprintf("E%d.", i)))
			if o.Status != "completed" { // which must leave its line alone
				mu.Lock()
				defer mu.Unlock()
				t.Logf("edit %d: %s", i, o)
				want[i] = before[i]
			}
		})
	}
	calls.Wait()
	if got := content(t, p, "d/f"); got != strings.Join(want, "") {
		t.Errorf("got %q", got)
	}
	if done := lines - len(slices.DeleteFunc(want, func(line string) bool { return strings.HasPrefix(line, "E") })); done < lines {
		t.Errorf("%d of %d were made", done, lines)
	}
}

// A file that somebody else changed is not overwritten (case A21).
func TestCaseA21StaleWrite(t *testing.T) {
	p := start(t, map[string]string{"f": "one\n"})
	wantFailure(t, p, "write", on("path", "f", "content", "two\n"), "has not read it")
	call(t, p, "read", on("path", "f"))
	if err := os.WriteFile(p.Root()+"/f", []byte("ONE\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	wantFailure(t, p, "write", on("path", "f", "content", "two\n"), "changed since this session read it")
	if got := content(t, p, "f"); got != "ONE\n" {
		t.Errorf("got %q", got)
	}
	call(t, p, "read", on("path", "f"))
	call(t, p, "write", on("path", "f", "content", "two\n"))
	call(t, p, "write", on("path", "f", "content", "three\n"))
}
