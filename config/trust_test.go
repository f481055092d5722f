package config

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/service/permission"
)

// generous is a project's file that grants much and denies a little.
const generous = `
plugins: {evil: {command: [./evil], grants: [filesystem:read], env: [TOKEN]}}
permissions:
  - {action: "*", resource: "*", effect: allow}
  - {action: read, resource: "secret/*", effect: deny, reason: hands off}
  - {action: read, resource: "secret/README", effect: allow}
  - {action: read, resource: "asked", effect: ask}
`

// TestLaw40RepositoryGrantsItselfNothing. Seen to fail with an untrusted file
// taken for a trusted one, without the lists of the denies, and with the digest
// not compared.
func TestLaw40RepositoryGrantsItselfNothing(t *testing.T) {
	w := newWorld(t)
	path := w.write(FileName, generous)

	untrusted := func(notice string) {
		t.Helper()
		c := w.mustLoad()
		wantPlugins(t, c.Locations[0].Plugins, builtin("filesystem"))
		wantVerdicts(t, c.Locations[0].Policy, map[string]string{
			"edit a":             "asked for: no rule speaks of it",
			"read .env":          "asked for by default: may hold secrets",
			"read secret/x":      "denied by toolhost.yaml:5: hands off",
			"read secret/README": "allowed by default", // its own file denies it not
			"read asked":         "allowed by default",
		})
		if want := []string{notice}; !slices.Equal(c.Notices, want) {
			t.Errorf("notices:\ngot  %q\nwant %q", c.Notices, want)
		}
		if len(c.Files) != 1 || c.Files[0].Trusted || c.Files[0].Path != path || c.Files[0].Role != ProjectFile {
			t.Errorf("files: got %+v", c.Files)
		}
	}
	trusted := func() {
		t.Helper()
		c := w.mustLoad()
		wantPlugins(t, c.Locations[0].Plugins, Plugin{
			Name: "evil", Command: []string{filepath.Join(w.project, "evil")}, Grants: c.Locations[0].Plugins[0].Grants, Env: []string{"TOKEN"},
		})
		wantVerdicts(t, c.Locations[0].Policy, map[string]string{
			"edit a": "allowed by toolhost.yaml:4", "read secret/x": "denied by toolhost.yaml:5: hands off", "read secret/README": "allowed by toolhost.yaml:6",
		})
		if len(c.Notices) != 0 || !c.Files[0].Trusted {
			t.Errorf("notices %q, files %+v", c.Notices, c.Files)
		}
	}

	untrusted("toolhost.yaml is not trusted: only its denies hold; to use it, run: toolhost trust " + path)
	w.trust(path)
	trusted()
	w.write(FileName, generous+"# changed\n")
	untrusted("toolhost.yaml has changed since it was trusted: only its denies hold, then and now; to see what changed, run: toolhost trust --show " + path + "; to use it, run: toolhost trust " + path)
	w.file = path // -c
	trusted()
	w.file, w.env["TOOLHOST_CONFIG"] = "", FileName
	trusted()
}

// TestLaw40NamedFileReplacesTheProjects: -c beats TOOLHOST_CONFIG, either is in
// place of the project's file, and its directory is the root.
func TestLaw40NamedFileReplacesTheProjects(t *testing.T) {
	w := newWorld(t)
	w.write(FileName, "not: valid\n")
	w.write("conf/a.yaml", "plugins: {process: {}}\n")
	w.write("conf/b.yaml", "plugins: {filesystem: {}}\n")
	w.env["TOOLHOST_CONFIG"] = "conf/b.yaml"
	c := w.mustLoad()
	wantPlugins(t, c.Locations[0].Plugins, builtin("filesystem"))
	w.file = "conf/a.yaml"
	c = w.mustLoad()
	wantPlugins(t, c.Locations[0].Plugins, builtin("process"))
	if got, want := c.Locations[0].Root, filepath.Join(w.project, "conf"); got != want {
		t.Errorf("root: got %s, want %s", got, want)
	}
	if len(c.Files) != 1 || c.Files[0].Role != NamedFile || !c.Files[0].Trusted {
		t.Errorf("files: got %+v", c.Files)
	}
}

// TestLaw40DeniesKeepTheirRoot: wherever below the file the work is, the same
// files are denied. Seen to fail without the lists' base.
func TestLaw40DeniesKeepTheirRoot(t *testing.T) {
	rules := `{action: read, resource: "sub/secret/*", effect: deny}`
	for _, c := range []struct{ name, text string }{
		{"single", "permissions: [" + rules + "]\n"},
		{"in the Location around", "locations: {other: {root: other}, all: {root: ., permissions: [" + rules + "]}}\n"},
		{"in a Location below", `locations: {s: {root: sub/secret, permissions: [{action: read, resource: "*", effect: deny}]}}` + "\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.write(FileName, c.text)
			for dir, resources := range map[string][2]string{
				".":          {"sub/secret/x", "secret/x"},
				"sub":        {"secret/x", "sub/secret/x"},
				"sub/secret": {"x", ""},
			} {
				w.dir = filepath.Join(w.project, dir)
				if err := os.MkdirAll(w.dir, 0o700); err != nil {
					t.Fatal(err)
				}
				c := w.mustLoad()
				l := c.Locations[0]
				if l.Root != w.dir {
					t.Errorf("%s: root is %s", dir, l.Root)
				}
				if got := l.Policy.Evaluate("read", resources[0], ""); got.Effect != permission.Deny {
					t.Errorf("%s: read of %s: got %s, want denied", dir, resources[0], got)
				}
				if resources[1] != "" {
					if got := l.Policy.Evaluate("read", resources[1], ""); got.Effect != permission.Allow {
						t.Errorf("%s: read of %s: got %s, want allowed", dir, resources[1], got)
					}
				}
			}
		})
	}
	t.Run("at the top, for every root", func(t *testing.T) {
		w := newWorld(t)
		w.write(FileName, "permissions: [{action: read, resource: k, effect: deny}]\nlocations: {a: {root: a}}\n")
		wantVerdicts(t, w.mustLoad().Locations[0].Policy, map[string]string{
			"read k": "denied by toolhost.yaml:1", "read a/k": "denied by toolhost.yaml:1", "read b/k": "allowed by default",
		})
	})
}

// TestLaw40UntrustedFileHidesNoTrustedOne: below a file that is trusted another one,
// which is not, only adds what it denies; that of each file between them, too. Seen to
// fail with the nearest file as the only one.
func TestLaw40UntrustedFileHidesNoTrustedOne(t *testing.T) {
	w := newWorld(t)
	top := w.write(FileName, `
plugins: {filesystem: {}, process: {}}
permissions:
  - {action: read, resource: "*/.env", effect: allow}
  - {action: read, resource: a/b/kept, effect: deny}
`)
	w.write("a/"+FileName, `permissions: [{action: read, resource: b/x, effect: deny}]`)
	nearest := w.write("a/b/"+FileName, `
plugins: {evil: {command: [./evil]}}
permissions: [{action: "*", resource: "*", effect: allow}, {action: read, resource: y, effect: deny}]
`)
	w.dir = filepath.Dir(nearest)
	denied := map[string]string{"read a/b/x": "denied by toolhost.yaml:1", "read a/b/y": "denied by toolhost.yaml:3", "read y": "allowed by default"}

	w.trust(top)
	c := w.mustLoad()
	if c.Locations[0].Root != w.project {
		t.Errorf("root: got %s, want %s", c.Locations[0].Root, w.project)
	}
	wantPlugins(t, c.Locations[0].Plugins, builtin("filesystem"), builtin("process"))
	wantVerdicts(t, c.Locations[0].Policy, denied)
	wantVerdicts(t, c.Locations[0].Policy, map[string]string{
		"read a/b/kept": "denied by toolhost.yaml:5", "read a/b/.env": "allowed by toolhost.yaml:4", "edit a/b/z": "asked for: no rule speaks of it",
	})
	if len(c.Notices) != 2 || len(c.Files) != 3 || !c.Files[2].Trusted || c.Files[0].Trusted {
		t.Errorf("notices %q, files %+v", c.Notices, c.Files)
	}

	delete(w.trusted, top) // and none is trusted: that is the directory, and each one denies
	c = w.mustLoad()
	if c.Locations[0].Root != w.dir {
		t.Errorf("root: got %s, want %s", c.Locations[0].Root, w.dir)
	}
	wantVerdicts(t, c.Locations[0].Policy, map[string]string{
		"read kept": "denied by toolhost.yaml:5", "read x": "denied by toolhost.yaml:1", "read y": "denied by toolhost.yaml:3", "read .env": "asked for by default: may hold secrets",
	})

	w.trust(nearest) // which is the only one then
	w.trust(top)
	c = w.mustLoad()
	if c.Locations[0].Root != w.dir || len(c.Files) != 1 || c.Locations[0].Plugins[0].Name != "evil" {
		t.Errorf("got %+v, %+v", c.Locations[0], c.Files)
	}
}

// TestUntrustedFilesAreBounded: each is read before anybody trusts it.
func TestUntrustedFilesAreBounded(t *testing.T) {
	w := newWorld(t)
	for range maxUntrusted {
		w.dir = filepath.Join(w.dir, "d")
		w.write(filepath.Join(w.dir, FileName), "{}")
	}
	if c := w.mustLoad(); len(c.Files) != maxUntrusted {
		t.Errorf("got %d files, want %d", len(c.Files), maxUntrusted)
	}
	path := w.write(FileName, "{}")
	if _, err := w.load(); err == nil || !strings.HasPrefix(err.Error(), path+" is the 9th file above the working directory that is not trusted") {
		t.Errorf("got %v", err)
	}
}

// TestLaw40MistakeInUntrustedFile: what it denies cannot be told, so nothing
// works until it is mended, or another file is named.
func TestLaw40MistakeInUntrustedFile(t *testing.T) {
	w := newWorld(t)
	w.write(FileName, "permissions: [{action: read, resource: secret, efect: deny}]\n")
	want := `toolhost.yaml:1:15: permissions[0] has no effect
toolhost.yaml:1:48: unknown key "efect" in permissions[0] (did you mean "effect"?)`
	if _, err := w.load(); err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	w.file = w.write("empty.yaml", "")
	w.mustLoad()
}

// TestLaw40UntrustedPluginsMayBeUnknown: what only a newer program ships is no
// mistake in a file that does not take effect.
func TestLaw40UntrustedPluginsMayBeUnknown(t *testing.T) {
	w := newWorld(t)
	w.write(FileName, "plugins: {shiny: {}}\npermissions: [{action: \"shiny/*\", resource: \"*\", effect: deny}]\n")
	wantVerdicts(t, w.mustLoad().Locations[0].Policy, map[string]string{"shiny/x *": "denied by toolhost.yaml:2"})
}

// TestLaw40LinkToTrustedFile: a repository whose file is a link to one that is
// trusted elsewhere is not trusted. Seen to fail with the link resolved.
func TestLaw40LinkToTrustedFile(t *testing.T) {
	w := newWorld(t)
	other := w.write(filepath.Join(w.home, "other", FileName), generous)
	w.trust(other)
	if err := os.Symlink(other, filepath.Join(w.project, FileName)); err != nil {
		t.Fatal(err)
	}
	c := w.mustLoad()
	if c.Files[0].Trusted || len(c.Notices) != 1 || c.Files[0].Path != filepath.Join(w.project, FileName) {
		t.Errorf("got %+v, %q", c.Files, c.Notices)
	}
	wantVerdicts(t, c.Locations[0].Policy, map[string]string{"edit a": "asked for: no rule speaks of it"})
}

// TestCaseA03TrustBySpelling: a directory's spelling makes no difference to trust.
func TestCaseA03TrustBySpelling(t *testing.T) {
	w := newWorld(t)
	w.trust(w.write(FileName, "plugins: {process: {}}\n"))
	w.dir = filepath.Join(filepath.Dir(w.project), "alias")
	if err := os.Symlink(w.project, w.dir); err != nil {
		t.Fatal(err)
	}
	c := w.mustLoad()
	if !c.Files[0].Trusted || c.Locations[0].Root != w.dir || c.Locations[0].Policy.Root != w.project {
		t.Errorf("got %+v", c)
	}
	if _, err := c.Location(""); err != nil {
		t.Error(err)
	}
}

// TestLaw40TrustIsAskedOnlyWhenNeeded: no project's file, no question, so that the
// record of trust is not opened.
func TestLaw40TrustIsAskedOnlyWhenNeeded(t *testing.T) {
	w := newWorld(t)
	broken := errors.New("state database is broken")
	options := Options{Dir: w.project, Getenv: func(name string) string { return w.env[name] }, Builtins: w.builtins,
		TrustedDigest: func(context.Context, string) (string, error) { return "", broken }}
	if _, err := Load(t.Context(), options); err != nil {
		t.Errorf("without a file: %v", err)
	}
	path := w.write(FileName, "")
	options.File = path
	if _, err := Load(t.Context(), options); err != nil {
		t.Errorf("with -c: %v", err)
	}
	options.File = ""
	if _, err := Load(t.Context(), options); !errors.Is(err, broken) || !strings.Contains(err.Error(), path) {
		t.Errorf("with a project's file: got %v", err)
	}
	options.TrustedDigest = nil
	if c, err := Load(t.Context(), options); err != nil || c.Files[0].Trusted {
		t.Errorf("without a record of trust: got %+v, %v", c, err)
	}
}

// TestTrustCommand is what a shell reads as one word.
func TestTrustCommand(t *testing.T) {
	for path, want := range map[string]string{
		"/a/b_c-d.1/toolhost.yaml":   "toolhost trust /a/b_c-d.1/toolhost.yaml",
		"/a b/toolhost.yaml":         "toolhost trust '/a b/toolhost.yaml'",
		"/it's/$(x)/é/toolhost.yaml": `toolhost trust '/it'\''s/$(x)/é/toolhost.yaml'`,
	} {
		if got := trustCommand(&source{File: File{Path: path}}); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestDiscover: nearest upward, as far as .git, and nowhere else without .git.
func TestDiscover(t *testing.T) {
	base := resolve(t.TempDir())
	for _, dir := range []string{"repo/.git", "repo/a/b", "repo/own/c", "repo/module/d", "plain/a", "above/repo2/.git", "above/repo2/x"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"repo/toolhost.yaml", "repo/own/toolhost.yaml", "repo/module/.git", "plain/toolhost.yaml", "above/toolhost.yaml", "toolhost.yaml"} {
		if err := os.WriteFile(filepath.Join(base, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for dir, want := range map[string]string{
		"repo":               "repo/toolhost.yaml",
		"repo/a/b":           "repo/toolhost.yaml",
		"repo/own":           "repo/own/toolhost.yaml",
		"repo/own/c":         "repo/own/toolhost.yaml",
		"repo/module/d":      "", // a submodule has a file .git
		"plain":              "plain/toolhost.yaml",
		"plain/a":            "",
		"plain/missing":      "",
		"above/repo2/x":      "",
		"above/repo2":        "",
		"repo/toolhost.yaml": "repo/toolhost.yaml", // not a directory, and no mistake of Discover's
	} {
		if want != "" {
			want = filepath.Join(base, want)
		}
		if got, err := Discover(filepath.Join(base, dir)); got != want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", dir, got, err, want)
		}
	}
	loop := filepath.Join(base, "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	if _, err := Discover(filepath.Join(loop, "x")); err == nil {
		t.Error("a directory that cannot be looked into: got no error")
	}
}

// TestImplicitRootIsRefused: a home directory becomes a Location on purpose only.
func TestImplicitRootIsRefused(t *testing.T) {
	w := newWorld(t)
	base := filepath.Dir(w.home)
	tail := ", which becomes a Location only by a config file: change to a project, or write toolhost.yaml here and trust it"
	for dir, what := range map[string]string{
		w.home: "the home directory", base: "a directory above the home directory", "/": "the root of the file system",
	} {
		w.dir = dir
		if _, err := w.load(); err == nil || err.Error() != dir+" is "+what+tail {
			t.Errorf("%s: got %v", dir, err)
		}
	}
	w.dir = filepath.Join(base, "alias")
	if err := os.Symlink(w.home, w.dir); err != nil {
		t.Fatal(err)
	}
	if _, err := w.load(); err == nil || err.Error() != w.dir+" is the home directory"+tail {
		t.Errorf("by another name: got %v", err)
	}
	w.env["HOME"], w.dir = w.dir, w.home
	if _, err := w.load(); err == nil || err.Error() != w.dir+" is the home directory"+tail {
		t.Errorf("HOME by another name: got %v", err)
	}
	w.env["HOME"] = w.home

	w.dir = w.home
	path := w.write(filepath.Join(w.home, FileName), "")
	want := fmt.Sprintf("%s is the home directory%s; toolhost.yaml is there and not trusted: toolhost trust %s", w.home, tail, path)
	if _, err := w.load(); err == nil || err.Error() != want {
		t.Errorf("with an untrusted file:\ngot  %v\nwant %s", err, want)
	}
	w.trust(path)
	if c := w.mustLoad(); c.Locations[0].Root != w.home {
		t.Errorf("with a trusted file: got %+v", c.Locations)
	}

	w.dir, w.env["HOME"] = "/", ""
	if _, err := w.load(); err == nil {
		t.Error("the root of the file system, home unknown: got no error")
	}
}

// TestOverlookedFiles: a file that may be meant for a project's and is not read is said,
// unless there is one that is. Seen to fail without the look above.
func TestOverlookedFiles(t *testing.T) {
	w := newWorld(t)
	w.write("sub/a", "")
	w.dir = w.project + "/sub"
	wantNotices := func(want ...string) {
		t.Helper()
		if c := w.mustLoad(); !slices.Equal(c.Notices, want) {
			t.Errorf("notices:\ngot  %q\nwant %q", c.Notices, want)
		}
	}
	wantNotices()
	misspelled := w.write("toolhost.yml", "plugins: {}\n")
	unread := " is not read: a project's file is named toolhost.yaml"
	wantNotices(misspelled + unread)
	w.dir = w.project
	wantNotices("toolhost.yml" + unread)
	path := w.write(FileName, "plugins: {}\n")
	w.trust(path)
	wantNotices()

	if err := os.Remove(w.project + "/.git"); err != nil {
		t.Fatal(err)
	}
	w.dir = w.project + "/sub"
	above := path + " is not read: without a .git no file above the working directory is; if it is yours, run toolhost in its directory, or name it with -c"
	wantNotices(above)
	w.write("sub/toolhost.yml", "")
	wantNotices("toolhost.yml"+unread, above)
	w.trust(w.write("sub/"+FileName, "plugins: {}\n"))
	wantNotices()
}

// TestNamedFileMakesNoHomeARoot: a file that is kept in the home directory is named for
// some project, and does not make a Location of the home. Seen to fail with a project's
// file refused in its place.
func TestNamedFileMakesNoHomeARoot(t *testing.T) {
	w := newWorld(t)
	for dir, what := range map[string]string{w.home: "the home directory", filepath.Dir(w.home): "a directory above the home directory"} {
		w.file = w.write(filepath.Join(dir, "own.yaml"), "plugins: {filesystem: {}}\n")
		want := fmt.Sprintf("%s is in %s, which would be the root of its Location: name the root in it, such as locations: {project: {root: %q}}, or move it", w.file, what, w.project)
		if _, err := w.load(); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	w.write(w.file, fmt.Sprintf("plugins: {filesystem: {}}\nlocations: {project: {root: %q}, home: {root: %q}}\n", w.project, w.home))
	if c := w.mustLoad(); c.Locations[0].Root != w.project || c.Locations[1].Root != w.home {
		t.Errorf("with roots that are named: got %+v", c.Locations)
	}
}

// TestPlace: links of the directory are followed, one of the file is not.
func TestPlace(t *testing.T) {
	base := resolve(t.TempDir())
	if err := os.Mkdir(filepath.Join(base, "real"), 0o700); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"alias": "real", "real/link.yaml": "elsewhere.yaml"} {
		if err := os.Symlink(target, filepath.Join(base, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(base, "real", "elsewhere.yaml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(base)
	for path, want := range map[string]string{
		base + "/alias/toolhost.yaml":  "real/toolhost.yaml",
		"alias/../alias/link.yaml":     "real/link.yaml",
		base + "/missing/x/a.yaml":     "missing/x/a.yaml",
		base + "/alias/missing/a.yaml": "real/missing/a.yaml",
	} {
		if got, err := Place(path); err != nil || got != filepath.Join(base, want) {
			t.Errorf("%s: got %s, %v, want %s", path, got, err, want)
		}
	}
}

// TestLaw40ChangeTakesNoDenyBack: a file that changed denies what it denied when it was
// trusted, beside what it denies now; and nothing else of either holds. Seen to fail
// with the new content alone. Where it is held it is in effect as it was trusted, with
// what it denies now; seen to fail without that.
func TestLaw40ChangeTakesNoDenyBack(t *testing.T) {
	w := newWorld(t)
	const before = `
plugins: {filesystem: {}, weather: {command: [./w]}}
permissions:
  - {action: read, resource: "secrets/*", effect: deny}
  - {action: weather/now, resource: "*", effect: deny}
  - {action: read, resource: .env, effect: allow}
  - {action: list, resource: "**/kept", effect: deny} # trusted when that was no mistake
`
	const held = `
plugins: {filesystem: {}, weather: {command: [./w]}}
permissions:
  - {action: read, resource: "secrets/*", effect: deny}
  - {action: read, resource: .env, effect: allow}
`
	path := w.write(FileName, before)
	w.trust(path)
	w.write(FileName, `permissions: [{action: read, resource: "*", effect: allow}, {action: read, resource: new, effect: deny}]`)
	load := func(content func(context.Context, string) ([]byte, error)) *Config {
		t.Helper()
		c, err := Load(t.Context(), Options{
			Dir: w.dir, Builtins: w.builtins, TrustedContent: content,
			TrustedDigest: func(_ context.Context, path string) (string, error) { return w.trusted[path], nil },
			Getenv:        func(name string) string { return w.env[name] },
		})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := load(func(context.Context, string) ([]byte, error) { return []byte(before), nil })
	wantVerdicts(t, c.Locations[0].Policy, map[string]string{
		"read secrets/a": "denied by toolhost.yaml (as trusted):4", "weather/now x": "denied by toolhost.yaml (as trusted):5",
		"read new": "denied by toolhost.yaml:1", "read .env": "asked for by default: may hold secrets", "read a": "allowed by default",
		"list a/kept": "denied by toolhost.yaml (as trusted):7",
	})
	if len(c.Files) != 1 || c.Files[0].Trusted {
		t.Errorf("files are %+v", c.Files)
	}
	c = func() *Config {
		c, err := Load(t.Context(), Options{
			Dir: w.dir, Builtins: w.builtins, Hold: true,
			TrustedContent: func(context.Context, string) ([]byte, error) { return []byte(held), nil },
			TrustedDigest:  func(context.Context, string) (string, error) { return sumOf(held), nil },
			Getenv:         func(name string) string { return w.env[name] },
		})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}()
	wantVerdicts(t, c.Locations[0].Policy, map[string]string{
		"read secrets/a": "denied by toolhost.yaml (as trusted):4", "read new": "denied by toolhost.yaml:1", "read .env": "allowed by toolhost.yaml (as trusted):5",
	})
	if len(c.Files) != 2 || c.Files[0].Trusted || !c.Files[1].Trusted || c.Files[1].Path != path || len(c.Locations[0].Plugins) != 2 {
		t.Errorf("held: %+v", c)
	}
	for name, content := range map[string][]byte{"nothing": nil, "nonsense": []byte("{{{"), "a list": []byte("- a")} {
		c := load(func(context.Context, string) ([]byte, error) { return content, nil })
		if got := c.Locations[0].Policy.Evaluate("read", "new", "").Effect; got != permission.Deny {
			t.Errorf("with %s kept: read of new has the effect %v", name, got)
		}
	}
}

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
