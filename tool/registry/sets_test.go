package registry

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/toolhost/toolhost/tool"
)

// One set takes the place of another in one act: subscribers are told once, no capture
// sees both or neither, what was captured runs on, and only names that are held stay
// claimed (laws 3, 7, 43).
//
// Seen to fail: without the owners to forget.
func TestLaw43SwapIsOneAct(t *testing.T) {
	b := newBench(t)
	old := b.NewSet(weather)
	first, _ := old.Register(set("a", "gone"))
	if got := b.names(); got != "" {
		t.Errorf("a set that is held shows %s", got)
	}
	b.Swap([]*Set{old}, nil)
	before := b.Capture()
	changes, stop := b.Subscribe()
	defer stop()
	told := func() (n int) {
		select {
		case <-changes:
			return 1
		default:
			return 0
		}
	}

	next := b.NewSet(weather)
	next.Register(set("a"))
	next.Register(set("b"))
	if told() != 0 {
		t.Error("told of what is held")
	}
	b.Swap([]*Set{next}, []*Set{old}, weather.Name)
	if n := told(); n != 1 {
		t.Errorf("told %d times of one act", n)
	}
	if got := b.names(); got != "a=weather/a b=weather/b" {
		t.Errorf("got %s", got)
	}
	if got := b.callIn(before, "gone", `{}`); got != `"gone" [text gone]` {
		t.Errorf("what was captured gave %s", got)
	}
	first.Lost()
	if got := b.callIn(before, "gone", `{}`); !strings.Contains(got, "unavailable") {
		t.Errorf("what is lost gave %s", got)
	}
	b.register(climate, set("gone")) // nobody claims the name any more

	next.Register(set("late"))
	if got := b.names(); !strings.Contains(got, "late=weather/late") {
		t.Errorf("got %s", got)
	}
	told()
	next.Lost()
	if n := told(); n != 1 {
		t.Errorf("told %d times of one loss", n)
	}
	if got := b.names(); got != "gone=climate/gone" {
		t.Errorf("got %s", got)
	}
	late, _ := next.Register(set("c"))
	if late.Close(); b.names() != "gone=climate/gone" {
		t.Errorf("a set that is over shows %s", b.names())
	}
}

// What registers while it is held is told whom it would collide with (law 3).
//
// Seen to fail: with what is wrong with the tools themselves alone.
func TestLaw03HeldSetKnowsItsCollisions(t *testing.T) {
	b := newBench(t)
	b.register(builtin, set("a"))
	s := b.NewSet(weather)
	_, report := s.Register(set("a", "b"))
	if len(report.Refused) != 1 || report.Refused[0].Name != "a" {
		t.Errorf("got %+v, want a refused", report.Refused)
	}
}

// A registry knows who uses it.
//
// Seen to fail: without the count of calls.
func TestUse(t *testing.T) {
	b := newBench(t)
	used := b.Use()
	if used.Calls != 0 || used.Subscribers != 0 {
		t.Errorf("got %+v", used)
	}
	_, stop := b.Subscribe()
	during := 0
	b.register(builtin, map[string]tool.Tool{"x": executes(func(context.Context, tool.Call) (tool.Result, error) {
		during = b.Use().Calls
		return tool.Result{}, nil
	})})
	b.call("x", `{}`)
	if during != 1 || b.Use().Subscribers != 1 {
		t.Errorf("got %d calls and %+v", during, b.Use())
	}
	stop()
	if b.Use().Subscribers != 0 || !b.Use().Last.After(used.Last) {
		t.Errorf("got %+v after %+v", b.Use(), used)
	}
}

// Whoever looks while sets are swapped sees one of them, and is told of no act twice
// (law 43).
//
// Seen to fail: with a notification for each part of an act.
func TestLaw43SwapIsSeenWhole(t *testing.T) {
	b := newBench(t)
	sets := []*Set{b.NewSet(weather)}
	sets[0].Register(set("a", "v0"))
	b.Swap(sets, nil)
	changes, stop := b.Subscribe()
	defer stop()
	const swaps = 200
	over := make(chan struct{})
	told := 0
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			select {
			case <-changes:
				told++
			case <-over:
				return
			}
		}
	})
	watching.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
			}
			if names := b.names(); !strings.HasPrefix(names, "a=weather/a v") || strings.Count(names, "=") != 2 {
				t.Errorf("saw %s", names)
				return
			}
		}
	})
	for n := range swaps {
		next := b.NewSet(weather)
		next.Register(set("a", fmt.Sprintf("v%d", n+1)))
		for range 20 {
			next.Register(set("a"))
		}
		b.Swap([]*Set{next}, sets, weather.Name)
		sets = []*Set{next}
	}
	close(over)
	watching.Wait()
	if told > swaps {
		t.Errorf("told %d times of %d acts", told, swaps)
	}
}
