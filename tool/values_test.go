package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Undeclared means everything; none is different from undeclared.
//
// Seen to fail: with Effective returning e itself.
func TestLaw23Effects(t *testing.T) {
	tests := []struct {
		effects Effects
		names   []string
		text    string
		writes  bool
	}{
		{0, []string{"read", "write", "process", "network", "user_interaction", "delegation"}, "read,write,process,network,user_interaction,delegation", true},
		{None, []string{}, "none", false},
		{Read, []string{"read"}, "read", false},
		{Write | Read, []string{"read", "write"}, "read,write", true},
		{None | Network, []string{"network"}, "network", false},
	}
	for _, tt := range tests {
		if got := tt.effects.Names(); !slices.Equal(got, tt.names) {
			t.Errorf("%d.Names() = %q, want %q", tt.effects, got, tt.names)
		}
		if got := tt.effects.String(); got != tt.text {
			t.Errorf("%d.String() = %q, want %q", tt.effects, got, tt.text)
		}
		if got := tt.effects.Has(Write); got != tt.writes {
			t.Errorf("%d.Has(Write) = %v, want %v", tt.effects, got, tt.writes)
		}
		want, _ := json.Marshal(tt.names)
		if got, err := json.Marshal(tt.effects); err != nil || string(got) != string(want) {
			t.Errorf("%d as JSON = %s, %v, want %s", tt.effects, got, err, want)
		}
	}
	beyond := []struct{ said, declared, want Effects }{
		{Read, Read | Write, 0},
		{Read | Network, Read, Network},
		{0, Read, AllEffects &^ Read},
		{Write, 0, 0},
		{None, None, 0},
		{Read, None, Read},
	}
	for _, tt := range beyond {
		if got := tt.said.Beyond(tt.declared); got != tt.want {
			t.Errorf("%v.Beyond(%v) = %d, want %d", tt.said, tt.declared, got, tt.want)
		}
	}
}

// Seen to fail: without "message" in the loop of Check.
func TestLaw12IncompleteIdentity(t *testing.T) {
	whole := Identity{Session: "s", Agent: "a", Message: "m", Call: "c"}
	tests := []struct {
		change func(*Identity)
		want   string
	}{
		{func(*Identity) {}, ""},
		{func(id *Identity) { id.Session = strings.Repeat("x", MaxID) }, ""},
		{func(id *Identity) { id.Session = "" }, "identity has no session id: a call needs session, agent, message and call"},
		{func(id *Identity) { id.Agent = "" }, "identity has no agent id: a call needs session, agent, message and call"},
		{func(id *Identity) { id.Message = "" }, "identity has no message id: a call needs session, agent, message and call"},
		{func(id *Identity) { id.Call = "" }, "identity has no call id: a call needs session, agent, message and call"},
		{func(id *Identity) { id.Call = strings.Repeat("x", MaxID+1) }, "identity has a call id of 257 bytes: at most 256"},
	}
	for _, tt := range tests {
		id := whole
		tt.change(&id)
		if got := errorText(id.Check()); got != tt.want {
			t.Errorf("%+v: got %q, want %q", id, got, tt.want)
		}
	}
}

// Only what was made for the model reaches it; the operator keeps the rest.
//
// Seen to fail: with the cause's text as the message of an operational error.
func TestLaw22SettleError(t *testing.T) {
	secret := errors.New("dial unix /run/secret: refused")
	tests := []struct {
		name    string
		err     error
		status  Status
		kind    Kind
		message string
	}{
		{"failure", &Failure{Message: "no such city"}, Failed, KindFailure, "no such city"},
		{"wrapped failure", fmt.Errorf("at /x: %w", &Failure{Message: "no such city"}), Failed, KindFailure, "no such city"},
		{"denied", &Refusal{Kind: KindDenied, Action: "edit", Resource: ".env", Reason: "secrets"}, Rejected, KindDenied, `edit of ".env" is denied: secrets`},
		{"declined", fmt.Errorf("x: %w", &Refusal{Kind: KindDeclined, Action: "edit", Resource: "a"}), Rejected, KindDeclined, `edit of "a" was declined`},
		{"timed out", &Refusal{Kind: KindTimedOut, Action: "edit", Resource: "a"}, Rejected, KindTimedOut, `edit of "a" needs approval, and nobody answered in time; call the tool again when somebody can answer`},
		{"nobody", &Refusal{Kind: KindNobodyToAsk, Action: "edit", Resource: "a"}, Rejected, KindNobodyToAsk, `edit of "a" needs approval, and there is nobody to ask`},
		{"withdrawn", &Refusal{Kind: KindCancelled, Action: "edit", Resource: "a"}, Rejected, KindCancelled, `edit of "a" needs approval, and the request was withdrawn`},
		{"unavailable", Errorf(KindUnavailable, "%q is restarting", "x"), Rejected, KindUnavailable, `"x" is restarting`},
		{"crashed", Errorf(KindCrashed, "plugin x: %w", secret), Errored, KindCrashed, "the tool is unavailable"},
		{"deadline", Errorf(KindDeadline, "after 5s"), Errored, KindDeadline, "the tool did not finish within its deadline"},
		{"retention", Errorf(KindRetention, "disk full: %w", secret), Errored, KindRetention, "the tool's output could not be kept"},
		{"unknown kind", Errorf("new", "x"), Errored, "new", "the tool is unavailable"},
		{"anything else", secret, Errored, KindInternal, "the tool is unavailable"},
		{"a plugin's own cancellation", context.Canceled, Errored, KindInternal, "the tool is unavailable"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := SettleError(tt.err, true)
			if got.Status != tt.status || got.Error.Kind != tt.kind || got.Error.Message != tt.message || !got.Ran {
				t.Errorf("got %+v, %+v\nwant %s, %s, %q", got, got.Error, tt.status, tt.kind, tt.message)
			}
			if tt.status == Errored && !errors.Is(got.Error, tt.err) {
				t.Errorf("the cause is %v, want %v", got.Error.Cause, tt.err)
			}
		})
	}
}

// An interruption carries the cause of the caller's context and no settlement.
//
// Seen to fail: with ctx.Err in place of context.Cause.
func TestLaw14Interruption(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	if i, over := InterruptedBy(ctx, true); over {
		t.Errorf("got %v before the end", i)
	}
	gone := errors.New("client went away")
	cancel(gone)
	i, over := InterruptedBy(ctx, true)
	if !over || !i.Ran || !errors.Is(i, gone) || i.Error() != "call interrupted: client went away" {
		t.Errorf("got %+v, %v", i, over)
	}
}
