package config

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/permission"
)

// world is a home directory with a project in a repository beside it, and what is
// trusted.
type world struct {
	t        *testing.T
	home     string
	project  string
	dir      string // where the work is
	file     string // as -c names it
	env      map[string]string
	asked    []string // variables that were looked at
	trusted  map[string]string
	builtins []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	base := resolve(t.TempDir())
	w := &world{t: t, home: filepath.Join(base, "home"), project: filepath.Join(base, "project"), trusted: map[string]string{}, builtins: []string{"process", "filesystem"}}
	w.dir = w.project
	w.env = map[string]string{"HOME": w.home}
	for _, dir := range []string{w.home, filepath.Join(w.project, ".git")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// write writes a file, its path relative to the project, and returns its path.
func (w *world) write(path, text string) string {
	w.t.Helper()
	if !filepath.IsAbs(path) {
		path = filepath.Join(w.project, path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// writeUser writes the user's own file.
func (w *world) writeUser(text string) {
	w.t.Helper()
	w.write(w.home+"/.config/toolhost/config.yaml", text)
}

// trust trusts a file as `toolhost trust` does.
func (w *world) trust(path string) {
	w.t.Helper()
	place, err := Place(path)
	if err != nil {
		w.t.Fatal(err)
	}
	w.trusted[place] = digestOf(w.t, path)
}

func digestOf(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

func (w *world) load() (*Config, error) {
	return Load(w.t.Context(), Options{
		Dir: w.dir, File: w.file, Builtins: w.builtins,
		TrustedDigest: func(_ context.Context, path string) (string, error) { return w.trusted[path], nil },
		Getenv:        func(name string) string { w.asked = append(w.asked, name); return w.env[name] },
	})
}

func (w *world) mustLoad() *Config {
	w.t.Helper()
	c, err := w.load()
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// loadProject writes, trusts and loads a project's file.
func (w *world) loadProject(text string) *Config {
	w.t.Helper()
	w.trust(w.write(FileName, text))
	return w.mustLoad()
}

// wantPlugins compares plugins without their positions.
func wantPlugins(t *testing.T, got []Plugin, want ...Plugin) {
	t.Helper()
	got = slices.Clone(got)
	for i := range got {
		got[i].Source = Position{}
	}
	if len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Errorf("plugins:\ngot  %+v\nwant %+v", got, want)
	}
}

// wantVerdicts holds the policy against "action resource": verdict.
func wantVerdicts(t *testing.T, p *permission.Policy, want map[string]string) {
	t.Helper()
	for question, verdict := range want {
		action, resource, _ := strings.Cut(question, " ")
		if got := p.Evaluate(action, resource, "main").String(); got != verdict {
			t.Errorf("%s: got %q, want %q", question, got, verdict)
		}
	}
}

func builtin(name string) Plugin { return Plugin{Name: name, Builtin: name} }

const digestA = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

// exampleFile is the example of the documentation.
const exampleFile = `# toolhost.yaml of a project: one Location, whose root is this file's directory
plugins:
  filesystem: {}                      # a built-in (no command)
  process: {settings: {shell: /bin/bash, timeout: 2m}}
  fs2: {builtin: filesystem}          # a built-in under another name
  weather:
    command: [./bin/weather, --fast, --fast]
    sha256: ` + digestA + `
    files: {lib/b.py: ` + digestA + `, ./lib/a.py: ` + digestA + `}
    grants: [filesystem:read, permission]
    settings: {units: metric, big: 9007199254740993, nested: {z: [1, {b: null, a: "x"}], a: 1.50}}
    env: [WEATHER_TOKEN]
    override: [forecast]
permissions:                          # ordered; the last match in this file wins
  - {action: read, resource: "*", effect: allow}
  - {action: edit, resource: "*.env", effect: deny, reason: secrets}
  - action: weather/*
    resource: "*"
    effect: allow
    agent: helper
`

func TestLoadExample(t *testing.T) {
	w := newWorld(t)
	c := w.loadProject(exampleFile)
	if len(c.Locations) != 1 || len(c.Notices) != 0 {
		t.Fatalf("got %d Locations, notices %q", len(c.Locations), c.Notices)
	}
	l := c.Locations[0]
	if l.Name != DefaultLocation || l.Root != w.project {
		t.Errorf("got Location %s at %s", l.Name, l.Root)
	}
	fs2, process := builtin("filesystem"), builtin("process")
	fs2.Name = "fs2"
	process.Settings = json.RawMessage(`{"shell":"/bin/bash","timeout":"2m"}`)
	wantPlugins(t, l.Plugins, builtin("filesystem"), fs2, process, Plugin{
		Name:     "weather",
		Command:  []string{w.project + "/bin/weather", "--fast", "--fast"},
		SHA256:   digestA,
		Files:    []PinnedFile{{w.project + "/lib/a.py", digestA}, {w.project + "/lib/b.py", digestA}},
		Grants:   []service.Grant{service.GrantFileSystemRead, service.GrantPermission},
		Settings: json.RawMessage(`{"big":9007199254740993,"nested":{"a":1.50,"z":[1,{"b":null,"a":"x"}]},"units":"metric"}`),
		Env:      []string{"WEATHER_TOKEN"},
		Override: []string{"forecast"},
	})
	if got, want := l.Plugins[3].Source.String(), filepath.Join(w.project, FileName)+":6:3"; got != want {
		t.Errorf("source: got %s, want %s", got, want)
	}
	wantVerdicts(t, l.Policy, map[string]string{
		"read .env":          "allowed by toolhost.yaml:15",
		"edit a/b.env":       "denied by toolhost.yaml:16: secrets",
		"edit a":             "asked for: no rule speaks of it",
		"list a":             "allowed by default",
		"weather/forecast *": "asked for: no rule speaks of it",
	})
	if got := l.Policy.Evaluate("weather/forecast", "*", "helper"); got.Effect != permission.Allow || got.Rule.Source != "toolhost.yaml:17" {
		t.Errorf("the helper: got %s", got)
	}
	path := filepath.Join(w.project, FileName)
	if want := []File{{Path: path, Digest: digestOf(t, path), Role: ProjectFile, Trusted: true}}; !slices.Equal(c.Files, want) {
		t.Errorf("files: got %+v, want %+v", c.Files, want)
	}
}

func TestLoadWithoutFiles(t *testing.T) {
	w := newWorld(t)
	c := w.mustLoad()
	l := c.Locations[0]
	if len(c.Locations) != 1 || l.Name != DefaultLocation || l.Root != w.project || len(c.Files) != 0 || len(c.Notices) != 0 {
		t.Errorf("got %+v", c)
	}
	wantPlugins(t, l.Plugins, builtin("filesystem"))
	wantVerdicts(t, l.Policy, map[string]string{
		"read a": "allowed by default", "read .env": "asked for by default: may hold secrets", "edit a": "asked for: no rule speaks of it",
	})

	w.builtins = nil // an embedding program without built-ins
	wantPlugins(t, w.mustLoad().Locations[0].Plugins)
}

func TestLoadSeveralLocations(t *testing.T) {
	w := newWorld(t)
	c := w.loadProject(`
plugins: {filesystem: {}, process: {settings: {a: 1, b: 1}}}
permissions:
  - {action: edit, resource: "*", effect: deny, reason: top}
  - {action: "w/*", resource: "*", effect: deny}
locations:
  web/app 2:
    root: web
    plugins: {w: {command: [../w]}, process: {settings: {b: 2}}}
    permissions: [{action: edit, resource: "dist/*", effect: allow}]
  api: {root: ~/api}
  up: {root: ../up/}
`)
	var names, roots []string
	for _, l := range c.Locations {
		names, roots = append(names, l.Name), append(roots, l.Root)
	}
	base := filepath.Dir(w.project)
	if want := []string{"web/app 2", "api", "up"}; !slices.Equal(names, want) {
		t.Errorf("names: got %q, want %q", names, want)
	}
	if want := []string{w.project + "/web", w.home + "/api", base + "/up"}; !slices.Equal(roots, want) {
		t.Errorf("roots: got %q, want %q", roots, want)
	}
	process := builtin("process")
	process.Settings = json.RawMessage(`{"a":1,"b":2}`)
	wantPlugins(t, c.Locations[0].Plugins, builtin("filesystem"), process, Plugin{Name: "w", Command: []string{base + "/w"}})
	process.Settings = json.RawMessage(`{"a":1,"b":1}`)
	wantPlugins(t, c.Locations[1].Plugins, builtin("filesystem"), process)
	wantVerdicts(t, c.Locations[0].Policy, map[string]string{
		"edit a": "denied by toolhost.yaml:4: top", "edit dist/a": "allowed by toolhost.yaml:10", // one file, one list
	})
	wantVerdicts(t, c.Locations[1].Policy, map[string]string{"edit dist/a": "denied by toolhost.yaml:4: top"})

	for _, q := range []struct{ dir, name, want string }{
		{w.project, "api", "api"},
		{w.project + "/web/src", "", "web/app 2"},
		{w.project, "apj", `location "apj" is not configured; there is web/app 2, api, up (did you mean "api"?)`},
		{w.project, "", w.project + ` is in none of the Locations web/app 2, api, up: name one`},
		{w.project + "/website", "", w.project + `/website is in none of the Locations web/app 2, api, up: name one`},
	} {
		c.dir = q.dir
		l, err := c.Location(q.name)
		switch {
		case err != nil:
			if err.Error() != q.want {
				t.Errorf("%+v: got %v", q, err)
			}
		case l.Name != q.want:
			t.Errorf("%+v: got %s", q, l.Name)
		}
	}
}

// TestLocationNested: of several Locations around the working directory the
// innermost is meant, whichever way the directory is spelled.
func TestLocationNested(t *testing.T) {
	w := newWorld(t)
	c := w.loadProject("locations: {inner: {root: a/b}, outer: {root: .}, other: {root: c}}\n")
	if err := os.MkdirAll(w.project+"/a/b/src", 0o700); err != nil {
		t.Fatal(err)
	}
	alias := filepath.Join(filepath.Dir(w.project), "alias")
	if err := os.Symlink(w.project, alias); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		w.project: "outer", w.project + "/a": "outer", w.project + "/a/b": "inner", alias + "/a/b/src": "inner", alias: "outer",
	} {
		c.dir = dir
		if l, err := c.Location(""); err != nil || l.Name != want {
			t.Errorf("%s: got %v, %v, want %s", dir, l, err, want)
		}
	}
	single := w.loadProject("")
	single.dir = "/elsewhere"
	if l, err := single.Location(""); err != nil || l.Name != DefaultLocation {
		t.Errorf("the only Location: got %v, %v", l, err)
	}
}

// TestDeterminism: the order of maps changes nothing.
func TestDeterminism(t *testing.T) {
	w := newWorld(t)
	w.writeUser("plugins: {z: {command: [~/z]}, weather: {command: [~/w], settings: {q: 1}}}\npermissions: [{action: \"z/*\", resource: \"*\", effect: ask}]\n")
	first := w.loadProject(exampleFile)
	for range 200 {
		if next := w.mustLoad(); !reflect.DeepEqual(next, first) {
			t.Fatalf("got  %+v\nwant %+v", next, first)
		}
	}
}
