package filesystem

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/internal/beneath"
	"github.com/toolhost/toolhost/service/filesystem/internal/evidence"
	"github.com/toolhost/toolhost/service/filesystem/internal/text"
)

const (
	// wholeBytes is up to what size a file is read at once, whatever is wanted of it.
	wholeBytes = 256 << 10
	// hashStep is how much of a file is hashed between two looks at the context.
	hashStep = 256 << 10
)

// Read gives a page of a text file, or an image; see [service.ReadQuery] and
// [service.Page]. The file is read as it is now, as far as it reaches now. Errors are
// [*service.FileError]s, those of the gate, or the context's cause. The last page
// of a large file takes as long as reading it, unless it is asked for from the end, and
// no more memory than the first. ctx is looked at between two pieces of the file: a
// system that never gives the next one, as a broken network filesystem does, is waited
// for.
//
// Any page of text is evidence that the caller's session has read the file (law 28): the
// digest of the whole of it is recorded, unless the file changed while it was read, or
// is over [service.MaxContent] and cannot be replaced anyway.
func (r *Root) Read(ctx context.Context, query service.ReadQuery) (service.Page, error) {
	ctx, done, err := r.begin(ctx, service.ActionRead, r.spellings()...)
	if err != nil {
		return service.Page{}, describe(r.info.Resource, err)
	}
	defer done()
	page, err := r.read(ctx, query)
	return page, describe(r.info.Resource, err)
}

func (r *Root) read(ctx context.Context, query service.ReadQuery) (service.Page, error) {
	if err := r.mustBe(service.RegularFile); err != nil {
		return service.Page{}, err
	}
	at := time.Now()
	info, err := beneath.Stat(r.fd())
	if err != nil {
		return service.Page{}, err
	}
	v := view{root: r, info: info, at: at}
	switch {
	case info.Size == 0:
		return v.unsized(ctx, query)
	case info.Size <= wholeBytes:
		return v.small(ctx, query)
	default:
		return v.large(ctx, query)
	}
}

func (r *Root) fd() int { return int(r.file.Fd()) }

// A view is a file as it was found at a time.
type view struct {
	root *Root
	info beneath.Info
	at   time.Time // before the file was looked at
}

// small reads the whole file for a page, so that both are of the same bytes.
func (v view) small(ctx context.Context, query service.ReadQuery) (service.Page, error) {
	content := make([]byte, v.info.Size)
	n, err := beneath.ReadFull(ctx, v.root.fd(), content)
	if err != nil {
		return service.Page{}, err
	}
	return v.page(ctx, content[:n], query)
}

// page gives a page of the whole content.
func (v view) page(ctx context.Context, content []byte, query service.ReadQuery) (service.Page, error) {
	page, err := text.ReadPage(ctx, bytes.NewReader(content), int64(len(content)), query)
	if err == nil && page.Media == nil {
		v.saw(ctx, func() (evidence.Digest, error) { return sha256.Sum256(content), nil })
	}
	return page, err
}

// unsized reads a file that says that it is empty: it is, or its content is made up
// while it is read, and may have no end.
func (v view) unsized(ctx context.Context, query service.ReadQuery) (service.Page, error) {
	content, ended, err := readUnsized(ctx, v.root.fd())
	if err != nil {
		return service.Page{}, err
	}
	if ended {
		return v.page(ctx, content, query)
	}
	return firstPages(ctx, content, query)
}

// firstPages gives a page of what was read of a file that goes on.
func firstPages(ctx context.Context, content []byte, query service.ReadQuery) (service.Page, error) {
	if query.Offset < 0 {
		return service.Page{}, errNoEnd("its end is not known: read it from the beginning")
	}
	if line := bytes.LastIndexByte(content, '\n'); line >= 0 {
		content = content[:line+1]
	}
	if query.Offset > max(1, bytes.Count(content, []byte("\n"))) {
		return service.Page{}, errNoEnd("only those can be read")
	}
	page, err := text.ReadPage(ctx, bytes.NewReader(content), int64(len(content)), query)
	if err != nil {
		return service.Page{}, err
	}
	page.Size, page.TotalLines, page.More = -1, -1, true
	return page, nil
}

func errNoEnd(so string) error {
	return &service.FileError{
		Kind:   service.FileTooLarge,
		Detail: fmt.Sprintf("says no size and has more than %d MiB, so %s", service.MaxUnsized>>20, so),
	}
}

// readUnsized reads a file to its end, or as much as is read of one that may have none.
func readUnsized(ctx context.Context, fd int) (content []byte, ended bool, err error) {
	for len(content) <= service.MaxUnsized {
		if ctx.Err() != nil {
			return nil, false, context.Cause(ctx)
		}
		content = slices.Grow(content, 4<<10)
		n, err := beneath.ReadAt(fd, content[len(content):cap(content)], int64(len(content)))
		if err != nil {
			return nil, false, err
		}
		if n == 0 {
			return content, true, nil
		}
		content = content[:len(content)+n]
	}
	return content[:service.MaxUnsized], false, nil
}

// large reads what the page needs, and the whole file only to hash it.
func (v view) large(ctx context.Context, query service.ReadQuery) (service.Page, error) {
	page, err := text.ReadPage(ctx, v.root.file, v.info.Size, query)
	if err != nil || page.Media != nil || v.info.Size > service.MaxContent {
		return page, err
	}
	v.saw(ctx, func() (evidence.Digest, error) { return v.hash(ctx, query, page) })
	return page, nil
}

// hash gives the digest of a file that has this page.
func (v view) hash(ctx context.Context, query service.ReadQuery, page service.Page) (evidence.Digest, error) {
	sum, err := hashFile(ctx, v.root.fd())
	if err != nil || evidence.Settled(v.info, v.at) {
		return sum, err
	}
	// A change may not have shown since the page was read: what was hashed has it too.
	again, err := text.ReadPage(ctx, v.root.file, v.info.Size, query)
	if err == nil && !reflect.DeepEqual(again, page) {
		err = errReplaced
	}
	return sum, err
}

// saw records that the caller's session saw the file, whose digest is worked out if it
// is not known. Without evidence the session has to read it again, so no error is one
// of the reading.
func (v view) saw(ctx context.Context, digest func() (evidence.Digest, error)) {
	session, book := v.root.caller.Session, v.root.system.evidence
	if session == "" || v.root.caller.Preparing {
		return
	}
	sum, known := book.Digest(v.info)
	if !known {
		var err error
		if sum, err = digest(); err != nil {
			return
		}
	}
	if now, err := beneath.Stat(v.root.fd()); err != nil || now != v.info {
		return // it changed while it was read
	}
	if !known {
		book.Keep(v.info, v.at, sum)
	}
	v.root.system.saw(ctx, session, v.root.info.Resolved, sum)
}

// hashFile gives the SHA-256 of an open file, from its beginning to its end.
func hashFile(ctx context.Context, fd int) (sum evidence.Digest, err error) {
	hash := sha256.New()
	buf := make([]byte, hashStep)
	for at := int64(0); ; {
		if ctx.Err() != nil {
			return sum, context.Cause(ctx)
		}
		n, err := beneath.ReadAt(fd, buf, at)
		if err != nil {
			return sum, err
		}
		if n == 0 {
			return evidence.Digest(hash.Sum(nil)), nil
		}
		hash.Write(buf[:n])
		if at += int64(n); at > service.MaxContent {
			return sum, errTooLong
		}
	}
}

// errTooLong says that a file became longer than what is hashed.
var errTooLong = errors.New("became too long while it was hashed")

// saw records the digest of what a session saw, or made, of the file at a resolved
// path. What cannot be kept for longer is kept for as long as the FileSystem lives.
func (f *FileSystem) saw(ctx context.Context, session, path string, content [32]byte) {
	f.evidence.Saw(ctx, session, path, content)
}

// seen gives the digest of what a session last saw of the file at a resolved path, and
// whether that is known. An error means that it is not.
func (f *FileSystem) seen(ctx context.Context, session, path string) (content [32]byte, ok bool, err error) {
	return f.evidence.Seen(ctx, session, path)
}
