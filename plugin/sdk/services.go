package sdk

import (
	"context"
	"errors"
	"io"

	"github.com/toolhost/toolhost/plugin/internal/wire"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/tool"
)

// The questions and answers of a filesystem. Package service documents the fields
// and their bounds.
type (
	// ReadQuery asks for a page of a file.
	ReadQuery = service.ReadQuery
	// Page is a part of a text file, or an image.
	Page = service.Page
	// Media is an image as a file.
	Media = service.Media
	// ListQuery asks for the entries below a directory.
	ListQuery = service.ListQuery
	// Listing is what is below a directory.
	Listing = service.Listing
	// Entry is a name in a directory.
	Entry = service.Entry
	// GlobQuery asks for the files whose path matches a pattern.
	GlobQuery = service.GlobQuery
	// GlobResult is the files that match.
	GlobResult = service.GlobResult
	// GrepQuery asks for the lines that match a pattern.
	GrepQuery = service.GrepQuery
	// GrepResult is the lines that match.
	GrepResult = service.GrepResult
	// GrepMode says whether lines, files or counts are wanted.
	GrepMode = service.GrepMode
	// GlobSort is an order of paths.
	GlobSort = service.GlobSort
	// Match is a line that matches.
	Match = service.Match
	// FileCount is a file that matches.
	FileCount = service.FileCount
	// Skipped counts what an answer leaves out.
	Skipped = service.Skipped
	// FileKind is what a name refers to.
	FileKind = service.FileKind
)

// The kinds of files.
const (
	RegularFile = service.RegularFile
	Directory   = service.Directory
	Symlink     = service.Symlink
	SpecialFile = service.SpecialFile
)

// What a search is for, and the orders of paths.
const (
	GrepContent = service.GrepContent
	GrepFiles   = service.GrepFiles
	GrepCount   = service.GrepCount
	GlobByPath  = service.GlobByPath
	GlobByTime  = service.GlobByTime
)

// FileSystem reads the files of the Location. It may be used concurrently, with
// the context of a handler or of Activate.
type FileSystem struct{ client wire.FileSystem }

// ResolveRoot opens a file or directory. The path is relative to the Location's
// root; nothing outside of it can be opened. The handle is valid until the call
// ends: what was permitted is what is used, whatever the name refers to later.
// The error is a [*FileError], a [*Refusal], or a [*ServiceError].
func (f *FileSystem) ResolveRoot(ctx context.Context, path string) (*Root, error) {
	if err := needsCall(ctx, FileSystemRead); err != nil {
		return nil, err
	}
	handle, info, err := f.client.ResolveRoot(ctx, path)
	if err != nil {
		return nil, fromService(ctx, FileSystemRead, err)
	}
	return &Root{client: f.client, handle: handle, info: info}, nil
}

// Root is an open handle on a file or directory. The host closes it when the
// call ends; Close is for a handler that opens many. The errors of its methods
// are those of ResolveRoot.
type Root struct {
	client wire.FileSystem
	handle uint64
	info   service.RootInfo
}

// Resource is the path as it was spelled, cleaned, relative to the Location's root
// and with slashes.
func (r *Root) Resource() string { return r.info.Resource }

// Resources is what permission is asked for: the path as it was spelled and, where
// a link makes it another one, as it was resolved. A rule about either counts.
func (r *Root) Resources() []string {
	if r.info.Resolved == "" || r.info.Resolved == r.info.Resource {
		return []string{r.info.Resource}
	}
	return []string{r.info.Resource, r.info.Resolved}
}

// Kind is RegularFile or Directory.
func (r *Root) Kind() FileKind { return r.info.Kind }

// Close releases the handle.
func (r *Root) Close(ctx context.Context) error {
	return fromService(ctx, FileSystemRead, r.client.Release(ctx, r.handle))
}

// Read gives a page of a text file, or an image.
func (r *Root) Read(ctx context.Context, q ReadQuery) (Page, error) {
	page, err := r.client.Read(ctx, r.handle, q)
	return page, fromService(ctx, FileSystemRead, err)
}

// Reader reads a file as it is from an offset to its end, of any size and whatever is in
// it. The bytes come as fast as they are read: the host reads about a megabyte ahead, and
// holds no more. The offset must not be below 0; behind the end there is nothing.
//
// Nothing is asked of the host before the first Read, which has the error if the file
// may not be read. Errors are those of ResolveRoot, the cause of ctx, or io.EOF. The
// Reader is valid for as long as the handle and ctx; Close ends it before. It is not for
// concurrent use, but a file may have several Readers.
func (r *Root) Reader(ctx context.Context, offset int64) io.ReadCloser {
	ctx, cancel := context.WithCancelCause(ctx)
	return &reader{ctx: ctx, cancel: cancel, root: r, offset: offset}
}

// List gives the entries below a directory.
func (r *Root) List(ctx context.Context, q ListQuery) (Listing, error) {
	listing, err := r.client.List(ctx, r.handle, q)
	return listing, fromService(ctx, FileSystemRead, err)
}

// Glob gives the files below a directory whose path matches a pattern.
func (r *Root) Glob(ctx context.Context, q GlobQuery) (GlobResult, error) {
	result, err := r.client.Glob(ctx, r.handle, q)
	return result, fromService(ctx, FileSystemRead, err)
}

// Grep gives the lines below a directory, or in a file, that match a pattern.
func (r *Root) Grep(ctx context.Context, q GrepQuery) (GrepResult, error) {
	result, err := r.client.Grep(ctx, r.handle, q)
	return result, fromService(ctx, FileSystemRead, err)
}

// PermissionRequest is what a tool asks before it acts.
type PermissionRequest = tool.PermissionRequest

// Permission asks for permissions. It may be used concurrently, with the context
// of a handler.
type Permission struct{ client wire.Permission }

// Assert asks for what the handler is about to do, and waits for the answer,
// which may be a person's. A nil error is yes. A [*Refusal] is no, and ends the
// call as rejected, whatever the handler does next; a handler that was refused
// should return at once.
//
// A plugin that is not built in may assert only the canonical ids of its own
// tools ([Call.Tool]).
func (p *Permission) Assert(ctx context.Context, r PermissionRequest) error {
	if err := needsCall(ctx, Permissions); err != nil {
		return err
	}
	return fromService(ctx, Permissions, p.client.Assert(ctx, r))
}

// needsCall refuses a context that belongs to no call, before the host does.
func needsCall(ctx context.Context, s Service) error {
	if wire.HasToken(ctx) {
		return nil
	}
	return &ServiceError{Service: s, Err: errors.New("the context is not that of a handler or of Activate")}
}

// fromService tells the errors that a service makes on purpose from a broken one.
func fromService(ctx context.Context, s Service, err error) error {
	_, file := errors.AsType[*FileError](err)
	_, process := errors.AsType[*ProcessError](err)
	_, refusal := errors.AsType[*Refusal](err)
	switch {
	case err == nil, file, process, refusal:
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return &ServiceError{Service: s, Err: err}
	}
}
