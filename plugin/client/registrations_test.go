package client

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolhost/toolhost/plugin/internal/wire"
	"github.com/toolhost/toolhost/tool"
)

// A registration whose caller has gone is not kept: nobody knows its number, so
// that nobody could close it.
//
// Seen to fail: without the check before reserve, and without the one after keep.
func TestRegistrationOfACallerThatIsGone(t *testing.T) {
	for name, early := range map[string]bool{"before": true, "meanwhile": false} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if early {
				cancel()
			}
			added, removed := 0, 0
			i := &Incarnation{state: Ready, registered: map[uint64]registration{}}
			i.host.Register = func(map[string]tool.Tool) (Registered, []Refused) {
				added++
				cancel()
				return &counted{&removed}, nil
			}
			_, _, err := (*registrations)(i).Register(ctx, []wire.RemoteTool{{Name: "t"}})
			if status.Code(err) != codes.Canceled {
				t.Errorf("error = %v, want it canceled", err)
			}
			if early && added > 0 || added != removed {
				t.Errorf("added %d times, removed %d times", added, removed)
			}
			if len(i.registered) > 0 || i.toolCount != 0 || i.toolBytes != 0 {
				t.Errorf("%d registrations, %d tools and %d bytes are counted, want none", len(i.registered), i.toolCount, i.toolBytes)
			}
		})
	}
}

// counted counts how often what was registered was removed.
type counted struct{ removed *int }

func (c *counted) Close() { *c.removed++ }
func (c *counted) Lost()  { *c.removed++ }
