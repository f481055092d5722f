package beneath

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/service"
)

// tree makes files for the tests: a directory root, and one beside it.
func tree(t *testing.T) (root string) {
	t.Helper()
	base := t.TempDir()
	root = filepath.Join(base, "root")
	for _, dir := range []string{"root/a/b", "outside"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"root/f", "root/a/b/f", "outside/f"} {
		if err := os.WriteFile(filepath.Join(base, file), []byte(file), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		"file": "f", "dir": "a", "a/up": "..", "out": "../outside", "absolute": filepath.Join(base, "outside"), "dangling": "nowhere",
	} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(root, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	return root
}

func openDir(t *testing.T, path string) int {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return int(f.Fd())
}

// Both ways to open have the same laws. Broken by hand: without O_NOFOLLOW, with
// O_NOFOLLOW at the last name only, and without RESOLVE_NO_SYMLINKS.
func TestOpen(t *testing.T) {
	dir := openDir(t, tree(t))
	for _, way := range []struct {
		name string
		open func(dir int, path string, flags int) (int, error)
	}{{"at once", Open}, {"stepwise", openStepwise}} {
		for _, tt := range []struct {
			path string
			want string // what the file says, or "directory"
			errs []error
		}{
			{"f", "root/f", nil},
			{"a/b/f", "root/a/b/f", nil},
			{"a/b", "directory", nil},
			{".", "directory", nil},
			{"file", "", []error{unix.ELOOP}},
			{"dir", "", []error{unix.ELOOP}},
			{"dir/b/f", "", []error{unix.ELOOP, unix.ENOTDIR}},
			{"a/up/f", "", []error{unix.ELOOP, unix.ENOTDIR}},
			{"out/f", "", []error{unix.ELOOP, unix.ENOTDIR}},
			{"absolute/f", "", []error{unix.ELOOP, unix.ENOTDIR}},
			{"dangling", "", []error{unix.ELOOP}},
			{"missing", "", []error{unix.ENOENT}},
			{"f/x", "", []error{unix.ENOTDIR}},
		} {
			t.Run(way.name+" "+tt.path, func(t *testing.T) {
				fd, err := way.open(dir, tt.path, unix.O_RDONLY|unix.O_NONBLOCK)
				if tt.errs != nil {
					if !slices.ContainsFunc(tt.errs, func(want error) bool { return errors.Is(err, want) }) {
						t.Errorf("got %v, want one of %v", err, tt.errs)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				defer Close(fd)
				if got := contents(t, fd); got != tt.want {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			})
		}
	}
	for _, path := range []string{"..", "../outside/f", "a/../f", "a/..", "/", "/etc"} {
		if fd, err := Open(dir, path, unix.O_PATH); !errors.Is(err, unix.EXDEV) {
			t.Errorf("%s: got %d, %v; want %v", path, fd, err, unix.EXDEV)
		}
	}
}

func contents(t *testing.T, fd int) string {
	t.Helper()
	info, err := Stat(fd)
	if err != nil {
		t.Fatal(err)
	}
	if info.Kind == service.Directory {
		return "directory"
	}
	b := make([]byte, info.Size+10)
	n, err := ReadFull(t.Context(), fd, b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

func TestLstat(t *testing.T) {
	root := tree(t)
	dir := openDir(t, root)
	for path, want := range map[string]service.FileKind{
		"f": service.RegularFile, "a": service.Directory, "a/b/f": service.RegularFile, "file": service.Symlink, "a/up": service.Symlink, "pipe": service.SpecialFile,
	} {
		got, err := Lstat(dir, path)
		if err != nil || got.Kind != want {
			t.Errorf("%s is %q, %v; want %q", path, got.Kind, err, want)
		}
		again, err := LstatName(openDir(t, filepath.Dir(filepath.Join(root, path))), filepath.Base(path))
		if err != nil || again != got || !again.Same(got) {
			t.Errorf("%s: LstatName %v, %v; Lstat %v", path, again, err, got)
		}
	}
	one, err := Lstat(dir, "f")
	if err != nil || one.Size != int64(len("root/f")) {
		t.Errorf("size %d, %v", one.Size, err)
	}
	if other, err := Lstat(dir, "a/b/f"); err != nil || one.Same(other) {
		t.Errorf("two files are the same: %v, %v, %v", one, other, err)
	}
	if got, err := Readlink(dir, "a/up"); err != nil || got != ".." {
		t.Errorf("Readlink: %q, %v", got, err)
	}
	if got, err := ReadlinkName(dir, "out"); err != nil || got != "../outside" {
		t.Errorf("ReadlinkName: %q, %v", got, err)
	}
	if got, err := Readlink(dir, "f"); err == nil {
		t.Errorf("Readlink of a file: %q", got)
	}
}

// The standard library is the oracle; there are more names than fit into one
// system call.
func TestReadDir(t *testing.T) {
	root := tree(t)
	for i := range 2000 {
		if err := os.WriteFile(filepath.Join(root, fmt.Sprintf("%s-%d\xff", strings.Repeat("n", i%200), i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := ReadDir(t.Context(), openDir(t, root))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(got, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	var want []Entry
	for _, e := range entries {
		kind := service.SpecialFile
		switch e.Type() {
		case 0:
			kind = service.RegularFile
		case fs.ModeDir:
			kind = service.Directory
		case fs.ModeSymlink:
			kind = service.Symlink
		}
		want = append(want, Entry{Name: e.Name(), Kind: kind})
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d entries, want %d: %v", len(got), len(want), got)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	if _, err := ReadDir(ctx, openDir(t, root)); !errors.Is(err, cause) {
		t.Errorf("got %v, want %v", err, cause)
	}
}

// A directory with too many names is refused, and not held in memory. Seen to fail:
// without the bound.
func TestLaw14NamesAreBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range 5 {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for most, refused := range map[int]bool{4: true, 5: false} {
		names, err := readDir(t.Context(), openDir(t, dir), most)
		if e, ok := errors.AsType[*service.FileError](err); ok != refused || !refused && len(names) != 5 || refused && !strings.Contains(e.Detail, "more than 4 names") {
			t.Errorf("at most %d: %d names, %v", most, len(names), err)
		}
	}
}

// Where a filesystem does not say what a name is, the name is looked at.
func TestDirentKindIsAskedFor(t *testing.T) {
	dir := openDir(t, tree(t))
	for name, want := range map[string]service.FileKind{
		"f": service.RegularFile, "a": service.Directory, "file": service.Symlink, "pipe": service.SpecialFile, "gone": service.SpecialFile,
	} {
		if got := direntKind(dir, name, unix.DT_UNKNOWN); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// Seen to fail: without the bound.
func TestReadDirSome(t *testing.T) {
	root := t.TempDir()
	for i := range 1000 {
		if err := os.WriteFile(filepath.Join(root, fmt.Sprintf("%0100d", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for most, want := range map[int]bool{10: false, 1000: true, 1 << 40: true} {
		dir, err := os.Open(root)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := ReadDirSome(t.Context(), int(dir.Fd()), most)
		if all := len(entries) == 1000; err != nil || len(entries) < min(most, 1000) || all != want {
			t.Errorf("%d names of at least %d, %v", len(entries), most, err)
		}
		dir.Close()
	}
}
