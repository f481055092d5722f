package laws

import (
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toolhost/toolhost/plugin/sdk"
	"github.com/toolhost/toolhost/sandbox"
)

// The roles that the test binary plays when it is run again.
const (
	reaperRole  = "__launch"
	pluginRole  = "__plugin"
	builtinRole = "__builtin"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case reaperRole:
			os.Exit(sandbox.Main(os.Args[2:]))
		case pluginRole:
			sdk.Serve(suitePlugin(false))
		case builtinRole:
			sdk.Serve(suitePlugin(true))
		}
	}
	goleak.VerifyTestMain(m)
}

// patience is for what is sure to come, on a machine that does other things too.
const patience = 20 * time.Second

// A transport is what lies between the registry and the suite's tools.
type transport string

const (
	fake    transport = "fake"    // nothing: plain values
	grpc    transport = "grpc"    // the wire, in this process
	process transport = "process" // the wire, to a process
)

// everyTransport runs a law over all three, each in a world of its own.
func everyTransport(t *testing.T, law func(t *testing.T, w *world)) {
	t.Helper()
	everyTransportWith(t, settings{}, law)
}

// everyTransportWith is everyTransport in worlds with settings.
func everyTransportWith(t *testing.T, s settings, law func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	for _, over := range []transport{fake, grpc, process} {
		t.Run(string(over), func(t *testing.T) {
			t.Parallel()
			law(t, newWorld(t, over, t.TempDir(), s))
		})
	}
}

// eventually asks again and again.
func eventually(t tester, what string, holds func() bool) {
	t.Helper()
	for until := time.Now().Add(patience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("it never came: %s", what)
		}
	}
}
