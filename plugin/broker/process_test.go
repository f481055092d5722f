package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolhost/toolhost/plugin/internal/wire"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/process"
	"github.com/toolhost/toolhost/tool"
)

// processMethods calls every method of the process service. Those that look come first.
func processMethods(ctx context.Context, p wire.Process) (looks, runs map[string]error) {
	command := service.Command{Line: "true"}
	looks, runs = map[string]error{}, map[string]error{}
	_, looks["Plan"] = p.Plan(ctx, command)
	_, looks["Output"] = p.Output(ctx, service.OutputQuery{ID: "none"})
	_, looks["List"] = p.List(ctx)
	_, runs["Run"] = p.Run(ctx, command, func(context.Context, service.Chunk) error { return nil })
	_, runs["Run to the output"] = p.Run(ctx, command, nil)
	_, runs["Start"] = p.Start(ctx, command)
	runs["Input"] = p.Input(ctx, service.ProcessInput{ID: "none", Last: true})
	_, runs["Stop"] = p.Stop(ctx, "none")
	return looks, runs
}

// wantCode is whether the broker refused: what the engine says is another matter.
func wantCode(t *testing.T, what string, errs map[string]error, want codes.Code) {
	t.Helper()
	for method, err := range errs {
		got := status.Code(err)
		if _, ok := errors.AsType[*service.ProcessError](err); ok {
			got = codes.OK
		}
		if got != want {
			t.Errorf("%s: %s = %v, want %v", what, method, err, want)
		}
	}
}

// Without the grant there is no process service, whatever the token, and with it a token is
// needed; without an engine, or without a profile, there is none to grant.
func TestLaw09ProcessesAreGranted(t *testing.T) {
	x := newTable(t, service.GrantFileSystemRead, service.GrantFileSystemWrite, service.GrantPermission)
	_, ctx := x.begin(t, &gate{})
	looks, runs := processMethods(ctx, wire.NewProcess(x.conn))
	wantCode(t, "not granted", looks, codes.Unimplemented)
	wantCode(t, "not granted", runs, codes.Unimplemented)
	granted := newTable(t, service.GrantProcess)
	over, ctx := granted.begin(t, &gate{})
	over.End()
	for _, ctx := range []context.Context{t.Context(), ctx} {
		looks, runs = processMethods(ctx, wire.NewProcess(granted.conn))
		wantCode(t, "without a live call", looks, codes.PermissionDenied)
		wantCode(t, "without a live call", runs, codes.PermissionDenied)
	}
	for _, o := range []Options{{}, {Process: granted.options.Process}, {Profile: granted.options.Profile}} {
		o.Grants = []service.Grant{service.GrantProcess}
		if _, err := New(o); err == nil {
			t.Errorf("running commands is granted with %+v", o)
		}
	}
}

// Looking at processes takes the effect read, and whatever touches one the effect process.
//
// Seen to fail: with Input taking read.
func TestLaw24ProcessesTakeEffects(t *testing.T) {
	x := newTable(t, service.GrantProcess)
	var mu sync.Mutex
	told := map[string]tool.Effects{}
	x.options.Contradicted = func(c tool.Contradiction) {
		mu.Lock()
		defer mu.Unlock()
		told[c.During] = c.Wanted
	}
	for _, tt := range []struct {
		effects     tool.Effects
		looks, runs codes.Code
		told        string
	}{
		{0, codes.OK, codes.OK, "map[]"}, // undeclared is everything
		{tool.Read | tool.Process, codes.OK, codes.OK, "map[]"},
		{tool.Read, codes.OK, codes.PermissionDenied, "map[process:process]"},
		{tool.AllEffects &^ tool.Process, codes.OK, codes.PermissionDenied, "map[process:process]"},
		{tool.Process, codes.PermissionDenied, codes.OK, "map[process.read:read]"},
		{tool.None, codes.PermissionDenied, codes.PermissionDenied, "map[process:process process.read:read]"},
	} {
		clear(told)
		l, err := x.Begin(tool.Call{Gate: &gate{}, Effects: tt.effects})
		if err != nil {
			t.Fatal(err)
		}
		looks, runs := processMethods(wire.WithToken(t.Context(), l.Token()), wire.NewProcess(x.conn))
		wantCode(t, tt.effects.String(), looks, tt.looks)
		wantCode(t, tt.effects.String(), runs, tt.runs)
		if got := fmt.Sprint(told); got != tt.told {
			t.Errorf("%s: told %s, want %s", tt.effects, got, tt.told)
		}
		l.End()
	}
}

// While a call is being prepared, and during activation, a plugin plans and looks, and nothing
// is started, whatever the effects of the call.
//
// Seen to fail: with Run taking read.
func TestLaw25NothingIsStartedWhilePreparing(t *testing.T) {
	x := newTable(t, service.GrantProcess)
	preparing, err := x.BeginPreparing(tool.Call{Gate: &gate{}, Effects: tool.AllEffects})
	if err != nil {
		t.Fatal(err)
	}
	defer preparing.End()
	activation, err := x.BeginActivation()
	if err != nil {
		t.Fatal(err)
	}
	defer activation.End()
	for what, l := range map[string]*Lease{"preparing": preparing, "activation": activation} {
		looks, runs := processMethods(wire.WithToken(t.Context(), l.Token()), wire.NewProcess(x.conn))
		wantCode(t, what, looks, codes.OK)
		wantCode(t, what, runs, codes.PermissionDenied)
		for method, err := range runs {
			if !strings.Contains(fmt.Sprint(err), "a plugin only reads") {
				t.Errorf("%s: %s = %v", what, method, err)
			}
		}
	}
}

// The engine acts for the call, in the call's own output, and for the plugin of the
// configuration.
func TestLaw12CommandsRunForTheirCall(t *testing.T) {
	x := newTable(t, service.GrantProcess)
	g := &gate{}
	var output bytes.Buffer
	var reports []tool.Progress
	l, err := x.Begin(tool.Call{
		Gate: g, Identity: tool.Identity{Session: "s"}, Tool: "other/t", Output: &output,
		Progress: func(p tool.Progress) { reports = append(reports, p) },
	})
	if err != nil {
		t.Fatal(err)
	}
	c := l.runner()
	if c.Gate != tool.Gate(g) || c.Session != "s" || c.Plugin != "p" || c.Profile != x.options.Profile {
		t.Errorf("caller = %+v", c)
	}
	if _, err := c.Output.Write([]byte("of the command")); err != nil {
		t.Error(err)
	}
	c.Progress(tool.Progress{Message: "m"})
	if output.String() != "of the command" || len(reports) != 1 || reports[0].Message != "m" {
		t.Errorf("output %q, progress %v", output.String(), reports)
	}
	l.End()
	none, _ := x.begin(t, g)
	defer none.End()
	if c := none.runner(); c.Output != nil || c.Progress != nil {
		t.Errorf("the caller of a call that takes nothing = %+v", c)
	}
}

// exclusive is an output that sees when it is written to by two at once.
type exclusive struct {
	writing sync.Mutex
	all     []byte
	broken  bool
}

func (e *exclusive) Write(p []byte) (int, error) {
	if !e.writing.TryLock() {
		e.broken = true
		return 0, errors.New("two write at once")
	}
	defer e.writing.Unlock()
	half := len(p) / 2
	e.all = append(e.all, p[:half]...)
	runtime.Gosched() // to be met
	e.all = append(e.all, p[half:]...)
	return len(p), nil
}

// What commands write and what the plugin streams never mix within a write, and neither gets
// anything in once the lease has ended. A plugin that runs no commands has the call's own.
//
// Seen to fail: without the lock in commandOutput.Write; without the end in End.
func TestOutputOfACallIsShared(t *testing.T) {
	x := newTable(t, service.GrantProcess)
	var shared exclusive
	reports := 0
	call := tool.Call{Gate: &gate{}, Output: &shared, Progress: func(tool.Progress) { reports++ }}
	l, err := x.Begin(call)
	if err != nil {
		t.Fatal(err)
	}
	output, progress := l.Events()
	c := l.runner()
	const writes = 300
	var writers sync.WaitGroup
	for i, w := range []io.Writer{output, c.Output, c.Output} {
		writers.Go(func() {
			for range writes {
				if _, err := w.Write(bytes.Repeat([]byte{byte('a' + i)}, 999)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, report := range []func(tool.Progress){progress, c.Progress} {
		writers.Go(func() {
			for range writes {
				report(tool.Progress{})
			}
		})
	}
	writers.Wait()
	if shared.broken || len(shared.all) != 3*writes*999 || reports != 2*writes {
		t.Errorf("%d bytes, %d reports, two at once: %t", len(shared.all), reports, shared.broken)
	}
	for i := 0; i < len(shared.all); i += 999 {
		if piece := shared.all[i : i+999]; bytes.Count(piece, piece[:1]) != 999 {
			t.Fatalf("two writes are mixed at %d", i)
		}
	}
	l.End()
	for _, w := range []io.Writer{output, c.Output} {
		if n, err := w.Write([]byte("late")); n != 0 || err == nil {
			t.Errorf("writing after the end = %d, %v", n, err)
		}
	}
	progress(tool.Progress{})
	c.Progress(tool.Progress{})
	if len(shared.all) != 3*writes*999 || reports != 2*writes {
		t.Error("something came after the end")
	}
	if lost, err := l.Lost(); lost != 0 || err != nil {
		t.Errorf("lost %d, %v: what comes late is nobody's", lost, err)
	}

	reading := newTable(t, service.GrantFileSystemRead)
	l, err = reading.Begin(call)
	if err != nil {
		t.Fatal(err)
	}
	defer l.End()
	if output, _ := l.Events(); output != io.Writer(&shared) {
		t.Errorf("the output of a plugin that runs no commands is %T", output)
	}
}

// brief takes less than it is given.
type brief struct{}

func (brief) Write(p []byte) (int, error) { return len(p) - 1, nil }

// What was dropped of what commands wrote is added up, and so is known that it could not be
// taken: neither passes through the plugin (law 19).
//
// Seen to fail: with what comes late counted; with the problem not kept.
func TestLaw19LossOfCommands(t *testing.T) {
	x := newTable(t, service.GrantProcess)
	for _, tt := range []struct {
		output io.Writer
		want   error
	}{{io.Discard, nil}, {brief{}, io.ErrShortWrite}} {
		l, err := x.Begin(tool.Call{Gate: &gate{}, Output: tt.output})
		if err != nil {
			t.Fatal(err)
		}
		output := l.runner().Output
		for range 2 {
			if _, err := output.Write([]byte("xy")); !errors.Is(err, tt.want) {
				t.Errorf("Write = %v, want %v", err, tt.want)
			}
		}
		for _, n := range []int64{3, -5, 4} {
			l.events.lose(n)
		}
		l.End()
		l.events.lose(100) // too late
		if lost, err := l.Lost(); lost != 7 || !errors.Is(err, tt.want) {
			t.Errorf("lost %d, %v, want 7, %v", lost, err, tt.want)
		}
	}
	for _, tt := range [][3]int64{
		{0, 0, 0}, {1, 2, 3}, {-1, 2, 2}, {2, -1, 2}, {math.MaxInt64, 1, math.MaxInt64}, {1, math.MaxInt64, math.MaxInt64},
		{math.MaxInt64, math.MaxInt64, math.MaxInt64}, {math.MinInt64, math.MinInt64, 0},
	} {
		if got := AddLost(tt[0], tt[1]); got != tt[2] {
			t.Errorf("AddLost(%d, %d) = %d, want %d", tt[0], tt[1], got, tt[2])
		}
	}
}

// A run that the engine does not end in time holds up the end of its call for a second.
func TestLaw42EndOfACallWithARunIsBounded(t *testing.T) {
	x := newTable(t, service.GrantProcess)
	l, ctx := x.begin(t, &gate{})
	_, _, done, err := x.use(incoming(ctx, l.Token()), run)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	l.End()
	if took := time.Since(began); took < callbackGrace || took > 4*callbackGrace {
		t.Errorf("ending took %s", took)
	}
	done()
}

// Commands run in directories of the Location: as the filesystem finds them, or with an error
// that names the directory and says what to do.
func TestPlaces(t *testing.T) {
	x := newTable(t, service.GrantProcess)
	root := x.options.FileSystem.Path()
	for _, err := range []error{
		os.MkdirAll(root+"/dir/caf\xe9", 0o700), os.Symlink("dir", root+"/link"), os.Symlink(t.TempDir(), root+"/out"),
		syscall.Mkfifo(root+"/pipe", 0o600), os.Mkdir(root+"/gone", 0o700), os.Remove(root + "/gone"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	find := Places(x.options.FileSystem)
	for path, want := range map[string]string{
		"": ".", ".": ".", root: ".", "dir": "dir", "dir/": "dir", root + "/dir": "dir", "link": "dir", "dir/../link/caf\xe9": "dir/caf\xe9",
	} {
		place, err := find(t.Context(), &gate{}, path)
		var info syscall.Stat_t
		if err := syscall.Stat(root+"/"+want, &info); err != nil {
			t.Fatal(err)
		}
		if want := (process.Place{Path: want, Device: info.Dev, Inode: info.Ino}); err != nil || place != want {
			t.Errorf("%q = %+v, %v, want %+v", path, place, err, want)
		}
	}
	for path, want := range map[string]string{
		"gone":        "does not exist",
		"gone/below":  "does not exist",
		"file":        "is a file",
		"file/":       "is a file",
		"file/below":  "is a file",
		"..":          "leads out of the root",
		"/":           "leads out of the root",
		"out":         "leads out of the root",
		"pipe":        "is a device, pipe or socket",
		"a\x00b":      "has a zero byte",
		"file://here": "is a URL",
	} {
		_, err := find(t.Context(), &gate{}, path)
		got, ok := errors.AsType[*service.ProcessError](err)
		if !ok || got.Kind != service.ProcessBadDirectory || got.Subject != path || !strings.Contains(got.Detail, want) || !strings.Contains(got.Detail, "; ") {
			t.Errorf("%q = %v, want %q", path, err, want)
		}
	}
	over, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	if _, err := find(over, &gate{}, "dir"); !errors.Is(err, cause) {
		t.Errorf("of a context that is over: %v", err)
	}
}
