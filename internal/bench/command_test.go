package bench

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/plugin/client"
	"github.com/toolhost/toolhost/sandbox"
	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/permission"
)

var (
	commandStart = line{what: "the command true, by a call", base: "sh -c true by os/exec", unit: "ms", metric: "command/exec"}
	commandFree  = line{what: "the same, not confined", base: "sh -c true by os/exec", unit: "ms", metric: "command-unconfined/exec"}
	commandFlood = line{what: "100 MiB of output, by a call that keeps it", base: "cat to a file by os/exec", unit: "ms", metric: "output/cat"}
	commandHeap  = line{what: "the memory that it takes the host", base: "the output", unit: "MiB", metric: "output-memory/output"}
)

// measureCommands measures what it takes to run a command by a call of the built-in plugin: from the capture to the
// settlement, which the call's permission and the confinement of the command are in.
func measureCommands(tb testing.TB, n size, t *table) {
	confined, free := openCommands(tb, config.Sandbox{}), openCommands(tb, config.Sandbox{Mode: config.Off})
	shell := map[string]any{"command": "true"}
	figures := interleave(n.starts,
		func() float64 { return milliseconds(func() { confined.call(tb, "shell", shell, nil) }) },
		func() float64 { return milliseconds(func() { free.call(tb, "shell", shell, nil) }) },
		func() float64 {
			return milliseconds(func() {
				if err := exec.Command("/bin/sh", "-c", "true").Run(); err != nil {
					tb.Fatal(err)
				}
			})
		},
	)
	t.add(commandStart, figures[0], figures[2])
	t.add(commandFree, figures[1], figures[2])
	confined.measureFlood(tb, n, t)
	for _, o := range []*searched{confined, free} {
		for _, err := range []error{o.location.Close(context.Background()), o.life.Close(context.Background())} {
			if err != nil {
				tb.Error(err)
			}
		}
	}
}

// measureFlood measures a long output.
func (o *searched) measureFlood(tb testing.TB, n size, t *table) {
	tb.Helper()
	const text = "2026-11-30T12:00:00Z info a line of a log that is as long as many are, éàü\n"
	if err := os.WriteFile(filepath.Join(o.dir, "log"), []byte(strings.Repeat(text, n.text/len(text))), 0o600); err != nil {
		tb.Fatal(err)
	}
	var grown []float64
	figures := interleave(n.slow,
		func() float64 {
			peak := watchMemory(tb)
			took := milliseconds(func() { o.call(tb, "shell", map[string]any{"command": "cat log"}, nil) })
			grown = append(grown, max(peak(), 0.1))
			return took
		},
		func() float64 {
			return milliseconds(func() {
				cat := exec.Command("/bin/sh", "-c", "cat log > copy")
				cat.Dir = o.dir
				if err := cat.Run(); err != nil {
					tb.Fatal(err)
				}
			})
		},
	)
	t.add(commandFlood, figures[0], figures[1])
	size := make([]float64, len(grown))
	for i := range size {
		size[i] = float64(n.text) / (1 << 20)
	}
	t.add(commandHeap, grown, size)
}

// watchMemory gives a function that says by how many MiB this process grew at most since.
func watchMemory(tb testing.TB) (peak func() float64) {
	tb.Helper()
	debug.FreeOSMemory() // what was taken before is given back
	before, highest := resident(tb), 0.0
	over := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			highest = max(highest, resident(tb)-before)
			select {
			case <-over:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	return func() float64 {
		close(over)
		watching.Wait()
		return highest
	}
}

// resident is how many MiB this process has in memory.
func resident(tb testing.TB) float64 {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		tb.Error(err)
		return 0
	}
	pages, err := strconv.ParseFloat(strings.Fields(string(statm))[1], 64)
	if err != nil {
		tb.Error(err)
	}
	return pages * float64(os.Getpagesize()) / (1 << 20)
}

// openCommands opens a Location with the built-in plugin for commands, all of which are allowed.
func openCommands(tb testing.TB, s config.Sandbox) *searched {
	tb.Helper()
	dir, err := filepath.EvalSymlinks(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	o := &searched{dir: dir, life: scope.New(context.Background(), "commands")}
	runDir, err := client.OpenRunDir(o.life)
	if err != nil {
		tb.Fatal(err)
	}
	action, err := permission.ParseAction(service.ActionShell, nil)
	if err != nil {
		tb.Fatal(err)
	}
	resource, err := permission.ParseResource("*", action)
	if err != nil {
		tb.Fatal(err)
	}
	o.location, err = location.Open(context.Background(), o.life, config.Location{
		Name: "commands", Root: dir, Output: config.Output{Quota: 1 << 30, Retention: time.Hour},
		Plugins: []config.Plugin{{Name: "process", Builtin: "process", Sandbox: s}},
		Policy: &permission.Policy{Root: dir, Lists: []permission.List{{Rules: []permission.Rule{
			{Action: action, Resource: resource, Effect: permission.Allow, Source: "bench"},
		}}}},
	}, location.Options{
		Launcher: sandbox.Launcher{Path: self, Args: []string{reaperRole}},
		Tier:     func(context.Context) sandbox.Finding { return sandbox.Finding{Tier: sandbox.Strict} },
		Programs: &sandbox.Programs{},
		RunDir:   runDir,
		Outputs:  filepath.Join(tb.TempDir(), "outputs"),
		Builtins: map[string][]string{"process": {self, commandsRole}},
		Log:      slog.New(slog.DiscardHandler),
	})
	if err != nil {
		tb.Fatal(err)
	}
	for _, p := range o.location.Plugins() {
		if p.State != client.Ready {
			tb.Fatalf("plugin %s is %s: %s", p.Name, p.State, p.Reason)
		}
	}
	return o
}
