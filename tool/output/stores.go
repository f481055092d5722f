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
	"slices"
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
// outputs. ctx bounds it. What cannot be removed is an error, and keeps nothing else
// from being removed.
func (s *Store) RemoveExpired(ctx context.Context) (removed []string, err error) {
	list, err := s.List()
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(m Meta) bool { return time.Now().Before(m.Expires) })
	var handles []string
	for _, m := range list {
		handles = append(handles, m.Handle)
	}
	return s.removeEach(ctx, handles)
}

const (
	// sweepEvery is how often everything below a directory is looked at.
	sweepEvery = time.Hour
	// swept is the file whose time says when that was done last.
	swept = ".swept"
)

// SweepStores does [Store.RemoveExpired] for every store below base, but not within an
// hour of the last time, whoever did it: each output has to be opened for it. ctx
// bounds it.
func SweepStores(ctx context.Context, base string, log *slog.Logger) error {
	mark := filepath.Join(base, swept)
	if info, err := os.Stat(mark); err == nil && time.Since(info.ModTime()) < sweepEvery {
		return nil
	}
	stores, err := Stores(base, log)
	if err != nil || len(stores) == 0 {
		return err
	}
	for _, store := range stores {
		_, problem := store.RemoveExpired(ctx)
		err = errors.Join(err, problem)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(mark, nil, 0o600)
}

// RemoveAll removes every output, also one that cannot be read, and what writers
// left behind that are gone, and gives the handles. ctx and errors are those of
// RemoveExpired.
func (s *Store) RemoveAll(ctx context.Context) (removed []string, err error) {
	entries, err := s.entries()
	if err != nil {
		return nil, err
	}
	var handles []string
	for _, e := range entries {
		if handle, whole := strings.CutSuffix(e.name, suffix); whole {
			handles = append(handles, handle)
		}
	}
	return s.removeEach(ctx, handles)
}

// removeEach removes outputs, and what is abandoned.
func (s *Store) removeEach(ctx context.Context, handles []string) (removed []string, err error) {
	var problems []error
	for _, handle := range handles {
		if ctx.Err() != nil {
			return removed, context.Cause(ctx)
		}
		if err := s.Remove(handle); err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, err)
			continue
		}
		removed = append(removed, handle)
	}
	return removed, errors.Join(append(problems, s.Sweep(ctx))...)
}
