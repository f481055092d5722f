package bench

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/output"
)

// measureBounding measures what it takes to cut a large text, up to where it would
// be kept, and with keeping it, beside copying it.
func measureBounding(tb testing.TB, n size, t *table) {
	const line = "2026-11-30T12:00:00Z info a line of a log that is as long as many are, éàü\n"
	text := strings.Repeat(line, n.text/len(line))
	to := make([]byte, len(text))
	store := output.NewStore(output.StoreOptions{Dir: tb.TempDir()})
	bound := func(k *output.Keeper, want func(tool.Settlement, error) bool) func() float64 {
		return func() float64 {
			s := tool.Settlement{Status: tool.Completed, Content: []tool.Content{tool.Text(text)}}
			var err error
			took := milliseconds(func() {
				bounding := k.Begin(output.Origin{Session: "session", Tool: "plugin/tool", Call: "call"})
				err = bounding.Bound(context.Background(), &s)
				bounding.Discard()
			})
			if !want(s, err) {
				tb.Fatalf("bounding gave %v, %v", s.Retained, err)
			}
			for _, kept := range s.Retained {
				if err := store.Remove(kept.Handle); err != nil {
					tb.Fatal(err)
				}
			}
			return took
		}
	}
	limits := output.DefaultLimits()
	figures := interleave(n.starts,
		bound(output.NewKeeper(output.KeeperOptions{Limits: limits}), func(_ tool.Settlement, err error) bool {
			e, ok := errors.AsType[*tool.Error](err)
			return ok && e.Kind == tool.KindRetention // there is no store: it was bounded, and not kept
		}),
		bound(output.NewKeeper(output.KeeperOptions{Limits: limits, Store: store}), func(s tool.Settlement, err error) bool {
			return err == nil && len(s.Retained) == 1
		}),
		func() float64 { return milliseconds(func() { copy(to, text) }) },
	)
	t.add(bounding, figures[0], figures[2])
	t.add(keeping, figures[1], figures[2])
}
