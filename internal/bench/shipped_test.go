package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/plugin/client"
	"github.com/toolhost/toolhost/plugin/sdk"
	"github.com/toolhost/toolhost/sandbox"
	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/output"
	"github.com/toolhost/toolhost/tool/registry"
)

// query is the input, and the output, of the tools: about 1 KiB in five fields.
type query struct {
	Path   string `json:"path"`
	Offset int    `json:"offset"`
	Limit  int    `json:"limit"`
	Mode   string `json:"mode"`
	Follow bool   `json:"follow"`
}

// queryOf makes an input of the given size, in bytes, which is over 100.
func queryOf(tb testing.TB, size int) json.RawMessage {
	tb.Helper()
	q := query{Offset: 120, Limit: 2000, Mode: "text", Follow: true}
	for range 2 {
		raw, err := json.Marshal(q)
		if err != nil {
			tb.Fatal(err)
		}
		if len(raw) >= size {
			return raw
		}
		q.Path = strings.Repeat("internal/folder/", size/16+1)[:size-len(raw)]
	}
	tb.Fatalf("no input of %d bytes", size)
	return nil
}

// querySchema describes it, for a tool that has no types.
const querySchema = `{
	"type": "object",
	"properties": {
		"path": {"type": "string"}, "offset": {"type": "integer"}, "limit": {"type": "integer"},
		"mode": {"type": "string"}, "follow": {"type": "boolean"}
	},
	"required": ["path", "offset", "limit", "mode", "follow"],
	"additionalProperties": false
}`

// echoPlugin is a plugin as an author writes it. Its tools answer with their input: decoded and encoded again, after a
// permission was asked for, and as the bytes that it came in.
func echoPlugin() sdk.Plugin {
	return sdk.Plugin{Name: "echo", Version: "1", Needs: []sdk.Service{sdk.Permissions}, Activate: func(ctx context.Context, loc sdk.Location) error {
		permissions, err := loc.Permission()
		if err != nil {
			return err
		}
		_, err = loc.Tools.Register(ctx, sdk.Tools{
			"echo_" + loc.Plugin: sdk.New("Answers with its input", func(_ context.Context, _ sdk.Call, in query) (query, error) {
				return in, nil
			}, sdk.NoEffect),
			"ask_" + loc.Plugin: sdk.New("Asks before it answers", func(ctx context.Context, call sdk.Call, in query) (query, error) {
				return in, permissions.Assert(ctx, sdk.PermissionRequest{Action: call.Tool, Resources: []string{"*"}})
			}, sdk.NoEffect),
			"raw_" + loc.Plugin: sdk.Dynamic(sdk.Declaration{
				Description: "Answers with its input, unread", Input: json.RawMessage(querySchema), Output: json.RawMessage(querySchema),
			}, func(_ context.Context, _ sdk.Call, in json.RawMessage) (sdk.Result, error) {
				return sdk.Result{Output: in}, nil
			}, sdk.NoEffect),
		})
		return err
	}}
}

// shipped is a host as it ships, as far as plugins and their calls go.
type shipped struct {
	life     *scope.Scope
	host     client.Host
	engine   *permission.Engine
	registry *registry.Registry
	root     string
}

// openShipped opens a host that is closed with the benchmark.
func openShipped(tb testing.TB) *shipped {
	tb.Helper()
	s := &shipped{life: scope.New(context.Background(), "host"), root: tb.TempDir()}
	tb.Cleanup(func() {
		if err := s.life.Close(context.Background()); err != nil {
			tb.Errorf("close the host: %v", err)
		}
	})
	dir, err := client.OpenRunDir(s.life)
	if err != nil {
		tb.Fatal(err)
	}
	s.engine = permission.New(policy(tb), permission.Nobody{})
	if s.registry, err = registry.New(registry.Options{Gate: s.gate, Scope: s.life, Output: roomy()}); err != nil {
		tb.Fatal(err)
	}
	s.host = client.Host{
		Launcher:   sandbox.Launcher{Path: self, Args: []string{reaperRole}},
		RunDir:     dir,
		Activation: s.engine.Gate(permission.Caller{}),
		Log:        slog.New(slog.DiscardHandler),
	}
	return s
}

// roomy bounds by limits that 64 KiB fit in.
func roomy() *output.Keeper {
	return output.NewKeeper(output.KeeperOptions{Limits: output.Limits{MaxLines: 100_000, MaxBytes: 1 << 20}})
}

// policy has one rule, which allows what plugins ask for by their own names, and the defaults.
func policy(tb testing.TB) *permission.Policy {
	tb.Helper()
	action, err := permission.ParseAction("outside/*", []string{"outside"})
	if err != nil {
		tb.Fatal(err)
	}
	resource, err := permission.ParseResource("*", action)
	if err != nil {
		tb.Fatal(err)
	}
	return &permission.Policy{
		Lists:    []permission.List{{Rules: []permission.Rule{{Action: action, Resource: resource, Effect: permission.Allow, Source: "bench"}}}},
		Defaults: permission.Defaults(),
	}
}

func (s *shipped) gate(caller registry.Caller) tool.Gate {
	return s.engine.Gate(permission.Caller{
		Identity: caller.Identity, Tool: caller.Tool, Plugin: caller.Plugin, Builtin: caller.Builtin, Asking: caller.Asking,
	})
}

// startBuiltin starts a plugin as a built-in, and startOutside one from outside, of which the host asks whether its tools
// may run at all.
func (s *shipped) startBuiltin(name string) (*client.Incarnation, error) {
	return s.start(client.Spec{Name: name, Builtin: true, Policy: &sandbox.Policy{}})
}

// startFree starts a plugin that is not confined.
func (s *shipped) startFree(tb testing.TB, name string) *client.Incarnation {
	tb.Helper()
	i, err := s.start(client.Spec{Name: name, Builtin: true})
	if err != nil {
		tb.Fatal(err)
	}
	return i
}

func (s *shipped) startOutside(tb testing.TB) *client.Incarnation {
	tb.Helper()
	i, err := s.start(client.Spec{Name: "outside", Grants: []service.Grant{service.GrantPermission}, Policy: &sandbox.Policy{}})
	if err != nil {
		tb.Fatal(err)
	}
	return i
}

func (s *shipped) start(spec client.Spec) (*client.Incarnation, error) {
	spec.Command, spec.Location, spec.Root = []string{self, pluginRole}, "here", s.root
	host := s.host
	host.Register = func(tools map[string]tool.Tool) (client.Registered, []client.Refused) {
		registration, report := s.registry.Register(registry.Owner{Name: spec.Name, Builtin: spec.Builtin}, tools)
		var refused []client.Refused
		for _, x := range report.Refused {
			refused = append(refused, client.Refused{Name: x.Name, Reason: x.Reason})
		}
		return registration, refused
	}
	return client.Start(context.Background(), s.life, host, spec)
}

// call runs one call from the capture to the settlement.
func (s *shipped) call(name string, input json.RawMessage) error {
	settlement, err := s.registry.Capture().Call(context.Background(), registry.Request{
		Identity: tool.Identity{Session: "session", Agent: "agent", Message: "message", Call: "call"}, Name: name, Input: input,
	})
	switch {
	case err != nil:
		return err
	case settlement.Status != tool.Completed:
		return fmt.Errorf("call of %s is %s: %v", name, settlement.Status, settlement.Error)
	case len(settlement.Structured) != len(input):
		return fmt.Errorf("call of %s: got %d bytes for %d", name, len(settlement.Structured), len(input))
	}
	return nil
}
