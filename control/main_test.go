package control

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/plugin/sdk"
	"github.com/toolhost/toolhost/sandbox"
	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/service/permission/shown"
	"github.com/toolhost/toolhost/tool"
)

// The test binary is also the other process that some tests need.
func TestMain(m *testing.M) {
	if len(os.Args) >= 3 {
		switch os.Args[1] {
		case "__serve":
			os.Exit(serveUntilKilled(os.Args[2]))
		case "__intrude":
			os.Exit(intrude(os.Args[2], os.Args[3:]...))
		case "__orphan":
			os.Exit(orphan(os.Args[2]))
		case "__launch":
			os.Exit(sandbox.Main(os.Args[2:]))
		case "__plugin":
			sdk.Serve(noisy(os.Args[2] == "flood"))
		case "__pose":
			os.Exit(pose(os.Args[2]))
		}
	}
	goleak.VerifyTestMain(m)
}

// serveUntilKilled is a host in a process of its own.
func serveUntilKilled(dir string) int {
	h, err := host.Open(context.Background(), &config.Config{}, host.Options{})
	if err == nil {
		_, err = Listen(scope.New(context.Background(), "other"), Options{Dir: dir, Host: h})
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// other runs the test binary as one of those processes, as the given user, up to
// its first line; -1 is the own user.
func other(t *testing.T, uid int, args ...string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	if uid >= 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
		cmd.Dir = "/"
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var line []byte
	for buf := make([]byte, 1); ; {
		n, err := out.Read(buf)
		if err != nil || n == 1 && buf[0] == '\n' {
			return cmd, string(line)
		}
		line = append(line, buf[:n]...)
	}
}

// socketDir is short, as paths of sockets must be.
func socketDir(t testing.TB) string {
	t.Helper()
	base, err := os.MkdirTemp("", "th")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	return filepath.Join(base, "c")
}

// quick is a pace for tests.
func quick() pace {
	return pace{patience: 300 * time.Millisecond, idle: time.Second, heartbeat: 30 * time.Millisecond, pause: time.Millisecond}
}

// A served host, with a queue that an engine asks.
type served struct {
	*Server
	life   *scope.Scope
	queue  *permission.Queue
	engine *permission.Engine
	saved  *permission.Memory
	dir    string
}

// serve makes a server in dir, or in one of its own if that is empty.
func serve(t testing.TB, dir string, p pace) *served {
	t.Helper()
	saved := new(permission.Memory)
	s := serveSaving(t, dir, p, saved)
	s.saved = saved
	return s
}

// serveSaving is serve with other approvals.
func serveSaving(t testing.TB, dir string, p pace, approvals permission.Approvals) *served {
	t.Helper()
	if dir == "" {
		dir = socketDir(t)
	}
	h, err := host.Open(context.Background(), &config.Config{}, host.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &served{life: scope.New(context.Background(), "test"), dir: dir}
	s.queue = permission.NewQueue(permission.QueueOptions{Approvals: approvals})
	s.engine = permission.New(&permission.Policy{}, s.queue).WithApprovals(approvals)
	if s.Server, err = listen(s.life, Options{Dir: dir, Host: h, Queue: s.queue, Version: "1.2"}, p); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		began := time.Now()
		if err := s.life.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("closing took %v", took)
		}
		if err := h.Close(context.Background()); err != nil {
			t.Errorf("close of the host: %v", err)
		}
	})
	return s
}

// client finds the only host of a directory.
func client(t testing.TB, dir string) *Client {
	t.Helper()
	clients, err := Hosts(context.Background(), dir)
	if err != nil || len(clients) != 1 {
		t.Fatalf("hosts are %v, %v, want one", clients, err)
	}
	t.Cleanup(clients[0].Close)
	return clients[0]
}

// caller is whose requests are asked for.
func caller(session, call string) permission.Caller {
	return permission.Caller{
		Identity: tool.Identity{Session: session, Agent: "main", Message: "m", Call: call},
		Tool:     "deploy/ship", Plugin: "deploy", Root: "/work", Digest: "d", Effects: tool.Write | tool.Network,
		Irreversible: true, Review: "ships it", Input: []byte(`{"to":"moon"}`),
	}
}

// ask asserts in a goroutine; what comes of it is received once.
func (s *served) ask(t testing.TB, c permission.Caller, resources ...string) <-chan error {
	t.Helper()
	outcome := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		outcome <- s.engine.Gate(c).Assert(ctx, tool.PermissionRequest{
			Action: c.Tool, Resources: resources, Save: resources, Metadata: map[string]string{"to": "moon"},
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return outcome
}

// waiting waits until the host shows so many requests.
func waiting(t testing.TB, c *Client, n int) []shown.Request {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		list, err := c.Pending(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Approvals)+list.More == n {
			return list.Approvals
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d requests are shown and %d more, want %d", len(list.Approvals), list.More, n)
		}
	}
}

// receive takes a value that must come.
func receive[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(10 * time.Second):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// raw connects without a client.
func raw(t testing.TB, path string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// files lists what is in a directory.
func files(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// descriptors counts those of this process that are sockets.
func descriptors(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(slices.DeleteFunc(entries, func(e os.DirEntry) bool {
		target, _ := os.Readlink("/proc/self/fd/" + e.Name())
		return !strings.HasPrefix(target, "socket:")
	}))
}
