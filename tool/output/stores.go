package output

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Stores are the stores in the directories below base, of which there may be none.
// They remove nothing for its age or for their quota, since what is configured for
// each of them is not known here.
func Stores(base string, log *slog.Logger) ([]*Store, error) {
	entries, err := os.ReadDir(base)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list retained outputs: %w", err)
	}
	var stores []*Store
	for _, entry := range entries {
		if entry.IsDir() {
			stores = append(stores, NewStore(StoreOptions{
				Dir: filepath.Join(base, entry.Name()), Retention: math.MaxInt64, Quota: math.MaxInt64, Log: log,
			}))
		}
	}
	return stores, nil
}

// RemoveExpired removes the outputs that are over the time that their keeper gave
// them, and what writers left behind that are gone, and gives the handles of the
// outputs. ctx bounds it.
func (s *Store) RemoveExpired(ctx context.Context) (removed []string, err error) {
	list, err := s.List()
	if err != nil {
		return nil, err
	}
	for _, m := range list {
		if ctx.Err() != nil {
			return removed, context.Cause(ctx)
		}
		if time.Now().Before(m.Expires) {
			continue
		}
		if err := s.Remove(m.Handle); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, err
		}
		removed = append(removed, m.Handle)
	}
	return removed, s.Sweep(ctx)
}

// RemoveAll removes every output, also one that cannot be read, and what writers
// left behind that are gone, and gives the handles. ctx bounds it.
func (s *Store) RemoveAll(ctx context.Context) (removed []string, err error) {
	entries, err := s.entries()
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		handle, whole := strings.CutSuffix(e.name, suffix)
		if ctx.Err() != nil {
			return removed, context.Cause(ctx)
		}
		if !whole {
			continue
		}
		if err := s.Remove(handle); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, err
		}
		removed = append(removed, handle)
	}
	return removed, s.Sweep(ctx)
}
