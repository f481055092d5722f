package client_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolhost/toolhost/plugin/client"
	"github.com/toolhost/toolhost/plugin/internal/wire"
	"github.com/toolhost/toolhost/tool"
)

func TestCall(t *testing.T) {
	t.Parallel()
	bothWays(t, "calls", func(t *testing.T, newBench func(testing.TB) *bench) {
		b := newBench(t)
		i := b.start("many")
		s := i.Status()
		if s.State != client.Ready || s.Name != "many" || s.Version != "1" || s.Pid == 0 || s.Method == "" {
			t.Errorf("status = %+v", s)
		}
		if got := value[string](b, "echo", `{"text":"hi <&> \u2028"}`); got != "hi <&> \u2028" {
			t.Errorf("echo = %q", got)
		}
		if pid := value[int](b, "pid", `{}`); pid == os.Getpid() || pid != s.Pid {
			t.Errorf("the tool runs in process %d, want %d", pid, s.Pid)
		}
		want := map[string]any{"SessionID": "s", "Agent": "a", "MessageID": "m", "CallID": "c", "HostMade": false, "Tool": "plugin/who"}
		if got := value[map[string]any](b, "who", `{}`); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("who = %v, want %v", got, want)
		}
		_, err := b.call(context.Background(), "fail", `{"text":"try it tomorrow"}`)
		if failure, ok := errors.AsType[*tool.Failure](err); !ok || failure.Message != "try it tomorrow" {
			t.Errorf("error = %v, want a failure", err)
		}
		wantIn(t, b.failsWith(tool.KindInternal, "error", `{"text":"out of \u001b[2J paper"}`),
			"plugin many: tool plugin/error: out of \uFFFD[2J paper")
	})
}

// Large values in and out, and those about the size of a piece.
func TestCallSizes(t *testing.T) {
	t.Parallel()
	bothWays(t, "calls", func(t *testing.T, newBench func(testing.TB) *bench) {
		b := newBench(t)
		b.start("many")
		if got := value[int](b, "length", `{"text":"`+strings.Repeat("x", 10<<20)+`"}`); got != 10<<20 {
			t.Errorf("10 MiB arrived as %d bytes", got)
		}
		overhead := 2 + 1 + 3 // quotes, and the tag and length of the field
		for _, n := range []int{0, 1, wire.MaxChunk, wire.MaxWhole - overhead - 1, wire.MaxWhole - overhead, wire.MaxWhole - overhead + 1, wire.MaxWhole, wire.MaxWhole + wire.MaxChunk - overhead, 10 << 20} {
			r, err := b.call(context.Background(), "big", fmt.Sprintf(`{"bytes":%d}`, n))
			if err != nil || len(r.Output) != n+2 {
				t.Errorf("%d bytes came as %d, %v", n, len(r.Output)-2, err)
			}
		}
		_, err := b.call(context.Background(), "length", `{"text":"`+strings.Repeat("x", wire.MaxInput)+`"}`)
		wantKind(t, tool.KindInvalidInput, err)
		if got := value[string](b, "echo", `{"text":"still here"}`); got != "still here" {
			t.Errorf("echo = %q", got)
		}
	})
}

// How a crash is told (case F01): plugin, tool, cause, and the end of what the
// plugin said, from the panic on. go-plugin says that a transport is closing.
func TestCaseF01CrashSaysWhy(t *testing.T) {
	t.Parallel()
	tests := []struct {
		how  string
		kind tool.Kind
		want []string
	}{
		{"panic", tool.KindInternal, []string{"panic: boom", "plugins_test.go"}},
		{"goroutine", tool.KindCrashed, []string{"ended: exit status 2", "panic: boom in a goroutine", "plugins_test.go"}},
		{"nil map", tool.KindCrashed, []string{"ended: exit status 2", "panic: assignment to entry in nil map"}},
		{"exit", tool.KindCrashed, []string{"ended: exit status 3", "about to end"}},
		{"kill", tool.KindCrashed, []string{"ended: signal: killed", "about to end"}},
	}
	for _, tt := range tests {
		t.Run(tt.how, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			spec := b.spec("many")
			spec.Env = append(spec.Env, "TOKEN=very-secret")
			i := b.startSpec(spec)
			captured := b.tools["echo"]
			_, err := b.call(context.Background(), "end", fmt.Sprintf(`{"how":%q}`, tt.how))
			if e, _ := errors.AsType[*tool.Error](err); e == nil || e.Message != "the tool is unavailable" {
				t.Errorf("the model reads %v", e)
			}
			story := wantKind(t, tt.kind, err)
			wantIn(t, story, append(tt.want, "plugin many: tool plugin/end: ")...)
			if strings.Contains(story, "panic: ") && strings.Contains(story, "came before") {
				t.Error("the story of a panic begins before it")
			}
			if strings.Contains(story, "very-secret") {
				t.Error("a passed variable is in the error")
			}
			if tt.kind == tool.KindInternal { // a panic of a handler is the handler's end alone
				if value[string](b, "echo", `{"text":"alive"}`) != "alive" {
					t.Error("the plugin is gone")
				}
				return
			}
			<-i.Gone()
			if s := i.Status(); s.State != client.Failed {
				t.Errorf("status = %+v", s)
			}
			_, err = captured.Execute(context.Background(), tool.Call{Identity: someone, Input: []byte(`{"text":"x"}`)})
			if wantIn(t, wantKind(t, tool.KindUnavailable, err), tt.want...); err.Error() != "the plugin many has failed" {
				t.Errorf("the model reads %q", err)
			}
			wantIn(t, i.Status().Reason, tt.want...)
			if len(b.names()) > 0 {
				t.Errorf("tools %v of a plugin that is gone", b.names())
			}
			wantIn(t, b.logged(), "level=ERROR", "plugin failed")
		})
	}
}

// A crash ends the calls of that incarnation, all of them operationally, and
// touches no other (law 13).
func TestLaw13CrashIsContained(t *testing.T) {
	t.Parallel()
	bothWays(t, "calls", func(t *testing.T, newBench func(testing.TB) *bench) {
		b, other := newBench(t), newBench(t)
		b.start("many")
		other.start("many")
		var calls sync.WaitGroup
		for range 5 {
			began := make(chan struct{}, 1)
			calls.Go(func() {
				_, err := b.callWith(context.Background(), "wait", tool.Call{
					Identity: someone, Input: []byte(`{}`), Progress: func(tool.Progress) { began <- struct{}{} },
				})
				wantIn(t, wantKind(t, tool.KindCrashed, err), "signal: killed")
			})
			<-began
		}
		calls.Go(func() {
			if got := value[string](other, "wait", `{"millis":500}`); got != "waited" {
				t.Errorf("the other plugin's call = %q", got)
			}
		})
		_, _ = b.call(context.Background(), "end", `{"how":"kill"}`)
		calls.Wait()
	})
}

// Cancelling reaches the handler, ends the call at once, and is no error of the
// plugin (law 14); neither is the caller's deadline. After it the plugin serves.
func TestLaw14Interruption(t *testing.T) {
	t.Parallel()
	bothWays(t, "calls", func(t *testing.T, newBench func(testing.TB) *bench) {
		b := newBench(t)
		b.start("many")
		gone := errors.New("the user left")
		for _, stubborn := range []bool{false, true} {
			ctx, cancel := context.WithCancelCause(context.Background())
			var err error
			within(t, closing, "cancelling", func() {
				_, err = b.callWith(ctx, "wait", tool.Call{
					Identity: someone, Input: fmt.Appendf(nil, `{"stubborn":%t}`, stubborn), Progress: func(tool.Progress) { cancel(gone) },
				})
			})
			if !errors.Is(err, gone) {
				t.Errorf("error = %v, want the caller's cause", err)
			}
			if _, operational := errors.AsType[*tool.Error](err); operational {
				t.Errorf("error = %v, want no error of the plugin", err)
			}
		}
		eventually(t, "the handler's end", func() bool { return strings.Contains(b.logged(), "the wait was cancelled") })
		for range 20 { // the plugin's timer may fire before the host's
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
			_, err := b.call(ctx, "wait", `{}`)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("error = %v, want the deadline", err)
			}
			if _, operational := errors.AsType[*tool.Error](err); operational {
				t.Fatalf("error = %v, want no error of the plugin", err)
			}
		}
		if got := value[string](b, "echo", `{"text":"still here"}`); got != "still here" {
			t.Errorf("echo = %q", got)
		}
	})
}

// A plugin that is stopped in a call holds up that call until its deadline and
// nothing else.
func TestStoppedInACall(t *testing.T) {
	t.Parallel()
	bothWays(t, "calls", func(t *testing.T, newBench func(testing.TB) *bench) {
		b := newBench(t)
		i := b.start("many")
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		if _, err := b.call(ctx, "stop", `{}`); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v, want the deadline", err)
		}
		b.close(i)
	})
}

// Whatever a plugin sends in place of an outcome ends the call operationally, and
// only the call.
func TestNonsenseOnTheWire(t *testing.T) {
	for _, kind := range []string{"raw-calls", "raw-leases"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testNonsense(t, kind)
		})
	}
}

func testNonsense(t *testing.T, kind string) {
	b := newBench(t)
	i := b.start(kind)
	tests := []struct{ what, want string }{
		{"nothing", "ended the call without an outcome"},
		{"status", "DeadlineExceeded: I made this\uFFFD[2J up"},
		{"unknown-event", "an event that this version of the protocol does not have"},
		{"large-piece", "a piece of an answer of 65537 bytes; at most 65536"},
		{"empty-piece", "an empty piece"},
		{"large-output", "a piece of output of 65537 bytes; at most 65536"},
		{"empty-output", "an empty piece of output"},
		{"wrong-size", "announced an answer of 11 bytes and sent 10"},
		{"no-message", "cannot be read"},
		{"pieces-and-whole", "pieces of an answer and then another one whole"},
		{"large-message", "ResourceExhausted"},
		{"errored", "\uFFFD[2Jeee"},
	}
	for _, tt := range tests {
		input, _ := json.Marshal(tt.what)
		story := b.failsWith(tool.KindInternal, "raw", string(input))
		wantIn(t, story, tt.want)
		if len(story) > 32<<10 || strings.Contains(story, "\x1b") {
			t.Errorf("%s: the story has %d bytes: %.100q", tt.what, len(story), story)
		}
	}
	r, err := b.call(context.Background(), "raw", `"after-the-end"`)
	if err != nil || string(r.Output) != `"first"` {
		t.Errorf("the first outcome did not count: %s, %v", r.Output, err)
	}
	if r, err := b.call(context.Background(), "raw", `"lost"`); err != nil || r.Lost != 0 {
		t.Errorf("%d bytes were lost, %v", r.Lost, err)
	}
	if r, err := b.call(context.Background(), "raw", `"no-json"`); err != nil || string(r.Output) != "\xff{" {
		t.Errorf("output = %q, %v; it is not the client who judges it", r.Output, err)
	}
	if s := i.Status(); s.State != client.Ready {
		t.Errorf("status = %+v", s)
	}
}

// All progress is passed on, in order; whoever shows it limits and cleans it. Its
// texts are bounded.
func TestProgress(t *testing.T) {
	t.Parallel()
	for kind, name := range map[string]string{"many": "progress", "raw-calls": "raw", "raw-leases": "raw"} {
		b := newBench(t)
		b.start(kind)
		input := map[string]string{"many": `{"times":3000}`, "raw-calls": `"flood"`, "raw-leases": `"flood"`}[kind]
		var reports []tool.Progress
		_, err := b.callWith(context.Background(), name, tool.Call{
			Identity: someone, Input: []byte(input), Progress: func(p tool.Progress) { reports = append(reports, p) },
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(reports) != 3000 || !slices.IsSortedFunc(reports, func(a, b tool.Progress) int { return cmp.Compare(a.Done, b.Done) }) {
			t.Errorf("%s: %d reports, want 3000 in order", kind, len(reports))
		}
		if last := reports[len(reports)-1]; last.Done < 2999 || len(last.Message) > 1<<10 {
			t.Errorf("%s: the last report is %+v", kind, last)
		}
	}
}

// A plugin that closes its connection to the services is lost, though its process
// lives (the calls end operationally, and the tools go).
func TestLosingTheConnection(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	i := b.start("raw-calls")
	wantIn(t, b.failsWith(tool.KindCrashed, "raw", `"disconnect"`), "it closed its connection to the host")
	<-i.Gone()
	if s := i.Status(); s.State != client.Failed || len(marked(b.mark)) == 0 {
		t.Errorf("status = %+v", s)
	}
	eventually(t, "the end of the tools", func() bool { return len(b.names()) == 0 })
	b.close(i)
}

// One value in two Locations, and tools of the same names: each call goes to its
// own plugin.
func TestSameToolsInTwoLocations(t *testing.T) {
	t.Parallel()
	one, two := newBench(t), newBench(t)
	first, second := one.start("many"), two.start("many")
	if value[int](one, "pid", `{}`) != first.Status().Pid || value[int](two, "pid", `{}`) != second.Status().Pid {
		t.Error("a call went to the wrong plugin")
	}
	one.close(first)
	if got := value[int](two, "pid", `{}`); got != second.Status().Pid {
		t.Errorf("pid = %d after the other Location was closed", got)
	}
}
