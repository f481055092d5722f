package host

import (
	"context"
	"log/slog"
	"path/filepath"

	"github.com/toolhost/toolhost/state"
	"github.com/toolhost/toolhost/tool/output"
)

// outputsDir is where kept outputs are, beside the database of the state.
const outputsDir = "outputs"

// OutputsDir is the directory of the outputs that hosts with this state keep.
func OutputsDir(store *state.Store) (string, error) {
	path, err := store.Path()
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(path), outputsDir), nil
}

// useState makes the host keep in the store what outlives it, and looks for what
// an earlier host left open.
func (h *Host) useState(store *state.Store) error {
	outputs, err := OutputsDir(store)
	if err != nil {
		return err
	}
	h.options.Outputs, h.options.Calls, h.options.Approvals = outputs, store.OpenCalls(), Approvals(store)
	if err := h.life.Defer("journal of calls", func(context.Context) error { return h.options.Calls.Close() }); err != nil {
		return err
	}
	return h.life.Go("what earlier hosts left", func(ctx context.Context) error {
		h.reportAbandoned(ctx, store)
		h.removeExpired(ctx, outputs)
		return nil
	})
}

// removeExpired removes outputs that are over their time, those of projects that
// nobody opens any more included.
func (h *Host) removeExpired(ctx context.Context, dir string) {
	if err := output.SweepStores(ctx, dir, h.options.Log); err != nil && ctx.Err() == nil {
		h.options.Log.Warn("old outputs were not removed", slog.Any("error", err))
	}
}

// reportAbandoned says which calls were running when their host died. Nothing is
// run again (law 15).
func (h *Host) reportAbandoned(ctx context.Context, store *state.Store) {
	abandoned, err := store.Abandoned(ctx)
	if err != nil && ctx.Err() == nil {
		h.options.Log.Error("calls of an earlier host", slog.Any("error", err))
	}
	for _, call := range abandoned {
		h.options.Log.Warn("outcome unknown: the host died during a call that could do more than read",
			slog.String("tool", call.Tool), slog.String("root", call.Root), slog.String("session", call.Identity.Session),
			slog.Time("started", call.Started))
	}
}
