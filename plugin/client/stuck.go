package client

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolhost/toolhost/tool"
)

const (
	// confirmGrace is how long the end of a cancelled call is waited for.
	confirmGrace = 700 * time.Millisecond
	// maxStuck is with how many calls that do not end an incarnation is given up.
	maxStuck = 16
)

// confirm waits until the plugin says that the handler of a call, which was
// cancelled, has ended (law 14). A call of which it does not say so in time is
// stuck: it is counted until it ends, and with too many of them the incarnation is
// lost. Of a plugin that cannot be asked nothing is counted.
func (i *Incarnation) confirm(call tool.Call, token string, until time.Time) {
	if !i.awaits {
		return
	}
	ctx, cancel := context.WithDeadline(i.life.Context(), until)
	defer cancel()
	if i.hasEnded(ctx, token) {
		return
	}
	stuck := i.countStuck(1)
	i.logs.out.Warn("the plugin does not end a call that was cancelled", "tool", call.Tool, "call", call.Identity.Call, "stuck", stuck)
	if err := i.life.Go("end of a call of "+call.Tool, func(life context.Context) error {
		if i.hasEnded(life, token) {
			i.countStuck(-1)
		}
		return nil
	}); err != nil {
		return // the incarnation is being closed
	}
	if stuck >= maxStuck {
		i.lost(fmt.Errorf("%d of its calls go on after they were cancelled: its handlers must heed their context", stuck))
	}
}

// hasEnded asks for the end of a call. Where the whole plugin has ended the call
// has, too.
func (i *Incarnation) hasEnded(ctx context.Context, token string) bool {
	err := i.plugin.Await(ctx, token)
	return err == nil || status.Code(err) == codes.Unavailable || i.life.Context().Err() != nil
}

func (i *Incarnation) countStuck(change int) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.status.Stuck += change
	return i.status.Stuck
}
