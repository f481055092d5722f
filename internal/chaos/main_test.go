package chaos

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/plugin/sdk"
	"github.com/toolhost/toolhost/plugins/process"
	"github.com/toolhost/toolhost/sandbox"
	"github.com/toolhost/toolhost/scope"
)

// The roles that the test binary plays when it is run again.
const (
	reaperRole  = "__launch"
	pluginRole  = "__plugin"
	processRole = "__process"
)

// markVariable is in the environment of every process of a host of these tests.
const markVariable = "TOOLHOST_CHAOS_MARK"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case reaperRole:
			os.Exit(sandbox.Main(os.Args[2:]))
		case pluginRole:
			sdk.Serve(unruly(os.Args[2], os.Args[3], os.Args[4]))
		case processRole:
			sdk.Serve(process.New())
		}
	}
	os.Exit(run(m))
}

// run runs the tests with a mark, and with a directory of its own for run directories.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("/tmp", "chaos-")
	err = errors.Join(err, os.Setenv("XDG_RUNTIME_DIR", dir), os.Setenv(markVariable, rand.Text()))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, "goroutines are left:", err)
		code = 1
	}
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// patience is for what is sure to come, on a machine that does other things too.
const patience = 30 * time.Second

// bound is what law 42 allows.
const bound = 5 * time.Second

// long is how long the long forms are to take; 0 is that the short ones are run.
func long(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("TOOLHOST_CHAOS")
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// eventually asks again and again.
func eventually(t tester, what string, holds func() bool) {
	t.Helper()
	for until := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("it never came: %s", what)
		}
	}
}

// tester is a test, or a try of a property.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// launcher runs this binary as the reaper.
func launcher() sandbox.Launcher {
	return sandbox.Launcher{Path: "/proc/self/exe", Args: []string{reaperRole}}
}

// confined is the sandbox of plugins: strict where the machine can.
var confined = sync.OnceValue(func() config.Sandbox {
	life := scope.New(context.Background(), "probe")
	defer life.Close(context.Background())
	if sandbox.Probe(context.Background(), life, launcher()).Tier == sandbox.Strict {
		return config.Sandbox{}
	}
	return config.Sandbox{Mode: config.Off}
})
