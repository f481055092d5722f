package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/user"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/service/permission"
)

// The values of --approve.
const (
	approveAsk  = "ask"
	approveDeny = "deny"
	approveAll  = "all"
)

// approval is a flag for who answers what no rule does.
type approval string

func (v *approval) Set(text string) error {
	if !slices.Contains([]string{approveAsk, approveDeny, approveAll}, text) {
		return errors.New("it is ask, deny or all")
	}
	*v = approval(text)
	return nil
}

func (v *approval) String() string { return string(*v) }
func (v *approval) Type() string   { return "how" }

// approver is who answers, and what has to run while calls are made.
type approver struct {
	permission.Approver
	run func(context.Context) error // nil where nothing has to
}

// approver makes the approver of --approve. Without the flag a person is asked where
// there is a terminal, and nobody otherwise.
func (a *app) approver() (approver, error) {
	switch how := string(a.approve); {
	case !a.calls, how == approveDeny, how == "" && !a.stderr.terminal:
		return approver{}, nil
	case how == approveAll:
		a.notice("--approve all: whatever would be asked for is allowed without asking; what a rule denies is not")
		return approver{Approver: everything{}}, nil
	default:
		tty, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NONBLOCK, 0)
		if err != nil && how == "" {
			return approver{}, nil
		}
		if err != nil {
			return approver{}, fmt.Errorf("--approve ask: there is no terminal to ask on: %w", err)
		}
		queue := permission.NewQueue(permission.QueueOptions{Approvals: host.Approvals(a.state)})
		out := &output{to: tty, terminal: true}
		return approver{queue, func(ctx context.Context) error { return ask(ctx, queue, tty, forget(tty), out) }}, nil
	}
}

// forget drops what was typed at a terminal and not read yet.
func forget(tty *os.File) func() {
	return func() {
		raw, err := tty.SyscallConn()
		if err != nil {
			return
		}
		_ = raw.Control(func(fd uintptr) {
			_ = unix.IoctlSetInt(int(fd), unix.TCFLSH, unix.TCIFLUSH) // nothing to drop where it is no terminal
		})
	}
}

// everything says yes.
type everything struct{}

func (everything) Ask(context.Context, permission.Request) (permission.Reply, error) {
	return permission.Reply{Granted: true}, nil
}

// terminal is what is read from, until its deadline.
type terminal interface {
	io.ReadCloser
	SetReadDeadline(t time.Time) error
}

// ask puts what is pending before the person at the terminal, one after the other,
// until ctx is over. It closes the terminal; forget drops the input that it holds.
func ask(ctx context.Context, queue *permission.Queue, in terminal, forget func(), out io.Writer) error {
	defer func() { _ = in.Close() }() // nothing was written to it that could be lost
	stop := context.AfterFunc(ctx, func() { _ = in.SetReadDeadline(time.Now()) })
	defer stop()
	changes, end := queue.Watch()
	defer end()
	lines := bufio.NewReader(in)
	for {
		for pending := queue.Pending(); len(pending) > 0; pending = queue.Pending() {
			if err := askOne(ctx, queue, pending[0], lines, forget, out); err != nil {
				return nil // nobody can be asked any more: what is pending ends with its call
			}
		}
		select {
		case <-changes:
		case <-ctx.Done():
			return nil
		}
	}
}

// askOne shows one request and answers it with what the person says; forget drops what
// the terminal holds. The error is that of the terminal.
func askOne(ctx context.Context, queue *permission.Queue, p permission.Pending, lines *bufio.Reader, forget func(), out io.Writer) error {
	// What was typed before the question is there is no answer to it.
	forget()
	if _, err := lines.Discard(lines.Buffered()); err != nil {
		return err
	}
	if _, err := io.WriteString(out, question(p)); err != nil {
		return err
	}
	line, err := lines.ReadString('\n')
	if err != nil {
		return err
	}
	answer, ok := reply(line)
	if !ok {
		return nil // it is shown again
	}
	_, err = queue.Reply(ctx, p.ID, answer)
	switch {
	case errors.Is(err, permission.ErrNotPending):
		_, err = fmt.Fprintln(out, "It is not asked any more.")
	case err != nil:
		_, err = fmt.Fprintf(out, "%v\n", err)
	}
	return err
}

// reply is the answer that a line says.
func reply(line string) (permission.Answer, bool) {
	word, feedback, _ := strings.Cut(strings.TrimSpace(line), " ")
	answer := permission.Answer{By: username()}
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

func username() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}

// question is all that a person must see, and what "always" would save. Whatever a
// plugin wrote stands in one line without control characters, and under a label that
// says so.
func question(p permission.Pending) string {
	r := p.Request
	var text strings.Builder
	line := func(name string, values ...string) {
		for _, value := range values {
			fmt.Fprintf(&text, "  %-8s %s\n", name, cell(value))
			name = ""
		}
	}
	text.WriteString("\ntoolhost asks for approval:\n")
	line("tool", r.Caller.Tool)
	line("action", r.Action)
	line("on", r.Resources...)
	effects := r.Caller.Effects.String()
	if r.Caller.Irreversible {
		effects += "; it cannot be undone"
	}
	line("effects", effects)
	line("because", r.Why)
	if r.Caller.Review != "" {
		line("it says", r.Caller.Review)
	}
	for _, key := range slices.Sorted(maps.Keys(r.Metadata)) {
		line("it says", key+": "+r.Metadata[key])
	}
	if p.Behind > 0 {
		line("waiting", counted(p.Behind, "identical request")+" more")
	}
	if len(r.Save) > 0 {
		line("always", r.Save...)
		text.WriteString("[y]es once, [a]lways for exactly that, [n]o (n REASON tells the model why): ")
	} else {
		text.WriteString("[y]es once, [n]o (n REASON tells the model why): ")
	}
	return text.String()
}

var _ permission.Approver = everything{}

// withApprover runs f, which makes calls, beside what its approver needs.
func withApprover(ctx context.Context, by approver, f func(context.Context) error) error {
	if by.run == nil {
		return f(ctx)
	}
	asking, over := context.WithCancel(ctx)
	var beside errgroup.Group
	beside.Go(func() error { return by.run(asking) })
	err := f(ctx)
	over()
	return errors.Join(err, beside.Wait())
}
