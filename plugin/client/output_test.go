package client_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/plugin/client"
	"github.com/toolhost/toolhost/plugin/internal/wire"
	"github.com/toolhost/toolhost/tool"
)

// Text that a call streams goes to whoever takes it, in order and of any size; what
// the tool says that it dropped is counted (law 19). Without a taker it comes first
// in the content.
func TestLaw19StreamedOutput(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *preparing) {
		for _, n := range []int{0, 1, wire.MaxChunk, wire.MaxChunk + 1, 5 << 20} {
			var got bytes.Buffer
			call := tool.Call{Identity: someone, Input: fmt.Appendf(nil, `{"bytes":%d}`, n), Gate: openGate{}, Output: &got}
			r, err := p.callWith(t.Context(), "write", call)
			if err != nil || string(r.Output) != fmt.Sprint(n) || r.Lost != 7 || len(r.Content) > 0 {
				t.Fatalf("result = %+v, %v", r, err)
			}
			if want := strings.Repeat("0123456789", n/10+1)[:n]; got.String() != want {
				t.Errorf("%d bytes came as %d", n, got.Len())
			}
			call.Output = nil
			r, err = p.callWith(t.Context(), "write", call)
			if err != nil || (n > 0) != (len(r.Content) == 1) || n > 0 && r.Content[0].Text != got.String() {
				t.Errorf("%d bytes came as %d blocks, %v", n, len(r.Content), err)
			}
		}
	})
}

// Whoever takes the output may end the call with an error of its own, which is what
// the caller gets; the handler learns of it.
//
// Seen to fail: with the OutputError taken for one of the plugin in callError.
func TestOutputThatCannotBeTaken(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *preparing) {
		full := &tool.Error{Kind: tool.KindRetention, Message: "disk full"}
		_, err := p.callWith(t.Context(), "endless", tool.Call{Identity: someone, Input: []byte(`{}`), Gate: openGate{}, Output: &fullAfter{left: 1 << 20, err: full}})
		if err != error(full) {
			t.Errorf("error = %v, want that of the writer", err)
		}
		eventually(t, "the end of the handler", func() bool { return p.events() == "stopped writing" })
		if s := p.incarnation.Status(); s.State != client.Ready || s.Stuck != 0 {
			t.Errorf("status = %+v", s)
		}
		_, err = p.callWith(t.Context(), "endless", tool.Call{Identity: someone, Input: []byte(`{}`), Gate: openGate{}})
		wantKind(t, tool.KindTooLarge, err)
	})
}

// fullAfter takes so many bytes.
type fullAfter struct {
	left int
	err  error
}

func (f *fullAfter) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, f.err
	}
	return len(p), nil
}
