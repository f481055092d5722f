package permission

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/tool"
)

// told is a recorder that keeps a line for each thing it is told.
type told struct {
	mu    sync.Mutex
	lines []string // under mu
	ids   []string // under mu: of what was asked
}

func (r *told) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

func (r *told) Asked(request Request) {
	r.say("asked %s %q", request.Action, request.Resources)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids = append(r.ids, request.ID)
}

func (r *told) Answered(request Request, reply Reply) {
	r.say("answered %s %v %s %s by %s", request.Action, reply.Granted, reply.Kind, reply.Answer, reply.By)
}

func (r *told) Approved(_ Caller, action, resource string, by SavedPattern) {
	r.say("approved %s %s by %d", action, resource, by.ID)
}

func (r *told) Denied(caller Caller, action, resource string, v Verdict) {
	r.say("denied %s %s to %s: %v", action, resource, caller.Plugin, v)
}

// A recorder is told of each request with its answer, of what was saved and used, and of
// each denial; not of what a rule allows, nor of the questions of a preparation.
//
// Seen to fail: without each of the four; with the questions of a preparation told; with
// an approver's error told as an answer without a kind.
func TestRecorderIsTold(t *testing.T) {
	deny := Rule{Action: mustParse("weather/*"), Resource: mustParse("secret"), Effect: Deny, Source: "toolhost.yaml:3"}
	allow := Rule{Action: mustParse("weather/*"), Resource: mustParse("fine"), Effect: Allow, Source: "toolhost.yaml:4"}
	policy := &Policy{Lists: []List{{Rules: []Rule{deny, allow}}}}
	caller := Caller{Plugin: "weather", Tool: "weather/forecast", Root: "/r", Digest: "d"}
	approvals := new(Memory)
	err := approvals.Save(context.Background(), Approval{ApprovalKey: caller.key("weather/forecast"), Patterns: []string{"known"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name      string
		preparing bool
		reply     Reply
		err       error
		resource  string
		want      string
	}{
		{"granted", false, Reply{Granted: true, Answer: Once, By: "ann"}, nil, "a",
			`asked weather/forecast ["a"]|answered weather/forecast true  once by ann`},
		{"declined", false, Reply{Kind: "nonsense"}, nil, "a",
			`asked weather/forecast ["a"]|answered weather/forecast false declined  by `},
		{"failed", false, Reply{Granted: true}, context.DeadlineExceeded, "a",
			`asked weather/forecast ["a"]|answered weather/forecast false nobody_to_ask  by `},
		{"saved", false, Reply{}, nil, "known", "approved weather/forecast known by 1"},
		{"denied", false, Reply{Granted: true}, nil, "secret", "denied weather/forecast secret to weather: denied by toolhost.yaml:3"},
		{"allowed", false, Reply{}, nil, "fine", ""},
		{"preparing, denied", true, Reply{}, nil, "secret", "denied weather/forecast secret to weather: denied by toolhost.yaml:3"},
		{"preparing", true, Reply{}, nil, "a", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			recorder := new(told)
			engine := New(policy, replies{test.reply, test.err}).WithApprovals(approvals).WithRecorder(recorder)
			with := caller
			with.Preparing = test.preparing
			_ = engine.Gate(with).Permit(t.Context(), "weather/forecast", test.resource) // the answer is not what this is about
			if got := strings.Join(recorder.lines, "|"); got != test.want {
				t.Errorf("got %s\nwant %s", got, test.want)
			}
			if slices.Contains(recorder.ids, "") {
				t.Error("a request has no id")
			}
		})
	}
}

type replies struct {
	reply Reply
	err   error
}

func (r replies) Ask(context.Context, Request) (Reply, error) { return r.reply, r.err }

// What was approved for a command line in one directory holds in that directory only
// (law 34), and is shown as what it is.
//
// Seen to fail: with the line alone saved, and with the line alone looked up.
func TestLaw34CommandLineInItsDirectory(t *testing.T) {
	queue := NewQueue(QueueOptions{})
	caller := Caller{Plugin: "process", Builtin: true, Tool: "process/run", Root: "/r"}
	run := func(line, directory string) (asked *Pending) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		changes, stop := queue.Watch()
		defer stop()
		ended := make(chan error, 1)
		go func() {
			ended <- New(&Policy{}, queue).WithApprovals(queue.approvals).Gate(caller).Assert(ctx, tool.PermissionRequest{
				Action: service.ActionShell, Resources: []string{line}, Metadata: map[string]string{service.MetadataDirectory: directory},
			})
		}()
		defer cancel()
		for {
			select {
			case <-changes:
				if pending := queue.Pending(); len(pending) > 0 {
					cancel()
					<-ended
					return &pending[0]
				}
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
				return nil
			}
		}
	}
	for _, test := range []struct{ line, directory, want string }{
		{"rm -r out", "", "rm -r out"},
		{"rm -r out", "./", "rm -r out"},
		{"rm -r out", "a b", "cd -- 'a b' && {\nrm -r out\n}"},
		{"rm -r *", "it's/", `cd -- 'it'\\''s' && {` + "\nrm -r \\*\n}"},
		{"rm ) ; {", "a", ""},
	} {
		asked := run(test.line, test.directory)
		if asked == nil {
			t.Fatalf("%q in %q is not asked for", test.line, test.directory)
		}
		if got := strings.Join(asked.Request.Save, "|"); got != test.want {
			t.Errorf("%q in %q saves %q, want %q", test.line, test.directory, got, test.want)
		}
	}
	save := func(line, directory string) {
		t.Helper()
		patterns := exactly(service.ActionShell, []string{line}, directory)
		if err := queue.approvals.Save(t.Context(), Approval{ApprovalKey: caller.key(service.ActionShell), Patterns: patterns}); err != nil {
			t.Fatal(err)
		}
	}
	save("make", "a")
	for directory, want := range map[string]bool{"a": false, "a/": false, "": true, "b": true, "a/b": true} {
		if got := run("make", directory) != nil; got != want {
			t.Errorf("make in %q is asked for: %v, want %v", directory, got, want)
		}
	}
	save("make test", ".")
	if run("make test", "") != nil || run("make test", "a") == nil {
		t.Error("what was approved in the root holds elsewhere, or not in the root")
	}
}

// What was being approved for good when its call ended is told as what it is, since it
// stands (law 34).
//
// Seen to fail: with the end of the call told alone.
func TestRecorderIsToldWhatStands(t *testing.T) {
	store := &blocking{save: make(chan error)}
	queue := NewQueue(QueueOptions{Approvals: store})
	recorder := new(told)
	engine := New(&Policy{}, queue).WithApprovals(store).WithRecorder(recorder)
	ctx, cancel := context.WithCancel(t.Context())
	changes, stop := queue.Watch()
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- engine.Gate(Caller{Plugin: "weather", Root: "/r", Digest: "d"}).Assert(ctx, tool.PermissionRequest{
			Action: "weather/forecast", Resources: []string{"a"}, Save: []string{"a"},
		})
	}()
	<-changes
	saved := make(chan error, 1)
	go func() {
		_, err := queue.Reply(t.Context(), queue.Pending()[0].ID, Answer{Kind: Always, By: "bob"})
		saved <- err
	}()
	for beginning := true; beginning; { // until it is being saved
		queue.mu.Lock()
		for _, r := range queue.requests {
			beginning = r.saving == nil
		}
		queue.mu.Unlock()
	}
	cancel()
	<-ended
	store.save <- nil
	if err := <-saved; err == nil {
		t.Error("the request was not told to be over")
	}
	if got, want := strings.Join(recorder.lines, "|"), `asked weather/forecast ["a"]|answered weather/forecast false cancelled always by bob`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// A recorder that panics is no call's trouble, as the registry's.
//
// Seen to fail: with the recorder called as it is.
func TestRecorderThatPanics(t *testing.T) {
	engine := New(&Policy{}, replies{reply: Reply{Granted: true}}).WithRecorder(panics{})
	if err := engine.Gate(Caller{Plugin: "weather"}).Permit(t.Context(), "weather/forecast", "a"); err != nil {
		t.Error(err)
	}
}

type panics struct{ Recorder }

// TestLaw34SavedIsWhatCanBeShown: more patterns than can be shown are not offered to be
// saved, nor saved. Seen to fail without the bound on their length.
func TestLaw34SavedIsWhatCanBeShown(t *testing.T) {
	long := strings.Repeat("x", 4000)
	for patterns, want := range map[int]int{1: 1, 4: 4, 5: 0, 64: 0} {
		all := slices.Repeat([]string{long}, patterns)
		if got := len(savable("weather/forecast", all)); got != want {
			t.Errorf("of %d patterns %d can be saved, want %d", patterns, got, want)
		}
	}
}
