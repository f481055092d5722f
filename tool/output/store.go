package output

import (
	"context"
	"log/slog"
	"time"
)

// What a store does where its options say nothing.
const (
	DefaultRetention = 7 * 24 * time.Hour
	DefaultQuota     = 1 << 30
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
	// Log is told what was removed, and what could not be; it may be nil.
	Log *slog.Logger
}

// A Store keeps whole outputs in one directory of the user's (law 18). It is safe
// for concurrent use, by several processes too, and holds nothing open.
type Store struct{ options StoreOptions }

// NewStore makes a store. It touches nothing on disk.
func NewStore(options StoreOptions) *Store { return &Store{options: options} }

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

// A Kept is one output that is open for reading.
type Kept struct{ meta Meta }

// Meta describes the output.
func (k *Kept) Meta() Meta { return k.meta }

// ReadAt reads a range as [io.ReaderAt] has it, decompressing no more than 1 MiB
// around it. It may be called concurrently.
func (k *Kept) ReadAt(p []byte, offset int64) (int, error) { return 0, nil }

// Close closes the file.
func (k *Kept) Close() error { return nil }

// Open opens an output. For a handle that there is not, any more or never was, the
// error wraps [io/fs.ErrNotExist].
func (s *Store) Open(handle string) (*Kept, error) { return nil, nil }

// List describes all outputs, the newest first.
func (s *Store) List() ([]Meta, error) { return nil, nil }

// Remove removes an output. The error wraps [io/fs.ErrNotExist] when there is none.
func (s *Store) Remove(handle string) error { return nil }

// Sweep removes what is past its retention or over the quota, and what writers left
// that are gone. Keeping an output does the same. ctx bounds it.
func (s *Store) Sweep(ctx context.Context) error { return nil }
