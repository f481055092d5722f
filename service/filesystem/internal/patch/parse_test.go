package patch

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhost/toolhost/service"
)

func TestParse(t *testing.T) {
	keep := func(s string) Line { return Line{Op: Keep, Text: s} }
	remove := func(s string) Line { return Line{Op: Remove, Text: s} }
	insert := func(s string) Line { return Line{Op: Insert, Text: s} }
	bare := func(l Line) Line { l.Bare = true; return l }
	for _, tt := range []struct {
		name, text string
		want       []File
	}{
		{
			"an envelope", `
*** Begin Patch
*** Add File: new dir/n.txt
+a
+

*** Update File: src/app.go
*** Move to: src/main.go
@@ func a() {
@@	if b {
 x
-y
+z

 w
*** End of File
@@
+v
*** Delete File: old.txt
*** End Patch

`,
			[]File{
				{Kind: Add, New: "new dir/n.txt", Line: 3, Hunks: []Hunk{{Line: 4, Lines: []Line{insert("a"), insert("")}}}},
				{Kind: Move, Old: "src/app.go", New: "src/main.go", Line: 7, Hunks: []Hunk{
					{Line: 9, Anchors: []string{"func a() {", "if b {"}, AtEnd: true, Lines: []Line{keep("x"), remove("y"), insert("z"), keep(""), keep("w")}},
					{Line: 17, Lines: []Line{insert("v")}},
				}},
				{Kind: Delete, Old: "old.txt", Line: 19},
			},
		},
		{
			"an envelope with CRLF", "*** Begin Patch\r\n*** Update File: f\r\n-a\r\n+b\r\n\\ No newline at end of file\r\n*** End Patch\r\n",
			[]File{{Kind: Update, Old: "f", New: "f", Line: 2, Hunks: []Hunk{{Line: 3, Lines: []Line{remove("a"), bare(insert("b"))}}}}},
		},
		{
			"a new file that is empty", "*** Begin Patch\n*** Add File: f\n*** End Patch",
			[]File{{Kind: Add, New: "f", Line: 2, Hunks: []Hunk{{Line: 3}}}},
		},
		{
			"a move alone", "*** Begin Patch\n*** Update File: f\n*** Move to: g\n*** End Patch",
			[]File{{Kind: Move, Old: "f", New: "g", Line: 2}},
		},
		{
			"of git", `From 0123 Mon Sep 17 00:00:00 2001
Subject: a mail

---
 a.go | 2 +-

diff --git a/a.go b/a.go
index 5626abf..f719efd 100644
--- a/a.go
+++ b/a.go
@@ -1,2 +1,2 @@ func
 x
-y
+z
@@ -9 +9 @@
-y
\ No newline at end of file
+z
\ No newline at end of file
diff --git "a/n \303\244.txt" "b/n \303\244.txt"
new file mode 100644
index 0000000..f719efd
--- /dev/null
+++ "b/n \303\244.txt"
@@ -0,0 +1 @@
+new
diff --git a/empty b/empty
new file mode 100644
index 0000000..e69de29
diff --git a/old b/old
deleted file mode 100644
index 5626abf..0000000
--- a/old
+++ /dev/null
@@ -1 +0,0 @@
-gone
diff --git a/from b/to
similarity index 90%
rename from from
rename to to
index 5626abf..f719efd 100644
--- a/from
+++ b/to
@@ -1 +1 @@
-a
+b
diff --git a/from2 b/to2
similarity index 100%
rename from from2
rename to to2
-- 
2.39.5

`,
			[]File{
				{Kind: Update, Old: "a.go", New: "a.go", Line: 7, Hunks: []Hunk{
					{Line: 11, Numbered: true, At: 1, Lines: []Line{keep("x"), remove("y"), insert("z")}},
					{Line: 15, Numbered: true, At: 9, Lines: []Line{bare(remove("y")), bare(insert("z"))}},
				}},
				{Kind: Add, New: "n ä.txt", Line: 20, Hunks: []Hunk{{Line: 25, Numbered: true, Lines: []Line{insert("new")}}}},
				{Kind: Add, New: "empty", Line: 27},
				{Kind: Delete, Old: "old", Line: 30, Hunks: []Hunk{{Line: 35, Numbered: true, At: 1, Lines: []Line{remove("gone")}}}},
				{Kind: Move, Old: "from", New: "to", Line: 37, Hunks: []Hunk{{Line: 44, Numbered: true, At: 1, Lines: []Line{remove("a"), insert("b")}}}},
				{Kind: Move, Old: "from2", New: "to2", Line: 47},
			},
		},
		{
			"of diff", "diff -u a/f b/f\n--- a/f\t2026-11-30 18:18:02.8 +0000\n+++ b/f\t2026-11-30 18:18:02.9 +0000\n@@ -1 +1 @@\n-a\n+b\nOnly in a: x\n--- d/f\n+++ d/f\n@@ -3 +3 @@\n-a\n+b",
			[]File{
				{Kind: Update, Old: "f", New: "f", Line: 2, Hunks: []Hunk{{Line: 4, Numbered: true, At: 1, Lines: []Line{remove("a"), insert("b")}}}},
				{Kind: Update, Old: "d/f", New: "d/f", Line: 8, Hunks: []Hunk{{Line: 10, Numbered: true, At: 3, Lines: []Line{remove("a"), insert("b")}}}},
			},
		},
		{
			"made and deleted, without git's lines", "--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+a\n--- a/o\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
			[]File{
				{Kind: Add, New: "n", Line: 1, Hunks: []Hunk{{Line: 3, Numbered: true, Lines: []Line{insert("a")}}}},
				{Kind: Delete, Old: "o", Line: 5, Hunks: []Hunk{{Line: 7, Numbered: true, At: 1, Lines: []Line{remove("a")}}}},
			},
		},
		{
			"of diff with -N", "--- a/n\t1970-01-01 00:00:00.000000000 +0000\n+++ b/n\t2026-11-30 18:18:02 +0000\n@@ -0,0 +1 @@\n+a\n" +
				"--- a/o\t2026-11-30 18:18:02 +0000\n+++ b/o\t1969-12-31 18:00:00.000000000 -0600\n@@ -1 +0,0 @@\n-a\n",
			[]File{
				{Kind: Add, New: "n", Line: 1, Hunks: []Hunk{{Line: 3, Numbered: true, Lines: []Line{insert("a")}}}},
				{Kind: Delete, Old: "o", Line: 5, Hunks: []Hunk{{Line: 7, Numbered: true, At: 1, Lines: []Line{remove("a")}}}},
			},
		},
		{
			"in a fence", "```diff\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n```\n",
			[]File{{Kind: Update, Old: "f", New: "f", Line: 2, Hunks: []Hunk{{Line: 4, Numbered: true, At: 1, Lines: []Line{remove("a"), insert("b")}}}}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse(t.Context(), tt.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	const head = "--- a/f\n+++ b/f\n"
	git := func(lines string) string { return "diff --git a/f b/f\n" + lines }
	var files, hunks strings.Builder
	for i := range MaxFiles + 1 {
		fmt.Fprintf(&files, "*** Delete File: %d\n", i)
	}
	for i := range MaxHunks + 1 {
		fmt.Fprintf(&hunks, "@@ -%d +%d @@\n-a\n+b\n", i+1, i+1)
	}
	for _, tt := range []struct {
		name, text, want string
	}{
		{"nothing", "", "line 1 of the patch: there is no change in it"},
		{"another text", "please change the file\n", "there is no change in it"},
		{"cut off", "*** Begin Patch\n*** Update File: f\n-a\n+b\n", `line 4 of the patch: the patch does not end with "*** End Patch"`},
		{"after the end", "*** Begin Patch\n*** Delete File: f\n*** End Patch\n*** Delete File: g\n", "line 4 of the patch: stands after"},
		{"no file", "*** Begin Patch\n*** End Patch\n", "changes no file"},
		{"another header", "*** Begin Patch\n*** Rename File: f\n*** End Patch\n", `line 2 of the patch: expected "*** Add File: path"`},
		{"no path", "*** Begin Patch\n*** Add File: \n*** End Patch\n", "needs a path"},
		{"no other path", "*** Begin Patch\n*** Update File: f\n*** Move to: f\n*** End Patch\n", "line 3 of the patch: "},
		{"no change", "*** Begin Patch\n*** Update File: f\n*** End Patch\n", "line 2 of the patch: there is no change for this file"},
		{"an empty hunk", envelope("@@\n a\n"), "line 3 of the patch: the hunk changes nothing"},
		{"no prefix", envelope("@@\n-a\n+b\nc\n"), "line 6 of the patch: a line of a hunk begins with"},
		{"a new file without +", "*** Begin Patch\n*** Add File: f\n+a\n\nb\n*** End Patch\n", `line 4 of the patch: each line of a new file begins with "+"`},
		{"an end in the middle", envelope("-a\n\\ No newline at end of file\n-b\n+c\n"), "stands after a line that is not the last"},
		{"an end in the middle of the new", envelope("-a\n+b\n\\ No newline at end of file\n c\n"), "stands after a line that is not the last"},
		{"too few lines", head + "@@ -1,3 +1,3 @@\n a\n-b\n+c\n", "line 7 of the patch: the hunk at line 3 says that it has 3 old and 3 new lines"},
		{"too many lines", head + "@@ -1 +1 @@\n-a\n+b\n c\n", "line 6 of the patch: there are more lines than the hunk at line 3 says"},
		{"too many added lines", head + "@@ -1,2 +1,2 @@\n a\n+b\n+c\n-d\n", "line 6 of the patch: the hunk at line 3"},
		{"another file too early", head + "@@ -1,3 +1,3 @@\n a\ndiff --git a/g b/g\n", "line 5 of the patch: the hunk at line 3"},
		{"no numbers", head + "@@ ... @@\n-a\n+b\n", `line 3 of the patch: expected "@@ -line,count +line,count @@"`},
		{"huge numbers", head + "@@ -1,99999999999999999999 +1 @@\n-a\n", "line 3 of the patch: expected"},
		{"a combined diff", head + "@@@ -1 -1 +1 @@@\n--a\n++b\n", "line 3 of the patch: expected"},
		{"no change in a hunk", head + "@@ -1 +1 @@\n a\n", "line 3 of the patch: the hunk changes nothing"},
		{"no header", "@@ -1 +1 @@\n-a\n+b\n", `line 1 of the patch: a hunk without the lines "--- a/path"`},
		{"out of order", head + "@@ -5 +5 @@\n-a\n+b\n@@ -1 +1 @@\n-a\n+b\n", "line 6 of the patch: the hunk begins before the end of the one before it"},
		{"overlapping", head + "@@ -1,2 +1,2 @@\n-a\n+b\n c\n@@ -2 +2 @@\n-c\n+d\n", "line 7 of the patch: the hunk begins before"},
		{"other names", "--- a/f\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n", `line 1 of the patch: the names "f" and "g" differ`},
		{"no names", "--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n", "both names are /dev/null"},
		{"no prefixes", "diff --git f f\n--- f\n+++ f\n@@ -1 +1 @@\n-a\n+b\n", "prefixes a/ and b/"},
		{"a mode", git("old mode 100644\nnew mode 100755\n"), "line 1 of the patch: changes the mode of the file"},
		{"a mode and text", git("old mode 100644\nnew mode 100755\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"), "changes the mode of the file"},
		{"a new program", git("new file mode 100755\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n"), "makes a file of mode 100755"},
		{"a link", git("new file mode 120000\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+/etc\n\\ No newline at end of file\n"), "mode 120000, which is no regular file"},
		{"a changed link", git("index 1234567..2345678 120000\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"), "no regular file"},
		{"a copy", "diff --git a/f b/g\nsimilarity index 100%\ncopy from f\ncopy to g\n", "copies a file"},
		{"binary", git("index 1234567..2345678 100644\nGIT binary patch\nliteral 1\nIcmZPo000310RR91\n"), "line 3 of the patch: changes a binary file"},
		{"binary of diff", "Binary files a/f and b/f differ\n", "line 1 of the patch: changes a binary file"},
		{"nothing of git", git("index 1234567..2345678 100644\n"), "there is no change for this file"},
		{"a new file of old lines", git("new file mode 100644\n--- /dev/null\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"), "new file depends on old contents"},
		{"too many files", "*** Begin Patch\n" + files.String() + "*** End Patch\n", "line 258 of the patch: a patch is for at most 256 files"},
		{"too many hunks", head + hunks.String(), "a patch has at most 10000 hunks"},
		{"too long", strings.Repeat("a", MaxBytes+1), "a patch is at most 16 MiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse(t.Context(), tt.text)
			var known *service.FileError
			if !errors.As(err, &known) || !strings.Contains(known.Detail, tt.want) || got != nil {
				t.Errorf("got %v, %v; want %s", got, err, tt.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("*** Begin Patch\n*** Update File: f\n@@ a\n-b\n+c\n\n*** End of File\n*** Add File: g\n+x\n*** End Patch")
	f.Add("diff --git a/f b/f\nnew file mode 100644\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n\\ No newline at end of file\n")
	f.Add("--- a/f\r\n+++ b/f\r\n@@ -1,2 +1,2 @@ x\r\n-a\r\n+b\r\n\r\n")
	f.Add("diff --git \"a/n \\303\\244\" \"b/n \\303\\244\"\nsimilarity index 90%\nrename from f\nrename to g\nindex 5626abf..f719efd 100644\n--- \"a/f\"\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n")
	f.Add("diff --git a/f b/f\nold mode 100644\nnew mode 100755\ndeleted file mode 100644\ncopy from x\nGIT binary patch\n")
	f.Fuzz(func(t *testing.T, text string) {
		files, err := Parse(t.Context(), text)
		if err != nil {
			if got := (*service.FileError)(nil); !errors.As(err, &got) || files != nil {
				t.Fatalf("%v, %v", files, err)
			}
			return
		}
		lines := strings.Count(text, "\n") + 1
		for _, f := range files {
			moved := f.Kind == Move && f.Old != f.New && f.Old != "" && f.New != ""
			updated := f.Kind == Update && f.Old == f.New && f.Old != "" && len(f.Hunks) > 0
			made := f.Kind == Add && f.Old == "" && f.New != ""
			deleted := f.Kind == Delete && f.New == "" && f.Old != ""
			if f.Line < 1 || f.Line > lines || !moved && !updated && !made && !deleted {
				t.Fatalf("%+v", f)
			}
			last := f.Line
			for _, h := range f.Hunks {
				if h.Line <= last || h.Line > lines+1 || f.Kind != Add && !h.changes() {
					t.Fatalf("%+v", h)
				}
				last = h.Line
			}
		}
	})
}

func FuzzApply(f *testing.F) {
	f.Add("*** Begin Patch\n*** Update File: f\n@@ a\n-b\n+c\n*** End of File\n*** End Patch", []byte("a\r\nb"))
	f.Add("--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\n+b\n c\n", []byte("\xff\xfea\x00\n\x00c\x00x"))
	f.Add("--- a/f\n+++ b/f\n@@ -2,0 +3 @@\n+b\n", []byte("\xef\xbb\xbfa\nb"))
	f.Fuzz(func(t *testing.T, text string, content []byte) {
		files, err := Parse(t.Context(), text)
		if err != nil {
			return
		}
		was := string(content)
		for _, f := range files {
			got, err := f.Apply(t.Context(), content, true)
			if string(content) != was {
				t.Fatal("the content was changed")
			}
			if err != nil {
				if known := (*service.FileError)(nil); !errors.As(err, &known) || got != nil || len(known.Detail) > 4<<10 {
					t.Fatalf("%q, %v", got, err)
				}
				continue
			}
			if _, err := f.Apply(t.Context(), content, false); err != nil {
				t.Fatalf("without reveal: %v", err)
			}
			if f.Kind != Update || len(content) > 1 && (content[0] >= 0xfe || content[0] == 0xef) {
				continue
			}
			// As many lines more or less as the hunks say, give or take the last.
			want := 0
			for _, h := range f.Hunks {
				for _, l := range h.Lines {
					switch l.Op {
					case Insert:
						want++
					case Remove:
						want--
					}
				}
			}
			if diff := strings.Count(string(got), "\n") - strings.Count(was, "\n") - want; diff < -1 || diff > 1 {
				t.Fatalf("%q to %q: %d lines more than %d", was, got, diff, want)
			}
		}
	})
}
