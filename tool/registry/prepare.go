package registry

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/toolhost/toolhost/tool"
)

// discardGrace is how long a tool may take to discard an action.
const discardGrace = time.Second

// prepare learns what the call would do (laws 23, 25). Without a function of the
// tool's own, what it declared for every call holds, and costs nothing.
func (r *run) prepare(work context.Context) error {
	e := r.entry
	if e.prepare == nil {
		r.preparation = tool.Preparation{
			Effects: e.definition.Effects, Irreversible: e.definition.Irreversible, Requests: e.requests,
			Targets: e.inputTargets(r.call.Input),
		}
		r.makeGate(work)
		return nil
	}
	answers := r.registry.options.Gate(r.caller(true))
	call := r.call
	call.Input = bytes.Clone(call.Input) // what will run gets the bytes that were validated
	call.Effects, call.Gate = tool.Read, answers
	if r.entry.registration.owner.Application {
		call.Gate = nil // as in execute
	}
	preparation, _, err := attempt(work, r, "preparation of "+call.Tool, call, e.prepare,
		func(late tool.Preparation) { r.discardAction(work, late.Action) })
	r.preparation = preparation
	if err == nil {
		err = r.checkPreparation()
	}
	if refusal := answers.Refused(); refusal != nil {
		err = refusal
	}
	if err != nil {
		r.discard(work)
		return err
	}
	r.makeGate(work)
	return nil
}

// checkPreparation holds what the tool says of the call against what it declared
// and against what anybody may say.
func (r *run) checkPreparation() error {
	p := &r.preparation
	declared := r.entry.definition.Effects
	p.Effects = cmp.Or(p.Effects, declared)
	if beyond := p.Effects.Beyond(declared); beyond != 0 {
		if !r.explaining {
			r.registry.contradicted(tool.Contradiction{
				Identity: r.call.Identity, Tool: r.call.Tool, During: "prepare", Allowed: declared, Wanted: p.Effects,
			})
		}
		return &tool.Error{Kind: tool.KindContradiction, Cause: fmt.Errorf(
			"%s says that this call would have the effects %s, and declares no more than %s: declare them at registration", r.call.Tool, p.Effects, declared)}
	}
	if err := checkDeclared(tool.Tool{Requests: p.Requests, Targets: p.Targets}); err != nil {
		return fmt.Errorf("preparation of %s: %w", r.call.Tool, err)
	}
	p.Requests = tool.CloneRequests(p.Requests)
	if p.Action != nil && (p.Action.Commit == nil || p.Action.Discard == nil) {
		return fmt.Errorf("preparation of %s: its action cannot be committed or discarded", r.call.Tool)
	}
	return nil
}

// contradicted reports what a tool would have done beyond its effects.
func (r *Registry) contradicted(c tool.Contradiction) {
	r.log.Warn("tool contradicts itself", slog.String("tool", c.Tool), slog.String("during", c.During),
		slog.String("allowed", c.Allowed.String()), slog.String("wanted", c.Wanted.String()))
	if r.options.Contradicted != nil {
		r.options.Contradicted(c)
	}
}

func (r *run) effects() tool.Effects { return r.preparation.Effects }

// makeGate makes the gate of the execution, which knows what the call may do.
func (r *run) makeGate(work context.Context) {
	r.gate = &gate{Gate: r.registry.options.Gate(r.caller(false)), over: work.Done()}
}

// A gate answers for as long as the work of its call lasts: nobody is asked for a call
// that is over, by a tool that outlives it or has not yet heard of its end.
type gate struct {
	tool.Gate
	over <-chan struct{}
}

func (g *gate) isOver() bool {
	select {
	case <-g.over:
		return true
	default:
		return false
	}
}

var errOver = errors.New("the call is over: nothing is permitted any more")

func (g *gate) Assert(ctx context.Context, request tool.PermissionRequest) error {
	if g.isOver() {
		return errOver
	}
	return g.Gate.Assert(ctx, request)
}

func (g *gate) Permit(ctx context.Context, action string, resources ...string) error {
	if g.isOver() {
		return errOver
	}
	return g.Gate.Permit(ctx, action, resources...)
}

func (g *gate) PermitCommand(ctx context.Context, line tool.CommandLine) error {
	if g.isOver() {
		return errOver
	}
	return g.Gate.PermitCommand(ctx, line)
}

func (g *gate) Allows(action, resource string) bool {
	return !g.isOver() && g.Gate.Allows(action, resource)
}

func (g *gate) Denies(action, resource string) bool {
	return g.isOver() || g.Gate.Denies(action, resource)
}

func (r *run) caller(preparing bool) Caller {
	owner := r.entry.registration.owner
	c := Caller{
		Identity: r.call.Identity, Tool: r.call.Tool, Plugin: owner.Name, Builtin: owner.Builtin, Digest: owner.Digest,
		Definition: r.entry.digest, Preparing: preparing, Explaining: r.explaining, Input: r.call.Input,
	}
	if !preparing {
		c.Effects, c.Irreversible, c.Asking = r.effects(), r.preparation.Irreversible, r.asking
		if r.preparation.Action != nil {
			c.Review, c.Diff = r.preparation.Action.Review, r.preparation.Action.Diff
		}
	}
	return c
}

// asking stops the clock while a person is asked, and lets the call be suspended.
func (r *run) asking(request tool.PermissionRequest) (answered func()) {
	r.clock.pause()
	if action := r.preparation.Action; action != nil && action.Waiting != nil {
		action.Waiting()
	}
	told := r.registry.waiting.ask(r, &request)
	if r.waits == nil {
		return func() {
			told()
			r.clock.resume()
		}
	}
	done := r.waits.asking(r.call.Tool, request)
	return func() {
		told()
		done()
		r.clock.resume()
	}
}

// requests are what the call needs. A tool that is not built in and asks for nothing
// is asked for under its own id, on everything (law 33).
func (r *run) requests() []tool.PermissionRequest {
	if len(r.preparation.Requests) == 0 && !r.entry.registration.owner.Builtin {
		return []tool.PermissionRequest{{Action: r.call.Tool, Resources: []string{"*"}, Save: []string{"*"}}}
	}
	return r.preparation.Requests
}

// authorize asks for what the call needs, in order, up to the first no. A built-in
// may also assert while it runs.
func (r *run) authorize(work context.Context) error {
	for _, request := range r.requests() {
		if err := r.gate.Assert(work, request); err != nil {
			return err
		}
	}
	return nil
}

// record notes that a call that may do more than read is about to run (law 15).
func (r *run) record(work context.Context) (ended func(tool.Status, tool.Kind), err error) {
	if r.effects().Beyond(tool.Read) == 0 {
		return func(tool.Status, tool.Kind) {}, nil
	}
	defer func() {
		if err == nil {
			r.tellStart()
		}
	}()
	journal := r.registry.options.Journal
	if journal == nil {
		return func(tool.Status, tool.Kind) {}, nil
	}
	ended, err = journal.Start(work, tool.Start{
		Identity: r.call.Identity, Tool: r.call.Tool, Effects: r.effects(), At: time.Now(),
	})
	if err != nil {
		return nil, fmt.Errorf("%s was not run, because its start could not be recorded: %w", r.call.Tool, err)
	}
	return ended, nil
}

// discard gives back an action that is not committed (law 26). It waits for the
// tool no longer than [discardGrace], and not at all when the work is over.
func (r *run) discard(work context.Context) {
	r.discardAction(work, r.preparation.Action)
	r.preparation.Action = nil
}

func (r *run) discardAction(work context.Context, action *tool.Action) {
	if action == nil || action.Discard == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(work), discardGrace)
	discarded := make(chan outcome[struct{}], 1)
	err := r.registry.options.Scope.Go("discard of "+r.call.Tool, func(context.Context) error {
		defer cancel()
		contained(ctx, r.call, func(ctx context.Context, _ tool.Call) (struct{}, error) {
			action.Discard(ctx)
			return struct{}{}, nil
		}, discarded)
		return nil
	})
	if err != nil { // the scope is closed, and what held the action with it
		cancel()
		return
	}
	select {
	case o := <-discarded:
		if o.err != nil {
			r.registry.log.Warn("action was not discarded", slog.String("tool", r.call.Tool), slog.Any("error", o.err))
		}
	case <-ctx.Done():
		r.registry.log.Warn("tool does not discard its action", slog.String("tool", r.call.Tool))
	case <-work.Done(): // nobody waits any more
	}
}

// inputTargets are the paths in the properties of the input that the tool named. A
// call that gives none of them is about the root.
func (e *entry) inputTargets(input json.RawMessage) []string {
	if len(e.targets) == 0 {
		return nil
	}
	var properties map[string]json.RawMessage
	if json.Unmarshal(input, &properties) != nil {
		return nil
	}
	var targets []string
	for _, name := range e.targets {
		var one string
		var many []string
		switch raw := properties[name]; {
		case raw == nil:
		case json.Unmarshal(raw, &one) == nil:
			targets = append(targets, one)
		case json.Unmarshal(raw, &many) == nil:
			targets = append(targets, many...)
		}
	}
	if len(targets) == 0 {
		return []string{"."}
	}
	return targets[:min(len(targets), maxTargets)]
}
