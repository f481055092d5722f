package wire

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	pluginv1 "github.com/toolhost/toolhost/plugin/proto/toolhost/plugin/v1"
)

// What gRPC's own codec writes ours reads, and the other way round, at sizes about
// those of the buffers and from any number of frames.
//
// Seen to fail: with the message written after the buffer's length, not from its
// start.
func TestCodecIsThatOfGRPC(t *testing.T) {
	var ours encoding.CodecV2 = codec{}
	theirs := encoding.GetCodecV2(ours.Name())
	for _, n := range []int{0, 1, 1 << 10, 4<<10 - 4, 16 << 10, 32 << 10, MaxChunk, MaxChunk + 8<<10, MaxWhole, MaxWhole + 9<<10, 1 << 20, 5 << 20} {
		want := &pluginv1.ExecuteRequest{Token: "t", Input: bytes.Repeat([]byte("x"), n)}
		for _, pair := range [][2]encoding.CodecV2{{ours, theirs}, {theirs, ours}, {ours, ours}} {
			data, err := pair[0].Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			var frames mem.BufferSlice
			for rest := data.Materialize(); len(rest) > 0; rest = rest[min(len(rest), 16<<10):] {
				frames = append(frames, mem.SliceBuffer(rest[:min(len(rest), 16<<10)]))
			}
			data.Free()
			got := &pluginv1.ExecuteRequest{Token: "before"}
			if err := pair[1].Unmarshal(frames, got); err != nil || !proto.Equal(got, want) {
				t.Errorf("%d bytes: %d came, %v", n, len(got.GetInput()), err)
			}
		}
	}
	if _, err := (codec{}).Marshal("text"); err == nil {
		t.Error("a text was written")
	}
	if err := (codec{}).Unmarshal(nil, new(string)); err == nil {
		t.Error("a text was read")
	}
	if err := (codec{}).Unmarshal(mem.BufferSlice{mem.SliceBuffer("\xff")}, &pluginv1.ExecuteRequest{}); err == nil {
		t.Error("nonsense was read")
	}
	if _, err := (codec{}).Marshal(&pluginv1.ExecuteRequest{Token: "\xff"}); err == nil {
		t.Error("a text that is not UTF-8 was written")
	}
	if _, err := (codec{}).Marshal(&pluginv1.ExecuteRequest{Token: "\xff", Input: make([]byte, 1<<20)}); err == nil {
		t.Error("a text that is not UTF-8 was written into a buffer")
	}
}
