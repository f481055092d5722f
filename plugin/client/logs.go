package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/toolhost/toolhost/plugin/client/internal/lines"
	"github.com/toolhost/toolhost/plugin/internal/wire"
)

// Bounds of what a plugin may log. A line has at most [lines.Max] bytes.
const (
	logTail     = 64 << 10 // bytes that are kept for a crash report
	crashTail   = 4 << 10  // bytes of the tail that an error quotes
	logsASecond = 100
	logBurst    = 1000
)

// logs takes whatever a plugin writes, in any form and amount, and passes a
// bounded part of it on. It is safe for concurrent use.
type logs struct {
	out   *slog.Logger
	kept  *Tail // nil: none
	limit *rate.Limiter

	mu      sync.Mutex
	tail    []byte // under mu: what was written last, raw, up to twice logTail
	dropped int    // under mu: since the last line that was passed on
	panics  bool   // under mu: a panic has begun on standard error
}

var _ wire.Log = (*logs)(nil)

func newLogs(out *slog.Logger, kept *Tail) *logs {
	return &logs{out: out, kept: kept, limit: rate.NewLimiter(logsASecond, logBurst)}
}

// readStderr takes standard error to its end: hclog's JSON, or anything else.
func (l *logs) readStderr(r io.Reader) { lines.Each(r, l.stderr) }

// readStdout takes what is printed where only the protocol belongs.
func (l *logs) readStdout(r io.Reader) { lines.Each(r, l.stdout) }

func (l *logs) stderr(line []byte, cut bool) {
	level := l.keep(line)
	if l.tooMany() {
		return
	}
	if record, ok := lines.ParseHclog(line); ok && !cut {
		l.pass(record.Level, record.Message, record.Attributes)
		return
	}
	l.pass(level, printed(line, cut), nil)
}

func (l *logs) stdout(line []byte, cut bool) {
	l.keep(line)
	if !l.tooMany() {
		l.pass(slog.LevelInfo, printed(line, cut), []string{"stream", "stdout"})
	}
}

func printed(line []byte, cut bool) string {
	text := lines.Clean(line)
	if cut {
		text += " … (cut)"
	}
	return text
}

// Write takes a record of the log service.
func (l *logs) Write(r wire.Record) {
	if l.tooMany() {
		return
	}
	record := lines.Record{Level: r.Level, Message: r.Message, Attributes: r.Attributes}.Bounded()
	l.kept.add(inWords(record))
	l.pass(record.Level, record.Message, record.Attributes)
}

// inWords is a record as a line.
func inWords(r lines.Record) []byte {
	line := []byte(r.Level.String() + " " + strings.ReplaceAll(r.Message, "\n", " "))
	for i := 0; i+1 < len(r.Attributes); i += 2 {
		line = fmt.Appendf(line, " %s=%q", r.Attributes[i], r.Attributes[i+1])
	}
	return line
}

// warn says something about the plugin that the plugin can bring about as often
// as it likes.
func (l *logs) warn(message string, attributes ...string) {
	if !l.tooMany() {
		l.pass(slog.LevelWarn, message, lines.Record{Attributes: attributes}.Bounded().Attributes)
	}
}

// tooMany reports, and counts, that a line would be dropped. It is asked before
// any work is done with it.
func (l *logs) tooMany() bool {
	if l.limit.Tokens() >= 1 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropped++
	return true
}

// pass hands a line to the host's log. Attributes, keys and values in turn, are
// the plugin's words and stand in a group of their own, so that they cannot be
// taken for the host's.
func (l *logs) pass(level slog.Level, message string, attributes []string) {
	ctx := context.Background()
	if !l.out.Enabled(ctx, level) || !l.limit.Allow() {
		return
	}
	l.sayDropped()
	if len(attributes) == 0 {
		l.out.Log(ctx, level, message)
		return
	}
	group := make([]any, 0, len(attributes))
	for i := 0; i+1 < len(attributes); i += 2 {
		group = append(group, slog.String(attributes[i], attributes[i+1]))
	}
	l.out.Log(ctx, level, message, slog.Group("said", group...))
}

// sayDropped says how many lines were dropped since it was asked last.
func (l *logs) sayDropped() {
	l.mu.Lock()
	dropped := l.dropped
	l.dropped = 0
	l.mu.Unlock()
	if dropped > 0 {
		l.out.Warn("log lines dropped: the plugin writes too many", "dropped", dropped)
	}
}

// keep adds a line to the tail, and tells the level of one that says none.
func (l *logs) keep(line []byte) slog.Level {
	l.kept.add(line)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tail = append(append(l.tail, line...), '\n')
	if len(l.tail) > 2*logTail {
		l.tail = append(l.tail[:0], l.tail[len(l.tail)-logTail:]...)
	}
	if startsPanic(line) {
		l.panics = true
	}
	if l.panics {
		return slog.LevelError
	}
	return slog.LevelInfo
}

// The first words of a Go program that ends by a panic, or by an error of the
// runtime.
const (
	panicMark = "panic: "
	fatalMark = "fatal error: "
)

func startsPanic(line []byte) bool {
	return bytes.HasPrefix(line, []byte(panicMark)) || bytes.HasPrefix(line, []byte(fatalMark))
}

// lastWords is the end of what the plugin wrote, cleaned: from the start of a
// panic if there was one, otherwise the last lines.
func (l *logs) lastWords() string {
	l.mu.Lock()
	tail := "\n" + string(l.tail[max(0, len(l.tail)-logTail):])
	l.mu.Unlock()
	at := max(strings.LastIndex(tail, "\n"+panicMark), strings.LastIndex(tail, "\n"+fatalMark))
	switch {
	case at >= 0:
		tail = tail[at:]
		if len(tail) > crashTail {
			tail = tail[:crashTail] + " …"
		}
	case len(tail) > crashTail:
		tail = tail[len(tail)-crashTail:]
		if _, whole, ok := strings.Cut(tail, "\n"); ok && whole != "" {
			tail = "\n" + whole // whole lines, where there are any
		}
		tail = "…" + tail
	}
	return strings.TrimSpace(lines.CleanText(tail))
}

// What is waited for so that an error can say more: the end of a process when
// something else went wrong, and its last lines when it has ended.
const (
	exitPatience  = 500 * time.Millisecond
	wordsPatience = time.Second
)
