package laws

import (
	"net"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/toolhost/toolhost/service"
)

// nonblocking makes the opening of a FIFO fail at once when nobody has the other end.
const nonblocking = syscall.O_NONBLOCK

// services are all that there is to grant.
func services() []service.Grant { return service.Grants() }

// listen counts the connections that are made to a URL.
func listen(t *testing.T) (dialled func() int64, url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var n atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			n.Add(1)
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return n.Load, "http://" + l.Addr().String()
}

func mkfifo(t *testing.T, path string) {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
}
