package mcpserver

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/tool"
)

// roomWithin is how long a call that asks may take to be suspended, which it is as good
// as at once if the Location has room for it.
const roomWithin = time.Second

const noRoom = "as many calls of this Location wait for approval as may; answer some of them, or let them lapse, and call the tool again"

// leave notes that there was room to suspend the call.
func (c *conversation) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = true
}

// askLater leaves a question to the queue, and to a client that is given it with the
// suspended call. A call that cannot be suspended is one that nobody can be asked about,
// whatever the [Fallback] is: its client would wait for a question that it is never given.
func (a *Approver) askLater(ctx context.Context, c *conversation, request permission.Request) (permission.Reply, error) {
	waiting, over := context.WithCancel(ctx)
	defer over()
	var crowded atomic.Bool
	timer := time.AfterFunc(roomWithin, func() {
		c.mu.Lock()
		left := c.left
		c.mu.Unlock()
		if !left {
			crowded.Store(true)
			over()
		}
	})
	defer timer.Stop()
	reply, err := a.queue.Ask(waiting, request)
	if err == nil && reply.Kind == tool.KindCancelled && crowded.Load() && ctx.Err() == nil {
		return permission.Reply{Kind: tool.KindNobodyToAsk, Reason: noRoom}, nil
	}
	return reply, err
}
