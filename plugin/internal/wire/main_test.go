package wire

import (
	"context"
	"net"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connect gives a connection to a server in this process.
func connect(t testing.TB, serve func(grpc.ServiceRegistrar), options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	listener, server := bufconn.Listen(1<<20), grpc.NewServer(ServerOptions()...)
	serve(server)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	conn, err := grpc.NewClient("passthrough:///wire", append(append(DialOptions(), options...),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		server.Stop()
		<-served
	})
	return conn
}

// anyText is text as it comes from anywhere: not always UTF-8.
func anyText(t *rapid.T, label string) string {
	return string(rapid.OneOf(
		rapid.SliceOfN(rapid.Byte(), 0, 12),
		rapid.SampledFrom([][]byte{nil, []byte("text"), []byte("caf\xe9"), []byte("日本\xed\xa0\x80"), {0}, []byte("a\xff\xfe")}),
	).Draw(t, label))
}

func anyTexts(t *rapid.T, label string) []string {
	var out []string
	for range rapid.IntRange(0, 3).Draw(t, label) {
		out = append(out, anyText(t, label))
	}
	return out
}

func anyBytes(t *rapid.T, label string) []byte {
	if b := rapid.SliceOfN(rapid.Byte(), 0, 12).Draw(t, label); len(b) > 0 {
		return b
	}
	return nil // an empty field does not travel
}

// arrives is a text as it arrives on the other side.
func arrives(s string) string { return text(s) }

func arriveAll(list []string) []string {
	var out []string
	for _, s := range list {
		out = append(out, text(s))
	}
	return out
}

// number is one as protobuf has it; the values on the wire are 64 bits wide.
func number(t *rapid.T, label string) int { return int(rapid.Int64().Draw(t, label)) }
