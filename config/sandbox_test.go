package config

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// sandboxOf is what the one Location of the configuration says of a plugin, without the
// place of the mode.
func sandboxOf(t *testing.T, c *Config, plugin string) Sandbox {
	t.Helper()
	for _, p := range c.Locations[0].Plugins {
		if p.Name == plugin {
			p.Sandbox.ModeSource = Position{}
			return p.Sandbox
		}
	}
	t.Fatalf("there is no plugin %s", plugin)
	return Sandbox{}
}

func TestSandbox(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct {
		text string
		want Sandbox
	}{
		{"{}", Sandbox{}},
		{"null", Sandbox{}},
		{"{fs: null, exec: null, limits: {memory: null, cpu: null, files: null}}", Sandbox{}},
		{"{net: none, exec: false, fs: {read: [], write: []}}", Sandbox{}},
		{"{mode: strict}", Sandbox{Mode: Strict}},
		{"{mode: off}", Sandbox{Mode: Off}},
		{"{net: host, exec: true}", Sandbox{Network: true, Exec: true}},
		{`{fs: {read: [/srv/../usr/share/, lib, ., ../other, "~/x"], write: [./out]}}`, Sandbox{
			Read:  []string{"/usr/share", w.project + "/lib", w.project, filepath.Dir(w.project) + "/other", w.home + "/x"},
			Write: []string{w.project + "/out"},
		}},
		{"{limits: {memory: 512MiB, processes: 64, files: 2e3, cpu: 1.5}}", Sandbox{Limits: SandboxLimits{512 << 20, 64, 2000, 1.5}}},
		{"{limits: {memory: 268435456, processes: 16, files: 64, cpu: 0.1}}", Sandbox{Limits: SandboxLimits{256 << 20, 16, 64, 0.1}}},
		{"{limits: {memory: 1TiB, processes: 32768, files: 1048576, cpu: 1024}}", Sandbox{Limits: SandboxLimits{1 << 40, 32768, 1 << 20, 1024}}},
	} {
		c := w.loadProject("plugins: {w: {command: [./w], sandbox: " + tt.text + "}}\n")
		if got := sandboxOf(t, c, "w"); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s:\ngot  %#v\nwant %#v", tt.text, got, tt.want)
		}
	}
}

// The layers of a sandbox add up key by key, paths are relative to the file that says
// them, and an entry that names its program has nothing of those below.
//
// Seen to fail: with all paths relative to one directory; with the sandbox
// replaced as a whole.
func TestSandboxLayers(t *testing.T) {
	w := newWorld(t)
	w.writeUser(`plugins: {w: {command: [./w], sandbox: {mode: strict, fs: {read: [r], write: [w]}, net: host, exec: true, limits: {memory: 1GiB, files: 64}}}}` + "\n")
	dir := w.home + "/.config/toolhost"
	user := Sandbox{
		Mode: Strict, Read: []string{dir + "/r"}, Write: []string{dir + "/w"}, Network: true, Exec: true,
		Limits: SandboxLimits{Memory: 1 << 30, Files: 64},
	}
	for _, tt := range []struct {
		entry  string
		change func(s *Sandbox)
	}{
		{"{}", func(*Sandbox) {}},
		{"{sandbox: {}}", func(*Sandbox) {}},
		{"{sandbox: null}", func(s *Sandbox) { *s = Sandbox{} }},
		{"{sandbox: {fs: null}}", func(s *Sandbox) { s.Read, s.Write = nil, nil }},
		{"{sandbox: {fs: {read: [r2, r3]}}}", func(s *Sandbox) { s.Read = []string{w.project + "/r2", w.project + "/r3"} }},
		{"{sandbox: {fs: {write: []}}}", func(s *Sandbox) { s.Write = nil }},
		{"{sandbox: {mode: off, net: none}}", func(s *Sandbox) { s.Mode, s.Network = Off, false }},
		{"{sandbox: {exec: null}}", func(s *Sandbox) { s.Exec = false }},
		{"{sandbox: {limits: {memory: null, cpu: 2}}}", func(s *Sandbox) { s.Limits = SandboxLimits{Files: 64, CPU: 2} }},
		{"{command: [./w]}", func(s *Sandbox) { *s = Sandbox{} }},
		{"{command: [./w], sandbox: {exec: true}}", func(s *Sandbox) { *s = Sandbox{Exec: true} }},
	} {
		want := user
		tt.change(&want)
		if got := sandboxOf(t, w.loadProject("plugins: {w: "+tt.entry+"}\n"), "w"); !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %#v\nwant %#v", tt.entry, got, want)
		}
	}
}

// What a repository says of a sandbox counts once the user trusted it, and not after it
// changed; a mistake in it is found before.
//
// Seen to fail: with a file that is not trusted taken for one that is.
func TestLaw40SandboxNeedsTrust(t *testing.T) {
	w := newWorld(t)
	w.writeUser("plugins: {w: {command: [/w], sandbox: {mode: strict}}}\n")
	text := "plugins: {w: {sandbox: {mode: off, fs: {write: [~/x]}, net: host, exec: true}}}\n"
	path := w.write(FileName, text)
	strict, off := Sandbox{Mode: Strict}, Sandbox{Mode: Off, Write: []string{w.home + "/x"}, Network: true, Exec: true}
	want := func(when string, want Sandbox) {
		t.Helper()
		if got := sandboxOf(t, w.mustLoad(), "w"); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %#v, want %#v", when, got, want)
		}
	}
	want("before it is trusted", strict)
	w.trust(path)
	want("trusted", off)
	w.write(FileName, text+"# changed\n")
	want("changed", strict)
	w.file = path
	want("named", off)
	w.file = ""
	w.write(FileName, "plugins: {w: {sandbox: {mode: of}}}\n")
	if _, err := w.load(); err == nil || !strings.Contains(err.Error(), `plugins.w.sandbox.mode "of" is unknown`) {
		t.Errorf("a mistake that is not trusted: got %v", err)
	}
}

// It is said who switched confinement off.
func TestSandboxModeSource(t *testing.T) {
	w := newWorld(t)
	w.writeUser("plugins:\n  w:\n    command: [/w]\n    sandbox: {mode: off}\n")
	user := w.home + "/.config/toolhost/config.yaml"
	for text, want := range map[string]Position{
		"plugins: {w: {sandbox: {exec: true}}}\n":   {user, 4, 21},
		"plugins: {w: {sandbox: {mode: strict}}}\n": {filepath.Join(w.project, FileName), 1, 31},
		"plugins: {w: {sandbox: null}}\n":           {},
	} {
		if got := w.loadProject(text).Locations[0].Plugins[0].Sandbox.ModeSource; got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestSandboxInWords(t *testing.T) {
	for want, s := range map[string]Sandbox{
		"":       {},
		"strict": {Mode: Strict},
		"not confined, with all the rights of its user: mode off at /f:1:2": {Mode: Off, Exec: true, ModeSource: Position{"/f", 1, 2}},
		"not confined, with all the rights of its user: mode off":           {Mode: Off},
		"reads /a, /b; reads and writes /c; uses the network; runs programs": {
			Read: []string{"/a", "/b"}, Write: []string{"/c"}, Network: true, Exec: true,
		},
		`reads "/a; runs programs", "/a, /b", "/a\nb\u202e", /é/~`:                                      {Read: []string{"/a; runs programs", "/a, /b", "/a\nb\u202e", "/é/~"}},
		"at most 512MiB of memory; at most 64 processes; at most 65 open files; at most 1.5 processors": {Limits: SandboxLimits{512 << 20, 64, 65, 1.5}},
		"at most 1TiB of memory":      {Limits: SandboxLimits{Memory: 1 << 40}},
		"at most 20000001B of memory": {Limits: SandboxLimits{Memory: 20000001}},
	} {
		if got := s.String(); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}

func TestSandboxJSON(t *testing.T) {
	for want, s := range map[string]Sandbox{
		`{"mode":"","read":[],"write":[],"network":false,"exec":false,"limits":{"memory":0,"processes":0,"files":0,"cpu":0}}`: {},
		`{"mode":"off","read":["/a"],"write":["/b"],"network":true,"exec":true,"limits":{"memory":1,"processes":2,"files":3,"cpu":1.5}}`: {
			Mode: Off, Read: []string{"/a"}, Write: []string{"/b"}, Network: true, Exec: true, Limits: SandboxLimits{1, 2, 3, 1.5}, ModeSource: Position{Line: 1},
		},
	} {
		if got, err := json.Marshal(s); err != nil || string(got) != want {
			t.Errorf("got  %s, %v\nwant %s", got, err, want)
		}
	}
}
