package registry

import (
	"context"
	"sync"

	"github.com/toolhost/toolhost/tool"
)

// maxAtOnce is how many calls of a batch run at the same time.
const maxAtOnce = 16

// An Outcome is what became of one call of a batch; see [Capture.Call].
type Outcome struct {
	Settlement tool.Settlement
	Err        error
}

// Batch runs the calls of one message of a model, and gives their outcomes in the
// same order (law 29). Those at the head whose tools can do no more than read, as
// they declare, run at the same time, sixteen at most; each of the others is prepared and run only
// when all before it have ended, whatever became of them. No call of a batch is
// suspended: SuspendAfter is not looked at.
func (c *Capture) Batch(ctx context.Context, requests []Request) []Outcome {
	outcomes := make([]Outcome, len(requests))
	call := func(i int) {
		request := requests[i]
		request.SuspendAfter = 0
		outcomes[i].Settlement, outcomes[i].Err = c.Call(ctx, request)
	}
	head := 0
	for head < len(requests) && c.onlyReads(requests[head].Name) {
		head++
	}
	c.together(head, call)
	for i := head; i < len(requests); i++ {
		call(i)
	}
	return outcomes
}

// onlyReads reports whether a call of the name can do no more than read. What
// cannot be called does nothing at all.
func (c *Capture) onlyReads(name string) bool {
	e, ok := c.entries[name]
	return !ok || e.definition.Effects.Beyond(tool.Read) == 0
}

// together runs the first n calls, [maxAtOnce] at a time, and returns when they
// have ended.
func (c *Capture) together(n int, call func(int)) {
	var running sync.WaitGroup
	room := make(chan struct{}, maxAtOnce)
	for i := range n {
		room <- struct{}{}
		running.Add(1)
		one := func(context.Context) error {
			defer func() {
				<-room
				running.Done()
			}()
			call(i)
			return nil
		}
		if c.registry.options.Scope.Go("call of a batch", one) != nil {
			_ = one(nil) // the Location is closing, which the call itself finds out
		}
	}
	running.Wait()
}
