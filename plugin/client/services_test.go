package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolhost/toolhost/plugin/client"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem"
	"github.com/toolhost/toolhost/tool"
)

// askGate answers what a test says.
type askGate struct {
	openGate
	ask func(context.Context, tool.PermissionRequest) error
}

func (g askGate) Assert(ctx context.Context, r tool.PermissionRequest) error { return g.ask(ctx, r) }

// grants starts a plugin with the permission service.
func (b *bench) startGranted(kind string) *client.Incarnation {
	b.t.Helper()
	spec := b.spec(kind)
	spec.Grants = []service.Grant{service.GrantPermission}
	return b.startSpec(spec)
}

// ask calls the raw plugin's tool, which asserts a permission with some token.
func (b *bench) ask(gate tool.Gate, which string) string {
	b.t.Helper()
	r, err := b.callWith(context.Background(), "raw", tool.Call{
		Identity: someone, Input: fmt.Appendf(nil, `"assert %s"`, which), Gate: gate,
	})
	if err != nil {
		b.t.Fatal(err, errors.Unwrap(err))
	}
	return string(r.Output)
}

// A callback belongs to a live call of the very process: without its token, with
// that of a call that is over, or of another process, it is refused, and nobody
// is asked (law 12).
func TestLaw12TokensOfCallbacks(t *testing.T) {
	t.Parallel()
	b, other := newBench(t), newBench(t)
	var asked []string
	gate := askGate{ask: func(_ context.Context, r tool.PermissionRequest) error {
		asked = append(asked, r.Resources[0])
		return nil
	}}
	b.host.Activation = askGate{ask: func(context.Context, tool.PermissionRequest) error {
		t.Error("somebody was asked for the activation")
		return nil
	}}
	other.startGranted("raw-calls")
	b.startGranted("raw-calls")
	foreign := value[string](other, "raw", `"token"`)
	const refused = "this callback belongs to no live call of this plugin"
	tests := []struct{ which, want string }{
		{"own", `"granted"`},
		{"none", refused},
		{"previous", refused},
		{"activation", refused},
		{foreign, refused},
		{"made-up", refused},
		{"own", `"granted"`},
		{"flood", "a permission request has at most 1000 resources"},
	}
	for _, tt := range tests {
		if got := b.ask(gate, tt.which); !strings.Contains(got, tt.want) {
			t.Errorf("assert with the token %q: %s, want %s", tt.which, got, tt.want)
		}
	}
	if _, err := b.tools["prepares"].Prepare(t.Context(), tool.Call{Identity: someone, Input: []byte(`"x"`), Gate: gate}); err != nil {
		t.Fatal(err)
	}
	if got := b.ask(gate, "previous"); !strings.Contains(got, refused) {
		t.Errorf("assert with the token of a preparation that is over: %s", got)
	}
	if want := []string{"own", "own"}; fmt.Sprint(asked) != fmt.Sprint(want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
}

// What was not granted is not there: a plugin that calls it all the same meets no
// service (law 9), and the SDK says which grant is missing.
func TestLaw09NarrowCapability(t *testing.T) {
	t.Parallel()
	b, withSDK := newBench(t), newBench(t)
	b.start("raw-calls")
	if got := b.ask(openGate{}, "own"); !strings.Contains(got, "unknown service toolhost.plugin.v1.PermissionService") {
		t.Errorf("assert without the grant: %s", got)
	}
	withSDK.start("many")
	wantIn(t, withSDK.failsWith(tool.KindInternal, "assert", `{"text":"x"}`), "plugin many was not granted permission: add it to its grants")
}

// A plugin gets what it needs if it is built in, and must be granted it otherwise.
func TestNeeds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	wantIn(t, b.startFails(b.spec("needs-permission")).Error(), "it needs the service permission: add it to its grants")
	spec := b.spec("needs-permission")
	spec.Grants = []service.Grant{service.GrantFileSystemRead, service.GrantPermission}
	wantIn(t, b.startFails(spec).Error(), "the filesystem is granted, and the Location has none")
	spec = b.spec("needs-permission")
	spec.Builtin = true
	if got := b.startSpec(spec).Status().Grants; len(got) != 1 || got[0] != service.GrantPermission {
		t.Errorf("grants = %v", got)
	}
}

// A refusal crosses the line as what it is, and what breaks in the host does not
// cross it.
func TestAnswersOfTheHost(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.startGranted("raw-calls")
	refusal := &tool.Refusal{Kind: tool.KindDeclined, Action: "raw/raw", Resource: "own", Reason: "not today"}
	for name, tt := range map[string]struct {
		gate tool.Gate
		want string
	}{
		"refused": {askGate{ask: func(context.Context, tool.PermissionRequest) error { return refusal }}, "was declined: not today"},
		"broken":  {askGate{ask: func(context.Context, tool.PermissionRequest) error { return errors.New("/home/user/secret") }}, "the host could not do it"},
		"panics":  {askGate{ask: func(context.Context, tool.PermissionRequest) error { panic("secret") }}, "the host could not do it"},
		"no gate": {nil, "nothing is permitted here"},
	} {
		got := b.ask(tt.gate, "own")
		if !strings.Contains(got, tt.want) || strings.Contains(got, "secret") {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
	wantIn(t, b.logged(), "/home/user/secret", "panic in a callback of the plugin")
}

// A permission request that is pending when the plugin is closed, or when the
// call is given up, is withdrawn.
func TestPendingPermission(t *testing.T) {
	t.Parallel()
	for _, closes := range []bool{true, false} {
		b := newBench(t)
		i := b.startGranted("many")
		asked, withdrawn := make(chan struct{}), make(chan error, 1)
		gate := askGate{ask: func(ctx context.Context, _ tool.PermissionRequest) error {
			close(asked)
			<-ctx.Done()
			withdrawn <- context.Cause(ctx)
			return context.Cause(ctx)
		}}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		failed := make(chan error, 1)
		go func() {
			_, err := b.callWith(ctx, "assert", tool.Call{Identity: someone, Input: []byte(`{"text":"x"}`), Gate: gate})
			failed <- err
		}()
		<-asked
		if closes {
			b.close(i)
			wantKind(t, tool.KindUnavailable, <-failed)
		} else {
			cancel()
			if err := <-failed; !errors.Is(err, context.Canceled) {
				t.Errorf("error = %v, want that of the caller", err)
			}
		}
		select {
		case err := <-withdrawn:
			t.Log("withdrawn:", err)
		case <-time.After(patience):
			t.Error("the request is still pending")
		}
	}
}

// A service that does not heed its context, which is the host's own mistake, holds
// up closing within its bound, and the error says so.
func TestCallbackThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	b := openBench(t)
	i := b.startGranted("many")
	asked, over := make(chan struct{}), make(chan struct{})
	gate := askGate{ask: func(context.Context, tool.PermissionRequest) error {
		close(asked)
		<-over
		return nil
	}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = b.callWith(context.Background(), "assert", tool.Call{Identity: someone, Input: []byte(`{"text":"x"}`), Gate: gate})
	}()
	<-asked
	within(t, closing, "closing", func() {
		if err := i.Close(context.Background()); err == nil || !strings.Contains(err.Error(), "a callback of the plugin does not end") {
			t.Errorf("Close = %v, want that a callback does not end", err)
		}
	})
	close(over)
	<-ended
	if err := b.scope.Close(context.Background()); err != nil {
		t.Errorf("the owner is told again: %v", err)
	}
	b.wantNothingLeft()
}

// What one plugin may register is bounded in all, not for each time.
func TestToolsAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	err := b.startFails(b.spec("raw-floods-tools")).Error()
	wantIn(t, err, "the plugin has registered 10989 tools with these; at most 10000", "<nil>", "bytes of schemas and descriptions")
}

// Of a tool that stands twice in a registration one counts; of different tools of one name none does, which is told once, in
// bounded form. Seen to fail: with the first of those that differ kept.
func TestCaseD11RepeatsInOneRegistration(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	register := b.host.Register
	b.host.Register = func(tools map[string]tool.Tool) (client.Registered, []client.Refused) {
		var refused []client.Refused
		for name := range tools {
			if len(name) > tool.MaxAuthoredName {
				refused = append(refused, client.Refused{Name: name, Reason: "too long"})
				delete(tools, name)
			}
		}
		made, _ := register(tools)
		return made, refused
	}
	i := b.start("raw-calls")
	got := i.Status().Refused
	const reason = "the name stands for different tools in one registration, so that none of them has it: rename all but one"
	if len(got) != 2 || got[0] != (client.Refused{Name: "differs", Reason: reason}) || len(got[1].Name) > tool.MaxAuthoredName+20 {
		t.Errorf("refused = %.300v", got)
	}
	names := b.names()
	if slices.Sort(names); strings.Join(names, " ") != "prepares raw" {
		t.Errorf("tools = %q", names)
	}
	b.close(i)
	if again := i.Status().Refused; len(again) != 2 {
		t.Errorf("refused = %.300v after closing", again)
	}
}

// A plugin may register later, and what it registers goes with it.
func TestRegisteringLater(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	i := b.start("many")
	value[string](b, "later", `{"text":"one two"}`)
	if got := value[string](b, "two", `{"text":"hi"}`); got != "hi" {
		t.Errorf("two = %q", got)
	}
	b.close(i)
}

// Nobody else gets at the services of a plugin, neither another plugin nor
// another process of the user: the peer is looked at, and the listener goes on
// until the right one comes. Without it the first one to connect shuts the plugin
// out.
func TestAnotherPluginDials(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start("many")
	spec := b.spec("raw-slow-dial")
	started := make(chan error, 1)
	go func() {
		_, err := client.Start(context.Background(), b.scope, b.host, spec)
		started <- err
	}()
	eventually(t, "activating", func() bool {
		return strings.Contains(b.logged(), "plugin=raw-slow-dial state=activating")
	})
	var sockets []string
	eventually(t, "its two sockets", func() bool {
		sockets, _ = filepath.Glob(b.host.RunDir + "/p*/plugin-dir*/plugin*")
		return len(sockets) == 3
	})
	dropped := 0
	for _, socket := range sockets {
		var said string
		eventually(t, "somebody to listen", func() bool { // the name is there a moment before
			said = value[string](b, "dial", fmt.Sprintf(`{"text":%q}`, socket))
			return !strings.Contains(said, "refused")
		})
		t.Log(filepath.Base(socket), said)
		if strings.HasPrefix(said, "0 ") {
			dropped++
		}
	}
	if dropped != len(sockets) { // the services' at once, the plugins' own for want of TLS
		t.Errorf("only %d of %d connections were dropped", dropped, len(sockets))
	}
	if err := os.WriteFile(spec.Root+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-started; err != nil {
		t.Errorf("the plugin was shut out: %v", err)
	}
	if left, _ := filepath.Glob(b.host.RunDir + "/p*/plugin-dir*/plugin*"); len(left) != 2 {
		t.Errorf("sockets %v are left, want one of each plugin: those of the services are unlinked", left)
	}
}

// A process of the plugin's own tree needs its certificate as well.
func TestServicesNeedTheCertificate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	wantIn(t, b.startFails(b.spec("raw-no-certificate")).Error(), "services without a certificate: refused on 2 sockets")
}

// The address that a plugin announces is dialled once it was opened as a socket,
// and only if a process of the plugin listens: what the name refers to may have
// been replaced since it was looked at.
func TestDialPeer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := errors.Join(os.Symlink(socket, dir+"/link"), os.WriteFile(dir+"/file", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	own := os.Getpid()
	tests := []struct {
		path string
		top  int
		want string
	}{
		{socket, own, ""},
		{socket, own + 1_000_000, "the socket of another process"},
		{dir + "/link", own, "is no socket"},
		{dir + "/file", own, "is no socket"},
		{dir + "/none", own, "no such file"},
	}
	for _, tt := range tests {
		conn, err := client.DialPeer(t.Context(), tt.path, tt.top)
		if err == nil {
			conn.Close()
		}
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("DialPeer(%s) = %v, want %q", filepath.Base(tt.path), err, tt.want)
		}
	}
}

// The filesystem across the line, from the real engine.
func TestFileSystem(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	spec := b.spec("files")
	if err := os.WriteFile(spec.Root+"/a.txt", []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := filesystem.Open(spec.Root, filesystem.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	b.host.FileSystem = files
	spec.Grants = []service.Grant{service.GrantFileSystemRead}
	b.startSpec(spec)
	if got := value[string](b, "read", `{"text":"a.txt"}`); got != "one\ntwo\n" {
		t.Errorf("read = %q", got)
	}
	_, err = b.call(context.Background(), "read", `{"text":"none.txt"}`)
	if failure, ok := errors.AsType[*tool.Failure](err); !ok || !strings.Contains(failure.Message, "none.txt") {
		t.Errorf("error = %v, want a failure", err)
	}
	_, err = b.call(context.Background(), "read", `{"text":"../outside"}`)
	if _, ok := errors.AsType[*tool.Failure](err); !ok {
		t.Errorf("error = %v, want a failure", err)
	}
	wantIn(t, b.failsWith(tool.KindInternal, "read-later", `{"text":"a.txt"}`), "the context is not that of a handler")
}

// A plugin that tells of hundreds of connections that nobody asked for costs the host
// nothing: go-plugin keeps a goroutine for each.
//
// Seen to fail: with what it tells passed on.
func TestLaw14BrokerIsBounded(t *testing.T) {
	b := newBench(t)
	before := runtime.NumGoroutine()
	i := b.start("raw-floods-broker")
	time.Sleep(100 * time.Millisecond) // until what was sent is there
	if now := runtime.NumGoroutine(); now > before+100 {
		t.Errorf("%d goroutines became %d", before, now)
	}
	b.close(i)
}
