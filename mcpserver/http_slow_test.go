package mcpserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// dial connects to the server, as bytes go.
func (l *listening) dial() *net.TCPConn {
	l.t.Helper()
	conn, err := net.DialTCP("tcp", nil, l.Addr().(*net.TCPAddr))
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// raw is a request as it is sent.
func raw(path, body string, h headers) string {
	var b strings.Builder
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: %d\r\n", path, len(body))
	for name, value := range h {
		fmt.Fprintf(&b, "%s: %s\r\n", name, value)
	}
	return b.String() + "\r\n" + body
}

// A client that is slow with its request is cut off, also when it is refused and net/http
// reads what is left. Breakage seen: without the deadline of the body; with one that is
// set where the body is read.
func TestSlowRequest(t *testing.T) {
	s := serve(t, Deny, nil)
	l := s.listen(t, HTTPOptions{Limits: Limits{Patience: 200 * time.Millisecond}})
	whole := raw(pathA, initially, nil)
	for name, tt := range map[string]struct{ sent, want string }{
		"nothing":       {"", ""},
		"half a header": {whole[:40], ""},
		"half a body":   {whole[:len(whole)-10], "HTTP/1.1 408 "},
		"refused":       {strings.Replace(whole[:len(whole)-10], "localhost", "evil", 1), "HTTP/1.1 403 "},
		"all of it":     {whole, "HTTP/1.1 200 "},
	} {
		t.Run(name, func(t *testing.T) {
			conn := l.dial()
			if _, err := io.WriteString(conn, tt.sent); err != nil {
				t.Fatal(err)
			}
			_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
			reader := bufio.NewReader(conn)
			line, err := reader.ReadString('\n')
			if !strings.HasPrefix(line, tt.want) || tt.want == "" && (line != "" || !errors.Is(err, io.EOF)) {
				t.Errorf("got %q, %v, want %q", line, err, tt.want)
			}
			if tt.sent == whole {
				return
			}
			if _, err := io.Copy(io.Discard, reader); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection is kept")
			}
		})
	}
	comesToHold(t, "no bytes are held", func() bool { // which its client may hear before it is so
		l.door.mu.Lock()
		defer l.door.mu.Unlock()
		return l.door.guests[local].bodies == 0
	})
}

// What two readers could take for different requests is refused, and its connection ends.
func TestAmbiguousRequests(t *testing.T) {
	s := serve(t, Deny, nil)
	l := s.listen(t, HTTPOptions{})
	head := "POST " + pathA + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\n"
	for name, sent := range map[string]string{
		"two lengths":          head + "Content-Length: 3\r\nContent-Length: 4\r\n\r\n{}\r\n",
		"a negative length":    head + "Content-Length: -1\r\n\r\n",
		"two encodings":        head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
		"an unknown encoding":  head + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		"a space in a name":    head + "Content-Length : 3\r\n\r\n{}\n",
		"two hosts":            "POST " + pathA + " HTTP/1.1\r\nHost: localhost\r\nHost: evil.example.com\r\nContent-Length: 0\r\n\r\n",
		"no host":              "POST " + pathA + " HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
		"a chunk's odd length": head + "Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			conn := l.dial()
			if _, err := io.WriteString(conn, sent); err != nil {
				t.Fatal(err)
			}
			_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = response.Body.Close() }()
			if response.StatusCode < 400 || !response.Close {
				t.Errorf("got %d, and the connection is kept: %t", response.StatusCode, !response.Close)
			}
		})
	}
}

// heap is how much is in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // what was finalized
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Clients that never read hold neither a goroutine nor memory once their time is over, in
// either era. Breakage seen: without the deadlines of writes.
func TestClientThatNeverReads(t *testing.T) {
	s := serve(t, Deny, nil)
	l := s.listen(t, HTTPOptions{Limits: Limits{Patience: 500 * time.Millisecond, Rate: 1e9, Burst: 1e9}})
	h := l.session(nil)
	list, modern := sessionlessRequest(1, "tools/list", "")
	l.client.CloseIdleConnections()
	comesToHold(t, "quiet", func() bool { return len(l.listener.taken) <= 1 }) // one waits for somebody
	before, goroutines := heap(), runtime.NumGoroutine()
	var sending sync.WaitGroup
	for i := range 4 {
		for _, next := range []func(n int) string{
			func(int) string { return raw(pathA, list, modern) },
			// In a session no two have one id.
			func(n int) string {
				return raw(pathA, fmt.Sprintf(`{"jsonrpc":"2.0","id":"%d/%d","method":"tools/list"}`, i, n), h)
			},
		} {
			conn := l.dial()
			_ = conn.SetReadBuffer(4 << 10)
			_ = conn.SetWriteDeadline(time.Now().Add(20 * time.Second))
			sending.Go(func() {
				for n := 0; ; n++ { // until the server reads no more of it
					if _, err := io.WriteString(conn, next(n)); err != nil {
						if errors.Is(err, os.ErrDeadlineExceeded) {
							t.Error("the connection is kept")
						}
						return
					}
				}
			})
		}
	}
	sending.Wait()
	comesToHold(t, "the end of the connections", func() bool { return len(l.listener.taken) <= 1 })
	comesToHold(t, "the end of their goroutines", func() bool { return runtime.NumGoroutine() <= goroutines })
	if after := heap(); after > before+4<<20 {
		t.Errorf("the heap grew from %d to %d KiB", before>>10, after>>10)
	}
	if !l.alive(h) {
		t.Error("the session ended with a connection")
	}
}

// A stream whose client never reads ends with the first thing that it does not take.
// Breakage seen: without the deadlines of writes.
func TestStreamThatIsNeverRead(t *testing.T) {
	s := serve(t, Deny, nil)
	l := s.listen(t, HTTPOptions{Limits: Limits{Patience: 300 * time.Millisecond}})
	h := l.session(nil)
	conn := l.dial()
	_ = conn.SetReadBuffer(4 << 10)
	get := strings.Replace(raw(pathA, "", h), "POST", "GET", 1)
	if _, err := io.WriteString(conn, get); err != nil {
		t.Fatal(err)
	}
	streams := func() int {
		l.door.mu.Lock()
		g := l.door.guests[local]
		l.door.mu.Unlock()
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.streams
	}
	comesToHold(t, "the stream", func() bool { return streams() == 1 })
	l.door.mu.Lock()
	sdk := l.door.sessionsByID[h[headerSession]].sdk
	l.door.mu.Unlock()
	comesToHold(t, "the end of the stream", func() bool {
		for range 8 {
			notify(t, sdk, strings.Repeat("x", 1<<20))
		}
		return streams() == 0
	})
}

// notify sends something long to the stream of a session.
func notify(t testing.TB, sdk *mcp.ServerSession, text string) {
	t.Helper()
	// It fails when the stream is gone.
	_ = sdk.NotifyProgress(t.Context(), &mcp.ProgressNotificationParams{ProgressToken: "x", Message: text})
}

// Connections beyond the bound wait until one ends. Breakage seen: a place that is not
// given back.
func TestConnectionsAreBounded(t *testing.T) {
	s := serve(t, Deny, nil)
	l := s.listen(t, HTTPOptions{Limits: Limits{Connections: 2}})
	conns := []*net.TCPConn{l.dial(), l.dial(), l.dial()}
	answered := func(conn *net.TCPConn, within time.Duration) bool {
		_, _ = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		_ = conn.SetReadDeadline(time.Now().Add(within))
		_, err := conn.Read(make([]byte, 1))
		return err == nil
	}
	if !answered(conns[0], 10*time.Second) || !answered(conns[1], 10*time.Second) {
		t.Error("one that may be is not served")
	}
	if answered(conns[2], 100*time.Millisecond) {
		t.Error("one more is served")
	}
	_ = conns[0].Close()
	if !answered(conns[2], 10*time.Second) {
		t.Error("it is not served when another one ended")
	}
}
