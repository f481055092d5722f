package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the build; see the Makefile.
var version = ""

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "version",
		Short:             "Print the version",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				return a.printJSON(map[string]string{"version": versionText(), "go": runtime.Version(), "platform": platform()})
			}
			_, err := fmt.Fprintf(a.stdout, "toolhost %s %s %s\n", versionText(), runtime.Version(), platform())
			return err
		},
	}
}

// versionText is the version of the build, or of the module when it was
// installed as one.
func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

func platform() string { return runtime.GOOS + "/" + runtime.GOARCH }
