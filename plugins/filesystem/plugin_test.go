package filesystem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhost/toolhost/plugin/sdk"
	"github.com/toolhost/toolhost/plugin/sdk/sdktest"
)

func start(t *testing.T, files map[string]string) *sdktest.Plugin {
	t.Helper()
	return sdktest.Start(t, New(), sdktest.Options{Files: files})
}

// call calls a tool that is to complete.
func call(t *testing.T, p *sdktest.Plugin, name, input string) sdktest.Outcome {
	t.Helper()
	o := p.Call(name, input)
	if o.Status != "completed" {
		t.Fatalf("%s %s: %s", name, input, o)
	}
	checkBounded(t, o.Content)
	return o
}

func link(t *testing.T, p *sdktest.Plugin, target, name string) {
	t.Helper()
	if err := os.Symlink(target, filepath.Join(p.Root(), name)); err != nil {
		t.Fatal(err)
	}
}

// A model knows the tools by this and by nothing else.
func TestDefinitions(t *testing.T) {
	type definition struct {
		Title   string
		Input   map[string]string // type by name; with a star if it is required
		Output  []string          // of the structured value, as above
		Effects string
	}
	type object struct {
		Properties map[string]struct {
			Type        any
			Description string
		}
		Required []string
	}
	parse := func(tool, schema string) object {
		var o object
		if err := json.Unmarshal([]byte(schema), &o); err != nil {
			t.Fatal(err)
		}
		for name, property := range o.Properties {
			if property.Description == "" {
				t.Errorf("%s: %s has no description", tool, name)
			}
		}
		return o
	}
	got := map[string]definition{}
	for _, d := range start(t, nil).Tools() {
		if d.ID != "filesystem/"+d.Name || len(d.Description) < 200 {
			t.Errorf("%s is %s and described in %d bytes", d.Name, d.ID, len(d.Description))
		}
		in, out := parse(d.Name, string(d.Input)), parse(d.Name, string(d.Output))
		x := definition{Title: d.Title, Input: map[string]string{}, Output: out.Required, Effects: d.Effects.String()}
		for name, property := range in.Properties {
			x.Input[name] = fmt.Sprint(property.Type)
		}
		for _, name := range in.Required {
			x.Input[name] += "*"
		}
		got[d.Name] = x
	}
	want := map[string]definition{
		"read": {
			Title:   "Read a file",
			Input:   map[string]string{"path": "string*", "offset": "integer", "limit": "integer"},
			Output:  []string{"path", "text", "first_line", "lines", "total_lines", "size", "encoding"},
			Effects: "read",
		},
		"list": {
			Title:   "List a directory",
			Input:   map[string]string{"path": "string", "depth": "integer"},
			Output:  []string{"path", "entries", "truncated"},
			Effects: "read",
		},
		"glob": {
			Title:   "Find files by name",
			Input:   map[string]string{"pattern": "string*", "path": "string", "sort": "string"},
			Output:  []string{"path", "paths", "truncated"},
			Effects: "read",
		},
		"grep": {
			Title: "Search in files",
			Input: map[string]string{
				"pattern": "string*", "path": "string", "include": "string", "ignore_case": "boolean", "literal": "boolean",
				"context": "integer", "limit": "integer", "type": "string", "mode": "string", "multiline": "boolean",
			},
			Output:  []string{"path", "searched", "truncated", "omitted", "matches", "shown", "files"},
			Effects: "read",
		},
		"write": {
			Title:   "Write a file",
			Input:   map[string]string{"path": "string*", "content": "string*", "create_only": "boolean"},
			Output:  []string{"changes"},
			Effects: "read,write",
		},
		"edit": {
			Title:   "Edit a file",
			Input:   map[string]string{"path": "string*", "old": "string", "new": "string", "replace_all": "boolean", "edits": "[null array]"},
			Output:  []string{"changes"},
			Effects: "read,write",
		},
		"patch": {
			Title:   "Apply a patch",
			Input:   map[string]string{"patch": "string*"},
			Output:  []string{"changes"},
			Effects: "read,write",
		},
		"move": {
			Title:   "Move a file",
			Input:   map[string]string{"from": "string*", "to": "string*"},
			Output:  []string{"changes"},
			Effects: "read,write",
		},
		"remove": {
			Title:   "Remove a file",
			Input:   map[string]string{"path": "string*", "recursive": "boolean"},
			Output:  []string{"changes"},
			Effects: "read,write",
		},
		"mkdir": {
			Title:   "Make a directory",
			Input:   map[string]string{"path": "string*"},
			Output:  []string{"changes"},
			Effects: "read,write",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The whole way, through the real engine.
func TestCalls(t *testing.T) {
	p := start(t, map[string]string{
		".env":           "TOKEN=1\n",
		".gitignore":     "dist/\ntodo.txt\n",
		"README.md":      "# Hello\n\nworld\n",
		"dist/app.js":    "hello()\n",
		"new\nline":      "hello\n",
		"caf\xe9":        "hello\n",
		"src/main.go":    "package main\n\nfunc main() {\n\tprintln(\"hello\")\n}\n",
		"src/util/x.go":  "package util\n",
		"todo.txt":       "hello\n",
		"zero":           "hello\x00",
		"empty/.gitkeep": "",
	})
	link(t, p, "src/main.go", "latest.go")
	for _, tt := range []struct {
		tool, input string
		want        []string
		structured  string
	}{
		{
			"read", `{"path": "README.md"}`, []string{"# Hello\n\nworld\n"},
			`{"path":"README.md","text":"# Hello\n\nworld\n","first_line":1,"lines":3,"total_lines":3,"size":15,"encoding":"utf-8"}`,
		},
		{
			"read", `{"path": "./src/../README.md", "offset": 2, "limit": 1.0}`, []string{"\n", "[line 2 of 3; next page: offset=3]"},
			`{"path":"README.md","text":"\n","first_line":2,"lines":1,"total_lines":3,"next_offset":3,"size":15,"encoding":"utf-8",` +
				`"notes":["line 2 of 3; next page: offset=3"]}`,
		},
		{
			"read", `{"path": "latest.go", "offset": -2}`,
			[]string{"\tprintln(\"hello\")\n}\n", "[lines 4-5 of 5; this is the end of the file]"},
			`{"path":"latest.go","text":"\tprintln(\"hello\")\n}\n","first_line":4,"lines":2,"total_lines":5,"size":48,"encoding":"utf-8",` +
				`"notes":["lines 4-5 of 5; this is the end of the file"]}`,
		},
		{
			"read", `{"path": "new\nline"}`, []string{"hello\n"},
			`{"path":"new\nline","text":"hello\n","first_line":1,"lines":1,"total_lines":1,"size":6,"encoding":"utf-8"}`,
		},
		{
			"read", `{"path": "empty/.gitkeep"}`, []string{"[the file is empty]"},
			`{"path":"empty/.gitkeep","text":"","first_line":0,"lines":0,"total_lines":0,"size":0,"encoding":"utf-8",` +
				`"notes":["the file is empty"]}`,
		},
		{
			"list", `{}`, []string{
				".env  8 B\n.gitignore  15 B\nREADME.md  15 B\n\"caf\ufffd\"  6 B\ndist/\nempty/\nlatest.go -> src/main.go\n" +
					"\"new\\nline\"  6 B\nsrc/\ntodo.txt  6 B\nzero  6 B\n",
				"[a name with \ufffd is not valid UTF-8, and cannot be given to a tool]",
			},
			`{"path":".","entries":[{"path":".env","kind":"file","size":8},{"path":".gitignore","kind":"file","size":15},` +
				`{"path":"README.md","kind":"file","size":15},{"path":"caf\ufffd","kind":"file","size":6},` +
				`{"path":"dist","kind":"directory"},{"path":"empty","kind":"directory"},` +
				`{"path":"latest.go","kind":"symlink","target":"src/main.go"},{"path":"new\nline","kind":"file","size":6},` +
				`{"path":"src","kind":"directory"},{"path":"todo.txt","kind":"file","size":6},` +
				`{"path":"zero","kind":"file","size":6}],"truncated":false,` +
				`"notes":["a name with � is not valid UTF-8, and cannot be given to a tool"]}`,
		},
		{
			"list", `{"path": "src/", "depth": 2}`, []string{"src/main.go  48 B\nsrc/util/\nsrc/util/x.go  13 B\n"},
			`{"path":"src","entries":[{"path":"src/main.go","kind":"file","size":48},{"path":"src/util","kind":"directory"},` +
				`{"path":"src/util/x.go","kind":"file","size":13}],"truncated":false}`,
		},
		{
			"glob", `{"pattern": "*.go"}`, []string{"src/main.go\nsrc/util/x.go\n", "[left out: 1 hidden by ignore rules, 1 symbolic link]"},
			`{"path":".","paths":["src/main.go","src/util/x.go"],"truncated":false,"skipped":{"ignored":1,"links":1},` +
				`"notes":["left out: 1 hidden by ignore rules, 1 symbolic link"]}`,
		},
		{
			"glob", `{"pattern": "*.rs", "path": "src"}`, []string{`[no file matches "*.rs" in src]`},
			`{"path":"src","paths":[],"truncated":false,"notes":["no file matches \"*.rs\" in src"]}`,
		},
		{
			"grep", `{"pattern": "HELLO", "ignore_case": true}`, []string{
				"README.md:1: # Hello\n\"caf\ufffd\":1: hello\n\"new\\nline\":1: hello\nsrc/main.go:4: \tprintln(\"hello\")\n",
				"[left out: 2 hidden by ignore rules, 3 hidden by a leading dot, 1 symbolic link, 1 binary]\n" +
					"[a name with \ufffd is not valid UTF-8, and cannot be given to a tool]",
			},
			`{"path":".","searched":5,"truncated":false,"omitted":0,"skipped":{"ignored":2,"hidden":3,"links":1,"binary":1},` +
				`"matches":4,"shown":4,"files":[{"path":"README.md","lines":[{"line":1,"text":"# Hello"}]},` +
				`{"path":"caf\ufffd","lines":[{"line":1,"text":"hello"}]},{"path":"new\nline","lines":[{"line":1,"text":"hello"}]},` +
				`{"path":"src/main.go","lines":[{"line":4,"text":"\tprintln(\"hello\")"}]}],` +
				`"notes":["left out: 2 hidden by ignore rules, 3 hidden by a leading dot, 1 symbolic link, 1 binary",` +
				`"a name with � is not valid UTF-8, and cannot be given to a tool"]}`,
		},
		{
			"grep", `{"pattern": "main()", "literal": true, "path": "src", "include": "*.go", "context": 1}`,
			[]string{"src/main.go-2-\nsrc/main.go:3: func main() {\nsrc/main.go-4- \tprintln(\"hello\")\n"},
			`{"path":"src","searched":2,"truncated":false,"omitted":0,"matches":1,"shown":1,` +
				`"files":[{"path":"src/main.go","lines":[{"line":2,"text":"","context":true},{"line":3,"text":"func main() {"},` +
				`{"line":4,"text":"\tprintln(\"hello\")","context":true}]}]}`,
		},
		{
			"grep", `{"pattern": "^package", "path": "src", "limit": 1}`,
			[]string{
				"src/main.go:1: package main\n",
				"[matching lines shown: 1; left out: 1; narrow the pattern, path or include, or raise limit]",
			},
			`{"path":"src","searched":2,"truncated":true,"omitted":1,"matches":1,"shown":1,` +
				`"files":[{"path":"src/main.go","lines":[{"line":1,"text":"package main"}]}],` +
				`"notes":["matching lines shown: 1; left out: 1; narrow the pattern, path or include, or raise limit"]}`,
		},
		{
			"grep", `{"pattern": "hello", "path": "todo.txt"}`, []string{"todo.txt:1: hello\n"},
			`{"path":"todo.txt","searched":1,"truncated":false,"omitted":0,"matches":1,"shown":1,` +
				`"files":[{"path":"todo.txt","lines":[{"line":1,"text":"hello"}]}]}`,
		},
	} {
		t.Run(tt.tool+" "+tt.input, func(t *testing.T) {
			o := call(t, p, tt.tool, tt.input)
			checkTexts(t, o.Content, tt.want...)
			if diff := cmp.Diff(tt.structured, string(o.Structured)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What a model can correct it is told, in words that say how. Broken by hand:
// with an error of the service that is not made a failure.
func TestLaw22FailuresAreDeliberate(t *testing.T) {
	p := start(t, map[string]string{"a.txt": "a\nb\n", "dir/f": "x", "zero": "\x00"})
	for _, tt := range []struct{ tool, input, want string }{
		{"read", `{"path": ""}`, "path is empty: name a file; list shows which there are"},
		{"read", `{"path": "nope"}`, "nope: does not exist; list \".\" shows what is there"},
		{"read", `{"path": "../x"}`, "../x: leads out of the root; only what is below it can be reached"},
		{"read", `{"path": "dir"}`, "dir: is a directory; list it, or name a file in it"},
		{"read", `{"path": "zero"}`, "zero: is a binary file of 1 bytes, and only text and images (PNG, JPEG, GIF, WebP) can be read"},
		{"read", `{"path": "a.txt", "offset": 3}`, "a.txt: line 3 is past the end: the file has 2 lines; a negative offset counts from the end"},
		{"read", `{"path": "a.txt", "limit": 2001}`, "limit is 2001: give 1 to 2000, or leave it out"},
		{"read", `{"path": "a.txt", "limit": -1}`, "limit is -1: give 1 to 2000, or leave it out"},
		{"read", `{"path": "a.txt", "limit": 1e300}`, "limit is 9223372036854775807: give 1 to 2000, or leave it out"},
		{"list", `{"path": "a.txt"}`, "a.txt: is a file, and this needs a directory"},
		{"list", `{"depth": 17}`, "depth is 17: give 1 to 16, or leave it out"},
		{"list", `{"path": "nope"}`, "nope: does not exist; list \".\" shows what is there"},
		{"glob", `{"pattern": ""}`, "pattern is empty: say what to look for"},
		{"glob", `{"pattern": "*", "path": "nope"}`, "nope: does not exist; list \".\" shows what is there"},
		{"glob", `{"pattern": "*", "path": "a.txt"}`, "a.txt: is a file, and this needs a directory"},
		{"grep", `{"pattern": ""}`, "pattern is empty: say what to look for"},
		{"grep", `{"pattern": "x", "include": "` + strings.Repeat("x", 4097) + `"}`, "include has 4097 bytes: at most 4096"},
		{"grep", `{"pattern": "x", "path": "nope"}`, "nope: does not exist; list \".\" shows what is there"},
		{"grep", `{"pattern": "x", "context": 21}`, "context is 21: give 1 to 20, or leave it out"},
		{"grep", `{"pattern": "x", "limit": 10001}`, "limit is 10001: give 1 to 10000, or leave it out"},
	} {
		o := p.Call(tt.tool, tt.input)
		if o.Status != "failed" || o.Error.Message != tt.want {
			t.Errorf("%s %.50s: got %s\nwant failed: %s", tt.tool, tt.input, o, tt.want)
		}
	}
	// The words are the engine's.
	for _, tt := range [][3]string{
		{"glob", `{"pattern": "["}`, `pattern "["`},
		{"grep", `{"pattern": "x", "include": "["}`, `pattern "["`},
		{"grep", `{"pattern": "(?=x)"}`, "RE2"},
	} {
		if o := p.Call(tt[0], tt[1]); o.Status != "failed" || !strings.Contains(o.Error.Message, tt[2]) {
			t.Errorf("%s %s: got %s, want failed with %s", tt[0], tt[1], o, tt[2])
		}
	}
}

// The path or the pattern is asked for, once, before anything is looked at; and
// what "always" would save is what the documentation of the package says.
// Broken by hand: without the assertion.
func TestLaw33Requests(t *testing.T) {
	var asked []sdk.PermissionRequest
	p := sdktest.Start(t, New(), sdktest.Options{
		Files: map[string]string{"src/a.go": "x\n", "src/*.md": "x\n"},
		Permission: func(r sdk.PermissionRequest) error {
			asked = append(asked, r)
			return errors.New("not today")
		},
	})
	link(t, p, "src", "link")
	link(t, p, ".", "root")
	for _, tt := range []struct {
		tool, input string
		want        sdk.PermissionRequest
	}{
		{
			"read", `{"path": "./src//a.go"}`,
			sdk.PermissionRequest{Action: "read", Resources: []string{"src/a.go"}, Save: []string{"src/a.go"}},
		},
		{
			"read", `{"path": "src/*.md"}`,
			sdk.PermissionRequest{Action: "read", Resources: []string{"src/*.md"}, Save: []string{`src/\*.md`}},
		},
		{ // law 39
			"read", `{"path": "link/a.go"}`,
			sdk.PermissionRequest{
				Action: "read", Resources: []string{"link/a.go", "src/a.go"}, Save: []string{"link/a.go", "src/a.go"},
			},
		},
		{
			"list", `{"path": "link"}`,
			sdk.PermissionRequest{
				Action: "list", Resources: []string{"link", "src"}, Save: []string{"link", "link/*", "src", "src/*"},
			},
		},
		{"list", `{"path": "root"}`, sdk.PermissionRequest{Action: "list", Resources: []string{"root", "."}, Save: []string{"*"}}},
		{"list", `{}`, sdk.PermissionRequest{Action: "list", Resources: []string{"."}, Save: []string{"*"}}},
		{
			"list", `{"path": "src"}`,
			sdk.PermissionRequest{Action: "list", Resources: []string{"src"}, Save: []string{"src", "src/*"}},
		},
		{
			"glob", `{"pattern": "**/*.go"}`,
			sdk.PermissionRequest{
				Action: "glob", Resources: []string{"**/*.go"}, Save: []string{"*"}, Metadata: map[string]string{"root": "."},
			},
		},
		{
			"grep", `{"pattern": "x", "path": "src/", "include": "*.go"}`,
			sdk.PermissionRequest{
				Action: "grep", Resources: []string{"x"}, Save: []string{"*"}, Metadata: map[string]string{"root": "src"},
			},
		},
	} {
		t.Run(tt.tool+" "+tt.input, func(t *testing.T) {
			asked = nil
			o := p.Call(tt.tool, tt.input)
			if o.Status != "rejected" || o.Error.Kind != "denied" || !strings.HasSuffix(o.Error.Message, "not today") || !o.Ran {
				t.Errorf("got %s, want rejected: denied: … not today", o)
			}
			if diff := cmp.Diff([]sdk.PermissionRequest{tt.want}, asked); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A link is no way around a rule about what it leads to. Broken by hand: with the
// path asked for as it was spelled alone.
func TestLaw39LinkIsNoWayAround(t *testing.T) {
	p := sdktest.Start(t, New(), sdktest.Options{
		Files: map[string]string{".env": "TOKEN=1\n", "keys/id": "secret\n"},
		Permission: func(r sdk.PermissionRequest) error {
			if slices.ContainsFunc(r.Resources, func(path string) bool { return path == ".env" || path == "keys" }) {
				return errors.New("a secret")
			}
			return nil
		},
	})
	link(t, p, ".env", "notes")
	link(t, p, "keys", "docs")
	for _, tt := range [][2]string{{"read", `{"path": "notes"}`}, {"list", `{"path": "docs"}`}} {
		if o := p.Call(tt[0], tt[1]); o.Status != "rejected" || len(o.Content) > 0 {
			t.Errorf("%s %s: got %s, want rejected", tt[0], tt[1], o)
		}
	}
}

// What was permitted is what is used, though its name leads elsewhere by then.
// Broken by hand: with the path resolved again after the assertion.
func TestLaw39PermittedIsUsed(t *testing.T) {
	var p *sdktest.Plugin
	swap := func(sdk.PermissionRequest) error {
		dir, aside := filepath.Join(p.Root(), "dir"), filepath.Join(p.Root(), "aside")
		return errors.Join(os.Rename(dir, aside), os.Rename(filepath.Join(p.Root(), "secret"), dir))
	}
	for _, tt := range []struct{ tool, input, want string }{
		{"read", `{"path": "dir/f"}`, "open\n"},
		{"list", `{"path": "dir"}`, "dir/f  5 B\n"},
		{"glob", `{"pattern": "*", "path": "dir"}`, "dir/f\n"},
		{"grep", `{"pattern": ".", "path": "dir"}`, "dir/f:1: open\n"},
	} {
		t.Run(tt.tool, func(t *testing.T) {
			p = sdktest.Start(t, New(), sdktest.Options{
				Files:      map[string]string{"dir/f": "open\n", "secret/f": "secret\n", "secret/g": "secret\n"},
				Permission: swap,
			})
			checkTexts(t, call(t, p, tt.tool, tt.input).Content, tt.want)
			if now, err := os.ReadFile(filepath.Join(p.Root(), "dir", "f")); err != nil || string(now) != "secret\n" {
				t.Fatalf("the directory was not replaced: %q, %v", now, err)
			}
		})
	}
}

// Giving up is no answer (law 14).
func TestLaw14CancelledWhileAsked(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the caller left")
	p := sdktest.Start(t, New(), sdktest.Options{
		Files:      map[string]string{"f": "x\n"},
		Permission: func(sdk.PermissionRequest) error { cancel(why); return nil },
	})
	if o, err := p.CallContext(ctx, "grep", `{"pattern": "x"}`); !errors.Is(err, why) {
		t.Errorf("got %s, %v; want %v", o, err, why)
	}
}

// The host refuses it before it is activated. Broken by hand: without Needs.
func TestNeedsItsServices(t *testing.T) {
	for _, tt := range []struct {
		grants []sdk.Service
		want   string
	}{
		{[]sdk.Service{sdk.FileSystemWrite, sdk.Permissions}, "filesystem:read"},
		{[]sdk.Service{sdk.FileSystemRead, sdk.Permissions}, "filesystem:write"},
		{[]sdk.Service{sdk.FileSystemRead, sdk.FileSystemWrite}, "permission"},
	} {
		_, err := sdktest.Activate(t, New(), sdktest.Options{Grants: tt.grants})
		if err == nil || !strings.Contains(err.Error(), "it needs the service "+tt.want) {
			t.Errorf("with %s: got %v, want an error that it needs %s", tt.grants, err, tt.want)
		}
	}
}
