package wire

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/toolhost/toolhost/service"
)

// sizes notes how large the messages are that a client receives.
type sizes struct {
	most, count int
}

func (s *sizes) HandleRPC(_ context.Context, e stats.RPCStats) {
	if in, ok := e.(*stats.InPayload); ok {
		s.most, s.count = max(s.most, in.Length), s.count+1
	}
}

func (*sizes) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*sizes) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*sizes) HandleConn(context.Context, stats.ConnStats)                       {}

// The largest answers arrive whole, in messages of at most 64 KiB, as long as no item is larger.
//
// Seen to fail: with everything in the last piece, and with the rest left out.
func TestLargeAnswersComeInPieces(t *testing.T) {
	fake := &fakeHost{}
	var seen sizes
	conn := connect(t, func(r grpc.ServiceRegistrar) { ServeFileSystemRead(r, fake) }, grpc.WithStatsHandler(&seen))
	client := NewFileSystem(conn)
	for i := range service.MaxEntries {
		path := fmt.Sprintf("%s/%d", strings.Repeat("long/", i%100), i)
		fake.listing.Entries = append(fake.listing.Entries, service.Entry{Path: path, Kind: service.RegularFile, Size: int64(i)})
		fake.globbed.Paths = append(fake.globbed.Paths, path)
		fake.grepped.Matches = append(fake.grepped.Matches, service.Match{Path: path, Line: i, Column: 1, Text: strings.Repeat("x", service.MatchLineBytes)})
	}
	for range service.MaxIncomplete {
		fake.grepped.Incomplete = append(fake.grepped.Incomplete, strings.Repeat("p", 4<<10))
	}
	fake.listing.Truncated, fake.globbed.Skipped.Hidden, fake.grepped.Omitted = true, 3, 17
	listing, err := client.List(t.Context(), 1, service.ListQuery{})
	if diff := cmp.Diff(fake.listing, listing); diff != "" || err != nil {
		t.Errorf("list: %v, %d entries", err, len(listing.Entries))
	}
	globbed, err := client.Glob(t.Context(), 1, service.GlobQuery{})
	if diff := cmp.Diff(fake.globbed, globbed); diff != "" || err != nil {
		t.Errorf("glob: %v, %d paths", err, len(globbed.Paths))
	}
	grepped, err := client.Grep(t.Context(), 1, service.GrepQuery{})
	if diff := cmp.Diff(fake.grepped, grepped); diff != "" || err != nil {
		t.Errorf("grep: %v, %d matches", err, len(grepped.Matches))
	}
	fake.grepped = service.GrepResult{}
	for i := range service.MaxEntries {
		fake.grepped.Counts = append(fake.grepped.Counts, service.FileCount{Path: fake.globbed.Paths[i], Lines: i})
	}
	grepped, err = client.Grep(t.Context(), 1, service.GrepQuery{})
	if diff := cmp.Diff(fake.grepped, grepped); diff != "" || err != nil {
		t.Errorf("grep: %v, %d counts", err, len(grepped.Counts))
	}
	if seen.most > MaxChunk || seen.count < 100 {
		t.Errorf("%d messages, the largest of %d bytes", seen.count, seen.most)
	}
	// An item that is larger is one by itself.
	fake.grepped = service.GrepResult{Matches: []service.Match{{Text: "a"}, {Text: strings.Repeat("x", MaxChunk)}, {Text: "b"}}}
	grepped, err = client.Grep(t.Context(), 1, service.GrepQuery{})
	if diff := cmp.Diff(fake.grepped, grepped); diff != "" || err != nil {
		t.Errorf("grep: %v, %d matches", err, len(grepped.Matches))
	}
}

// hanging is a filesystem whose grep takes until its context is done.
type hanging struct {
	*fakeHost
	began, ended chan struct{}
}

func (h *hanging) Grep(ctx context.Context, _ uint64, _ service.GrepQuery) (service.GrepResult, error) {
	close(h.began)
	<-ctx.Done()
	close(h.ended)
	return service.GrepResult{}, context.Cause(ctx)
}

// A search that is given up by the one who asked ends on the other side.
//
// Seen to fail: with a context of the server's own.
func TestGivingUpEndsTheSearch(t *testing.T) {
	h := &hanging{fakeHost: &fakeHost{}, began: make(chan struct{}), ended: make(chan struct{})}
	conn := connect(t, func(r grpc.ServiceRegistrar) { ServeFileSystemRead(r, h) })
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-h.began
		cancel()
	}()
	if _, err := NewFileSystem(conn).Grep(ctx, 1, service.GrepQuery{}); status.Code(err) != codes.Canceled {
		t.Errorf("got %v, want that it was cancelled", err)
	}
	select {
	case <-h.ended:
	case <-time.After(10 * time.Second):
		t.Error("the search goes on")
	}
}
