package config

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/permission"
)

// TestLayers is the documented rule for each kind of value.
func TestLayers(t *testing.T) {
	w := newWorld(t)
	w.writeUser(`
plugins:
  w:
    command: [./w, -v]
    sha256: ` + digestA + `
    grants: [filesystem:read, permission]
    settings: {a: 1, deep: {x: 1, y: [1, 2]}, gone: {z: 1}, kind: {m: 1}}
    env: [A, B]
  process: {settings: {shell: /bin/zsh}}
`)
	userDir := w.home + "/.config/toolhost"
	user := Plugin{
		Name: "w", Command: []string{userDir + "/w", "-v"}, SHA256: digestA,
		Grants:   []service.Grant{service.GrantFileSystemRead, service.GrantPermission},
		Settings: json.RawMessage(`{"a":1,"deep":{"x":1,"y":[1,2]},"gone":{"z":1},"kind":{"m":1}}`),
		Env:      []string{"A", "B"},
	}
	process := builtin("process")
	process.Settings = json.RawMessage(`{"shell":"/bin/zsh"}`)

	t.Run("the user's plugins are everywhere", func(t *testing.T) {
		wantPlugins(t, w.mustLoad().Locations[0].Plugins, builtin("filesystem"), process, user)
	})
	t.Run("an entry without a program adds to the one below", func(t *testing.T) {
		c := w.loadProject(`
plugins:
  w:
    grants: [permission]
    settings: {b: 2, deep: {x: 2, y: [3]}, gone: null, kind: text}
    env: null
`)
		added := user
		added.Grants = []service.Grant{service.GrantPermission}
		added.Settings = json.RawMessage(`{"a":1,"b":2,"deep":{"x":2,"y":[3]},"gone":null,"kind":"text"}`)
		added.Env = nil
		wantPlugins(t, c.Locations[0].Plugins, process, added)
		if got := c.Locations[0].Plugins[1].Source; got != (Position{filepath.Join(w.project, FileName), 3, 3}) {
			t.Errorf("source: got %s", got)
		}
	})
	t.Run("an entry without anything changes nothing", func(t *testing.T) {
		for _, text := range []string{"plugins: {w: {}}\n", "plugins: {w: }\n", "plugins: {w: {settings: {}, files: null}}\n", "plugins: null\n", ""} {
			wantPlugins(t, w.loadProject(text).Locations[0].Plugins, process, user)
		}
	})
	t.Run("an entry with a program stands by itself", func(t *testing.T) {
		wantPlugins(t, w.loadProject("plugins: {w: {command: [./other]}}\n").Locations[0].Plugins,
			process, Plugin{Name: "w", Command: []string{w.project + "/other"}})
		other := builtin("filesystem")
		other.Name = "w"
		wantPlugins(t, w.loadProject("plugins: {w: {builtin: filesystem}}\n").Locations[0].Plugins, process, other)
		wantPlugins(t, w.loadProject("plugins: {process: {command: null}}\n").Locations[0].Plugins, builtin("process"), user)
	})
	t.Run("a Location's entry is above the top of its file", func(t *testing.T) {
		c := w.loadProject("plugins: {process: {settings: {a: 1}}}\nlocations: {l: {root: ., plugins: {process: {settings: {a: 2}}, w: {command: [~/w]}}}, m: {root: m}}\n")
		one, two := process, process
		one.Settings, two.Settings = json.RawMessage(`{"a":1,"shell":"/bin/zsh"}`), json.RawMessage(`{"a":2,"shell":"/bin/zsh"}`)
		wantPlugins(t, c.Locations[0].Plugins, two, Plugin{Name: "w", Command: []string{w.home + "/w"}})
		wantPlugins(t, c.Locations[1].Plugins, one, user)
	})
}

// TestCaseG03SettingsAreThePlugins: the host takes any object for a plugin's
// settings and changes nothing in it.
func TestCaseG03SettingsAreThePlugins(t *testing.T) {
	w := newWorld(t)
	c := w.loadProject(`plugins: {filesystem: {settings: {plugins: {x: 1}, perrmissions: [], "": {"a.b": 1e400, "C D": "<&>"}, env: {TOKEN: t}}}}`)
	want := `{"":{"C D":"\u003c\u0026\u003e","a.b":1e400},"env":{"TOKEN":"t"},"perrmissions":[],"plugins":{"x":1}}`
	if got := string(c.Locations[0].Plugins[0].Settings); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestCaseG05JSONWithSlashes: JSON is YAML, and what looks like a comment inside
// of a text is text.
func TestCaseG05JSONWithSlashes(t *testing.T) {
	w := newWorld(t)
	c := w.loadProject(`{
	"plugins": {"filesystem": {"settings": {"url":"http://h//p", "s":"/* no */ \\\" // x"}}},
	"permissions": [{"action": "*", "resource": "open(//srv/share/**)", "effect": "deny"}]
}`)
	want := `{"s":"/* no */ \\\" // x","url":"http://h//p"}`
	if got := string(c.Locations[0].Plugins[0].Settings); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	wantVerdicts(t, c.Locations[0].Policy, map[string]string{
		"filesystem/x open(//srv/share/a/b)": "denied by toolhost.yaml:3", "filesystem/x open(": "asked for: no rule speaks of it",
	})
}

// TestCaseG08RemovedKeysAreGone: each Load begins with nothing. Seen to fail with
// one store for all loads.
func TestCaseG08RemovedKeysAreGone(t *testing.T) {
	w := newWorld(t)
	c := w.loadProject(`
plugins: {filesystem: {settings: {a: 1, b: 2}}, process: {}}
permissions: [{action: edit, resource: "*", effect: allow}]
locations: {a: {root: a}, b: {root: b}}
`)
	if len(c.Locations) != 2 {
		t.Fatalf("got %d Locations", len(c.Locations))
	}
	c = w.loadProject("plugins: {filesystem: {settings: {b: 3}}}\nlocations: {b: {root: b}}\n")
	filesystem := builtin("filesystem")
	filesystem.Settings = json.RawMessage(`{"b":3}`)
	if len(c.Locations) != 1 || c.Locations[0].Name != "b" {
		t.Errorf("got %+v", c.Locations)
	}
	wantPlugins(t, c.Locations[0].Plugins, filesystem)
	wantVerdicts(t, c.Locations[0].Policy, map[string]string{"edit x": "asked for: no rule speaks of it"})
}

// TestCaseG10PermissionsNeverReplace: the denies of every layer hold, whatever a
// later one says. Seen to fail with all rules in one list.
func TestCaseG10PermissionsNeverReplace(t *testing.T) {
	w := newWorld(t)
	w.writeUser("permissions: [{action: read, resource: A, effect: deny, reason: mine}]\n")
	for _, text := range []string{
		"permissions: [{action: read, resource: B, effect: deny}, {action: read, resource: A, effect: allow}]\n",
		"permissions: [{action: read, resource: B, effect: deny}]\nlocations: {l: {root: ., permissions: [{action: \"*\", resource: A, effect: allow}]}}\n",
		"permissions: []\n", "permissions: null\n", "permissions:\n", "",
	} {
		for _, named := range []bool{false, true} {
			path := w.write(FileName, text)
			w.trust(path)
			if w.file = ""; named {
				w.file = path
			}
			want := map[string]string{"read A": "denied by toolhost/config.yaml:1: mine", "read C": "allowed by default"}
			if strings.Contains(text, "B") {
				want["read B"] = "denied by toolhost.yaml:1"
			}
			wantVerdicts(t, w.mustLoad().Locations[0].Policy, want)
		}
	}
}

// TestCaseG11NamesWithAnything: dots, spaces and case in names keep entries
// apart, in every load the same. Seen to fail with "." as koanf's delimiter.
func TestCaseG11NamesWithAnything(t *testing.T) {
	w := newWorld(t)
	w.writeUser(`plugins: {"a.b": {command: [./user], settings: {u: 1}}, a: {settings: {b: {y: 1}}}, b: {command: [./b], settings: {x: 1}}}` + "\n")
	text := `plugins: {"a.b": {command: [./x], settings: {x: 1}}, a: {command: [./y], settings: {b: {x: 2}, "b.c": 3}}, "C D": {builtin: process}, A: {builtin: process},
  b.settings: {builtin: process}}
locations: {"x/y.z W": {root: .}}
`
	cd, upper, settings := builtin("process"), builtin("process"), builtin("process")
	cd.Name, upper.Name, settings.Name = "C D", "A", "b.settings"
	for range 200 {
		c := w.loadProject(text)
		if c.Locations[0].Name != "x/y.z W" {
			t.Fatalf("got %q", c.Locations[0].Name)
		}
		wantPlugins(t, c.Locations[0].Plugins, upper, cd,
			Plugin{Name: "a", Command: []string{w.project + "/y"}, Settings: json.RawMessage(`{"b":{"x":2},"b.c":3}`)},
			Plugin{Name: "a.b", Command: []string{w.project + "/x"}, Settings: json.RawMessage(`{"x":1}`)},
			Plugin{Name: "b", Command: []string{w.home + "/.config/toolhost/b"}, Settings: json.RawMessage(`{"x":1}`)}, settings)
		if t.Failed() {
			return
		}
	}
}

// TestCaseG12Environment: of the environment one variable says something, and two
// where to look; nothing else is read.
func TestCaseG12Environment(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"PERMISSIONS", "PLUGINS", "LOGGING", "TOOLHOST_PLUGINS", "plugins"} {
		w.env[name] = "y"
	}
	wantPlugins(t, w.mustLoad().Locations[0].Plugins, builtin("filesystem"))
	for _, name := range w.asked {
		switch name {
		case "HOME", "XDG_CONFIG_HOME", "TOOLHOST_CONFIG":
		default:
			t.Errorf("%s was read", name)
		}
	}

	xdg := filepath.Join(filepath.Dir(w.home), "xdg")
	w.write(xdg+"/toolhost/config.yaml", "plugins: {process: {}}\n")
	for value, want := range map[string]bool{xdg: true, "": false, "../xdg": false} { // one that is not absolute is not valid
		w.env["XDG_CONFIG_HOME"] = value
		if got := len(w.mustLoad().Locations[0].Plugins) == 2; got != want {
			t.Errorf("XDG_CONFIG_HOME=%s: got the file %v, want %v", value, got, want)
		}
	}

	w.env = map[string]string{}
	w.mustLoad()
	w.file = w.write(FileName, "plugins: {w: {command: [~/w]}}\n")
	want := `toolhost.yaml:1:25: path "~/w": the home directory is not known; set HOME, or write the path`
	if _, err := w.load(); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestDefaultPolicyIsTheLast: the defaults stand below every file.
func TestDefaultPolicyIsTheLast(t *testing.T) {
	w := newWorld(t)
	c := w.loadProject("permissions: [{action: read, resource: \"*\", effect: ask}]\n")
	if got := c.Locations[0].Policy.Evaluate("read", "a", ""); got.Effect != permission.Ask {
		t.Errorf("got %s", got)
	}
	wantVerdicts(t, c.Locations[0].Policy, map[string]string{"list a": "allowed by default"})
}

// What is to be passed through is named, and some names never are: those by which the host
// speaks to its plugins, which a plugin would take for the host's words, and those that make
// a shell run what nobody judged. The mistake says which (case B12).
//
// Seen to fail: without the variables of shells.
func TestCaseB12NamesThatAreNeverPassed(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{
		"TOOLHOST_PLUGIN", "TOOLHOST_TOKENS", "TOOLHOST_", "PLUGIN_CLIENT_CERT", "PLUGIN_UNIX_SOCKET_DIR",
		"BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS",
	} {
		for _, entry := range []string{"filesystem: {env: [GH_FAKE, %s]}", "w: {command: [./w], grants: [process], env: [GH_FAKE, %s]}"} {
			w.file = w.write("toolhost.yaml", "plugins: {"+fmt.Sprintf(entry, name)+"}\n")
			if _, err := w.load(); err == nil || !strings.Contains(err.Error(), name+" ") || !strings.Contains(err.Error(), "never passed through") {
				t.Errorf("%s in %s: got %v", name, entry, err)
			}
		}
	}
	w.file = w.write("toolhost.yaml", "plugins: {filesystem: {env: [GH_FAKE, ENVIRONMENT, MY_ENV, BASH_ENVY]}}\n")
	if got := w.mustLoad().Locations[0].Plugins[0].Env; len(got) != 4 {
		t.Errorf("got %q", got)
	}
}
