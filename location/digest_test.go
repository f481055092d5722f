package location

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/plugin/client"
	"github.com/toolhost/toolhost/service"
)

// The digest tells a plugin that was started again from one that was replaced: by its
// program, its arguments, and what it is given (law 7).
//
// Seen to fail: with an empty digest; with each of its parts left out.
func TestLaw07DigestOfAPlugin(t *testing.T) {
	program := filepath.Join(t.TempDir(), "plugin")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	spec := func() client.Spec {
		return client.Spec{Command: []string{program, "a"}, Env: []string{"A=1"}, Grants: []service.Grant{service.GrantPermission}, Settings: []byte(`{"a":1}`), Root: "/r"}
	}
	first := digest(spec(), config.Plugin{})
	if first == "" || first != digest(spec(), config.Plugin{}) {
		t.Errorf("of the same: got %q and %q", first, digest(spec(), config.Plugin{}))
	}
	for name, change := range map[string]func(*client.Spec, *config.Plugin){
		"arguments":   func(s *client.Spec, _ *config.Plugin) { s.Command = []string{program, "b"} },
		"variables":   func(s *client.Spec, _ *config.Plugin) { s.Env = []string{"A=2"} },
		"grants":      func(s *client.Spec, _ *config.Plugin) { s.Grants = nil },
		"settings":    func(s *client.Spec, _ *config.Plugin) { s.Settings = []byte(`{"a":2}`) },
		"root":        func(s *client.Spec, _ *config.Plugin) { s.Root = "/s" },
		"pin":         func(s *client.Spec, _ *config.Plugin) { s.SHA256 = "00" },
		"files":       func(_ *client.Spec, p *config.Plugin) { p.Files = []config.PinnedFile{{Path: "/x", SHA256: "00"}} },
		"confinement": func(_ *client.Spec, p *config.Plugin) { p.Sandbox.Mode = config.Off },
		"paths":       func(_ *client.Spec, p *config.Plugin) { p.Sandbox.Read = []string{"/x"} },
		"writing":     func(_ *client.Spec, p *config.Plugin) { p.Sandbox.Write = []string{"/x"} },
		"networks":    func(_ *client.Spec, p *config.Plugin) { p.Sandbox.Network = true },
		"programs":    func(_ *client.Spec, p *config.Plugin) { p.Sandbox.Exec = true },
	} {
		s, p := spec(), config.Plugin{}
		change(&s, &p)
		if digest(s, p) == first {
			t.Errorf("other %s have the same digest", name)
		}
	}
	limited := config.Plugin{Sandbox: config.Sandbox{Mode: config.Strict, Limits: config.SandboxLimits{Files: 64}, ModeSource: config.Position{Line: 1}}}
	if digest(spec(), limited) != first {
		t.Error("limits make it another plugin")
	}
	time.Sleep(10 * time.Millisecond) // the filesystem's clock is coarse
	write("two")
	if digest(spec(), config.Plugin{}) == first {
		t.Error("a program that was rebuilt has the same digest")
	}
	if got := digest(client.Spec{Command: []string{"/nothing"}}, config.Plugin{}); got != "" {
		t.Errorf("of no program: got %q", got)
	}
}
