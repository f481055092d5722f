package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/toolhost/toolhost/plugin/sdk"
)

// runPlugin is the main of a plugin of the tests.
func runPlugin(kind string, args []string) {
	if main, ok := earlyPlugins()[kind]; ok {
		main(args)
		return
	}
	if activate, ok := sdkPlugins[kind]; ok {
		p := sdk.Plugin{Name: kind, Version: "1", Activate: activate, Drain: drains[kind], Settings: settings(args)}
		if kind == "needs-permission" {
			p.Needs = []sdk.Service{sdk.Permissions}
		}
		sdk.Serve(p)
	}
	serveRaw(kind)
}

// settings makes a plugin that has settings of any form.
func settings(args []string) any {
	if len(args) == 0 {
		return nil
	}
	return json.RawMessage(args[0])
}

// sdkPlugins are made with the SDK, by kind.
var sdkPlugins = map[string]func(context.Context, sdk.Location) error{
	"many":             many,
	"looks":            looks,
	"needs-permission": many,
	"files":            files,
	"prepares":         prepares,
	"drain-hangs":      many,
	"drain-stops":      many,
	"drain-fails":      many,
	"activate-fail":    func(context.Context, sdk.Location) error { return errors.New("no\x1b[2J weather\ntoday") },
	"activate-panic": func(context.Context, sdk.Location) error {
		panic("no weather")
	},
	"activate-hangs": func(context.Context, sdk.Location) error {
		fmt.Fprintln(os.Stderr, "I am still looking for the weather")
		select {}
	},
	"activate-exits": func(context.Context, sdk.Location) error {
		fmt.Fprintln(os.Stderr, "no barometer")
		os.Exit(3)
		return nil
	},
	"activate-stops": func(context.Context, sdk.Location) error { return stop() },
	"needs-files": func(_ context.Context, loc sdk.Location) error {
		_, err := loc.FileSystem()
		return err
	},
	"settings": func(_ context.Context, loc sdk.Location) error {
		var s struct{ Units string }
		if err := loc.Settings(&s); err != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, "units are", s.Units)
		return nil
	},
}

var drains = map[string]func(context.Context) error{
	"many": func(context.Context) error {
		fmt.Fprintln(os.Stderr, "drained")
		return nil
	},
	"drain-hangs": func(context.Context) error { select {} },
	"drain-stops": func(context.Context) error { return stop() },
	"drain-fails": func(context.Context) error { return errors.New("cannot finish") },
}

// many is a plugin with a tool for everything that a plugin can do in a call.
func many(ctx context.Context, loc sdk.Location) error {
	_, err := loc.Tools.Register(ctx, sdk.Tools{
		"echo":    sdk.New("Echo", echo, sdk.NoEffect),
		"length":  sdk.New("Length", length),
		"big":     sdk.New("Big", repeat),
		"pid":     sdk.New("Pid", func(context.Context, sdk.Call, struct{}) (int, error) { return os.Getpid(), nil }),
		"who":     sdk.New("Who", func(_ context.Context, c sdk.Call, _ struct{}) (sdk.Call, error) { return c, nil }),
		"environ": sdk.New("Environ", func(context.Context, sdk.Call, struct{}) ([]string, error) { return os.Environ(), nil }),
		"shell":   sdk.New("Shell", shell),
		"stdin": sdk.New("Stdin", func(context.Context, sdk.Call, struct{}) (string, error) {
			b, err := io.ReadAll(os.Stdin)
			return string(b), err
		}),
		"say":      sdk.New("Say", func(_ context.Context, _ sdk.Call, in sayIn) (bool, error) { return true, say(loc, in) }),
		"end":      sdk.New("End", end),
		"leave":    sdk.New("Leave", leave),
		"wait":     sdk.New("Wait", wait),
		"stop":     sdk.New("Stop", func(context.Context, sdk.Call, struct{}) (bool, error) { return true, stop() }),
		"fail":     sdk.New("Fail", func(_ context.Context, _ sdk.Call, in echoIn) (bool, error) { return false, sdk.Failure(in.Text) }),
		"error":    sdk.New("Error", func(_ context.Context, _ sdk.Call, in echoIn) (bool, error) { return false, errors.New(in.Text) }),
		"progress": sdk.New("Progress", progress),
		"dial":     sdk.New("Dial", dial),
		"assert": sdk.New("Assert", func(ctx context.Context, call sdk.Call, in echoIn) (string, error) {
			p, err := loc.Permission()
			if err != nil {
				return "", err
			}
			return "granted", p.Assert(ctx, sdk.PermissionRequest{Action: call.Tool, Resources: []string{in.Text}})
		}),
		"later": sdk.New("Later", func(ctx context.Context, _ sdk.Call, in echoIn) (string, error) {
			tools := sdk.Tools{}
			for name := range strings.FieldsSeq(in.Text) {
				tools[name] = sdk.New("Later", echo)
			}
			r, err := loc.Tools.Register(ctx, tools)
			if err != nil {
				return "", err
			}
			return fmt.Sprint(r.Refused()), nil
		}),
	})
	return err
}

// looks is a plugin that looks around.
func looks(ctx context.Context, loc sdk.Location) error {
	words := func(err error) string {
		if err == nil {
			return "done"
		}
		return errors.Unwrap(err).Error()
	}
	_, err := loc.Tools.Register(ctx, sdk.Tools{
		"environ": sdk.New("Environ", func(context.Context, sdk.Call, struct{}) ([]string, error) { return os.Environ(), nil }),
		"cwd":     sdk.New("Cwd", func(context.Context, sdk.Call, struct{}) (string, error) { return os.Getwd() }),
		"see": sdk.New("See", func(_ context.Context, _ sdk.Call, in echoIn) (string, error) {
			content, err := os.ReadFile(in.Text)
			if err != nil {
				return words(err), nil
			}
			return string(content), nil
		}),
		"put": sdk.New("Put", func(_ context.Context, _ sdk.Call, in echoIn) (string, error) {
			return words(os.WriteFile(in.Text, []byte("put"), 0o600)), nil
		}),
	})
	return err
}

// stop stops the process, which takes a moment, and does not return.
func stop() error {
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	select {}
}

// files is a plugin that reads.
func files(ctx context.Context, loc sdk.Location) error {
	fs, err := loc.FileSystem()
	if err != nil {
		return err
	}
	if root, err := fs.ResolveRoot(ctx, "."); err != nil || root.Kind() != sdk.Directory {
		return fmt.Errorf("the root during activation: %w", err)
	}
	read := func(ctx context.Context, path string) (string, error) {
		root, err := fs.ResolveRoot(ctx, path)
		if err != nil {
			return "", sdk.ToFailure(err)
		}
		page, err := root.Read(ctx, sdk.ReadQuery{})
		return page.Text, errors.Join(err, root.Close(ctx))
	}
	_, err = loc.Tools.Register(ctx, sdk.Tools{
		"read": sdk.New("Read", func(ctx context.Context, _ sdk.Call, in echoIn) (string, error) { return read(ctx, in.Text) }),
		"read-later": sdk.New("Read", func(_ context.Context, _ sdk.Call, in echoIn) (string, error) {
			return read(context.Background(), in.Text)
		}),
	})
	return err
}

type echoIn struct {
	Text string `json:"text" jsonschema:"what to say"`
}

func echo(_ context.Context, _ sdk.Call, in echoIn) (string, error) { return in.Text, nil }

func length(_ context.Context, _ sdk.Call, in echoIn) (int, error) { return len(in.Text), nil }

type bigIn struct {
	Bytes int `json:"bytes"`
}

func repeat(_ context.Context, _ sdk.Call, in bigIn) (string, error) {
	return strings.Repeat("x", in.Bytes), nil
}

type shellOut struct {
	Out string `json:"out"`
}

// shell runs a script as a child whose output it takes itself.
func shell(_ context.Context, _ sdk.Call, in echoIn) (shellOut, error) {
	cmd := exec.Command("/bin/sh", "-c", in.Text)
	cmd.Stdin = os.Stdin
	out, err := cmd.Output()
	return shellOut{string(out)}, err
}

type sayIn struct {
	Where string `json:"where"`
	Text  string `json:"text"`
	Times int    `json:"times,omitempty"`
}

func say(loc sdk.Location, in sayIn) error {
	for range max(1, in.Times) {
		switch in.Where {
		case "stdout":
			fmt.Fprint(os.Stdout, in.Text)
		case "stderr":
			fmt.Fprint(os.Stderr, in.Text)
		case "fd1":
			_, _ = syscall.Write(1, []byte(in.Text))
		case "fd2":
			_, _ = syscall.Write(2, []byte(in.Text))
		case "child":
			cmd := exec.Command("/bin/sh", "-c", `printf '%s' "$0"`, in.Text)
			cmd.Stdout = os.NewFile(1, "stdout") // what a child inherits
			if err := cmd.Run(); err != nil {
				return err
			}
		case "standard log":
			log.Print(in.Text)
		case "log":
			loc.Log.Warn(in.Text, "key", in.Text)
		}
	}
	return nil
}

type endIn struct {
	How   string `json:"how"`
	Child bool   `json:"child,omitempty"`
}

// end ends the process, in one of the ways in which processes end.
func end(ctx context.Context, _ sdk.Call, in endIn) (bool, error) {
	if in.Child {
		if _, err := startChild(true); err != nil {
			return false, err
		}
	}
	for range 100 {
		fmt.Fprintln(os.Stderr, strings.Repeat("much that came before ", 5))
	}
	fmt.Fprintln(os.Stderr, "about to end")
	switch in.How {
	case "panic":
		panic("boom")
	case "goroutine":
		go func() { panic("boom in a goroutine") }()
		<-ctx.Done()
	case "nil map":
		var m map[string]int
		go func() { m["a"] = 1 }()
		<-ctx.Done()
	case "exit":
		os.Exit(3)
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		<-ctx.Done()
	}
	return true, nil
}

type leaveIn struct {
	Session bool `json:"session"`
}

// leave starts a child that holds standard error and outlives everything it can.
func leave(_ context.Context, _ sdk.Call, in leaveIn) (int, error) { return startChild(in.Session) }

func startChild(session bool) (int, error) {
	cmd := exec.Command("/bin/sh", "-c", "trap '' TERM HUP INT; sleep 300 & wait; wait")
	cmd.Stderr, cmd.Stdout = os.NewFile(2, "stderr"), os.NewFile(1, "stdout")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	return cmd.Process.Pid, nil
}

type waitIn struct {
	Stubborn bool `json:"stubborn,omitempty"`
	Millis   int  `json:"millis,omitempty"`
}

// wait waits until the call is over, or longer.
func wait(ctx context.Context, call sdk.Call, in waitIn) (string, error) {
	call.Progress(0, 0, "waiting")
	if in.Stubborn {
		select {}
	}
	after := make(<-chan time.Time)
	if in.Millis > 0 {
		after = time.After(time.Duration(in.Millis) * time.Millisecond)
	}
	select {
	case <-ctx.Done():
		fmt.Fprintln(os.Stderr, "the wait was cancelled")
		return "", ctx.Err()
	case <-after:
		return "waited", nil
	}
}

type progressIn struct {
	Times int `json:"times"`
}

func progress(_ context.Context, call sdk.Call, in progressIn) (int, error) {
	for n := range in.Times {
		call.Progress(float64(n+1), float64(in.Times), "step\x1b[2J")
	}
	return in.Times, nil
}

// dial connects to a socket and says what became of it.
func dial(_ context.Context, _ sdk.Call, in echoIn) (string, error) {
	conn, err := net.Dial("unix", in.Text)
	if err != nil {
		return err.Error(), nil
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	_, _ = conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	n, err := conn.Read(make([]byte, 1))
	return fmt.Sprint(n, " ", err), nil
}

// earlyPlugins misbehave before they serve, by kind.
func earlyPlugins() map[string]func(args []string) {
	return map[string]func(args []string){
		"exits": func([]string) {
			fmt.Fprintln(os.Stderr, "no barometer")
			os.Exit(7)
		},
		"silent":   func([]string) { select {} },
		"killed":   func([]string) { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL); select {} },
		"stopped":  func([]string) { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP); select {} },
		"hi":       func([]string) { fmt.Print("hi\n"); runPlugin("many", nil) },
		"hi-exits": func([]string) { fmt.Print("hi") },
		"mebibyte": func([]string) { fmt.Print(strings.Repeat("x", 1<<20)); select {} },
		"lines":    func([]string) { fmt.Print(strings.Repeat("x\n", 1<<19)); select {} },
		// handshake prints a line in which DIR stands for its own directory, and serves
		// nothing.
		"handshake": func(args []string) {
			dir := os.Getenv("PLUGIN_UNIX_SOCKET_DIR")
			socket := dir + "/plugin1"
			if l, err := net.Listen("unix", socket); err == nil {
				defer l.Close()
			}
			_ = os.Symlink(socket, dir+"/link")
			_ = os.WriteFile(dir+"/file", nil, 0o600)
			fmt.Println(strings.ReplaceAll(args[0], "DIR", dir))
			select {}
		},
		// announces says that it serves, and does something else.
		"announces": func(args []string) {
			socket := os.Getenv("PLUGIN_UNIX_SOCKET_DIR") + "/plugin1"
			if _, err := net.Listen("unix", socket); err != nil {
				panic(err)
			}
			fmt.Printf("1|1|unix|%s|grpc|%s\n", socket, someCertificate())
			switch args[0] {
			case "stops":
				_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			case "exits":
				os.Exit(5)
			}
			select {}
		},
		"deaf": func([]string) {
			signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
			runPlugin("many", nil)
		},
		"noisy": func(args []string) {
			noise := map[string]string{
				"level":    `{"@level":1}` + "\n" + `{"@message":1}` + "\n" + `{"@message":[1,{"a":null}],"@level":{}}` + "\n{\n",
				"mebibyte": strings.Repeat("x", 1<<20) + "\n",
				"nul":      strings.Repeat("\x00", 1<<16) + "\n",
				"controls": "\x1b[2J\x1b]0;title\x07 \u202e\u2028\u0085\r over\n",
				"latin":    "caf\xe9\n",
			}
			if args[0] == "endless" {
				go func() {
					for line := []byte(strings.Repeat("y", 1000) + "\n"); ; {
						_, _ = os.Stderr.Write(line)
					}
				}()
			}
			fmt.Fprint(os.Stderr, noise[args[0]])
			runPlugin("many", nil)
		},
	}
}
