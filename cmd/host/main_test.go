package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/toolhost/toolhost/plugin/sdk"
)

// TestMain makes the test binary the toolhost command too: the scripts run it,
// and it runs itself as reaper and as plugin.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == launchCommand || os.Args[1] == pluginCommand) {
		main()
		return
	}
	if len(os.Args) > 1 && os.Args[1] == writerCommand {
		sdk.Serve(writer())
	}
	if len(os.Args) > 1 && os.Args[1] == chattyCommand {
		sdk.Serve(chatty())
	}
	testscript.Main(m, map[string]func(){"toolhost": main})
}

// TestScripts runs the stories of testdata/script.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			// Not below the working directory, which could be no Location then.
			home, err := os.MkdirTemp("", "home")
			if err != nil {
				return err
			}
			env.Defer(func() { _ = os.RemoveAll(home) })
			env.Setenv("HOME", home)
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "config"))
			env.Setenv("XDG_STATE_HOME", filepath.Join(home, "state"))
			env.Setenv("XDG_RUNTIME_DIR", home) // short, since sockets are in it
			env.Setenv("TMPDIR", home)          // short, and nobody else's
			env.Setenv("GORACE", os.Getenv("GORACE"))
			return nil
		},
	})
}
