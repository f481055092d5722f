package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/mcpserver"
	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/service/permission"
)

// serveFlags are the flags of toolhost serve.
type serveFlags struct {
	fallback fallback
	client   string
	http     string
	tokens   string
	hosts    []string
	watch    bool
}

func (a *app) serveCommand() *cobra.Command {
	flags := &serveFlags{fallback: fallback(mcpserver.Deny)}
	command := &cobra.Command{
		Use:   "serve",
		Short: "Serve the tools to agents over the Model Context Protocol",
		Long: `Serve the Location's tools to an agent over the Model Context Protocol, on standard
input and output: nothing but messages is on standard output, and the end of the
input ends everything. With --http all Locations of the configuration are served
instead, at /locations/NAME/mcp of an address, with /healthz and /readyz. Whoever is on
this machine may come in at loopback; elsewhere, and where tokens are given, a bearer
token is needed. They stand in the file of --token-file or in TOOLHOST_TOKENS, a line
each: TOKEN, or NAME TOKEN. Nothing is encrypted: put a proxy in front that does, and
name it with --host.

What no rule decides is asked for at the agent, where it can ask its user, with what
would happen and the exact pattern that "always" would save. The same question can be
answered with toolhost approvals. Where the agent cannot ask, --approve says what
becomes of the question: deny says no at once, and how to allow it; wait leaves it to
toolhost approvals, for as long as --approve-timeout says.

When the configuration changes, or the program of a plugin, what is new of it takes
effect while the rest goes on. What cannot be loaded or started leaves everything as it
was; toolhost status says why. --watch=false leaves that to toolhost reload.

Exit status: 0 when the input ended or a signal came, within five seconds; 2 usage or
configuration; 4 something broke. A second signal ends it at once, by that signal: shells
say 130 for an interrupt, and 143 for SIGTERM. No process that it started is left then
either; the next host that starts sweeps away what it left on the disk.`,
		Example: `  toolhost serve -C ~/project
  toolhost serve --print-config claude-code
  toolhost serve --http 127.0.0.1:8080
  toolhost serve --http :8080 --token-file ~/.config/toolhost/tokens --host tools.example.org`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if flags.client != "" {
				return a.printClientConfig(flags.client)
			}
			if flags.http == "" && (flags.tokens != "" || len(flags.hosts) > 0) {
				return errors.New("--token-file and --host are for --http")
			}
			if cmd.Flags().Changed("token-file") && flags.tokens == "" {
				return errors.New("--token-file names no file: whoever reaches the address would come in")
			}
			return a.serve(cmd.Context(), flags)
		},
	}
	command.Flags().Var(&flags.fallback, "approve", "what becomes of a question that the agent cannot ask its user: deny or wait")
	a.registerPatience(command)
	command.Flags().StringVar(&flags.http, "http", "", "serve over HTTP at this address, such as 127.0.0.1:8080")
	command.Flags().StringVar(&flags.tokens, "token-file", "", "the bearer tokens of those who may come in")
	command.Flags().StringSliceVar(&flags.hosts, "host", nil, "a name under which clients reach the server, beside its address")
	_ = command.RegisterFlagCompletionFunc("http", cobra.NoFileCompletions)
	_ = command.RegisterFlagCompletionFunc("host", cobra.NoFileCompletions)
	command.Flags().BoolVar(&flags.watch, "watch", true, "reload when the configuration or the program of a plugin changes")
	command.Flags().StringVar(&flags.client, "print-config", "", "print what a client is configured with: "+strings.Join(clientNames(), ", "))
	_ = command.RegisterFlagCompletionFunc("approve", cobra.FixedCompletions([]string{string(mcpserver.Deny), string(mcpserver.Wait)}, cobra.ShellCompDirectiveNoFileComp))
	_ = command.RegisterFlagCompletionFunc("print-config", cobra.FixedCompletions(clientNames(), cobra.ShellCompDirectiveNoFileComp))
	return command
}

// fallback is a flag for what becomes of a question that a client cannot be asked.
type fallback mcpserver.Fallback

func (f *fallback) Set(text string) error {
	if !slices.Contains([]mcpserver.Fallback{mcpserver.Deny, mcpserver.Wait}, mcpserver.Fallback(text)) {
		return errors.New("it is deny or wait")
	}
	*f = fallback(text)
	return nil
}

func (f *fallback) String() string { return string(*f) }
func (f *fallback) Type() string   { return "how" }

// serve serves until the client's input ends, or a signal comes: neither is an error.
func (a *app) serve(ctx context.Context, flags *serveFlags) (err error) {
	log, err := a.logger()
	if err != nil {
		return err
	}
	cfg, err := a.load(ctx)
	if err != nil {
		return err
	}
	var serving func(context.Context, *mcpserver.Server) error
	if flags.http == "" {
		serving, err = a.overStdio(cfg)
	} else {
		serving, err = a.overHTTP(cfg, flags)
	}
	if err != nil {
		return err
	}
	life := scope.New(ctx, "serve")
	defer func() {
		if closing := life.Close(context.WithoutCancel(ctx)); closing != nil && err == nil {
			err = operational(closing)
		}
	}()
	queue := permission.NewQueue(permission.QueueOptions{Approvals: host.Approvals(a.state), Timeout: a.patience})
	by := mcpserver.NewApprover(life, queue, mcpserver.Fallback(flags.fallback), log)
	return a.withHost(ctx, cfg, approver{Approver: by, queue: queue}, a.loadAgain, log, func(ctx context.Context, h *host.Host) error {
		if flags.watch {
			load := loader(a.loadAgain).of(h)
			if _, err := h.Watch(host.WatchOptions{Load: load, Files: a.mayAppear()}); err != nil {
				a.notice(fmt.Sprintf("changes of the configuration are not noticed; toolhost reload has them read: %v", err))
			}
		}
		server, err := mcpserver.New(life, mcpserver.Options{Host: h, Approver: by, Version: versionText(), Log: log})
		if err != nil {
			return operational(err)
		}
		err = serving(ctx, server)
		// Before the host, whose calls it waits for.
		if closing := life.Close(context.WithoutCancel(ctx)); closing != nil {
			log.Error("close the server", slog.Any("error", closing))
		}
		if err != nil && ctx.Err() == nil {
			return operational(fmt.Errorf("serve: %w", err))
		}
		return nil
	})
}

// overStdio serves one Location on the command's own streams.
func (a *app) overStdio(cfg *config.Config) (func(context.Context, *mcpserver.Server) error, error) {
	if _, err := cfg.Location(a.location); err != nil {
		return nil, err
	}
	in, out, err := a.protocolStreams()
	if err != nil {
		return nil, operational(err)
	}
	return func(ctx context.Context, server *mcpserver.Server) error {
		return server.ServeStdio(ctx, a.location, in, out)
	}, nil
}

// tokensVariable is the environment variable that has the tokens where no file does.
const tokensVariable = "TOOLHOST_TOKENS"

// overHTTP serves every Location at an address.
func (a *app) overHTTP(cfg *config.Config, flags *serveFlags) (func(context.Context, *mcpserver.Server) error, error) {
	options := mcpserver.HTTPOptions{Hosts: flags.hosts}
	var err error
	switch text, given := os.LookupEnv(tokensVariable); {
	case flags.tokens != "":
		options.Tokens, err = mcpserver.ReadTokens(filepath.Join(a.dirFor(flags.tokens), flags.tokens))
	case given:
		if options.Tokens, err = mcpserver.ParseTokens(text); err != nil {
			err = fmt.Errorf("%s: %w", tokensVariable, err)
		}
	}
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, server *mcpserver.Server) error {
		listening, err := server.ListenHTTP(flags.http, options)
		if err != nil {
			return err
		}
		for _, l := range cfg.Locations {
			a.notice("serving " + listening.URL(l.Name))
		}
		return listening.Serve(ctx)
	}, nil
}

// protocolStreams are the command's streams for the protocol and nothing else: whatever
// this process, or a library in it, prints on standard output from now on goes to
// standard error (case E02).
func (a *app) protocolStreams() (io.ReadCloser, io.WriteCloser, error) {
	in, ok := a.stdin.(io.ReadCloser)
	if !ok {
		in = io.NopCloser(a.stdin)
	}
	file, ok := a.stdout.to.(*os.File)
	if !ok {
		return in, withoutClose{a.stdout.to}, nil
	}
	descriptor, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, nil, fmt.Errorf("standard output: %w", err)
	}
	// A write to a pipe that nobody reads ends when the pipe is closed, if it does not block
	// in the system. Others may have a file or a terminal open too, and are left alone.
	var stat unix.Stat_t
	if err := unix.Fstat(descriptor, &stat); err == nil && (stat.Mode&unix.S_IFMT == unix.S_IFIFO || stat.Mode&unix.S_IFMT == unix.S_IFSOCK) {
		if err := unix.SetNonblock(descriptor, true); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("standard output: %w", err), unix.Close(descriptor))
		}
	}
	if err := unix.Dup3(int(os.Stderr.Fd()), int(file.Fd()), 0); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("standard output: %w", err), unix.Close(descriptor))
	}
	return in, os.NewFile(uintptr(descriptor), "protocol"), nil
}

// withoutClose is a writer that is not this command's to close.
type withoutClose struct{ io.Writer }

func (withoutClose) Close() error { return nil }
