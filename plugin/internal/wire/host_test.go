package wire

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc"
	"pgregory.net/rapid"

	pluginv1 "github.com/toolhost/toolhost/plugin/proto/toolhost/plugin/v1"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/tool"
)

// fakeHost is every service of the host. It answers what a test says, and notes
// what it was asked.
type fakeHost struct {
	tools        []RemoteTool
	refused      []Refused
	unregistered uint64
	request      tool.PermissionRequest
	token        string
	err          error

	path    string
	handle  uint64
	query   any
	info    service.RootInfo
	page    service.Page
	pieces  [][]byte
	broken  error // behind the pieces; nil is their end
	listing service.Listing
	globbed service.GlobResult
	grepped service.GrepResult
}

func (h *fakeHost) Register(_ context.Context, tools []RemoteTool) (uint64, []Refused, error) {
	h.tools = tools
	return 7, h.refused, h.err
}

func (h *fakeHost) Unregister(_ context.Context, n uint64) error {
	h.unregistered = n
	return h.err
}

func (h *fakeHost) Assert(ctx context.Context, r tool.PermissionRequest) error {
	h.request, h.token = r, IncomingToken(ctx)
	return h.err
}

func (h *fakeHost) ResolveRoot(ctx context.Context, path string) (uint64, service.RootInfo, error) {
	h.path, h.token = path, IncomingToken(ctx)
	return h.handle, h.info, h.err
}

func (h *fakeHost) Release(_ context.Context, handle uint64) error {
	h.handle = handle
	return h.err
}

func (h *fakeHost) Read(_ context.Context, handle uint64, q service.ReadQuery) (service.Page, error) {
	h.handle, h.query = handle, q
	return h.page, h.err
}

func (h *fakeHost) ReadBytes(_ context.Context, handle uint64, q service.BytesQuery) (Bytes, error) {
	h.handle, h.query = handle, q
	return &fakeBytes{h, 0}, h.err
}

type fakeBytes struct {
	host *fakeHost
	next int
}

func (b *fakeBytes) Next(context.Context) ([]byte, error) {
	if b.next == len(b.host.pieces) {
		if b.host.broken != nil {
			return nil, b.host.broken
		}
		return nil, io.EOF
	}
	b.next++
	return b.host.pieces[b.next-1], nil
}

func (h *fakeHost) List(_ context.Context, handle uint64, q service.ListQuery) (service.Listing, error) {
	h.handle, h.query = handle, q
	return h.listing, h.err
}

func (h *fakeHost) Glob(_ context.Context, handle uint64, q service.GlobQuery) (service.GlobResult, error) {
	h.handle, h.query = handle, q
	return h.globbed, h.err
}

func (h *fakeHost) Grep(_ context.Context, handle uint64, q service.GrepQuery) (service.GrepResult, error) {
	h.handle, h.query = handle, q
	return h.grepped, h.err
}

func newFakeHost(t testing.TB) (*fakeHost, *grpc.ClientConn) {
	h := &fakeHost{}
	return h, connect(t, func(r grpc.ServiceRegistrar) {
		ServeTools(r, h)
		ServePermission(r, h)
		ServeFileSystemRead(r, h)
	})
}

func TestToolsCrossTheLine(t *testing.T) {
	fake, conn := newFakeHost(t)
	client := NewTools(conn)
	rapid.Check(t, func(t *rapid.T) {
		want := RemoteTool{Name: anyText(t, "name"), Executor: rapid.Uint64().Draw(t, "executor"), Tool: tool.Tool{
			Title: anyText(t, "title"), Description: anyText(t, "description"),
			Input: anyBytes(t, "input"), Output: anyBytes(t, "output"), Structured: anyBytes(t, "structured"),
			Effects:      tool.Effects(rapid.Uint16().Draw(t, "effects")) & (tool.AllEffects | tool.None),
			Irreversible: rapid.Bool().Draw(t, "irreversible"), Requests: anyRequests(t), Targets: anyTexts(t, "targets"),
			Unavailable: anyText(t, "unavailable"),
		}, Prepares: rapid.Bool().Draw(t, "prepares")}
		fake.refused = []Refused{{anyText(t, "refused"), anyText(t, "reason")}}
		number, refused, err := client.Register(context.Background(), []RemoteTool{want})
		if err != nil || number != 7 || len(refused) != 1 || refused[0] != (Refused{arrives(fake.refused[0].Name), arrives(fake.refused[0].Reason)}) {
			t.Fatalf("Register = %d, %q, %v", number, refused, err)
		}
		want.Name, want.Tool.Title, want.Tool.Description = arrives(want.Name), arrives(want.Tool.Title), arrives(want.Tool.Description)
		want.Tool.Requests, want.Tool.Targets = arrivedRequests(want.Tool.Requests), arriveAll(want.Tool.Targets)
		want.Tool.Unavailable = arrives(want.Tool.Unavailable)
		if diff := cmp.Diff([]RemoteTool{want}, fake.tools, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("Register (-want +got):\n%s", diff)
		}
	})
	if err := client.Unregister(t.Context(), 9); err != nil || fake.unregistered != 9 {
		t.Errorf("Unregister = %v, of %d", err, fake.unregistered)
	}
	fake.err = errors.New("no")
	if _, _, err := client.Register(t.Context(), nil); err == nil {
		t.Error("an error of Register did not arrive")
	}
}

// An effect that this version does not know may be anything (law 23).
func TestLaw23UnknownEffect(t *testing.T) {
	if got := effectsFromWire([]pluginv1.Effect{pluginv1.Effect_EFFECT_READ, 99}); got != tool.AllEffects {
		t.Errorf("effects = %v, want all", got)
	}
	if got := effectsFromWire([]pluginv1.Effect{pluginv1.Effect_EFFECT_NONE, pluginv1.Effect_EFFECT_UNSPECIFIED}); got != tool.AllEffects {
		t.Errorf("effects = %v, want all", got)
	}
}

func TestPermissionCrossesTheLine(t *testing.T) {
	fake, conn := newFakeHost(t)
	client := NewPermission(conn)
	rapid.Check(t, func(t *rapid.T) {
		r := tool.PermissionRequest{Action: anyText(t, "action"), Resources: anyTexts(t, "resources"), Save: anyTexts(t, "save")}
		if rapid.Bool().Draw(t, "metadata") {
			r.Metadata = map[string]string{"k" + anyText(t, "key"): anyText(t, "value")}
		}
		fake.err = anyServiceError(t)
		err := client.Assert(WithToken(context.Background(), "token"), r)
		wantServiceError(t, fake.err, err)
		want := tool.PermissionRequest{Action: arrives(r.Action), Resources: arriveAll(r.Resources), Save: arriveAll(r.Save), Metadata: map[string]string{}}
		for k, v := range r.Metadata {
			want.Metadata[arrives(k)] = arrives(v)
		}
		if diff := cmp.Diff(want, fake.request, cmpopts.EquateEmpty()); diff != "" || fake.token != "token" {
			t.Fatalf("Assert with the token %q (-want +got):\n%s", fake.token, diff)
		}
	})
}

// anyServiceError is none, or one of those that cross the line.
func anyServiceError(t *rapid.T) error {
	switch rapid.IntRange(0, 3).Draw(t, "error") {
	case 0:
		return &service.FileError{Kind: service.FileNotFound, Path: anyText(t, "path"), Detail: anyText(t, "detail")}
	case 1:
		return &tool.Refusal{Kind: tool.KindDeclined, Action: anyText(t, "action"), Resource: anyText(t, "resource"), Reason: anyText(t, "reason")}
	default:
		return nil
	}
}

func wantServiceError(t *rapid.T, want, got error) {
	switch e := want.(type) {
	case *service.FileError:
		want = &service.FileError{Kind: e.Kind, Path: arrives(e.Path), Detail: arrives(e.Detail)}
	case *tool.Refusal:
		want = &tool.Refusal{Kind: e.Kind, Action: arrives(e.Action), Resource: arrives(e.Resource), Reason: arrives(e.Reason)}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("error (-want +got):\n%s", diff)
	}
}

func anySkipped(t *rapid.T) service.Skipped {
	return service.Skipped{
		Ignored: number(t, "ignored"), Hidden: number(t, "hidden"), Links: number(t, "links"), Binary: number(t, "binary"),
		Denied: number(t, "denied"), Unreadable: number(t, "unreadable"), TooLarge: number(t, "large"),
	}
}

// File names need not be UTF-8 and arrive as they are; so do all numbers.
func TestFileSystemCrossesTheLine(t *testing.T) {
	fake, conn := newFakeHost(t)
	client := NewFileSystem(conn)
	ctx := WithToken(context.Background(), "token")
	empty := cmpopts.EquateEmpty()
	rapid.Check(t, func(t *rapid.T) {
		fake.err = anyServiceError(t)
		fake.handle = rapid.Uint64().Draw(t, "handle")
		fake.info = service.RootInfo{Resource: anyText(t, "resource"), Resolved: anyText(t, "resolved"), Kind: service.Directory}
		path := anyText(t, "path")
		handle, info, err := client.ResolveRoot(ctx, path)
		wantServiceError(t, fake.err, err)
		if diff := cmp.Diff(fake.info, info); diff != "" || handle != fake.handle || fake.path != arrives(path) || fake.token != "token" {
			t.Fatalf("ResolveRoot(%q) = %d, with token %q (-want +got):\n%s", fake.path, handle, fake.token, diff)
		}

		fake.page = service.Page{
			Text: anyText(t, "text"), First: number(t, "first"), Lines: number(t, "lines"), TotalLines: number(t, "total"), More: rapid.Bool().Draw(t, "more"),
			CutLines: []int{number(t, "cut")}, Size: rapid.Int64().Draw(t, "size"), Encoding: "utf-8", BOM: rapid.Bool().Draw(t, "bom"),
		}
		if rapid.Bool().Draw(t, "media") {
			fake.page.Media = &service.Media{Type: "image/png", Data: anyBytes(t, "data")}
		}
		read := service.ReadQuery{Offset: number(t, "offset"), Limit: number(t, "limit")}
		page, err := client.Read(ctx, handle, read)
		wantServiceError(t, fake.err, err)
		wantAnswer(t, fake, handle, read, fake.page, page, empty)

		fake.pieces = [][]byte{anyBytes(t, "piece"), anyBytes(t, "piece")}[:rapid.IntRange(0, 2).Draw(t, "pieces")]
		fake.broken = anyServiceError(t)
		bytes := service.BytesQuery{Offset: rapid.Int64().Draw(t, "offset"), Length: rapid.Int64().Draw(t, "length")}
		pieces, err := allBytes(ctx, client, handle, bytes)
		wantServiceError(t, first(fake.err, fake.broken), err)
		arrived := fake.pieces
		if fake.err != nil {
			arrived = nil
		}
		wantAnswer(t, fake, handle, bytes, arrived, pieces, empty)

		fake.listing = service.Listing{
			Entries:   []service.Entry{{Path: anyText(t, "path"), Kind: service.Symlink, Size: rapid.Int64().Draw(t, "size"), Target: anyText(t, "target")}},
			Truncated: rapid.Bool().Draw(t, "truncated"), Skipped: anySkipped(t),
		}
		list := service.ListQuery{Depth: number(t, "depth"), Limit: number(t, "limit")}
		listing, err := client.List(ctx, handle, list)
		wantServiceError(t, fake.err, err)
		wantAnswer(t, fake, handle, list, fake.listing, listing)

		fake.globbed = service.GlobResult{Paths: anyTexts(t, "paths"), Truncated: rapid.Bool().Draw(t, "truncated"), Skipped: anySkipped(t)}
		glob := service.GlobQuery{Pattern: anyText(t, "pattern"), Sort: service.GlobSort(anyText(t, "sort")), Limit: number(t, "limit")}
		globbed, err := client.Glob(ctx, handle, glob)
		wantServiceError(t, fake.err, err)
		glob.Pattern, glob.Sort = arrives(glob.Pattern), service.GlobSort(arrives(string(glob.Sort)))
		wantAnswer(t, fake, handle, glob, fake.globbed, globbed, empty)

		fake.grepped = service.GrepResult{
			Matches: []service.Match{{
				Path: anyText(t, "path"), Line: number(t, "line"), Column: number(t, "column"), Text: anyText(t, "text"),
				CutBefore: number(t, "before"), CutAfter: number(t, "after"), Before: anyTexts(t, "before"), After: anyTexts(t, "after"),
				Lines: number(t, "lines"),
			}},
			Counts: []service.FileCount{{Path: anyText(t, "path"), Lines: number(t, "lines")}},
			Files:  number(t, "files"), Searched: number(t, "searched"), Truncated: rapid.Bool().Draw(t, "truncated"),
			Omitted: number(t, "omitted"), Incomplete: anyTexts(t, "incomplete"), Skipped: anySkipped(t),
		}
		grep := service.GrepQuery{
			Pattern: anyText(t, "pattern"), Literal: rapid.Bool().Draw(t, "literal"), IgnoreCase: rapid.Bool().Draw(t, "case"), Include: anyText(t, "include"),
			Context: number(t, "context"), Limit: number(t, "limit"), Type: anyText(t, "type"), Multiline: rapid.Bool().Draw(t, "multiline"),
			Mode: service.GrepMode(anyText(t, "mode")),
		}
		grepped, err := client.Grep(ctx, handle, grep)
		wantServiceError(t, fake.err, err)
		grep.Pattern, grep.Include = arrives(grep.Pattern), arrives(grep.Include)
		grep.Type, grep.Mode = arrives(grep.Type), service.GrepMode(arrives(string(grep.Mode)))
		want := fake.grepped
		m := want.Matches[0]
		m.Text, m.Before, m.After = arrives(m.Text), arriveAll(m.Before), arriveAll(m.After)
		want.Matches = []service.Match{m}
		wantAnswer(t, fake, handle, grep, want, grepped, empty)
	})
	fake.err = nil
	if err := client.Release(ctx, 5); err != nil || fake.handle != 5 {
		t.Errorf("Release = %v, of %d", err, fake.handle)
	}
	fake.err = errors.New("broken")
	if _, err := client.Read(ctx, 5, service.ReadQuery{}); err == nil {
		t.Error("a broken service has no error")
	}
	if _, err := allBytes(ctx, client, 5, service.BytesQuery{}); err == nil {
		t.Error("a broken service has no error behind its bytes")
	}
}

func first(one, other error) error {
	if one != nil {
		return one
	}
	return other
}

// allBytes reads until there is no more.
func allBytes(ctx context.Context, files FileSystem, handle uint64, q service.BytesQuery) (pieces [][]byte, err error) {
	from, err := files.ReadBytes(ctx, handle, q)
	for err == nil {
		var piece []byte
		if piece, err = from.Next(ctx); err == nil {
			pieces = append(pieces, piece)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return pieces, err
}

func wantAnswer(t *rapid.T, fake *fakeHost, handle uint64, query, want, got any, options ...cmp.Option) {
	if diff := cmp.Diff(query, fake.query); diff != "" || fake.handle != handle {
		t.Fatalf("query of handle %d (-want +got):\n%s", fake.handle, diff)
	}
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Fatalf("answer (-want +got):\n%s", diff)
	}
}

// recorder is a log, and a session that is over when it is told so.
type recorder struct {
	records chan Record
	over    chan struct{}
}

func (r *recorder) Write(x Record) { r.records <- x }

func (r *recorder) Attach(ctx context.Context, opened func()) error {
	opened()
	select {
	case <-r.over:
	case <-ctx.Done():
	}
	return nil
}

func TestLogAndSessionCrossTheLine(t *testing.T) {
	fake := &recorder{records: make(chan Record, 1), over: make(chan struct{})}
	conn := connect(t, func(r grpc.ServiceRegistrar) {
		ServeLog(r, fake)
		ServeSession(r, fake)
	})
	stream, err := OpenLog(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	levels := map[slog.Level]slog.Level{
		slog.LevelDebug - 4: slog.LevelDebug, slog.LevelDebug: slog.LevelDebug, slog.LevelInfo: slog.LevelInfo, slog.LevelInfo + 1: slog.LevelInfo,
		slog.LevelWarn: slog.LevelWarn, slog.LevelError: slog.LevelError, slog.LevelError + 4: slog.LevelError,
	}
	rapid.Check(t, func(t *rapid.T) {
		for level, want := range levels {
			r := Record{Level: level, Message: anyText(t, "message"), Attributes: anyTexts(t, "attributes")}
			if err := stream.Send(r); err != nil {
				t.Fatal(err)
			}
			r = Record{want, arrives(r.Message), arriveAll(r.Attributes)}
			if diff := cmp.Diff(r, <-fake.records, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("record (-want +got):\n%s", diff)
			}
		}
	})

	opened, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- NewSession(conn).Attach(t.Context(), func() { close(opened) }) }()
	<-opened
	close(fake.over)
	if err := <-ended; err != nil {
		t.Errorf("Attach = %v after the host ended it", err)
	}
	lost, cancel := context.WithCancel(t.Context())
	cancel()
	if err := NewSession(conn).Attach(lost, func() {}); err == nil {
		t.Error("a lost session has no error")
	}
}

func TestTokens(t *testing.T) {
	if HasToken(t.Context()) || !HasToken(WithToken(t.Context(), "x")) {
		t.Error("HasToken is wrong")
	}
	if got := IncomingToken(t.Context()); got != "" {
		t.Errorf("IncomingToken = %q without one", got)
	}
	long := cut(strings.Repeat("日", maxErrorText))
	if len(long) > maxErrorText || !strings.HasSuffix(long, "日 …") || cut(long) != long {
		t.Errorf("a long text becomes %d bytes, …%q", len(long), long[len(long)-8:])
	}
}
