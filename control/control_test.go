package control

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/service/permission/shown"
	"github.com/toolhost/toolhost/state"
	"github.com/toolhost/toolhost/tool"
)

// TestLaw35RepliesOverTheSocket: each answer does what it does to the queue, and is
// in the name of the user. Seen to fail with a By that the client sends.
func TestLaw35RepliesOverTheSocket(t *testing.T) {
	uid := strconv.Itoa(os.Geteuid())
	me := "user " + uid // one that has no name
	if u, err := user.LookupId(uid); err == nil {
		me = u.Username
	}
	tests := map[string]struct {
		answer   permission.Answer
		granted  bool
		released int
		reason   string
		saved    int
	}{
		"once":   {answer: permission.Answer{Kind: permission.Once, By: "somebody else"}, granted: true},
		"always": {answer: permission.Answer{Kind: permission.Always, By: "x", Expires: time.Hour}, granted: true, released: 1, saved: 1},
		"reject": {answer: permission.Answer{Kind: permission.Reject, Feedback: "ask <later> & \"nicely\""}, reason: "ask <later> & \"nicely\""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := serve(t, "", quick())
			c := client(t, s.dir)
			first := s.ask(t, caller("s", "1"), "moon")
			waiting(t, c, 1)
			second := s.ask(t, caller("other", "2"), "moon")
			list := waiting(t, c, 2)
			others, err := c.Reply(t.Context(), list[0].ID, test.answer)
			if err != nil || len(others) != test.released {
				t.Fatalf("released are %v, %v, want %d", others, err, test.released)
			}
			var refusal *tool.Refusal
			if err := receive(t, first); (err == nil) != test.granted {
				t.Errorf("outcome is %v, want granted %t", err, test.granted)
			} else if errors.As(err, &refusal) && (refusal.Kind != tool.KindDeclined || refusal.Reason != test.reason) {
				t.Errorf("refusal is %+v, want the feedback %q", refusal, test.reason)
			}
			if test.released > 0 {
				if err := receive(t, second); err != nil || others[0] != list[1].ID {
					t.Errorf("the other one: %v, released are %v", err, others)
				}
			}
			all := s.saved.All()
			if len(all) != test.saved {
				t.Fatalf("saved are %+v, want %d", all, test.saved)
			}
			for _, a := range all {
				if a.By != me || a.Expires.Sub(a.At) != time.Hour {
					t.Errorf("saved by %q for %v, want by %q for an hour", a.By, a.Expires.Sub(a.At), me)
				}
			}
			if _, err := c.Reply(t.Context(), list[0].ID, test.answer); !errors.Is(err, permission.ErrNotPending) {
				t.Errorf("second reply: %v, want ErrNotPending", err)
			}
		})
	}
}

// TestErrorsSurviveTheWire: what the queue says is what errors.Is finds. Seen to
// fail with Unwrap removed.
func TestErrorsSurviveTheWire(t *testing.T) {
	s := serve(t, "", quick())
	c := client(t, s.dir)
	bare := caller("s", "1")
	bare.Root = "" // so that nothing can be saved
	s.ask(t, bare, "moon")
	id := waiting(t, c, 1)[0].ID
	tests := map[string]struct {
		id     string
		answer permission.Answer
		is     error
		code   string
	}{
		"nothing pending":  {"nothing", permission.Answer{Kind: permission.Once}, permission.ErrNotPending, CodeNotPending},
		"strange id":       {"a/../b?c=d\x00\n%", permission.Answer{Kind: permission.Reject}, permission.ErrNotPending, CodeNotPending},
		"no id":            {"", permission.Answer{Kind: permission.Reject}, permission.ErrNotPending, ""},
		"dots":             {"..", permission.Answer{Kind: permission.Reject}, permission.ErrNotPending, ""},
		"not savable":      {id, permission.Answer{Kind: permission.Always}, permission.ErrNotSavable, CodeNotSavable},
		"unknown answer":   {id, permission.Answer{Kind: "perhaps"}, nil, CodeInvalid},
		"expiring once":    {id, permission.Answer{Kind: permission.Once, Expires: time.Hour}, nil, CodeInvalid},
		"expired":          {id, permission.Answer{Kind: permission.Always, Expires: -time.Hour}, nil, CodeInvalid},
		"endless feedback": {id, permission.Answer{Kind: permission.Reject, Feedback: strings.Repeat("x", 5000)}, nil, CodeInvalid},
		"oversized":        {id, permission.Answer{Kind: permission.Reject, Feedback: strings.Repeat("x", 1<<20)}, nil, CodeTooLarge},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := c.Reply(t.Context(), test.id, test.answer)
			var e *Error
			if test.code != "" && (!errors.As(err, &e) || e.Code != test.code || e.Message == "") {
				t.Errorf("error is %#v, want code %s", err, test.code)
			}
			if test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("error is %#v, want %v", err, test.is)
			}
		})
	}
	if got := waiting(t, c, 1); got[0].ID != id {
		t.Errorf("pending is %+v, want the same request", got)
	}
	if _, err := c.RejectSession(t.Context(), "", ""); err == nil {
		t.Error("no session was rejected without an error")
	}
}

// failing cannot save.
type failing struct {
	permission.Memory
	err   error
	hangs chan struct{} // closed when it saves
}

func (f *failing) Save(ctx context.Context, a permission.Approval) error {
	if f.hangs != nil {
		close(f.hangs)
		<-ctx.Done()
		return ctx.Err()
	}
	return f.err
}

// TestSavingThatFails: the request stays, and while it is being saved another
// answer is told so.
func TestSavingThatFails(t *testing.T) {
	for name, approvals := range map[string]*failing{
		"fails": {err: errors.New("the disk is full")},
		"hangs": {hangs: make(chan struct{})},
	} {
		t.Run(name, func(t *testing.T) {
			s := serveSaving(t, "", quick(), approvals)
			c := client(t, s.dir)
			outcome := s.ask(t, caller("s", "1"), "moon")
			id := waiting(t, c, 1)[0].ID
			answered := make(chan error, 1)
			go func() {
				_, err := c.Reply(context.Background(), id, permission.Answer{Kind: permission.Always})
				answered <- err
			}()
			if approvals.hangs != nil {
				receive(t, approvals.hangs)
				if _, err := c.Reply(t.Context(), id, permission.Answer{Kind: permission.Once}); !errors.Is(err, permission.ErrSaving) {
					t.Errorf("once while it is saved: %v, want ErrSaving", err)
				}
			}
			var e *Error
			if err := receive(t, answered); !errors.As(err, &e) || e.Code != CodeNotSaved {
				t.Errorf("error is %#v, want code %s", err, CodeNotSaved)
			} else if name == "fails" && !strings.Contains(e.Message, "the disk is full") {
				t.Errorf("error is %v, want the cause", err)
			}
			if _, err := c.Reply(t.Context(), id, permission.Answer{Kind: permission.Once}); err != nil {
				t.Errorf("once afterwards: %v", err)
			}
			if err := receive(t, outcome); err != nil {
				t.Errorf("outcome: %v", err)
			}
		})
	}
}

// TestLaw35RejectSession: all of the session, and nobody else.
func TestLaw35RejectSession(t *testing.T) {
	s := serve(t, "", quick())
	c := client(t, s.dir)
	one, two := s.ask(t, caller("s", "1"), "moon"), s.ask(t, caller("s", "2"), "mars")
	s.ask(t, caller("other", "3"), "moon")
	waiting(t, c, 3)
	if n, err := c.RejectSession(t.Context(), "s", "no"); n != 2 || err != nil {
		t.Fatalf("rejected are %d, %v, want 2", n, err)
	}
	for _, outcome := range []<-chan error{one, two} {
		var refusal *tool.Refusal
		if err := receive(t, outcome); !errors.As(err, &refusal) || refusal.Reason != "no" {
			t.Errorf("outcome is %v, want a refusal with the feedback", err)
		}
	}
	if got := waiting(t, c, 1); got[0].Session != "other" {
		t.Errorf("pending is %+v, want that of the other session", got)
	}
}

// TestShownWhole: all of a request arrives.
func TestShownWhole(t *testing.T) {
	s := serve(t, "", quick())
	c := client(t, s.dir)
	s.ask(t, caller("s", "1"), "moon", "mars")
	s.ask(t, caller("s", "2"), "moon", "mars")
	var got shown.Request
	for got.Behind == 0 {
		got = waiting(t, c, 1)[0]
	}
	call := got.Call
	if got.ID == "" || got.Asked.IsZero() || got.Expires.Sub(got.Asked) != permission.DefaultTimeout || call != "1" && call != "2" || got.Why == "" {
		t.Errorf("got %+v", got)
	}
	want := shown.Request{
		ID: got.ID, Asked: got.Asked, Expires: got.Expires, Behind: 1, Root: "/work", Session: "s", Agent: "main", Message: "m", Call: call,
		Tool: "deploy/ship", Plugin: "deploy", Action: "deploy/ship", Resources: []string{"moon", "mars"}, Save: []string{"moon", "mars"},
		Metadata: map[string]string{"to": "moon"}, Review: "ships it", Effects: []string{"write", "network"}, Irreversible: true,
		Why: got.Why, Input: json.RawMessage(`{"to":"moon"}`),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestStatus: what a host says of itself, with a Location, an audit log that fails,
// and nobody to answer.
func TestStatus(t *testing.T) {
	root := t.TempDir()
	cfg := &config.Config{Locations: []config.Location{
		{Name: "here", Root: root, Policy: &permission.Policy{}, Plugins: []config.Plugin{{Name: "gone", Builtin: "gone"}}},
		{Name: "there", Root: root, Policy: &permission.Policy{}},
	}}
	h, err := host.Open(t.Context(), cfg, host.Options{})
	if err != nil {
		t.Fatal(err)
	}
	life := scope.New(t.Context(), "test")
	t.Cleanup(func() {
		if err := errors.Join(life.Close(context.Background()), h.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
	if _, err := h.Location(t.Context(), "here"); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	audit := state.NewAudit(state.AuditOptions{Dir: filepath.Join(file, "below")})
	if audit.Append(state.AuditEntry{Kind: state.AuditStart}) == nil {
		t.Fatal("an entry was written below a file")
	}
	dir := socketDir(t)
	s, err := Listen(life, Options{Dir: dir, Host: h, Audit: audit, Version: "1.2"})
	if err != nil {
		t.Fatal(err)
	}
	c := client(t, dir)
	got, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Locations) != 1 || len(got.Locations[0].Plugins) != 1 || got.Locations[0].Plugins[0].Reason == "" ||
		time.Since(got.Started) > time.Minute || got.Audit.LastFailure == "" {
		t.Fatalf("status is %+v", got)
	}
	want := Status{
		Pid: os.Getpid(), Version: "1.2", Started: got.Started, Socket: s.Path(), Audit: Audit{1, got.Audit.LastFailure},
		Locations: []Location{{Name: "here", Root: root, Plugins: got.Locations[0].Plugins}},
	}
	if diff := cmp.Diff(want, got); diff != "" || c.Pid() != os.Getpid() {
		t.Errorf("pid %d: %s", c.Pid(), diff)
	}
	if list, err := c.Pending(t.Context()); err != nil || len(list.Approvals) != 0 || list.Approvals == nil {
		t.Errorf("list is %+v, %v, want an empty one", list, err)
	}
	if _, err := c.Reply(t.Context(), "x", permission.Answer{Kind: permission.Reject}); !errors.Is(err, permission.ErrNotPending) {
		t.Errorf("reply: %v, want ErrNotPending", err)
	}
}

// TestTwoHosts: each has its own requests.
func TestTwoHosts(t *testing.T) {
	dir := socketDir(t)
	a, b := serve(t, dir, quick()), serve(t, dir, quick())
	a.ask(t, caller("a", "1"), "moon")
	outcome := b.ask(t, caller("b", "1"), "moon")
	clients, err := Hosts(t.Context(), dir)
	if err != nil || len(clients) != 2 {
		t.Fatalf("hosts are %v, %v, want two", clients, err)
	}
	sessions := map[string]*Client{}
	var id string
	for _, c := range clients {
		t.Cleanup(c.Close)
		p := waiting(t, c, 1)[0]
		sessions[p.Session] = c
		if p.Session == "b" {
			id = p.ID
		}
	}
	if _, err := sessions["a"].Reply(t.Context(), id, permission.Answer{Kind: permission.Once}); !errors.Is(err, permission.ErrNotPending) {
		t.Errorf("answered at the other host: %v, want ErrNotPending", err)
	}
	if _, err := sessions["b"].Reply(t.Context(), id, permission.Answer{Kind: permission.Once}); err != nil {
		t.Error(err)
	}
	if err := receive(t, outcome); err != nil {
		t.Error(err)
	}
	waiting(t, sessions["a"], 1)
}

// TestLaw38PartsOverTheSocket: a command line arrives with where it runs and what its
// parts were judged to be, so that it is shown elsewhere as it is here. Seen to fail with
// the parts left out of the value.
func TestLaw38PartsOverTheSocket(t *testing.T) {
	s := serve(t, "", quick())
	c := client(t, s.dir)
	ctx, cancel := context.WithCancel(t.Context())
	outcome := make(chan error, 1)
	go func() {
		outcome <- s.engine.Gate(caller("s", "1")).PermitCommand(ctx, tool.CommandLine{Line: "make && git log > x", Directory: "sub"})
	}()
	got := waiting(t, c, 1)[0]
	cancel()
	receive(t, outcome)
	want := []shown.Judged{
		{Kind: "command", Action: "shell", Text: "make", Effect: "ask", Why: "no rule speaks of it"},
		{Kind: "command", Action: "shell", Text: "git log", Effect: "ask", Why: "no rule speaks of it"},
		{Kind: "write", Action: "edit", Text: "sub/x", Effect: "ask", Why: "no rule speaks of it"},
	}
	if diff := cmp.Diff(want, got.Judged); diff != "" || got.Directory != "sub" || got.Unlisted != 0 {
		t.Errorf("in %q, %d more: %s", got.Directory, got.Unlisted, diff)
	}
}
