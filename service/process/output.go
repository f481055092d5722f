package process

import (
	"fmt"
	"io"

	"github.com/toolhost/toolhost/service"
)

// limited passes on as much of an output as anybody is to hold, and keeps the end of what is
// beyond that (law 19). It is not for concurrent use.
type limited struct {
	to     func(service.Chunk) error
	passed int64
	held   []service.Chunk // the end so far, of what is not passed on
	size   int             // bytes in held
	spare  []byte          // a buffer that is free
	lost   int64
}

func newLimited(to func(service.Chunk) error) *limited { return &limited{to: to} }

// take takes the next piece, which is the caller's again afterwards.
func (l *limited) take(c service.Chunk) error {
	room := service.StreamedOutput - l.passed
	if now := min(room, int64(len(c.Data))); now > 0 {
		l.passed += now
		if err := l.to(service.Chunk{Stream: c.Stream, Data: c.Data[:now]}); err != nil {
			return err
		}
		c.Data = c.Data[now:]
	}
	if len(c.Data) > 0 {
		l.hold(c)
	}
	return nil
}

// hold keeps a piece as the end of the output, and drops what is too far from that.
func (l *limited) hold(c service.Chunk) {
	l.held = append(l.held, service.Chunk{Stream: c.Stream, Data: append(l.spare[:0], c.Data...)})
	l.size, l.spare = l.size+len(c.Data), nil
	for l.size > service.TailOutput {
		first := &l.held[0]
		drop := min(l.size-service.TailOutput, len(first.Data))
		l.size, l.lost = l.size-drop, l.lost+int64(drop)
		if drop == len(first.Data) {
			l.spare = first.Data
			l.held = append(l.held[:0], l.held[1:]...)
			continue
		}
		first.Data = append(first.Data[:0], first.Data[drop:]...)
	}
}

// end passes on the end, behind what was dropped.
func (l *limited) end() error {
	dropped := l.lost
	for _, c := range l.held {
		c.Dropped, dropped = dropped, 0
		if err := l.to(c); err != nil {
			return err
		}
	}
	l.held = nil
	return nil
}

// toCall makes the output of a command that of a call, with a line where some is missing.
func toCall(output io.Writer) func(service.Chunk) error {
	if output == nil {
		output = io.Discard
	}
	return func(c service.Chunk) error {
		if c.Dropped > 0 {
			if _, err := fmt.Fprintf(output, "\n[%d bytes were dropped here]\n", c.Dropped); err != nil {
				return err
			}
		}
		_, err := output.Write(c.Data)
		return err
	}
}
