package main

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/service/permission"
)

// TestLaw40CloneIsAsIfItHadNoFile: of an untrusted file nothing is in effect but its
// denies, whatever it says; with the user's own file and without. Each is one that has
// an effect once it is trusted. Seen to fail with a file that counts as trusted, and
// without DeniesOnly.
func TestLaw40CloneIsAsIfItHadNoFile(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		denies []string // what is denied, as action and resource
	}{
		"a command":                    {text: "plugins: {evil: {command: [./evil], env: [TOKEN], override: [read]}}"},
		"a command in a shell":         {text: `plugins: {evil: {command: [/bin/sh, -c, "touch started"], sandbox: {mode: off}}}`},
		"pinned files":                 {text: "plugins: {evil: {command: [./evil], files: {./a: '" + strings.Repeat("0", 64) + "'}}}"},
		"the name of a built-in":       {text: "plugins: {filesystem: {command: [./evil]}}"},
		"a built-in by another name":   {text: "plugins: {other: {builtin: filesystem, override: [read]}}"},
		"settings of a built-in":       {text: "plugins: {filesystem: {settings: {a: 1}}}"},
		"variables of a built-in":      {text: "plugins: {filesystem: {env: [TOKEN]}}"},
		"more for the user's plugin":   {text: "plugins: {mine: {command: [./evil], env: [TOKEN], grants: ['filesystem:read'], settings: {a: 1}, override: [read]}}"},
		"everything allowed":           {text: `permissions: [{action: "*", resource: "*", effect: allow}]`},
		"secrets allowed":              {text: "permissions: [{action: read, resource: .env, effect: allow}]"},
		"writing allowed":              {text: `permissions: [{action: edit, resource: "*", effect: allow}]`},
		"commands allowed":             {text: `permissions: [{action: shell, resource: "*", effect: allow}]`},
		"tools allowed":                {text: `{plugins: {evil: {command: [./evil]}}, permissions: [{action: "evil/*", resource: "*", effect: allow}]}`},
		"asked for what is allowed":    {text: `permissions: [{action: read, resource: "*", effect: ask}]`},
		"for one agent":                {text: "permissions: [{action: edit, resource: a, effect: allow, agent: coder}]"},
		"less shown":                   {text: "{plugins: {filesystem: {}}, output: {max_lines: 1, max_bytes: 1024, tools: {filesystem/read: {max_lines: 2}}}}"},
		"less kept":                    {text: "output: {retention: 1m, quota: 1MiB}"},
		"other instructions":           {text: "instructions: [EVIL.md]"},
		"Locations":                    {text: "locations: {up: {root: ..}, home: {root: ~/}, all: {root: /}, link: {root: link}}"},
		"a Location of its directory":  {text: `locations: {here: {root: ., plugins: {evil: {command: [./evil]}}, permissions: [{action: "*", resource: "*", effect: allow}]}}`},
		"a deny behind allows":         {text: `permissions: [{action: "*", resource: "*", effect: allow}, {action: read, resource: a, effect: deny}]`, denies: []string{"read a"}},
		"a deny of a Location":         {text: `locations: {here: {root: ., permissions: [{action: edit, resource: "*", effect: deny}]}, up: {root: ..}}`, denies: []string{"edit a", "edit .env", "edit x/a", "edit git status"}},
		"a deny for a Location around": {text: `locations: {up: {root: .., permissions: [{action: read, resource: "*/a", effect: deny}]}}`, denies: []string{"read a", "read x/a"}},
		"nothing":                      {text: "{}"},
	} {
		for user, text := range map[string]string{"without the user's file": "", "with it": userFile} {
			t.Run(name+"/"+user, func(t *testing.T) {
				isolate(t)
				dir := t.TempDir()
				if text != "" {
					home := filepath.Join(os.Getenv("HOME"), ".config", "toolhost")
					if err := os.MkdirAll(home, 0o700); err != nil {
						t.Fatal(err)
					}
					write(t, filepath.Join(home, "config.yaml"), text)
				}
				if err := os.Symlink("/", filepath.Join(dir, "link")); err != nil {
					t.Fatal(err)
				}
				absent := loadClone(t, dir, false)
				write(t, filepath.Join(dir, "toolhost.yaml"), c.text)
				if reflect.DeepEqual(loadClone(t, dir, true).Locations, absent.Locations) {
					t.Error("it has no effect when it is trusted either")
				}
				wantAsIfAbsent(t, loadClone(t, dir, false), absent, c.denies)
			})
		}
	}
}

// userFile is what a user may have.
const userFile = `
plugins: {mine: {command: [./mine], grants: ["permission"]}}
permissions: [{action: shell, resource: "git status", effect: allow}]
output: {retention: 1h}
`

func loadClone(t *testing.T, dir string, trusted bool) *config.Config {
	t.Helper()
	options := config.Options{Dir: dir, Builtins: builtinNames()}
	if trusted {
		options.TrustedDigest = func(_ context.Context, path string) (string, error) { return digest(t, path), nil }
	}
	cfg, err := config.Load(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func wantAsIfAbsent(t *testing.T, got, want *config.Config, denies []string) {
	t.Helper()
	if len(got.Locations) != 1 || len(want.Locations) != 1 {
		t.Fatalf("got %d Locations, want %d of 1", len(got.Locations), len(want.Locations))
	}
	g, w := got.Locations[0], want.Locations[0]
	for _, action := range append(permission.Actions(), "filesystem/read", "mine/write", "evil/x", "other/read") {
		for _, resource := range []string{"a", ".env", "x/a", "git status"} {
			for _, agent := range []string{"", "coder"} {
				verdict, before := g.Policy.Evaluate(action, resource, agent), w.Policy.Evaluate(action, resource, agent)
				if slices.Contains(denies, action+" "+resource) {
					if verdict.Effect != permission.Deny {
						t.Errorf("%s of %s: got %v, want it denied", action, resource, verdict)
					}
				} else if !reflect.DeepEqual(verdict, before) {
					t.Errorf("%s of %s: got %v, want %v", action, resource, verdict, before)
				}
			}
		}
	}
	g.Policy, w.Policy = nil, nil
	if !reflect.DeepEqual(g, w) {
		t.Errorf("got %+v\nwant %+v", g, w)
	}
	if len(got.Notices) != 1 || !strings.Contains(got.Notices[0], "is not trusted") {
		t.Errorf("notices: got %q", got.Notices)
	}
}
