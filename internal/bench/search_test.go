package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/build"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/plugin/client"
	"github.com/toolhost/toolhost/sandbox"
	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// The programs that searching is compared with.
const (
	ripgrep = "rg"
	git     = "git"
)

// asRipgrep is how ripgrep is called: by the rules that hold in a tree, whoever's machine it is.
func asRipgrep(args ...string) []string {
	return append([]string{ripgrep, "--no-config", "--no-ignore-global", "--no-ignore-parent", "--no-require-git"}, args...)
}

// A search is one that all sides do.
type search struct {
	name   string
	query  service.GrepQuery
	rg     []string // how ripgrep is asked for the same
	git    []string // and git grep; it tells no other words from ours with \w
	target float64
}

func searches() []search {
	return []search{
		{
			"a literal", service.GrepQuery{Pattern: "ErrUnexpectedEOF", Literal: true},
			[]string{"-F", "ErrUnexpectedEOF"}, []string{"-F", "ErrUnexpectedEOF"}, 1.3,
		},
		{
			"with a literal", service.GrepQuery{Pattern: `func\s+\w+Read\(`},
			[]string{`(?-u)func\s+\w+Read\(`}, []string{"-E", `func\s+\w+Read\(`}, 1.3,
		},
		{
			"a literal, ignoring case", service.GrepQuery{Pattern: "errunexpectedeof", Literal: true, IgnoreCase: true},
			[]string{"-i", "-F", "errunexpectedeof"}, []string{"-i", "-F", "errunexpectedeof"}, 1.3,
		},
		{
			"no literal", service.GrepQuery{Pattern: `[0-9a-f]{40}`},
			[]string{`[0-9a-f]{40}`}, []string{"-E", `[0-9a-f]{40}`}, 2,
		},
	}
}

// The trees that are searched.
var treeNames = []string{"Go's source", "a larger tree"}

// A forest is where the trees are, by name.
type forest map[string]string

// realTrees are the source of the Go distribution and TOOLHOST_BENCH_TREE, or what the module cache has of github.com.
func realTrees(testing.TB) forest {
	larger := os.Getenv("TOOLHOST_BENCH_TREE")
	if larger == "" {
		modules, err := exec.Command("go", "env", "GOMODCACHE").Output()
		if err == nil {
			larger = filepath.Join(strings.TrimSpace(string(modules)), "github.com")
		}
	}
	return forest{treeNames[0]: filepath.Join(build.Default.GOROOT, "src"), treeNames[1]: larger}
}

// smallTrees are for a test of the measurement.
func smallTrees(tb testing.TB) forest {
	tb.Helper()
	dir := tb.TempDir()
	for i := range 30 {
		text := fmt.Sprintf("package p%d\n\n// io.ErrUnexpectedEOF %040x\nfunc myRead() {}\n", i, i)
		for name, text := range map[string]string{"f.go": text, "notes.md": text, ".hidden": text, ".gitignore": "*.log\n", "x.log": text} {
			path := filepath.Join(dir, fmt.Sprintf("d%d", i%7), fmt.Sprint(i), name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				tb.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return forest{treeNames[0]: dir, treeNames[1]: dir}
}

func greps(tree string, s search) (whole, engine, other line) {
	what := "grep in " + tree + ", " + s.name
	metric := strings.ReplaceAll(what, " ", "-")
	return line{what: what, base: "ripgrep", unit: "ms", metric: metric + "/rg", target: s.target},
		line{what: what + ": the engine alone", base: "ripgrep", unit: "ms", metric: metric + "-engine/rg", target: s.target},
		line{what: what, base: "git grep", unit: "ms", metric: metric + "/git"}
}

func finds(tree, what string) (whole, engine line) {
	what += " in " + tree
	metric := strings.ReplaceAll(what, " ", "-")
	return line{what: what, base: "rg --files", unit: "ms", metric: metric + "/rg", target: 0.8},
		line{what: what + ": the engine alone", base: "rg --files", unit: "ms", metric: metric + "-engine/rg", target: 0.8}
}

// searchLines are the lines of the table about searching.
func searchLines() []line {
	var all []line
	for _, tree := range treeNames {
		for _, s := range searches() {
			whole, engine, other := greps(tree, s)
			all = append(all, whole, engine, other)
		}
		for _, what := range []string{"glob", "list"} {
			whole, engine := finds(tree, what)
			all = append(all, whole, engine)
		}
	}
	return all
}

// missing says which program is not there to compare with.
func missing(tb testing.TB) bool {
	tb.Helper()
	for _, program := range []string{ripgrep, git} {
		if _, err := exec.LookPath(program); err != nil {
			tb.Logf("searching is not measured: %v", err)
			return true
		}
	}
	return false
}

// measureSearch measures searching: by a call of the built-in plugin's tool in a Location, by the engine alone, and by
// other programs. All have to find the same.
func measureSearch(tb testing.TB, n size, t *table) {
	if missing(tb) {
		return
	}
	trees := n.trees(tb)
	for _, name := range treeNames {
		dir := trees[name]
		if _, err := os.Stat(dir); dir == "" || err != nil {
			tb.Logf("%s is not measured: %v", name, err)
			continue
		}
		o := openSearched(tb, dir)
		rounds := n.searches
		if name != treeNames[0] {
			rounds = (rounds + 2) / 3
		}
		for _, s := range searches() {
			o.measureGrep(tb, name, rounds, s, t)
		}
		o.measureFinding(tb, name, rounds, t)
		o.close(tb)
	}
}

// searched is a tree that is searched in all ways.
type searched struct {
	dir      string
	life     *scope.Scope
	location *location.Location
	files    *filesystem.FileSystem
	root     *filesystem.Root
}

func openSearched(tb testing.TB, dir string) *searched {
	tb.Helper()
	o := &searched{dir: dir, life: scope.New(context.Background(), "search")}
	runDir, err := client.OpenRunDir(o.life)
	if err != nil {
		tb.Fatal(err)
	}
	o.location, err = location.Open(context.Background(), o.life, config.Location{
		Name: "tree", Root: dir, Plugins: []config.Plugin{{Name: "filesystem", Builtin: "filesystem"}}, Policy: readingPolicy(tb),
	}, location.Options{
		Launcher: sandbox.Launcher{Path: self, Args: []string{reaperRole}},
		Tier:     func(context.Context) sandbox.Finding { return sandbox.Finding{Tier: sandbox.Strict} },
		Programs: &sandbox.Programs{},
		RunDir:   runDir,
		Builtins: map[string][]string{"filesystem": {self, filesRole}},
		Log:      slog.New(slog.DiscardHandler),
	})
	if err != nil {
		tb.Fatal(err)
	}
	if o.files, err = filesystem.Open(dir, filesystem.Options{}); err != nil {
		tb.Fatal(err)
	}
	if o.root, err = o.files.ResolveRoot(context.Background(), filesystem.Caller{Gate: open{}}, "."); err != nil {
		tb.Fatal(err)
	}
	return o
}

func (o *searched) close(tb testing.TB) {
	tb.Helper()
	for _, err := range []error{o.files.Close(), o.location.Close(context.Background()), o.life.Close(context.Background())} {
		if err != nil {
			tb.Error(err)
		}
	}
}

// open is a gate that allows everything.
type open struct{}

func (open) Permit(context.Context, string, ...string) error { return nil }
func (open) Allows(string, string) bool                      { return true }
func (open) Denies(string, string) bool                      { return false }

// readingPolicy allows what the built-in plugin asks for, by rules.
func readingPolicy(tb testing.TB) *permission.Policy {
	tb.Helper()
	var rules []permission.Rule
	for _, name := range []string{service.ActionRead, service.ActionList, service.ActionGlob, service.ActionGrep} {
		action, err := permission.ParseAction(name, nil)
		if err != nil {
			tb.Fatal(err)
		}
		resource, err := permission.ParseResource("*", action)
		if err != nil {
			tb.Fatal(err)
		}
		rules = append(rules, permission.Rule{Action: action, Resource: resource, Effect: permission.Allow, Source: "bench"})
	}
	return &permission.Policy{Lists: []permission.List{{Rules: rules}}, Defaults: permission.Defaults()}
}

// call runs a tool, from the capture to the settlement, and gives its structured value.
func (o *searched) call(tb testing.TB, name string, input, output any) {
	tb.Helper()
	raw, err := json.Marshal(input)
	if err != nil {
		tb.Fatal(err)
	}
	settlement, err := o.location.Capture().Call(context.Background(), registry.Request{
		Identity: tool.Identity{Session: "session", Agent: "agent", Message: "message", Call: "call"}, Name: name, Input: raw,
	})
	if err != nil || settlement.Status != tool.Completed {
		tb.Fatalf("%s %s: %v: %s %v", name, raw, err, settlement.Status, settlement.Error)
	}
	if output == nil {
		return
	}
	if err := json.Unmarshal(settlement.Structured, output); err != nil {
		tb.Fatal(err)
	}
}

// run runs a program in the tree and gives its lines.
func (o *searched) run(tb testing.TB, args []string) []string {
	tb.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = o.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CEILING_DIRECTORIES="+filepath.Dir(o.dir))
	out, err := cmd.Output()
	if err != nil && cmd.ProcessState.ExitCode() != 1 {
		tb.Fatalf("%v: %v", args, err)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' })
}

func (o *searched) timed(tb testing.TB, args []string) func() float64 {
	return func() float64 { return milliseconds(func() { o.run(tb, args) }) }
}

func (o *searched) measureGrep(tb testing.TB, tree string, rounds int, s search, t *table) {
	tb.Helper()
	rg := asRipgrep(append([]string{"--no-heading", "--line-number", "-e"}, s.rg...)...)
	if len(s.rg) > 1 {
		rg = asRipgrep(append([]string{"--no-heading", "--line-number"}, s.rg...)...)
	}
	other := append([]string{git, "grep", "--no-index", "--exclude-standard", "-I", "--line-number"}, s.git...)
	s.query.Limit = service.MaxEntries
	o.compareGrep(tb, s, rg, other)
	figures := interleave(rounds,
		func() float64 {
			return milliseconds(func() { o.call(tb, "grep", inputOf(s.query), nil) })
		},
		func() float64 {
			return milliseconds(func() {
				if _, err := o.root.Grep(context.Background(), s.query); err != nil {
					tb.Fatal(err)
				}
			})
		},
		o.timed(tb, rg), o.timed(tb, other),
	)
	whole, engine, against := greps(tree, s)
	t.add(whole, figures[0], figures[2])
	t.add(engine, figures[1], figures[2])
	t.add(against, figures[0], figures[3])
}

func inputOf(q service.GrepQuery) map[string]any {
	return map[string]any{"pattern": q.Pattern, "literal": q.Literal, "ignore_case": q.IgnoreCase, "limit": q.Limit}
}

// compareGrep checks that all sides find the same lines: the engine those of ripgrep with their text, the call with
// their numbers, and git grep those in what is not hidden.
func (o *searched) compareGrep(tb testing.TB, s search, rg, other []string) {
	tb.Helper()
	want := slices.DeleteFunc(o.run(tb, rg), isNoLine)
	slices.Sort(want)
	got, err := o.root.Grep(context.Background(), s.query)
	if err != nil {
		tb.Fatal(err)
	}
	if got.Truncated {
		tb.Fatalf("%s: too many lines match to compare them", s.name)
	}
	var lines, places []string
	for _, m := range got.Matches {
		places = append(places, fmt.Sprintf("%s:%d", m.Path, m.Line))
		if m.CutBefore+m.CutAfter == 0 {
			lines = append(lines, fmt.Sprintf("%s:%d:%s", m.Path, m.Line, m.Text))
		}
	}
	slices.Sort(lines)
	slices.Sort(places)
	o.equal(tb, s.name+": places of the engine and ripgrep", places, placesOf(want))
	texts := map[string]bool{}
	for _, l := range want {
		texts[strings.TrimSuffix(strings.ToValidUTF8(l, "\ufffd"), "\r")] = true
	}
	for _, l := range lines {
		if !texts[l] && !strings.ContainsRune(l, '\ufffd') {
			tb.Errorf("%s: ripgrep has no line %q", s.name, l)
		}
	}
	var called struct {
		Matches, Shown int
		Files          []struct {
			Path  string
			Lines []struct {
				Line    int
				Context bool
			}
		}
	}
	o.call(tb, "grep", inputOf(s.query), &called)
	var told []string // the first ones, in the order of paths
	for _, f := range called.Files {
		for _, l := range f.Lines {
			if !l.Context {
				told = append(told, fmt.Sprintf("%s:%d", f.Path, l.Line))
			}
		}
	}
	if called.Matches != len(places) || called.Shown != len(told) {
		tb.Errorf("%s: the call has %d matches and shows %d, of which it gives %d; the engine has %d", s.name, called.Matches, called.Shown, len(told), len(places))
	}
	slices.Sort(told)
	o.equal(tb, s.name+": places of the call that the engine has", told, slices.DeleteFunc(slices.Clone(places), func(place string) bool {
		_, ok := slices.BinarySearch(told, place)
		return !ok
	}))
	byGit := slices.DeleteFunc(o.run(tb, other), func(l string) bool { return isNoLine(l) || isHidden(l) })
	o.equal(tb, s.name+": places of the engine and git grep", slices.DeleteFunc(places, isHidden), placesOf(byGit))
}

// isNoLine says whether a line of output is about a file and not from one.
func isNoLine(l string) bool {
	parts := strings.SplitN(l, ":", 3)
	return len(parts) < 3 || strings.Trim(parts[1], "0123456789") != ""
}

func isHidden(l string) bool {
	path, _, _ := strings.Cut(l, ":")
	return strings.HasPrefix(path, ".") || strings.Contains(path, "/.")
}

func placesOf(lines []string) []string {
	places := make([]string, len(lines))
	for i, l := range lines {
		parts := strings.SplitN(l, ":", 3)
		places[i] = parts[0] + ":" + parts[1]
	}
	slices.Sort(places)
	return places
}

// equal checks that two sides have found the same. What is only in one of them may be in a file with a zero byte: how far
// such a file is text each program has its own opinion.
func (o *searched) equal(tb testing.TB, what string, got, want []string) {
	tb.Helper()
	if slices.Equal(got, want) {
		return
	}
	only := func(a, b []string) []string {
		has := map[string]bool{}
		for _, s := range b {
			has[s] = true
		}
		return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return has[s] || o.isBinary(s) })
	}
	here, there := only(got, want), only(want, got)
	if len(here)+len(there) > 0 {
		tb.Errorf("%s: %d only among the first %q, %d only among the second %q", what, len(here), here[:min(len(here), 5)], len(there), there[:min(len(there), 5)])
	}
}

// isBinary says whether the file of a place has a zero byte.
func (o *searched) isBinary(place string) bool {
	path, _, _ := strings.Cut(place, ":")
	content, err := os.ReadFile(filepath.Join(o.dir, path))
	return err == nil && bytes.IndexByte(content, 0) >= 0
}

// measureFinding measures glob, of a pattern that looks at every name and matches few, and list, of as many names as
// are given, against ripgrep's list of all files.
func (o *searched) measureFinding(tb testing.TB, tree string, rounds int, t *table) {
	tb.Helper()
	const pattern = "**/*[dD]oc*.go"
	files := o.run(tb, asRipgrep("--files"))
	want := slices.DeleteFunc(slices.Clone(files), func(path string) bool {
		name := filepath.Base(path)
		return !strings.HasSuffix(name, ".go") || !strings.Contains(name, "doc") && !strings.Contains(name, "Doc")
	})
	slices.Sort(want)
	want = want[:min(len(want), service.DefaultEntries)]
	var called struct{ Paths []string }
	o.call(tb, "glob", map[string]any{"pattern": pattern}, &called)
	o.equal(tb, "glob: paths of the call and ripgrep", called.Paths, want)
	o.compareList(tb, files)
	all := asRipgrep("--files")
	query := service.ListQuery{Depth: service.MaxDepth, Limit: service.MaxEntries}
	figures := interleave(3*rounds,
		func() float64 {
			return milliseconds(func() { o.call(tb, "glob", map[string]any{"pattern": pattern}, nil) })
		},
		func() float64 {
			return milliseconds(func() {
				if _, err := o.root.Glob(context.Background(), service.GlobQuery{Pattern: pattern, Limit: service.MaxEntries}); err != nil {
					tb.Fatal(err)
				}
			})
		},
		func() float64 {
			return milliseconds(func() { o.call(tb, "list", map[string]any{"depth": service.MaxDepth}, nil) })
		},
		func() float64 {
			return milliseconds(func() {
				if _, err := o.root.List(context.Background(), query); err != nil {
					tb.Fatal(err)
				}
			})
		},
		o.timed(tb, all),
	)
	whole, engine := finds(tree, "glob")
	t.add(whole, figures[0], figures[4])
	t.add(engine, figures[1], figures[4])
	whole, engine = finds(tree, "list")
	t.add(whole, figures[2], figures[4])
	t.add(engine, figures[3], figures[4])
}

// compareList checks that what ripgrep finds is listed, as far as the listing goes, each file with its size.
func (o *searched) compareList(tb testing.TB, files []string) {
	tb.Helper()
	listing, err := o.root.List(context.Background(), service.ListQuery{Depth: service.MaxDepth, Limit: service.MaxEntries})
	if err != nil {
		tb.Fatal(err)
	}
	sizes := map[string]int64{}
	for _, e := range listing.Entries {
		sizes[e.Path] = e.Size
	}
	key := func(path string) string { return strings.ReplaceAll(path, "/", "\x00") } // sorts as list does
	last := key(listing.Entries[len(listing.Entries)-1].Path)
	for _, path := range files {
		if listing.Truncated && key(path) > last || strings.Count(path, "/") >= service.MaxDepth {
			continue
		}
		info, err := os.Lstat(filepath.Join(o.dir, path))
		if err != nil {
			tb.Fatal(err)
		}
		if size, ok := sizes[path]; !ok || size != info.Size() {
			tb.Errorf("%s is not listed with its size: %v, %d", path, ok, size)
		}
	}
}
