package output

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/toolhost/toolhost/tool"
)

// MaxPart is the most bytes of one [Part].
const MaxPart = 256 << 10

// ErrRange says that a part would begin before an output or behind its last byte.
var ErrRange = errors.New("is not in the output")

// A Part is a range of a kept output, byte for byte.
type Part struct {
	// Meta describes the whole.
	Meta Meta
	// Offset is where the part begins, in bytes of the whole.
	Offset int64
	// Data are its bytes, which are the caller's.
	Data []byte
}

// Next is the offset at which the next part begins; at the end there is none.
func (p Part) Next() (offset int64, more bool) {
	offset = p.Offset + int64(len(p.Data))
	return offset, offset < p.Meta.Bytes
}

// Range reads a part of an output that was kept for the session in this Location, and
// the part has at least one byte. It begins exactly at offset and has at most limit
// bytes, or [MaxPart] where the limit is above that or is not above 0. It ends before
// a character of UTF-8 that it would cut, unless it has nothing else.
//
// Of an output of another session or Location, of one that expired and of one that
// never was, the error wraps [fs.ErrNotExist] and says no more than that. It wraps
// [ErrRange] when offset is not in the output, and then says how many bytes that has.
// It is the cause of ctx when that is over at the call; the reading itself is short.
func (k *Keeper) Range(ctx context.Context, session, handle string, offset, limit int64) (Part, error) {
	kept, err := k.open(ctx, tool.Call{Identity: tool.Identity{Session: session}}, handle)
	if _, gone := errors.AsType[*tool.Failure](err); gone {
		return Part{}, fmt.Errorf("output %.64q: %w", handle, fs.ErrNotExist)
	}
	if err != nil {
		return Part{}, err
	}
	defer func() { _ = kept.Close() }() // it is only read
	size := kept.meta.Bytes
	if offset < 0 || offset >= size {
		return Part{}, fmt.Errorf("offset %d %w, which has %d bytes: the first is 0", offset, ErrRange, size)
	}
	if limit <= 0 || limit > MaxPart {
		limit = MaxPart
	}
	data := make([]byte, min(limit, size-offset))
	if _, err := kept.ReadAt(data, offset); err != nil && !errors.Is(err, io.EOF) {
		return Part{}, err
	}
	end, err := characterAt(kept, offset+int64(len(data)))
	if err != nil {
		return Part{}, err
	}
	if end > offset {
		data = data[:end-offset]
	}
	return Part{Meta: kept.meta, Offset: offset, Data: data}, nil
}
