package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/service/permission/shown"
)

// terminal is what is read from, until its deadline.
type terminal interface {
	io.ReadCloser
	SetReadDeadline(t time.Time) error
}

// A prompt puts the requests of a queue before the person at a terminal, one after the
// other. It is the approver of the calls that are made beside it: what was answered,
// here or elsewhere, goes on when the question has left the screen.
type prompt struct {
	*permission.Queue
	in     terminal
	forget func() // drops the input that the terminal holds
	out    io.Writer

	mu    sync.Mutex
	shown string        // under mu: the id of the request that is on the screen
	left  chan struct{} // under mu: is closed when it is not any more
}

var _ permission.Approver = (*prompt)(nil)

// Ask implements [permission.Approver].
func (p *prompt) Ask(ctx context.Context, request permission.Request) (permission.Reply, error) {
	reply, err := p.Queue.Ask(ctx, request)
	p.mu.Lock()
	left := p.left
	if p.shown != request.ID {
		left = nil
	}
	p.mu.Unlock()
	if left != nil {
		select {
		case <-left:
		case <-ctx.Done():
		}
	}
	return reply, err
}

// run asks until ctx is over, or the terminal fails: then nobody is asked here any
// more, and what is pending waits for an answer from elsewhere, or for its end. It
// closes the terminal.
func (p *prompt) run(ctx context.Context) error {
	defer func() { _ = p.in.Close() }() // nothing was written to it that could be lost
	stop := context.AfterFunc(ctx, func() { _ = p.in.SetReadDeadline(time.Now()) })
	defer stop()
	changes, end := p.Watch()
	defer end()
	lines := bufio.NewReader(p.in)
	for {
		for pending := p.Pending(); len(pending) > 0 && ctx.Err() == nil; pending = p.Pending() {
			if err := p.one(ctx, pending[0], lines); err != nil {
				return nil // the reason is that of the terminal, which nobody reads
			}
		}
		select {
		case <-changes:
		case <-ctx.Done():
			return nil
		}
	}
}

// one shows one request and answers it with what the person says, unless it ends
// meanwhile. The error is that of the terminal.
func (p *prompt) one(ctx context.Context, request permission.Pending, lines *bufio.Reader) error {
	left := make(chan struct{})
	defer close(left)
	p.mu.Lock()
	p.shown, p.left = request.ID, left
	p.mu.Unlock()
	// What was typed before the question is there is no answer to it.
	p.forget()
	if _, err := lines.Discard(lines.Buffered()); err != nil {
		return err
	}
	if _, err := io.WriteString(p.out, question(request)); err != nil {
		return err
	}
	line, err := p.readUnless(ctx, request.ID, lines)
	if errors.Is(err, errElsewhere) {
		_, err = fmt.Fprintln(p.out, "\nIt was answered elsewhere, or is not asked any more.")
		return err
	}
	if err != nil {
		return err
	}
	answer, ok := reply(line)
	if !ok {
		return nil // it is shown again
	}
	_, err = p.Reply(ctx, request.ID, answer)
	switch {
	case errors.Is(err, permission.ErrNotPending):
		_, err = fmt.Fprintln(p.out, "It is not asked any more.")
	case err != nil:
		_, err = fmt.Fprintf(p.out, "%v\n", err)
	}
	return err
}

var errElsewhere = errors.New("the request is not pending any more")

// readUnless reads a line, unless the request ends first: then the error is
// errElsewhere.
func (p *prompt) readUnless(ctx context.Context, id string, lines *bufio.Reader) (string, error) {
	reading, read := context.WithCancel(ctx)
	defer read()
	var beside errgroup.Group
	ended := false // written before beside is waited for
	beside.Go(func() error {
		if ended = p.endsBefore(reading, id); ended {
			return p.in.SetReadDeadline(time.Now())
		}
		return nil
	})
	line, err := lines.ReadString('\n')
	read()
	if waited := beside.Wait(); waited != nil {
		return "", waited
	}
	if err == nil {
		return line, p.resume(ctx, ended)
	}
	if !ended {
		return "", err
	}
	if err := p.resume(ctx, ended); err != nil {
		return "", err
	}
	return "", errElsewhere
}

// resume lets the terminal be read again, if that was ended.
func (p *prompt) resume(ctx context.Context, ended bool) error {
	if !ended {
		return nil
	}
	err := p.in.SetReadDeadline(time.Time{})
	if ctx.Err() != nil { // whose deadline may be the one that was just taken away
		return context.Cause(ctx)
	}
	return err
}

// endsBefore waits for the end of the request, and says whether that came before the
// end of ctx.
func (p *prompt) endsBefore(ctx context.Context, id string) bool {
	changes, stop := p.Watch()
	defer stop()
	for {
		if _, pending := p.Find(id); !pending {
			return ctx.Err() == nil
		}
		select {
		case <-changes:
		case <-ctx.Done():
			return false
		}
	}
}

// reply is the answer that a line says.
func reply(line string) (permission.Answer, bool) {
	word, feedback, _ := strings.Cut(strings.TrimSpace(line), " ")
	answer := permission.Answer{By: userName()}
	switch strings.ToLower(word) {
	case "y", "yes":
		answer.Kind = permission.Once
	case "a", "always":
		answer.Kind = permission.Always
	case "n", "no":
		answer.Kind, answer.Feedback = permission.Reject, strings.TrimSpace(feedback)
	default:
		return answer, false
	}
	return answer, true
}

// question is the request, and what can be answered.
func question(p permission.Pending) string {
	r := shown.Of(p)
	r.Resources = p.Request.Resources // all of them, where the answer may be yes
	text := "\ntoolhost asks for approval:\n" + r.Text()
	if len(r.Save) > 0 {
		return text + "[y]es once, [a]lways for exactly that, [n]o (n REASON tells the model why): "
	}
	return text + "[y]es once, [n]o (n REASON tells the model why): "
}
