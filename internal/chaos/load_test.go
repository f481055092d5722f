package chaos

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// The reloads of an hour in which there is one every ten seconds, compressed into two minutes, with callers all the time:
// each call runs what it captured, however long before the swap that was; what is captured after a reload is what that made;
// no call is lost; what did not change lives on in the same process; and nothing grows (laws 7, 41, 43). The short form has
// as many reloads a second.
//
// Seen to fail: with what was replaced ended at once.
func TestLaw43ReloadsUnderLoad(t *testing.T) { //nolint:paralleltest // it counts what the process has
	const every = time.Second / 3
	reloads, warm := 360, 15
	if long(t) == 0 {
		reloads, warm = 5, 1
	}
	dir := t.TempDir()
	configured := func(version int) *config.Config {
		l := place(t, dir, "here", plugin("one", itself(t), good, fmt.Sprint(version)), plugin("two", itself(t), good, "0"))
		if version%5 == 0 {
			root := l.Policy.Root
			l.Policy = allowing("nothing")
			l.Policy.Root = root
		}
		return &config.Config{Locations: []config.Location{l}}
	}
	// It drains for longer than the callers hold what they captured, and call.
	w := newWorld(t, dir, configured(0), func(o *host.Options) { o.Supervision = location.Supervision{Drain: 1200 * time.Millisecond} })
	closeLoad := sync.OnceFunc(func() {
		if err := w.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	defer closeLoad()
	l := w.activate("here")
	kept := status(l, "two").Pid
	var effective, asked, calls atomic.Int64
	version := 0
	run := func(n int) {
		for range n {
			begin := time.Now()
			version++
			asked.Store(int64(version))
			if _, err := w.Reload(context.Background(), configured(version)); err != nil {
				t.Errorf("reload %d: %v", version, err)
			}
			effective.Store(int64(version))
			time.Sleep(every - time.Since(begin))
		}
	}
	load := func(n int) {
		stop := make(chan struct{})
		var callers sync.WaitGroup
		for caller := range 4 {
			callers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						calls.Add(1)
						if why := w.loaded(l, caller, &effective, &asked); why != "" {
							t.Error(why)
						}
					}
				}
			})
		}
		run(n)
		close(stop)
		callers.Wait()
	}
	settled := func() (stock, int) {
		eventually(t, "the end of what was replaced", func() bool { return status(l, "one").Draining == 0 })
		time.Sleep(100 * time.Millisecond)
		return takeStock(), resident()
	}
	load(warm)
	before, memory := settled()
	calls.Store(0)
	begin := time.Now()
	load(reloads)
	took := time.Since(begin)
	during := takeStock()
	after, now := settled()
	flat(t, before, func() stock { after = takeStock(); return after })
	t.Logf("%d reloads with %d calls in %v: before %s, %s; at the end of the load %s; after %s, %s",
		reloads, calls.Load(), took.Round(time.Millisecond), before, mib(memory), during, after, mib(now))
	if grown := now - memory; grown > 16<<20 {
		t.Errorf("memory grew by %s", mib(grown))
	}
	if pid := status(l, "two").Pid; pid != kept {
		t.Errorf("what did not change was started again: %d instead of %d", pid, kept)
	}
	closeLoad()
	crashes := 0
	for _, e := range w.told() {
		if e.Kind == location.EventCallEnded && e.Call.Status != tool.Completed {
			t.Errorf("call %s of %s ended as %s: %s", e.Call.Identity.Call, e.Call.Tool, e.Call.Status, e.Call.Reason)
		}
		if e.Exit != "" {
			crashes++
		}
	}
	if crashes > 0 {
		t.Errorf("%d plugins crashed", crashes)
	}
}

// loaded makes one call of one of the callers, and says what is wrong with what came of it.
func (w *world) loaded(l *location.Location, caller int, effective, asked *atomic.Int64) string {
	n := w.next.Add(1)
	least := effective.Load()
	capture := l.Capture()
	most := asked.Load()
	captured, ok := capturedVersion(capture, "one_work")
	if !ok || captured < least || captured > most {
		return fmt.Sprintf("version %d was captured after %d was in effect and before %d was", captured, least, most+1)
	}
	time.Sleep(time.Duration(n%4) * 40 * time.Millisecond) // it may be replaced meanwhile
	r := w.request(fmt.Sprint("caller ", caller), "one_work", workIn{Millis: int(n*7) % 250, KiB: int(n%7) * 20})
	if n%5 == 0 {
		r.Name, captured = "two_work", 0
	}
	s, err := capture.Call(context.Background(), r)
	if err != nil || s.Status != tool.Completed {
		return fmt.Sprintf("call %s of version %d: %s", r.Identity.Call, captured, outcome(s, err))
	}
	if got, _, _ := strings.Cut(said(s), " "); got != fmt.Sprint(captured) {
		return fmt.Sprintf("call %s of version %d ran %.20q", r.Identity.Call, captured, got)
	}
	return ""
}

// capturedVersion is the version that a tool has in a capture.
func capturedVersion(c *registry.Capture, name string) (version int64, ok bool) {
	for _, d := range c.Definitions() {
		if d.Name == name {
			_, err := fmt.Sscanf(d.Description, "Work as version %d", &version)
			return version, err == nil
		}
	}
	return 0, false
}
