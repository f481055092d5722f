package sdktest_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/toolhost/toolhost/plugin/sdk"
	"github.com/toolhost/toolhost/plugin/sdk/sdktest"
	"github.com/toolhost/toolhost/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type pathInput struct {
	Path string `json:"path"`
}

type greeting struct {
	Greeting string `json:"greeting,omitempty"`
}

// reader is a plugin with one tool that uses both services, and settings.
func reader() sdk.Plugin {
	return sdk.Plugin{
		Name: "reader", Version: "1", Needs: []sdk.Service{sdk.FileSystemRead, sdk.Permissions}, Settings: greeting{},
		Activate: func(ctx context.Context, loc sdk.Location) error {
			files, err := loc.FileSystem()
			if err != nil {
				return err
			}
			permission, err := loc.Permission()
			if err != nil {
				return err
			}
			settings := greeting{Greeting: "hello"}
			if err := loc.Settings(&settings); err != nil {
				return err
			}
			_, err = loc.Tools.Register(ctx, sdk.Tools{
				"greet": sdk.New("Greet a file", func(ctx context.Context, call sdk.Call, in pathInput) (string, error) {
					root, err := files.ResolveRoot(ctx, in.Path)
					if err != nil {
						return "", sdk.ToFailure(err)
					}
					err = permission.Assert(ctx, sdk.PermissionRequest{Action: call.Tool, Resources: root.Resources()})
					if err != nil {
						return "", err
					}
					page, err := root.Read(ctx, sdk.ReadQuery{})
					return settings.Greeting + " " + page.Text, sdk.ToFailure(err)
				}, sdk.Read),
				"no schema": sdk.Dynamic(sdk.Declaration{Input: json.RawMessage(`{"type": "int"}`)},
					func(context.Context, sdk.Call, json.RawMessage) (sdk.Result, error) { return sdk.Result{}, nil }),
			})
			return err
		},
	}
}

func TestPluginInATest(t *testing.T) {
	refuse := errors.New("")
	plugin := sdktest.Start(t, reader(), sdktest.Options{
		Files:    map[string]string{"a/b.txt": "world"},
		Settings: json.RawMessage(`{"greeting": "good morning"}`),
		Permission: func(r sdk.PermissionRequest) error {
			if r.Resources[0] == "secret" {
				return refuse
			}
			return nil
		},
	})
	if tools := plugin.Tools(); len(tools) != 1 || tools[0].ID != "reader/greet" {
		t.Errorf("got the tools %+v, want reader/greet", tools)
	}
	if refused := plugin.Refused(); len(refused) != 1 || !strings.Contains(refused[0], "no schema") {
		t.Errorf("got refused %q, want the tool without a valid schema", refused)
	}
	if o := plugin.Call("greet", `{"path": "a/b.txt"}`); o.Status != tool.Completed || o.Text != "good morning world" {
		t.Errorf("got %s, want a greeting", o)
	}
	if o := plugin.Call("greet", `{"path": "missing"}`); o.Status != tool.Failed {
		t.Errorf("got %s, want a failure", o)
	}
	if o := plugin.Call("greet", `{"path": 1}`); o.Status != tool.Rejected || o.Error.Kind != tool.KindInvalidInput {
		t.Errorf("got %s, want invalid input", o)
	}
}

// What the test refuses ends the call as rejected (law 36).
func TestRefusal(t *testing.T) {
	plugin := sdktest.Start(t, reader(), sdktest.Options{
		Files:      map[string]string{"a": "x"},
		Permission: func(sdk.PermissionRequest) error { return errors.New("not today") },
	})
	o := plugin.Call("greet", `{"path": "a"}`)
	if o.Status != tool.Rejected || o.Error.Kind != tool.KindDenied || !strings.Contains(o.Error.Message, "not today") || !o.Ran {
		t.Errorf("got %s, want a rejection with the test's words", o)
	}
}

func TestActivationThatFails(t *testing.T) {
	for name, test := range map[string]struct {
		options sdktest.Options
		want    string
	}{
		"a grant is missing": {sdktest.Options{Grants: []sdk.Service{sdk.Permissions}}, "filesystem:read"},
		"invalid settings":   {sdktest.Options{Settings: json.RawMessage(`{"greeting": 1}`)}, "/greeting"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := sdktest.Activate(t, reader(), test.options)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

// What a handler says that it dropped is in the outcome of a failure too (law 19).
//
// Seen to fail: with the loss added to the result only.
func TestLaw19LossOfAFailure(t *testing.T) {
	plugin := sdktest.Start(t, sdk.Plugin{Name: "lossy", Activate: func(ctx context.Context, loc sdk.Location) error {
		_, err := loc.Tools.Register(ctx, sdk.Tools{
			"drop": sdk.New("Drops and fails", func(_ context.Context, call sdk.Call, _ struct{}) (string, error) {
				call.Lost(7)
				return "", sdk.Failure("the disk is full")
			}, sdk.NoEffect),
		})
		return err
	}}, sdktest.Options{})
	if got := plugin.Call("drop", "{}"); got.Lost != 7 || got.Error == nil || got.Error.Message != "the disk is full" {
		t.Errorf("got %v, lost %d", got, got.Lost)
	}
}
