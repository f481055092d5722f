package output

import (
	"sync"

	"github.com/toolhost/toolhost/tool"
)

// A Bounding bounds the output of one call. It is safe for concurrent use, so
// that an executor which outlives its call does no harm.
type Bounding struct {
	store  *Store
	limits Limits
	origin Origin

	mu sync.Mutex
}

// Write takes streamed text of the call; see [tool.Call.Output]. It may be of any
// size and is held in bounded memory. An error is a [*tool.Error] of
// [tool.KindRetention], which Bound then returns as well, or says that the call is
// over.
func (b *Bounding) Write(p []byte) (int, error) { return len(p), nil }

// Bound bounds the settlement of a completed or failed call in place, once. What
// is cut or changed is kept first, and named in Retained. An error is a
// [*tool.Error] of [tool.KindRetention] or [tool.KindTooLarge]; the settlement is
// then unchanged and must not be published.
func (b *Bounding) Bound(s *tool.Settlement) error { return nil }

// Discard releases what Bound did not publish. It may be called at any time, and
// again.
func (b *Bounding) Discard() {}

// Paths are the files of what was kept, for hooks (law 21); never for a model.
func (b *Bounding) Paths() []string { return nil }
