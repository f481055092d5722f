package wire

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	pluginv1 "github.com/toolhost/toolhost/plugin/proto/toolhost/plugin/v1"
	"github.com/toolhost/toolhost/service"
)

// FileSystem is the host's filesystem service, for reading. A handle belongs to
// the call whose token opened it. Errors are [*service.FileError] or
// [*tool.Refusal]; anything else means that the connection broke.
type FileSystem interface {
	ResolveRoot(ctx context.Context, path string) (handle uint64, info service.RootInfo, err error)
	Release(ctx context.Context, handle uint64) error
	Read(ctx context.Context, handle uint64, q service.ReadQuery) (service.Page, error)
	// ReadBytes begins to read bytes. Until ctx ends, or the bytes do, it may hold
	// something; an error may also be that of the first Next.
	ReadBytes(ctx context.Context, handle uint64, q service.BytesQuery) (Bytes, error)
	List(ctx context.Context, handle uint64, q service.ListQuery) (service.Listing, error)
	Glob(ctx context.Context, handle uint64, q service.GlobQuery) (service.GlobResult, error)
	Grep(ctx context.Context, handle uint64, q service.GrepQuery) (service.GrepResult, error)
}

// Bytes are read one piece after the other. They are not for concurrent use.
type Bytes interface {
	// Next gives the next bytes, some but at most MaxChunk, or io.EOF behind the last.
	// They are valid until the next Next. ctx is that of ReadBytes.
	Next(ctx context.Context) ([]byte, error)
}

// ServeFileSystemRead puts f on server.
func ServeFileSystemRead(server grpc.ServiceRegistrar, f FileSystem) {
	pluginv1.RegisterFileSystemReadServiceServer(server, &fileSystemServer{files: f})
}

type fileSystemServer struct {
	pluginv1.UnimplementedFileSystemReadServiceServer
	files FileSystem
}

func (s *fileSystemServer) ResolveRoot(ctx context.Context, r *pluginv1.ResolveRootRequest) (*pluginv1.ResolveRootResponse, error) {
	handle, info, err := s.files.ResolveRoot(ctx, r.GetPath())
	e, err := serviceError(err)
	return &pluginv1.ResolveRootResponse{
		Error: e, Handle: handle, Resource: []byte(info.Resource), Resolved: []byte(info.Resolved), Kind: string(info.Kind),
	}, err
}

func (s *fileSystemServer) Release(ctx context.Context, r *pluginv1.ReleaseRequest) (*pluginv1.ReleaseResponse, error) {
	return &pluginv1.ReleaseResponse{}, s.files.Release(ctx, r.GetHandle())
}

func (s *fileSystemServer) Read(ctx context.Context, r *pluginv1.ReadRequest) (*pluginv1.ReadResponse, error) {
	page, err := s.files.Read(ctx, r.GetHandle(), service.ReadQuery{Offset: int(r.GetOffset()), Limit: int(r.GetLimit())})
	e, err := serviceError(err)
	out := &pluginv1.ReadResponse{
		Error: e, Text: []byte(page.Text), First: int64(page.First), Lines: int64(page.Lines), TotalLines: int64(page.TotalLines),
		More: page.More, Size: page.Size, Encoding: page.Encoding, Bom: page.BOM,
	}
	for _, n := range page.CutLines {
		out.CutLines = append(out.CutLines, int64(n))
	}
	if page.Media != nil {
		out.MediaType, out.Media = text(page.Media.Type), page.Media.Data
	}
	return out, err
}

// ReadBytes sends no more than the other side takes: between two pieces it waits for
// that, and holds nothing but one of them.
func (s *fileSystemServer) ReadBytes(r *pluginv1.ReadBytesRequest, stream grpc.ServerStreamingServer[pluginv1.ReadBytesResponse]) error {
	ctx := stream.Context()
	from, err := s.files.ReadBytes(ctx, r.GetHandle(), service.BytesQuery{Offset: r.GetOffset(), Length: r.GetLength()})
	for {
		var chunk []byte
		if err == nil {
			chunk, err = from.Next(ctx)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			e, broken := serviceError(err)
			if e == nil {
				return broken
			}
			return stream.Send(&pluginv1.ReadBytesResponse{Error: e})
		}
		if err := stream.Send(&pluginv1.ReadBytesResponse{Chunk: chunk}); err != nil {
			return err
		}
	}
}

func (s *fileSystemServer) List(ctx context.Context, r *pluginv1.ListRequest) (*pluginv1.ListResponse, error) {
	listing, err := s.files.List(ctx, r.GetHandle(), service.ListQuery{Depth: int(r.GetDepth()), Limit: int(r.GetLimit())})
	e, err := serviceError(err)
	out := &pluginv1.ListResponse{Error: e, Truncated: listing.Truncated, Skipped: skippedToWire(listing.Skipped)}
	for _, x := range listing.Entries {
		out.Entries = append(out.Entries, &pluginv1.Entry{Path: []byte(x.Path), Kind: string(x.Kind), Size: x.Size, Target: []byte(x.Target)})
	}
	return out, err
}

func (s *fileSystemServer) Glob(ctx context.Context, r *pluginv1.GlobRequest) (*pluginv1.GlobResponse, error) {
	result, err := s.files.Glob(ctx, r.GetHandle(), service.GlobQuery{
		Pattern: r.GetPattern(), Sort: service.GlobSort(r.GetSort()), Limit: int(r.GetLimit()),
	})
	e, err := serviceError(err)
	out := &pluginv1.GlobResponse{Error: e, Truncated: result.Truncated, Skipped: skippedToWire(result.Skipped)}
	for _, path := range result.Paths {
		out.Paths = append(out.Paths, []byte(path))
	}
	return out, err
}

func (s *fileSystemServer) Grep(ctx context.Context, r *pluginv1.GrepRequest) (*pluginv1.GrepResponse, error) {
	result, err := s.files.Grep(ctx, r.GetHandle(), service.GrepQuery{
		Pattern: r.GetPattern(), Literal: r.GetLiteral(), IgnoreCase: r.GetIgnoreCase(), Include: r.GetInclude(),
		Context: int(r.GetContext()), Limit: int(r.GetLimit()), Type: r.GetType(), Multiline: r.GetMultiline(), Mode: service.GrepMode(r.GetMode()),
	})
	e, err := serviceError(err)
	out := &pluginv1.GrepResponse{
		Error: e, Files: int64(result.Files), Searched: int64(result.Searched), Truncated: result.Truncated, Skipped: skippedToWire(result.Skipped),
		Omitted: int64(result.Omitted),
	}
	for _, path := range result.Incomplete {
		out.Incomplete = append(out.Incomplete, []byte(path))
	}
	for _, m := range result.Matches {
		out.Matches = append(out.Matches, &pluginv1.Match{
			Path: []byte(m.Path), Line: int64(m.Line), Column: int64(m.Column), Text: text(m.Text),
			CutBefore: int64(m.CutBefore), CutAfter: int64(m.CutAfter), Before: texts(m.Before), After: texts(m.After), Lines: int64(m.Lines),
		})
	}
	for _, c := range result.Counts {
		out.Counts = append(out.Counts, &pluginv1.FileCount{Path: []byte(c.Path), Lines: int64(c.Lines)})
	}
	return out, err
}

func skippedToWire(s service.Skipped) *pluginv1.Skipped {
	return &pluginv1.Skipped{
		Ignored: int64(s.Ignored), Hidden: int64(s.Hidden), Binary: int64(s.Binary),
		Denied: int64(s.Denied), Unreadable: int64(s.Unreadable), TooLarge: int64(s.TooLarge), Links: int64(s.Links),
	}
}

func skippedFromWire(s *pluginv1.Skipped) service.Skipped {
	return service.Skipped{
		Ignored: int(s.GetIgnored()), Hidden: int(s.GetHidden()), Binary: int(s.GetBinary()),
		Denied: int(s.GetDenied()), Unreadable: int(s.GetUnreadable()), TooLarge: int(s.GetTooLarge()), Links: int(s.GetLinks()),
	}
}

// NewFileSystem is the client of the filesystem on the other side of conn.
func NewFileSystem(conn grpc.ClientConnInterface) FileSystem {
	return &fileSystemClient{pluginv1.NewFileSystemReadServiceClient(conn)}
}

type fileSystemClient struct {
	client pluginv1.FileSystemReadServiceClient
}

func (c *fileSystemClient) ResolveRoot(ctx context.Context, path string) (uint64, service.RootInfo, error) {
	r, err := c.client.ResolveRoot(outgoing(ctx), &pluginv1.ResolveRootRequest{Path: text(path)})
	if err != nil {
		return 0, service.RootInfo{}, err
	}
	info := service.RootInfo{Resource: string(r.GetResource()), Resolved: string(r.GetResolved()), Kind: service.FileKind(r.GetKind())}
	return r.GetHandle(), info, plainError(r.GetError())
}

func (c *fileSystemClient) Release(ctx context.Context, handle uint64) error {
	_, err := c.client.Release(outgoing(ctx), &pluginv1.ReleaseRequest{Handle: handle})
	return err
}

func (c *fileSystemClient) Read(ctx context.Context, handle uint64, q service.ReadQuery) (service.Page, error) {
	r, err := c.client.Read(outgoing(ctx), &pluginv1.ReadRequest{Handle: handle, Offset: int64(q.Offset), Limit: int64(q.Limit)})
	if err != nil {
		return service.Page{}, err
	}
	page := service.Page{
		Text: string(r.GetText()), First: int(r.GetFirst()), Lines: int(r.GetLines()), TotalLines: int(r.GetTotalLines()),
		More: r.GetMore(), Size: r.GetSize(), Encoding: r.GetEncoding(), BOM: r.GetBom(),
	}
	for _, n := range r.GetCutLines() {
		page.CutLines = append(page.CutLines, int(n))
	}
	if r.GetMediaType() != "" {
		page.Media = &service.Media{Type: r.GetMediaType(), Data: r.GetMedia()}
	}
	return page, plainError(r.GetError())
}

func (c *fileSystemClient) ReadBytes(ctx context.Context, handle uint64, q service.BytesQuery) (Bytes, error) {
	stream, err := c.client.ReadBytes(outgoing(ctx), &pluginv1.ReadBytesRequest{Handle: handle, Offset: q.Offset, Length: q.Length})
	if err != nil {
		return nil, err
	}
	return byteStream{stream}, nil
}

type byteStream struct {
	stream grpc.ServerStreamingClient[pluginv1.ReadBytesResponse]
}

func (s byteStream) Next(context.Context) ([]byte, error) {
	r, err := s.stream.Recv()
	if err != nil {
		return nil, err
	}
	return r.GetChunk(), plainError(r.GetError())
}

func (c *fileSystemClient) List(ctx context.Context, handle uint64, q service.ListQuery) (service.Listing, error) {
	stream, err := c.client.ListInPieces(outgoing(ctx), &pluginv1.ListInPiecesRequest{
		Query: &pluginv1.ListRequest{Handle: handle, Depth: int64(q.Depth), Limit: int64(q.Limit)},
	})
	if err != nil {
		return service.Listing{}, err
	}
	var listing service.Listing
	last, err := join(stream, (*pluginv1.ListInPiecesResponse).GetPiece, func(r *pluginv1.ListResponse) {
		for _, x := range r.GetEntries() {
			listing.Entries = append(listing.Entries, service.Entry{
				Path: string(x.GetPath()), Kind: service.FileKind(x.GetKind()), Size: x.GetSize(), Target: string(x.GetTarget()),
			})
		}
	})
	if err != nil {
		return service.Listing{}, err
	}
	listing.Truncated, listing.Skipped = last.GetTruncated(), skippedFromWire(last.GetSkipped())
	return listing, plainError(last.GetError())
}

func (c *fileSystemClient) Glob(ctx context.Context, handle uint64, q service.GlobQuery) (service.GlobResult, error) {
	stream, err := c.client.GlobInPieces(outgoing(ctx), &pluginv1.GlobInPiecesRequest{
		Query: &pluginv1.GlobRequest{Handle: handle, Pattern: text(q.Pattern), Sort: text(string(q.Sort)), Limit: int64(q.Limit)},
	})
	if err != nil {
		return service.GlobResult{}, err
	}
	var result service.GlobResult
	last, err := join(stream, (*pluginv1.GlobInPiecesResponse).GetPiece, func(r *pluginv1.GlobResponse) {
		for _, path := range r.GetPaths() {
			result.Paths = append(result.Paths, string(path))
		}
	})
	if err != nil {
		return service.GlobResult{}, err
	}
	result.Truncated, result.Skipped = last.GetTruncated(), skippedFromWire(last.GetSkipped())
	return result, plainError(last.GetError())
}

func (c *fileSystemClient) Grep(ctx context.Context, handle uint64, q service.GrepQuery) (service.GrepResult, error) {
	stream, err := c.client.GrepInPieces(outgoing(ctx), &pluginv1.GrepInPiecesRequest{Query: &pluginv1.GrepRequest{
		Handle: handle, Pattern: text(q.Pattern), Literal: q.Literal, IgnoreCase: q.IgnoreCase, Include: text(q.Include),
		Context: int64(q.Context), Limit: int64(q.Limit), Type: text(q.Type), Multiline: q.Multiline, Mode: text(string(q.Mode)),
	}})
	if err != nil {
		return service.GrepResult{}, err
	}
	var result service.GrepResult
	last, err := join(stream, (*pluginv1.GrepInPiecesResponse).GetPiece, func(r *pluginv1.GrepResponse) { addGrep(&result, r) })
	if err != nil {
		return service.GrepResult{}, err
	}
	result.Files, result.Searched, result.Omitted = int(last.GetFiles()), int(last.GetSearched()), int(last.GetOmitted())
	result.Truncated, result.Skipped = last.GetTruncated(), skippedFromWire(last.GetSkipped())
	return result, plainError(last.GetError())
}

func addGrep(result *service.GrepResult, r *pluginv1.GrepResponse) {
	for _, path := range r.GetIncomplete() {
		result.Incomplete = append(result.Incomplete, string(path))
	}
	for _, c := range r.GetCounts() {
		result.Counts = append(result.Counts, service.FileCount{Path: string(c.GetPath()), Lines: int(c.GetLines())})
	}
	for _, m := range r.GetMatches() {
		result.Matches = append(result.Matches, service.Match{
			Path: string(m.GetPath()), Line: int(m.GetLine()), Column: int(m.GetColumn()), Lines: int(m.GetLines()), Text: m.GetText(),
			CutBefore: int(m.GetCutBefore()), CutAfter: int(m.GetCutAfter()), Before: m.GetBefore(), After: m.GetAfter(),
		})
	}
}
