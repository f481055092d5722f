package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/tool"
)

// inputPatience is how long a process may take to read what it is sent.
const inputPatience = 5 * time.Second

// Input writes to the standard input, or the terminal, of a process. It is judged as a command
// line is, for it may be one, together with what stands in the same line already; only an
// interrupt is not, which runs nothing. If something else was typed since the caller looked it is
// an error, and one that says how much was taken if the process does not read for five seconds.
func (s *Service) Input(ctx context.Context, caller Caller, in service.ProcessInput) error {
	if len(in.Data) > service.MaxInput {
		return &service.ProcessError{Kind: service.ProcessBadCommand, Subject: in.ID, Detail: fmt.Sprintf(
			"the input has %d bytes, and may have %d at once: send it in parts", len(in.Data), service.MaxInput)}
	}
	b, err := s.find(caller, in.ID)
	if err != nil {
		return err
	}
	before, at := b.line()
	if b.command.Terminal != nil {
		if err := checkTyped([]byte(before + string(in.Data))); err != nil {
			return err
		}
	}
	if in.At != "" && in.At != at {
		return b.otherTyped()
	}
	if len(in.Data) > 0 && !isInterrupt(in.Data) {
		line := tool.CommandLine{Line: before + string(in.Data), Directory: b.command.place.Path, Process: b.id + ": " + b.command.Line}
		if err := caller.Gate.PermitCommand(ctx, line); err != nil {
			return err
		}
	}
	return b.send(ctx, in, at)
}

// isInterrupt says whether nothing is typed but what ends a command, and takes back the line.
func isInterrupt(data []byte) bool {
	return len(data) > 0 && len(bytes.Trim(data, "\x03")) == 0
}

// line is what was typed since the last end of a line, and stands for all that was typed.
func (b *beside) line() (unfinished, at string) {
	b.typing.Lock()
	defer b.typing.Unlock()
	return string(b.unfinished), strconv.FormatInt(b.typed, 10)
}

// took notes what was typed.
func (b *beside) took(data []byte) {
	b.typing.Lock()
	defer b.typing.Unlock()
	b.typed += int64(len(data))
	b.unfinished = append(b.unfinished, data...)
	if end := bytes.LastIndexAny(b.unfinished, "\r\n\x03"); end >= 0 {
		b.unfinished = b.unfinished[end+1:]
	}
	// Of more than is read of a line any part makes it one that is asked for.
	if far := len(b.unfinished) - service.MaxCommandLine - 1; far > 0 {
		b.unfinished = b.unfinished[far:]
	}
	b.unfinished = bytes.Clone(b.unfinished)
}

func (b *beside) otherTyped() error {
	return &service.ProcessError{Kind: service.ProcessMoved, Subject: b.id,
		Detail: "something else was typed to it in the meantime, and so this was not: call again"}
}

// send writes to the process, if nothing else was written since.
func (b *beside) send(ctx context.Context, input service.ProcessInput, at string) error {
	data := input.Data
	deadline := time.Now().Add(inputPatience)
	patience := time.NewTimer(inputPatience)
	defer patience.Stop()
	select {
	case b.input <- struct{}{}:
		defer func() { <-b.input }()
	case <-patience.C: // somebody else's input is being taken
		return b.notTaken(0, len(data))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if _, now := b.line(); now != at {
		return b.otherTyped()
	}
	if b.over || b.isOver() {
		return &service.ProcessError{Kind: service.ProcessOver, Subject: b.id, Detail: "it has ended, or its input has, and it reads nothing more"}
	}
	in := b.execution.input()
	stop := context.AfterFunc(ctx, func() { _ = in.SetWriteDeadline(time.Now()) })
	defer stop()
	_ = in.SetWriteDeadline(deadline)
	n, err := in.Write(data)
	b.took(data[:n])
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return b.notTaken(n, len(data))
	default: // the other side is closed
		return &service.ProcessError{Kind: service.ProcessOver, Subject: b.id, Detail: "it reads no input any more"}
	}
	if !input.Last {
		return nil
	}
	if b.command.Terminal != nil {
		before, _ := b.line()
		_, _ = in.Write(endOfInput([]byte(before)))
		return nil
	}
	b.over = true
	_ = in.Close()
	return nil
}

func (b *beside) notTaken(n, all int) error {
	return &service.ProcessError{Kind: service.ProcessBusy, Subject: b.id, Detail: fmt.Sprintf(
		"it took %d of %d bytes within %v: it does not read its input now; send the rest later", n, all, inputPatience)}
}
