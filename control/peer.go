package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// peer asks the system which user, and which process, is at the other end of a
// connection: who connected, or who listens.
func peer(conn *net.UnixConn) (uid, pid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, -1, err
	}
	var cred *unix.Ucred
	if controlled := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); controlled != nil {
		return -1, -1, controlled
	}
	if err != nil {
		return -1, -1, fmt.Errorf("user at the other end: %w", err)
	}
	return int(cred.Uid), int(cred.Pid), nil
}

// isBelow reports whether a process was started by another one, directly or by those
// that it started: a plugin of the host, say, whose processes stay below the reaper. One
// that cannot be looked at counts as such.
func isBelow(pid, ancestor int) bool {
	if pid == ancestor {
		return false // the host itself
	}
	for range maxGenerations {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return true
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // behind the name, which may hold anything
		if len(fields) < 2 {
			return true
		}
		if pid, err = strconv.Atoi(fields[1]); err != nil || pid == ancestor {
			return true
		}
		if pid <= 1 {
			return false
		}
	}
	return true
}

// maxGenerations bounds the looking for an ancestor.
const maxGenerations = 256

// connect connects to a socket, whoever listens.
func connect(ctx context.Context, path string) (*net.UnixConn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

// bind makes a socket that listens at path, for the user alone. It is bound under
// the name first, and given that of path when it listens.
func bind(first, path string) (*net.UnixListener, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: first, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	l.SetUnlinkOnClose(false) // it would look for the first name
	err = os.Chmod(first, 0o600)
	if err == nil {
		err = os.Rename(first, path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("control socket: %w", err), removeSocket(first), l.Close())
	}
	return l, nil
}

// A doorkeeper is a listener that lets in one user's processes, but those that this one
// started, and so many at a time.
type doorkeeper struct {
	*net.UnixListener
	uid    int
	places chan struct{} // holds one for each connection
	once   sync.Once
	closed chan struct{}
}

func newDoorkeeper(l *net.UnixListener, uid, places int) *doorkeeper {
	return &doorkeeper{UnixListener: l, uid: uid, places: make(chan struct{}, places), closed: make(chan struct{})}
}

// Accept waits until there is a place and somebody for it. Others are closed before
// a byte of them was read.
func (d *doorkeeper) Accept() (net.Conn, error) {
	select {
	case d.places <- struct{}{}:
	case <-d.closed:
		return nil, net.ErrClosed
	}
	for {
		conn, err := d.AcceptUnix()
		if err != nil {
			<-d.places
			return nil, err
		}
		if uid, pid, err := peer(conn); err != nil || uid != d.uid || isBelow(pid, os.Getpid()) {
			_ = conn.Close()
			continue
		}
		return &guest{UnixConn: conn, leave: sync.OnceFunc(func() { <-d.places })}, nil
	}
}

// Close also ends the waiting for a place.
func (d *doorkeeper) Close() error {
	d.once.Do(func() { close(d.closed) })
	return d.UnixListener.Close()
}

// A guest is a connection that has a place.
type guest struct {
	*net.UnixConn
	leave func()
}

// Close also gives the place back.
func (g *guest) Close() error {
	defer g.leave()
	return g.UnixConn.Close()
}
