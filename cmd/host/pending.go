package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/toolhost/toolhost/control"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/service/permission/shown"
)

// pending is a request and the host in which it waits.
type pending struct {
	Pid int `json:"pid"`
	shown.Request

	host *control.Client
}

func (a *app) approvalsPendingCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "pending",
		Short: "List what waits for an answer, in every host that runs",
		Example: `  toolhost approvals pending
  toolhost approvals pending --json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withHosts(cmd.Context(), func(hosts []*control.Client) error {
				all, more, err := pendingIn(cmd.Context(), hosts)
				if err != nil {
					a.notice(err.Error())
				}
				if a.json {
					return a.printJSON(append([]pending{}, all...))
				}
				if len(all) == 0 {
					a.notice("nothing waits for an answer")
				}
				for _, p := range all {
					if err := a.printPending(p); err != nil {
						return err
					}
				}
				if more > 0 {
					a.notice(counted(more, "request") + " more wait behind these")
				}
				return nil
			})
		},
	}
}

// pendingIn is what waits in the hosts, and how many more do that their lists have no
// room for. A host that does not answer is an error beside the others' lists.
func pendingIn(ctx context.Context, hosts []*control.Client) (all []pending, more int, err error) {
	for _, h := range hosts {
		list, failed := h.Pending(ctx)
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("host %d: %w", h.Pid(), failed))
			continue
		}
		for _, p := range list.Approvals {
			all = append(all, pending{h.Pid(), p, h})
		}
		more += list.More
	}
	return all, more, err
}

func (a *app) printPending(p pending) error {
	_, err := fmt.Fprintf(a.stdout, "%s  in host %d, asked at %s, until %s\n%s\n", p.ID, p.Pid,
		p.Asked.Local().Format(time.TimeOnly), p.Expires.Local().Format(time.TimeOnly), p.Request.Text(a.stdout.width()))
	return err
}

func (a *app) approvalsApproveCommand() *cobra.Command {
	var answer permission.Answer
	var always bool
	command := &cobra.Command{
		Use:   "approve ID",
		Short: "Say yes to a request, once or for good",
		Long: `Say yes to a request that toolhost approvals pending shows, once; with --always also
to what its patterns match from now on: exactly those that are shown as always, for
that project, plugin and action. The beginning of an id is enough.`,
		Example: `  toolhost approvals approve XJ4K
  toolhost approvals approve XJ4K --always --expires 24h --why "the release"`,
		Args:              oneRequest("approve"),
		ValidArgsFunction: a.completePending,
		RunE: func(cmd *cobra.Command, args []string) error {
			answer.Kind = permission.Once
			if always {
				answer.Kind = permission.Always
			}
			if answer.Expires > 0 && !always {
				return errors.New("--expires is for --always: an answer that is given once saves nothing")
			}
			return a.answer(cmd.Context(), args[0], answer)
		},
	}
	command.Flags().BoolVar(&always, "always", false, "also save the patterns that are shown")
	command.Flags().Var((*positive)(&answer.Expires), "expires", "for how long they are saved (default until they are revoked)")
	command.Flags().StringVar(&answer.Feedback, "why", "", "why; it is kept with what is saved and in the audit log")
	return command
}

func (a *app) approvalsRejectCommand() *cobra.Command {
	var why, session string
	command := &cobra.Command{
		Use:   "reject [ID]",
		Short: "Say no to a request, or to all of a session",
		Example: `  toolhost approvals reject XJ4K --why "use the test database"
  toolhost approvals reject --session review-7`,
		ValidArgsFunction: a.completePending,
		RunE: func(cmd *cobra.Command, args []string) error {
			if session != "" && len(args) == 0 {
				return a.rejectSession(cmd.Context(), session, why)
			}
			if err := oneRequest("reject")(cmd, args); err != nil || session != "" {
				return cmpError(err, "give the id of a request, or --session, not both")
			}
			return a.answer(cmd.Context(), args[0], permission.Answer{Kind: permission.Reject, Feedback: why})
		},
	}
	command.Flags().StringVar(&why, "why", "", "why; the model is told")
	command.Flags().StringVar(&session, "session", "", "reject all that waits for this session")
	return command
}

// cmpError is the error, or one with the text.
func cmpError(err error, text string) error {
	if err == nil {
		err = errors.New(text)
	}
	return err
}

// oneRequest checks that a command is given one request.
func oneRequest(command string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return fmt.Errorf("%s needs the id of one request; toolhost approvals pending has those that wait", command)
		}
		return nil
	}
}

// answer answers the request whose id begins so.
func (a *app) answer(ctx context.Context, id string, answer permission.Answer) error {
	return a.withHosts(ctx, func(hosts []*control.Client) error {
		p, err := find(ctx, hosts, id)
		if err != nil {
			return err
		}
		released, err := p.host.Reply(ctx, p.ID, answer)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(map[string]any{"id": p.ID, "answer": answer.Kind, "released": append([]string{}, released...)})
		}
		done := "approved " + p.ID
		switch answer.Kind {
		case permission.Always:
			done += " for good: " + strings.Join(shown.Exactly(p.Save), ", ")
		case permission.Reject:
			done = "rejected " + p.ID
		}
		if len(released) > 0 {
			done += "; with it " + strings.Join(released, ", ")
		}
		_, err = fmt.Fprintln(a.stdout, done)
		return err
	})
}

// find is the request whose id begins so, in whatever case.
func find(ctx context.Context, hosts []*control.Client, id string) (pending, error) {
	all, _, err := pendingIn(ctx, hosts)
	var found []pending
	for _, p := range all {
		if strings.HasPrefix(strings.ToUpper(p.ID), strings.ToUpper(id)) {
			found = append(found, p)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return pending{}, errors.Join(fmt.Errorf("no request %q waits for an answer; toolhost approvals pending has those that do", id), err)
	default:
		return pending{}, fmt.Errorf("%q is the beginning of %d ids: give more of it", id, len(found))
	}
}

func (a *app) rejectSession(ctx context.Context, session, why string) error {
	return a.withHosts(ctx, func(hosts []*control.Client) error {
		rejected, failed := 0, error(nil)
		for _, h := range hosts {
			n, err := h.RejectSession(ctx, session, why)
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("host %d: %w", h.Pid(), err))
			}
			rejected += n
		}
		if a.json {
			return errors.Join(failed, a.printJSON(map[string]int{"rejected": rejected}))
		}
		_, err := fmt.Fprintf(a.stdout, "rejected %s\n", counted(rejected, "request"))
		return errors.Join(failed, err)
	})
}

func (a *app) completePending(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var ids []string
	_ = a.withHosts(cmd.Context(), func(hosts []*control.Client) error {
		all, _, err := pendingIn(cmd.Context(), hosts)
		for _, p := range all {
			ids = append(ids, cobra.CompletionWithDesc(p.ID, cell(p.Tool+" "+strings.Join(p.Resources, ", "))))
		}
		return err
	})
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// lookEvery is how often a watch looks for hosts that have started.
const lookEvery = time.Second

func (a *app) approvalsWatchCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "watch",
		Short: "Show each request as it comes, in every host, until interrupted",
		Long: `Show each request for approval as it comes, and say when it is not pending any more,
in every host that runs or starts meanwhile, until interrupted. With --json a line
for each change: {"event": "pending", "pid": …, "id": …, …} or
{"event": "over", "pid": …, "id": …}.`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.watch(cmd.Context())
		},
	}
}

// watch follows every host, those that start later too, until ctx is over.
func (a *app) watch(ctx context.Context) error {
	ctx, over := context.WithCancel(ctx)
	defer over()
	var following errgroup.Group
	ended := make(chan string)
	followed := map[string]bool{} // by socket
	said := ""
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		hosts, err := control.Hosts(ctx, "")
		if err != nil && ctx.Err() == nil && err.Error() != said { // one that does not answer, say, ends nothing
			said = err.Error()
			a.notice(said)
		}
		for _, h := range hosts {
			if followed[h.Path()] {
				h.Close()
				continue
			}
			followed[h.Path()] = true
			following.Go(func() error {
				defer h.Close()
				err := a.follow(ctx, h)
				if err != nil {
					over()
				}
				select {
				case ended <- h.Path():
				case <-ctx.Done():
				}
				return err
			})
		}
		select {
		case path := <-ended:
			delete(followed, path)
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	if err := following.Wait(); !errors.Is(err, errGone) {
		return err
	}
	return nil
}

// errGone ends a watch that nobody reads.
var errGone = errors.New("nobody reads the output any more")

// follow says what comes and goes in one host until that ends.
func (a *app) follow(ctx context.Context, h *control.Client) error {
	before := map[string]bool{}
	for list, err := range h.Watch(ctx) {
		if err != nil { // the host has ended, and what waited in it
			list = control.List{}
		}
		now := map[string]bool{}
		for _, p := range list.Approvals {
			now[p.ID] = true
			if !before[p.ID] {
				if err := a.printCame(pending{h.Pid(), p, h}); err != nil {
					return err
				}
			}
		}
		for id := range before {
			if !now[id] && list.More == 0 {
				if err := a.printWent(h.Pid(), id); err != nil {
					return err
				}
			}
		}
		if before = now; a.stdout.gone() {
			return errGone
		}
	}
	return nil
}

func (a *app) printCame(p pending) error {
	if !a.json {
		return a.printPending(p)
	}
	return a.printLine(struct {
		Event string `json:"event"`
		pending
	}{"pending", p})
}

func (a *app) printWent(pid int, id string) error {
	if !a.json {
		_, err := fmt.Fprintf(a.stdout, "%s  is not pending any more\n\n", id)
		return err
	}
	return a.printLine(struct {
		Event string `json:"event"`
		Pid   int    `json:"pid"`
		ID    string `json:"id"`
	}{"over", pid, id})
}
