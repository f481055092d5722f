package location

import (
	"testing"
	"time"
)

// Three restarts in ten minutes, each after twice as long, and no longer than thirty
// seconds (law 44). Whoever holds out for a window begins anew.
//
// Seen to fail: with a wait that does not grow; with restarts that are never forgotten.
func TestLaw44Budget(t *testing.T) {
	b := newBudget(Supervision{}.withDefaults())
	now := time.Now()
	near := func(got, want time.Duration) bool {
		return got >= time.Duration(float64(want)*(1-jitter)) && got <= time.Duration(float64(want)*(1+jitter))
	}
	for n, want := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second} {
		if got, ok := b.spend(now); !ok || !near(got, want) {
			t.Errorf("restart %d: got %v, %v, want about %v", n, got, ok, want)
		}
		now = now.Add(time.Second)
	}
	if _, ok := b.spend(now); ok {
		t.Error("a fourth restart")
	}
	now = now.Add(10*time.Minute - 3*time.Second) // the first is forgotten, and not the others
	if got, ok := b.spend(now); !ok || !near(got, 4*time.Second) {
		t.Errorf("got %v, %v, want one more, that waits longer", got, ok)
	}
	if _, ok := b.spend(now); ok {
		t.Error("and yet another")
	}
	for n := range 40 { // one now and then
		now = now.Add(4 * time.Minute)
		got, ok := b.spend(now)
		if !ok || got > 30*time.Second {
			t.Errorf("%d: got %v, %v", n, got, ok)
		}
	}
	now = now.Add(10 * time.Minute)
	if got, ok := b.spend(now); !ok || !near(got, 500*time.Millisecond) {
		t.Errorf("after a quiet window: got %v, %v", got, ok)
	}
	if _, ok := newBudget(Supervision{Restarts: -1}.withDefaults()).spend(now); ok {
		t.Error("a restart where there is none")
	}
}
