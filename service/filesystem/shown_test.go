package filesystem

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/service"
)

// staged works out a change, and gives it up.
func staged(t *testing.T, f *FileSystem, change service.Change) service.Staged {
	t.Helper()
	s, err := f.Stage(t.Context(), by("s"), change)
	if err != nil {
		t.Fatal(err)
	}
	s.Discard()
	return s.Staged()
}

// What will be lost, and is not in the diff, makes a change irreversible: whatever of it
// is left out of a line, and bytes that are no characters.
//
// Seen to fail: with lines that are left out, and binary files, alone.
func TestIrreversibleIsWhatIsNotShown(t *testing.T) {
	long := func(c string) string { return strings.Repeat(c, 20_000) }
	for _, tt := range []struct {
		name, before, after string
		want                bool
	}{
		{"shown", "a\n", "b\n", false},
		{"a change of a long line", long("x") + "a" + long("x"), long("x") + "b" + long("x"), false},
		{"a long line", long("x") + "\na\n", "a\n", true},
		{"bytes that are no text", "caf\xe9\n", "cafe\n", true},
		{"a script with a zero byte", "#!/bin/sh\necho one\n\x00\n", "#!/bin/sh\necho two\n\x00\n", false},
		{"binary", "\x00\x01\x02", "a", true},
		{"lines that are left out", strings.Repeat("a\n", 200_000), "b\n", true},
	} {
		f := open(t, t.TempDir())
		if err := do(t.Context(), f, by("s"), service.WriteFile{Path: "f", Content: []byte(tt.before)}); err != nil {
			t.Fatal(err)
		}
		got := staged(t, f, service.WriteFile{Path: "f", Content: []byte(tt.after)})
		if got.Irreversible != tt.want || got.Diff == "" {
			t.Errorf("%s: got %t, want %t:\n%.2000s", tt.name, got.Irreversible, tt.want, got.Diff)
		}
	}
}

// Where the diff has no more room, it says of how much it says nothing.
//
// Seen to fail: with what is left out left out without a word.
func TestNotesThatAreLeftOut(t *testing.T) {
	const files = 20
	root := t.TempDir()
	var patch strings.Builder
	fmt.Fprintf(&patch, "*** Begin Patch\n*** Add File: large\n%s", strings.Repeat("+"+strings.Repeat("x", 99)+"\n", 4000))
	for i := range files {
		if err := os.WriteFile(fmt.Sprintf("%s/f%d", root, i), []byte("x\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&patch, "*** Update File: f%d\n*** Move to: g%d\n", i, i)
	}
	patch.WriteString("*** End Patch\n")
	got := staged(t, open(t, root), service.ApplyPatch{Text: patch.String()})
	left, lines := 0, strings.Split(strings.TrimSuffix(got.Diff, "\n"), "\n")
	if _, err := fmt.Sscanf(lines[len(lines)-1], "[%d more lines about what is moved, removed or made are left out]", &left); err != nil {
		t.Fatalf("it ends with %q", lines[len(lines)-1])
	}
	if shown := strings.Count(got.Diff, "\nmoved: "); left == 0 || shown+left != files {
		t.Errorf("%d are shown and %d left out, of %d", shown, left, files)
	}
}

// Between what is said of files there is an empty line after the lines of one, which no
// line of a diff is.
//
// Seen to fail: with one right after the other.
func TestFilesAreApart(t *testing.T) {
	root := t.TempDir()
	write(t, root, "a | -- a/x\n", "b | b\n", "c | c\n")
	got := staged(t, open(t, root), service.ApplyPatch{Text: "*** Begin Patch\n*** Update File: a\n@@\n--- a/x\n+++ b/x\n*** Update File: b\n*** Move to: d\n" +
		"*** Update File: c\n@@\n-c\n+C\n*** End Patch\n"})
	want := "--- a/a\n+++ b/a\n@@ -1 +1 @@\n--- a/x\n+++ b/x\n\nmoved: b -> d\n--- a/c\n+++ b/c\n@@ -1 +1 @@\n-c\n+C\n"
	if got.Diff != want {
		t.Errorf("got %q, want %q", got.Diff, want)
	}
}

// That a file is read-only does not keep it from being changed, and whoever decides is
// told; the mode stays.
//
// Seen to fail: without the note.
func TestReadOnlyFileIsSaid(t *testing.T) {
	for name, change := range map[string]service.Change{
		"edit":   editing("f", "one", "two"),
		"remove": service.RemoveFile{Path: "f"},
		"moved":  service.ApplyPatch{Text: "*** Begin Patch\n*** Update File: f\n*** Move to: f2\n@@\n-one\n+two\n*** End Patch\n"},
	} {
		root := t.TempDir()
		if err := os.WriteFile(root+"/f", []byte("one\n"), 0o444); err != nil {
			t.Fatal(err)
		}
		f := open(t, root)
		if got := staged(t, f, change); strings.Count(got.Diff, "read-only file: f, ") != 1 {
			t.Errorf("%s: got %q", name, got.Diff)
		}
		if err := os.Chmod(root+"/f", 0o644); err != nil {
			t.Fatal(err)
		}
		if got := staged(t, f, change); strings.Contains(got.Diff, "read-only") {
			t.Errorf("%s of one that is not: got %q", name, got.Diff)
		}
	}
	root := t.TempDir()
	if err := os.WriteFile(root+"/f", []byte("one\n"), 0o444); err != nil {
		t.Fatal(err)
	}
	if err := do(t.Context(), open(t, root), by("s"), editing("f", "one", "two")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(root + "/f"); err != nil || info.Mode().Perm() != 0o444 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// Paths in notes have nothing that is not seen.
//
// Seen to fail: with all that can be printed as it is.
func TestPlain(t *testing.T) {
	for name, want := range map[string]string{
		"a b": "a b", "ä": "ä", "a\u3164": `"a\u3164"`, "a\U0001d159": `"a\U0001d159"`, "a -> b": `"a -> b"`, "a\n": `"a\n"`, "\xff": `"\xff"`,
	} {
		if got := plain(name); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// That a program no longer runs as somebody else is said before it is so.
// Seen to fail: without the note.
func TestRunsAsIsSaid(t *testing.T) {
	root := t.TempDir()
	write(t, root, "f | one\n")
	if err := os.Chmod(root+"/f", 0o755|os.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	f := open(t, root)
	s, err := f.Stage(t.Context(), by("s"), editing("f", "one", "two"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(s.Staged().Diff, "runs as another user or group no more: f") {
		t.Errorf("it says %q", s.Staged().Diff)
	}
	if err := s.Commit(t.Context(), by("s")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(root + "/f"); err != nil || info.Mode() != 0o755 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
}

// What whoever is asked is told of a file, the caller is told as well, file by file; unless
// the diff is withheld.
//
// Seen to fail: with no notes; with the notes of what is withheld.
func TestNotesOfAFile(t *testing.T) {
	root := t.TempDir()
	f := open(t, root)
	for name, content := range map[string]string{"crlf": "a\r\nb\r\n", "fixed": "x\n", "bytes": "\x00\x01", "d/x": "x\n"} {
		if err := do(t.Context(), f, by("s"), service.WriteFile{Path: name, Content: []byte(content)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(root+"/fixed", 0o444); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("crlf", root+"/l"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(root+"/none", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change service.Change
		want   string
	}{
		"ends of lines":      {service.WriteFile{Path: "crlf", Content: []byte("a\nB")}, "line endings: 1 line CRLF to LF|newline at the end of the file: removed"},
		"a read-only file":   {editing("fixed", "x", "y"), "read-only file, which did not keep it from being changed"},
		"a binary file":      {service.WriteFile{Path: "bytes", Content: []byte("x")}, "binary, not shown: 2 bytes before, 1 bytes after"},
		"a new file":         {service.WriteFile{Path: "new", Content: []byte("a\r\n")}, "line endings: 1 line CRLF, 0 LF"},
		"nothing to say":     {editing("crlf", "a", "A"), ""},
		"a removed file":     {service.RemoveFile{Path: "crlf"}, ""},
		"a link":             {service.RemoveFile{Path: "l"}, "link to crlf"},
		"a directory":        {service.RemoveFile{Path: "d", Recursive: true}, "with 1 files and directories in it"},
		"an empty directory": {service.RemoveFile{Path: "none"}, ""},
		"a directory's move": {service.MoveFile{From: "d", To: "e"}, "with 1 files and directories in it"},
	} {
		if got := strings.Join(staged(t, f, tt.change).Files[0].Notes, "|"); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
	caller := by("s")
	caller.WriteOnly = true
	s, err := f.Stage(t.Context(), caller, service.WriteFile{Path: "crlf", Content: []byte("a\n")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Discard()
	if got := s.Revealed().Files[0].Notes; len(got) > 0 || len(s.Staged().Files[0].Notes) == 0 {
		t.Errorf("the caller is told %q, whoever approves %q", got, s.Staged().Files[0].Notes)
	}
}
