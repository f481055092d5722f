package wire

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

// A connection that nobody uses stays open: gRPC would close it after half an
// hour and dial again, and the services listen for one connection only. Seen to
// fail without the option.
func TestConnectionStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := &fakePlugin{}
		conn := connect(t, func(r grpc.ServiceRegistrar) { ServePlugin(r, fake) })
		if err := NewPlugin(conn).Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if state := conn.GetState(); state != connectivity.Ready {
			t.Errorf("the connection is %s after two hours", state)
		}
	})
}

// All four ends take what the largest message needs, and not more.
func TestMessageLimits(t *testing.T) {
	fake, client := newFakePlugin(t)
	if err := client.Activate(t.Context(), Activation{Settings: make([]byte, MaxInput)}); err != nil {
		t.Errorf("%d bytes to the plugin: %v", MaxInput, err)
	}
	if err := client.Activate(t.Context(), Activation{Settings: make([]byte, MaxMessage)}); err == nil {
		t.Errorf("%d bytes and an envelope went to the plugin", MaxMessage)
	}
	fake.description.Settings = make([]byte, MaxInput)
	if _, err := client.Describe(t.Context(), nil); err != nil {
		t.Errorf("%d bytes from the plugin: %v", MaxInput, err)
	}
	fake.description.Settings = make([]byte, MaxMessage)
	if _, err := client.Describe(t.Context(), nil); err == nil {
		t.Errorf("%d bytes and an envelope came from the plugin", MaxMessage)
	}
}
