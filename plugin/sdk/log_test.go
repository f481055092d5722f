package sdk

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"testing/slogtest"

	"github.com/google/go-cmp/cmp"

	"github.com/toolhost/toolhost/plugin/internal/wire"
)

func newTestLog(size int) (*slog.Logger, *logQueueState) {
	queue := &logQueueState{records: make(chan wire.Record, size)}
	return slog.New(&logHandler{queue: queue}), queue
}

func TestLogRecords(t *testing.T) {
	log, queue := newTestLog(10)
	grouped := log.With("a", 1, slog.Group("g", "b", 2)).WithGroup("").WithGroup("h").With("c", 3).WithGroup("i")
	tests := []struct {
		say  func()
		want wire.Record
	}{
		{func() { log.Info("plain") }, wire.Record{Level: slog.LevelInfo, Message: "plain"}},
		{func() { log.Debug("caf\xe9", "k", "v") }, wire.Record{Level: slog.LevelDebug, Message: "caf\xe9", Attributes: []string{"k", "v"}}},
		{func() { log.Error("e", append([]any{"err", errors.New("broken")}, "odd")...) }, wire.Record{Level: slog.LevelError, Message: "e", Attributes: []string{"err", "broken", "!BADKEY", "odd"}}},
		{func() { grouped.Warn("w", "d", 4, slog.Group("", "e", 5), slog.Group("f"), slog.Attr{}) },
			wire.Record{Level: slog.LevelWarn, Message: "w", Attributes: []string{"a", "1", "g.b", "2", "h.c", "3", "h.i.d", "4", "h.i.e", "5"}}},
		{func() { log.Info("v", "lazy", lazy{}) }, wire.Record{Level: slog.LevelInfo, Message: "v", Attributes: []string{"lazy.x", "1"}}},
	}
	for _, tt := range tests {
		tt.say()
		if diff := cmp.Diff(tt.want, <-queue.records); diff != "" {
			t.Errorf("record (-want +got):\n%s", diff)
		}
	}
}

type lazy struct{}

func (lazy) LogValue() slog.Value { return slog.GroupValue(slog.Int("x", 1)) }

// The handler does what the log package asks of a handler, as far as records
// that cross the line can: they have no time.
func TestLogHandler(t *testing.T) {
	var queue *logQueueState
	slogtest.Run(t, func(*testing.T) slog.Handler {
		var log *slog.Logger
		log, queue = newTestLog(10)
		return log.Handler()
	}, func(t *testing.T) map[string]any {
		r := <-queue.records
		if bytes.Contains([]byte(t.Name()), []byte("zero-time")) || bytes.HasSuffix([]byte(t.Name()), []byte("_time")) {
			t.Skip("records have no time")
		}
		out := map[string]any{slog.LevelKey: r.Level, slog.MessageKey: r.Message, slog.TimeKey: "now"}
		for n := 0; n+1 < len(r.Attributes); n += 2 {
			put(out, r.Attributes[n], r.Attributes[n+1])
		}
		return out
	})
}

// put puts a value under a dotted key.
func put(into map[string]any, key, value string) {
	if group, rest, ok := bytes.Cut([]byte(key), []byte(".")); ok {
		inner, _ := into[string(group)].(map[string]any)
		if inner == nil {
			inner = map[string]any{}
			into[string(group)] = inner
		}
		put(inner, string(rest), value)
		return
	}
	into[key] = value
}

// A log that nobody takes never blocks; what was dropped is counted.
func TestLogNeverBlocks(t *testing.T) {
	log, queue := newTestLog(3)
	for range 10 {
		log.Info("x")
	}
	if n := queue.dropped.Load(); n != 7 || len(queue.records) != 3 {
		t.Errorf("%d were dropped and %d wait, want 7 and 3", n, len(queue.records))
	}
}
