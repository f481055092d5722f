package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolhost/toolhost/control"
)

// logsFlags say what of a log is wanted.
type logsFlags struct {
	follow bool
	lines  lineCount
	pid    int
}

func (a *app) logsCommand() *cobra.Command {
	flags := &logsFlags{lines: 100}
	command := &cobra.Command{
		Use:   "logs PLUGIN",
		Short: "Print what a plugin wrote last",
		Long: `Print the end of what a plugin of a running host wrote, on its standard streams and to its
log: 64 KiB are kept of each, across restarts and rebuilds. Control characters are
replaced. -f goes on with what comes, until interrupted, or until the plugin or its host is
gone. Where several hosts or Locations have a plugin of that name, --pid and -l say which
one is meant.`,
		Example: `  toolhost logs outline
  toolhost logs outline -f -n 0`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return errors.New("logs needs the name of one plugin: toolhost status lists those that run")
			}
			return nil
		},
		ValidArgsFunction: a.completePlugins,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withHosts(cmd.Context(), func(hosts []*control.Client) error {
				return a.logs(cmd.Context(), hosts, args[0], flags)
			})
		},
	}
	f := command.Flags()
	f.BoolVarP(&flags.follow, "follow", "f", false, "go on with what comes, until interrupted")
	f.VarP(&flags.lines, "lines", "n", "how many lines of what is there are printed, or all")
	_ = command.RegisterFlagCompletionFunc("lines", cobra.NoFileCompletions)
	a.registerPid(command, &flags.pid)
	return command
}

// lineCount is a flag for how many lines; below 0 is all.
type lineCount int

func (c *lineCount) Set(text string) error {
	n, err := strconv.Atoi(text)
	if text == "all" {
		n, err = -1, nil
	} else if err == nil && n < 0 {
		err = strconv.ErrRange
	}
	if err != nil {
		return errors.New("give a number from 0, or all")
	}
	*c = lineCount(n)
	return nil
}

func (c *lineCount) String() string {
	if *c < 0 {
		return "all"
	}
	return strconv.Itoa(int(*c))
}

func (c *lineCount) Type() string { return "number" }

// running is a plugin in a host that runs.
type running struct {
	host             *control.Client
	location, plugin string
}

// places says of plugins where they are.
func places(all []running) string {
	texts := make([]string, 0, len(all))
	for _, r := range all {
		texts = append(texts, fmt.Sprintf("%s (--pid %d -l %s)", cell(r.plugin), r.host.Pid(), cell(r.location)))
	}
	return strings.Join(texts, ", ")
}

// runningIn are the plugins of the hosts, of one of them if there is a pid.
func (a *app) runningIn(ctx context.Context, hosts []*control.Client, pid int) (all []running, err error) {
	for _, h := range hosts {
		if pid != 0 && h.Pid() != pid {
			continue
		}
		status, failed := h.Status(ctx)
		err = errors.Join(err, failed)
		for _, l := range status.Locations {
			if a.location != "" && l.Name != a.location {
				continue
			}
			for _, p := range l.Plugins {
				all = append(all, running{h, l.Name, p.Name})
			}
		}
	}
	return all, err
}

// logs prints the log of the plugin that is meant.
func (a *app) logs(ctx context.Context, hosts []*control.Client, name string, flags *logsFlags) error {
	all, err := a.runningIn(ctx, hosts, flags.pid)
	found := slices.DeleteFunc(slices.Clone(all), func(r running) bool { return r.plugin != name })
	switch {
	case len(found) > 1:
		return fmt.Errorf("several plugins are called %s: say which one is meant of %s", cell(name), places(found))
	case len(found) == 0 && len(hosts) == 0:
		return operational(errors.New("no host runs, so there is no log: toolhost serve starts one, and toolhost check says what a plugin wrote that does not start"))
	case len(found) == 0 && len(all) == 0:
		return operational(errors.Join(errors.New("no such host has a Location that is active: a Location is activated when its tools are first asked for; toolhost status shows what runs"), err))
	case len(found) == 0:
		return operational(errors.Join(fmt.Errorf("no plugin %s runs; there are %s", cell(name), places(all)), err))
	}
	one := found[0]
	if !flags.follow {
		log, err := one.host.Log(ctx, one.location, name, int(flags.lines))
		if err != nil {
			return operational(err)
		}
		if log.Text == "" && flags.lines != 0 {
			a.notice(cell(name) + " wrote nothing")
		}
		return a.printLog(log)
	}
	for log, err := range one.host.FollowLog(ctx, one.location, name, int(flags.lines)) {
		switch {
		case errors.Is(err, control.ErrClosed):
			a.notice("the host ended, or gave up waiting for what is printed here to be read")
			return nil
		case err != nil && ctx.Err() != nil:
			return nil
		case err != nil:
			return operational(err)
		}
		if err := a.printLog(log); err != nil || a.stdout.gone() {
			return err
		}
		if log.Ended != "" {
			a.notice(cell(log.Ended))
		}
	}
	return nil
}

func (a *app) printLog(log control.Log) error {
	if a.json {
		return a.printLine(log)
	}
	if log.Lost > 0 {
		a.notice(counted(int(log.Lost), "byte") + " before this are not kept any more")
	}
	_, err := fmt.Fprint(a.stdout, log.Text)
	return err
}

func (a *app) completePlugins(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	_ = a.withHosts(cmd.Context(), func(hosts []*control.Client) error {
		all, err := a.runningIn(cmd.Context(), hosts, 0)
		for _, r := range all {
			names = append(names, cobra.CompletionWithDesc(r.plugin, cell(strings.TrimSpace(r.location))))
		}
		return err
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}
