package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolhost/toolhost/control"
	"github.com/toolhost/toolhost/sandbox"
)

// withHosts gives f the hosts that run now. Those that do not answer are said.
func (a *app) withHosts(ctx context.Context, f func([]*control.Client) error) error {
	hosts, err := control.Hosts(ctx, "")
	defer func() {
		for _, h := range hosts {
			h.Close()
		}
	}()
	if err != nil && len(hosts) == 0 {
		return operational(err)
	}
	if err != nil {
		a.notice(err.Error())
	}
	return f(hosts)
}

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the hosts that run now",
		Long: `Show the hosts of yours that run now and have a control socket: programs that embed
the host, toolhost serve, and every toolhost call that asks somebody. Of each its process, its
Locations with their plugins, how many requests wait for an answer, and whether the
audit log is written.`,
		Example: `  toolhost status
  toolhost status --json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withHosts(cmd.Context(), func(hosts []*control.Client) error {
				statuses := []control.Status{}
				var failed error
				for _, h := range hosts {
					status, err := h.Status(cmd.Context())
					if err != nil { // it may have ended just now
						failed = errors.Join(failed, fmt.Errorf("host %d: %w", h.Pid(), err))
						continue
					}
					statuses = append(statuses, status)
				}
				if failed != nil {
					a.notice(failed.Error())
				}
				return a.printStatuses(statuses)
			})
		},
	}
}

func (a *app) printStatuses(statuses []control.Status) error {
	if a.json {
		return a.printJSON(statuses)
	}
	if len(statuses) == 0 {
		a.notice("no host runs")
	}
	for _, s := range statuses {
		pending := counted(s.Pending, "request") + " pending"
		if !s.Approvals {
			pending = "nothing can be answered here"
		}
		fmt.Fprintf(a.stdout, "host %d (%s) since %s, %s\n", s.Pid, cell(s.Version), s.Started.Local().Format(time.DateTime), pending)
		if s.Audit.Failures > 0 {
			fmt.Fprintf(a.stdout, "  the audit log lacks %d entries: %s\n", s.Audit.Failures, cell(s.Audit.LastFailure))
		}
		for _, l := range s.Locations {
			fmt.Fprintf(a.stdout, "  location %s at %s, %d suspended\n", cell(l.Name), cell(l.Root), l.Suspended)
			table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			for _, p := range l.Plugins {
				confined := "confined"
				if p.Confinement.Tier != sandbox.Strict {
					confined = "not confined"
				}
				if p.Commands != nil {
					confined += ", commands " + p.Commands.String()
				}
				fmt.Fprintf(table, "    %s\t%s\t%s\t%s\t%s\n", cell(p.Name), p.State, counted(len(p.Tools), "tool"), confined, strings.TrimSpace(cell(p.Reason)))
			}
			if err := table.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}
