package registry

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/tool"
)

// A Plan is what a call would do, as far as it is known without doing it.
type Plan struct {
	// Tool is the canonical id, Plugin its owner, Builtin whether that ships with the
	// host; Digest and Definition are as in [Caller]. They are empty if there is no such
	// tool.
	Tool       string `json:"tool,omitempty"`
	Plugin     string `json:"plugin,omitempty"`
	Builtin    bool   `json:"builtin"`
	Digest     string `json:"digest,omitempty"`
	Definition string `json:"definition,omitempty"`
	// Effects, Irreversible, Review, Diff and Targets are what the preparation says; see
	// [tool.Preparation]. They are empty if it failed.
	Effects      tool.Effects `json:"effects,omitzero"`
	Irreversible bool         `json:"irreversible"`
	Review       string       `json:"review,omitempty"`
	Diff         string       `json:"diff,omitempty"`
	Targets      []string     `json:"targets,omitempty"`
	// Requests are what the call asks for before it runs, in that order, or what a
	// built-in asks for first when it runs. A tool of the host's own, for one, has none:
	// nothing is asked for it.
	Requests []tool.PermissionRequest `json:"-"`
	// Error is what ends the call before anything is asked for, nil if nothing does: the
	// tool is unknown, or the input invalid. Its cause is the operator's.
	Error *tool.Error `json:"error,omitempty"`
}

// Plan resolves, validates and prepares a call, and learns what it would ask for. No
// hook is run, nobody is asked, nothing is recorded, and what was prepared is
// discarded; so what a hook would make of the input is not in it. Of the request,
// Progress, Instructions and SuspendAfter have no meaning.
//
// A built-in that requests nothing in its preparation, and prepares no action, asserts
// while it runs. So its executor is run until it does: with the effect read, and a
// gate that takes down the first request and refuses it, after which nothing is
// permitted any more. That is safe because what ships with the host asserts before it
// acts, and acts only through services, which ask the same gate. It is never done for
// a tool that is not built in, nor for the host's own, which ask for nothing.
//
// A tool that reaches beyond its effects through a service, while it is prepared, is
// reported as ever: that it did.
//
// ctx and the deadline bound it as they bound a call. The error is about the identity,
// as in Call, or the cause of ctx; everything else is in the plan.
func (c *Capture) Plan(ctx context.Context, request Request) (Plan, error) {
	if err := request.Identity.Check(); err != nil {
		return Plan{}, err
	}
	request.Progress = nil
	r := &run{registry: c.registry, request: request, explaining: true, at: time.Now()}
	work := r.begin(ctx)
	defer r.over()
	var plan Plan
	err := r.plan(work, c, &plan)
	if ctx.Err() != nil {
		return Plan{}, context.Cause(ctx)
	}
	if err != nil {
		plan.Error = settledBy(why(work, err), false).Error
	}
	return plan, nil
}

// plan is the life of a call that is only explained, as far as it gets.
func (r *run) plan(work context.Context, c *Capture, plan *Plan) error {
	e, err := c.resolve(r.request.Name)
	if err != nil {
		return err
	}
	owner := e.registration.owner
	r.entry, r.call = e, tool.Call{Identity: r.request.Identity, Tool: e.definition.ID}
	plan.Tool, plan.Plugin, plan.Builtin, plan.Digest, plan.Definition = r.call.Tool, owner.Name, owner.Builtin, owner.Digest, e.digest
	if r.call.Input, err = e.validInput(r.request.Input); err != nil {
		return err
	}
	if err := r.prepare(work); err != nil {
		return err
	}
	defer r.discard(work)
	p := &r.preparation
	plan.Effects, plan.Irreversible, plan.Targets = cmp.Or(p.Effects.Effective(), tool.None), p.Irreversible, slices.Clone(p.Targets)
	if p.Action != nil {
		plan.Review, plan.Diff = p.Action.Review, p.Action.Diff
	}
	plan.Requests = tool.CloneRequests(r.requests())
	if len(plan.Requests) > 0 || p.Action != nil || owner.Host {
		return nil
	}
	plan.Requests, err = r.rehearse(work)
	return err
}

// rehearse runs the executor of a built-in until it asks for something, which is
// returned. An error is of one that does not get so far.
func (r *run) rehearse(work context.Context) ([]tool.PermissionRequest, error) {
	gate := &rehearsal{Gate: r.gate}
	call := r.call
	call.Input = bytes.Clone(call.Input)
	call.Effects, call.Gate = tool.Read, gate
	_, _, err := attempt(work, r, "rehearsal of "+call.Tool, call, r.entry.execute, nil)
	if asked := gate.first(); asked != nil {
		return []tool.PermissionRequest{*asked}, nil
	}
	return nil, err
}

// A rehearsal is the gate of an executor that is run to learn what it asks for: it
// refuses everything.
type rehearsal struct {
	tool.Gate // of the call; it says what may be shown

	mu    sync.Mutex              // guards what follows
	asked *tool.PermissionRequest // the first; nil before it
}

var _ tool.Gate = (*rehearsal)(nil)

func (g *rehearsal) Assert(_ context.Context, request tool.PermissionRequest) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.asked == nil {
		g.asked = &tool.CloneRequests([]tool.PermissionRequest{request})[0]
	}
	return refusal(g.asked)
}

// Permit takes down what a service asks, as what is asserted: nothing does that asserts
// before it acts.
func (g *rehearsal) Permit(ctx context.Context, action string, resources ...string) error {
	return g.Assert(ctx, tool.PermissionRequest{Action: action, Resources: resources})
}

// PermitCommand takes down a command line as Permit does.
func (g *rehearsal) PermitCommand(ctx context.Context, line tool.CommandLine) error {
	request := tool.PermissionRequest{
		Action: service.ActionShell, Resources: []string{line.Line}, Metadata: map[string]string{service.MetadataDirectory: line.Directory},
	}
	for key, value := range map[string]string{service.MetadataProcess: line.Process, service.MetadataStdin: line.Stdin} {
		if value != "" {
			request.Metadata[key] = value
		}
	}
	return g.Assert(ctx, request)
}

func (g *rehearsal) Refused() *tool.Refusal {
	if asked := g.first(); asked != nil {
		return refusal(asked)
	}
	return nil
}

func (g *rehearsal) first() *tool.PermissionRequest {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked
}

func refusal(asked *tool.PermissionRequest) *tool.Refusal {
	refusal := &tool.Refusal{Kind: tool.KindCancelled, Action: asked.Action, Reason: "the call is only explained"}
	if len(asked.Resources) > 0 {
		refusal.Resource = asked.Resources[0]
	}
	return refusal
}
