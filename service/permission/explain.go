package permission

import (
	"context"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/tool"
)

// An Explanation is a verdict with everything that was looked at for it (law 31).
// Nothing was asked, saved or recorded for it.
type Explanation struct {
	// Action and Resource are what was judged; a path is in its shortest form.
	Action   string `json:"action"`
	Resource string `json:"resource"`
	// Directory is where a command line runs, relative to the root; empty for the root.
	Directory string `json:"directory,omitempty"`
	// Agent is whose rules were looked at.
	Agent string `json:"agent,omitempty"`
	// Verdict is exactly what [Policy.Evaluate] and [Policy.EvaluateCommand] say. Its
	// rule is the policy's.
	Verdict Verdict `json:"-"`
	// Effect is the verdict's, and Why the verdict in words.
	Effect Effect `json:"effect"`
	Why    string `json:"why"`
	// DecidedBy is where the rule stands that decided, as file:line; empty if no rule
	// did.
	DecidedBy string `json:"decided_by,omitempty"`
	// Parts are what was judged by itself, in that order; the strictest answer holds,
	// and of equal ones the first.
	Parts []Part `json:"parts"`

	// Unassertable says why the caller may not assert the request at all, so that no
	// rule was looked at; see [Engine.Explain], which alone sets this and what follows.
	Unassertable string `json:"unassertable,omitempty"`
	// Approved is the saved approval that makes an allow of the verdict ask, or nil.
	Approved *ApprovedBy `json:"approved,omitempty"`
	// Unreadable says why it is not known what was approved; it is asked for then.
	Unreadable string `json:"approvals_unreadable,omitempty"`
	// Always holds the patterns that "always" would save, exactly, if the request was
	// asked for; empty if that cannot be saved, or nothing is asked.
	Always []string `json:"always,omitempty"`
}

// Answer is what becomes of the resource: the verdict, or allow where it is asked for
// and approved already.
func (x *Explanation) Answer() Effect {
	if x.Approved != nil {
		return Allow
	}
	return x.Effect
}

// ApprovedBy names the saved approval that covers a resource, and its pattern that
// does.
type ApprovedBy struct {
	ID      int64  `json:"id"`
	Pattern string `json:"pattern"`
}

// A PartKind says what a [Part] is.
type PartKind string

// The kinds of parts. All but the first are of command lines (law 38).
const (
	PartResource PartKind = "resource" // all there is of the resource
	PartCommand  PartKind = "command"  // a simple command
	PartPossible PartKind = "possible" // arguments that what stands in front of them may run
	PartWrite    PartKind = "write"    // a file that a redirection writes, judged as an edit
	PartLine     PartKind = "line"     // the line as it was written, of which only a deny counts
	PartDoubt    PartKind = "doubt"    // what cannot be told of the line; no rule is looked at
)

// A Part is what is judged by itself: a resource, or one part of a command line.
type Part struct {
	Kind PartKind `json:"kind"`
	// Action and Text are what the rules are matched with. Of a command, Text is its
	// words without quoting.
	Action string `json:"action"`
	Text   string `json:"text"`
	// Spellings are other texts of a command, which ask and deny match as well, and
	// allow does not.
	Spellings []string `json:"spellings,omitempty"`
	// Lists are the lists that were asked, in the order of the policy.
	Lists []ListTrace `json:"lists,omitempty"`
	// Defaults is set if they were asked, since every list abstained.
	Defaults *ListTrace `json:"defaults,omitempty"`
	// Effect is the answer, none if the part has nothing to say, and Why the answer in
	// words.
	Effect Effect `json:"effect"`
	Why    string `json:"why,omitempty"`
	// Decided says that it is this part's answer that holds for the whole.
	Decided bool `json:"decided,omitempty"`

	verdict Verdict // its answer
}

// A ListTrace is what one list of a policy was asked, and said.
type ListTrace struct {
	// DeniesOnly and Base are the list's; see [List].
	DeniesOnly bool   `json:"denies_only,omitempty"`
	Base       string `json:"base,omitempty"`
	// Text is what the rules were matched with, if that is not the part's: the path
	// relative to Base. Outside says that it is not below Base, so that the list
	// abstains without being looked at.
	Text    string `json:"text,omitempty"`
	Outside bool   `json:"outside,omitempty"`
	// Rules are those that were looked at, in that order: from the last of the list to
	// the first that matches, which answers.
	Rules []RuleTrace `json:"rules,omitempty"`
	// NotLookedAt is how many rules stand before the one that answered. Omitted is how
	// many were looked at, did not match, and are left out of Rules, since a request is
	// explained by [MaxRuleTraces] at most, not counting those that match.
	NotLookedAt int `json:"not_looked_at,omitempty"`
	Omitted     int `json:"omitted,omitempty"`
	// Effect is the list's answer, none if it abstains.
	Effect Effect `json:"effect"`
	// Decided says that it is this list's answer that holds for the part.
	Decided bool `json:"decided,omitempty"`

	answer *Rule // nil: it abstains
}

// MaxRuleTraces is how many rules that do not match the explanations of one request
// have at most.
const MaxRuleTraces = 20_000

// A RuleTrace is one rule that was looked at.
type RuleTrace struct {
	// Source is where it stands, as file:line.
	Source   string `json:"source"`
	Action   string `json:"action"`
	Resource string `json:"resource"`
	Effect   Effect `json:"effect"`
	Agent    string `json:"agent,omitempty"`
	Reason   string `json:"reason,omitempty"`
	// Matched says that the rule is its list's answer. Otherwise Miss says why not.
	Matched bool `json:"matched"`
	Miss    Miss `json:"miss,omitempty"`
}

// A Miss says why a rule is not an answer.
type Miss string

// The misses.
const (
	MissAction    Miss = "action"    // it is about another action
	MissAgent     Miss = "agent"     // it is about another agent
	MissResource  Miss = "resource"  // it is about another resource
	MissBroad     Miss = "broad"     // it is about any command, and only rules about some count here
	MissDoubtful  Miss = "doubtful"  // it allows, which says nothing of a command that cannot be told before it runs
	MissUntrusted Miss = "untrusted" // it matches and ends the looking, but its file is not trusted, and only its denies count
)

// MarshalText is the name of the effect, "none" for none.
func (e Effect) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// Explain judges a resource as [Policy.Evaluate] does, or a command line that runs in
// the directory as [Policy.EvaluateCommand] does, by the same code, and takes down
// what it looks at. For other actions the directory has no meaning.
func (p *Policy) Explain(action, resource, directory, agent string) Explanation {
	return p.explain(action, resource, directory, agent, new(int))
}

// explain is Explain; so many misses were taken down for the request already.
func (p *Policy) explain(action, resource, directory, agent string, misses *int) Explanation {
	x := Explanation{Action: action, Resource: resource, Agent: agent}
	if shortest, ok := canonical(action, resource); ok {
		x.Resource = shortest
	}
	if action == service.ActionShell && directory != "." {
		x.Directory = directory
	}
	t := trace{misses: misses}
	x.decide(p.evaluate(action, x.Resource, directory, agent, &t))
	x.Parts = t.parts
	return x
}

func (x *Explanation) decide(v Verdict) {
	x.Verdict, x.Effect, x.Why = v, v.Effect, v.String()
	if v.Rule != nil {
		x.DecidedBy = v.Rule.Source
	}
}

// Explain says what would become of a request that the caller asserts: of each of
// its resources, in order, as if it was the only one. A request without resources,
// which is refused, has one explanation. It asks nobody and records nothing; what was
// approved for good is looked up. What services ask about on their own while the call
// runs is not the request's and not in it.
//
// ctx bounds it. The error is its cause once it is over.
func (e *Engine) Explain(ctx context.Context, caller Caller, request tool.PermissionRequest) ([]Explanation, error) {
	agent, directory := caller.Identity.Agent, directoryOf(&request)
	if reason := caller.unassertable(request); reason != "" {
		return unassertable(request, agent, reason), nil
	}
	saved := e.savedFor(&caller, request.Action)
	var asked []string
	misses := 0
	all := make([]Explanation, len(request.Resources))
	for i, resource := range request.Resources {
		x := e.policy.explain(request.Action, resource, directory, agent, &misses)
		if x.Effect == Ask {
			if by := saved.find(ctx, extent(x.Action, x.Resource, directory)); by != nil && !hasInput(request.Action, request.Metadata) {
				x.Approved = &ApprovedBy{by.ID, by.Pattern}
			} else {
				asked = append(asked, x.Resource)
			}
		}
		all[i] = x
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	always := caller.always(request, asked)
	for i := range all {
		if x := &all[i]; x.Answer() == Ask {
			x.Always = always
			if saved.err != nil {
				x.Unreadable = saved.err.Error()
			}
		}
	}
	return all, nil
}

// unassertable explains a request that may not be asserted.
func unassertable(request tool.PermissionRequest, agent, reason string) []Explanation {
	resources := request.Resources
	if len(resources) == 0 {
		resources = []string{""}
	}
	all := make([]Explanation, len(resources))
	for i, resource := range resources {
		all[i] = Explanation{Action: request.Action, Resource: resource, Agent: agent, Unassertable: reason, Parts: []Part{}}
		all[i].decide(Verdict{Effect: Deny, Doubt: reason})
		all[i].Why = "denied: " + reason
	}
	return all
}

// always are the patterns that "always" saves for a request of the caller of which
// these resources are asked for.
func (c *Caller) always(request tool.PermissionRequest, asked []string) []string {
	if key := c.key(request.Action); !key.complete() {
		return nil // an approval could not say whose it is
	}
	if hasInput(request.Action, request.Metadata) {
		return nil
	}
	patterns := request.Save
	if request.Action == service.ActionShell {
		patterns = exactly(request.Action, asked, directoryOf(&request))
	}
	return savable(request.Action, patterns)
}
