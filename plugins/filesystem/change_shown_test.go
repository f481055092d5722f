package filesystem

import (
	"os"
	"strings"
	"testing"
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
