package chaos

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/plugin/client"
	"github.com/toolhost/toolhost/sandbox"
	"github.com/toolhost/toolhost/tool"
)

// Closing a Location takes five seconds at most, whatever its plugins do: stopped, looping, ignoring signals, holding pipes,
// forked twice, busy with a call that does not end. Nothing of them is left (laws 41, 42). What it took is printed, for good
// plugins too; make chaos has twenty of each.
func TestLaw42CloseOfManyPlugins(t *testing.T) { //nolint:paralleltest // what it takes is a figure
	plugins := 5
	if long(t) > 0 {
		plugins = 20
	}
	for name, kinds := range map[string][]string{"good": {good}, "bad": {loops, deaf, "stopped", parent, "busy"}} {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // see above
			before := takeStock()
			cfg := place(t, t.TempDir(), "here")
			for n := range plugins {
				kind := kinds[n%len(kinds)]
				start := kind
				if kind == "stopped" || kind == "busy" {
					start = good
				}
				cfg.Plugins = append(cfg.Plugins, plugin(fmt.Sprint(kind, n), itself(t), start, "1"))
			}
			w := newWorld(t, t.TempDir(), &config.Config{Locations: []config.Location{cfg}}, nil)
			l := w.activate("here")
			var calls sync.WaitGroup
			for _, p := range l.Plugins() {
				if p.State != client.Ready {
					t.Fatalf("%s: %+v", p.Name, p)
				}
				switch strings.TrimRight(p.Name, "0123456789") {
				case "stopped":
					if err := syscall.Kill(p.Pid, syscall.SIGSTOP); err != nil {
						t.Fatal(err)
					}
				case parent:
					eventually(t, "its children", func() bool { return running("sleep 300") })
				case "busy":
					busy(t, w, l, p, &calls)
				}
			}
			if tier := l.Plugins()[0].Confinement.Tier; tier != sandbox.Strict {
				t.Logf("the plugins are confined: %s", tier)
			}
			begin := time.Now()
			if err := l.Close(context.Background()); err != nil {
				t.Error(err)
			}
			took := time.Since(begin)
			t.Logf("closing a Location with %d %s plugins took %v", plugins, name, took.Round(time.Millisecond))
			if took > bound {
				t.Errorf("it took %v", took)
			}
			calls.Wait()
			if left := append(below(), marked()...); len(left) > 0 {
				t.Errorf("there is %q", left)
			}
			if err := w.Close(context.Background()); err != nil {
				t.Error(err)
			}
			flat(t, before, takeStock)
		})
	}
}

// busy begins a call of a plugin that heeds nothing.
func busy(t *testing.T, w *world, l *location.Location, p location.PluginStatus, calls *sync.WaitGroup) {
	t.Helper()
	began := make(chan struct{})
	r := w.request("s", p.Name+"_stubborn", workIn{Millis: 60_000})
	var once sync.Once
	r.Progress = func(tool.Progress) { once.Do(func() { close(began) }) }
	calls.Go(func() {
		if s, err := l.Capture().Call(context.Background(), r); err == nil && s.Status == tool.Completed {
			t.Errorf("%s: %s", r.Name, outcome(s, err))
		}
	})
	<-began
}
