package instructions

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/toolhost/toolhost/service/filesystem"
)

// FuzzTargets: whatever a tool says that a call is about, what is looked into is
// below the root, bounded, and from the root down.
func FuzzTargets(f *testing.F) {
	files, err := filesystem.Open(f.TempDir(), filesystem.Options{})
	if err != nil {
		f.Fatal(err)
	}
	defer files.Close()
	finder := New(Options{Files: files, Root: "/declared", Names: []string{"AGENTS.md"}})
	for _, target := range []string{".", "a/b", "../x", "a/../../b", "/declared/x", "/declared/../y", files.Path() + "/z//", "\x00", "//", "~/x"} {
		f.Add(target, "a/b/c")
	}
	f.Fuzz(func(t *testing.T, one, other string) {
		directories := finder.directories([]string{one, other})
		if len(directories) > MaxDirectories || !slices.IsSortedFunc(directories, byDepth) {
			t.Errorf("got %v", directories)
		}
		for i, d := range directories {
			if !filepath.IsLocal(d.path) || filepath.Clean(d.path) != d.path || d.depth > MaxDepth || (i == 0) != (d.path == ".") {
				t.Errorf("%q, %q: got %+v at %d", one, other, d, i)
			}
		}
	})
}
