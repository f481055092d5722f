package permission

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolhost/toolhost/tool"
)

// TestCaseC09ExactlyWhatWasShown: always for a compound line stores one entry, that
// line; what is approved for one key, action or pattern says nothing of others.
// Seen to fail with the words of the line saved, and with a key without the action.
func TestCaseC09ExactlyWhatWasShown(t *testing.T) {
	const line = "git status && rm -r ./tmp1"
	synctest.Test(t, func(t *testing.T) {
		var kept Memory
		var a answers
		q := NewQueue(QueueOptions{Approvals: &kept})
		ctx, cancel := context.WithCancel(t.Context())
		shell := func(call, line string) Request {
			r := asks("s", call, line)
			r.Action, r.Caller.Tool, r.Caller.Plugin, r.Caller.Builtin = "shell", "process/run", "process", true
			r.Save = []string{SavePattern(line, "")}
			return r
		}
		a.ask(ctx, q, shell("1", line))
		if shown := q.Pending()[0].Request.Save; !slices.Equal(shown, []string{line}) {
			t.Errorf("shown is %q", shown)
		}
		reply(t, q, q.Pending()[0].ID, Answer{Kind: Always, By: "ann", Feedback: "once and for all", Expires: time.Hour})
		got := kept.All()
		want := []Approval{{
			ID:          1,
			ApprovalKey: ApprovalKey{Root: "/project", Plugin: "process", Builtin: true, Definition: "f1", Action: "shell"}, Patterns: []string{line}, Tool: "process/run",
			By: "ann", Why: "once and for all", At: time.Now(), Expires: time.Now().Add(time.Hour),
		}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("saved is\n%+v, want\n%+v", got, want)
		}
		a.ask(ctx, q, shell("2", line))
		a.want(t, map[string]Reply{"1": yes, "2": yes})
		for i, other := range []string{"rm -r ./other", "git status", "rm -r ./tmp1", line + " ", line + "; rm x"} {
			a.ask(ctx, q, shell(fmt.Sprint("other", i), other))
		}
		read := shell("read", line)
		read.Action = "read"
		plugin := shell("plugin", line)
		plugin.Caller.Plugin = "other"
		stranger := shell("stranger", line)
		stranger.Caller.Builtin = false
		a.ask(ctx, q, read, plugin, stranger)
		root, definition := shell("root", line), shell("definition", line)
		root.Caller.Root, definition.Caller.Definition = "/elsewhere", ""
		a.ask(ctx, q, root, definition)
		shows(t, q, "other0", "other1", "other2", "other3", "other4", "read", "plugin", "stranger", "root", "definition")
		time.Sleep(time.Hour)
		a.ask(ctx, q, shell("late", line))
		shows(t, q, "late")
		cancel()
		synctest.Wait()
		empty(t, q)
	})
}

// What an approval would not heed, or no resource could match, is not offered.
func TestLaw34Savable(t *testing.T) {
	tests := []struct {
		action string
		save   []string
		want   []string
	}{
		{"read", []string{"a/*", "/a", "../a", "a/", "./a", "", "\xff"}, []string{"a/*"}},
		{"weather/forecast", []string{"/a", "*", strings.Repeat("x", MaxPattern+1)}, []string{"/a", "*"}},
		{"shell", []string{"git *", "git status", `echo \*`}, []string{"git status", `echo \*`}},
		{"read", []string{"a\x00b", "c"}, []string{"c"}},
		{"read", slices.Repeat([]string{"a"}, maxSaved+1), nil},
		{"", []string{"a"}, nil},
		{"read", nil, nil},
	}
	for _, test := range tests {
		if got := savable(test.action, test.save); !slices.Equal(got, test.want) {
			t.Errorf("%s %q: got %q, want %q", test.action, test.save, got, test.want)
		}
	}
}

// TestLaw34Approves. Seen to fail with a command line matched by a wildcard, and
// with no resources approved by anything.
func TestLaw34Approves(t *testing.T) {
	tests := []struct {
		saved     []string
		action    string
		resources []string
		want      bool
	}{
		{[]string{"a", "b*"}, "read", []string{"a", "bb"}, true},
		{[]string{"a", "b*"}, "read", []string{"a", "c"}, false},
		{[]string{"\xff"}, "read", []string{"\xff"}, false},
		{[]string{"git *"}, "shell", []string{"git status"}, false},
		{[]string{"git status"}, "shell", []string{"git status"}, true},
		{[]string{"*"}, "read", nil, false},
		{nil, "read", []string{"a"}, false},
	}
	for _, test := range tests {
		var saved []SavedPattern
		for _, pattern := range test.saved {
			saved = append(saved, SavedPattern{Pattern: pattern})
		}
		if got := approvesAll(saved, &Request{Action: test.action, Resources: test.resources}); got != test.want {
			t.Errorf("%s of %q by %q: got %t, want %t", test.action, test.resources, test.saved, got, test.want)
		}
	}
}

// TestCaseC14FiveReasons: each no has its kind and its words, through a gate. Seen
// to fail with the reject without its kind, and with the timeout as one.
func TestCaseC14FiveReasons(t *testing.T) {
	const what = `weather/forecast of "a" `
	closed, closing := context.WithCancel(t.Context())
	closing()
	tests := map[string]struct {
		policy   *Policy
		approver func(*Queue) Approver
		answer   func(t *testing.T, q *Queue)
		kind     tool.Kind
		text     string
	}{
		"denied": {
			policy: &Policy{Lists: []List{list(deny("weather/*", "a"))}},
			kind:   tool.KindDenied, text: what + "is denied: by toolhost.yaml:1",
		},
		"declined": {
			answer: func(t *testing.T, q *Queue) {
				reply(t, q, q.Pending()[0].ID, Answer{Kind: Reject, Feedback: "ask for b"})
			},
			kind: tool.KindDeclined, text: what + "was declined: ask for b",
		},
		"timed out": {
			kind: tool.KindTimedOut, text: what + "needs approval, and nobody answered in time: no rule speaks of it; call the tool again when somebody can answer",
		},
		"nobody to ask": {
			approver: func(*Queue) Approver { return Nobody{} },
			kind:     tool.KindNobodyToAsk, text: what + "needs approval, and there is nobody to ask: no rule speaks of it",
		},
		"cancelled": { // by who owns the approver, not by the call
			approver: func(q *Queue) Approver {
				return &approver{answer: func(_ context.Context, r Request) (Reply, error) { return q.Ask(closed, r) }}
			},
			kind: tool.KindCancelled, text: what + "needs approval, and the request was withdrawn: no rule speaks of it",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := NewQueue(QueueOptions{})
				var by Approver = q
				if test.approver != nil {
					by = test.approver(q)
				}
				policy := test.policy
				if policy == nil {
					policy = &Policy{}
				}
				asserted := make(chan error, 1)
				go func() {
					asserted <- New(policy, by).Gate(outsider()).Assert(t.Context(), request("weather/forecast", "a"))
				}()
				synctest.Wait()
				if test.answer != nil {
					test.answer(t, q)
				}
				wantRefusal(t, <-asserted, test.kind, test.text)
				empty(t, q)
			})
		})
	}
}

// A store that cannot be read approves nothing: the person is asked.
func TestLaw37AStoreThatFailsAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a answers
		store := new(fragile)
		q := NewQueue(QueueOptions{Approvals: store})
		ctx, cancel := context.WithCancel(t.Context())
		a.ask(ctx, q, asks("s", "1", "a"))
		reply(t, q, shows(t, q, "1")[0], Answer{Kind: Always})
		store.broken = true
		a.ask(ctx, q, asks("s", "2", "a"))
		id := shows(t, q, "2")[0]
		if _, err := q.Reply(ctx, id, Answer{Kind: Always}); !errors.Is(err, errBroken) {
			t.Errorf("Reply: got %v", err)
		}
		shows(t, q, "2")
		cancel()
		synctest.Wait()
		empty(t, q)
	})
}

// TestLaw34Memory: until revoked or expired. Seen to fail with expiry unheeded, and
// with the same words saved twice.
func TestLaw34Memory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, other := ApprovalKey{Plugin: "p", Action: "p/x"}, ApprovalKey{Plugin: "p", Action: "p/y"}
		var m Memory
		save := func(key ApprovalKey, by string, lasts time.Duration, patterns ...string) {
			t.Helper()
			if err := m.Save(t.Context(), Approval{ApprovalKey: key, Patterns: patterns, By: by, Expires: time.Now().Add(lasts)}); err != nil {
				t.Fatal(err)
			}
		}
		want := func(when string, names ...string) {
			t.Helper()
			var got []string
			for _, a := range m.All() {
				got = append(got, fmt.Sprint(a.ID, a.By))
			}
			if !slices.Equal(got, names) {
				t.Errorf("%s: got %v, want %v", when, got, names)
			}
		}
		patterns := []string{"a", "b"}
		save(key, "first", time.Hour, patterns...)
		patterns[0] = "x" // is the caller's
		save(key, "brief", time.Minute, "c")
		save(other, "other", time.Hour, "a")
		want("saved", "1first", "2brief", "3other")
		got, err := m.Saved(t.Context(), key)
		if want := []SavedPattern{{1, "a"}, {1, "b"}, {2, "c"}}; err != nil || !slices.Equal(got, want) {
			t.Errorf("Saved: got %v, %v, want %v", got, err, want)
		}
		time.Sleep(time.Minute)
		want("expired", "1first", "3other")
		save(key, "again", time.Hour, "a", "b")
		want("the same words", "3other", "4again")
		if m.Revoke(1) || !m.Revoke(4) || m.Revoke(4) {
			t.Error("revoking: what is there is revoked once")
		}
		want("revoked", "3other")
		if got, err := m.Saved(t.Context(), key); err != nil || len(got) != 0 {
			t.Errorf("Saved after revoking: got %v, %v", got, err)
		}
	})
}
