package mcpserver

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxMessage is how many bytes a message over HTTP has at most, and maxLine one of the one
	// client over streams: an input of 8 MiB, and what JSON makes of it.
	maxMessage = 4 << 20
	maxLine    = 16 << 20
	// lastWords is how long calls may go on after the end of the input, so that what was
	// asked before is answered; quietAfter is how long none must run to be sure that
	// none comes.
	lastWords  = 2 * time.Second
	quietAfter = 100 * time.Millisecond
	// unread is how long a client may leave what is written to it unread when the serving
	// ends, before the output is given up.
	unread = time.Second
)

// ServeStdio serves one Location to one client, whose messages come from in and to
// which nothing but messages is written on out. It returns when the client ends its
// input, when ctx is over, or when the connection breaks; calls that run when the input
// ends have two seconds. Closing out must end a write to it that blocks, as that of a
// pipe does: a client that reads nothing is given up so, a second later. At most
// [maxRunning] requests run at a time; one more is refused. An empty name is the Location
// that the working directory is in.
//
// The session of such clients is one, as long as any of them is there; when the last one has
// left, and nobody is served over HTTP who may use it too, its processes are ended.
func (s *Server) ServeStdio(ctx context.Context, name string, in io.ReadCloser, out io.WriteCloser) error {
	f, err := s.face(ctx, name)
	if ctx.Err() != nil {
		return nil // before it began
	}
	if err != nil {
		return err
	}
	f.lines.Add(1)
	defer func() {
		if f.lines.Add(-1) == 0 && s.listening.Load() == 0 {
			f.over(ctx, local, "")
		}
	}()
	giveUp := sync.OnceValue(func() *time.Timer {
		return time.AfterFunc(unread, func() { _ = out.Close() }) // it is closed again when the connection is
	})
	defer context.AfterFunc(ctx, func() { giveUp() })()
	input := &lingering{ReadCloser: in, ctx: ctx, running: &f.running, ended: func() { giveUp() }}
	err = f.sdk.Run(ctx, strict{in: input, out: out})
	giveUp().Stop()
	if ctx.Err() != nil || input.over.Load() || errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}

// lingering is an input that ends when what was asked on it is answered, or a moment
// later. It is read by one goroutine.
type lingering struct {
	io.ReadCloser
	ctx     context.Context //nolint:containedctx // of the serving, which the reading is a part of
	running *atomic.Int64
	ended   func() // is called at the end
	over    atomic.Bool
}

func (l *lingering) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if n > 0 || !errors.Is(err, io.EOF) {
		return n, err
	}
	defer l.ended()
	l.over.Store(true)
	tick := time.NewTicker(quietAfter / 10)
	defer tick.Stop()
	quiet := 0
	for begin := time.Now(); time.Since(begin) < lastWords && quiet < 10; {
		select {
		case <-tick.C:
		case <-l.ctx.Done():
			return 0, err
		}
		if quiet++; l.running.Load() > 0 {
			quiet = 0
		}
	}
	return 0, err
}
