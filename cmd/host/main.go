// Command toolhost runs the tools of a project, each plugin in a process of its
// own. README.md has the commands by example.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/toolhost/toolhost/plugin/sdk"
	"github.com/toolhost/toolhost/plugins/filesystem"
	"github.com/toolhost/toolhost/plugins/process"
	"github.com/toolhost/toolhost/sandbox"
)

// The hidden subcommands under which this program runs itself again. They come
// before anything else, since what they start should cost as little as possible.
const (
	launchCommand = "__launch" // the reaper
	pluginCommand = "__plugin" // a built-in plugin
)

// builtins are the plugins that ship with the host.
func builtins() map[string]func() sdk.Plugin {
	return map[string]func() sdk.Plugin{
		"filesystem": filesystem.New,
		"process":    process.New,
	}
}

func main() {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case launchCommand:
			os.Exit(sandbox.Main(os.Args[2:]))
		case pluginCommand:
			if plugin, ok := builtins()[os.Args[2]]; ok {
				sdk.Serve(plugin())
			}
		}
	}
	// A reader that went away must not keep the host from closing: writing to it is an
	// error like another then. Ignoring the signal would be handed on to plugins.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as by nohup
		signals = append(signals, syscall.SIGHUP) // the terminal is gone, and what was asked there with it
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	// After the first signal the second one has its usual effect.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
