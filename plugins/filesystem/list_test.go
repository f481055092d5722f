package filesystem

import (
	"math"
	"strings"
	"testing"
)

func TestProjectList(t *testing.T) {
	for _, tt := range []struct {
		name string
		out  listOutput
		want []string
	}{
		{"an empty directory", listOutput{Path: "src"}, []string{"[src has no entries]"}},
		{
			"all kinds", listOutput{Path: ".", Entries: []entry{
				{Path: ".git", Kind: "directory"},
				{Path: "README.md", Kind: "file", Size: 1234},
				{Path: "empty", Kind: "file"},
				{Path: "latest", Kind: "symlink", Target: "releases/v2"},
				{Path: "run.sock", Kind: "special"},
				{Path: "src", Kind: "directory"},
				{Path: "src/main.go", Kind: "file", Size: 812},
				{Path: "src/odd\nname", Kind: "file", Size: 5 << 20},
				{Path: "src/odd  dir", Kind: "directory"},
				{Path: "src/to", Kind: "symlink", Target: "a\x1bb"},
			}},
			[]string{`.git/
README.md  1.2 KiB
empty  0 B
latest -> releases/v2
run.sock  special file
src/
src/main.go  812 B
"src/odd\nname"  5.0 MiB
"src/odd  dir/"
src/to -> "a\u001bb"
`},
		},
		{
			"more than the limit",
			listOutput{Path: ".", Truncated: true, Entries: []entry{{Path: "a", Kind: "file"}}},
			[]string{"a  0 B\n", "[entries shown: 1; there are more; list a directory further down, or use glob]"},
		},
		{
			"what is not entered, and not shown",
			listOutput{
				Path: ".", Entries: []entry{{Path: "dist", Kind: "directory"}},
				Skipped: skipped{Ignored: 1, Denied: 2, Unreadable: 1},
			},
			[]string{
				"dist/\n", "[1 ignored directory is listed but not entered: name one in path to see what is in it]\n" +
					"[left out: 2 not allowed by the permission rules, 1 unreadable]",
			},
		},
		{
			"nothing that may be shown", listOutput{Path: "keys", Skipped: skipped{Denied: 3}},
			[]string{"[keys has no entries]\n[left out: 3 not allowed by the permission rules]"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			structured, content := projectList(listInput{}, tt.out)
			checkTexts(t, content, tt.want...)
			if len(structured.Entries) != len(tt.out.Entries) || !notesAreThoseOf(structured.Notes, tt.want) {
				t.Errorf("the structured value is %+v", structured)
			}
		})
	}
}

func TestListTextIsBounded(t *testing.T) {
	out := listOutput{Path: ".", Truncated: true}
	for _, path := range numbered(1000, strings.Repeat("d/", 40)+"%04d") {
		out.Entries = append(out.Entries, entry{Path: path, Kind: "file", Size: 1})
	}
	structured, content := projectList(listInput{}, out)
	if len(structured.Entries) != 534 || len(out.Entries) != 1000 {
		t.Errorf("%d entries, want 534, as in the text", len(structured.Entries))
	}
	checkBounded(t, content)
	got := texts(t, content)
	want := "[entries shown: 534; left out: more than 466; list a directory further down, or use glob]"
	if lines := strings.Count(got[0], "\n"); lines != 534 || got[1] != want {
		t.Errorf("%d lines and %s, want 534 and %s", lines, got[1], want)
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1<<20 - 1: "1.0 MiB", 1 << 20: "1.0 MiB",
		1047000: "1022.5 KiB", 5 << 30: "5.0 GiB", math.MaxInt64: "8388608.0 TiB",
	} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %s, want %s", n, got, want)
		}
	}
}
