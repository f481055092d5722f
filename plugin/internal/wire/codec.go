package wire

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// codec is gRPC's own for protobuf, with buffers of other sizes. Beyond 32 KiB gRPC's
// have 1 MiB, all of which is cleared for every message that uses one: a quarter of
// what a call with 64 KiB in and out took. What is on the wire is the same.
type codec struct{}

var _ encoding.CodecV2 = codec{}

// buffers are shared by all messages of the process. After 32 KiB come a piece, and
// the largest answer that is sent whole, with what is around them.
var buffers = mem.NewTieredBufferPool(256, 4<<10, 16<<10, 32<<10, MaxChunk+8<<10, MaxWhole+8<<10, 1<<20)

// Name is that of gRPC's, so that the other side needs to know nothing.
func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no message", v)
	}
	options := proto.MarshalOptions{UseCachedSize: true}
	size := proto.Size(m) // which is what is cached
	if mem.IsBelowBufferPoolingThreshold(size) {
		data, err := options.Marshal(m)
		return mem.BufferSlice{mem.SliceBuffer(data)}, err
	}
	data := buffers.Get(size)
	if _, err := options.MarshalAppend((*data)[:0], m); err != nil {
		buffers.Put(data)
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(data, buffers)}, nil
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no message", v)
	}
	whole := data.MaterializeToBuffer(buffers)
	defer whole.Free()
	return proto.Unmarshal(whole.ReadOnlyData(), m)
}
