package filesystem

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestProjectGlob(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   globInput
		out  globOutput
		want []string
	}{
		{
			"some files", globInput{Pattern: "*.go"}, globOutput{Path: ".", Paths: []string{"a.go", "b\n.go", "c/d.go"}},
			[]string{"a.go\n\"b\\n.go\"\nc/d.go\n"},
		},
		{"none", globInput{Pattern: "*.rs"}, globOutput{Path: "src"}, []string{`[no file matches "*.rs" in src]`}},
		{
			"more than the limit", globInput{Pattern: "*"}, globOutput{Path: ".", Paths: []string{"a", "b"}, Truncated: true},
			[]string{"a\nb\n", "[paths shown: 2; there are more; narrow the pattern or the path]"},
		},
		{
			"some, and some left out", globInput{Pattern: "*"},
			globOutput{Path: ".", Paths: []string{"a"}, Skipped: skipped{Hidden: 2, Links: 1}},
			[]string{"a\n", "[left out: 2 hidden by a leading dot, 1 symbolic link]"},
		},
		{
			"a pattern that is no single line", globInput{Pattern: "a\nb"}, globOutput{Path: "x\ty"},
			[]string{`[no file matches "a\nb" in "x\ty"]`},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			structured, content := projectGlob(tt.in, tt.out)
			checkTexts(t, content, tt.want...)
			if len(structured.Paths) != len(tt.out.Paths) {
				t.Error("the structured value is not the output")
			}
		})
	}
}

func TestGlobTextIsBounded(t *testing.T) {
	for _, tt := range []struct {
		name  string
		paths []string
		more  bool
		want  string
	}{
		{
			"long paths", numbered(1000, strings.Repeat("d/", 40)+"%04d"), false,
			"[paths shown: 566 of 1000; left out: 434; narrow the pattern or the path]",
		},
		{
			"many short paths", numbered(10_000, "%04d"), true,
			"[paths shown: 1990; left out: more than 8010; narrow the pattern or the path]",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, content := projectGlob(globInput{Pattern: "*"}, globOutput{Path: ".", Paths: tt.paths, Truncated: tt.more})
			checkBounded(t, content)
			if got := texts(t, content); got[1] != tt.want {
				t.Errorf("got %s, want %s", got[1], tt.want)
			}
		})
	}
}

// The whole way: the newest first. Seen to fail: with the order not passed on.
func TestGlobByTime(t *testing.T) {
	p := start(t, map[string]string{"a": "", "b": "", "c": ""})
	now := time.Now()
	for name, age := range map[string]time.Duration{"a": time.Hour, "b": 0, "c": time.Minute} {
		if err := os.Chtimes(filepath.Join(p.Root(), name), now, now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	checkTexts(t, call(t, p, "glob", `{"pattern": "*", "sort": "time"}`).Content, "b\nc\na\n")
	checkTexts(t, call(t, p, "glob", `{"pattern": "*"}`).Content, "a\nb\nc\n")
	if o := p.Call("glob", `{"pattern": "*", "sort": "size"}`); o.Status != "failed" || !strings.Contains(o.Error.Message, `neither "path" nor "time"`) {
		t.Errorf("got %v, want a failure", o)
	}
}
