package laws

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/state"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// callAs is a call of an agent.
func (w *world) callAs(agent, name, input string) ended {
	r := w.request(name, input)
	r.Identity.Agent = agent
	return w.callIn(context.Background(), w.Capture(), r)
}

// A child is never freer than who started it: what one file denies, no other file gives back, for a child's name or for
// everybody; what is denied to the child alone, its parent may; and nothing widens what was approved for neither. In one
// file the later rule counts, also one that names an agent, since that is one person's word. Seen to fail: with the
// laxest file winning.
func TestCaseC17ChildScopes(t *testing.T) {
	s := settings{
		rules:   []rule{deny("edit", "parent/*"), allow("edit", "open/*"), allow("edit", "own/*")},
		project: []rule{allow("edit", "parent/*").of("child"), allow("edit", "*"), deny("edit", "own/*").of("child"), deny("edit", "theirs/*")},
	}
	everyTransportWith(t, s, func(t *testing.T, w *world) {
		w.filesystem()
		w.declines()
		for _, tt := range []struct {
			path          string
			parent, child tool.Kind // "" is allowed
		}{
			{"parent/f", tool.KindDenied, tool.KindDenied}, {"open/f", "", ""}, {"own/f", "", tool.KindDenied}, {"theirs/f", tool.KindDenied, tool.KindDenied},
		} {
			for agent, kind := range map[string]tool.Kind{"a": tool.KindDenied, "child": tt.child} {
				if agent == "a" {
					kind = tt.parent
				}
				e := w.callAs(agent, "write", at(tt.path))
				if got := e.String(); kind == "" && e.Status != tool.Completed || kind != "" && !strings.HasPrefix(got, "rejected, "+string(kind)) {
					t.Errorf("%s, %s: got %s, want %q", agent, tt.path, got, kind)
				}
			}
		}
		w.approve(service.ActionEdit, "filesystem", "*")
		w.want(w.callAs("child", "write", at("parent/f")), "rejected, denied, …")
		w.want(w.callAs("child", "write", at("own/f")), "rejected, denied, …")
	})
}

// A plugin from outside is judged by what it was granted and under the actions of the services: it has no way to write,
// may not assert somebody else's action, and reads nothing that is denied, whatever it asserts. Seen to fail: with
// services that do not ask.
func TestCaseC17ThroughTheServices(t *testing.T) {
	rules := []rule{allow("a/x", "*"), deny("read", "secret/*"), ask("read", "asked"), deny("edit", "*")}
	everyTransportWith(t, settings{grants: []service.Grant{service.GrantFileSystemRead}, rules: rules}, func(t *testing.T, w *world) {
		w.peer("a").register(map[string]spec{"x": {Says: "x"}})
		w.declines()
		w.write("secret/k", "SECRET")
		w.write("asked", "SECRET")
		w.write("f", "text")
		edit := order{Do: "ask", Requests: []tool.PermissionRequest{{Action: service.ActionEdit, Resources: []string{"f"}}}}
		e := w.call("x", edit)
		if w.over == fake { // which holds the gate itself
			w.want(e, `rejected, denied, ran true: edit of "f" is denied: plugin a may assert only its own actions, a/…`)
		} else {
			w.want(e, "error, internal, ran true: …") // the service is not there
			if !strings.Contains(e.cause(), "permission") {
				t.Errorf("the operator reads %q, want that it was not granted", e.cause())
			}
		}
		w.want(w.call("x", order{Do: "edit", Paths: []string{"f"}}), map[bool]string{true: "rejected, denied, …", false: "error, internal, …"}[w.over == fake])
		if got := w.wrote(); len(got) > 0 {
			t.Errorf("wrote %q", got)
		}
		w.want(w.call("x", order{Do: "read", Text: "f"}), `completed: "text"…`)
		w.want(w.call("x", order{Do: "read", Text: "secret/k"}), `rejected, denied, ran true: read of "secret/k" is denied…`)
		w.want(w.call("x", order{Do: "read", Text: "asked"}), `rejected, declined, ran true: read of "asked" was declined…`)
	})
}

// When the parent scope closes, the calls of its children end, those that wait for a person as well, and later ones fail.
// Seen to fail: with a request that is not withdrawn.
func TestCaseC17ClosedParent(t *testing.T) {
	everyTransportWith(t, queued(), func(t *testing.T, w *world) {
		w.process()
		captured := w.Capture()
		r := w.request("run", line("make"))
		r.Identity.Agent = "child"
		waiting := w.beginIn(captured, r)
		id := w.pending(1)[0].ID
		if err := w.scope.Close(context.Background()); err != nil {
			t.Error(err)
		}
		w.want(waiting.wait(t), "rejected, unavailable, ran true: …")
		w.pending(0)
		if _, err := w.queue.Reply(context.Background(), id, says(permission.Once)); !errors.Is(err, permission.ErrNotPending) {
			t.Errorf("answered after the closing: %v", err)
		}
		w.want(w.callIn(context.Background(), captured, w.request("run", line("make"))), "rejected, unavailable, ran false: …")
		if got := w.ran(); len(got) > 0 {
			t.Errorf("ran %q", got)
		}
	})
}

// A denied file is denied by each of its names that leads over a link, for a tool that asks and for one that does not,
// and moving it is denied as well. Two names of one file that are not links but equals are judged by the one that is
// used: nothing in a filesystem says what the other one is. Seen to fail: with the spelled path judged alone.
func TestCaseC18Aliases(t *testing.T) {
	rules := []rule{allow("*", "*"), deny("read", "secret/**"), deny("edit", "secret/**"), deny("read", "alias/**")}
	everyTransportWith(t, settings{grants: services(), rules: rules}, func(t *testing.T, w *world) {
		w.filesystem()
		w.peer("a").register(map[string]spec{"outside": {Does: "read"}})
		w.write("secret/k", "SECRET")
		w.write("secret/deep/k", "SECRET")
		w.write("open/k", "text")
		for name, target := range map[string]string{
			"s2": "secret", "s3": "s2", "open/up": "../secret", "parent": ".", "file": "secret/k", "open/twice": "up/k", "alias": "open",
		} {
			if err := os.Symlink(target, filepath.Join(w.root, name)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Link(filepath.Join(w.root, "secret", "k"), filepath.Join(w.root, "hk")); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{
			"secret/k", "s2/k", "s3/k", "open/up/k", "parent/secret/k", "parent/parent/s2/deep/k", "file", "open/twice", "parent/open/up/deep/k",
		} {
			for _, name := range []string{"look", "raw", "outside"} {
				if e := w.callRaw(name, at(path)); !strings.HasPrefix(e.String(), "rejected, denied, ran true: read of ") || strings.Contains(fmt.Sprint(e), "SECRET") {
					t.Errorf("%s %s: got %s", name, path, e)
				}
			}
			for _, paths := range [][]string{{path}, {path, "x"}, {"x", path}} {
				w.want(w.callRaw("write", at(paths...)), "rejected, denied, …")
			}
		}
		for _, name := range []string{"look", "raw", "outside"} {
			w.want(w.callRaw(name, at("alias/k")), "rejected, denied, …") // denied as it is spelled, allowed as it is resolved
			w.want(w.callRaw(name, at("open/k")), `completed: "text"…`)
			w.want(w.callRaw(name, at("hk")), `completed: "SECRET"…`)
		}
		if got := w.wrote(); len(got) > 0 {
			t.Errorf("wrote %q", got)
		}
	})
}

// However a denied path is spelled, its content is not given. Seen to fail: with services that do not ask.
func TestCaseC19Spellings(t *testing.T) {
	everyTransportWith(t, settings{grants: services(), rules: []rule{allow("*", "*"), deny("read", ".env"), deny("edit", ".env")}}, func(t *testing.T, w *world) {
		w.filesystem()
		w.peer("a").register(map[string]spec{"outside": {Does: "read"}})
		w.write(".env", "SECRET")
		w.write("a/b/f", "text")
		spellings := []string{
			".env", "./.env", "a/../.env", ".//.env", "file://" + w.root + "/.env", "file:.env", ".ENV", ".Env", ".env/", ".env/.", ".env//", ".env\x00x",
			"\x00.env", w.root + "/.env", w.root + "//a/../.env", "a/b/../../.env", "a/./b/.././../.env", "../" + filepath.Base(w.root) + "/.env",
			"nothing/../.env", "./a/.././/./.env", `.\.env`, "%2eenv", ".env ", ".env\n", "~/.env", "/proc/self/cwd/.env", "$PWD/.env",
		}
		for _, path := range spellings {
			for _, name := range []string{"look", "raw", "outside"} {
				e := w.callRaw(name, at(path))
				if e.Status == tool.Completed || strings.Contains(fmt.Sprintf("%s %+v", e, e.Settlement), "SECRET") {
					t.Errorf("%s %q: got %s", name, path, e)
				}
			}
			if filepath.Clean(path) == ".env" {
				if e := w.callRaw("write", at(path)); e.Status == tool.Completed {
					t.Errorf("write %q: got %s", path, e)
				}
			}
		}
		if got := w.wrote(); len(got) > 0 {
			t.Errorf("wrote %q", got)
		}
		for _, d := range w.deeds("") {
			if d.What == "read" && strings.Contains(d.Text, "SECRET") {
				t.Errorf("a tool saw the content: %+v", d)
			}
		}
		w.want(w.callRaw("look", at("a/b/../b/f")), `completed: "text"…`)
	})
}

// A rule that cannot match is a mistake with a file and a line, and no load without it; a host that runs keeps the rules
// that it has. Seen to fail: with the mistakes of actions ignored.
func TestCaseC21MalformedDeny(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, home := t.TempDir(), t.TempDir()
	file, deeds := filepath.Join(dir, "toolhost.yaml"), filepath.Join(dir, "deeds")
	if err := os.Mkdir(deeds, 0o700); err != nil {
		t.Fatal(err)
	}
	good := fmt.Sprintf("plugins: {process: {settings: {dir: %q}, sandbox: {fs: {write: [%q]}}}}\npermissions:\n- {action: shell, resource: \"*\", effect: allow}\n", deeds, deeds)
	load := func(text string) (*config.Config, error) {
		t.Helper()
		if err := os.WriteFile(file, []byte(good+text), 0o600); err != nil {
			t.Fatal(err)
		}
		return config.Load(t.Context(), config.Options{
			Dir: dir, File: file, Builtins: []string{"process"}, Getenv: func(name string) string { return map[string]string{"HOME": home}[name] },
		})
	}
	cfg, err := load("- {action: shell, resource: \"rm *\", effect: deny}\n")
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.Open(t.Context(), cfg, host.Options{
		Launcher: launcher(), Builtins: map[string][]string{"process": {exe, builtinRole}}, State: newState(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	l, err := h.Location(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	call := func(name, input string) ended {
		s, err := l.Capture().Call(t.Context(), registry.Request{
			Identity: tool.Identity{Session: "s", Agent: "a", Message: "m", Call: "c"}, Name: name, Input: []byte(input),
		})
		return ended{s, err, name}
	}
	if e := call(controlName, string(quoted(command{Register: "r", Tools: map[string]spec{"run": {Does: "run"}}}))); e.Status != tool.Completed {
		t.Fatalf("register: %s %s", e, e.cause())
	}
	for _, c := range []struct{ rule, line, want string }{
		{`{action: "bash(", resource: "rm *", effect: deny}`, "4:12", `action "bash(" is unknown`},
		{`{action: "", resource: "rm *", effect: deny}`, "4:12", "empty"},
		{`{action: shell, resource: "", effect: deny}`, "4:29", "empty"},
		{`{action: "proc.rum:*", resource: "*", effect: deny}`, "4:12", `action "proc.rum:*" is unknown`},
		{`{action: edit, resource: "/etc/*", effect: deny}`, "4:28", `matches no path`},
		{`{action: shell, resource: "rm *", effect: dney}`, "4:45", `did you mean "deny"`},
		{`{action: shell, resource: "rm *"}`, "4:3", "no effect"},
		{`{action: shell, resource: "rm *", effect: deny`, "", ""},
	} {
		_, err := load("- " + c.rule + "\n")
		if err == nil || !strings.Contains(err.Error(), "toolhost.yaml:"+c.line) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want it at %s: %s", c.rule, err, c.line, c.want)
		}
		if e := call("run", line("rm f")); !strings.HasPrefix(e.String(), "rejected, denied, ran true: ") {
			t.Errorf("with a bad edit on disk: got %s, want what was denied before", e)
		}
		if e := call("run", line("ls")); e.Status != tool.Completed {
			t.Errorf("with a bad edit on disk: got %s", e)
		}
	}
}

// newState is a state of the test's own.
func newState(t *testing.T) *state.Store {
	t.Helper()
	s := state.New(state.Options{Dir: filepath.Join(t.TempDir(), "state")})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// No command is allowed for its name: without rules each is asked for. An allow for "git log*" covers neither what
// stands in front of log, nor an option of log that writes a file or runs a program, and neither does one for "git *".
// Seen to fail: with git's own options taken as harmless.
func TestCaseC22OptionsBehindAName(t *testing.T) {
	everyTransport(t, func(t *testing.T, w *world) {
		w.process()
		w.declines()
		neverRuns(w, "git status", "git log -p", "ls", "pwd", "true", "echo x", "cat f", ":", "cd", "A=1", "git -p show")
		if asked := w.approver.questions(); len(asked) != 11 {
			t.Errorf("asked %q, want about each", asked)
		}
		own := newWorld(t, w.over, t.TempDir(), settings{rules: []rule{allow("shell", "git log*"), allow("shell", "git status"), allow("shell", "git diff"), allow("shell", "git diff -- *")}})
		own.process()
		own.declines()
		runs(own, "git log -p", "git log", "git status", "git diff", "git diff -- f")
		neverRuns(own, "git -c core.pager='touch p' log", "git --exec-path=. status", "git -p show", "git diff --output=p",
			"git -C .. log", "git --git-dir=x log", "GIT_PAGER='touch p' git log", "git status --porcelain", "env GIT_PAGER=x git log",
			"git log > p", "PATH=. git log", "git log $(touch p)", "git log | sh", "./git log", "/tmp/git log", "git  -p log", "git log --output=p", "git log --ou p")
		if w.over != fake { // the rest is about the rules alone
			return
		}
		all := newWorld(t, w.over, t.TempDir(), settings{rules: []rule{allow("shell", "git *")}})
		all.process()
		all.declines()
		runs(all, "git log -p", "git status")
		neverRuns(all, "git -c core.pager='touch p' log", "git --exec-path=. status", "git -p show", "git diff --output=p", "git --config-env=core.pager=P log")
	})
}

// Rules, assertions and approvals speak of plugin and authored name, which no rewriting of separators mixes up. Seen to
// fail: with the name that a model sees as the action, and with underscores matched as slashes.
func TestCaseC23CanonicalNames(t *testing.T) {
	everyTransport(t, func(t *testing.T, plain *world) {
		for n, tt := range []struct {
			rule     rule
			c, other string // how the calls of a_b/c and of a/b_c end
		}{
			{deny("a_b/c", "*"), "rejected, denied", "completed"}, {deny("a/b_c", "*"), "completed", "rejected, denied"},
			{deny("a/*", "*"), "completed", "rejected, denied"}, {deny("a_b/*", "*"), "rejected, denied", "completed"},
			{deny("a_b_c", "*"), "completed", "completed"}, {deny("a/b/c", "*"), "completed", "completed"},
			{deny("c", "*"), "completed", "completed"}, {deny("b_c", "*"), "completed", "completed"},
			{deny("a?b/c", "*"), "rejected, denied", "completed"}, {deny("*/c", "*"), "rejected, denied", "completed"},
		} {
			if n > 0 && plain.over == process {
				break // the rest is about the rules alone
			}
			w := newWorld(t, plain.over, t.TempDir(), settings{grants: services(), rules: []rule{tt.rule}})
			w.peer("a_b").register(map[string]spec{"c": {Says: "c"}})
			w.peer("a").register(map[string]spec{"b_c": {Says: "b_c"}})
			for name, want := range map[string]string{"c": tt.c, "b_c": tt.other} {
				if got := w.call(name, order{}).String(); !strings.HasPrefix(got, want) {
					t.Errorf("deny %s, call of %s: got %s, want %s", tt.rule.action, name, got, want)
				}
			}
			if tt.rule.action != "a_b_c" {
				continue
			}
			if got := w.approver.questions(); !slices.Equal(slices.Sorted(slices.Values(got)), []string{"a/b_c *", "a_b/c *"}) {
				t.Errorf("asked %q", got)
			}
			w.want(w.call("c", order{Do: "assert", Action: "a/b_c", Text: "f"}), "rejected, denied, …")
			w.want(w.call("b_c", order{Do: "assert", Action: "a_b/c", Text: "f"}), "rejected, denied, …")
		}
		w := newWorld(t, plain.over, t.TempDir(), queued())
		w.peer("a_b").register(map[string]spec{"c": {Says: "c"}})
		w.peer("a").register(map[string]spec{"b_c": {Says: "b_c"}})
		asked, e := w.answered("c", "", says(permission.Always))
		w.want(e, `completed: "c"…`)
		if !slices.Equal(asked, []string{"a_b/c *"}) {
			t.Errorf("asked %q", asked)
		}
		w.wantAsked("c", "")
		w.wantAsked("b_c", "", "a/b_c *")
	})
}
