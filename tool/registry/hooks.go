package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/toolhost/toolhost/tool"
)

// HookTimeout is how long one hook may take.
const HookTimeout = 10 * time.Second

// Hooks are functions of the embedding program around every call (law 21). They
// run in their order, possibly for several calls at once. One that panics, or takes
// longer than [HookTimeout], is contained and logged by its name.
type Hooks struct {
	// Before run before anything else of a call.
	Before []BeforeHook
	// After run when a call that had begun to execute was settled and bounded. An
	// interruption has no settlement and is not seen.
	After []AfterHook
}

func (h Hooks) clone() Hooks { return Hooks{slices.Clone(h.Before), slices.Clone(h.After)} }

// A HookCall is a call as hooks see it.
type HookCall struct {
	Identity tool.Identity
	// Name is what the model called, Tool the canonical id of what was captured under
	// that name; it is empty if that cannot be called.
	Name, Tool string
	// Input is what the model sent, or what the hook before made of it. It is the
	// hook's own copy.
	Input json.RawMessage
}

// A BeforeHook may change the input of a call or reject the call.
type BeforeHook struct {
	// Name is for the log.
	Name string
	// Run returns the input for the next hook, and after the last one for the tool,
	// where it is validated; nil leaves it as it is. An error rejects this call as
	// blocked, with the error's text for the model, before anything of it ran. A hook
	// that broke ends the call as an internal error.
	Run func(ctx context.Context, call HookCall) (json.RawMessage, error)
}

// An AfterHook may change the settlement of a call.
type AfterHook struct {
	// Name is for the log.
	Name string
	// Run gets the bounded settlement, its own copy, and the managed paths of what was
	// kept, and returns the settlement that the next hook and the caller get. Nothing is
	// bounded again. After an error, or when the hook broke, the settlement stays as it
	// was. ctx does not end with the caller's.
	Run func(ctx context.Context, call HookCall, settlement tool.Settlement, paths []string) (tool.Settlement, error)
}

// before runs the hooks that come first, and gives the input that they leave.
func (r *Registry) before(ctx context.Context, on *run) (json.RawMessage, error) {
	input := on.request.Input
	for _, hook := range r.options.Hooks.Before {
		call := HookCall{Identity: on.call.Identity, Name: on.request.Name, Tool: on.call.Tool, Input: bytes.Clone(input)}
		changed, broken, err := within(ctx, r, hook.Name, func(ctx context.Context) (json.RawMessage, error) { return hook.Run(ctx, call) })
		switch {
		case broken != nil:
			return nil, fmt.Errorf("hook %s: %w", hook.Name, broken)
		case err != nil:
			return nil, &tool.Error{Kind: tool.KindBlocked, Message: err.Error(), Cause: err}
		case changed != nil:
			input = changed
		}
	}
	return input, nil
}

// after runs the hooks that come last, and gives the settlement that they leave.
// They run to their end also when the caller went away meanwhile, who is told so
// after [StopGrace] (law 14).
func (r *Registry) after(ctx context.Context, on *run, settlement tool.Settlement) (tool.Settlement, error) {
	if len(r.options.Hooks.After) == 0 {
		return settlement, nil
	}
	call := HookCall{Identity: on.call.Identity, Name: on.request.Name, Tool: on.call.Tool, Input: on.shown}
	hooked := context.WithoutCancel(ctx)
	paths := on.bounding.Paths()
	left := make(chan tool.Settlement, 1)
	hooking := r.options.Scope.Go("hooks after "+call.Tool, func(context.Context) error {
		left <- r.runAfter(hooked, call, settlement, paths)
		return nil
	})
	if hooking != nil { // the Location is closing: nothing of the settlement is lost by it
		r.log.Warn("hooks were not run", slog.String("tool", call.Tool), slog.Any("error", hooking))
		left <- settlement
	}
	select {
	case settlement = <-left:
		return settlement, nil
	case <-ctx.Done():
	}
	select {
	case settlement = <-left:
	case <-time.After(StopGrace):
	}
	return tool.Settlement{}, &tool.Interruption{Cause: context.Cause(ctx), Ran: settlement.Ran}
}

func (r *Registry) runAfter(ctx context.Context, call HookCall, settlement tool.Settlement, paths []string) tool.Settlement {
	for _, hook := range r.options.Hooks.After {
		given, own := settlement.Clone(), call
		own.Input = bytes.Clone(call.Input)
		changed, broken, err := within(ctx, r, hook.Name, func(ctx context.Context) (tool.Settlement, error) {
			return hook.Run(ctx, own, given, slices.Clone(paths))
		})
		switch {
		case broken != nil: // it was logged
		case err != nil:
			r.log.Warn("hook refused a settlement", slog.String("hook", hook.Name), slog.String("tool", call.Tool), slog.Any("error", err))
		default:
			settlement = changed
		}
	}
	return settlement
}

// within runs a hook and waits for it no longer than [HookTimeout]. broken is a
// panic or a hook that does not return, which is logged; err is what it returned.
func within[T any](parent context.Context, r *Registry, name string, f func(context.Context) (T, error)) (value T, broken, err error) {
	ctx, cancel := context.WithTimeout(parent, HookTimeout)
	defer cancel()
	ended := make(chan outcome[T], 1)
	returned := false
	if err := r.options.Scope.Go("hook "+name, func(context.Context) error {
		contained(ctx, tool.Call{Tool: "hook " + name}, func(ctx context.Context, _ tool.Call) (value T, err error) {
			value, err = f(ctx)
			returned = true
			return value, err
		}, ended)
		return nil
	}); err != nil {
		return value, closing(), nil
	}
	select {
	case o := <-ended:
		if returned {
			return o.value, nil, o.err
		}
		broken = o.err
	case <-ctx.Done():
		if parent.Err() != nil {
			return value, context.Cause(parent), nil // which is not the hook's doing
		}
		broken = fmt.Errorf("it did not return within %v", HookTimeout)
	}
	r.log.Error("hook broke", slog.String("hook", name), slog.Any("error", broken))
	return value, broken, nil
}
