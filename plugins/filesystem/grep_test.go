package filesystem

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestProjectGrep(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   grepInput
		out  grepOutput
		want []string
	}{
		{
			"matches", grepInput{Pattern: "x"},
			grepOutput{Matches: []match{
				{Path: "a.go", Line: 3, Column: 1, Text: "x := 1"},
				{Path: "a.go", Line: 9, Column: 2, Text: "\treturn x"},
				{Path: "b.go", Line: 1, Column: 9, Text: "package x"},
				{Path: "odd\nname", Line: 1, Column: 1},
			}},
			[]string{"a.go:3: x := 1\na.go:9: \treturn x\nb.go:1: package x\n\"odd\\nname\":1:\n"},
		},
		{
			"context", grepInput{Pattern: "x", Context: 1},
			grepOutput{Matches: []match{
				{Path: "a", Line: 1, Text: "x1", After: []string{"2"}},
				{Path: "a", Line: 4, Text: "x4", Before: []string{"3"}, After: []string{""}},
				{Path: "a", Line: 8, Text: "x8", Before: []string{"7"}},
				{Path: "b", Line: 8, Text: "x8", Before: []string{"7"}},
			}},
			[]string{`a:1: x1
a-2- 2
a-3- 3
a:4: x4
a-5-
--
a-7- 7
a:8: x8
--
b-7- 7
b:8: x8
`},
		},
		{
			"context that is shared", grepInput{Pattern: "x", Context: 3},
			grepOutput{Matches: []match{
				{Path: "a", Line: 2, Text: "x2", Before: []string{"1"}, After: []string{"x3", "4", "x5"}},
				{Path: "a", Line: 3, Text: "x3", Before: []string{"1", "x2"}, After: []string{"4", "x5", "6"}},
				{Path: "a", Line: 5, Text: "x5", Before: []string{"x2", "x3", "4"}, After: []string{"6"}},
			}},
			[]string{"a-1- 1\na:2: x2\na:3: x3\na-4- 4\na:5: x5\na-6- 6\n"},
		},
		{
			"a long line", grepInput{Pattern: "x"},
			grepOutput{Matches: []match{
				{Path: "m.js", Line: 1, Column: 300001, Text: "aaxbb", CutBefore: 299998, CutAfter: 299999},
				{Path: "m.js", Line: 2, Column: 1, Text: "xbb", CutAfter: 700},
				{Path: "m.js", Line: 3, Column: 703, Text: "aax", CutBefore: 700},
			}},
			[]string{`m.js:1: [column 300001, 299998 bytes before] aaxbb [299999 bytes after]
m.js:2: [column 1] xbb [700 bytes after]
m.js:3: [column 703, 700 bytes before] aax
`},
		},
		{
			"matches of several lines", grepInput{Pattern: "x", Multiline: true, Context: 1},
			grepOutput{Matches: []match{
				{Path: "a", Line: 2, Column: 1, Lines: 3, Text: "x1\r\n2\n3", Before: []string{"1"}, After: []string{"5"}},
				{Path: "a", Line: 6, Column: 1, Text: "x6", Before: []string{"5"}},
				{Path: "a", Line: 7, Column: 1, Lines: 900, Text: "x7\n8", CutAfter: 4000, Before: []string{"x6"}},
			}},
			[]string{"a-1- 1\na:2: x1\na:3: 2\na:4: 3\na-5- 5\na:6: x6\na:7: x7\na:8: 8 [4000 bytes after, to line 906]\n"},
		},
		{
			"files", grepInput{Pattern: "x", Mode: "files"},
			grepOutput{grepCounts: grepCounts{Truncated: true, Counts: []fileCount{{Path: "a"}, {Path: "b\n"}}}},
			[]string{"a\n\"b\\n\"\n", "[files shown: 2; there are more; narrow the pattern, path or include, or raise limit]"},
		},
		{
			"counts", grepInput{Pattern: "x", Mode: "count"},
			grepOutput{grepCounts: grepCounts{Counts: []fileCount{{Path: "a", Lines: 3}, {Path: "b", Lines: 1}}, Skipped: skipped{Binary: 1}}},
			[]string{"a: 3\nb: 1\n", "[left out: 1 binary]"},
		},
		{
			"no files", grepInput{Pattern: "x", Mode: "files", Type: "go"}, grepOutput{grepCounts: grepCounts{Path: ".", Searched: 3}},
			[]string{`[no line matches "x" in . (3 files searched, of type go)]`},
		},
		{
			"more than the limit", grepInput{Pattern: "x"},
			grepOutput{
				grepCounts: grepCounts{Truncated: true, Omitted: 1234},
				Matches:    []match{{Path: "a", Line: 1, Text: "x"}},
			},
			[]string{"a:1: x\n", "[matching lines shown: 1; left out: 1234; narrow the pattern, path or include, or raise limit]"},
		},
		{
			"more than is counted", grepInput{Pattern: "x"},
			grepOutput{
				grepCounts: grepCounts{Truncated: true, Omitted: 10_000},
				Matches:    []match{{Path: "a", Line: 1, Text: "x"}},
			},
			[]string{"a:1: x\n", "[matching lines shown: 1; left out: 10000 or more; narrow the pattern, path or include, or raise limit]"},
		},
		{
			"more, not counted", grepInput{Pattern: "x"},
			grepOutput{grepCounts: grepCounts{Truncated: true}, Matches: []match{{Path: "a", Line: 1, Text: "x"}}},
			[]string{"a:1: x\n", "[matching lines shown: 1; there are more; narrow the pattern, path or include, or raise limit]"},
		},
		{
			"nothing", grepInput{Pattern: "x"}, grepOutput{grepCounts: grepCounts{Path: ".", Searched: 3}},
			[]string{`[no line matches "x" in . (3 files searched)]`},
		},
		{
			"nothing among some", grepInput{Pattern: `\d`, Include: "*.go"}, grepOutput{grepCounts: grepCounts{Path: "src", Searched: 1}},
			[]string{`[no line matches "\d" in src (1 file searched, of those that match "*.go")]`},
		},
		{
			"nothing in what was searched", grepInput{Pattern: "x"},
			grepOutput{grepCounts: grepCounts{Path: ".", Searched: 3, Skipped: skipped{Ignored: 1, Binary: 2}}},
			[]string{"[no line matches \"x\" in . (3 files searched); not everything was searched]\n" +
				"[left out: 1 hidden by ignore rules, 2 binary]"},
		},
		{
			"files that are searched in part", grepInput{Pattern: "x"},
			grepOutput{grepCounts: grepCounts{
				Path: ".", Searched: 9, Incomplete: []string{"a", "b", "c\n", "d", "e", "f", "g"}, Skipped: skipped{TooLarge: 7},
			}},
			[]string{"[no line matches \"x\" in . (9 files searched); not everything was searched]\n" +
				"[not searched to the end, for being binary or too large: a, b, \"c\\n\", d, e and 2 more]\n" +
				"[left out: 7 too large]"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, content := projectGrep(tt.in, tt.out)
			checkTexts(t, content, tt.want...)
		})
	}
}

// What the text shows is in the structured value: the lines with their text, and what is
// missing.
//
// Seen to fail: with the lines that the text has no room for; without what is cut.
func TestGrepStructured(t *testing.T) {
	out := grepOutput{
		grepCounts: grepCounts{
			Path: ".", Searched: 7, Truncated: true, Omitted: 2, Incomplete: []string{"log"}, Skipped: skipped{Binary: 1},
		},
		Matches: []match{
			{Path: "a", Line: 1, Column: 1, Text: "needle", After: []string{"hay"}},
			{Path: "a", Line: 2, Column: 70, Text: "needle", CutBefore: 60, CutAfter: 9},
			{Path: "b", Line: 1, Column: 1, Lines: 5, Text: "nee\r\ndle", CutAfter: 30},
		},
	}
	structured, _ := projectGrep(grepInput{Pattern: "needle", Context: 1}, out)
	got, err := json.Marshal(structured)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"path":".","searched":7,"truncated":true,"omitted":2,"incomplete":["log"],"skipped":{"binary":1},` +
		`"matches":3,"shown":3,"files":[{"path":"a","lines":[{"line":1,"text":"needle"},` +
		`{"line":2,"text":"needle","column":70,"cut_before":60,"cut_after":9}]},` +
		`{"path":"b","lines":[{"line":1,"text":"nee"},{"line":2,"text":"dle","cut_after":30,"to":5}]}],` +
		`"notes":["matching lines shown: 3; left out: 2; narrow the pattern, path or include, or raise limit",` +
		`"not searched to the end, for being binary or too large: log","left out: 1 binary"]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	structured, _ = projectGrep(grepInput{Pattern: "needle"}, grepOutput{})
	if structured.Files == nil {
		t.Error("no files are null, want an empty list")
	}
}

func TestGrepTextIsBounded(t *testing.T) {
	wide := func(n, context int, path string) []match {
		var out []match
		text := strings.Repeat("x", 500)
		for i := range n {
			m := match{Path: path, Line: 1 + i*(2*context+2), Column: 9999, Text: text, CutBefore: 9749, CutAfter: 9749}
			for range context {
				m.Before, m.After = append(m.Before, text), append(m.After, text)
			}
			out = append(out, m)
		}
		return out
	}
	long := strings.Repeat("\x01", 4000)
	for _, tt := range []struct {
		name    string
		matches []match
		shown   int
	}{
		{"wide lines", wide(10_000, 0, "a"), 85},
		{"much context", wide(100, 20, "a"), 2},
		{"a very long path", wide(3, 20, long), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			names := make([]string, 20)
			for i := range names {
				names[i] = long
			}
			structured, content := projectGrep(grepInput{Pattern: long, Include: long, Context: 20}, grepOutput{
				grepCounts: grepCounts{
					Path: long, Truncated: true, Omitted: 10_000, Incomplete: names, Skipped: skipped{1e6, 1e6, 1e6, 1e6, 1e6, 1e6, 1e6},
				},
				Matches: tt.matches,
			})
			checkBounded(t, content)
			lines := 0
			for _, f := range structured.Files {
				for _, l := range f.Lines {
					if !l.Context {
						lines++
					}
				}
			}
			if structured.Shown != tt.shown || lines != tt.shown || !structured.Truncated {
				t.Errorf("%d shown, %d of them in files, want %d", structured.Shown, lines, tt.shown)
			}
		})
	}
	t.Run("notes", func(t *testing.T) {
		_, content := projectGrep(grepInput{Pattern: long, Include: long}, grepOutput{grepCounts: grepCounts{
			Path: long, Truncated: true, Omitted: 10_000, Incomplete: []string{long, long, long, long, long, long},
			Skipped: skipped{1e6, 1e6, 1e6, 1e6, 1e6, 1e6, 1e6},
		}})
		if n := len(texts(t, content)[0]); n > hostBytes-textBytes {
			t.Errorf("%d bytes of notes, want at most %d", n, hostBytes-textBytes)
		}
	})
}

// Projection is a function of its arguments, which it leaves as they were (law
// 16). Broken by hand: with the context that is shared cleared in place.
func TestLaw16ProjectionIsPure(t *testing.T) {
	fresh := func() grepOutput {
		return grepOutput{Matches: []match{
			{Path: "a", Line: 2, Text: "x2", Before: []string{"1"}, After: []string{"x3", "4", "x5"}},
			{Path: "a", Line: 3, Text: "x3", Before: []string{"1", "x2"}, After: []string{"4", "x5", "6"}},
		}}
	}
	out := fresh()
	_, first := projectGrep(grepInput{Context: 3}, out)
	_, second := projectGrep(grepInput{Context: 3}, out)
	if diff := cmp.Diff(first, second); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(fresh(), out, cmp.AllowUnexported(grepOutput{}, match{})); diff != "" {
		t.Error(diff)
	}
}

// The whole way, through the real engine: what each mode gives, and what is wrong with a question.
//
// Seen to fail: with the mode not passed on, and with the type.
func TestGrepWays(t *testing.T) {
	p := start(t, map[string]string{"a.go": "f(\nx)\nx x\n", "b.py": "x\n", "c.go": "y\n"})
	for input, want := range map[string][]string{
		`{"pattern": "x", "type": "go"}`:                          {"a.go:2: x)\na.go:3: x x\n"},
		`{"pattern": "x", "mode": "files"}`:                       {"a.go\nb.py\n"},
		`{"pattern": "x", "mode": "count"}`:                       {"a.go: 2\nb.py: 1\n"},
		`{"pattern": "x", "mode": "count", "limit": 1}`:           {"a.go: 2\n", "[files shown: 1; there are more; narrow the pattern, path or include, or raise limit]"},
		`{"pattern": "\\(\\s*x", "multiline": true}`:              {"a.go:1: f(\na.go:2: x)\n"},
		`{"pattern": "(\nx", "literal": true, "multiline": true}`: {"a.go:1: f(\na.go:2: x)\n"},
	} {
		checkTexts(t, call(t, p, "grep", input).Content, want...)
	}
	for input, want := range map[string]string{
		`{"pattern": "x", "type": "pyton"}`:   "did you mean python?",
		`{"pattern": "x", "mode": "lines"}`:   `"lines" is none of "content", "files" and "count"`,
		`{"pattern": "a\nb"}`:                 "ask for multiline",
		`{"pattern": "x", "include": "[a"}`:   "not closed",
		`{"pattern": "(x", "literal": false}`: "no regular expression",
	} {
		if o := p.Call("grep", input); o.Status != "failed" || !strings.Contains(o.Error.Message, want) {
			t.Errorf("%s: got %v, want a failure that says %q", input, o, want)
		}
	}
}
