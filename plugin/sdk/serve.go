package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/toolhost/toolhost/plugin/internal/wire"
)

// Serve runs the plugin until the host is done with it, and ends the process. It
// is the last thing that main does. A process that was not started by a host
// says so and ends with status 1.
//
// From here on the process's standard output belongs to the protocol: what the
// plugin prints, and what the programs print that it starts, goes to the host's
// log. Its standard input is empty. When the host is gone, however that came
// about, the process ends.
func Serve(p Plugin) {
	handshake := wire.Handshake()
	if err := p.check(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	switch cookie := os.Getenv(handshake.MagicCookieKey); cookie {
	case handshake.MagicCookieValue:
	case "":
		fmt.Fprintf(os.Stderr, "%s is a plugin of toolhost and does nothing by itself.\n"+
			"Name it in toolhost.yaml:\n\n  plugins:\n    %s: {command: [%s]}\n", p.Name, p.Name, os.Args[0])
		os.Exit(1)
	default:
		fmt.Fprintf(os.Stderr, "%s is incompatible: it has %s, the host needs %s: rebuild it with a matching SDK\n",
			p.Name, handshake.MagicCookieValue, cookie)
		os.Exit(1)
	}
	// A log that nobody reads is no reason to die. The signal is caught and not
	// ignored, because what is ignored stays so in the programs that a plugin runs.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if err := takeStdio(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", p.Name, err)
		os.Exit(1)
	}
	side := &pluginSide{plugin: p}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig:  handshake,
		VersionedPlugins: map[int]plugin.PluginSet{wire.ProtocolVersion: {wire.PluginName: side}},
		GRPCServer: func(options []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(options, wire.ServerOptions()...)...)
		},
		Logger: hclog.New(&hclog.LoggerOptions{Name: p.Name, Level: hclog.Warn, Output: os.Stderr, JSONFormat: true}),
	})
	os.Exit(0)
}

// takeStdio keeps the protocol's output and the lifeline for this package alone.
// The descriptors that the plugin and its children know by number lead to the
// host's log and to nothing.
func takeStdio() error {
	protocol, err := duplicate(1)
	if err != nil {
		return fmt.Errorf("take standard output: %w", err)
	}
	lifeline, err := duplicate(0)
	if err != nil {
		return fmt.Errorf("take standard input: %w", err)
	}
	if err := unix.Dup3(2, 1, 0); err != nil {
		return fmt.Errorf("take standard output: %w", err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	if err := unix.Dup3(int(null.Fd()), 0, 0); err != nil {
		return fmt.Errorf("take standard input: %w", err)
	}
	os.Stdout = protocol //nolint:reassign // go-plugin prints its line there, and then puts a pipe in its place
	go watchLifeline(lifeline)
	return nil
}

// giveStdio takes the pipes away again that go-plugin puts in the place of
// os.Stdout and os.Stderr. What is written to them crosses the connection, and
// the last words of a process would be lost with it.
func giveStdio() {
	os.Stdout = os.NewFile(1, "stdout") //nolint:reassign // see above
	os.Stderr = os.NewFile(2, "stderr") //nolint:reassign // see above
}

func duplicate(fd int) (*os.File, error) {
	copied, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(copied), fmt.Sprintf("fd%d", fd)), nil
}

// watchLifeline ends the process when the host has closed the lifeline or is
// gone. It lasts as long as the process.
func watchLifeline(lifeline io.Reader) {
	_, _ = io.Copy(io.Discard, lifeline)
	os.Exit(1)
}

// pluginSide is what go-plugin serves.
type pluginSide struct {
	plugin.NetRPCUnsupportedPlugin
	plugin Plugin
}

var _ plugin.GRPCPlugin = (*pluginSide)(nil)

func (s *pluginSide) GRPCServer(broker *plugin.GRPCBroker, registrar *grpc.Server) error {
	// go-plugin has read its variables; what the plugin starts must not see them.
	for _, name := range []string{
		wire.Handshake().MagicCookieKey, "PLUGIN_PROTOCOL_VERSIONS", "PLUGIN_MIN_PORT", "PLUGIN_MAX_PORT",
		"PLUGIN_CLIENT_CERT", "PLUGIN_MULTIPLEX_GRPC", plugin.EnvUnixSocketDir, plugin.EnvUnixSocketGroup,
	} {
		_ = os.Unsetenv(name)
	}
	wire.ServePlugin(registrar, newServer(s.plugin, func(id uint32) (wire.Connection, error) {
		giveStdio()
		return broker.DialWithOptions(id, wire.DialOptions()...)
	}, func(err error) {
		if err != nil {
			os.Exit(1) // the host is gone; nil means that it will end the process in its own time
		}
	}))
	return nil
}

func (s *pluginSide) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("a plugin is not a host")
}
