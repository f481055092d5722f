package broker

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolhost/toolhost/plugin/internal/wire"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/tool"
)

// While a call is being prepared, and during activation, a plugin reads and nobody
// is asked, whatever the effects of the call; the refusal to ask is no refusal of the
// call (law 25).
//
// Seen to fail: with the gate asked in Assert before silent is looked at; with the
// call's own effects kept in BeginPreparing.
func TestLaw25PreparingOnlyReads(t *testing.T) {
	x := newTable(t, service.Grants()...)
	asked := &gate{}
	preparing, err := x.BeginPreparing(tool.Call{Gate: asked, Effects: tool.Network})
	if err != nil {
		t.Fatal(err)
	}
	activation, err := x.BeginActivation()
	if err != nil {
		t.Fatal(err)
	}
	for want, l := range map[string]*Lease{
		"put the request into the preparation": preparing,
		"ask during a call":                    activation,
	} {
		ctx := wire.WithToken(t.Context(), l.Token())
		files := wire.NewFileSystem(x.conn)
		handle, _, err := files.ResolveRoot(ctx, "file")
		if err != nil {
			t.Fatal(err)
		}
		if page, err := files.Read(ctx, handle, service.ReadQuery{}); err != nil || page.Text != "text\n" {
			t.Errorf("Read = %q, %v", page.Text, err)
		}
		err = wire.NewPermission(x.conn).Assert(ctx, tool.PermissionRequest{Action: "a", Resources: []string{"r"}})
		if _, refusal := errors.AsType[*tool.Refusal](err); refusal || status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), want) {
			t.Errorf("Assert = %v, want %q", err, want)
		}
		if err := l.permits("/toolhost.plugin.v1.FileSystemWriteService/Write"); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "only reads") {
			t.Errorf("writing = %v", err)
		}
	}
	if len(asked.asked)+len(x.activation.asked) > 0 {
		t.Errorf("asked %q and %q", asked.asked, x.activation.asked)
	}
}

// What a call may not do the services refuse, in words that say what to declare, and
// the host is told, once for each call (law 24).
//
// Seen to fail: with permits left out of use; with Has of nothing in permits; with
// told never set.
func TestLaw24EffectsAreEnforced(t *testing.T) {
	x := newTable(t, service.Grants()...)
	var told []tool.Contradiction
	x.options.Contradicted = func(c tool.Contradiction) { told = append(told, c) }
	whose := tool.Identity{Session: "s", Agent: "a", Message: "m", Call: "c"}
	tests := []struct {
		effects tool.Effects
		reads   bool
	}{
		{0, true}, // undeclared is everything
		{tool.Read, true},
		{tool.Read | tool.Network, true},
		{tool.None, false},
		{tool.Network, false},
		{tool.AllEffects &^ tool.Read, false},
	}
	for _, tt := range tests {
		told = nil
		l, err := x.Begin(tool.Call{Gate: &gate{}, Effects: tt.effects, Identity: whose, Tool: "p/t"})
		if err != nil {
			t.Fatal(err)
		}
		ctx := wire.WithToken(t.Context(), l.Token())
		for range 2 {
			_, _, err = wire.NewFileSystem(x.conn).ResolveRoot(ctx, "file")
			if tt.reads != (err == nil) {
				t.Errorf("%s: reading = %v", tt.effects, err)
			}
		}
		if err := wire.NewPermission(x.conn).Assert(ctx, tool.PermissionRequest{Action: "a", Resources: []string{"r"}}); err != nil {
			t.Errorf("%s: asking = %v", tt.effects, err)
		}
		if tt.reads {
			if len(told) > 0 {
				t.Errorf("%s: told %+v", tt.effects, told)
			}
			continue
		}
		if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "filesystem.read takes the effect read and this call may do "+tt.effects.String()) {
			t.Errorf("%s: reading = %v", tt.effects, err)
		}
		want := tool.Contradiction{Identity: whose, Tool: "p/t", During: "filesystem.read", Allowed: tt.effects, Wanted: tool.Read}
		if len(told) != 1 || told[0] != want {
			t.Errorf("%s: told %+v, want %+v once", tt.effects, told, want)
		}
		l.End()
	}
}

// Every method that takes a token is in the table of effects.
func TestLaw24EveryMethodIsInTheTable(t *testing.T) {
	b, err := New(Options{Grants: []service.Grant{service.GrantPermission}, Session: nobody{}, Log: nobody{}, Tools: nobody{}})
	if err != nil {
		t.Fatal(err)
	}
	b.options.Grants = service.Grants()
	server := grpc.NewServer()
	b.Serve(server)
	found := 0
	for name, info := range server.GetServiceInfo() {
		if slices.Contains([]string{"SessionService", "LogService", "ToolsService"}, strings.TrimPrefix(name, "toolhost.plugin.v1.")) {
			continue // which every plugin has, without a call
		}
		for _, m := range info.Methods {
			found++
			want := map[string]tool.Effects{
				"filesystem.read": tool.Read, "filesystem.stage": tool.Read, "filesystem.write": tool.Write, "permission": tool.None,
				"process.read": tool.Read, "process": tool.Process,
			}
			service, effects := method("/" + name + "/" + m.Name).takes()
			if effects != want[service] || (service == "permission") != strings.HasSuffix(name, "PermissionService") {
				t.Errorf("%s/%s of %s takes %s", name, m.Name, service, effects)
			}
		}
	}
	if found < 10 {
		t.Errorf("%d methods", found)
	}
}
