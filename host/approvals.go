package host

import (
	"context"

	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/state"
)

// Approvals are the saved approvals of the state (law 34). A host with that state
// looks at them by itself; a [permission.Queue] that is given them saves what is
// answered with "always".
func Approvals(store *state.Store) permission.Approvals {
	return &approvals{store: store, view: store.ApprovalView()}
}

type approvals struct {
	store *state.Store
	view  *state.ApprovalView
}

func (a *approvals) Save(ctx context.Context, given permission.Approval) error {
	key := state.ApprovalKey(given.ApprovalKey)
	_, err := a.store.SaveApproval(ctx, state.Approval{
		Root: key.Root, Plugin: key.Plugin, Builtin: key.Builtin, Digest: key.Digest, Definition: key.Definition, Action: key.Action,
		Tool: given.Tool, Patterns: given.Patterns, By: given.By, Why: given.Why, At: given.At, Expires: given.Expires,
	})
	return err
}

func (a *approvals) Saved(ctx context.Context, key permission.ApprovalKey) ([]permission.SavedPattern, error) {
	saved, err := a.view.For(ctx, state.ApprovalKey(key))
	if err != nil || len(saved) == 0 {
		return nil, err
	}
	patterns := make([]permission.SavedPattern, len(saved))
	for i, s := range saved {
		patterns[i] = permission.SavedPattern(s)
	}
	return patterns, nil
}
