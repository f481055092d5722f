package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/toolhost/toolhost/plugin/internal/wire"
	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem"
	"github.com/toolhost/toolhost/service/process"
	"github.com/toolhost/toolhost/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gate says yes and notes what it was asked.
type gate struct {
	block chan struct{} // if not nil, Assert waits for it and not for its context

	mu    sync.Mutex
	asked []string
}

func (g *gate) Assert(_ context.Context, r tool.PermissionRequest) error {
	if g.block != nil {
		<-g.block
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, r.Action)
	return nil
}

func (g *gate) Permit(context.Context, string, ...string) error       { return nil }
func (g *gate) PermitCommand(context.Context, tool.CommandLine) error { return nil }
func (g *gate) Allows(string, string) bool                            { return true }
func (g *gate) Denies(string, string) bool                            { return false }
func (g *gate) Refused() *tool.Refusal                                { return nil }

// nobody is the services that every plugin has.
type nobody struct{}

func (nobody) Attach(context.Context, func()) error { return nil }
func (nobody) Write(wire.Record)                    {}
func (nobody) Register(context.Context, []wire.RemoteTool) (uint64, []wire.Refused, error) {
	return 0, nil, nil
}
func (nobody) Unregister(context.Context, uint64) error { return nil }

// table is a broker with a filesystem, and a plugin's connection to it.
type table struct {
	*Broker
	conn       *grpc.ClientConn
	activation *gate
}

func newTable(t testing.TB, grants ...service.Grant) *table {
	t.Helper()
	root := t.TempDir()
	if err := errors.Join(os.Mkdir(root+"/dir", 0o700), os.WriteFile(root+"/file", []byte("text\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	files, err := filesystem.Open(root, filesystem.Options{})
	if err != nil {
		t.Fatal(err)
	}
	life := scope.New(context.Background(), "broker")
	commands, err := process.New(process.Options{Scope: life, Root: files.Path(), Find: Places(files)})
	if err != nil {
		t.Fatal(err)
	}
	activation := &gate{}
	b, err := New(Options{
		Plugin: "p", Grants: grants, FileSystem: files, Process: commands, Profile: &process.Profile{}, Activation: activation, Session: nobody{}, Log: nobody{}, Tools: nobody{},
	})
	if err != nil {
		t.Fatal(err)
	}
	listener, server := bufconn.Listen(1<<20), grpc.NewServer(wire.CallbackOptions()...)
	b.Serve(server)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	conn, err := grpc.NewClient("passthrough:///broker", append(wire.DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.Close()
		server.Stop()
		<-served
		if err := errors.Join(conn.Close(), life.Close(context.Background()), files.Close()); err != nil {
			t.Error(err)
		}
	})
	return &table{b, conn, activation}
}

func (x *table) begin(t *testing.T, g tool.Gate) (*Lease, context.Context) {
	t.Helper()
	l, err := x.Begin(tool.Call{Gate: g})
	if err != nil {
		t.Fatal(err)
	}
	return l, wire.WithToken(t.Context(), l.Token())
}

// What was not granted does not exist, whatever token is shown (law 9).
func TestLaw09OnlyWhatWasGranted(t *testing.T) {
	for _, grants := range [][]service.Grant{nil, {service.GrantFileSystemRead}, {service.GrantPermission}, service.Grants()} {
		x := newTable(t, grants...)
		l, ctx := x.begin(t, &gate{})
		_, _, files := wire.NewFileSystem(x.conn).ResolveRoot(ctx, ".")
		permission := wire.NewPermission(x.conn).Assert(ctx, tool.PermissionRequest{Action: "a", Resources: []string{"r"}})
		for err, grant := range map[error]service.Grant{files: service.GrantFileSystemRead, permission: service.GrantPermission} {
			want := codes.Unimplemented
			if slices.Contains(grants, grant) {
				want = codes.OK
			}
			if got := status.Code(err); got != want {
				t.Errorf("granted %v: %s = %v, want %v", grants, grant, err, want)
			}
		}
		l.End()
	}
	if _, err := New(Options{Grants: []service.Grant{service.GrantFileSystemRead}}); err == nil {
		t.Error("the filesystem is granted and there is none")
	}
}

// Every callback needs the token of a live call, exactly one of it (law 12).
// Breakage seen: taking the first of several tokens; forgetting to drop a lease.
func TestLaw12Tokens(t *testing.T) {
	x, other := newTable(t, service.Grants()...), newTable(t, service.Grants()...)
	over, _ := x.begin(t, &gate{})
	over.End()
	over.End()
	foreign, _ := other.begin(t, &gate{})
	live, own := x.begin(t, &gate{})
	activation, err := x.BeginActivation()
	if err != nil {
		t.Fatal(err)
	}
	activation.End()
	contexts := map[string]context.Context{
		"none":       t.Context(),
		"empty":      wire.WithToken(t.Context(), ""),
		"made up":    wire.WithToken(t.Context(), strings.Repeat("A", 26)),
		"over":       wire.WithToken(t.Context(), over.Token()),
		"activation": wire.WithToken(t.Context(), activation.Token()),
		"foreign":    wire.WithToken(t.Context(), foreign.Token()),
		"two":        metadata.AppendToOutgoingContext(own, "toolhost-token", over.Token()),
		"twice":      metadata.AppendToOutgoingContext(own, "toolhost-token", live.Token()),
	}
	files, permission := wire.NewFileSystem(x.conn), wire.NewPermission(x.conn)
	handle, _, err := files.ResolveRoot(own, ".")
	if err != nil {
		t.Fatal(err)
	}
	for name, ctx := range contexts {
		_, _, resolve := files.ResolveRoot(ctx, ".")
		_, read := files.Read(ctx, handle, service.ReadQuery{})
		_, bytes := readBytesOf(ctx, files, handle)
		_, list := files.List(ctx, handle, service.ListQuery{})
		_, glob := files.Glob(ctx, handle, service.GlobQuery{Pattern: "*"})
		_, grep := files.Grep(ctx, handle, service.GrepQuery{Pattern: "x"})
		for what, err := range map[string]error{
			"resolve": resolve, "read": read, "bytes": bytes, "list": list, "glob": glob, "grep": grep,
			"release": files.Release(ctx, handle),
			"assert":  permission.Assert(ctx, tool.PermissionRequest{Action: "a", Resources: []string{"r"}}),
		} {
			if status.Code(err) != codes.PermissionDenied {
				t.Errorf("%s with the token %s: %v", what, name, err)
			}
		}
	}
	if _, err := files.List(own, handle, service.ListQuery{}); err != nil {
		t.Errorf("the handle's own call: %v", err)
	}
}

// Each call is answered by its own gate.
func TestEachCallHasItsGate(t *testing.T) {
	x := newTable(t, service.Grants()...)
	one, two := &gate{}, &gate{}
	_, first := x.begin(t, one)
	_, second := x.begin(t, two)
	permission := wire.NewPermission(x.conn)
	for action, ctx := range map[string]context.Context{"first": first, "second": second} {
		if err := permission.Assert(ctx, tool.PermissionRequest{Action: action, Resources: []string{"r"}}); err != nil {
			t.Error(err)
		}
	}
	if got := fmt.Sprint(one.asked, two.asked, x.activation.asked); got != "[first] [second] []" {
		t.Errorf("asked %s", got)
	}
}

// A call without a gate may do nothing, and panics nothing.
func TestNoGate(t *testing.T) {
	x := newTable(t, service.Grants()...)
	_, ctx := x.begin(t, nil)
	for _, resources := range [][]string{nil, {"r"}} {
		err := wire.NewPermission(x.conn).Assert(ctx, tool.PermissionRequest{Action: "a", Resources: resources})
		if refusal, ok := errors.AsType[*tool.Refusal](err); !ok || refusal.Kind != tool.KindDenied {
			t.Errorf("Assert = %v, want denied", err)
		}
	}
	files := wire.NewFileSystem(x.conn)
	handle, _, err := files.ResolveRoot(ctx, "file")
	if err == nil {
		_, err = files.Read(ctx, handle, service.ReadQuery{})
	}
	if _, ok := errors.AsType[*tool.Refusal](err); !ok {
		t.Errorf("reading = %v, want a refusal", err)
	}
	if (closedGate{}).Allows("read", "x") || (closedGate{}).Refused() != nil || (closedGate{}).Permit(t.Context(), "read") == nil || (closedGate{}).PermitCommand(t.Context(), tool.CommandLine{Line: "ls", Directory: "."}) == nil {
		t.Error("the closed gate is open")
	}
}

// A handle belongs to the call that opened it, and goes with it: descriptors
// return to what they were.
func TestHandlesBelongToTheirCall(t *testing.T) {
	x := newTable(t, service.Grants()...)
	files := wire.NewFileSystem(x.conn)
	one, first := x.begin(t, &gate{})
	_, second := x.begin(t, &gate{})
	before := descriptors(t)
	handle, info, err := files.ResolveRoot(first, "dir")
	if err != nil || info.Resource != "dir" || info.Kind != service.Directory {
		t.Fatalf("ResolveRoot = %+v, %v", info, err)
	}
	if _, err := files.List(second, handle, service.ListQuery{}); !isStale(err) {
		t.Errorf("another call's handle: %v", err)
	}
	if err := files.Release(second, handle); err != nil {
		t.Errorf("releasing what is not one's own does nothing: %v", err)
	}
	if _, err := files.List(first, handle, service.ListQuery{}); err != nil {
		t.Errorf("one's own handle: %v", err)
	}
	if err := errors.Join(files.Release(first, handle), files.Release(first, handle)); err != nil {
		t.Errorf("releasing: %v", err)
	}
	if _, err := files.List(first, handle, service.ListQuery{}); !isStale(err) {
		t.Errorf("a released handle: %v", err)
	}
	for range maxRoots {
		if _, _, err := files.ResolveRoot(first, "file"); err != nil {
			t.Fatal(err)
		}
	}
	if descriptors(t) < before+maxRoots {
		t.Errorf("%d descriptors with %d handles, %d before", descriptors(t), maxRoots, before)
	}
	if _, _, err := files.ResolveRoot(first, "file"); err == nil || !strings.Contains(err.Error(), "release some") {
		t.Errorf("one handle too many: %v", err)
	}
	one.End()
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors after the call, %d before", after, before)
	}
}

func isStale(err error) bool {
	file, ok := errors.AsType[*service.FileError](err)
	return ok && file.Kind == service.FileStaleHandle
}

func descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}

// Ending a call cancels its callbacks and waits for them.
func TestEndCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		l, err := b.Begin(tool.Call{Gate: &gate{}})
		if err != nil {
			t.Fatal(err)
		}
		ctx := incoming(t.Context(), l.Token())
		cause := make(chan error, 1)
		_, callback, done, err := b.use(ctx, assert)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			<-callback.Done()
			time.Sleep(100 * time.Millisecond)
			cause <- context.Cause(callback)
			done()
		}()
		began := time.Now()
		l.End()
		if took := time.Since(began); took != 100*time.Millisecond {
			t.Errorf("End took %s, want the 100ms of the callback", took)
		}
		if err := <-cause; !errors.Is(err, ErrOver) {
			t.Errorf("cause = %v", err)
		}
		if _, _, _, err := b.use(ctx, assert); status.Code(err) != codes.PermissionDenied {
			t.Errorf("a callback after the end: %v", err)
		}
	})
}

// A callback that does not end holds up neither a call nor the closing of all
// calls for longer than a second, and what it uses is closed when it ends.
func TestEndIsBounded(t *testing.T) {
	x := newTable(t, service.Grants()...)
	files := wire.NewFileSystem(x.conn)
	before := descriptors(t)
	var blocked []chan struct{}
	var leases []*Lease
	var callbacks sync.WaitGroup
	for range 5 {
		g := &gate{block: make(chan struct{})}
		l, ctx := x.begin(t, g)
		if _, _, err := files.ResolveRoot(ctx, "file"); err != nil {
			t.Fatal(err)
		}
		callbacks.Go(func() {
			_ = wire.NewPermission(x.conn).Assert(ctx, tool.PermissionRequest{Action: "a", Resources: []string{"r"}})
		})
		for l.isIdle() {
			time.Sleep(time.Millisecond)
		}
		blocked, leases = append(blocked, g.block), append(leases, l)
	}
	began := time.Now()
	leases[0].End()
	x.Close()
	if took := time.Since(began); took < callbackGrace || took > 4*callbackGrace {
		t.Errorf("ending took %s, want about %s for each of two", took, callbackGrace)
	}
	if got := descriptors(t); got < before+len(leases) {
		t.Errorf("%d descriptors while callbacks run, want at least %d: they were closed too early", got, before+len(leases))
	}
	for _, b := range blocked {
		close(b)
	}
	callbacks.Wait()
	for _, l := range leases {
		<-l.idle
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors after the callbacks, %d before", after, before)
	}
	if _, err := x.Begin(tool.Call{Gate: &gate{}}); err == nil {
		t.Error("a closed broker gives a lease")
	}
}

func (l *Lease) isIdle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.running) == 0
}

func incoming(ctx context.Context, token string) context.Context {
	return metadata.NewIncomingContext(ctx, metadata.Pairs("toolhost-token", token))
}
