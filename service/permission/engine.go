package permission

import (
	"context"
	"encoding/json"

	"github.com/toolhost/toolhost/tool"
)

// A Caller is whose call a gate is for.
type Caller struct {
	// Identity is the call's; its agent selects the rules that name one.
	Identity tool.Identity
	// Tool is the canonical id of the tool, plugin/authored.
	Tool string
	// Plugin is the plugin's key in config.
	Plugin string
	// Builtin says that the plugin ships with the host. It asserts what it does
	// itself, under the built-ins' actions; anybody else is judged by the services
	// (law 33).
	Builtin bool
	// Root, Digest and Definition say for whom an approval is saved, together with
	// Plugin (law 34): the Location's root, absolute, clean and without links; what a
	// plugin that is not built in consists of; and, for a tool that is not always the
	// same for that digest, what it says of itself. Without a root, or the digest of a
	// plugin that is not built in, nothing is saved or looked up.
	Root, Digest, Definition string
	// Preparing says that the call is only being prepared: rules are judged, nobody
	// is asked, and nothing can be asserted (law 25).
	Preparing bool
	// Effects, Irreversible and Review are what the call may do and, in the tool's
	// own words, will do; Diff is what the host knows that it will change in files.
	Effects      tool.Effects
	Irreversible bool
	Review, Diff string
	// Input is what the tool was called with, as it was validated. It must not be
	// changed, and may be nil.
	Input json.RawMessage
	// Asking, if it is not nil, is called before an approver is asked, and answered
	// when that has returned.
	Asking func(tool.PermissionRequest) (answered func())
}

// A Request is what an approver is asked: one action on some resources, none of
// which is denied and all of which need an answer.
type Request struct {
	// ID is made by the engine, for each request another one; what a caller says names
	// no request (case C15).
	ID        string
	Caller    Caller
	Action    string
	Resources []string
	// Directory is where command lines run, relative to the root: "." is the root. It is
	// empty for other actions.
	Directory string
	// Judged is what the parts of the command lines were judged to be, by the judgement
	// that makes it a question; Unlisted is how many parts more had an answer. See
	// [Judged].
	Judged   []Judged
	Unlisted int
	// Save holds the patterns that "always" would save, exactly; empty when the
	// answer cannot be saved (law 34). For a command line it is the line itself, in its
	// directory, see [SavePattern].
	Save []string
	// Metadata is the tool's own words about the request.
	Metadata map[string]string
	// Why says what makes it a question, such as the reason of the rule that asks.
	Why string

	// denied is why a rule that is newer than the question forbids what it is about; empty
	// when none does. It is nil for a request that no engine made.
	denied func() string
}

// A Reply is an approver's answer.
type Reply struct {
	// Granted says yes.
	Granted bool
	// Kind says why not: KindDeclined, KindTimedOut, KindNobodyToAsk or
	// KindCancelled. Anything else counts as KindDeclined. It is not looked at when
	// the answer is yes.
	Kind tool.Kind
	// Reason is the person's feedback, which the model is told when the answer is no;
	// it may be empty.
	Reason string
	// By says who answered; it is empty when no person did, or it is not known.
	By string
	// Answer is how a person answered; it is empty when no person did, or it is not
	// known.
	Answer AnswerKind
}

// An Approver answers the questions that no rule settles.
type Approver interface {
	// Ask blocks until there is an answer, or until ctx, which is the call's, is
	// over; then it withdraws the question and returns. An error means that the
	// question could not be asked and is a no (law 37), and so is a panic. It must not
	// change the request, and must be safe for concurrent use.
	Ask(ctx context.Context, request Request) (Reply, error)
}

// Nobody is the approver of a host with nobody to ask: its answer is no, with
// that reason.
type Nobody struct{}

var _ Approver = Nobody{}

// Ask answers at once with KindNobodyToAsk.
func (Nobody) Ask(context.Context, Request) (Reply, error) {
	return Reply{Kind: tool.KindNobodyToAsk}, nil
}

// An Engine applies a policy to the calls of one Location. It holds nothing that
// must be released and is safe for concurrent use.
type Engine struct {
	policy    *Policy
	approver  Approver
	approvals Approvals      // nil: none
	recorder  Recorder       // nil: none
	current   func() *Engine // nil: always this one
}

// New makes an engine. It sorts the policy's rules once; the policy must not be
// changed any more. A nil approver
// is [Nobody].
func New(policy *Policy, approver Approver) *Engine {
	if approver == nil {
		approver = Nobody{}
	}
	sorted := *policy
	sorted.Lists = make([]List, len(policy.Lists))
	for i, l := range policy.Lists {
		sorted.Lists[i] = l.indexed(Actions())
	}
	sorted.Defaults = policy.Defaults.indexed(Actions())
	return &Engine{policy: &sorted, approver: approver}
}

// WithApprovals returns an engine that also looks at what is saved in approvals
// before it asks: a resource that would be asked for, and that a pattern saved for
// the same root, plugin and action matches, is allowed. A deny holds whatever is
// saved (law 32). Where the approvals cannot be read, a person is asked and told so.
func (e *Engine) WithApprovals(approvals Approvals) *Engine {
	with := *e
	with.approvals = approvals
	return &with
}

// WithCurrent returns an engine that others replace while its calls go on: current gives
// the one that judges new calls now. Whatever that one denies is denied to the calls of this
// one as well, from then on and also when it was being asked for already (law 32); what is
// allowed stays what this one allows. current must not block, must be safe for concurrent
// use, and may give nil for this one.
func (e *Engine) WithCurrent(current func() *Engine) *Engine {
	with := *e
	with.current = current
	return &with
}

// since is the policy that took the place of the engine's; nil if none did.
func (e *Engine) since() *Policy {
	if e.current == nil {
		return nil
	}
	if now := e.current(); now != nil && now.policy != e.policy {
		return now.policy
	}
	return nil
}

// Gate makes the gate of one call. It remembers the answers of that call and is
// dropped with it; see [tool.Gate].
func (e *Engine) Gate(caller Caller) tool.Gate {
	if caller.Preparing {
		e = &Engine{policy: e.policy, approver: Nobody{}, approvals: e.approvals, recorder: e.recorder, current: e.current}
	}
	return &gate{engine: e, caller: caller, turn: make(chan struct{}, 1)}
}
