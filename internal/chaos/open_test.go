package chaos

import (
	"context"
	"testing"
	"time"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/tool"
)

// Nothing grows with openings and closings of a Location: no goroutine, descriptor, socket, directory, process, and no memory
// to speak of (law 41). make chaos opens it five hundred times.
//
// Seen to fail: with a plugin's directory that stays.
func TestLaw41OpeningsAndClosings(t *testing.T) { //nolint:paralleltest // it counts what the process has
	rounds := 20
	switch {
	case long(t) > 0:
		rounds = 500
	case testing.Short():
		rounds = 8
	}
	dir := t.TempDir()
	w := newWorld(t, dir, &config.Config{Locations: []config.Location{
		place(t, dir, "here", plugin("one", itself(t), good, "1"), plugin("two", itself(t), parent, "1")),
	}}, nil)
	round := func() {
		l := w.activate("here")
		for _, name := range []string{"one_work", "two_work"} {
			if s, err := l.Capture().Call(context.Background(), w.request("s", name, workIn{})); err != nil || s.Status != tool.Completed {
				t.Fatalf("%s: %s", name, outcome(s, err))
			}
		}
		if err := l.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	for range max(5, rounds/10) { // what is made once
		round()
	}
	before, memory := takeStock(), resident()
	begin := time.Now()
	for range rounds {
		round()
	}
	took := time.Since(begin)
	var after stock
	flat(t, before, func() stock { after = takeStock(); return after })
	now := resident()
	t.Logf("%d openings and closings in %v: before %s, %s; after %s, %s", rounds, took.Round(time.Millisecond), before, mib(memory), after, mib(now))
	if grown := now - memory; grown > 16<<20 {
		t.Errorf("memory grew by %s", mib(grown))
	}
	if err := w.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// flat waits until there is no more of anything than before.
func flat(t tester, before stock, now func() stock) {
	t.Helper()
	more := ""
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		if more = now().beyond(before); more == "" {
			return
		}
	}
	t.Errorf("there are %s; below %q, marked %q", more, below(), marked())
}

// quick restarts soon, and drains for as long as the longest call of these tests takes.
func quick(drain time.Duration) location.Supervision {
	return location.Supervision{
		First: time.Millisecond, Most: 20 * time.Millisecond, Restarts: 1000, Health: 500 * time.Millisecond, Answer: 2 * time.Second, Drain: drain,
	}
}
