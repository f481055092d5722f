package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/sandbox"
)

// peerListener accepts one connection: the first one of a process of the
// plugin's tree. Anybody else's is dropped. Then it listens no more, and the
// socket is unlinked.
type peerListener struct {
	net.Listener
	top int // every process of the tree descends from it

	done chan struct{}
	once sync.Once
}

func newPeerListener(inner net.Listener, top int) *peerListener {
	return &peerListener{Listener: inner, top: top, done: make(chan struct{})}
}

// Accept gives the one connection, and after it waits until Close.
func (l *peerListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			<-l.done // so that a server does not take the end of listening for its own
			return nil, err
		}
		if err != nil {
			return nil, err
		}
		if isOf(conn, l.top) {
			_ = l.stop()
			return conn, nil
		}
		_ = conn.Close()
	}
}

// Close ends a waiting Accept.
func (l *peerListener) Close() error {
	err := l.stop()
	l.once.Do(func() { close(l.done) })
	return err
}

// stop stops listening and unlinks the socket. Doing so twice is no error.
func (l *peerListener) stop() error {
	if err := l.Listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// A socketPlace is where the sockets of a plugin must be.
type socketPlace struct {
	root string // the plugin's root, as the host names it; empty is the host's own
	dir  string // the directory, as the plugin names it
}

// private says whether nobody but the plugin and the host can reach what is there.
func (p socketPlace) private() bool { return p.root != "" }

// check accepts nothing but a socket in the plugin's own directory: the plugin names the
// address that the host then dials.
func (p socketPlace) check(network, address string) error {
	if network != "unix" {
		return fmt.Errorf("it is incompatible: it has the network %s, this host needs unix: only a socket in its own directory is dialled", excerpt(network))
	}
	if filepath.Dir(address) != p.dir || filepath.Clean(address) != address {
		return fmt.Errorf("it announced the socket %s, which is not in its own directory %s", excerpt(address), p.dir)
	}
	socket, err := p.open(address)
	if err != nil {
		return fmt.Errorf("it announced a socket that cannot be looked at: %w", err)
	}
	defer socket.Close()
	if info, err := socket.Stat(); err != nil {
		return fmt.Errorf("it announced a socket that cannot be looked at: %w", err)
	} else if info.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("it announced %s, which is no socket", excerpt(address))
	}
	return nil
}

// open opens what a name refers to, to name it: in the plugin's root without following any
// link, which it could have made, and in the host's own not the last one.
func (p socketPlace) open(path string) (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC}
	at, name := unix.AT_FDCWD, path
	if p.root != "" {
		root, err := unix.Open(p.root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: p.root, Err: err}
		}
		defer unix.Close(root) //nolint:errcheck // it only names a directory
		at, name = root, strings.TrimPrefix(path, "/")
		how.Resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS
	}
	fd, err := unix.Openat2(at, name, &how)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", excerpt(path), err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// dial connects to a socket on which a process of a tree listens. What the name refers to
// is opened once and must be a socket, not a link; nothing is sent to anybody else who
// listens there.
func (p socketPlace) dial(ctx context.Context, path string, top int) (net.Conn, error) {
	socket, err := p.open(path)
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	if info, err := socket.Stat(); err != nil {
		return nil, err
	} else if info.Mode().Type() != os.ModeSocket {
		return nil, fmt.Errorf("%s is no socket", path)
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d", socket.Fd()))
	if err != nil {
		return nil, err
	}
	if !isOf(conn, top) {
		_ = conn.Close()
		return nil, fmt.Errorf("%s is the socket of another process than the plugin's", path)
	}
	return conn, nil
}

// isOf reports whether a process of the tree is on the other side.
func isOf(conn net.Conn, top int) bool {
	pid, err := peerPid(conn)
	return err == nil && sandbox.Descends(pid, top)
}

// peerPid is the process on the other side of a unix socket, as the kernel
// recorded it when the other side connected or began to listen.
func peerPid(conn net.Conn) (int, error) {
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, errors.New("not a unix socket")
	}
	raw, err := unixConn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if credErr != nil {
		return 0, credErr
	}
	return int(cred.Pid), nil
}
