package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/service/permission/shown"
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

// registerPatience adds the flag for how long a question waits.
func (a *app) registerPatience(command *cobra.Command) {
	command.Flags().Var((*positive)(&a.patience), "approve-timeout", "how long a question waits for its answer (default 10m)")
	_ = command.RegisterFlagCompletionFunc("approve-timeout", cobra.NoFileCompletions)
}

// approver is who answers, and what has to run while calls are made.
type approver struct {
	permission.Approver
	queue *permission.Queue           // where what is asked can be answered from elsewhere, or nil
	run   func(context.Context) error // nil where nothing has to
	away  bool                        // it can be answered from elsewhere only
}

// approver makes the approver of --approve. Without the flag a person is asked where
// there is a terminal, and nobody otherwise. What is asked can be answered from another
// terminal too, with toolhost approvals; where there is none here, only from there.
func (a *app) approver() approver {
	switch how := string(a.approve); {
	case !a.calls, how == approveDeny, how == "" && !a.stderr.terminal:
		return approver{}
	case how == approveAll:
		a.notice("--approve all: whatever would be asked for is allowed without asking; what a rule denies is not")
		return approver{Approver: everything{}}
	default:
		tty, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NONBLOCK, 0)
		if err != nil && how == "" {
			return approver{}
		}
		if err == nil && inBackground(tty) { // reading would stop the process
			err = tty.Close()
			if err == nil {
				err = errInBackground
			}
		}
		queue := permission.NewQueue(permission.QueueOptions{Approvals: host.Approvals(a.state), Timeout: a.patience})
		if err != nil {
			return approver{queue, queue, func(ctx context.Context) error { return a.announce(ctx, queue) }, true}
		}
		p := &prompt{Queue: queue, in: tty, forget: forget(tty), out: &output{to: tty, terminal: true}}
		return approver{p, queue, p.run, false}
	}
}

var errInBackground = errors.New("the terminal is another job's")

// inBackground says whether the terminal is not this process's to read.
func inBackground(tty *os.File) bool {
	raw, err := tty.SyscallConn()
	if err != nil {
		return true
	}
	foreground := 0
	failed := raw.Control(func(fd uintptr) { foreground, err = unix.IoctlGetInt(int(fd), unix.TIOCGPGRP) })
	return failed != nil || err != nil || foreground != unix.Getpgrp()
}

// announce says what waits for an answer from another terminal, until ctx is over.
func (a *app) announce(ctx context.Context, queue *permission.Queue) error {
	changes, end := queue.Watch()
	defer end()
	said := map[string]bool{}
	for {
		for _, p := range queue.Pending() {
			if !said[p.ID] {
				said[p.ID] = true
				a.notice(fmt.Sprintf("%s waits for approval until %s: toolhost approvals approve %s", shown.Exact(p.Request.Caller.Tool), p.Expires.Local().Format(time.TimeOnly), p.ID))
			}
		}
		select {
		case <-changes:
		case <-ctx.Done():
			return nil
		}
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
	return permission.Reply{Granted: true, Answer: permission.Once, By: "--approve all"}, nil
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
