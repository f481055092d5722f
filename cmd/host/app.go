package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/state"
	"github.com/toolhost/toolhost/tool"
)

// app is one run of the command: its streams and the flags that all commands
// share.
type app struct {
	stdin          io.Reader
	stdout, stderr *output
	state          *state.Store

	dir      string
	file     string
	location string
	json     bool
	timeout  time.Duration
	approve  approval
	patience time.Duration // how long a question waits for its answer
	calls    bool          // the command calls tools, so that somebody may have to be asked
	examines bool          // the command is about the rules, so that what is doubtful in them is said
	logLevel string
}

// run runs the command line and gives the exit status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: newOutput(stdout), stderr: newOutput(stderr), state: state.New(state.Options{})}
	defer func() { _ = a.state.Close() }()
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	err := root.ExecuteContext(ctx)
	if failed := a.stdout.failed(); failed != nil && err == nil {
		err = operational(fmt.Errorf("print the answer: %w", failed))
	}
	if err != nil && err.Error() != "" {
		a.notice(err.Error())
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
the current directory is served with the built-in filesystem tools, which read, and
change files once you allow it.`,
		Version:       versionText(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          commandArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		ValidArgsFunction:          cobra.NoFileCompletions,
		SuggestionsMinimumDistance: 2,
	}
	flags := root.PersistentFlags()
	flags.StringVarP(&a.dir, "directory", "C", "", "run as if started in this directory")
	flags.StringVarP(&a.file, "config", "c", "", "use this configuration file, and trust it for this run (also TOOLHOST_CONFIG)")
	flags.StringVarP(&a.location, "location", "l", "", "which Location, where there are several")
	flags.BoolVar(&a.json, "json", false, "print one JSON value")
	flags.Var((*positive)(&a.timeout), "timeout", "how long the call may take (default 5m)")
	flags.StringVar(&a.logLevel, "log-level", "warn", "debug, info, warn or error")
	_ = root.MarkPersistentFlagDirname("directory")
	_ = root.MarkPersistentFlagFilename("config", "yaml", "yml", "json")
	_ = root.RegisterFlagCompletionFunc("log-level", cobra.FixedCompletions([]string{"debug", "info", "warn", "error"}, cobra.ShellCompDirectiveNoFileComp))
	_ = root.RegisterFlagCompletionFunc("location", a.completeLocations)
	root.SetVersionTemplate("toolhost {{.Version}}\n")
	root.AddCommand(a.toolsCommand(), a.callCommand(), a.serveCommand(), a.callsCommand(), a.outputsCommand(), a.approvalsCommand(), a.explainCommand(), a.auditCommand(), a.statusCommand(), a.logsCommand(), a.reloadCommand(),
		a.checkCommand(), a.trustCommand(), a.configCommand(), a.versionCommand())
	return root
}

// commandArgs says of a command that there is none what may have been meant: another
// one, or a tool.
func commandArgs(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("unknown command %q: toolhost --help lists the commands", args[0])
	near := slices.DeleteFunc(root.SuggestionsFor(args[0]), func(name string) bool {
		return !strings.HasPrefix(name, args[0]) && max(len(name)-len(args[0]), len(args[0])-len(name)) > 1 // read, a tool, is not meant for reload
	})
	if len(near) > 0 {
		err = fmt.Errorf("%w; did you mean %q?", err, near[0])
	}
	if tool.EffectiveName(args[0]) == args[0] {
		err = fmt.Errorf("%w; a tool is called with toolhost call %s", err, args[0])
	}
	return err
}

// load reads the configuration and says on standard error what is noteworthy.
func (a *app) load(ctx context.Context) (*config.Config, error) {
	cfg, err := a.read(ctx, false)
	if err != nil {
		return nil, err
	}
	for _, notice := range cfg.Notices {
		a.notice(notice)
	}
	return cfg, nil
}

// read reads the configuration. With hold a project's file that changed is in effect as it was
// trusted, with what it denies now.
func (a *app) read(ctx context.Context, hold bool) (*config.Config, error) {
	if info, err := os.Stat(cmp.Or(a.dir, ".")); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("-C %s: there is no such directory", a.dir)
	}
	return config.Load(ctx, config.Options{
		Dir: a.dir, File: a.file, Builtins: builtinNames(), TrustedDigest: a.trustedDigest, TrustedContent: a.trustedContent, Hold: hold,
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

// printLine prints a value as JSON on a line of its own.
func (a *app) printLine(v any) error {
	e := json.NewEncoder(a.stdout)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// positive is a flag for a duration that is not nothing.
type positive time.Duration

func (p *positive) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return errors.New("give a time above 0, such as 30s")
	}
	*p = positive(d)
	return nil
}

func (p *positive) String() string { return "" }
func (p *positive) Type() string   { return "duration" }

// notice says something on standard error.
func (a *app) notice(text string) {
	fmt.Fprintf(a.stderr, "toolhost: %s\n", text)
}
