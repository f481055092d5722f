package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/tool"
)

// start starts a process and fails the test if it does not.
func (s *stage) start(t testing.TB, session string, c service.Command) service.ProcessInfo {
	t.Helper()
	info, err := s.Start(context.Background(), s.caller(session), c)
	if err != nil {
		t.Fatalf("%s: %v", c.Line, err)
	}
	return info
}

// awaited is the output of a process once it has the text, or at its end.
func (s *stage) awaited(t testing.TB, session, id, text string) service.ProcessOutput {
	t.Helper()
	var all []byte
	deadline := time.Now().Add(20 * time.Second)
	for since := int64(0); ; {
		out, err := s.Output(context.Background(), s.caller(session), service.OutputQuery{ID: id, Since: since, Wait: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		all, since = append(all, out.Data...), out.Next
		if bytes.Contains(all, []byte(text)) || out.Process.Result != nil && len(out.Data) == 0 || time.Now().After(deadline) {
			out.Data = all
			return out
		}
	}
}

// A process goes on beside its call, takes input, gives its output, and ends when it is asked to.
func TestBeside(t *testing.T) {
	confinements(t, func(t *testing.T, s *stage) {
		for _, terminal := range []*service.TerminalSize{nil, {Columns: 80, Rows: 24}} {
			t.Run(fmt.Sprintf("terminal %t", terminal != nil), func(t *testing.T) {
				info := s.start(t, "a", service.Command{Line: "echo ready; while read x; do echo got $x; done; echo over", Name: "loop", Terminal: terminal})
				if info.Name != "loop" || info.Result != nil || info.Directory != "." || info.Started.IsZero() {
					t.Errorf("%+v", info)
				}
				s.awaited(t, "a", info.ID, "ready")
				if err := s.Input(context.Background(), s.caller("a"), service.ProcessInput{ID: info.ID, Data: []byte("one\n")}); err != nil {
					t.Error(err)
				}
				s.awaited(t, "a", info.ID, "got one")
				if err := s.Input(context.Background(), s.caller("a"), service.ProcessInput{ID: info.ID, Last: true}); err != nil {
					t.Error(err)
				}
				s.awaited(t, "a", info.ID, "over")
				out := s.awaited(t, "a", info.ID, "never")
				if out.Process.Result == nil || out.Process.Result.Ending != service.EndedItself || out.Process.Result.Code != 0 {
					t.Errorf("%+v", out.Process.Result)
				}
				if err := s.Input(context.Background(), s.caller("a"), service.ProcessInput{ID: info.ID, Data: []byte("x")}); kind(err) != service.ProcessOver {
					t.Errorf("input after the end: %v", err)
				}
			})
		}
		stubborn := s.start(t, "a", service.Command{Line: "trap '' TERM; echo up; " + grow})
		s.awaited(t, "a", stubborn.ID, "up")
		began := time.Now()
		stopped, err := s.Stop(context.Background(), s.caller("a"), stubborn.ID)
		if err != nil || stopped.Result == nil || stopped.Result.Ending != service.EndedByStop || time.Since(began) > 2*time.Second {
			t.Errorf("%+v, %v, after %v", stopped.Result, err, time.Since(began))
		}
		polite := s.start(t, "a", service.Command{Line: "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep .01; done"})
		s.awaited(t, "a", polite.ID, "up")
		if stopped, err = s.Stop(context.Background(), s.caller("a"), polite.ID); err != nil || stopped.Result.Code != 3 {
			t.Errorf("%+v, %v", stopped.Result, err)
		}
		if out := s.awaited(t, "a", polite.ID, "bye"); !strings.Contains(string(out.Data), "bye") {
			t.Errorf("its last words are missing: %q", out.Data)
		}
		s.nothingLeft(t)
	})
}

// A session has its own processes and no others, and they end with it and with nothing else.
func TestSessionsAreApart(t *testing.T) {
	s := newStage(t, true, Options{})
	ctx := context.Background()
	one, other := s.start(t, "one", service.Command{Line: "trap '' TERM; sleep 60"}), s.start(t, "other", service.Command{Line: "sleep 60"})
	if one.ID == other.ID {
		t.Errorf("both are %s", one.ID)
	}
	for what, err := range map[string]error{
		"output": func() error { _, err := s.Output(ctx, s.caller("other"), service.OutputQuery{ID: one.ID}); return err }(),
		"input":  s.Input(ctx, s.caller("other"), service.ProcessInput{ID: one.ID, Data: []byte("x")}),
		"stop":   func() error { _, err := s.Stop(ctx, s.caller("other"), one.ID); return err }(),
	} {
		if kind(err) != service.ProcessUnknown {
			t.Errorf("%s of another session's: %v", what, err)
		}
	}
	stranger := s.caller("one")
	stranger.Plugin = "another"
	if _, err := s.Stop(ctx, stranger, one.ID); kind(err) != service.ProcessUnknown {
		t.Errorf("stopped by another plugin: %v", err)
	}
	if err := s.EndSession(ctx, "one"); err != nil {
		t.Error(err)
	}
	if list, _ := s.List(ctx, s.caller("one")); len(list) != 0 {
		t.Errorf("left: %+v", list)
	}
	if list, _ := s.List(ctx, s.caller("other")); len(list) != 1 || list[0].Result != nil {
		t.Errorf("of the other session: %+v", list)
	}
	if err := s.EndPlugin(ctx, "process"); err != nil || s.Running() != 0 {
		t.Errorf("%v, %d run", err, s.Running())
	}
	s.nothingLeft(t)
}

// Twenty processes of every temper end with the Location, at the same time (laws 41, 42).
func TestLaw42ManyEndAtOnce(t *testing.T) {
	confinements(t, func(t *testing.T, s *stage) {
		for i := range 20 {
			line := []string{
				"sleep 60", "trap '' TERM; sleep 60", "kill -STOP $$", "setsid -f sleep 60; sleep 60", "yes >/dev/null",
			}[i%5]
			s.start(t, fmt.Sprint("session ", i%4), service.Command{Line: line})
		}
		began := time.Now()
		if err := s.life.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("took %v", took)
		}
		s.nothingLeft(t)
		if _, err := s.Start(context.Background(), s.caller("a"), service.Command{Line: "true"}); err == nil {
			t.Error("a process started after the end")
		}
		if _, err := s.Run(context.Background(), s.caller("a"), service.Command{Line: "true"}, func(service.Chunk) error { return nil }); err == nil {
			t.Error("a command ran after the end")
		}
	})
}

// There are bounds, what has ended makes room, and the oldest that have ended are forgotten.
func TestBoundsOfProcesses(t *testing.T) {
	s := newStage(t, false, Options{})
	var first service.ProcessInfo
	for i := range service.MaxProcesses {
		if info := s.start(t, "a", service.Command{Line: "cat"}); i == 0 {
			first = info
		}
	}
	if _, err := s.Start(context.Background(), s.caller("a"), service.Command{Line: "cat"}); kind(err) != service.ProcessTooMany {
		t.Errorf("one too many: %v", err)
	}
	if plan, err := s.Plan(context.Background(), s.caller("a"), service.Command{Line: "cat"}); err != nil || plan.CannotStart == "" {
		t.Errorf("%+v, %v", plan, err)
	}
	if _, err := s.Stop(context.Background(), s.caller("a"), first.ID); err != nil {
		t.Fatal(err)
	}
	for range service.MaxProcesses + 5 {
		info := s.start(t, "a", service.Command{Line: "echo hi"})
		s.awaited(t, "a", info.ID, "never")
	}
	list, _ := s.List(context.Background(), s.caller("a"))
	if want := 2*service.MaxProcesses - 1; len(list) > want+1 {
		t.Errorf("%d are remembered, want about %d", len(list), want)
	}
	if _, err := s.Output(context.Background(), s.caller("a"), service.OutputQuery{ID: first.ID}); kind(err) != service.ProcessUnknown {
		t.Errorf("the oldest is remembered: %v", err)
	}
}

// A host that ends with the call starts nothing that would go on.
func TestOneShot(t *testing.T) {
	s := newStage(t, true, Options{OneShot: "this host ends with the call: use serve"})
	_, err := s.Start(context.Background(), s.caller("a"), service.Command{Line: "touch ran"})
	if kind(err) != service.ProcessOneShot || !strings.Contains(err.Error(), "serve") {
		t.Error(err)
	}
	if plan, err := s.Plan(context.Background(), s.caller("a"), service.Command{Line: "true"}); err != nil || !strings.Contains(plan.CannotStart, "serve") {
		t.Errorf("%+v, %v", plan, err)
	}
}

// What is typed is judged with what stands in the line already, and nothing that edits a line gets
// by: a deny is not walked around in pieces (laws 32, 38). Seen to fail: with the data judged alone.
func TestLaw38TypedLinesAreJudgedWhole(t *testing.T) {
	s := newStage(t, true, Options{})
	s.rules = denying(t, "touch *")
	for name, tt := range map[string]struct {
		terminal bool
		pieces   []string
		refused  tool.Kind // of the last one
	}{
		"whole":                   {false, []string{"touch ran\n"}, tool.KindDenied},
		"in two":                  {false, []string{"tou", "ch ran\n"}, tool.KindDenied},
		"in many":                 {false, strings.SplitAfter("touch ran", ""), tool.KindDenied},
		"behind another line":     {false, []string{"true\ntou", "ch ran\n"}, tool.KindDenied},
		"erased":                  {true, []string{"tox\x7fuch ran\n"}, tool.KindNobodyToAsk},
		"erased in two":           {true, []string{"touc", "x\x7fh ran\n"}, tool.KindNobodyToAsk},
		"a line that is killed":   {true, []string{"echo \x15touch ran\n"}, tool.KindNobodyToAsk},
		"the next one is literal": {true, []string{"true \x16\ntouch ran\n"}, tool.KindDenied},
		"after an interrupt":      {true, []string{"tou", "\x03", "ch\n"}, ""},
		"harmless":                {true, []string{"ec", "ho a\n", "echo b\n"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := service.Command{Line: "trap '' INT; cat >/dev/null"}
			if tt.terminal {
				c.Terminal = &service.TerminalSize{Columns: 80, Rows: 24}
			}
			info := s.start(t, "a", c)
			for i, piece := range tt.pieces {
				caller := s.caller("a") // a built-in asks for itself
				caller.Gate = s.gate(false)
				err := s.Input(context.Background(), caller, service.ProcessInput{ID: info.ID, Data: []byte(piece)})
				refusal, _ := errors.AsType[*tool.Refusal](err)
				switch last := i == len(tt.pieces)-1; {
				case tt.refused != "" && refusal != nil && refusal.Kind == tt.refused:
					return // a part of it may be refused already
				case err != nil:
					t.Fatalf("%q: %v", piece, err)
				case last && tt.refused != "":
					t.Errorf("%q was typed", tt.pieces)
				}
			}
		})
	}
}

// denying are rules that allow all commands but some.
func denying(t *testing.T, line string) []permission.Rule {
	t.Helper()
	var patterns [3]permission.Pattern
	for i, text := range []string{"shell", "*", line} {
		var err error
		if patterns[i], err = permission.ParsePattern(text); err != nil {
			t.Fatal(err)
		}
	}
	return []permission.Rule{
		{Action: patterns[0], Resource: patterns[1], Effect: permission.Allow},
		{Action: patterns[0], Resource: patterns[2], Effect: permission.Deny, Reason: "none of this"},
	}
}

// What was approved is typed only where it was looked at (law 27). Seen to fail: without the
// comparison in send.
func TestLaw27TypedWhereItWasLookedAt(t *testing.T) {
	s := newStage(t, true, Options{})
	info := s.start(t, "a", service.Command{Line: "cat"})
	typed := func(text, at string, gate func(tool.Gate) tool.Gate) error {
		caller := s.caller("a")
		caller.Gate = gate(caller.Gate)
		return s.Input(context.Background(), caller, service.ProcessInput{ID: info.ID, Data: []byte(text), At: at})
	}
	plain := func(g tool.Gate) tool.Gate { return g }
	if err := typed("echo ", info.At, plain); err != nil {
		t.Fatal(err)
	}
	if err := typed("a\n", info.At, plain); kind(err) != service.ProcessMoved {
		t.Errorf("something was typed since: %v", err)
	}
	list, _ := s.List(context.Background(), s.caller("a"))
	if list[0].Unfinished != "echo " {
		t.Errorf("unfinished: %q", list[0].Unfinished)
	}
	meanwhile := func(g tool.Gate) tool.Gate {
		return &swapping{Gate: g, swap: func() {
			if err := typed("b; ", "", plain); err != nil {
				t.Error(err)
			}
		}}
	}
	if err := typed("a\n", list[0].At, meanwhile); kind(err) != service.ProcessMoved {
		t.Errorf("something was typed while somebody was asked: %v", err)
	}
}

// What is typed at a terminal comes to its end though the line has none, and a line that the
// system would cut is an error (law 19).
func TestLaw19TypedLinesAreWhole(t *testing.T) {
	confinements(t, func(t *testing.T, s *stage) {
		size := &service.TerminalSize{Columns: 80, Rows: 24}
		for _, text := range []string{"abc", "abc\n", "a\nb"} {
			r, w := s.run(t, service.Command{Line: "stty -echo; sleep .1; cat", Stdin: []byte(text), Terminal: size, Timeout: 20 * time.Second})
			if got := strings.ReplaceAll(w.out.String(), "\r", ""); r.Ending != service.EndedItself || !strings.HasSuffix(got, text) {
				t.Errorf("%q: %+v, %q", text, r, got)
			}
		}
		info := s.start(t, "a", service.Command{Line: "wc -c", Terminal: size})
		input := func(text string, last bool) error {
			return s.Input(context.Background(), s.caller("a"), service.ProcessInput{ID: info.ID, Data: []byte(text), Last: last})
		}
		if err := input("ab", false); err != nil {
			t.Fatal(err)
		}
		if err := input("c", true); err != nil {
			t.Fatal(err)
		}
		if out := s.awaited(t, "a", info.ID, "3"); !bytes.Contains(out.Data, []byte("3\r\n")) {
			t.Errorf("got %q", out.Data)
		}
		long := strings.Repeat("x", service.MaxTypedLine) + "\n"
		if _, err := s.Run(context.Background(), s.caller("a"), service.Command{Line: "wc -c", Stdin: []byte(long), Terminal: size}, func(service.Chunk) error { return nil }); kind(err) != service.ProcessBadCommand {
			t.Errorf("a long line: %v", err)
		}
		info = s.start(t, "a", service.Command{Line: "cat", Terminal: size})
		if err := input(long[:3000], false); err != nil {
			t.Fatal(err)
		}
		if err := input(long[:3000], false); kind(err) != service.ProcessBadCommand {
			t.Errorf("a long line in two: %v", err)
		}
	})
}

// A process that reads nothing does not hold who writes to it, and what it took is told.
func TestInputThatIsNotRead(t *testing.T) {
	s := newStage(t, true, Options{})
	info := s.start(t, "a", service.Command{Line: "sleep 60"})
	began := time.Now()
	err := s.Input(context.Background(), s.caller("a"), service.ProcessInput{ID: info.ID, Data: make([]byte, service.MaxInput)})
	if kind(err) == "" || time.Since(began) > inputPatience+2*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	began = time.Now()
	if err := s.Input(ctx, s.caller("a"), service.ProcessInput{ID: info.ID, Data: []byte("x")}); err == nil || time.Since(began) > 2*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

// What is kept of an output is its beginning and its end, whatever the pieces were.
func TestKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var k kept
		var all []byte
		for range rapid.IntRange(0, 30).Draw(t, "pieces") {
			n := rapid.SampledFrom([]int{0, 1, 100, 4096, 65536, 200_000, service.TailOutput, service.TailOutput + 7}).Draw(t, "size")
			piece := make([]byte, n)
			for i := range piece {
				piece[i] = byte((len(all) + i) * 31 >> 3)
			}
			k.add(piece)
			all = append(all, piece...)
		}
		since := rapid.Int64Range(-int64(len(all))-10, int64(len(all))+10).Draw(t, "since")
		from, data, dropped := k.part(since)
		at := since
		if at < 0 {
			at = max(0, int64(len(all))+at)
		}
		at = min(at, int64(len(all)))
		if from != at+dropped || int(from)+len(data) > len(all) || !bytes.Equal(data, all[from:int(from)+len(data)]) {
			t.Fatalf("of %d bytes from %d: %d bytes from %d, %d dropped", len(all), since, len(data), from, dropped)
		}
		if dropped > 0 && (at < service.HeadOutput || from != int64(len(all))-service.TailOutput) {
			t.Fatalf("of %d bytes from %d: %d dropped", len(all), since, dropped)
		}
		if len(data) == 0 && at < int64(len(all)) {
			t.Fatalf("of %d bytes from %d nothing", len(all), since)
		}
	})
}
