package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/toolhost/toolhost/plugin/client"
	"github.com/toolhost/toolhost/plugin/internal/wire"
)

// Nothing grows with openings and closings (law 41, case F07), however they end:
// asked, killed, failed, with children that make sessions of their own. The
// number of rounds is that of TOOLHOST_ROUNDS.
func TestLaw41NothingIsLeft(t *testing.T) {
	rounds := 18
	if n, err := strconv.Atoi(os.Getenv("TOOLHOST_ROUNDS")); err == nil {
		rounds = n
	} else if testing.Short() {
		rounds = 6
	}
	b := newBench(t)
	spec := func(kind string, args ...string) client.Spec {
		s := b.spec(kind, args...)
		s.Root = os.TempDir()
		return s
	}
	round := func(n int) {
		switch n % 6 {
		case 0: // asked
			b.close(b.startSpec(spec("many")))
		case 1: // killed
			i := b.startSpec(spec("many"))
			_ = syscall.Kill(i.Status().Pid, syscall.SIGKILL)
			<-i.Gone()
			b.close(i)
		case 2: // with children
			i := b.startSpec(spec("many"))
			value[int](b, "leave", `{"session":true}`)
			b.close(i)
		case 3: // failed after its handshake
			b.startFails(spec("announces", "exits"))
		case 4: // failed in activation
			b.startFails(spec("activate-exits"))
		case 5: // given up
			ctx, cancel := context.WithCancel(context.Background())
			s := spec("raw-describe-hangs")
			go func() {
				eventually(t, "the process", func() bool { return len(marked(b.mark)) > 0 })
				cancel()
			}()
			if _, err := client.Start(ctx, b.scope, b.host, s); err == nil {
				t.Error("it started")
			}
		}
	}
	for n := range 6 {
		round(n)
	}
	before := takeStock(b)
	for n := range rounds {
		round(n)
	}
	var after stock
	eventually(t, "the stock of before", func() bool {
		after = takeStock(b)
		return after.same(before) || t.Failed()
	})
	t.Logf("after %d rounds: %+v", rounds, after)
}

// A plugin that is killed at any moment of its start is told to have ended, with
// the signal, and not by what a library met then.
func TestKilledDuringStart(t *testing.T) {
	t.Parallel()
	for n := range 16 {
		b := newBench(t)
		go func() {
			for len(marked(b.mark)) == 0 {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(time.Duration(n) * 4 * time.Millisecond)
			for _, pid := range marked(b.mark) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}()
		i, err := client.Start(context.Background(), b.scope, b.host, b.spec("many"))
		if err == nil { // it was ready before
			<-i.Gone()
			wantIn(t, i.Status().Reason, "ended: signal: killed")
			continue
		}
		wantIn(t, err.Error(), "ended: signal: killed")
	}
}

// When a plugin ends between its handshake and the first call, go-plugin forgets
// to close the connection that it just made, and makes and forgets another one in
// its Kill. So we note what there is.
func TestForgottenConnections(t *testing.T) {
	t.Parallel()
	var noted client.Connections
	conn, err := grpc.NewClient("passthrough:///nowhere", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return nil, errors.New("it is gone") }),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, d *grpc.StreamDesc, c *grpc.ClientConn, m string, s grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
			return client.Note(&noted, ctx, d, c, m, s, o...)
		}))
	if err != nil {
		t.Fatal(err)
	}
	if noted.Broken() {
		t.Error("none is broken before there is one")
	}
	if err := wire.NewSession(conn).Attach(t.Context(), func() {}); err == nil {
		t.Error("the session opened")
	}
	if !noted.Broken() {
		t.Error("the connection is not noted as broken")
	}
	noted.Close()
	if state := conn.GetState(); state != connectivity.Shutdown {
		t.Errorf("the connection is %s, want closed", state)
	}
}

// stock is what a host holds.
type stock struct {
	goroutines, descriptors, sockets, files, children int
	scope                                             string
}

func (s stock) same(o stock) bool {
	// A finished timer or a finalizer may be a goroutine more; a leak is one more in
	// each round.
	return s.goroutines <= o.goroutines+2 && s.descriptors <= o.descriptors && s.sockets == o.sockets &&
		s.files == o.files && s.children == 0 && s.scope == o.scope
}

func takeStock(b *bench) stock {
	s := stock{goroutines: runtime.NumGoroutine(), scope: fmt.Sprint(b.scope.Tree())}
	open, _ := os.ReadDir("/proc/self/fd")
	s.descriptors = len(open)
	table, _ := os.ReadFile("/proc/net/unix")
	s.sockets = bytes.Count(table, []byte(b.host.RunDir))
	_ = filepath.WalkDir(b.host.RunDir, func(string, os.DirEntry, error) error {
		s.files++
		return nil
	})
	children, _ := filepath.Glob("/proc/self/task/*/children") // zombies too
	for _, file := range children {
		list, _ := os.ReadFile(file)
		s.children += len(strings.Fields(string(list)))
	}
	return s
}
