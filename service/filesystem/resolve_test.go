package filesystem

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/tool"
)

func TestResolveRoot(t *testing.T) {
	base := t.TempDir()
	root := filepath.Join(base, "w")
	write(t, base,
		"w/f | f", "w/a/b/f | abf", "w/é", "outside/f | no", "w/with space",
		"w/file -> f", "w/dir -> a/b", "w/a/up -> ..", "w/chain -> dir/../../file", "w/abs -> "+root+"/a", "w/absroot -> "+root, "w/slash -> a/",
		"w/out -> ../outside", "w/outfile -> ../outside/f", "w/absout -> /etc/passwd", "w/sly -> "+root+"/../outside/f", "w/a/far -> ../../outside", "w/prefix -> "+root+"2/f",
		"w/dangling -> nowhere", "w/danglingout -> ../later", "w/loop -> loop", "w/loop1 -> loop2", "w/loop2 -> loop1",
	)
	if err := unix.Mkfifo(filepath.Join(root, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	write(t, base, "w/topipe -> pipe")
	f := open(t, root)
	for _, tt := range []struct {
		path string
		want service.RootInfo
	}{
		{".", service.RootInfo{Resource: ".", Resolved: ".", Kind: service.Directory}},
		{"./", service.RootInfo{Resource: ".", Resolved: ".", Kind: service.Directory}},
		{"f", service.RootInfo{Resource: "f", Resolved: "f", Kind: service.RegularFile}},
		{"./f", service.RootInfo{Resource: "f", Resolved: "f", Kind: service.RegularFile}},
		{"a//b/./f", service.RootInfo{Resource: "a/b/f", Resolved: "a/b/f", Kind: service.RegularFile}},
		{"a/../f", service.RootInfo{Resource: "f", Resolved: "f", Kind: service.RegularFile}},
		{"nowhere/../f", service.RootInfo{Resource: "f", Resolved: "f", Kind: service.RegularFile}},
		{"a/b/", service.RootInfo{Resource: "a/b", Resolved: "a/b", Kind: service.Directory}},
		{"a/b/.", service.RootInfo{Resource: "a/b", Resolved: "a/b", Kind: service.Directory}},
		{"a/b/..", service.RootInfo{Resource: "a", Resolved: "a", Kind: service.Directory}},
		{root, service.RootInfo{Resource: ".", Resolved: ".", Kind: service.Directory}},
		{root + "/a/b", service.RootInfo{Resource: "a/b", Resolved: "a/b", Kind: service.Directory}},
		{root + "/../w/f", service.RootInfo{Resource: "f", Resolved: "f", Kind: service.RegularFile}},
		{"é", service.RootInfo{Resource: "é", Resolved: "é", Kind: service.RegularFile}},
		{"with space", service.RootInfo{Resource: "with space", Resolved: "with space", Kind: service.RegularFile}},
		{"file", service.RootInfo{Resource: "file", Resolved: "f", Kind: service.RegularFile}},
		{"dir", service.RootInfo{Resource: "dir", Resolved: "a/b", Kind: service.Directory}},
		{"dir/f", service.RootInfo{Resource: "dir/f", Resolved: "a/b/f", Kind: service.RegularFile}},
		{"a/up", service.RootInfo{Resource: "a/up", Resolved: ".", Kind: service.Directory}},
		{"a/up/a/up/f", service.RootInfo{Resource: "a/up/a/up/f", Resolved: "f", Kind: service.RegularFile}},
		{"chain", service.RootInfo{Resource: "chain", Resolved: "f", Kind: service.RegularFile}},
		{"abs/b/f", service.RootInfo{Resource: "abs/b/f", Resolved: "a/b/f", Kind: service.RegularFile}},
		{"absroot/f", service.RootInfo{Resource: "absroot/f", Resolved: "f", Kind: service.RegularFile}},
		{"slash/b/f", service.RootInfo{Resource: "slash/b/f", Resolved: "a/b/f", Kind: service.RegularFile}},
		// The words decide: not the parent of what the link leads to.
		{"dir/..", service.RootInfo{Resource: ".", Resolved: ".", Kind: service.Directory}},
	} {
		t.Run(tt.path, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, resolve(t, f, &rules{}, tt.path).Info()); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, tt := range []struct {
		path string
		kind service.FileErrorKind
		says string
	}{
		{"", service.FileBadPath, `the root is "."`},
		{"a\x00b", service.FileBadPath, "zero byte"},
		{"file://" + root + "/f", service.FileBadPath, "is a URL"},
		{"FILE:///f", service.FileBadPath, "is a URL"},
		{strings.Repeat("n", 256), service.FileBadPath, "over 255 bytes"},
		{strings.Repeat("n/", 2048), service.FileBadPath, "over 4095 bytes"},
		{"..", service.FileOutside, "leads out of the root"},
		{"../w/f", service.FileOutside, "leads out of the root"},
		{"a/../../outside/f", service.FileOutside, "leads out of the root"},
		{"/etc/passwd", service.FileOutside, "leads out of the root"},
		{root + "2", service.FileOutside, "leads out of the root"},
		{root + "/../outside/f", service.FileOutside, "leads out of the root"},
		{"out", service.FileOutside, "leads out of the root"},
		{"out/f", service.FileOutside, "out/f: leads out of the root"},
		{"out/missing", service.FileOutside, "leads out of the root"},
		{"outfile", service.FileOutside, "leads out of the root"},
		{"absout", service.FileOutside, "leads out of the root"},
		{"sly", service.FileOutside, "leads out of the root"},
		{"a/far/f", service.FileOutside, "leads out of the root"},
		{"prefix", service.FileOutside, "leads out of the root"},
		{"danglingout", service.FileOutside, "leads out of the root"},
		{"dangling", service.FileNotFound, `there is no "nowhere" in "."`},
		{"missing", service.FileNotFound, "missing: does not exist"},
		{"a/missing/f", service.FileNotFound, `there is no "missing" in "a"`},
		{"loop", service.FileBadPath, "too many links"},
		{"loop1/x", service.FileBadPath, "too many links"},
		{"f/", service.FileNotDirectory, "ends in a slash, and is a file"},
		{"f/.", service.FileNotDirectory, "ends in a slash, and is a file"},
		{"file/", service.FileNotDirectory, "ends in a slash, and is a file"},
		{"f/x", service.FileNotDirectory, `"f" is a file, not a directory`},
		{"dir/f/x", service.FileNotDirectory, `"a/b/f" is a file, not a directory`},
		{"pipe", service.FileSpecial, "is a device, pipe or socket"},
		{"topipe", service.FileSpecial, "is a device, pipe or socket"},
		{"pipe/x", service.FileNotDirectory, `"pipe" is a file`},
	} {
		t.Run("refused "+tt.path[:min(len(tt.path), 40)], func(t *testing.T) {
			_, err := f.ResolveRoot(t.Context(), Caller{Gate: &rules{}}, tt.path)
			wantError(t, err, tt.kind, tt.says)
		})
	}
}

func TestResolveRootIsCancelled(t *testing.T) {
	f := open(t, t.TempDir())
	want := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(want)
	if _, err := f.ResolveRoot(ctx, Caller{Gate: &rules{}}, "."); !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

// A root below "/" itself has no slash of its own between it and a name.
func TestResolveRootBelowSlash(t *testing.T) {
	f, err := Open("/", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, path := range []string{"/", "."} {
		if got := resolve(t, f, &rules{}, path).Info().Resolved; got != "." {
			t.Errorf("%s: %q", path, got)
		}
	}
	if got := resolve(t, f, &rules{}, "/proc/self/../").Info().Resolved; got != "proc" {
		t.Errorf("got %q", got)
	}
}

// Sockets and devices are refused without being opened, and a pipe without
// waiting for who writes it. Broken by hand: with the file opened before it is
// looked at, which waits for ever without O_NONBLOCK.
func TestSpecialFilesAreRefusedAtOnce(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root) // a socket's path must be short
	if err := unix.Mkfifo(filepath.Join(root, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", "socket")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	names := []string{"pipe", "socket"}
	if unix.Mknod(filepath.Join(root, "null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))) == nil {
		names = append(names, "null")
	}
	f := open(t, root)
	for _, name := range names {
		_, err := f.ResolveRoot(t.Context(), Caller{Gate: &rules{}}, name)
		wantError(t, err, service.FileSpecial, "is a device, pipe or socket")
	}
	r := resolve(t, f, &rules{}, ".")
	grep, err := r.Grep(t.Context(), service.GrepQuery{Pattern: "x"})
	if err != nil || grep.Skipped.Unreadable != len(names) {
		t.Errorf("grep: %+v, %v", grep, err)
	}
	list, err := r.List(t.Context(), service.ListQuery{})
	if err != nil || len(list.Entries) != len(names) || list.Entries[0].Kind != service.SpecialFile {
		t.Errorf("list: %+v, %v", list, err)
	}
}

// Broken by hand: with only the resolved spelling accepted.
func TestCaseA03RootDeclaredThroughALink(t *testing.T) {
	base := t.TempDir()
	write(t, base, "real/f | 1", "alias -> real", "real/inner -> "+base+"/alias/f")
	f := open(t, filepath.Join(base, "alias"))
	for _, path := range []string{base + "/alias/f", base + "/real/f", "f", "inner"} {
		r := resolve(t, f, &rules{}, path)
		page, err := r.Read(t.Context(), service.ReadQuery{})
		if err != nil || page.Text != "1" || r.Info().Resolved != "f" {
			t.Errorf("%s: %q, %+v, %v", path, page.Text, r.Info(), err)
		}
	}
	// The answer has one spelling, whichever was used.
	for _, path := range []string{filepath.Join(base, "alias"), filepath.Join(base, "real"), "."} {
		got, err := resolve(t, f, &rules{}, path).Glob(t.Context(), service.GlobQuery{Pattern: "f"})
		if err != nil || !slices.Equal(got.Paths, []string{"f"}) {
			t.Errorf("%s: %q, %v", path, got.Paths, err)
		}
	}
}

// Broken by hand: without the suggestion, and with the name that is alike opened.
func TestCaseA07SpecialSpace(t *testing.T) {
	root := t.TempDir()
	narrow, composed, apart := "shot 9.41\u202fAM.png", "caf\u00e9", "cafe\u0301"
	write(t, root, narrow+" | picture", composed+" | one", apart+" | two", "sub/README.md", "a/x", "a/X", "a\u00a0b", "secret \u202f")
	f := open(t, root)
	list, err := resolve(t, f, &rules{}, ".").List(t.Context(), service.ListQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Entries {
		resolve(t, f, &rules{}, e.Path)
	}
	for name, want := range map[string]string{composed: "one", apart: "two", narrow: "picture"} {
		page, err := resolve(t, f, &rules{}, name).Read(t.Context(), service.ReadQuery{})
		if err != nil || page.Text != want {
			t.Errorf("%q: %q, %v; want %q", name, page.Text, err, want)
		}
	}
	for path, want := range map[string]string{
		"shot 9.41 AM.png":        `did you mean "shot 9.41\u202fAM.png"?`,
		"CAF\u00c9":               `did you mean "cafe\u0301" or "caf\u00e9"?`,
		"SUB/README.md":           `did you mean "sub/README.md"?`,
		"SUB/nothing":             `did you mean "sub"?`,
		"sub/readme.md":           `did you mean "sub/README.md"?`,
		"a b":                     `did you mean "a\u00a0b"?`,
		"nothing like it":         "does not exist",
		"shot 9.41 AM.png/deeper": `did you mean "shot 9.41\u202fAM.png"?`,
	} {
		_, err := f.ResolveRoot(t.Context(), Caller{Gate: &rules{}}, path)
		wantError(t, err, service.FileNotFound, want)
	}
	// What may not be listed is not told by way of an error.
	gate := &rules{deny: func(action, resource string) bool {
		return action == service.ActionList && strings.HasPrefix(resource, "secret")
	}}
	_, err = f.ResolveRoot(t.Context(), Caller{Gate: gate}, "secret  ")
	wantError(t, err, service.FileNotFound, "does not exist")
	if strings.Contains(err.Error(), "did you mean") {
		t.Error(err)
	}
}

// deny refuses the resource and what is below it.
func deny(denied string) *rules {
	return &rules{deny: func(_, resource string) bool { return resource == denied || strings.HasPrefix(resource, denied+"/") }}
}

// Broken by hand: with the spelled path judged alone.
func TestCaseC18DenyThroughAnAlias(t *testing.T) {
	root := t.TempDir()
	write(t, root, "secret/k | key", "s2 -> secret", "deep/s3 -> ../s2/k")
	if err := os.Link(root+"/secret/k", root+"/hk"); err != nil {
		t.Fatal(err)
	}
	f, gate := open(t, root), deny("secret")
	for _, path := range []string{"secret/k", "s2/k", "deep/s3"} {
		_, err := resolve(t, f, gate, path).Read(t.Context(), service.ReadQuery{})
		if refusal := (*tool.Refusal)(nil); !errors.As(err, &refusal) || refusal.Resource != "secret/k" {
			t.Errorf("%s: got %v, want a refusal", path, err)
		}
	}
	if _, err := resolve(t, f, gate, "s2").List(t.Context(), service.ListQuery{}); err == nil {
		t.Error("the alias of a denied directory was listed")
	}
	grep, err := resolve(t, f, gate, "s2").Grep(t.Context(), service.GrepQuery{Pattern: "key"})
	if err != nil || len(grep.Matches) != 0 || grep.Skipped.Denied != 1 {
		t.Errorf("grep through the alias: %+v, %v", grep, err)
	}
	glob, err := resolve(t, f, gate, "s2").Glob(t.Context(), service.GlobQuery{Pattern: "*"})
	if err != nil || len(glob.Paths) != 0 || glob.Skipped.Denied != 1 {
		t.Errorf("glob through the alias: %+v, %v", glob, err)
	}
	// The other way round: a denied spelling that leads to something allowed.
	if _, err := resolve(t, f, deny("s2"), "s2/k").Read(t.Context(), service.ReadQuery{}); err == nil {
		t.Error("a denied spelling was read")
	}
	// Of equal links neither is the alias: the name that is used is judged, which the
	// package documentation says.
	if page, err := resolve(t, f, gate, "hk").Read(t.Context(), service.ReadQuery{}); err != nil || page.Text != "key" {
		t.Errorf("hard link: %q, %v", page.Text, err)
	}
}

// Broken by hand: with the path judged as it was given.
func TestCaseC19SpellingVariants(t *testing.T) {
	root := t.TempDir()
	write(t, root, ".env | SECRET", "a/")
	f, gate := open(t, root), deny(".env")
	for _, path := range []string{
		".env", "./.env", "a/../.env", ".//.env", "file://" + root + "/.env", root + "/.env", root + "/a/../.env", ".env/", ".env/.", ".env\x00x", ".ENV", "./a/.././/.env",
	} {
		r, err := f.ResolveRoot(t.Context(), Caller{Gate: gate}, path)
		if err != nil {
			continue
		}
		page, err := r.Read(t.Context(), service.ReadQuery{})
		r.Close()
		if err == nil || page.Text != "" {
			t.Errorf("%s was read: %q", path, page.Text)
		}
	}
}

// Where a filesystem folds case, the name that is stored is judged. There is
// hardly one to test on, so this asks for the name that a directory has. Seen with
// a folding filesystem by hand: .ENV resolved to .env.
func TestCaseC19StoredName(t *testing.T) {
	root := t.TempDir()
	write(t, root, "Sub/.env", "Sub/caf\u00e9", "Sub/other")
	if err := os.Link(root+"/Sub/other", root+"/Sub/OTHER"); err != nil {
		t.Fatal(err)
	}
	f := open(t, root)
	for asked, want := range map[string]string{".ENV": ".env", ".env": ".env", "CAFE\u0301": "caf\u00e9", "other": "other", "OTHER": "OTHER"} {
		h, err := f.openHandle(t.Context(), "Sub/"+want)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(h.fd)
		if got, err := f.storedName(t.Context(), "Sub", asked, h.info); err != nil || got != want {
			t.Errorf("%q is stored as %q, %v; want %q", asked, got, err, want)
		}
	}
	// Two links that differ in case only are two names, and stay so.
	for _, name := range []string{"Sub/other", "Sub/OTHER"} {
		if got := resolve(t, f, &rules{}, name).Info().Resolved; got != name {
			t.Errorf("%s resolved to %s", name, got)
		}
	}
}

// While a directory on the way is swapped for a link to the outside, again and
// again, nothing outside is read; and what is read is what its resolved path
// says, while two directories inside change places. Broken by hand: with the
// kernel following links, and with the resolved path looked up before opening.
func TestCaseA05ReadingWhileDirectoriesAreSwapped(t *testing.T) {
	base := t.TempDir()
	root := filepath.Join(base, "w")
	write(t, base, "outside/q/f | outside", "w/p/q/f | p", "w/secret/q/f | secret", "w/public/q/f | public", "w/door -> public")
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	again := func(swap func()) {
		swapping.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					swap()
				}
			}
		})
	}
	p, away, door, next := filepath.Join(root, "p"), filepath.Join(base, "away"), filepath.Join(root, "door"), filepath.Join(root, "next")
	again(func() {
		_ = os.Rename(p, away)
		_ = os.Symlink(filepath.Join(base, "outside"), p)
		_ = os.Remove(p)
		_ = os.Rename(away, p)
	})
	again(func() {
		for _, target := range []string{"secret", "public"} {
			_ = os.Symlink(target, next)
			_ = os.Rename(next, door)
		}
	})
	defer swapping.Wait()
	defer close(stop)
	f, gate := open(t, root), deny("secret")
	seen := map[string]int{}
	met := func() bool { return seen["refused"] > 0 && seen["denied"] > 0 && seen["p"] > 0 && seen["public"] > 0 }
	top := resolve(t, f, gate, ".")
	for rounds := 0; rounds < 2000 || !met() && rounds < 100_000; rounds++ {
		if rounds%10 == 0 {
			grep, err := top.Grep(t.Context(), service.GrepQuery{Pattern: "outside|secret"})
			if err != nil || len(grep.Matches) > 0 {
				t.Fatalf("grep: %+v, %v", grep, err)
			}
		}
		for _, path := range []string{"p/q/f", "door/q/f"} {
			r, err := f.ResolveRoot(t.Context(), Caller{Gate: gate}, path)
			if err != nil {
				seen["refused"]++
				continue
			}
			page, err := r.Read(t.Context(), service.ReadQuery{})
			r.Close()
			if err != nil {
				seen["denied"]++
				continue
			}
			if want := strings.TrimSuffix(r.Info().Resolved, "/q/f"); page.Text != want || want == "secret" {
				t.Fatalf("%s resolved to %s and was read: %q", path, r.Info().Resolved, page.Text)
			}
			seen[page.Text]++
		}
	}
	if !met() {
		t.Errorf("the swaps were not met: %v", seen)
	}
}
