package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/control"
	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/location"
)

// A loader loads what is configured now, beside what is in effect.
type loader func(ctx context.Context, effective *config.Config) (*config.Config, error)

// of loads for a host. What is held is in effect then, and that it is, is an error all the same.
func (load loader) of(h *host.Host) func(context.Context) (*config.Config, error) {
	return func(ctx context.Context) (*config.Config, error) {
		cfg, err := load(ctx, h.Config())
		if held, ok := errors.AsType[*heldError](err); ok {
			return held.config, err
		}
		return cfg, err
	}
}

// reload reloads a host that is told to. That something is held is an error, and what the
// status says.
func (load loader) reload(ctx context.Context, h *host.Host) (host.Report, error) {
	return h.ReloadFrom(ctx, load.of(h))
}

// heldError says which file is not trusted as it is now. In effect is what it was when it
// was trusted, with what it denies now (law 40).
type heldError struct {
	path   string
	config *config.Config
}

func (e *heldError) Error() string {
	return fmt.Sprintf("%s changed and is not trusted as it is now: run toolhost trust %s, and then toolhost reload; until then what was trusted is in effect, with what is denied now", e.path, e.path)
}

// loadAgain loads the configuration as the command did. A file that was trusted, and is
// another one now, does not take effect before it is trusted again; the one that was goes on
// until then, with what the new one denies: the error is a [heldError]. Where it is not known
// what was trusted, all stays as it is. A file whose trust was taken back is as if it were
// not there.
func (a *app) loadAgain(ctx context.Context, effective *config.Config) (*config.Config, error) {
	cfg, err := a.read(ctx, false)
	if err != nil {
		return nil, err
	}
	for _, file := range cfg.Files {
		was := slices.ContainsFunc(effective.Files, func(f config.File) bool { return f.Path == file.Path && f.Trusted })
		if file.Trusted || !was {
			continue
		}
		digest, err := a.trustedDigest(ctx, file.Path)
		if err != nil {
			return nil, err
		}
		if digest != "" {
			held, err := a.read(ctx, true)
			if err == nil && slices.ContainsFunc(held.Files, func(f config.File) bool { return f.Path == file.Path && f.Trusted }) {
				return nil, &heldError{file.Path, held}
			}
			return nil, fmt.Errorf("%s changed and is not trusted as it is now: run toolhost trust %s, and then toolhost reload", file.Path, file.Path)
		}
	}
	for _, notice := range cfg.Notices {
		a.notice(notice)
	}
	return cfg, nil
}

// mayAppear are the files that would be read if they were there.
func (a *app) mayAppear() (files []string) {
	if base, err := os.UserConfigDir(); err == nil {
		files = append(files, filepath.Join(base, "toolhost", "config.yaml"))
	}
	if dir, err := filepath.Abs(a.dir); err == nil && cmp.Or(a.file, os.Getenv("TOOLHOST_CONFIG")) == "" {
		files = append(files, filepath.Join(dir, config.FileName))
	}
	return files
}

// reloaded is what became of a reload in one host.
type reloaded struct {
	Pid int `json:"pid"`
	control.Reload
}

func (a *app) reloadCommand() *cobra.Command {
	var pid int
	command := &cobra.Command{
		Use:   "reload",
		Short: "Have the hosts that serve load their configuration anew",
		Long: `Have every toolhost serve that runs, or the one with --pid, load its configuration anew,
with the flags that it was started with and what you trust now, and look whether the
programs of its plugins changed. It is for --watch=false, for what you trusted since, and to
try again what failed or was refused: else a host notices by itself.

What did not change goes on. A Location whose plugins do not start as they are configured
now stays as it was, and so does everything where the configuration has mistakes. What is
tried again is waited for, as long as a start may take; of what does not serve its state and
the reason are said.

Exit status: 0 all of it is in effect, 4 some of it is not, or no such host runs.`,
		Example: `  toolhost reload
  toolhost reload --json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withHosts(cmd.Context(), func(hosts []*control.Client) error {
				return a.reload(cmd.Context(), hosts, pid)
			})
		},
	}
	a.registerPid(command, &pid)
	return command
}

// registerPid adds the flag that says which host.
func (a *app) registerPid(command *cobra.Command, pid *int) {
	command.Flags().IntVar(pid, "pid", 0, "only the host with this process id")
	_ = command.RegisterFlagCompletionFunc("pid", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		var pids []string
		_ = a.withHosts(cmd.Context(), func(hosts []*control.Client) error {
			for _, h := range hosts {
				pids = append(pids, fmt.Sprint(h.Pid()))
			}
			return nil
		})
		return pids, cobra.ShellCompDirectiveNoFileComp
	})
}

func (a *app) reload(ctx context.Context, hosts []*control.Client, pid int) error {
	all := []reloaded{}
	var failed error
	for _, h := range hosts {
		if pid != 0 && h.Pid() != pid {
			continue
		}
		status, err := h.Status(ctx)
		if err == nil && !status.Reloads {
			if pid != 0 {
				return operational(fmt.Errorf("host %d does not load its configuration anew: end it, and start it again", pid))
			}
			continue
		}
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		result, err := h.Reload(ctx)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("what became of the reload is not known: %w; toolhost status may say it", err))
			continue
		}
		all = append(all, reloaded{h.Pid(), result})
	}
	if len(all) == 0 && failed == nil {
		if pid != 0 {
			return operational(fmt.Errorf("no host of yours with the process id %d runs: toolhost status lists those that do", pid))
		}
		return operational(errors.New("no host runs that could be reloaded: toolhost serve starts one, and each other command reads the configuration itself"))
	}
	bad := failed != nil
	for _, r := range all {
		bad = bad || r.Error != "" || slices.ContainsFunc(r.Locations, func(l location.Report) bool { return len(l.Failures) > 0 })
	}
	if err := a.printReloads(all); err != nil {
		return err
	}
	if failed != nil {
		return operational(failed)
	}
	if bad {
		return operational(errors.New("not all of it is in effect: correct what is said, and it is read again; what served before goes on"))
	}
	return nil
}

func (a *app) printReloads(all []reloaded) error {
	if a.json {
		return a.printJSON(all)
	}
	for _, r := range all {
		fmt.Fprintf(a.stdout, "host %d\n", r.Pid)
		if len(r.Locations) == 0 && r.Error != "" {
			fmt.Fprintf(a.stdout, "  nothing was changed: %s\n", indented(r.Error, "    "))
		}
		for _, l := range r.Locations {
			a.printReport(l)
		}
		if len(r.Locations) > 0 && r.Error != "" && !slices.ContainsFunc(r.Locations, func(l location.Report) bool { return l.Stale != "" }) {
			fmt.Fprintf(a.stdout, "  not all of it is in effect: %s\n", indented(r.Error, "    "))
		}
	}
	return nil
}

func (a *app) printReport(l location.Report) {
	fmt.Fprintf(a.stdout, "  location %s%s\n", cell(l.Location), map[bool]string{true: ": closed, as it is not configured any more"}[l.Closed])
	switch {
	case l.Closed:
		return
	case l.Inactive:
		fmt.Fprintln(a.stdout, "    not active: it will be what is configured now when it is asked for")
		return
	case l.Stale != "":
		fmt.Fprintf(a.stdout, "    as it was before: %s\n", indented(l.Stale, "      "))
		return
	}
	failed := map[string]string{}
	for _, f := range l.Failures {
		if f.State != "" {
			fmt.Fprintf(a.stdout, "    %s: %s: %s\n", cell(f.Plugin), f.State, indented(f.Reason, "      "))
			continue
		}
		failed[f.Plugin] = f.Reason
	}
	for _, group := range []struct {
		word  string
		names []string
	}{{"started", l.Added}, {"replaced", l.Changed}, {"removed", l.Removed}, {"kept", l.Kept}} {
		for _, name := range group.names {
			if reason, ok := failed[name]; ok {
				fmt.Fprintf(a.stdout, "    %s: failed, and the last good one serves: %s\n", cell(name), indented(reason, "      "))
				continue
			}
			fmt.Fprintf(a.stdout, "    %s: %s\n", cell(name), group.word)
		}
	}
	for _, changed := range []struct {
		what string
		did  bool
	}{{"permissions", l.Permissions}, {"output", l.Output}, {"instructions", l.Instructions}} {
		if changed.did {
			fmt.Fprintf(a.stdout, "    %s: changed\n", changed.what)
		}
	}
}

// indented is a text whose lines stand below each other, each in a cell of its own.
func indented(text, by string) string {
	var out []string
	for line := range strings.Lines(strings.TrimSpace(text)) {
		out = append(out, cell(strings.TrimRight(line, "\n")))
	}
	return strings.Join(out, "\n"+by)
}
