// Package evidence remembers which content of a file a session saw, which is what it
// may replace (law 28), and the digests of files that did not change since they were
// read.
package evidence

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/toolhost/toolhost/service/filesystem/internal/beneath"
)

const (
	// maxSeen is how many files of sessions are remembered in memory.
	maxSeen = 20_000
	// maxDigests is how many digests are remembered.
	maxDigests = 4096
	// writtenFor is how long the store is not told again what it was told.
	writtenFor = 12 * time.Hour
	// settled is how old the last change of a file must be when it is looked at, for its
	// times to prove later that it did not change since: those of some filesystems are as
	// coarse as two seconds.
	settled = 2 * time.Second
)

// A Digest is the SHA-256 of a whole file.
type Digest = [sha256.Size]byte

// A Store keeps evidence for longer than a process lives. It may be called
// concurrently, and says itself what goes wrong.
type Store interface {
	// Saw records what a session saw of the file at a resolved path.
	Saw(ctx context.Context, session, path string, content Digest) error
	// Seen gives what it last saw, if that is known.
	Seen(ctx context.Context, session, path string) (content Digest, ok bool, err error)
}

// A Book is the evidence of one filesystem. It is safe for concurrent use.
type Book struct {
	store Store // nil: there is only the memory

	mu      sync.Mutex // guards what follows
	seen    *recent[key, entry]
	digests *recent[beneath.Info, Digest]
}

type key struct{ session, path string }

type entry struct {
	content Digest
	written time.Time // to the store; zero if it could not be
}

// NewBook makes a book on a store, which may be nil.
func NewBook(store Store) *Book {
	return &Book{store: store, seen: newRecent[key, entry](maxSeen), digests: newRecent[beneath.Info, Digest](maxDigests)}
}

// Saw remembers what a session saw of the file at a resolved path. What the store
// cannot keep is remembered for as long as the book lives; nothing fails for it.
func (b *Book) Saw(ctx context.Context, session, path string, content Digest) {
	if session == "" {
		return
	}
	k := key{session, path}
	b.mu.Lock()
	known, ok := b.seen.get(k)
	b.mu.Unlock()
	if ok && known.content == content && (b.store == nil || time.Since(known.written) < writtenFor) {
		return
	}
	e := entry{content: content}
	if b.store != nil && b.store.Saw(ctx, session, path, content) == nil {
		e.written = time.Now()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen.put(k, e)
}

// Seen gives what a session last saw of the file at a resolved path, if that is
// known. The store is asked first: others may have told it something newer. The error
// is the store's, where the memory does not know either.
func (b *Book) Seen(ctx context.Context, session, path string) (content Digest, ok bool, err error) {
	if session == "" {
		return Digest{}, false, nil
	}
	k := key{session, path}
	b.mu.Lock()
	known, ok := b.seen.get(k)
	b.mu.Unlock()
	if b.store == nil || ok && known.written.IsZero() {
		return known.content, ok, nil
	}
	content, stored, err := b.store.Seen(ctx, session, path)
	if err != nil || !stored {
		if ok {
			err = nil
		}
		return known.content, ok, err
	}
	if ok && content != known.content {
		b.mu.Lock()
		defer b.mu.Unlock()
		// The next reading is written, whatever it finds.
		b.seen.put(k, entry{content: content, written: time.Now()})
	}
	return content, true, nil
}

// Digest gives the digest of a file that is as info says, if it is remembered.
func (b *Book) Digest(info beneath.Info) (Digest, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.digests.get(info)
}

// Keep remembers the digest of a file that was as info says, at the given time before
// it was read and afterwards too. It does not, of a file that had changed so shortly
// before that a further change may not show.
func (b *Book) Keep(info beneath.Info, at time.Time, content Digest) {
	if !Settled(info, at) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.digests.put(info, content)
}

// Settled says that a file that was as info says at the given time, and is so still,
// did not change in between.
func Settled(info beneath.Info, at time.Time) bool { return at.Sub(info.Changed()) > settled }
