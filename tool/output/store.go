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

// Sweep removes what is past its retention or over the quota, and what writers left
// behind that are gone. Keeping an output does the same. It opens nothing but what
// is half written; ctx bounds it.
func (s *Store) Sweep(ctx context.Context) error {
	entries, err := s.entries()
	if err != nil {
		return err
	}
	total := int64(0)
	for _, e := range entries {
		total += e.size
	}
	var problems []error
	for _, e := range entries {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		remove, reason := os.Remove, s.reason(e, total)
		if strings.HasSuffix(e.name, temporary) {
			remove, reason = removeAbandoned, "abandoned"
		}
		if reason == "" {
			continue
		}
		err := remove(filepath.Join(s.dir, e.name))
		switch {
		case err == nil:
			s.log.Debug("retained output removed", "file", e.name, "reason", reason)
		case errors.Is(err, errInUse):
			continue
		case !errors.Is(err, fs.ErrNotExist):
			problems = append(problems, fmt.Errorf("sweep retained outputs: %w", err))
			continue
		}
		total -= e.size
	}
	return errors.Join(problems...)
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

// reason is why a whole output has to go, or empty.
func (s *Store) reason(e entry, total int64) string {
	switch {
	case time.Since(e.at) > s.retention:
		return "expired"
	case total > s.quota:
		return "over the quota"
	}
	return ""
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

// check refuses a directory in which others could put or replace files.
func (s *Store) check() error {
	info, err := os.Stat(s.dir)
	if err != nil {
		return fmt.Errorf("directory of retained outputs: %w", err)
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
	info, err := os.Stat(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(s.dir), 0o700); err != nil {
			return err
		}
		if err := os.Mkdir(s.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		info, err = os.Stat(s.dir)
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
