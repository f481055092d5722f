package registry

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolhost/toolhost/tool"
)

// Reads at the head run at the same time, everything else in its turn, and the
// outcomes come back in order.
//
// Seen to fail: with all run at the same time; with a read behind a write counted
// to the head.
func TestLaw29Order(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var mu sync.Mutex
		var story []string
		begin := time.Now()
		takes := func(seconds int, effects tool.Effects) tool.Tool {
			x := executes(func(_ context.Context, call tool.Call) (tool.Result, error) {
				from := time.Since(begin)
				time.Sleep(time.Duration(seconds) * time.Second)
				mu.Lock()
				defer mu.Unlock()
				story = append(story, fmt.Sprintf("%s %v-%v", call.Identity.Call, from, time.Since(begin)))
				if effects == tool.Network {
					return tool.Result{}, &tool.Failure{Message: "offline"}
				}
				return tool.Result{Output: []byte(`"` + call.Identity.Call + `"`)}, nil
			})
			x.Effects = effects
			return x
		}
		b.register(builtin, map[string]tool.Tool{
			"read": takes(3, tool.Read), "quick": takes(1, tool.None), "write": takes(2, tool.Write), "net": takes(1, tool.Network),
		})
		var requests []Request
		for _, name := range []string{"read", "quick", "nothing", "read", "net", "read", "write", "read"} {
			requests = append(requests, b.request(name, ""))
		}
		var got []string
		for _, o := range b.Capture().Batch(t.Context(), requests) {
			got = append(got, inWords(o.Settlement, o.Err))
		}
		want := `"1" [text 1]|"2" [text 2]|rejected, unknown_tool, ran false: tool "nothing" is unknown|"4" [text 4]|failed, failure, ran true: offline|"6" [text 6]|"7" [text 7]|"8" [text 8]`
		if strings.Join(got, "|") != want {
			t.Errorf("got %s, want %s", strings.Join(got, "|"), want)
		}
		story[1], story[2] = min(story[1], story[2]), max(story[1], story[2]) // these two end at the same time
		if got, want := strings.Join(story, ", "), "2 0s-1s, 1 0s-3s, 4 0s-3s, 5 3s-4s, 6 4s-7s, 7 7s-9s, 8 9s-12s"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// A batch of which nobody wants the outcome ends at once, every call of it once.
func TestLaw29Interrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		x := executes(func(ctx context.Context, _ tool.Call) (tool.Result, error) {
			<-ctx.Done()
			return tool.Result{}, context.Cause(ctx)
		})
		x.Effects = tool.Read
		b.register(builtin, map[string]tool.Tool{"read": x})
		var requests []Request
		for range 100 {
			requests = append(requests, b.request("read", ""))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for i, o := range b.Capture().Batch(ctx, requests) {
			if o.Err == nil {
				t.Errorf("call %d: %v", i, o.Settlement)
			}
		}
	})
}
