package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/control"
	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/sandbox"
	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/state"
	"github.com/toolhost/toolhost/tool/registry"
)

// withLocation opens the host and one Location for f, and closes them after it.
func (a *app) withLocation(ctx context.Context, f func(context.Context, *location.Location) error) error {
	log, err := a.logger()
	if err != nil {
		return err
	}
	cfg, err := a.load(ctx)
	if err != nil {
		return err
	}
	configured, err := cfg.Location(a.location)
	if err != nil {
		if a.location == "" {
			err = fmt.Errorf("%w with -l", err)
		}
		return err
	}
	if a.examines {
		for _, doubt := range configured.Doubts() {
			a.notice(doubt)
		}
	}
	by := a.approver()
	return a.withHost(ctx, cfg, by, nil, log, func(ctx context.Context, h *host.Host) error {
		l, err := h.Location(ctx, a.location)
		if err != nil {
			if ctx.Err() != nil {
				return &exitError{exitInterrupted, fmt.Errorf("interrupted")}
			}
			if errors.Is(err, fs.ErrNotExist) {
				return err // the configuration names a root that is not there
			}
			return operational(err)
		}
		return withApprover(ctx, by, func(ctx context.Context) error { return f(ctx, l) })
	})
}

// oneShot says why a command starts no process that would go on after its call.
const oneShot = "this host ends with this call, and every process with it: run toolhost serve, and call process_start there"

// withHost opens the host for f, with its audit log, and the control socket where
// something can be answered through it. load, of a host that goes on when a call has ended,
// loads what is configured now, beside what is in effect. A command that examines calls nothing:
// it is told what a host would do that goes on.
func (a *app) withHost(ctx context.Context, cfg *config.Config, by approver, load loader, log *slog.Logger, f func(context.Context, *host.Host) error) (err error) {
	audit := state.NewAudit(state.AuditOptions{Redact: cfg.Audit.Redact})
	supervision, once := location.Supervision{}, ""
	if load == nil {
		supervision.Restarts, once = -1, oneShot // what failed is said, and not waited for
	}
	if a.examines {
		once = ""
	}
	h, err := host.Open(ctx, cfg, host.Options{
		Approver: by.Approver,
		Launcher: sandbox.Launcher{Path: self, Args: []string{launchCommand}},
		Builtins: builtinCommands(),
		State:    a.state,
		Audit:    audit,
		OneShot:  once,
		Log:      log,

		Supervision: supervision,
	})
	if err != nil {
		return operational(err)
	}
	life := scope.New(ctx, "toolhost")
	defer func() {
		ctx := context.WithoutCancel(ctx)
		closing := errors.Join(life.Close(ctx), h.Close(ctx), audit.Close())
		if closing != nil && err == nil {
			err = operational(closing)
		}
	}()
	if by.queue != nil {
		options := control.Options{Host: h, Queue: by.queue, Audit: audit, Version: versionText(), Log: log}
		if load != nil {
			options.Reload = func(ctx context.Context) (host.Report, error) { return load.reload(ctx, h) }
		}
		_, err := control.Listen(life, options)
		if err != nil && by.away {
			return operational(fmt.Errorf("--approve ask: there is no terminal here, and none can reach this: %w", err))
		}
		if err != nil {
			a.notice("what is asked cannot be answered from another terminal: " + err.Error())
		}
	}
	return f(ctx, h)
}

// withCapture is withLocation for what calls tools: it also says which plugins do
// not serve.
func (a *app) withCapture(ctx context.Context, f func(context.Context, *registry.Capture) error) error {
	return a.withLocation(ctx, func(ctx context.Context, l *location.Location) error {
		if len(l.Plugins()) == 0 {
			a.notice(noPlugins)
		}
		for _, p := range l.Plugins() {
			if p.Reason != "" {
				a.notice("plugin " + p.Name + ": " + p.Reason)
			}
		}
		return f(ctx, l.Capture())
	})
}

// noPlugins is said where a configuration has none, which may not be what was meant.
const noPlugins = "no plugins are configured: name one under plugins, such as filesystem: {}"
