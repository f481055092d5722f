package location

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/sandbox"
)

// Commands get what is on the list and what the entry names, and nothing else of the host's
// environment, and it is known by name what they do not get (cases B11, B12). In a sandbox
// the home directory is one that is there.
//
// Seen to fail: with all that the host has; with the user's home in a sandbox; with PATH as
// it is.
func TestCaseB11EnvironmentOfCommands(t *testing.T) {
	host := []string{
		"PATH=/usr/bin", "HOME=/home/u", "USER=u", "LC_TIME=de_DE", "TZ=UTC", "TMPDIR=/var/tmp", "TERM=xterm",
		"FAKE_API_KEY=zzz", "SSH_AUTH_SOCK=/run/x", "GH_FAKE=1", "LD_PRELOAD=/x.so", "TOOLHOST_TOKENS=zzz", "A=1", "A=2", "broken",
	}
	for name, tt := range map[string]struct {
		host, named           []string
		confined              bool
		env, passed, withheld string
	}{
		"confined": {host, nil, true,
			"HOME=/tmp LANG=C.UTF-8 LC_TIME=de_DE PATH=/usr/bin TMPDIR=/tmp TZ=UTC USER=u", "LC_TIME PATH TZ USER",
			"A FAKE_API_KEY GH_FAKE HOME LD_PRELOAD SSH_AUTH_SOCK TERM TMPDIR TOOLHOST_TOKENS broken"},
		"not confined": {host, nil, false,
			"HOME=/home/u LANG=C.UTF-8 LC_TIME=de_DE PATH=/usr/bin TMPDIR=/var/tmp TZ=UTC USER=u", "HOME LC_TIME PATH TMPDIR TZ USER",
			"A FAKE_API_KEY GH_FAKE LD_PRELOAD SSH_AUTH_SOCK TERM TOOLHOST_TOKENS broken"},
		"named": {host, []string{"GH_FAKE", "HOME", "NOT_THERE"}, true,
			"GH_FAKE=1 HOME=/home/u LANG=C.UTF-8 LC_TIME=de_DE PATH=/usr/bin TMPDIR=/tmp TZ=UTC USER=u", "GH_FAKE HOME LC_TIME PATH TZ USER",
			"A FAKE_API_KEY LD_PRELOAD SSH_AUTH_SOCK TERM TMPDIR TOOLHOST_TOKENS broken"},
		"nothing there":      {nil, nil, true, "HOME=/tmp LANG=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin TMPDIR=/tmp", "", ""},
		"nothing there, off": {nil, nil, false, "LANG=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin", "", ""},
		"a PATH that depends on where one stands": {[]string{"PATH=:/usr/bin:.::bin:../b:/b/../c:"}, nil, true,
			"HOME=/tmp LANG=C.UTF-8 PATH=/usr/bin:/b/../c TMPDIR=/tmp", "PATH", ""},
		"one with nothing else": {[]string{"PATH=.:"}, []string{"PATH"}, false, "LANG=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin", "", ""},
		"a language":            {[]string{"LC_ALL=C"}, nil, false, "LC_ALL=C PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL", ""},
	} {
		env, passed, withheld := commandEnvironment(tt.host, tt.named, tt.confined)
		if got := strings.Join(env, " "); got != tt.env {
			t.Errorf("%s: got %s, want %s", name, got, tt.env)
		}
		if got := strings.Join(passed, " "); got != tt.passed {
			t.Errorf("%s: passed %s, want %s", name, got, tt.passed)
		}
		if got := strings.Join(withheld, " "); got != tt.withheld {
			t.Errorf("%s: withheld %s, want %s", name, got, tt.withheld)
		}
	}
}

// What an entry names and the host does not have is known by name. Seen to fail: with a name
// that another one begins with.
func TestMissingVariables(t *testing.T) {
	got := strings.Join(missing([]string{"A=", "BEYOND=1", "C"}, []string{"C", "BE", "A", "BEYOND", "BE"}), " ")
	if want := "BE C"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Commands are confined to the root and what the entry says, or the user said that they are
// not, or they do not run and it is said why and what to do (law 46). The plugin starts in
// any case.
//
// Seen to fail: with a machine that confines nothing taken for the user's word; without the root's own refusal.
func TestLaw46ProfileOfCommands(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root, run, data := dir+"/home/project", dir+"/run", dir+"/data"
	for _, path := range []string{root, run, data} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", dir+"/home")
	strict, none := sandbox.Finding{Tier: sandbox.Strict}, sandbox.Finding{Tier: sandbox.Off, Reason: "there are no namespaces; raise x"}
	limits := config.SandboxLimits{Memory: 1 << 30, Processes: 64, Files: 128, CPU: 1.5}
	for name, tt := range map[string]struct {
		root    string
		sandbox config.Sandbox
		machine sandbox.Finding
		tier    sandbox.Tier // empty is that they do not run
		refused string
		words   string
	}{
		"confined":                          {root, config.Sandbox{}, strict, sandbox.Strict, "", "confined to the project, without network"},
		"with more":                         {root, config.Sandbox{Read: []string{data}, Network: true, Exec: true, Limits: limits}, strict, sandbox.Strict, "", "with the network of the machine"},
		"off":                               {root, config.Sandbox{Mode: config.Off}, strict, sandbox.Off, "", "not confined, with all the rights of your user"},
		"off where nothing confines":        {root, config.Sandbox{Mode: config.Off}, none, sandbox.Off, "", "not confined"},
		"nothing confines":                  {root, config.Sandbox{}, none, "", "on this machine: there are no namespaces; raise x. ", "not run"},
		"the home directory":                {dir + "/home", config.Sandbox{}, strict, "", "to the root of this Location: path ", "not run"},
		"the host's":                        {run, config.Sandbox{}, strict, "", "the host's own", "not run"},
		"the directory for temporary files": {"/tmp", config.Sandbox{}, strict, "", "a directory of its own", "not run"},
		"home, off":                         {dir + "/home", config.Sandbox{Mode: config.Off}, strict, sandbox.Off, "", "not confined"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			l := confining(Options{RunDir: run, Tier: found(tt.machine, &asked)}, &bytes.Buffer{})
			l.root = tt.root
			if l.files, err = l.openFiles(); err != nil {
				t.Fatal(err)
			}
			defer l.files.Close()
			profile, said := l.commands(t.Context(), config.Plugin{Name: "it", Builtin: "process", Sandbox: tt.sandbox})
			if said.Tier != tt.tier || !strings.Contains(said.String(), tt.words) {
				t.Errorf("got %+v, %s", said, said)
			}
			const way = "To run them with all the rights of your user say sandbox: {mode: off} in the entry of the plugin it"
			if (profile.Refused != "") != (tt.tier == "") || !strings.Contains(profile.Refused, tt.refused) || tt.tier == "" && (!strings.Contains(profile.Refused, way) || said.Reason != profile.Refused) {
				t.Errorf("refused: %s; said %+v", profile.Refused, said)
			}
			if (profile.Policy != nil) != (tt.tier == sandbox.Strict) {
				t.Fatalf("policy %+v", profile.Policy)
			}
			if p := profile.Policy; p != nil {
				want := sandbox.Limits{Memory: commandMemory, Processes: commandProcesses, Files: commandFiles}
				if tt.sandbox.Limits != (config.SandboxLimits{}) {
					want = sandbox.Limits(limits)
				}
				if p.Profile != sandbox.Command || !slices.Equal(p.Write, []string{root}) || !slices.Equal(p.Read, tt.sandbox.Read) || p.Network != tt.sandbox.Network ||
					p.Limits != want || !slices.Equal(p.Protect, []string{root + "/.git/hooks", root + "/.git/config"}) {
					t.Errorf("got %+v", p)
				}
			}
			if tt.sandbox.Mode == config.Off && asked > 0 {
				t.Error("the machine was asked for what is not used")
			}
		})
	}
}

// What git would run is protected where it is, and nothing outside of the root is shown to a
// command because a link of the repository leads there.
//
// Seen to fail: with a link out of the root followed; with the file of a worktree left to be written.
func TestProtectedOfARepository(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	made := func(name string, lay func(root string) error) string {
		root := filepath.Join(dir, name)
		if err := os.MkdirAll(root, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := lay(root); err != nil {
			t.Fatal(err)
		}
		return root
	}
	if err := os.MkdirAll(dir+"/other/hooks", 0o700); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		lay  func(root string) error
		want []string // below the root
	}{
		"none":       {func(string) error { return nil }, []string{".git/hooks", ".git/config"}},
		"a worktree": {func(root string) error { return os.WriteFile(root+"/.git", nil, 0o600) }, []string{".git"}},
		"elsewhere in it": {func(root string) error {
			if err := os.MkdirAll(root+"/real/hooks", 0o700); err != nil {
				return err
			}
			return os.Symlink("real", root+"/.git")
		}, []string{".git/hooks", "real/hooks", ".git/config"}},
		"outside": {func(root string) error { return os.Symlink(dir+"/other", root+"/.git") }, []string{".git/hooks", ".git/config"}},
	} {
		root := made(name, tt.lay)
		var want []string
		for _, path := range tt.want {
			want = append(want, filepath.Join(root, path))
		}
		if got := protected(root); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
