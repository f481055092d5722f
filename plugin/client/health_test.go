package client_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/toolhost/toolhost/plugin/client"
)

// A plugin that does not answer while it has nothing to do is lost as if it had
// crashed; one that does is left alone, and so is one about which nobody wants to know
// any more (law 44).
//
// Seen to fail: with nothing lost, and with any end of ctx taken for no answer.
func TestLaw44HungPluginIsLost(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	i := b.start("many")
	i.Check(t.Context(), patience)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	i.Check(over, patience)
	if s := i.Status(); s.State != client.Ready {
		t.Fatalf("status = %+v", s)
	}
	if err := syscall.Kill(i.Status().Pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	within(t, closing, "the check", func() { i.Check(t.Context(), 100*time.Millisecond) })
	<-i.Gone()
	s := i.Status()
	wantIn(t, s.Reason, "does not answer")
	if s.State != client.Failed || i.Exit() != "" {
		t.Errorf("status = %+v, exit %q", s, i.Exit())
	}
	b.close(i)
}

// How a plugin ended by itself is told apart from the words about it, and not told of
// one that the host ended (law 44, case F17).
//
// Seen to fail: without the exit noted.
func TestLaw44ExitIsTold(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.host.Tail = &client.Tail{}
	i := b.start("many")
	b.failsWith("crashed", "end", `{"how":"exit"}`)
	<-i.Gone()
	if got := i.Exit(); got != "exit status 3" {
		t.Errorf("exit %q", got)
	}
	wantIn(t, i.LastWords(), "about to end")
	kept, next, lost := b.host.Tail.Since(0)
	wantIn(t, kept, "much that came before")
	if again, _, _ := b.host.Tail.Since(next); again != "" || lost != 0 {
		t.Errorf("after all of it came %q, and %d bytes are lost", again, lost)
	}
	b.close(i)
	other := b.start("many")
	b.close(other)
	if got := other.Exit(); got != "" {
		t.Errorf("exit %q of a plugin that was closed", got)
	}
}

// What would fail in the same way another time is told apart from what may not (law
// 44, cases F11, F13).
//
// Seen to fail: with nothing lasting, and with all.
func TestLaw44LastingFailures(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	wrong := b.spec("many")
	wrong.SHA256 = "00"
	unsettled := b.spec("settings", `{"type":"object","required":["units"]}`)
	ungranted := b.spec("needs-permission")
	relative := b.spec("many")
	relative.Command = []string{"many"}
	gone := b.spec("many")
	gone.Command[0] += "-gone"
	foreign := b.spec("raw-cookie")
	for name, test := range map[string]struct {
		spec    client.Spec
		lasting bool
		exit    string
	}{
		"digest":    {wrong, true, ""},
		"settings":  {unsettled, true, ""},
		"grant":     {ungranted, true, ""},
		"relative":  {relative, true, ""},
		"early":     {b.spec("hi"), true, ""},
		"version":   {b.spec("handshake", "1|99|unix|DIR/plugin1|grpc|"), true, ""},
		"cookie":    {foreign, true, "exit status 1"},
		"missing":   {gone, false, ""},
		"exits":     {b.spec("exits"), false, "exit status 7"},
		"killed":    {b.spec("killed"), false, "signal: killed"},
		"its words": {b.spec("activate-fail"), false, ""},
	} {
		err := b.startFails(test.spec)
		e, ok := errors.AsType[*client.StartError](err)
		if !ok || e.Lasting != test.lasting || e.Exit != test.exit {
			t.Errorf("%s: got %+v (%v), want lasting %v, exit %q", name, e, err, test.lasting, test.exit)
		}
	}
}
