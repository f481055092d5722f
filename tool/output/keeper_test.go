package output

import (
	"bytes"
	"context"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/tool"
)

// The limits of single tools, by canonical id.
func TestLimitsPerTool(t *testing.T) {
	k := NewKeeper(KeeperOptions{Limits: DefaultLimits(), PerTool: map[string]Limits{testTool: {MaxLines: 1, MaxBytes: 1}}})
	s := texts("abc")
	if err := k.Begin(testOrigin()).Bound(context.Background(), &s); kindOf(err) != tool.KindRetention {
		t.Errorf("the tool's own limits: %v", err)
	}
	if err := k.Begin(Origin{Tool: "other/tool"}).Bound(context.Background(), &s); err != nil {
		t.Errorf("another tool's: %v", err)
	}
}

// Paths are those of files that exist, and only once they are whole (law 21).
func TestPaths(t *testing.T) {
	k := newKeeper(t, Limits{MaxLines: 1, MaxBytes: 100})
	b := k.Begin(testOrigin())
	_, _ = b.Write(bytes.Repeat([]byte("a"), 1000))
	if got := b.Paths(); got != nil {
		t.Errorf("paths before Bound: %v", got)
	}
	s := texts()
	if err := b.Bound(context.Background(), &s); err != nil {
		t.Fatal(err)
	}
	b.Discard()
	paths := b.Paths()
	if len(paths) != 1 {
		t.Fatalf("paths are %v", paths)
	}
	if _, err := os.Stat(paths[0]); err != nil {
		t.Error(err)
	}
}

// Streaming takes bounded memory; and what is held for the preview is let go.
func TestStreamedInBoundedMemory(t *testing.T) {
	size := 100 << 20
	if testing.Short() {
		size = 20 << 20
	}
	k := newKeeper(t, DefaultLimits())
	line := []byte(strings.Repeat("some words of a log, ", 5) + "\n\x1b[31mred\x1b[0m and \rover\n")
	chunk := bytes.Repeat(line, 64<<10/len(line))
	b := k.Begin(testOrigin())
	defer b.Discard()
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	most := uint64(0)
	for i := range size / len(chunk) {
		if _, err := b.Write(chunk); err != nil {
			t.Fatal(err)
		}
		if i%200 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc)
		}
	}
	if grown := int64(most) - int64(before.HeapAlloc); grown > 8<<20 {
		t.Errorf("heap grew by %d bytes", grown)
	}
	s := texts()
	if err := b.Bound(context.Background(), &s); err != nil {
		t.Fatal(err)
	}
	checkShown(t, onlyText(t, s), DefaultLimits(), false)
}
