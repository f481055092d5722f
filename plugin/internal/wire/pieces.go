package wire

import (
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pluginv1 "github.com/toolhost/toolhost/plugin/proto/toolhost/plugin/v1"
)

// An answer of the filesystem in pieces: one that lists many things does not hold up
// the calls that share its connection, and needs no message of its size on either
// side. An item that is larger than a piece is one by itself.
const (
	// pieceBytes is what the items of one kind take in a message; there are two kinds
	// of some size in one, at most.
	pieceBytes = MaxChunk/2 - 1<<10
	// itemBytes is what is around an item.
	itemBytes = 8
)

// split sends items as long as more than one piece of them is left, and gives the rest.
func split[T any](items []T, size func(T) int, send func([]T) error) (rest []T, err error) {
	from, held := 0, 0
	for i, item := range items {
		n := size(item) + itemBytes
		if held+n > pieceBytes && i > from {
			if err := send(items[from:i]); err != nil {
				return nil, err
			}
			from, held = i, 0
		}
		held += n
	}
	return items[from:], nil
}

func sizeOf[M proto.Message](m M) int { return proto.Size(m) }

func lengthOf(b []byte) int { return len(b) }

func (s *fileSystemServer) ListInPieces(r *pluginv1.ListInPiecesRequest, stream grpc.ServerStreamingServer[pluginv1.ListInPiecesResponse]) error {
	whole, err := s.List(stream.Context(), r.GetQuery())
	if err != nil {
		return err
	}
	whole.Entries, err = split(whole.GetEntries(), sizeOf, func(entries []*pluginv1.Entry) error {
		return stream.Send(&pluginv1.ListInPiecesResponse{Piece: &pluginv1.ListResponse{Entries: entries}})
	})
	if err != nil {
		return err
	}
	return stream.Send(&pluginv1.ListInPiecesResponse{Piece: whole})
}

func (s *fileSystemServer) GlobInPieces(r *pluginv1.GlobInPiecesRequest, stream grpc.ServerStreamingServer[pluginv1.GlobInPiecesResponse]) error {
	whole, err := s.Glob(stream.Context(), r.GetQuery())
	if err != nil {
		return err
	}
	whole.Paths, err = split(whole.GetPaths(), lengthOf, func(paths [][]byte) error {
		return stream.Send(&pluginv1.GlobInPiecesResponse{Piece: &pluginv1.GlobResponse{Paths: paths}})
	})
	if err != nil {
		return err
	}
	return stream.Send(&pluginv1.GlobInPiecesResponse{Piece: whole})
}

func (s *fileSystemServer) GrepInPieces(r *pluginv1.GrepInPiecesRequest, stream grpc.ServerStreamingServer[pluginv1.GrepInPiecesResponse]) error {
	whole, err := s.Grep(stream.Context(), r.GetQuery())
	if err != nil {
		return err
	}
	send := func(piece *pluginv1.GrepResponse) error {
		return stream.Send(&pluginv1.GrepInPiecesResponse{Piece: piece})
	}
	// An answer has either matches or counts.
	whole.Matches, err = split(whole.GetMatches(), sizeOf, func(matches []*pluginv1.Match) error {
		return send(&pluginv1.GrepResponse{Matches: matches})
	})
	if err == nil {
		whole.Counts, err = split(whole.GetCounts(), sizeOf, func(counts []*pluginv1.FileCount) error {
			return send(&pluginv1.GrepResponse{Counts: counts})
		})
	}
	if err == nil {
		whole.Incomplete, err = split(whole.GetIncomplete(), lengthOf, func(paths [][]byte) error {
			return send(&pluginv1.GrepResponse{Incomplete: paths})
		})
	}
	if err != nil {
		return err
	}
	return send(whole)
}

// join receives an answer in pieces, gives each to add, and returns the last one,
// which has what is said once.
func join[M, Piece any](stream grpc.ServerStreamingClient[M], piece func(*M) *Piece, add func(*Piece)) (last *Piece, err error) {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return last, nil
		}
		if err != nil {
			return nil, err
		}
		last = piece(m)
		add(last)
	}
}
