package instructions

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/service/filesystem"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/state"
	"github.com/toolhost/toolhost/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// project is a root with files, the rules of a Location, and the user's state.
type project struct {
	t     *testing.T
	root  string // as it is declared: through a link
	real  string
	files *filesystem.FileSystem
	state *state.Store
	asked int // how often the state was asked
}

func newProject(t *testing.T, files map[string]string) *project {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := &project{t: t, root: filepath.Join(base, "declared"), real: filepath.Join(base, "real"), state: state.New(state.Options{Dir: filepath.Join(base, "state")})}
	if err := os.MkdirAll(p.real, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", p.root); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		p.write(name, text)
	}
	if p.files, err = filesystem.Open(p.root, filesystem.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = p.files.Close(), p.state.Close() })
	return p
}

func (p *project) write(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.real, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p *project) link(name, target string) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(p.real, name)), 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(p.real, name)); err != nil {
		p.t.Fatal(err)
	}
}

// seen is the user's state, as a host asks it.
func (p *project) seen(ctx context.Context, session string, paths []string) ([]string, error) {
	p.asked++
	return p.state.Seen(ctx, p.real, session, paths)
}

func (p *project) finder(names ...string) *Finder {
	if len(names) == 0 {
		names = []string{"AGENTS.md"}
	}
	return New(Options{Files: p.files, Root: p.root, Names: names, Seen: p.seen})
}

// gate is that of a call of a plugin from outside, for which Permit would ask.
func (p *project) gate(denied ...string) tool.Gate {
	p.t.Helper()
	all, _ := permission.ParsePattern("*")
	read, _ := permission.ParsePattern("read")
	rules := []permission.Rule{{Action: all, Resource: all, Effect: permission.Allow}}
	for _, resource := range denied {
		pattern, err := permission.ParsePattern(resource)
		if err != nil {
			p.t.Fatal(err)
		}
		rules = append(rules, permission.Rule{Action: read, Resource: pattern, Effect: permission.Ask})
	}
	policy := &permission.Policy{Root: p.real, Lists: []permission.List{{Rules: rules}}}
	return permission.New(policy, noApprover{p.t}).Gate(permission.Caller{Plugin: "weather"})
}

// noApprover must not be asked.
type noApprover struct{ t *testing.T }

func (a noApprover) Ask(context.Context, permission.Request) (permission.Reply, error) {
	a.t.Error("a person was asked")
	return permission.Reply{Kind: tool.KindDeclined}, nil
}

// want asks for the targets' instructions and compares the paths.
func (p *project) want(f *Finder, gate tool.Gate, session string, targets []string, want ...string) []tool.Instruction {
	p.t.Helper()
	list, err := f.For(p.t.Context(), gate, session, targets)
	if got := paths(list); !slices.Equal(got, want) || err != nil {
		p.t.Errorf("%.200q: got %q, %v, want %q", targets, got, err, want)
	}
	if refused := gate.Refused(); refused != nil {
		p.t.Errorf("the call was refused: %v", refused)
	}
	return list
}

func paths(list []tool.Instruction) []string {
	var paths []string
	for _, i := range list {
		paths = append(paths, i.Path)
	}
	return paths
}

func tree() map[string]string {
	return map[string]string{
		"AGENTS.md": "root\n", "a/AGENTS.md": "a\n", "a/b/c/AGENTS.md": "c\n", "a/b/c/main.go": "", "b/AGENTS.md": "b\n", "b/x": "",
	}
}

// TestLaw30Targets: the files from the root down to each target, the root's first.
// Seen to fail with the directories in the order of the targets, and without
// the cleaning of targets.
func TestLaw30Targets(t *testing.T) {
	p := newProject(t, tree())
	all := []string{"AGENTS.md", "a/AGENTS.md", "b/AGENTS.md", "a/b/c/AGENTS.md"}
	for i, c := range []struct {
		targets []string
		want    []string
	}{
		{[]string{"a/b/c/main.go"}, []string{"AGENTS.md", "a/AGENTS.md", "a/b/c/AGENTS.md"}}, // a file
		{[]string{"a/b/c"}, []string{"AGENTS.md", "a/AGENTS.md", "a/b/c/AGENTS.md"}},         // a directory
		{[]string{"a/b/c/"}, []string{"AGENTS.md", "a/AGENTS.md", "a/b/c/AGENTS.md"}},
		{[]string{"a/b/c/new/deep/file"}, []string{"AGENTS.md", "a/AGENTS.md", "a/b/c/AGENTS.md"}}, // not there
		{[]string{"a/b/c/main.go/x"}, []string{"AGENTS.md", "a/AGENTS.md", "a/b/c/AGENTS.md"}},
		{[]string{"a"}, []string{"AGENTS.md", "a/AGENTS.md"}},
		{[]string{"a/AGENTS.md"}, []string{"AGENTS.md", "a/AGENTS.md"}},
		{[]string{"."}, []string{"AGENTS.md"}}, {[]string{"x"}, []string{"AGENTS.md"}},
		{[]string{"a/b/c", "b/x"}, all}, {[]string{"b", "a/b/c/main.go", "b"}, all},
		{[]string{"a/../b/x"}, []string{"AGENTS.md", "b/AGENTS.md"}}, {[]string{"./b//x"}, []string{"AGENTS.md", "b/AGENTS.md"}},
		{[]string{p.real + "/b/x"}, []string{"AGENTS.md", "b/AGENTS.md"}}, {[]string{p.root + "/b/x"}, []string{"AGENTS.md", "b/AGENTS.md"}},
		{[]string{p.real}, []string{"AGENTS.md"}}, {[]string{p.root + "/"}, []string{"AGENTS.md"}},
		{nil, nil}, {[]string{""}, nil}, {[]string{".."}, nil}, {[]string{"../real/b"}, nil}, {[]string{"a/../../real/b"}, nil}, {[]string{"/"}, nil},
		{[]string{"/etc/passwd"}, nil}, {[]string{p.real + "x/b"}, nil}, {[]string{p.real + "/.."}, nil}, {[]string{"a\x00b"}, nil}, {[]string{strings.Repeat("a/", 2500)}, nil},
		{[]string{"../out", "b", "\x00", "/tmp"}, []string{"AGENTS.md", "b/AGENTS.md"}},
		{[]string{strings.Repeat("n", 300) + "/x"}, []string{"AGENTS.md"}}, {[]string{"\xff\xfe/x"}, []string{"AGENTS.md"}},
	} {
		p.want(p.finder(), p.gate(), fmt.Sprint("session ", i), c.targets, c.want...)
	}
	list := p.want(p.finder(), p.gate(), "text", []string{"b"}, "AGENTS.md", "b/AGENTS.md")
	if len(list) == 2 && (list[0].Text != "root\n" || list[1].Text != "b\n") {
		t.Errorf("got %+v", list)
	}
}

// TestLaw30OncePerSession, also across hosts, and not what was not given.
func TestLaw30OncePerSession(t *testing.T) {
	p := newProject(t, tree())
	f := p.finder()
	p.want(f, p.gate(), "one", []string{"a"}, "AGENTS.md", "a/AGENTS.md")
	p.want(f, p.gate(), "one", []string{"a/b/c", "a"}, "a/b/c/AGENTS.md")
	p.want(f, p.gate(), "one", []string{"a/b/c"})
	p.want(f, p.gate(), "two", []string{"a"}, "AGENTS.md", "a/AGENTS.md")
	p.want(p.finder(), p.gate(), "one", []string{"a/b/c", "b"}, "b/AGENTS.md")
}

// TestLaw30NobodyIsAskedTwice: the state is not opened where there is no file, nor
// for what this process knows was given. Seen to fail without the memory.
func TestLaw30NobodyIsAskedTwice(t *testing.T) {
	p := newProject(t, map[string]string{"a/x": ""})
	f := p.finder()
	p.want(f, p.gate(), "s", []string{"a/x", "b/c"})
	if path, _ := p.state.Path(); p.asked != 0 {
		t.Errorf("the state was asked %d times", p.asked)
	} else if _, err := os.Stat(path); err == nil {
		t.Error("the state was made")
	}
	p.write("AGENTS.md", "now\n")
	for range 3 {
		if _, err := f.For(t.Context(), p.gate(), "s", []string{"a/x"}); err != nil {
			t.Fatal(err)
		}
	}
	if p.asked != 1 {
		t.Errorf("the state was asked %d times, want 1", p.asked)
	}
}

// TestLaw30Concurrent: of calls at the same time one is given each file, with the
// state and without it. Seen to fail with a memory that is never filled.
func TestLaw30Concurrent(t *testing.T) {
	p := newProject(t, tree())
	names := []string{"AGENTS.md"}
	seen := func(ctx context.Context, session string, paths []string) ([]string, error) {
		return p.state.Seen(ctx, p.real, session, paths)
	}
	for name, finders := range map[string][]*Finder{
		"in memory":   {New(Options{Files: p.files, Names: names})},
		"three hosts": {New(Options{Files: p.files, Names: names, Seen: seen}), New(Options{Files: p.files, Names: names, Seen: seen}), New(Options{Files: p.files, Names: names, Seen: seen})},
	} {
		t.Run(name, func(t *testing.T) {
			lists := make([][]tool.Instruction, 48)
			var wg sync.WaitGroup
			for i := range lists {
				gate := p.gate()
				wg.Go(func() {
					var err error
					if lists[i], err = finders[i%len(finders)].For(t.Context(), gate, "s", []string{[]string{"a/b/c", "b", "a"}[i%3]}); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			got := paths(slices.Concat(lists...))
			slices.Sort(got)
			if want := []string{"AGENTS.md", "a/AGENTS.md", "a/b/c/AGENTS.md", "b/AGENTS.md"}; !slices.Equal(got, want) {
				t.Errorf("got %q, want each once", got)
			}
		})
	}
}

// TestLaw30Links: what leads out of the root is not given, and a file that has
// several names is given once.
func TestLaw30Links(t *testing.T) {
	p := newProject(t, map[string]string{"docs/rules.md": "rules\n", "d/x": "", "e/x": "", "dir/x": "", "loop/x": "", "pipe/x": "", "abs/x": ""})
	outside := filepath.Join(filepath.Dir(p.real), "secret")
	if err := os.WriteFile(outside, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.link("AGENTS.md", "../secret")
	p.link("abs/AGENTS.md", outside)
	p.link("d/AGENTS.md", "../docs/rules.md")
	p.link("e/AGENTS.md", "../docs/rules.md")
	p.link("loop/AGENTS.md", "AGENTS.md")
	p.link("out", "..")
	p.link("in", "d")
	if err := os.Mkdir(filepath.Join(p.real, "dir", "AGENTS.md"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(p.real, "pipe", "AGENTS.md"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := p.finder()
	p.want(f, p.gate(), "one", []string{"abs/x", "loop/x", "dir/x", "pipe/x", "out/real/d", "out/AGENTS.md"})
	p.want(f, p.gate(), "one", []string{"e/x", "d/x", "in/x"}, "d/AGENTS.md")
	p.want(f, p.gate(), "two", []string{"in/x"}, "in/AGENTS.md")
	p.want(f, p.gate(), "two", []string{"d/x", "e/x"})
	p.link("inside", p.root+"/d")
	p.want(f, p.gate(), "three", []string{"inside/x"}, "inside/AGENTS.md")
}

// TestLaw39OnlyWhatMayBeRead: by the name and by what it leads to, and without
// asking. Seen to fail with the call's own Permit in place of the quiet one.
func TestLaw39OnlyWhatMayBeRead(t *testing.T) {
	files := tree()
	files["hidden/rules.md"] = "hidden\n"
	p := newProject(t, files)
	p.link("l/AGENTS.md", "../hidden/rules.md")
	f := p.finder()
	gate := p.gate("a/AGENTS.md", "hidden/*")
	p.want(f, gate, "s", []string{"a/b/c", "l"}, "AGENTS.md", "a/b/c/AGENTS.md")
	p.want(f, p.gate("*"), "t", []string{"a/b/c", "l"})
	p.want(f, p.gate(), "s", []string{"a/b/c", "l"}, "a/AGENTS.md", "l/AGENTS.md")
	if list, err := f.For(t.Context(), nil, "u", []string{"a"}); len(list) != 0 || err != nil {
		t.Errorf("without a gate: got %v, %v", list, err)
	}
}

// TestLaw30Names: in their order, in each directory; none switches it off.
func TestLaw30Names(t *testing.T) {
	p := newProject(t, map[string]string{"A.md": "1", "B.md": "2", "x/A.md": "3", "x/B.md": "4"})
	p.want(p.finder("B.md", "A.md"), p.gate(), "s", []string{"x"}, "B.md", "A.md", "x/B.md", "x/A.md")
	p.want(New(Options{Files: p.files, Seen: p.seen}), p.gate(), "t", []string{"x"})
}

// TestLaw30FileBounds: the text is cut at the border of a character, with a
// mark, and is UTF-8.
func TestLaw30FileBounds(t *testing.T) {
	lines := func(n int) string { return strings.Repeat(strings.Repeat("é", 49)+"\n", n) } // 99 bytes each
	for name, c := range map[string]struct{ text, want string }{
		"whole":         {lines(300), lines(300)},
		"cut":           {lines(400), "\n[cut here: the file has 39600 bytes]\n"},
		"far too large": {lines(5000), "\n[cut here: the file has 495000 bytes]\n"},
		"many lines":    {strings.Repeat("\n", 999) + strings.Repeat("x\n", 2000), "x\n[cut here: the file has 4999 bytes]\n"},
		"long line":     {"begin " + strings.Repeat("é", 2000) + "\nend\n", "é [line cut here]\nend\n"},
		"one long line": {strings.Repeat("é", 100_000), "é [line cut here]"},
		"no UTF-8":      {"caf\xe9\n", "caf\ufffd\n"},
		"UTF-16":        {"\xff\xfeo\x00k\x00\n\x00", "ok\n"},
		"order mark":    {"\xef\xbb\xbfok\n", "ok\n"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t, map[string]string{"AGENTS.md": c.text})
			list := p.want(p.finder(), p.gate(), "s", []string{"."}, "AGENTS.md")
			if len(list) != 1 {
				return
			}
			text := list[0].Text
			if len(text) > FileBytes || !utf8.ValidString(text) || !strings.HasSuffix(text, c.want) {
				t.Errorf("got %d bytes, …%q", len(text), text[max(0, len(text)-80):])
			}
			if name == "cut" && len(text) < FileBytes-4 {
				t.Errorf("got %d bytes of %d", len(text), FileBytes)
			}
		})
	}
	for name, text := range map[string]string{"empty": "", "blank": " \n\n", "binary": "\x00\x01"} {
		p := newProject(t, map[string]string{"AGENTS.md": text})
		t.Log(name)
		p.want(p.finder(), p.gate(), "s", []string{"."})
	}
}

// TestLaw30CallBounds: what does not fit into a call comes with the next one, and
// nothing is lost. Seen to fail with all files recorded at once.
func TestLaw30CallBounds(t *testing.T) {
	t.Run("bytes", func(t *testing.T) {
		p := newProject(t, nil)
		var target string
		for i := range 6 {
			p.write(target+"AGENTS.md", strings.Repeat("x", 1000)+"\n"+strings.Repeat(strings.Repeat("y", 99)+"\n", 200+i))
			target += "d/"
		}
		f := p.finder()
		for range 2 {
			list, err := f.For(t.Context(), p.gate(), "s", []string{target})
			bytes := 0
			for _, i := range list {
				bytes += len(i.Text)
			}
			if len(list) != 3 || bytes > CallBytes || err != nil {
				t.Errorf("got %q, %d bytes, %v", paths(list), bytes, err)
			}
		}
		p.want(f, p.gate(), "s", []string{target})
		p.want(f, p.gate(), "t", []string{"d"}, "AGENTS.md", "d/AGENTS.md")
		p.want(f, p.gate(), "t", []string{target}, "d/d/AGENTS.md", "d/d/d/AGENTS.md", "d/d/d/d/AGENTS.md") // those before take no room
	})
	t.Run("files", func(t *testing.T) {
		p := newProject(t, nil)
		var targets []string
		for i := range 80 {
			p.write(fmt.Sprintf("d%02d/AGENTS.md", i), "x")
			targets = append(targets, fmt.Sprintf("d%02d/x", i))
		}
		f := p.finder()
		for i, want := range []int{32, 32, 16, 0} {
			list, err := f.For(t.Context(), p.gate(), "s", targets)
			if len(list) != want || err != nil || want > 0 && list[0].Path != fmt.Sprintf("d%02d/AGENTS.md", i*32) {
				t.Errorf("call %d: got %q, %v", i, paths(list), err)
			}
		}
	})
}

// TestLaw30ManyTargets: what a call may cost is bounded.
func TestLaw30ManyTargets(t *testing.T) {
	p := newProject(t, map[string]string{"AGENTS.md": "root", "d0/AGENTS.md": "first"})
	deep := strings.Repeat("a/", MaxDepth)
	p.write(deep+"AGENTS.md", "deep")
	p.write(deep+"b/AGENTS.md", "too deep")
	var targets []string
	for i := range 10_000 {
		targets = append(targets, fmt.Sprintf("d%d/%s/x", i, strings.Repeat("y/", 20)))
	}
	f := p.finder()
	if got := len(f.directories(targets)); got != MaxDirectories {
		t.Errorf("got %d directories, want %d", got, MaxDirectories)
	}
	p.want(f, p.gate(), "s", targets, "AGENTS.md", "d0/AGENTS.md")
	p.want(f, p.gate(), "s", []string{deep + "b/c"}, deep+"AGENTS.md")
	p.want(f, p.gate(), "s", []string{strings.Repeat("z/", 2047)})
}

// TestLaw30StateFails: what is not known is not given, and the error says so; the
// next call is given it.
func TestLaw30StateFails(t *testing.T) {
	p := newProject(t, tree())
	broken := errors.New("state is broken")
	fails := true
	f := New(Options{Files: p.files, Names: []string{"AGENTS.md"}, Seen: func(ctx context.Context, session string, paths []string) ([]string, error) {
		if fails {
			return nil, broken
		}
		return p.seen(ctx, session, paths)
	}})
	if list, err := f.For(t.Context(), p.gate(), "s", []string{"a"}); len(list) != 0 || !errors.Is(err, broken) {
		t.Errorf("got %q, %v", paths(list), err)
	}
	fails = false
	p.want(f, p.gate(), "s", []string{"a"}, "AGENTS.md", "a/AGENTS.md")
}

// TestLaw14CancelledCallIsGivenNothing: the cause, and the next call is given it.
func TestLaw14CancelledCallIsGivenNothing(t *testing.T) {
	p := newProject(t, tree())
	gone := errors.New("nobody waits any more")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	f := p.finder()
	if list, err := f.For(ctx, p.gate(), "s", []string{"a"}); len(list) != 0 || !errors.Is(err, gone) {
		t.Errorf("got %q, %v", paths(list), err)
	}
	p.want(f, p.gate(), "s", []string{"a"}, "AGENTS.md", "a/AGENTS.md")
}

// TestRootIsGone: nothing is given, and neither of a filesystem that is closed.
func TestRootIsGone(t *testing.T) {
	p := newProject(t, tree())
	if err := os.RemoveAll(p.real); err != nil {
		t.Fatal(err)
	}
	p.want(p.finder(), p.gate(), "s", []string{"a"})

	p = newProject(t, tree())
	if err := p.files.Close(); err != nil {
		t.Fatal(err)
	}
	p.want(p.finder(), p.gate(), "s", []string{"a"})
}

// TestMemoryIsBounded, and the state still knows.
func TestMemoryIsBounded(t *testing.T) {
	p := newProject(t, tree())
	f := p.finder()
	p.want(f, p.gate(), "s", []string{"a"}, "AGENTS.md", "a/AGENTS.md")
	for i := range 2 * remembered {
		f.remember(given{"other", fmt.Sprint(i)})
	}
	if len(f.given) > remembered {
		t.Errorf("%d files are remembered", len(f.given))
	}
	p.want(f, p.gate(), "s", []string{"a"})
}

func BenchmarkFor(b *testing.B) {
	root := b.TempDir()
	dir := filepath.Join(root, "a", "b", "c")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	files, err := filesystem.Open(root, filesystem.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer files.Close()
	gate := permission.New(&permission.Policy{Defaults: permission.Defaults()}, nil).Gate(permission.Caller{Builtin: true})
	f := New(Options{Files: files, Names: []string{"AGENTS.md"}})
	run := func(b *testing.B) {
		for b.Loop() {
			if _, err := f.For(b.Context(), gate, "s", []string{"a/b/c/main.go"}); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("no file", run)
	for _, d := range []string{root, dir} {
		if err := os.WriteFile(filepath.Join(d, "AGENTS.md"), []byte("x\n"), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("given before", run)
}
