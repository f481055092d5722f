package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/sandbox"
	"github.com/toolhost/toolhost/state"
	"github.com/toolhost/toolhost/tool/registry"
)

// app is one run of the command: its streams and the flags that all commands
// share.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	state          *state.Store

	dir      string
	file     string
	location string
	json     bool
	timeout  time.Duration
	logLevel string
}

// run runs the command line and gives the exit status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, state: state.New(state.Options{})}
	defer func() { _ = a.state.Close() }()
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err != nil && err.Error() != "" {
		fmt.Fprintf(stderr, "toolhost: %s\n", a.forTerminal(err.Error()))
	}
	return exitStatus(ctx, err)
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "toolhost",
		Short: "Run a project's tools, each plugin in a process of its own",
		Long: `toolhost runs the tools of a project for an agent, or for you. Each plugin is a
process of its own that has the services it was granted and nothing else.

The project is described by toolhost.yaml, the nearest one upward. Without one,
the current directory is served with the built-in filesystem tools, which read.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	flags := root.PersistentFlags()
	flags.StringVarP(&a.dir, "directory", "C", "", "run as if started in this directory")
	flags.StringVarP(&a.file, "config", "c", "", "use this configuration file, and trust it for this run (also TOOLHOST_CONFIG)")
	flags.StringVarP(&a.location, "location", "l", "", "which Location, where there are several")
	flags.BoolVar(&a.json, "json", false, "print one JSON value")
	flags.DurationVar(&a.timeout, "timeout", 0, "how long the call may take (default 5m)")
	flags.StringVar(&a.logLevel, "log-level", "warn", "debug, info, warn or error")
	_ = root.MarkPersistentFlagDirname("directory")
	_ = root.MarkPersistentFlagFilename("config", "yaml", "yml", "json")
	_ = root.RegisterFlagCompletionFunc("log-level", cobra.FixedCompletions([]string{"debug", "info", "warn", "error"}, cobra.ShellCompDirectiveNoFileComp))
	_ = root.RegisterFlagCompletionFunc("location", a.completeLocations)
	root.AddCommand(a.toolsCommand(), a.callCommand(), a.checkCommand(), a.trustCommand(), a.configCommand(), a.versionCommand())
	return root
}

// load reads the configuration and says on standard error what is noteworthy.
func (a *app) load(ctx context.Context) (*config.Config, error) {
	cfg, err := config.Load(ctx, config.Options{
		Dir: a.dir, File: a.file, Builtins: builtinNames(), TrustedDigest: a.trustedDigest,
	})
	if err != nil {
		return nil, err
	}
	for _, notice := range cfg.Notices {
		fmt.Fprintf(a.stderr, "toolhost: %s\n", a.forTerminal(notice))
	}
	return cfg, nil
}

// withLocation opens the host and one Location for f, and closes them after it.
func (a *app) withLocation(ctx context.Context, f func(context.Context, *location.Location) error) (err error) {
	log, err := a.logger()
	if err != nil {
		return err
	}
	cfg, err := a.load(ctx)
	if err != nil {
		return err
	}
	if _, err := cfg.Location(a.location); err != nil {
		return err
	}
	h, err := host.Open(ctx, cfg, host.Options{
		Launcher: sandbox.Launcher{Path: self, Args: []string{launchCommand}},
		Builtins: builtinCommands(),
		Log:      log,
	})
	if err != nil {
		return operational(err)
	}
	defer func() {
		closing := h.Close(context.WithoutCancel(ctx))
		if closing != nil && err == nil {
			err = operational(closing)
		}
	}()
	l, err := h.Location(ctx, a.location)
	if err != nil {
		if ctx.Err() != nil {
			return &exitError{exitInterrupted, fmt.Errorf("interrupted")}
		}
		return operational(err)
	}
	return f(ctx, l)
}

// withCapture is withLocation for what calls tools: it also says which plugins do
// not serve.
func (a *app) withCapture(ctx context.Context, f func(context.Context, *registry.Capture) error) error {
	return a.withLocation(ctx, func(ctx context.Context, l *location.Location) error {
		for _, p := range l.Plugins() {
			if p.Reason != "" {
				fmt.Fprintf(a.stderr, "toolhost: %s\n", a.forTerminal(p.Reason))
			}
		}
		return f(ctx, l.Capture())
	})
}

// self is this program, whatever happens to its file meanwhile.
const self = "/proc/self/exe"

func builtinNames() []string { return slices.Sorted(maps.Keys(builtins())) }

func builtinCommands() map[string][]string {
	out := map[string][]string{}
	for name := range builtins() {
		out[name] = []string{self, pluginCommand, name}
	}
	return out
}

// logger is the host's log, on standard error.
func (a *app) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.logLevel)); err != nil {
		return nil, fmt.Errorf("log level %q is unknown: it is debug, info, warn or error", a.logLevel)
	}
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level})), nil
}

func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// forTerminal takes out of a text what would control a terminal, if one reads
// it. A pipe gets the text as it is.
func (a *app) forTerminal(text string) string {
	file, ok := a.stdout.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return text
	}
	return plain(text)
}

// plain replaces control characters, except the ends of lines and tabs.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			return '\uFFFD'
		}
		return r
	}, text)
}
