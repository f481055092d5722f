package location

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/instructions"
	"github.com/toolhost/toolhost/state"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/output"
	"github.com/toolhost/toolhost/tool/registry"
)

// hostOwner is whose the host's own tools are, as rules name them.
const hostOwner = "toolhost"

// keeper bounds the outputs of this Location, by what config says, and keeps them
// in a directory of its own: no Location's quota removes what is another's.
func (l *Location) keeper(location config.Location) (*output.Keeper, error) {
	cfg := location.Output
	if cfg.OutputLimits == (config.OutputLimits{}) { // not from a file, which has no zeros
		cfg.OutputLimits = config.OutputLimits(output.DefaultLimits())
	}
	perTool := make(map[string]output.Limits, len(cfg.Tools))
	for id, limits := range cfg.Tools {
		perTool[id] = output.Limits(limits)
	}
	options := output.KeeperOptions{Location: l.files.Path(), Limits: output.Limits(cfg.OutputLimits), PerTool: perTool}
	if l.options.Outputs == "" {
		return output.NewKeeper(options), nil
	}
	options.Store = output.NewStore(output.StoreOptions{
		Dir: outputsDir(l.options.Outputs, l.files.Path()), Retention: cfg.Retention, Quota: cfg.Quota, Log: l.log,
	})
	return output.NewKeeper(options), l.life.Go("sweep of outputs", func(ctx context.Context) error {
		if err := options.Store.Sweep(ctx); err != nil && ctx.Err() == nil {
			l.log.Warn("old outputs were not removed", slog.Any("error", err))
		}
		return nil
	})
}

// outputsDir is the directory of one root's outputs.
func outputsDir(base, root string) string {
	sum := sha256.Sum256([]byte(root))
	return filepath.Join(base, hex.EncodeToString(sum[:8]))
}

// seenPatience bounds the waiting for the user's state, for the sake of the
// instructions of a call that is over.
const seenPatience = time.Second

var errStateBusy = fmt.Errorf("others kept it locked for %v; the next call that asks is given them", seenPatience)

// finder finds the project's instructions.
func (l *Location) finder(cfg config.Location) *instructions.Finder {
	options := instructions.Options{Files: l.files, Root: l.root, Names: cfg.Instructions}
	if store := l.options.State; store != nil {
		options.Seen = func(ctx context.Context, session string, paths []string) ([]string, error) {
			ctx, cancel := context.WithTimeoutCause(ctx, seenPatience, errStateBusy)
			defer cancel()
			return store.Seen(ctx, l.files.Path(), session, paths)
		}
	}
	return instructions.New(options)
}

// journal records the calls of this Location, or is nil where nothing is recorded.
func (l *Location) journal() registry.Journal {
	if l.options.Calls == nil {
		return nil
	}
	return &journal{calls: l.options.Calls, root: l.files.Path(), log: l.log}
}

type journal struct {
	calls *state.Calls
	root  string
	log   *slog.Logger
}

var _ registry.Journal = (*journal)(nil)

func (j *journal) Start(ctx context.Context, start tool.Start) (func(tool.Status, tool.Kind), error) {
	id, err := j.calls.Start(ctx, j.root, start)
	if err != nil {
		return nil, err
	}
	return func(status tool.Status, kind tool.Kind) {
		if err := j.calls.End(ctx, id, status, kind); err != nil {
			j.log.Error("the end of a call was not recorded", slog.String("tool", start.Tool), slog.Any("error", err))
		}
	}, nil
}
