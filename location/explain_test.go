package location_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/plugin/client"
	"github.com/toolhost/toolhost/plugin/sdk"
	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/state"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

type writing struct {
	Path string `json:"path"`
}

// writer is a plugin with a tool that prepares to write a file, one that looks at the
// file first, and one that says nothing of itself and writes one; all in the root.
func writer() sdk.Plugin {
	return sdk.Plugin{Name: "writer", Version: "1", Needs: []sdk.Service{sdk.FileSystemRead}, Activate: func(ctx context.Context, loc sdk.Location) error {
		files, err := loc.FileSystem()
		if err != nil {
			return err
		}
		write := func(path string) (string, error) {
			return "wrote", os.WriteFile(filepath.Join(loc.Root, path), nil, 0o600)
		}
		_, err = loc.Tools.Register(ctx, sdk.Tools{
			"write": sdk.NewPrepared("Write a file", func(_ context.Context, _ sdk.Call, in writing) (sdk.Preparation[string], error) {
				return sdk.Preparation[string]{
					Irreversible: true, Review: "writes " + in.Path, Targets: []string{in.Path},
					Requests: []sdk.PermissionRequest{{Resources: []string{in.Path, "log"}, Save: []string{"*"}}, {Action: "edit", Resources: []string{in.Path}}},
					Commit:   func(context.Context, sdk.Call) (string, error) { return write(in.Path) },
				}, nil
			}, func(_ context.Context, _ sdk.Call, in writing) (string, error) { return write(in.Path) }, sdk.Write),
			"rewrite": sdk.NewPrepared("Write a file again", func(ctx context.Context, _ sdk.Call, in writing) (sdk.Preparation[string], error) {
				root, err := files.ResolveRoot(ctx, in.Path)
				if err == nil {
					_, err = root.Read(ctx, sdk.ReadQuery{Limit: 1})
				}
				return sdk.Preparation[string]{}, err
			}, func(_ context.Context, _ sdk.Call, in writing) (string, error) { return write(in.Path) }),
			"scribble": sdk.New("Write", func(context.Context, sdk.Call, struct{}) (string, error) { return write("scribble") }),
		})
		return err
	}}
}

// nobody fails the test when it is asked, or told to save.
type nobody struct {
	permission.Memory
	t *testing.T
}

func (n *nobody) Ask(context.Context, permission.Request) (permission.Reply, error) {
	n.t.Error("an explanation was asked for")
	return permission.Reply{}, nil
}

// explainer is a Location with the filesystem tools and the writer, over rules, in
// which everything that a call leaves behind fails the test.
func explainer(t *testing.T, approvals *nobody, store *state.Store, lists ...permission.List) *location.Location {
	t.Helper()
	life := scope.New(context.Background(), "test")
	calls := store.OpenCalls()
	t.Cleanup(func() {
		if err := errors.Join(life.Close(context.Background()), calls.Close()); err != nil {
			t.Error(err)
		}
	})
	runDir, err := client.OpenRunDir(life)
	if err != nil {
		t.Fatal(err)
	}
	plugin := outside(t, "writer")
	plugin.Command[1], plugin.Grants, plugin.Override = "__writer", []service.Grant{service.GrantFileSystemRead}, []string{"write"}
	root := t.TempDir()
	l, err := location.Open(context.Background(), life, config.Location{
		Name: "here", Root: root, Plugins: []config.Plugin{{Name: "filesystem", Builtin: "filesystem"}, plugin},
		Policy: &permission.Policy{Root: root, Lists: lists, Defaults: permission.Defaults()},
	}, location.Options{
		Launcher: launcher, Tier: tier(life),
		RunDir:   runDir,
		Builtins: map[string][]string{"filesystem": {"/proc/self/exe", "__filesystem"}},
		Approver: approvals, Approvals: approvals, Calls: calls,
		Record: func(e state.AuditEntry) { t.Errorf("an explanation was recorded: %+v", e) },
		Log:    slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func explain(t *testing.T, l *location.Location, name, input string) location.Explanation {
	t.Helper()
	x, err := l.Explain(t.Context(), registry.Request{
		Identity: tool.Identity{Session: "s", Agent: "main", Message: "m", Call: "c"}, Name: name, Input: json.RawMessage(input),
	})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// A call is explained by what it asks for and what the rules and approvals say to that,
// and leaves no trace: nothing is asked, approved, recorded, in the journal, or changed.
//
// Seen to fail: with a plan that executes what is not built in; with the recorder of
// the engine kept; with the digest or the definition left out of the caller.
func TestLaw32ExplainedCalls(t *testing.T) {
	approvals := &nobody{t: t}
	store := state.New(state.Options{Dir: t.TempDir()})
	t.Cleanup(func() { _ = store.Close() })
	rule := func(action, resource string, effect permission.Effect, source string) permission.Rule {
		return permission.Rule{Action: parse(t, action), Resource: parse(t, resource), Effect: effect, Source: source}
	}
	l := explainer(t, approvals, store, permission.List{Rules: []permission.Rule{
		rule("read", "secret/*", permission.Deny, "user.yaml:3"), rule("writer/write", "log", permission.Allow, "user.yaml:4"),
	}})
	for path, text := range map[string]string{"a": "text", "secret/b": "text", ".env": "text"} {
		path = filepath.Join(l.Root(), path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("secret/b", filepath.Join(l.Root(), "link")); err != nil {
		t.Fatal(err)
	}
	write := explain(t, l, "write", `{"path":"x"}`)
	err := approvals.Save(t.Context(), permission.Approval{Patterns: []string{"*"}, ApprovalKey: permission.ApprovalKey{
		Root: l.Root(), Plugin: write.Plugin, Digest: write.Digest, Definition: write.Definition, Action: "writer/scribble",
	}})
	if err != nil {
		t.Fatal(err)
	}
	scribble := explain(t, l, "scribble", `{}`)
	err = approvals.Save(t.Context(), permission.Approval{Patterns: []string{"?"}, ApprovalKey: permission.ApprovalKey{
		Root: l.Root(), Plugin: write.Plugin, Digest: scribble.Digest, Definition: write.Definition, Action: "writer/write",
	}})
	if err != nil {
		t.Fatal(err)
	}
	saved := len(approvals.All())
	for _, c := range []struct{ name, input, want string }{
		{"read", `{"path":"./a"}`, `filesystem/read read:
read of "a": allow by "default"`},
		{"read", `{"path":"link"}`, `filesystem/read read:
read of "link": allow by "default"
read of "secret/b": deny by "user.yaml:3"`},
		{"read", `{"path":".env"}`, `filesystem/read read:
read of ".env": ask by "default", always [".env"]`},
		{"read", `{"path":"none"}`, `filesystem/read read:, failure`},
		{"grep", `{"pattern":"x"}`, `filesystem/grep read:
grep of "x": allow by "default"`},
		{"write", `{"path":"x"}`, `writer/write write: "writes x" [x] irreversible
writer/write of "x": allow by "", approved by 2
writer/write of "log": allow by "user.yaml:4"
edit of "x": deny by "", plugin writer may assert only its own actions, writer/…`},
		{"write", `{"path":"xy"}`, `writer/write write: "writes xy" [xy] irreversible
writer/write of "xy": ask by "", always ["*"]
writer/write of "log": allow by "user.yaml:4"
edit of "xy": deny by "", plugin writer may assert only its own actions, writer/…`},
		{"write", `{}`, `writer/write :, invalid_input`},
		{"scribble", ``, `writer/scribble read,write,process,network,user_interaction,delegation:
writer/scribble of "*": ask by "", always ["*"]`},
		{"rewrite", `{"path":"a"}`, `writer/rewrite read,write,process,network,user_interaction,delegation:
writer/rewrite of "*": ask by "", always ["*"]`},
		{"rewrite", `{"path":"secret/b"}`, `writer/rewrite :, denied`},
		{"output_read", `{"handle":"x"}`, `toolhost/output_read read:`},
		{"nothing", ``, ` :, unknown_tool`},
	} {
		if got := inWords(explain(t, l, c.name, c.input)); got != c.want {
			t.Errorf("%s %s: got\n%s\nwant\n%s", c.name, c.input, got, c.want)
		}
	}
	if got := len(approvals.All()); got != saved {
		t.Errorf("%d approvals are saved, want %d", got, saved)
	}
	if records, err := store.CallRecords(t.Context(), state.CallFilter{}); err != nil || len(records) > 0 {
		t.Errorf("the journal has %v, %v", records, err)
	}
	var files []string
	if err := filepath.WalkDir(l.Root(), func(path string, _ os.DirEntry, err error) error {
		files = append(files, strings.TrimPrefix(path, l.Root()))
		return err
	}); err != nil || strings.Join(files, " ") != " /.env /a /link /secret /secret/b" {
		t.Errorf("the root has %q, %v", files, err)
	}
}

// inWords is what is explained, a line for each resource that is asked for.
func inWords(x location.Explanation) string {
	effects := ""
	if x.Effects != 0 {
		effects = x.Effects.String()
	}
	text := fmt.Sprintf("%s %s:", x.Tool, effects)
	if x.Irreversible {
		text += fmt.Sprintf(" %q %v irreversible", x.Review, x.Targets)
	}
	if x.Error != nil {
		text += ", " + string(x.Error.Kind)
	}
	for _, request := range x.Requests {
		for _, e := range request.Explanations {
			text += fmt.Sprintf("\n%s of %q: %s by %q", request.Action, e.Resource, e.Answer(), e.DecidedBy)
			if e.Approved != nil {
				text += fmt.Sprintf(", approved by %d", e.Approved.ID)
			}
			if e.Unassertable != "" {
				text += ", " + e.Unassertable
			}
			if len(e.Always) > 0 {
				text += fmt.Sprintf(", always %q", e.Always)
			}
		}
	}
	return text
}

func parse(t *testing.T, text string) permission.Pattern {
	t.Helper()
	p, err := permission.ParsePattern(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
