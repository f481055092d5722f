package host_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/state"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/output"
)

// dieDuringACall is a host that records a call and ends without a word.
func dieDuringACall(dir string) int {
	calls := state.New(state.Options{Dir: dir}).OpenCalls()
	_, err := calls.Start(context.Background(), "/project", tool.Start{
		Identity: tool.Identity{Session: "s", Agent: "a", Message: "m", Call: "c"}, Tool: "weather/write", Effects: tool.Write, At: time.Now(),
	})
	if err != nil {
		return 1
	}
	return 0
}

// lines is a log that is read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer // under mu
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A host says which calls were running when an earlier one died, once, and removes
// outputs that are over their time, without being asked (laws 15, 45).
//
// Seen to fail: without the look when a host opens; without the sweep.
func TestLaw15OutcomeUnknownIsSaidAtStart(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("/proc/self/exe", "__die", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	expired := keepExpired(t, filepath.Join(dir, "outputs", "0123456789abcdef"))
	store := state.New(state.Options{Dir: dir})
	defer func() { _ = store.Close() }()
	for _, want := range []int{1, 0} {
		var log lines
		o := options()
		o.State, o.Log = store, slog.New(slog.NewTextHandler(&log, nil))
		h, err := host.Open(context.Background(), configure(t, []string{"a"}), o)
		if err != nil {
			t.Fatal(err)
		}
		gone := func() bool { _, err := os.Stat(expired); return os.IsNotExist(err) }
		for begin := time.Now(); (strings.Count(log.String(), "outcome unknown") < want || !gone()) && time.Since(begin) < 10*time.Second; {
			time.Sleep(time.Millisecond)
		}
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if got := strings.Count(log.String(), "outcome unknown"); got != want || !gone() {
			t.Errorf("said %d times, want %d; the old output is gone: %v", got, want, gone())
		}
	}
}

// keepExpired keeps an output whose time is over, and gives its file.
func keepExpired(t *testing.T, dir string) string {
	t.Helper()
	keeper := output.NewKeeper(output.KeeperOptions{Store: output.NewStore(output.StoreOptions{Dir: dir, Retention: time.Nanosecond})})
	bounding := keeper.Begin(output.Origin{Location: "/project", Session: "s", Tool: "weather/forecast", Call: "c"})
	defer bounding.Discard()
	s := tool.Settlement{Status: tool.Completed, Content: []tool.Content{tool.Text("sunny")}}
	if err := bounding.Bound(context.Background(), &s); err != nil {
		t.Fatal(err)
	}
	return bounding.Paths()[0]
}
