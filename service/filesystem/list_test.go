package filesystem

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/service"
)

// shown are the entries as lines.
func shown(l service.Listing) []string {
	var lines []string
	for _, e := range l.Entries {
		line := fmt.Sprintf("%s %s", e.Kind, e.Path)
		if e.Size > 0 {
			line += fmt.Sprint(" ", e.Size)
		}
		if e.Target != "" {
			line += " -> " + e.Target
		}
		lines = append(lines, line)
	}
	return lines
}

func TestList(t *testing.T) {
	root := t.TempDir()
	write(t, root,
		".gitignore | node_modules/\n*.log\n", ".git/config", ".github/ci.yml", "node_modules/m/index.js", "a/x | 123", "a/deep/y", "a-b", "a.log", "link -> a", "out -> /etc/passwd",
		"sub/.git/HEAD", "sub/node_modules/z",
	)
	if err := unix.Mkfifo(filepath.Join(root, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	top := []string{
		"directory .git", "directory .github", "file .gitignore 20", "directory a", "file a-b", "file a.log", "symlink link -> a", "directory node_modules",
		"symlink out -> /etc/passwd", "special pipe", "directory sub",
	}
	for _, tt := range []struct {
		name, path string
		query      service.ListQuery
		want       service.Listing
		lines      []string
	}{
		{"the directory", ".", service.ListQuery{}, service.Listing{}, top},
		{"depth 1 is the same", ".", service.ListQuery{Depth: 1}, service.Listing{}, top},
		{
			"deeper", ".", service.ListQuery{Depth: 2}, service.Listing{Skipped: service.Skipped{Ignored: 1}},
			[]string{
				"directory .git", "directory .github", "file .github/ci.yml", "file .gitignore 20", "directory a", "directory a/deep", "file a/x 3", "file a-b", "file a.log",
				"symlink link -> a", "directory node_modules", "symlink out -> /etc/passwd", "special pipe", "directory sub", "directory sub/.git", "directory sub/node_modules",
			},
		},
		{
			"another repository has its own rules", "sub", service.ListQuery{Depth: 9}, service.Listing{},
			[]string{"directory sub/.git", "directory sub/node_modules", "file sub/node_modules/z"},
		},
		{"what was named is entered", "node_modules", service.ListQuery{Depth: 3}, service.Listing{}, []string{"directory node_modules/m", "file node_modules/m/index.js"}},
		{"so is version control", ".git", service.ListQuery{Depth: 3}, service.Listing{}, []string{"file .git/config"}},
		{"through a link", "link", service.ListQuery{Depth: 2}, service.Listing{}, []string{"directory link/deep", "file link/deep/y", "file link/x 3"}},
		{"limited", ".", service.ListQuery{Depth: 2, Limit: 3}, service.Listing{Truncated: true}, []string{"directory .git", "directory .github", "file .github/ci.yml"}},
		{"limited just enough", "a", service.ListQuery{Limit: 2}, service.Listing{}, []string{"directory a/deep", "file a/x 3"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := handleOn(t, root, tt.path).List(t.Context(), tt.query)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.lines, shown(got)); diff != "" {
				t.Error(diff)
			}
			got.Entries = nil
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, query := range []service.ListQuery{{Depth: -1}, {Depth: service.MaxDepth + 1}, {Limit: -1}, {Limit: service.MaxEntries + 1}} {
		_, err := handleOn(t, root, ".").List(t.Context(), query)
		wantError(t, err, service.FileBadQuery, "is not between")
	}
	_, err := handleOn(t, root, "a/x").List(t.Context(), service.ListQuery{})
	wantError(t, err, service.FileNotDirectory, "a/x: is a file")
}

// A directory that the rules deny is left out with what is in it, and what is
// left out is counted. Broken by hand: with a denied directory entered.
func TestLaw39Listing(t *testing.T) {
	root := t.TempDir()
	write(t, root, "a/secret/x", "a/y", "b/secret", "c")
	gate := &rules{deny: func(action, resource string) bool {
		return action == service.ActionList && (resource == "a/secret" || resource == "b/secret" || resource == "c")
	}}
	got, err := resolve(t, open(t, root), gate, ".").List(t.Context(), service.ListQuery{Depth: 5})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"directory a", "file a/y", "directory b"}, shown(got)); diff != "" || got.Skipped.Denied != 3 {
		t.Errorf("%d denied: %s", got.Skipped.Denied, diff)
	}
}

// Each operation asks the gate before it does anything, for what rules speak of.
// Broken by hand: with each of the four not asking.
func TestLaw32ServicesAskThemselves(t *testing.T) {
	root := t.TempDir()
	write(t, root, "dir/f | x", "alias -> dir")
	for _, tt := range []struct {
		path string
		do   func(r *Root) error
		want []string
	}{
		{"alias/f", func(r *Root) error { _, err := r.Read(t.Context(), service.ReadQuery{}); return err }, []string{"read alias/f", "read dir/f"}},
		{"dir/f", func(r *Root) error { _, err := r.Read(t.Context(), service.ReadQuery{}); return err }, []string{"read dir/f"}},
		{"alias", func(r *Root) error { _, err := r.List(t.Context(), service.ListQuery{}); return err }, []string{"list alias", "list dir"}},
		{"alias", func(r *Root) error { _, err := r.Glob(t.Context(), service.GlobQuery{Pattern: "*.x"}); return err }, []string{"glob *.x"}},
		{"alias", func(r *Root) error { _, err := r.Grep(t.Context(), service.GrepQuery{Pattern: "a.b"}); return err }, []string{"grep a.b"}},
		{"alias/f", func(r *Root) error { _, err := r.Grep(t.Context(), service.GrepQuery{Pattern: "x"}); return err }, []string{"grep x", "read alias/f", "read dir/f"}},
	} {
		gate := &rules{}
		if err := tt.do(resolve(t, open(t, root), gate, tt.path)); err != nil {
			t.Errorf("%v: %v", tt.want, err)
		}
		if diff := cmp.Diff(tt.want, gate.asked); diff != "" {
			t.Error(diff)
		}
		refuse := &rules{deny: func(action, resource string) bool { return action+" "+resource == tt.want[len(tt.want)-1] }}
		if err := tt.do(resolve(t, open(t, root), refuse, tt.path)); err == nil {
			t.Errorf("%v was refused and done", tt.want)
		}
	}
}

func TestReadKinds(t *testing.T) {
	root := t.TempDir()
	write(t, root, "dir/", "bin | \x00", "f | text\n")
	_, err := handleOn(t, root, "dir").Read(t.Context(), service.ReadQuery{})
	wantError(t, err, service.FileIsDirectory, "dir: is a directory; list it")
	_, err = handleOn(t, root, "bin").Read(t.Context(), service.ReadQuery{})
	wantError(t, err, service.FileBinary, "bin: is a binary file")
	_, err = handleOn(t, root, "f").Read(t.Context(), service.ReadQuery{Offset: 7})
	wantError(t, err, service.FileBadQuery, "f: line 7 is past the end: the file has 1 lines")
	// A handle reads the file as it is now, under whatever name.
	r := handleOn(t, root, "f")
	if err := os.WriteFile(filepath.Join(root, "f"), []byte("more\ntext\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(root, "f")); err != nil {
		t.Fatal(err)
	}
	page, err := r.Read(t.Context(), service.ReadQuery{Offset: 2})
	if err != nil || page.Text != "text\n" {
		t.Errorf("%q, %v", page.Text, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	want := errors.New("enough")
	cancel(want)
	if _, err := r.Read(ctx, service.ReadQuery{}); !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

func TestOSPermission(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads everything")
	}
	root := t.TempDir()
	write(t, root, "f | x", "d/f | x", "ok/f | x", "ok/no | x")
	for _, name := range []string{"f", "d", "ok/no"} {
		if err := os.Chmod(filepath.Join(root, name), 0); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { os.Chmod(filepath.Join(root, "d"), 0o700) })
	f := open(t, root)
	for _, path := range []string{"f", "d", "d/f"} {
		_, err := f.ResolveRoot(t.Context(), Caller{Gate: &rules{}}, path)
		wantError(t, err, service.FileDenied, "does not let this user read it")
	}
	r := resolve(t, f, &rules{}, ".")
	list, err := r.List(t.Context(), service.ListQuery{Depth: 2})
	if err != nil || list.Skipped.Unreadable != 1 || strings.Join(shown(list), ",") != "directory d,file f 1,directory ok,file ok/f 1,file ok/no 1" {
		t.Errorf("%v, %+v, %v", shown(list), list.Skipped, err)
	}
	grep, err := r.Grep(t.Context(), service.GrepQuery{Pattern: "x"})
	if err != nil || grep.Skipped.Unreadable != 3 || len(grep.Matches) != 1 {
		t.Errorf("%+v, %v", grep, err)
	}
}
