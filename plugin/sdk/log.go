package sdk

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/toolhost/toolhost/plugin/internal/wire"
)

// logQueue is how many records wait for the host. What comes when the queue is
// full is dropped and counted.
const logQueue = 256

// openLog gives a logger that sends its records to the host. It never blocks a
// handler.
func (s *server) openLog(conn wire.Connection) *slog.Logger {
	h := &logHandler{queue: &logQueueState{records: make(chan wire.Record, logQueue)}}
	err := s.life.Go("log", func(life context.Context) error {
		h.queue.drain(life, conn)
		return nil
	})
	if err != nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(h)
}

// logQueueState is shared by all handlers that were derived from one.
type logQueueState struct {
	records chan wire.Record
	dropped atomic.Int64
}

func (q *logQueueState) add(r wire.Record) {
	select {
	case q.records <- r:
	default:
		q.dropped.Add(1)
	}
}

// drain sends records until the host or the plugin ends.
func (q *logQueueState) drain(life context.Context, conn wire.Connection) {
	stream, err := wire.OpenLog(life, conn)
	if err != nil {
		return
	}
	for {
		select {
		case <-life.Done():
			return
		case r := <-q.records:
			if n := q.dropped.Swap(0); n > 0 {
				lost := slog.Int64("dropped", n)
				r.Attributes = append(r.Attributes, lost.Key, lost.Value.String())
			}
			if stream.Send(r) != nil {
				return
			}
		}
	}
}

// logHandler formats records for the host.
type logHandler struct {
	queue      *logQueueState
	prefix     string   // of open groups, with a dot at its end
	attributes []string // of WithAttrs, formatted
}

func (h *logHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	out := wire.Record{Level: r.Level, Message: r.Message, Attributes: append([]string(nil), h.attributes...)}
	r.Attrs(func(a slog.Attr) bool {
		out.Attributes = appendAttr(out.Attributes, h.prefix, a)
		return true
	})
	h.queue.add(out)
	return nil
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := *h
	out.attributes = append([]string(nil), h.attributes...)
	for _, a := range attrs {
		out.attributes = appendAttr(out.attributes, h.prefix, a)
	}
	return &out
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	out := *h
	out.prefix += name + "."
	return &out
}

func appendAttr(list []string, prefix string, a slog.Attr) []string {
	value := a.Value.Resolve()
	if value.Kind() != slog.KindGroup {
		if a.Equal(slog.Attr{}) {
			return list
		}
		return append(list, prefix+a.Key, value.String())
	}
	if a.Key != "" {
		prefix += a.Key + "."
	}
	for _, member := range value.Group() {
		list = appendAttr(list, prefix, member)
	}
	return list
}
