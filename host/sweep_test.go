package host_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolhost/toolhost/host"
)

// A host that opens removes what a killed one left, says so, and leaves alone what
// another one that lives has (law 41, case F07).
//
// Seen to fail: without the sweep when a host opens.
func TestLaw41SweepWhenAHostOpens(t *testing.T) {
	base, err := os.MkdirTemp("/tmp", "b")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(base)
	t.Setenv("XDG_RUNTIME_DIR", base)
	living := open(t, []string{"a"}, "probe")
	callWhere(t, activate(t, living, "a"))
	left := filepath.Join(base, "toolhost-"+rand.Text()[:10])
	if err := os.MkdirAll(left+"/p1/tmp", 0o700); err != nil {
		t.Fatal(err)
	}
	var log lines
	o := options()
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	h, err := host.Open(context.Background(), configure(t, []string{"a"}), o)
	if err != nil {
		t.Fatal(err)
	}
	const said = "removed the private directories of hosts that were killed"
	for begin := time.Now(); !strings.Contains(log.String(), said) && time.Since(begin) < 10*time.Second; {
		time.Sleep(time.Millisecond)
	}
	if _, err := os.Lstat(left); !os.IsNotExist(err) || !strings.Contains(log.String(), said) {
		t.Errorf("%s is still there: %v; the log says %q", left, err, log.String())
	}
	if err := h.Close(context.Background()); err != nil {
		t.Error(err)
	}
	callWhere(t, activate(t, living, "a"))
	if now, err := os.ReadDir(base); err != nil || len(now) != 1 {
		t.Errorf("there is %v, %v, want the directory of the living host", now, err)
	}
}
