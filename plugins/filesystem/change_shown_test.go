package filesystem

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/plugin/sdk/sdktest"
)

// What controls a terminal in a file is escaped in the diff that the model reads, so
// that nothing of it is overwritten or taken out on the way.
//
// Seen to fail: with the diff as the host made it.
func TestDiffOfControlCharacters(t *testing.T) {
	p := start(t, map[string]string{"f": "keep\rme\n\tx\x1b[2Ky\x01\u0085z\n"})
	o := call(t, p, "edit", on("path", "f", "old", "me", "new", "you"))
	want := "\n-keep\\u000dme\n+keep\\u000dyou\n \tx\\u001b[2Ky\\u0001\\u0085z\n"
	if !strings.Contains(o.Text, want) || !strings.Contains(o.Text, `[control characters in the diff are written as \u and four digits]`) {
		t.Errorf("got %q, want %q in it", o.Text, want)
	}
	if o = call(t, p, "edit", on("path", "f", "old", "\tx", "new", "\ta")); !strings.Contains(o.Text, "\n+\ta\\u001b") {
		t.Errorf("got %q", o.Text)
	}
}

// A path that ends in a slash is a directory's, in every tool.
//
// Seen to fail: with a move of it.
func TestSlashOfAFile(t *testing.T) {
	p := start(t, map[string]string{"f": "x\n", "d/x": "x\n"})
	for _, path := range []string{"f/", p.Root() + "/f/"} {
		wantFailure(t, p, "move", on("from", path, "to", "g"), "ends in a slash")
	}
	for _, to := range []string{"g/", p.Root() + "/g/"} {
		wantFailure(t, p, "move", on("from", "f", "to", to), "ends in a slash")
	}
	wantFailure(t, p, "patch", on("patch", "*** Begin Patch\n*** Add File: g/\n+x\n*** End Patch\n"), "ends in a slash")
	wantFailure(t, p, "patch", on("patch", "*** Begin Patch\n*** Update File: f\n*** Move to: g/\n@@\n-x\n+y\n*** End Patch\n"), "ends in a slash")
	wantFailure(t, p, "patch", on("patch", "*** Begin Patch\n*** Update File: f/\n@@\n-x\n+y\n*** End Patch\n"), "ends in a slash")
	link(t, p, "f", "l")
	wantFailure(t, p, "move", on("from", "l/", "to", "g"), "ends in a slash")
	call(t, p, "move", on("from", "d/", "to", "e/"))
	if got := content(t, p, "f") + content(t, p, "e/x"); got != "x\nx\n" {
		t.Errorf("got %q", got)
	}
	if entries, err := os.ReadDir(p.Root()); err != nil || len(entries) != 3 {
		t.Errorf("%v, %v", entries, err)
	}
}

// What may be ignored when a name is shown is quoted.
//
// Seen to fail: with all that can be printed as it is.
func TestQuotedIgnorable(t *testing.T) {
	for name, want := range map[string]string{
		"a\u3164b": `"a\u3164b"`, "a\ufe0fb": `"a\ufe0fb"`, "a\U000e0100b": `"a\udb40\udd00b"`, "e\u0301": "e\u0301",
	} {
		if got := quoted(name); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// structured is the structured value of a change.
func structured(t *testing.T, o sdktest.Outcome) changeOutput {
	t.Helper()
	var out changeOutput
	if err := json.Unmarshal(o.Structured, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// The model is told of a file what whoever is asked is told of it: below its line, or where
// the answer has the diff, in that.
//
// Seen to fail: without the notes.
func TestChangeSaysWhatTheDiffSays(t *testing.T) {
	p := start(t, map[string]string{"f": strings.Repeat("a\r\n", 8), "fixed": "x\n"})
	call(t, p, "read", on("path", "f", "limit", 1))
	o := call(t, p, "write", on("path", "f", "content", strings.Repeat("a\n", 7)+"b\n"))
	checkTexts(t, o.Content, "changed f (+1 -1 lines)\n  line endings: 8 lines CRLF to LF\n")
	if got := structured(t, o).Changes[0].Notes; len(got) != 1 || got[0] != "line endings: 8 lines CRLF to LF" {
		t.Errorf("got %q", got)
	}
	if err := os.Chmod(p.Root()+"/fixed", 0o444); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(p.Root()+"/fixed", p.Root()+"/other"); err != nil {
		t.Fatal(err)
	}
	call(t, p, "read", on("path", "fixed"))
	checkTexts(t, call(t, p, "write", on("path", "fixed", "content", "y\n")).Content,
		"changed fixed (+1 -1 lines); 1 other name of it (hard links) keeps the old content\n"+
			"  read-only file, which did not keep it from being changed\n")
	o = call(t, p, "edit", on("path", "fixed", "old", "y", "new", "z"))
	if got := strings.Count(o.Text, "read-only file"); got != 1 || len(structured(t, o).Changes[0].Notes) != 1 {
		t.Errorf("%d times in %s", got, o)
	}
}

// The structured value has the diff that the text shows, and is bounded as that is.
//
// Seen to fail: without the diff; with all of it; without the bound in lines.
func TestChangeStructuredHasTheDiff(t *testing.T) {
	p := start(t, map[string]string{
		"short": "one\n", "long": strings.Repeat("a line of some length\n", 1000), "empty": strings.Repeat("\n", 3000) + "x\n",
	})
	for name, whole := range map[string]bool{"short": true, "long": false, "empty": false} {
		old := map[string]string{"short": "one", "long": "a line", "empty": "x\n"}[name]
		now := map[string]string{"short": "two", "long": "b line", "empty": strings.Repeat("\n", 3000)}[name]
		o := call(t, p, "edit", on("path", name, "old", old, "new", now, "replace_all", true))
		out := structured(t, o)
		if out.Diff == "" || len(out.Diff) > shownDiff || !strings.Contains(o.Text, "\n\n"+out.Diff) || whole != (len(out.Notes) == 0) {
			t.Errorf("%s: %d bytes of a diff, %q, in %.200s", name, len(out.Diff), out.Notes, o.Text)
		}
		if !notesAreThoseOf(out.Notes, texts(t, o.Content)) {
			t.Errorf("%s: the notes are %q", name, out.Notes)
		}
	}
}

// However much was changed, the answer is bounded and says how much it leaves out.
//
// Seen to fail: without the note of what is left out.
func TestChangesAreBounded(t *testing.T) {
	var out changeOutput
	for _, path := range numbered(256, strings.Repeat("d/", 200)+"%03d") {
		out.Changes = append(out.Changes, fileChange{Kind: "created", Path: path, Added: 1})
	}
	out.diff = strings.Repeat("+x\n", 4000)
	got, content := projectChange(patchInput{}, out)
	checkBounded(t, content)
	if n := len(got.Changes); n == 0 || n >= 256 || len(out.Changes) != 256 || !notesAreThoseOf(got.Notes, texts(t, content)) ||
		!strings.Contains(got.Notes[0], "changes shown: ") {
		t.Errorf("%d changes, %q", n, got.Notes)
	}
}
