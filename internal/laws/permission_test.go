package laws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// Of each file the last rule that matches counts, and one without a match abstains; across files the strictest answer
// holds; then the defaults speak, and then a person is asked. Seen to fail: with the first rule winning, and with the
// laxest file winning.
func TestLaw31Rules(t *testing.T) {
	s := settings{
		rules: []rule{
			allow("edit", "src/*"), deny("edit", "src/gen/*"), allow("edit", "src/gen/mine*"), allow("shell", "make*"), ask("edit", "asked"),
		},
		project: []rule{deny("edit", "src/vendor/*"), ask("shell", "make deploy*"), allow("edit", "src/gen/*"), allow("edit", "asked"), allow("edit", "docs/*")},
	}
	everyTransportWith(t, s, func(t *testing.T, w *world) {
		w.filesystem()
		w.process()
		w.write("f", "text")
		w.write("sub/.env", "text")
		w.write("sub/.env.example", "text")
		w.declines()
		for _, tt := range []struct{ name, input, want string }{
			{"write", at("src/a/b"), "completed"}, {"write", at("src/gen/x"), "rejected, denied"}, {"write", at("src/gen/mine"), "completed"},
			{"write", at("src/gen/mine\nx"), "completed"}, {"write", at("src/vendor/x"), "rejected, denied"}, {"write", at("docs/x"), "completed"},
			{"write", at("asked"), "rejected, declined"}, {"write", at("other"), "rejected, declined"}, {"write", at("src"), "rejected, declined"},
			{"run", line("make all"), "completed"}, {"run", line("make deploy"), "rejected, declined"}, {"run", line("ls"), "rejected, declined"},
			{"look", at("f"), "completed"}, {"look", at("sub/.env"), "rejected, declined"}, {"look", at("sub/.env.example"), "completed"},
		} {
			if got := w.callRaw(tt.name, tt.input).String(); !strings.HasPrefix(got, tt.want) {
				t.Errorf("%s %s: got %s, want %s", tt.name, tt.input, got, tt.want)
			}
		}
	})
}

// What config denies is denied whoever says yes: the approver, what was saved, a hook; and the services refuse it
// themselves, also when a plugin asserted nothing, or something else. Seen to fail: with an approval that beats a deny,
// and with services that do not ask.
func TestLaw32DenyIsAbsolute(t *testing.T) {
	everyTransport(t, func(t *testing.T, plain *world) {
		w := newWorld(t, plain.over, t.TempDir(), settings{
			grants: services(), rules: []rule{deny("edit", "f"), deny("shell", "rm *"), deny("read", "secret")},
			hooks: registry.Hooks{
				Before: []registry.BeforeHook{{Name: "yes", Run: func(context.Context, registry.HookCall) (json.RawMessage, error) { return nil, nil }}},
				After: []registry.AfterHook{{Name: "yes", Run: func(_ context.Context, _ registry.HookCall, s tool.Settlement, _ []string) (tool.Settlement, error) {
					return s, errors.New("it is allowed")
				}}},
			},
		})
		w.filesystem()
		w.process()
		w.peer("a").register(map[string]spec{"x": {Says: "x"}})
		w.write("secret", "SECRET")
		w.write("other", "text")
		for _, action := range []string{service.ActionEdit, service.ActionRead} {
			w.approve(action, "filesystem", "*")
		}
		w.approve(service.ActionShell, "process", "rm f")
		before := len(w.approver.questions())
		w.want(w.callRaw("write", at("f")), "rejected, denied, …")
		w.want(w.callRaw("write", at("g")), `completed: "wrote"…`) // so the approval is one
		w.want(w.callRaw("run", line("rm f")), "rejected, denied, …")
		w.want(w.callRaw("look", at("secret")), "rejected, denied, …")
		w.want(w.callRaw("raw", at("secret")), "rejected, denied, …")
		for _, q := range w.approver.questions()[before:] {
			t.Errorf("asked %q", q)
		}
		for _, o := range []order{{Do: "read", Text: "secret"}, {Do: "read", Text: "./secret"}} {
			w.want(w.call("x", o), "rejected, denied, …")
		}
		w.want(w.call("x", order{Do: "read", Text: "other"}), `completed: "text"…`)
		if wrote, ran := w.wrote(), w.ran(); !slices.Equal(wrote, []string{"g"}) || len(ran) > 0 {
			t.Errorf("wrote %q, ran %q", wrote, ran)
		}
		for _, d := range w.deeds("") {
			if strings.Contains(d.Text, "SECRET") {
				t.Errorf("a tool saw what is denied: %+v", d)
			}
		}
	})
}

// One resource decides for all of its request; no resource is never a yes; requests are made in order up to the first
// no, and are not asked again in their call. Who is not built in asserts only what is his. Seen to fail: with the first
// resource deciding, with answers forgotten, with an empty list accepted, and with any action asserted by anybody.
func TestLaw33Requests(t *testing.T) {
	everyTransportWith(t, settings{grants: services(), rules: []rule{allow("edit", "ok*"), deny("edit", "no"), deny("a/x", "no")}}, func(t *testing.T, w *world) {
		w.filesystem()
		w.peerOf(registry.Owner{Name: "own", Builtin: true}).register(map[string]spec{"asks": {Does: "ask"}})
		w.peer("a").register(map[string]spec{"x": {Does: "ask"}, "needs": {Says: "x", Requests: []tool.PermissionRequest{
			{Action: "a/needs", Resources: []string{"first"}}, {Action: "a/needs", Resources: []string{"ok", "second"}}, {Action: "a/needs", Resources: []string{"third"}},
		}}})
		w.approver.answers(func(_ context.Context, r permission.Request) (permission.Reply, error) {
			return permission.Reply{Granted: !strings.Contains(strings.Join(r.Resources, ","), "second")}, nil
		})
		asks := func(action string, resources ...string) tool.PermissionRequest {
			return tool.PermissionRequest{Action: action, Resources: resources}
		}
		for _, tt := range []struct {
			name     string
			requests []tool.PermissionRequest
			want     string
			asked    string
		}{
			{"asks", []tool.PermissionRequest{asks("edit", "ok1", "ok2")}, `completed: "went on"…`, ""},
			{"asks", []tool.PermissionRequest{asks("edit", "ok1", "no", "g")}, `rejected, denied, ran true: edit of "no" is denied…`, ""},
			{"asks", []tool.PermissionRequest{asks("edit", "g", "no")}, `rejected, denied, ran true: edit of "no" is denied…`, ""},
			{"asks", []tool.PermissionRequest{asks("edit", "ok1", "g", "h")}, `completed: "went on"…`, "edit g,h"},
			{"asks", []tool.PermissionRequest{asks("edit")}, "rejected, denied, ran true: …", ""},
			{"asks", []tool.PermissionRequest{asks("", "f")}, "rejected, denied, ran true: …", ""},
			{"asks", []tool.PermissionRequest{asks("edit", "../f")}, "rejected, denied, ran true: …", ""},
			{"asks", []tool.PermissionRequest{asks("edit", "g"), asks("edit", "second"), asks("edit", "h")}, "rejected, declined, ran true: …", "edit g; edit second"},
			{"asks", []tool.PermissionRequest{asks("edit", "g"), asks("edit", "g"), asks("edit", "h", "g"), asks("shell", "g")}, `completed: "went on"…`, "edit g; edit h; shell g"},
			{"x", []tool.PermissionRequest{asks("a/x", "f")}, `completed: "went on"…`, "a/x *; a/x f"},
			{"x", []tool.PermissionRequest{asks("a/x", "f", "no")}, "rejected, denied, ran true: …", "a/x *"},
			{"x", []tool.PermissionRequest{asks("a/x")}, "rejected, denied, ran true: …", "a/x *"},
			{"x", []tool.PermissionRequest{asks("read", "f")}, "rejected, denied, ran true: …", "a/x *"},
			{"x", []tool.PermissionRequest{asks("own/asks", "f")}, "rejected, denied, ran true: …", "a/x *"},
			{"x", []tool.PermissionRequest{asks("a/", "f")}, "rejected, denied, ran true: …", "a/x *"},
			{"x", []tool.PermissionRequest{asks("ab/x", "f")}, "rejected, denied, ran true: …", "a/x *"},
			{"x", []tool.PermissionRequest{asks("*", "f")}, "rejected, denied, ran true: …", "a/x *"},
			{"needs", nil, "rejected, declined, ran false: …", "a/needs first; a/needs ok,second"},
		} {
			before := len(w.approver.questions())
			w.want(w.call(tt.name, order{Requests: tt.requests}), tt.want)
			if got := strings.Join(w.approver.questions()[before:], "; "); got != tt.asked {
				t.Errorf("%s %v: asked %q, want %q", tt.name, tt.requests, got, tt.asked)
			}
		}
	})
}

// A saved approval is for the patterns that were shown, one root, one plugin and its digest, one definition and one
// action, until it is revoked or has expired. Seen to fail: with digest, definition, root or expiry not looked at.
func TestLaw34SavedApprovals(t *testing.T) {
	everyTransportWith(t, queued(), func(t *testing.T, w *world) {
		always := func(w *world, name string, a permission.Answer) {
			t.Helper()
			if asked, e := w.answered(name, "", a); len(asked) != 1 || e.Status != tool.Completed {
				t.Fatalf("%s: asked %q, %s", name, asked, e)
			}
		}
		a := registry.Owner{Name: "a", Digest: "one"}
		x := map[string]spec{"x": {Says: "x"}, "y": {Says: "y"}}
		p := w.peerOf(a)
		first := p.register(x)
		always(w, "x", says(permission.Always))
		w.wantAsked("x", "")
		w.wantAsked("y", "", "a/y *") // another action

		first.close()
		second := p.register(map[string]spec{"x": {Says: "x", Description: "it does more now"}, "y": {Says: "y"}})
		w.wantAsked("x", "", "a/x *") // another definition
		second.close()
		third := p.register(x)
		w.wantAsked("x", "")
		third.close()

		other := w.peerOf(registry.Owner{Name: "a", Digest: "two"})
		fourth := other.register(x)
		w.wantAsked("x", "", "a/x *") // another digest
		fourth.close()
		unknown := w.peerOf(registry.Owner{Name: "a"})
		fifth := unknown.register(x)
		r := w.begin(w.request("x", ""))
		if shown := w.pending(1)[0]; len(shown.Request.Save) > 0 { // of nobody knows what
			t.Errorf("without a digest %q can be saved", shown.Request.Save)
		} else if _, err := w.queue.Reply(context.Background(), shown.ID, says(permission.Always)); !errors.Is(err, permission.ErrNotSavable) {
			t.Errorf("saved: %v", err)
		}
		w.reply(w.pending(1)[0].ID, says(permission.Once))
		w.want(r.wait(t), `completed: "x"…`)
		fifth.close()
		w.Forget("a")
		namesake := w.peerOf(registry.Owner{Name: "b", Digest: "one"})
		sixth := namesake.register(x)
		w.wantAsked("x", "", "b/x *") // another plugin
		sixth.close()
		w.Forget("b")

		elsewhere := newWorld(t, w.over, t.TempDir(), settings{queued: true, shared: w.state})
		elsewhere.peerOf(a).register(x)
		elsewhere.wantAsked("x", "", "a/x *") // another root

		w.peerOf(a).register(x)
		w.wantAsked("x", "")
		if n := len(w.saved()); n != 1 {
			t.Fatalf("%d approvals are saved, want 1", n)
		}
		if ok, err := w.state.RevokeApproval(context.Background(), w.saved()[0].ID); !ok || err != nil {
			t.Fatalf("revoke: %v, %v", ok, err)
		}
		w.wantAsked("x", "", "a/x *")

		soon := says(permission.Always)
		soon.Expires = 300 * time.Millisecond
		start := time.Now()
		always(w, "x", soon)
		asked, e := w.answered("x", "", says(permission.Once))
		w.want(e, `completed: "x"…`)
		if len(asked) > 0 && time.Since(start) < soon.Expires {
			t.Errorf("asked %q before it expired", asked)
		}
		time.Sleep(time.Until(start.Add(soon.Expires + 50*time.Millisecond)))
		w.wantAsked("x", "", "a/x *")
	})
}

// Once settles one request. Always saves what was shown and then settles what that allows, and nothing else. Reject
// settles one, and all of a session are rejected at once by a command of their own. A feedback is told to the model.
// Seen to fail: with the feedback lost.
func TestLaw35Replies(t *testing.T) {
	everyTransportWith(t, queued(), func(t *testing.T, w *world) {
		w.filesystem()
		begin := func(session string, paths ...string) running {
			r := w.request("write", at(paths...))
			r.Identity.Session = session
			return w.begin(r)
		}
		one := begin("s", "one")
		if released := w.reply(w.pending(1)[0].ID, says(permission.Once)); len(released) > 0 {
			t.Errorf("once released %q", released)
		}
		w.want(one.wait(t), `completed: "wrote"…`)
		w.wantAsked("write", at("one"), "edit one")
		if saved := w.saved(); len(saved) > 0 {
			t.Errorf("once and reject saved %+v", saved)
		}

		both, first, second, third := begin("s", "f", "g"), begin("t", "f"), begin("u", "g"), begin("s", "h")
		w.pending(4)
		if released := w.reply(w.about("f,g").ID, says(permission.Always)); len(released) != 2 {
			t.Errorf("released %q, want those about f and about g", released)
		}
		for _, r := range []running{both, first, second} {
			w.want(r.wait(t), `completed: "wrote"…`)
		}
		w.pending(1)
		w.reply(w.about("h").ID, permission.Answer{Kind: permission.Reject, Feedback: "write to i"})
		w.want(third.wait(t), `rejected, declined, ran true: edit of "h" was declined: write to i`)

		mine, same, theirs := begin("s", "i"), begin("s", "i"), begin("t", "i")
		w.pending(2)
		eventually(t, "both of the session", func() bool { return w.aboutIn("s", "i").Behind == 1 })
		if n := w.queue.RejectSession("s", "stop", "tester"); n != 2 {
			t.Errorf("rejected %d, want 2", n)
		}
		w.want(mine.wait(t), `rejected, declined, ran true: edit of "i" was declined: stop`)
		w.want(same.wait(t), `rejected, declined, ran true: edit of "i" was declined: stop`)
		w.reply(w.pending(1)[0].ID, says(permission.Once))
		w.want(theirs.wait(t), `completed: "wrote"…`)
	})
}

// A refused assertion ends the call as rejected, though the plugin goes on and returns success; the settlement says
// whether it had begun. Seen to fail: with a refusal that success masks.
func TestLaw36DeclineIsNotText(t *testing.T) {
	everyTransportWith(t, settings{grants: services(), rules: []rule{deny("a/x", "denied"), allow("a/x", "fine"), deny("a/needs", "*")}}, func(t *testing.T, w *world) {
		w.peer("a").register(map[string]spec{
			"x": {Says: "x", Requests: []tool.PermissionRequest{{Action: "a/x", Resources: []string{"fine"}}}}, "needs": {Says: "x"},
		})
		w.write("private", "SECRET")
		w.write(".env", "SECRET")
		for _, kind := range []tool.Kind{tool.KindDeclined, tool.KindTimedOut, tool.KindNobodyToAsk, tool.KindCancelled} {
			w.approver.answers(func(context.Context, permission.Request) (permission.Reply, error) {
				return permission.Reply{Kind: kind}, nil
			})
			e := w.call("x", order{Do: "assert and go on", Text: "f"})
			w.want(e, "rejected, "+string(kind)+`, ran true: a/x of "f" …`)
			if d := w.deeds(e.call); len(d) != 2 || d[1].Text == "<nil>" || e.Structured != nil || e.Content != nil {
				t.Errorf("%s: it did %+v and gave %+v, want that it was told and went on for nothing", kind, d, e.Settlement)
			}
		}
		w.want(w.call("x", order{Do: "assert and go on", Text: "denied"}), `rejected, denied, ran true: a/x of "denied" is denied…`)
		w.want(w.call("x", order{Do: "assert and go on", Text: "fine"}), `completed: "went on"…`)
		e := w.call("needs", order{})
		w.want(e, "rejected, denied, ran false: …")
		if got := w.did(e.call); got != "" {
			t.Errorf("it did %s", got)
		}
	})
}

// An approver that fails, or panics, or does not heed the end of the call is a no, and holds nothing up; waiting for one
// does not spend the call's deadline. Seen to fail: with a yes that counts beside an error.
func TestLaw37FailingApprovers(t *testing.T) {
	everyTransportWith(t, settings{deadline: 500 * time.Millisecond}, func(t *testing.T, w *world) {
		w.process()
		for _, tt := range []struct {
			answer func(context.Context, permission.Request) (permission.Reply, error)
			want   string
		}{
			{func(context.Context, permission.Request) (permission.Reply, error) {
				return permission.Reply{Granted: true}, errors.New("the line is dead")
			}, `rejected, nobody_to_ask, ran true: shell of "make" needs approval, and there is nobody to ask: the question could not be asked: the line is dead`},
			{func(context.Context, permission.Request) (permission.Reply, error) { panic("broken") }, "rejected, nobody_to_ask, ran true: …"},
			{func(context.Context, permission.Request) (permission.Reply, error) {
				return permission.Reply{Kind: "nonsense"}, nil
			}, "rejected, declined, ran true: …"},
		} {
			w.approver.answers(tt.answer)
			w.want(w.callRaw("run", line("make")), tt.want)
		}
		if got := w.ran(); len(got) > 0 {
			t.Errorf("ran %q", got)
		}
		w.approver.answers(func(context.Context, permission.Request) (permission.Reply, error) {
			time.Sleep(700 * time.Millisecond)
			return permission.Reply{Granted: true}, nil
		})
		w.want(w.callRaw("run", line("make")), `completed: "ran"…`)

		deaf := make(chan struct{})
		w.approver.answers(func(context.Context, permission.Request) (permission.Reply, error) {
			<-deaf
			return permission.Reply{Granted: true}, nil
		})
		asked := len(w.approver.questions())
		r := w.begin(w.request("run", line("make deaf")))
		eventually(t, "the question", func() bool { return len(w.approver.questions()) > asked })
		r.cancel(errors.New("enough"))
		w.want(r.wait(t), "interrupted, ran true: enough")
		close(deaf)
		if got := w.ran(); !slices.Equal(got, []string{"make"}) {
			t.Errorf("ran %q", got)
		}
	})
}

// A redirection is judged as an edit of the file, from the directory in which the line runs. Seen to fail: with the
// directory not looked at.
func TestLaw38Redirections(t *testing.T) {
	everyTransportWith(t, settings{rules: []rule{allow("shell", "echo *"), allow("edit", "*"), deny("edit", "secret/*")}}, func(t *testing.T, w *world) {
		w.process()
		w.declines()
		in := func(directory, l string) ended {
			return w.callRaw("run", order{Command: l, Directory: directory}.String())
		}
		for _, tt := range []struct{ directory, line, want string }{
			{"", "echo a > f", "completed"}, {"", "echo a > secret/f", "rejected, denied"}, {"secret", "echo a > f", "rejected, denied"},
			{"secret", "echo a > ../f", "completed"}, {"sub", "echo a >> ../secret/f", "rejected, denied"}, {"sub", "echo a > " + w.root + "/secret/f", "rejected, denied"},
			{"", "echo a > ../f", "rejected, declined"}, {"", "echo a > $f", "rejected, declined"}, {"", "cd secret && echo a > f", "rejected, declined"},
		} {
			if got := in(tt.directory, tt.line).String(); !strings.HasPrefix(got, tt.want) {
				t.Errorf("%s: %s: got %s, want %s", tt.directory, tt.line, got, tt.want)
			}
		}
	})
}

// Searching leaves out what may not be read, listing what may not be listed, and both say how much that was. Seen to
// fail: with everything searched.
func TestLaw39LeftOut(t *testing.T) {
	rules := []rule{deny("read", "secret/*"), ask("read", "asked"), deny("list", "hidden*"), allow("*/search", "*")}
	everyTransportWith(t, settings{grants: services(), rules: rules}, func(t *testing.T, w *world) {
		w.write("secret/k", "needle")
		w.write("secret/l", "needle")
		w.write("asked", "needle")
		w.write("open/f", "needle")
		w.write("hidden/f", "needle")
		if err := os.Symlink("secret/k", w.root+"/link"); err != nil {
			t.Fatal(err)
		}
		names := []string{"outside"}
		w.filesystem()
		w.peer("a").register(map[string]spec{"outside": {Does: "search"}})
		names = append(names, "search")
		for _, name := range names {
			e := w.call(name, order{Text: "needle"})
			var f found
			if err := json.Unmarshal(e.Structured, &f); err != nil {
				t.Fatalf("%s: %s, %v", name, e, err)
			}
			want := found{
				Grep: []string{"hidden/f", "open/f"}, Glob: []string{"hidden/f", "open/f"},
				List: []string{"asked", "link", "open", "open/f", "secret", "secret/k", "secret/l"}, Denied: 3, GlobDenied: 3, ListDenied: 1,
			}
			if got, want := fmt.Sprintf("%+v", f), fmt.Sprintf("%+v", want); got != want {
				t.Errorf("%s:\n got %s\nwant %s", name, got, want)
			}
		}
	})
}
