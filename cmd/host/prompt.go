package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/service/permission/shown"
)

// terminal is what is read from and written to, until its deadline.
type terminal interface {
	io.ReadCloser
	SetDeadline(t time.Time) error
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
		timer := time.NewTimer(leaving)
		defer timer.Stop()
		select {
		case <-left:
		case <-timer.C: // the terminal takes nothing: the answer counts all the same
		case <-ctx.Done():
		}
	}
	return reply, err
}

// leaving is how long a question may take to leave the screen when it was answered.
const leaving = time.Second

// run asks until ctx is over, or the terminal fails: then nobody is asked here any
// more, and what is pending waits for an answer from elsewhere, or for its end. It
// closes the terminal.
func (p *prompt) run(ctx context.Context) error {
	defer func() { _ = p.in.Close() }() // nothing was written to it that could be lost
	stop := context.AfterFunc(ctx, func() { _ = p.in.SetDeadline(time.Now()) })
	defer stop()
	changes, end := p.Watch()
	defer end()
	lines := bufio.NewReader(p.in)
	for {
		for pending := p.Pending(); len(pending) > 0 && ctx.Err() == nil; pending = p.Pending() {
			if err := p.one(ctx, pending[0], lines); err != nil {
				if ctx.Err() == nil { // and the terminal may still show something
					_, _ = fmt.Fprintf(p.out, "\nNothing more is read here. It can be answered elsewhere: toolhost approvals approve %s\n", pending[0].ID)
				}
				return nil
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
	line, err := p.askUnless(ctx, request, lines)
	if errors.Is(err, errElsewhere) {
		_, err = fmt.Fprintln(p.out, "\nIt was answered elsewhere, or is not asked any more.")
		return err
	}
	if err != nil {
		return err
	}
	answer, ok := reply(line)
	if !ok {
		_, err := fmt.Fprintln(p.out, "Answer with y, a or n.")
		return err // it is shown again
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

// askUnless shows a request and reads a line, unless the request ends first: then the
// error is errElsewhere. The terminal may take as long as it likes to show it.
func (p *prompt) askUnless(ctx context.Context, request permission.Pending, lines *bufio.Reader) (string, error) {
	asking, asked := context.WithCancel(ctx)
	defer asked()
	var beside errgroup.Group
	ended := false // written before beside is waited for
	beside.Go(func() error {
		if ended = p.endsBefore(asking, request.ID); ended {
			return p.in.SetDeadline(time.Now())
		}
		return nil
	})
	line, err := p.ask(request, lines)
	asked()
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

func (p *prompt) ask(request permission.Pending, lines *bufio.Reader) (string, error) {
	if _, err := io.WriteString(p.out, question(request, p.width())); err != nil {
		return "", err
	}
	return lines.ReadString('\n')
}

// width is how many columns the terminal has, or 0 if it is none.
func (p *prompt) width() int {
	file, ok := p.in.(*os.File)
	if !ok {
		return 0
	}
	return widthOf(file)
}

// resume lets the terminal be used again, if that was ended.
func (p *prompt) resume(ctx context.Context, ended bool) error {
	if !ended {
		return nil
	}
	err := p.in.SetDeadline(time.Time{})
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
func question(p permission.Pending, width int) string {
	r := shown.Of(p)
	r.Resources, r.Directory = p.Request.Resources, p.Request.Directory // all of it, where the answer may be yes
	r.Cut = slices.DeleteFunc(r.Cut, func(field string) bool { return field == "resources" || field == "directory" })
	text := fmt.Sprintf("\ntoolhost asks for approval (%s, until %s):\n%s", r.ID, r.Expires.Local().Format(time.TimeOnly), r.Text(width))
	if len(r.Save) > 0 {
		return text + "[y]es once, [a]lways for exactly that, [n]o (n REASON tells the model why): "
	}
	return text + "[y]es once, [n]o (n REASON tells the model why): "
}
