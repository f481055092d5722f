package output

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/toolhost/toolhost/tool"
)

// What a store does where its options say nothing.
const (
	DefaultRetention = 7 * 24 * time.Hour
	DefaultQuota     = 1 << 30
)

const (
	suffix      = ".zst"
	temporary   = ".tmp" // stands behind the suffix until the file is whole
	handleBytes = 26     // of crypto/rand.Text: 130 bits
)

// StoreOptions describe a [Store].
type StoreOptions struct {
	// Dir is the directory, which is made with mode 0700 when something is kept. It
	// must be the user's own and not writable by others.
	Dir string
	// Retention is how long an output is kept; 0 for [DefaultRetention].
	Retention time.Duration
	// Quota is the most bytes of all outputs together, as compressed; 0 for
	// [DefaultQuota]. The oldest go first.
	Quota int64
	// Log is told what was removed; it may be nil.
	Log *slog.Logger
}

// A Store keeps whole outputs in one directory of the user's (law 18). It is safe
// for concurrent use, by several processes too, and holds nothing open. What it
// keeps outlives the process (law 45).
type Store struct {
	dir       string
	retention time.Duration
	quota     int64
	log       *slog.Logger

	packers   sync.Pool // of *packer
	unpackers sync.Pool // of *unpacker
}

// NewStore makes a store. It touches nothing on disk.
func NewStore(options StoreOptions) *Store {
	s := &Store{
		dir:       options.Dir,
		retention: cmp.Or(options.Retention, DefaultRetention),
		quota:     cmp.Or(options.Quota, DefaultQuota),
		log:       cmp.Or(options.Log, slog.New(slog.DiscardHandler)),
	}
	s.packers.New = func() any { return newPacker() }
	s.unpackers.New = func() any { return newUnpacker() }
	return s
}

// Kind says what an output is.
type Kind string

// The kinds of outputs.
const (
	KindText Kind = "text"
	KindJSON Kind = "json" // a structured value
)

// Meta describes a kept output.
type Meta struct {
	// Handle names it. It cannot be guessed.
	Handle string `json:"handle"`
	Origin
	// At is when the output was kept.
	At time.Time `json:"at"`
	// Expires is when its keeper will remove it.
	Expires time.Time `json:"expires"`
	// Kind says what it is.
	Kind Kind `json:"kind"`
	// Bytes and Lines are the size of the output; a last line without its end counts.
	Bytes int64 `json:"bytes"`
	Lines int64 `json:"lines"`
	// Compressed is the size of its file.
	Compressed int64 `json:"compressed"`
	// Lost is how many bytes the tool itself had dropped, which are not in it.
	Lost int64 `json:"lost,omitempty"`
}

// Open opens an output, for its caller to close. For a handle that there is not,
// any more or never was, the error wraps [fs.ErrNotExist].
func (s *Store) Open(handle string) (*Kept, error) {
	if !isHandle(handle) {
		return nil, fmt.Errorf("output %.64q: %w", handle, fs.ErrNotExist)
	}
	kept, err := s.open(handle)
	if err != nil {
		return nil, fmt.Errorf("output %s: %w", handle, err)
	}
	return kept, nil
}

// List describes all outputs, the newest first. A file that cannot be read is left
// out, and the log says so.
func (s *Store) List() ([]Meta, error) {
	entries, err := s.entries()
	if err != nil {
		return nil, err
	}
	var list []Meta
	for _, e := range slices.Backward(entries) {
		handle, whole := strings.CutSuffix(e.name, suffix)
		if !whole {
			continue
		}
		kept, err := s.Open(handle)
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed meanwhile, or expired
		case err != nil:
			s.log.Warn("retained output cannot be read", "error", err)
		default:
			list = append(list, kept.meta)
			_ = kept.Close() // it was only read
		}
	}
	return list, nil
}

// Remove removes an output. The error wraps [fs.ErrNotExist] when there is none.
func (s *Store) Remove(handle string) error {
	if !isHandle(handle) {
		return fmt.Errorf("output %.64q: %w", handle, fs.ErrNotExist)
	}
	if err := s.check(); err != nil {
		return err
	}
	if err := os.Remove(s.path(handle)); err != nil {
		return fmt.Errorf("output %s: %w", handle, err)
	}
	return nil
}

// Sweep removes what writers left behind that are gone, then what is past its
// retention, and then the oldest until the rest is within the quota. What is being
// written does not count. It opens nothing but what is half written; ctx bounds it.
// What cannot be removed is an error, behind which the others are removed all the same.
func (s *Store) Sweep(ctx context.Context) error {
	_, err := s.sweep(ctx, "")
	return err
}

// sweep is Sweep, but for one output that stays. It says how many bytes of whole
// outputs are left.
func (s *Store) sweep(ctx context.Context, stays string) (left int64, err error) {
	entries, err := s.entries()
	if err != nil {
		return 0, err
	}
	var problems []error
	remove := func(e entry, reason string, remove func(path string) error) (gone bool) {
		err := remove(filepath.Join(s.dir, e.name))
		switch {
		case err == nil:
			s.log.Debug("retained output removed", "file", e.name, "reason", reason)
			return true
		case errors.Is(err, fs.ErrNotExist):
			return true
		case !errors.Is(err, errInUse):
			problems = append(problems, fmt.Errorf("sweep retained outputs: %w", err))
		}
		return false
	}
	var whole []entry
	for _, e := range entries {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		switch {
		case strings.HasSuffix(e.name, temporary):
			remove(e, "abandoned", removeAbandoned)
		case e.name != stays && time.Since(e.at) > s.retention && remove(e, "expired", os.Remove):
		default:
			whole = append(whole, e)
			left += e.size
		}
	}
	for _, e := range whole {
		if left <= s.quota {
			break
		}
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if e.name != stays && remove(e, "over the quota", os.Remove) {
			left -= e.size
		}
	}
	return left, errors.Join(problems...)
}

// makeRoom sweeps for an output that was just kept. That something cannot be removed
// is an error only where there is no room because of it.
func (s *Store) makeRoom(ctx context.Context, handle string) error {
	left, err := s.sweep(ctx, handle+suffix)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case left > s.quota:
		return tool.Errorf(tool.KindRetention, "%w", fmt.Errorf("keep an output in %s: %d bytes would be kept, and the quota is %d; "+
			"what is in the way cannot be removed, make that possible or raise the quota: %w", s.dir, left, s.quota, err))
	case left == 0 && err != nil: // nothing was looked at
		return s.cannotKeep(err)
	case err != nil:
		s.log.Warn("retained outputs are not all swept", "error", err)
	}
	return nil
}

// An entry is a file of the store.
type entry struct {
	name string
	size int64
	at   time.Time
}

// entries are the store's files, the oldest first, half written ones included.
// What is not the store's is not touched.
func (s *Store) entries() ([]entry, error) {
	err := s.check()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list retained outputs: %w", err)
	}
	var list []entry
	for _, file := range files {
		stem, ours := strings.CutSuffix(strings.TrimSuffix(file.Name(), temporary), suffix)
		if !ours || !isHandle(stem) || !file.Type().IsRegular() {
			continue
		}
		info, err := file.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process was faster
		}
		if err != nil {
			return nil, fmt.Errorf("list retained outputs: %w", err)
		}
		list = append(list, entry{file.Name(), info.Size(), info.ModTime()})
	}
	slices.SortFunc(list, func(a, b entry) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.name, b.name)) })
	return list, nil
}

// errInUse says that the writer of a half written file lives.
var errInUse = errors.New("is being written")

// removeAbandoned removes a half written file unless its writer lives, who has it
// locked.
func removeAbandoned(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return errInUse
		}
		return &fs.PathError{Op: "flock", Path: path, Err: err}
	}
	return os.Remove(path) // a writer that gets the lock now sees that its file is gone
}

// check refuses a directory in which others could put or replace files, and a link
// in its place.
func (s *Store) check() error {
	info, err := os.Lstat(s.dir)
	if err != nil {
		return fmt.Errorf("directory of retained outputs: %w", err)
	}
	if info.Mode().Type() == fs.ModeSymlink {
		return fmt.Errorf("directory of retained outputs: %s is a link, which is not followed; remove it", s.dir)
	}
	if !info.IsDir() {
		return fmt.Errorf("directory of retained outputs: %s is no directory", s.dir)
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; int(owner) != os.Geteuid() {
		return fmt.Errorf("directory of retained outputs: %s belongs to user %d", s.dir, owner)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("directory of retained outputs can be written by others; run: chmod 700 %s", s.dir)
	}
	return nil
}

// prepare makes the directory where there is none, for nobody but the user.
func (s *Store) prepare() error {
	info, err := os.Lstat(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(s.dir), 0o700); err != nil {
			return err
		}
		if err := os.Mkdir(s.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		info, err = os.Lstat(s.dir)
	}
	if err != nil {
		return err
	}
	if err := s.check(); err != nil {
		return err
	}
	if info.Mode().Perm() != 0o700 { // an umask took something away, or a hand gave
		return os.Chmod(s.dir, 0o700)
	}
	return nil
}

func (s *Store) path(handle string) string { return filepath.Join(s.dir, handle+suffix) }

// isHandle reports whether the text can be a handle at all: no path can.
func isHandle(text string) bool {
	return len(text) == handleBytes && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || 'z' < r) && (r < '2' || '7' < r)
	})
}
