package wire

import (
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
)

// ProtocolVersion is the version of the wire that this package speaks.
const ProtocolVersion = 1

// PluginName is under what name go-plugin knows the one plugin of a process.
const PluginName = "toolhost"

// Limits of what crosses the line, in bytes.
const (
	// MaxInput is the largest input of a call.
	MaxInput = 16 << 20
	// MaxOutput is the largest serialized answer of a call.
	MaxOutput = 64 << 20
	// MaxMessage is the largest single message, on all four ends.
	MaxMessage = 32 << 20
	// MaxCallback is the largest message that the host takes from a plugin on the
	// connection with its services: a registration, mostly.
	MaxCallback = 16 << 20
	// MaxCallbacks is how many callbacks of one plugin may run at once; more wait.
	MaxCallbacks = 256
	// MaxChunk is the largest piece of an answer that is sent in pieces.
	MaxChunk = 64 << 10
	// MaxWhole is the largest answer that the SDK sends in one message: 64 KiB with
	// what is around them cross whole.
	MaxWhole = 128 << 10
)

// Windows and buffers that let 64 KiB cross without waiting for the other side.
const (
	streamWindow     = 1 << 20
	connectionWindow = 16 << 20
	bufferSize       = 128 << 10
	maxHeaders       = 256 << 10
)

// Handshake is what go-plugin checks before anything else. The cookie is no
// secret: it tells a program that was started by hand from one that was started
// by a host.
func Handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{
		ProtocolVersion:  ProtocolVersion,
		MagicCookieKey:   "TOOLHOST_PLUGIN",
		MagicCookieValue: "toolhost.plugin.v1",
	}
}

// Connection is a connection to the services of the host, as a plugin has it.
type Connection interface {
	grpc.ClientConnInterface
	Close() error
}

// DialOptions are the options of a client on either side.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage), grpc.ForceCodecV2(codec{})),
		grpc.WithInitialWindowSize(streamWindow),
		grpc.WithInitialConnWindowSize(connectionWindow),
		grpc.WithReadBufferSize(bufferSize),
		grpc.WithWriteBufferSize(bufferSize),
		grpc.WithIdleTimeout(0),
		grpc.WithDisableServiceConfig(),
		grpc.WithMaxHeaderListSize(maxHeaders),
	}
}

// ServerOptions are the options of a server on either side.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(codec{}),
		grpc.MaxRecvMsgSize(MaxMessage),
		grpc.MaxSendMsgSize(MaxMessage),
		grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(connectionWindow),
		grpc.ReadBufferSize(bufferSize),
		grpc.WriteBufferSize(bufferSize),
		grpc.MaxHeaderListSize(maxHeaders),
	}
}

// CallbackOptions are the options of the host's server of its services. What
// waits in it at once is bounded.
func CallbackOptions() []grpc.ServerOption {
	return append(ServerOptions(),
		grpc.MaxRecvMsgSize(MaxCallback),
		grpc.MaxConcurrentStreams(MaxCallbacks),
	)
}
