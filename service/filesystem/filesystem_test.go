package filesystem

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ Gate = tool.Gate(nil)

// rules is a gate that denies what it is told to, would ask about other things, and
// remembers what it was asked.
type rules struct {
	deny func(action, resource string) bool
	ask  func(action, resource string) bool // everybody says yes

	mu    sync.Mutex
	asked []string
}

func (r *rules) denies(action, resource string) bool {
	return r.deny != nil && r.deny(action, resource)
}

func (r *rules) Permit(_ context.Context, action string, resources ...string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range resources {
		r.asked = append(r.asked, action+" "+resource)
	}
	for _, resource := range resources {
		if r.denies(action, resource) {
			return &tool.Refusal{Kind: tool.KindDenied, Action: action, Resource: resource}
		}
	}
	return nil
}

func (r *rules) Allows(action, resource string) bool {
	return !r.denies(action, resource) && (r.ask == nil || !r.ask(action, resource))
}

func (r *rules) Denies(action, resource string) bool { return r.denies(action, resource) }

// write makes files; a name that ends in a slash is a directory, " -> " makes a
// link and " | " gives the contents.
func write(t testing.TB, root string, names ...string) {
	t.Helper()
	for _, name := range names {
		name, text, _ := strings.Cut(name, " | ")
		link, target, isLink := strings.Cut(name, " -> ")
		full := filepath.Join(root, link)
		dir := filepath.Dir(full)
		if !isLink && strings.HasSuffix(name, "/") {
			dir = full
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		switch {
		case isLink:
			err = os.Symlink(target, full)
		case dir != full:
			err = os.WriteFile(full, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func open(t testing.TB, root string) *FileSystem {
	t.Helper()
	f, err := Open(root, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func resolve(t testing.TB, f *FileSystem, gate Gate, path string) *Root {
	t.Helper()
	r, err := f.ResolveRoot(t.Context(), Caller{Gate: gate}, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// handle opens path below a tree with nothing denied.
func handleOn(t testing.TB, root, path string) *Root {
	t.Helper()
	return resolve(t, open(t, root), &rules{}, path)
}

// wantError checks the kind of a FileError and a part of what it says.
func wantError(t testing.TB, err error, kind service.FileErrorKind, says string) {
	t.Helper()
	var e *service.FileError
	if !errors.As(err, &e) || e.Kind != kind || !strings.Contains(err.Error(), says) {
		t.Errorf("got %v, want the kind %s and %q", err, kind, says)
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "file")
	if _, err := Open(filepath.Join(dir, "missing"), Options{}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "does not exist; create it") {
		t.Errorf("a missing root: %v", err)
	}
	if _, err := Open(filepath.Join(dir, "file"), Options{}); !errors.Is(err, unix.ENOTDIR) || !strings.Contains(err.Error(), "is not a directory") {
		t.Errorf("a file as root: %v", err)
	}
	t.Chdir(dir)
	f, err := Open(".", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || f.Path() != real {
		t.Errorf("Path() = %q, want %q, %v", f.Path(), real, err)
	}
}

// The root that was opened stays the root, whatever its name is. Broken by hand:
// with paths joined to the root's name.
func TestRootIsHeld(t *testing.T) {
	base := t.TempDir()
	write(t, base, "w/f | mine")
	f := open(t, filepath.Join(base, "w"))
	if err := os.Rename(filepath.Join(base, "w"), filepath.Join(base, "moved")); err != nil {
		t.Fatal(err)
	}
	write(t, base, "w/f | another's")
	page, err := resolve(t, f, &rules{}, "f").Read(t.Context(), service.ReadQuery{})
	if err != nil || page.Text != "mine" {
		t.Errorf("got %q, %v", page.Text, err)
	}
}

// descriptors are the files below a directory that this process has open.
func descriptors(t testing.TB, below string) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	var open []string
	for _, e := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(target, below) {
			open = append(open, target)
		}
	}
	return open
}

// Whatever was done, and however it ended, nothing is left open. Broken by hand:
// with a directory of the walk, an ignore file, or a refused handle not closed.
func TestLaw41NothingSurvivesTheFileSystem(t *testing.T) {
	root := t.TempDir()
	write(t, root, ".gitignore | x", ".git/info/exclude | y", "a/b/c/f | text", "a/b/d/.ignore | q", "bin | \x00", "link -> a/b", "out -> /etc", "loop -> loop")
	if err := unix.Mkfifo(filepath.Join(root, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		f, err := Open(root, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{".", "a", "link", "link/c/f", "bin", "out", "loop", "pipe", "missing", "bin/", "A", "../x"} {
			r, err := f.ResolveRoot(t.Context(), Caller{Gate: &rules{}}, path)
			if err != nil {
				continue
			}
			r.Read(t.Context(), service.ReadQuery{})
			r.List(t.Context(), service.ListQuery{Depth: 9})
			r.Glob(t.Context(), service.GlobQuery{Pattern: "*"})
			r.Grep(t.Context(), service.GrepQuery{Pattern: "t", Limit: 1})
			if path != "a" { // which the FileSystem has to close
				r.Close()
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if left := descriptors(t, root); len(left) > 0 {
		t.Errorf("%d descriptors are left, such as %s", len(left), left[0])
	}
}

// Closing ends what is going on, waits for it, and says so. Broken by hand: with
// Close not cancelling.
func TestCloseEndsWhatIsGoingOn(t *testing.T) {
	for _, what := range []string{"the handle", "the filesystem"} {
		t.Run(what, func(t *testing.T) {
			f := open(t, wideTree(t, 30, 30))
			searching := make(chan struct{})
			var once sync.Once
			hold := make(chan struct{})
			gate := &rules{deny: func(action, _ string) bool {
				if action == service.ActionRead {
					once.Do(func() { close(searching) })
					<-hold
				}
				return false
			}}
			r := resolve(t, f, gate, ".")
			failed := make(chan error)
			go func() {
				_, err := r.Grep(t.Context(), service.GrepQuery{Pattern: "x"})
				failed <- err
			}()
			<-searching
			closed := make(chan struct{})
			go func() {
				if what == "the handle" {
					r.Close()
				} else {
					f.Close()
				}
				close(closed)
			}()
			wantStale := func(err error) {
				t.Helper()
				wantError(t, err, service.FileStaleHandle, "closed")
			}
			// Grep cannot end before the gate answers, and Close not before Grep.
			for !r.ended() {
				runtime.Gosched()
			}
			select {
			case <-closed:
				t.Error("Close did not wait")
			default:
			}
			close(hold)
			wantStale(<-failed)
			<-closed
			_, err := r.List(t.Context(), service.ListQuery{})
			wantStale(err)
			if what == "the filesystem" {
				_, err := f.ResolveRoot(t.Context(), Caller{Gate: gate}, ".")
				wantStale(err)
			}
		})
	}
}

// ended says whether the handle is being closed.
func (r *Root) ended() bool {
	r.lease.mu.Lock()
	defer r.lease.mu.Unlock()
	return r.lease.ended
}

// wideTree makes directories of files that hold their own name.
func wideTree(t testing.TB, dirs, files int) string {
	t.Helper()
	root := t.TempDir()
	for d := range dirs {
		dir := filepath.Join(root, fmt.Sprintf("d%03d", d))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for f := range files {
			name := fmt.Sprintf("f%03d.txt", f)
			if err := os.WriteFile(filepath.Join(dir, name), []byte(name+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return root
}

func mkfifo(t testing.TB, path string) {
	t.Helper()
	if err := unix.Mkfifo(path, 0o644); err != nil {
		t.Fatal(err)
	}
}
