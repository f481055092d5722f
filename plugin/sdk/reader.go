package sdk

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/toolhost/toolhost/plugin/internal/wire"
	"github.com/toolhost/toolhost/service"
)

var _ io.ReadCloser = (*reader)(nil)

// reader is a file as a stream.
type reader struct {
	ctx    context.Context //nolint:containedctx // a Read has none
	cancel context.CancelCauseFunc
	root   *Root
	offset int64

	from wire.Bytes // nil before the first Read
	rest []byte     // received and not yet read
	err  error      // what every further Read gives
}

func (r *reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(r.rest) == 0 && r.err == nil {
		r.rest, r.err = r.next()
	}
	if len(r.rest) == 0 {
		return 0, r.err
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *reader) next() ([]byte, error) {
	if err := needsCall(r.ctx, FileSystemRead); err != nil {
		return nil, err
	}
	if r.from == nil {
		from, err := r.root.client.ReadBytes(r.ctx, r.root.handle, service.BytesQuery{Offset: r.offset})
		if err != nil {
			return nil, r.ended(err)
		}
		r.from = from
	}
	chunk, err := r.from.Next(r.ctx)
	if err != nil {
		return nil, r.ended(err)
	}
	return chunk, nil
}

// ended releases the stream, and gives the error that a Read gives.
func (r *reader) ended(err error) error {
	if !errors.Is(err, io.EOF) {
		err = fromService(r.ctx, FileSystemRead, err)
	}
	r.cancel(nil)
	return err
}

// Close ends the stream; what is read afterwards is [os.ErrClosed]. Closing again does
// nothing.
func (r *reader) Close() error {
	r.cancel(os.ErrClosed)
	r.rest, r.err = nil, os.ErrClosed
	return nil
}
