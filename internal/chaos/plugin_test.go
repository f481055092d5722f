package chaos

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/toolhost/toolhost/plugin/sdk"
)

// The kinds of plugins, by how they start and end.
const (
	good   = "good"
	slow   = "slow"   // takes a moment to be ready
	bad    = "bad"    // does not start
	noisy  = "noisy"  // floods its log, for as long as it runs
	deaf   = "deaf"   // ignores the signals that ask it to end, and loops
	loops  = "loops"  // never comes back from its end
	parent = "parent" // has children in sessions of their own, which hold its pipes
)

// unruly is a plugin that does what it is told to, and says which version it is. The names of its tools begin with its own,
// so that several may be in a Location.
func unruly(name, kind, version string) sdk.Plugin {
	p := sdk.Plugin{Name: "unruly", Version: version, Activate: func(ctx context.Context, loc sdk.Location) error {
		switch kind {
		case slow:
			time.Sleep(150 * time.Millisecond)
		case bad:
			fmt.Fprintln(os.Stderr, "no barometer")
			os.Exit(3)
		case noisy:
			go func() {
				for line := []byte(strings.Repeat("y", 1000) + "\n"); ; {
					_, _ = os.Stderr.Write(line)
				}
			}()
		case deaf:
			signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		case parent:
			for range 2 {
				if err := fork(); err != nil {
					return err
				}
			}
		}
		own := sdk.Tools{}
		for authored, t := range tools(version) {
			own[name+"_"+authored] = t
		}
		_, err := loc.Tools.Register(ctx, own)
		return err
	}}
	if kind == loops || kind == deaf {
		p.Drain = func(context.Context) error {
			for { //nolint:staticcheck // it is to take a processor
			}
		}
	}
	return p
}

type workIn struct {
	Millis int `json:"millis,omitempty"`
	KiB    int `json:"kib,omitempty"`
}

// tools are one for each thing that a plugin does to its host.
func tools(version string) sdk.Tools {
	return sdk.Tools{
		// work takes a while and says the version, in as many KiB as are wanted.
		"work": sdk.New("Work as version "+version, func(ctx context.Context, call sdk.Call, in workIn) (string, error) {
			call.Progress(0, 0, "working")
			select {
			case <-time.After(time.Duration(in.Millis) * time.Millisecond):
			case <-ctx.Done():
				return "", ctx.Err()
			}
			return version + strings.Repeat(" and so on\n", in.KiB*1024/11), nil
		}, sdk.NoEffect),
		"ask": sdk.New("Ask", func(context.Context, sdk.Call, struct{}) (string, error) { return version, nil }, sdk.NoEffect),
		"stubborn": sdk.New("Stubborn", func(_ context.Context, call sdk.Call, in workIn) (string, error) {
			call.Progress(0, 0, "on and on")
			time.Sleep(time.Duration(in.Millis) * time.Millisecond)
			return version, nil
		}, sdk.NoEffect),
		"crash": sdk.New("Crash", func(context.Context, sdk.Call, struct{}) (string, error) {
			fmt.Fprintln(os.Stderr, "last words")
			os.Exit(7)
			return "", nil
		}, sdk.NoEffect),
		"hang": sdk.New("Hang", func(ctx context.Context, call sdk.Call, _ struct{}) (string, error) {
			call.Progress(0, 0, "about to stop")
			time.Sleep(60 * time.Millisecond) // until that is told
			_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			<-ctx.Done()
			return "", ctx.Err()
		}, sdk.NoEffect),
		"flood": sdk.New("Flood", func(_ context.Context, _ sdk.Call, in workIn) (string, error) {
			for range in.KiB {
				fmt.Fprintln(os.Stderr, strings.Repeat("z", 1023))
			}
			fmt.Fprint(os.Stderr, `{"@level":1}`+"\n"+strings.Repeat("\x00", 4096)+"\n"+strings.Repeat("x", 1<<20)+"\n")
			return version, nil
		}, sdk.NoEffect),
		"fork": sdk.New("Fork", func(context.Context, sdk.Call, workIn) (string, error) { return version, fork() }, sdk.NoEffect),
	}
}

// fork leaves a grandchild in a session of its own, which holds the pipes of the plugin.
func fork() error {
	cmd := exec.Command("/bin/sh", "-c", "trap '' TERM HUP INT; (sleep 300 & sleep 300) & exit 0")
	cmd.Stdout, cmd.Stderr = os.NewFile(1, "stdout"), os.NewFile(2, "stderr")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Run()
}
