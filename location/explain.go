package location

import (
	"cmp"
	"context"
	"fmt"

	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/tool/registry"
)

// An Explanation is what would become of a call, and by which rules.
type Explanation struct {
	registry.Plan
	// Requests are what the call asks for, in that order; it ends at the first that is
	// not granted. They take the place of the plan's.
	Requests []ExplainedRequest `json:"requests"`
}

// An ExplainedRequest is one thing that a call asks for.
type ExplainedRequest struct {
	// Action, Metadata and Save are the request's; Save is what the tool proposes, and
	// what "always" would save is in the explanations.
	Action   string            `json:"action"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Save     []string          `json:"save,omitempty"`
	// Explanations are of its resources, in their order, each as if it was the only
	// one; the strictest holds (law 33). A request without resources has one.
	Explanations []permission.Explanation `json:"explanations"`
}

// Explain says what would become of a call of a tool that is effective now: what it
// would ask for, and what the rules and the saved approvals say to that. The call is
// not made: no question is asked, nothing is approved, recorded or changed. The tool is
// prepared, and a built-in begun, as [registry.Capture.Plan] says; a question that the
// call would answer for a later one is not remembered.
//
// ctx bounds it, and the request's deadline does: first the plan, then looking up what
// it asks for. The error is about the request's identity, or the cause of ctx or of
// the latter; that the call would fail is in the explanation.
func (l *Location) Explain(ctx context.Context, request registry.Request) (Explanation, error) {
	plan, err := l.registry.Capture().Plan(ctx, request)
	if err != nil {
		return Explanation{}, fmt.Errorf("location %s: %w", l.name, err)
	}
	x := Explanation{Plan: plan, Requests: make([]ExplainedRequest, 0, len(plan.Requests))}
	caller := l.caller(registry.Caller{
		Identity: request.Identity, Tool: plan.Tool, Plugin: plan.Plugin, Builtin: plan.Builtin, Digest: plan.Digest,
		Definition: plan.Definition, Effects: plan.Effects, Irreversible: plan.Irreversible, Review: plan.Review, Diff: plan.Diff,
	})
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(max(request.Deadline, 0), l.options.Deadline, registry.DefaultDeadline))
	defer cancel()
	for _, r := range plan.Requests {
		explained, err := l.current().engine.Explain(ctx, caller, r)
		if err != nil {
			return Explanation{}, fmt.Errorf("location %s: %w", l.name, err)
		}
		x.Requests = append(x.Requests, ExplainedRequest{Action: r.Action, Metadata: r.Metadata, Save: r.Save, Explanations: explained})
	}
	return x, nil
}
