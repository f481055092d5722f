package filesystem

import (
	"fmt"
	"sync"

	"github.com/toolhost/toolhost/service"
)

// Bounds of what changes hold that are being worked out, or wait to be made, in bytes.
// What one session does not get done is not to stop the others.
const (
	maxStaged          = 256 << 20 // of one FileSystem
	maxStagedOfSession = 128 << 20
)

// A budget is what is left of these bounds. Its methods may be called concurrently.
type budget struct {
	mu        sync.Mutex
	held      int64            // under mu
	bySession map[string]int64 // under mu; of those that hold something
}

// take reserves so many bytes for a session, before they are used.
func (b *budget) take(session string, size int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held+size > maxStaged || b.bySession[session]+size > maxStagedOfSession {
		return &service.FileError{Kind: service.FileTooLarge, Detail: fmt.Sprintf(
			"changes that wait would hold too many bytes together, over %d MiB of a session or %d MiB of all: answer some of them, or change less at once",
			maxStagedOfSession>>20, maxStaged>>20)}
	}
	if b.bySession == nil {
		b.bySession = map[string]int64{}
	}
	b.held += size
	b.bySession[session] += size
	return nil
}

// give gives back what was taken.
func (b *budget) give(session string, size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= size
	if left := b.bySession[session] - size; left > 0 {
		b.bySession[session] = left
	} else {
		delete(b.bySession, session)
	}
}

// all is how many bytes are reserved.
func (b *budget) all() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}
