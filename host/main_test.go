package host_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/plugin/sdk"
	"github.com/toolhost/toolhost/sandbox"
	"github.com/toolhost/toolhost/service/permission"
)

// The test binary is host, reaper and built-in plugin, as an embedding program
// would be.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "__launch":
			os.Exit(sandbox.Main(os.Args[2:]))
		case "__plugin":
			sdk.Serve(probe(os.Args[2]))
		case "__version":
			sdk.Serve(versioned(os.Args[2]))
		case "__die":
			os.Exit(dieDuringACall(os.Args[2]))
		}
	}
	goleak.VerifyTestMain(m)
}

type where struct {
	Root     string `json:"root"`
	Location string `json:"location"`
}

// probe is a plugin that says where it runs. Under the name "slow" it takes its
// time to become ready, under "broken" it never does.
func probe(kind string) sdk.Plugin {
	return sdk.Plugin{Name: kind, Version: "1", Activate: func(ctx context.Context, loc sdk.Location) error {
		switch kind {
		case "slow":
			select {
			case <-time.After(time.Minute):
			case <-ctx.Done():
			}
			return ctx.Err()
		case "broken":
			os.Exit(3)
		}
		_, err := loc.Tools.Register(ctx, sdk.Tools{
			"where": sdk.New("Where am I", func(context.Context, sdk.Call, struct{}) (where, error) {
				return where{loc.Root, loc.Name}, nil
			}, sdk.NoEffect),
			"err": sdk.New("Break", func(context.Context, sdk.Call, struct{}) (bool, error) {
				return false, errors.New("the database is down")
			}, sdk.NoEffect),
			"panic": sdk.New("Panic", func(context.Context, sdk.Call, struct{}) (bool, error) {
				panic("out of cheese")
			}, sdk.NoEffect),
			"exit": sdk.New("Exit", func(context.Context, sdk.Call, struct{}) (bool, error) {
				fmt.Fprintln(os.Stderr, "last words")
				os.Exit(7)
				return false, nil
			}, sdk.NoEffect),
			"wait": sdk.New("Wait", func(ctx context.Context, _ sdk.Call, _ struct{}) (bool, error) {
				<-ctx.Done()
				return false, ctx.Err()
			}, sdk.NoEffect),
		})
		return err
	}}
}

// versioned is a plugin that says which version it is; "broken" does not start.
func versioned(version string) sdk.Plugin {
	return sdk.Plugin{Name: "versioned", Version: version, Activate: func(ctx context.Context, loc sdk.Location) error {
		if version == "broken" {
			os.Exit(3)
		}
		_, err := loc.Tools.Register(ctx, sdk.Tools{
			"version": sdk.New("Version", func(context.Context, sdk.Call, struct{}) (string, error) { return version, nil }, sdk.NoEffect),
			"wait": sdk.New("Wait", func(ctx context.Context, call sdk.Call, _ struct{}) (string, error) {
				call.Progress(0, 0, "waiting")
				select {
				case <-time.After(300 * time.Millisecond):
					return version, nil
				case <-ctx.Done():
					return "", ctx.Err()
				}
			}, sdk.NoEffect),
		})
		return err
	}}
}

func options() host.Options {
	builtins := map[string][]string{}
	for _, kind := range []string{"probe", "slow", "broken"} {
		builtins[kind] = []string{"/proc/self/exe", "__plugin", kind}
	}
	return host.Options{
		Launcher: sandbox.Launcher{Path: "/proc/self/exe", Args: []string{"__launch"}}, Builtins: builtins,
	}
}

// configure is a configuration with Locations of the given names, each with the
// given built-ins.
func configure(t testing.TB, locations []string, builtins ...string) *config.Config {
	t.Helper()
	cfg := &config.Config{}
	for _, name := range locations {
		l := config.Location{Name: name, Root: t.TempDir(), Policy: &permission.Policy{}}
		for _, builtin := range builtins {
			l.Plugins = append(l.Plugins, config.Plugin{Name: builtin, Builtin: builtin})
		}
		cfg.Locations = append(cfg.Locations, l)
	}
	return cfg
}
