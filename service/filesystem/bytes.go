package filesystem

import (
	"context"
	"crypto/sha256"
	"hash"
	"io"
	"math"
	"time"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/internal/beneath"
	"github.com/toolhost/toolhost/service/filesystem/internal/evidence"
)

// Bytes are the bytes of a file as they are, read one piece after the other. They hold
// nothing beside the handle that they are of, and are not for concurrent use.
type Bytes struct {
	of   view
	at   int64
	end  int64 // where they end at the latest; -1 is where the file does
	hash hash.Hash
	buf  []byte
}

// Bytes asks the gate for reading the file, and gives its bytes; see
// [service.BytesQuery]. Errors are [*service.FileError]s, those of the gate, or the
// context's cause. A file that was read from its beginning to its end, and did not change
// meanwhile, is evidence as a page is (see [Root.Read]).
func (r *Root) Bytes(ctx context.Context, query service.BytesQuery) (*Bytes, error) {
	_, done, err := r.begin(ctx, service.ActionRead, r.spellings()...)
	if err != nil {
		return nil, describe(r.info.Resource, err)
	}
	defer done()
	b, err := r.bytes(query)
	if err != nil {
		return nil, describe(r.info.Resource, err)
	}
	return b, nil
}

func (r *Root) bytes(query service.BytesQuery) (*Bytes, error) {
	if query.Offset < 0 || query.Length < 0 {
		return nil, badQuery("offset %d and length %d: neither may be below 0", query.Offset, query.Length)
	}
	if err := r.mustBe(service.RegularFile); err != nil {
		return nil, err
	}
	at := time.Now()
	info, err := beneath.Stat(r.fd())
	if err != nil {
		return nil, err
	}
	b := &Bytes{of: view{root: r, info: info, at: at}, at: query.Offset, end: -1}
	if end := query.Offset + query.Length; query.Length > 0 && end > 0 { // and no overflow
		b.end = end
	}
	if query.Offset == 0 && info.Size <= service.MaxContent && r.caller.Session != "" {
		b.hash = sha256.New()
	}
	return b, nil
}

// Next gives the next bytes, at most [service.ChunkBytes] and at least one, or io.EOF
// behind the last of them. They are valid until the next Next. Once the handle is
// closed there are none. Errors are those of [Root.Bytes].
func (b *Bytes) Next(ctx context.Context) ([]byte, error) {
	r := b.of.root
	ctx, done, err := r.lease.begin(ctx)
	if err != nil {
		return nil, describe(r.info.Resource, err)
	}
	defer done()
	chunk, err := b.next()
	if err != nil {
		return nil, describe(r.info.Resource, err)
	}
	b.seen(ctx, chunk)
	if len(chunk) == 0 {
		return nil, io.EOF
	}
	return chunk, nil
}

func (b *Bytes) next() ([]byte, error) {
	want := int64(service.ChunkBytes)
	if b.end >= 0 {
		want = min(want, b.end-b.at)
	}
	if want <= 0 || b.at > math.MaxInt64-service.ChunkBytes { // where no file reaches
		return nil, nil
	}
	if b.buf == nil {
		b.buf = make([]byte, want)
	}
	n, err := beneath.ReadAt(b.of.root.fd(), b.buf[:want], b.at)
	b.at += int64(n)
	return b.buf[:n], err
}

// seen takes what was read into account for the digest of the file, which is evidence
// once its end was reached.
func (b *Bytes) seen(ctx context.Context, chunk []byte) {
	switch {
	case b.hash == nil:
		return
	case b.at > service.MaxContent:
		b.hash = nil
		return
	case len(chunk) > 0:
		b.hash.Write(chunk)
		return
	}
	sum := evidence.Digest(b.hash.Sum(nil))
	b.hash = nil
	if b.end < 0 || b.at < b.end || b.at == b.of.info.Size {
		b.of.saw(ctx, func() (evidence.Digest, error) { return sum, nil })
	}
}
