package permission

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/tool"
)

// gate implements [tool.Gate] for one call. Requests take turns, so that they
// are answered in order, stop at the first no, and are not asked twice (law 33).
type gate struct {
	engine *Engine
	caller Caller
	// turn holds a token while a request is being answered. Its holder owns granted.
	turn    chan struct{}
	granted map[question]bool

	mu      sync.Mutex // guards refused
	refused *tool.Refusal
}

var _ tool.Gate = (*gate)(nil)

// question is what an approver said yes to. The directory is that of a command line.
type question struct{ action, resource, directory string }

// Assert implements [tool.Gate].
func (g *gate) Assert(ctx context.Context, request tool.PermissionRequest) error {
	if g.caller.Preparing {
		return errPreparing
	}
	return g.inTurn(ctx, func() error {
		if reason := g.caller.unassertable(request); reason != "" {
			resource := ""
			if len(request.Resources) > 0 {
				resource = request.Resources[0]
			}
			g.denied(request.Action, resource, Verdict{Effect: Deny, Doubt: reason})
			return g.refuse(tool.Refusal{Kind: tool.KindDenied, Action: request.Action, Resource: resource, Reason: reason})
		}
		return g.settle(ctx, request, request.Action == service.ActionShell)
	})
}

// errPreparing is no refusal: it is a mistake of the tool's author.
var errPreparing = errors.New("nothing is asked while a call is being prepared: put the request into the preparation")

// unassertable says what is wrong with asserting the request at all, or nothing.
func (c *Caller) unassertable(request tool.PermissionRequest) string {
	own := c.Plugin + "/"
	switch {
	case request.Action == "":
		return "the request names no action"
	case len(request.Resources) == 0:
		return "the request names no resource"
	case !c.Builtin && (!strings.HasPrefix(request.Action, own) || request.Action == own):
		return fmt.Sprintf("plugin %s may assert only its own actions, %s…", c.Plugin, own)
	default:
		return ""
	}
}

// Permit implements [tool.Gate].
func (g *gate) Permit(ctx context.Context, action string, resources ...string) error {
	return g.inTurn(ctx, func() error {
		if len(resources) == 0 {
			return g.refuse(tool.Refusal{Kind: tool.KindDenied, Action: action, Reason: "the request names no resource"})
		}
		return g.permit(ctx, tool.PermissionRequest{Action: action, Resources: resources})
	})
}

// PermitCommand implements [tool.Gate].
func (g *gate) PermitCommand(ctx context.Context, line tool.CommandLine) error {
	return g.inTurn(ctx, func() error {
		request := tool.PermissionRequest{
			Action: service.ActionShell, Resources: []string{line.Line},
			Metadata: map[string]string{service.MetadataDirectory: path.Clean(line.Directory)},
		}
		for key, value := range map[string]string{service.MetadataProcess: line.Process, service.MetadataStdin: line.Stdin} {
			if value != "" {
				request.Metadata[key] = value
			}
		}
		return g.permit(ctx, request)
	})
}

// permit answers a service. The caller holds the turn.
func (g *gate) permit(ctx context.Context, request tool.PermissionRequest) error {
	if !g.caller.Builtin {
		return g.settle(ctx, request, true)
	}
	for _, resource := range request.Resources {
		if v := g.configured(request.Action, resource, directoryOf(&request)); v.Effect == Deny {
			return g.deny(request.Action, resource, v)
		}
	}
	return nil
}

// configured is what the files say, without the defaults: those that the call began under,
// and the denies of those of now (law 32).
func (g *gate) configured(action, resource, directory string) Verdict {
	agent := g.caller.Identity.Agent
	v := g.engine.policy.byLists(action, resource, directory, agent)
	if since := g.engine.since(); since != nil && v.Effect != Deny {
		if now := since.byLists(action, resource, directory, agent); now.Effect == Deny {
			return now
		}
	}
	return v
}

// deniedSince is the verdict by which a resource is denied that was not denied when the call
// began; its Effect is zero when it is not.
func (g *gate) deniedSince(action, resource, directory string) Verdict {
	if since := g.engine.since(); since != nil {
		if v := since.evaluate(action, resource, directory, g.caller.Identity.Agent, nil); v.Effect == Deny {
			return v
		}
	}
	return Verdict{}
}

// firstDeniedSince is deniedSince for the first of several that is.
func (g *gate) firstDeniedSince(action string, resources []string, directory string) (resource string, v Verdict) {
	for _, resource := range resources {
		if v := g.deniedSince(action, resource, directory); v.Effect == Deny {
			return resource, v
		}
	}
	return "", Verdict{}
}

// Allows implements [tool.Gate].
func (g *gate) Allows(action, resource string) bool {
	return g.engine.policy.Evaluate(action, resource, g.caller.Identity.Agent).Effect == Allow &&
		g.deniedSince(action, resource, "").Effect != Deny
}

// Denies implements [tool.Gate].
func (g *gate) Denies(action, resource string) bool {
	if g.caller.Builtin {
		return g.configured(action, resource, "").Effect == Deny
	}
	v, _ := g.evaluate(action, resource, "")
	return v.Effect == Deny
}

// Refused implements [tool.Gate].
func (g *gate) Refused() *tool.Refusal {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refused
}

// inTurn runs answer when no other request of the call is being answered. After
// the first refusal nothing is answered any more: the call is over (law 36).
func (g *gate) inTurn(ctx context.Context, answer func() error) error {
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if refused := g.Refused(); refused != nil {
		return refused
	}
	return answer()
}

// settle judges every resource, refuses if one is denied, and asks about those
// that need it and are not approved already; exact says that "always" would save
// them as they are, whatever the tool proposes. The caller holds the turn.
func (g *gate) settle(ctx context.Context, request tool.PermissionRequest, exact bool) error {
	directory := directoryOf(&request)
	ask := Request{Caller: g.caller, Action: request.Action, Directory: directory, Save: request.Save, Metadata: request.Metadata}
	saved := g.engine.savedFor(&g.caller, request.Action)
	typed := hasInput(request.Action, request.Metadata)
	var parts []Part // of the command lines that are asked for
	for _, resource := range request.Resources {
		resource, _ = canonical(request.Action, resource)
		v, judged := g.evaluate(request.Action, resource, directory)
		switch {
		case v.Effect == Deny:
			return g.deny(request.Action, resource, v)
		case v.Effect == Ask && !g.granted[question{request.Action, resource, directory}]:
			if by := saved.find(ctx, extent(request.Action, resource, directory)); by != nil && !typed {
				g.approved(request.Action, resource, *by)
				continue
			}
			if len(ask.Resources) == 0 {
				ask.Why = v.ground()
			}
			ask.Resources = append(ask.Resources, resource)
			parts = append(parts, judged...)
		}
	}
	if len(ask.Resources) == 0 {
		return nil
	}
	ask.Judged, ask.Unlisted = listed(parts)
	switch {
	case typed:
		ask.Save = nil
	case exact:
		ask.Save = exactly(request.Action, ask.Resources, directory)
	}
	if saved.err != nil {
		ask.Why += "; what was approved before cannot be read: " + saved.err.Error()
	}
	return g.ask(ctx, ask, request.Resources)
}

// evaluate is the verdict on a resource, and on each part of a command line: of the rules
// that the call began under, and the denies of those of now (law 32).
func (g *gate) evaluate(action, resource, directory string) (Verdict, []Part) {
	var t *trace
	if action == service.ActionShell {
		t = &trace{brief: true}
	}
	v := g.engine.policy.evaluate(action, resource, directory, g.caller.Identity.Agent, t)
	if v.Effect != Deny {
		if since := g.deniedSince(action, resource, directory); since.Effect == Deny {
			return since, nil
		}
	}
	if t == nil {
		return v, nil
	}
	return v, t.parts
}

// hasInput says whether more than a command line is asked for: a text that is typed, or a line
// with an input. Approvals for good are of lines alone.
func hasInput(action string, metadata map[string]string) bool {
	return action == service.ActionShell && metadata[service.MetadataProcess]+metadata[service.MetadataStdin] != ""
}

// exactly is what "always" saves for command lines, and for what a service asks by
// itself: the resources and nothing wider (case C09).
func exactly(action string, resources []string, directory string) []string {
	patterns := make([]string, len(resources))
	for i, resource := range resources {
		if patterns[i] = literal(extent(action, resource, directory)); patterns[i] == "" {
			return nil
		}
	}
	return patterns
}

// ask puts the request to the approver. What came to be denied while a person was waited
// for is refused whatever the answer is, also if it is one of the resources, all of them,
// that nobody was asked about (law 32). The caller holds the turn.
func (g *gate) ask(ctx context.Context, request Request, all []string) error {
	request.ID = rand.Text()[:idLength]
	request.denied = func() string {
		if _, v := g.firstDeniedSince(request.Action, all, request.Directory); v.Effect == Deny {
			return v.ground()
		}
		return ""
	}
	g.asked(request)
	reply, err := g.putToApprover(ctx, request)
	if ctx.Err() != nil { // a yes that comes with the cancelling comes too late (case C16)
		g.answered(request, Reply{Kind: tool.KindCancelled, Reason: reply.Reason, By: reply.By, Answer: reply.Answer})
		return context.Cause(ctx)
	}
	if err == nil && (reply.Granted || reply.Kind == tool.KindDenied) {
		if resource, v := g.firstDeniedSince(request.Action, all, request.Directory); v.Effect == Deny {
			g.answered(request, Reply{Kind: tool.KindDenied, Reason: v.ground(), By: reply.By, Answer: reply.Answer})
			return g.deny(request.Action, resource, v)
		}
	}
	switch {
	case err != nil:
		reply = Reply{Kind: tool.KindNobodyToAsk, Reason: "the question could not be asked: " + err.Error()}
	case reply.Granted:
		reply.Kind = ""
	case reply.Kind != tool.KindTimedOut && reply.Kind != tool.KindNobodyToAsk && reply.Kind != tool.KindCancelled:
		reply.Kind = tool.KindDeclined
	}
	g.answered(request, reply)
	if !reply.Granted {
		refusal := tool.Refusal{Kind: reply.Kind, Action: request.Action, Resource: request.Resources[0], Reason: reply.Reason}
		if refusal.Reason == "" && refusal.Kind != tool.KindDeclined {
			refusal.Reason = request.Why
		}
		return g.refuse(refusal)
	}
	if g.granted == nil {
		g.granted = make(map[question]bool, len(request.Resources))
	}
	for _, resource := range request.Resources {
		g.granted[question{request.Action, resource, request.Directory}] = true
	}
	return nil
}

// putToApprover waits for the answer, and says so to whoever counts the time.
func (g *gate) putToApprover(ctx context.Context, request Request) (Reply, error) {
	if _, nobody := g.engine.approver.(Nobody); !nobody && g.caller.Asking != nil {
		defer g.caller.Asking(tool.PermissionRequest{
			Action: request.Action, Resources: request.Resources, Save: request.Save, Metadata: request.Metadata,
		})()
	}
	return contained(ctx, g.engine.approver, request)
}

// refuse records the refusal, the first of the call, and returns it. The caller
// holds the turn.
func (g *gate) refuse(refusal tool.Refusal) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused = &refusal
	return &refusal
}

// deny refuses what a rule denies.
func (g *gate) deny(action, resource string, v Verdict) error {
	g.denied(action, resource, v)
	return g.refuse(tool.Refusal{Kind: tool.KindDenied, Action: action, Resource: resource, Reason: v.ground()})
}
