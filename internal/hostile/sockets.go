package hostile

import (
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// protocolMPTCP is not in package unix on all architectures.
const protocolMPTCP = 262

// sockets are attacks on what listens, on this machine or beyond.
func sockets() []Attack {
	inet := func(name string, root bool, may string, family, kind, protocol int) Attack {
		return Attack{Name: name, Root: root, May: may, try: func(Target) error {
			fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
			if err != nil {
				return err
			}
			return unix.Close(fd)
		}}
	}
	return []Attack{
		{Name: "connect by TCP", Network: true, try: func(t Target) error { return connectInet(unix.SOCK_STREAM, unix.IPPROTO_TCP, t.TCP) }},
		{Name: "connect by MPTCP", May: "MPTCP", try: func(t Target) error { return connectInet(unix.SOCK_STREAM, protocolMPTCP, t.TCP) }},
		{Name: "send by UDP", Network: true, try: func(t Target) error { return connectInet(unix.SOCK_DGRAM, unix.IPPROTO_UDP, t.UDP) }},
		{Name: "connect to an abstract unix socket", try: func(t Target) error { return connectUnix(unix.SOCK_STREAM, t.Abstract) }},
		{Name: "connect to a unix socket by its path", try: func(t Target) error { return connectUnix(unix.SOCK_STREAM, t.Socket) }},
		{Name: "send to a unix socket by its path", try: func(t Target) error { return connectUnix(unix.SOCK_DGRAM, t.Datagram) }},
		{Name: "connect to a socket of another plugin", try: func(t Target) error { return connectUnix(unix.SOCK_STREAM, t.Other) }},
		{Name: "connect to a unix socket in a directory that it was given", Open: "what is in a directory that was given is given",
			try: func(t Target) error { return connectUnix(unix.SOCK_STREAM, t.InGranted) }},
		inet("make a raw socket", true, "", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP),
		inet("make a packet socket", true, "packet sockets", unix.AF_PACKET, unix.SOCK_RAW, 0),
		{Name: "ask for interfaces and routes (netlink)", Network: true, try: func(Target) error {
			fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
			if err != nil {
				return err
			}
			return unix.Close(fd)
		}},
		inet("make another netlink socket", false, "", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT),
		inet("make a vsock socket", false, "vsock", unix.AF_VSOCK, unix.SOCK_STREAM, 0),
		inet("make a socket of the kernel's ciphers", false, "AF_ALG", unix.AF_ALG, unix.SOCK_SEQPACKET, 0),
	}
}

func connectInet(kind, protocol int, address string) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was sent
	at := &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	if kind == unix.SOCK_DGRAM {
		return unix.Sendto(fd, []byte("x"), 0, at)
	}
	return unix.Connect(fd, at)
}

// connectUnix connects; a name that begins with @ is an abstract one.
func connectUnix(kind int, name string) error {
	if name == "" {
		return net.UnknownNetworkError("no name was given")
	}
	fd, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was sent
	if kind == unix.SOCK_DGRAM {
		return unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrUnix{Name: name})
	}
	return unix.Connect(fd, &unix.SockaddrUnix{Name: name})
}
