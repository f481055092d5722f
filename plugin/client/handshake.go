package client

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/go-plugin"

	"github.com/toolhost/toolhost/plugin/internal/wire"
)

// maxHandshake is the longest line that is taken for a handshake.
const maxHandshake = 16 << 10

// checkHandshake says in plain words what is wrong with the first line that a
// plugin printed, or gives the path of the socket that it announces, which is in its
// place.
//
// The line is: core version | protocol version | network | address | protocol |
// certificate. Older plugins leave out the last two, and speak net/rpc.
func checkHandshake(line string, sockets socketPlace) (socket string, err error) {
	parts := strings.Split(strings.TrimSpace(line), "|")
	if _, err := strconv.Atoi(parts[0]); err != nil || len(parts) < 4 {
		return "", fmt.Errorf("it printed %s on its standard output before its handshake: "+
			"print to standard error instead, and nothing before Serve", excerpt(line))
	}
	protocol, certificate := string(plugin.ProtocolNetRPC), ""
	if len(parts) > 4 {
		protocol = parts[4]
	}
	if len(parts) > 5 {
		certificate = parts[5]
	}
	switch {
	case parts[0] != strconv.Itoa(plugin.CoreProtocolVersion):
		return "", fmt.Errorf("it is incompatible: it has version %s of go-plugin's handshake, this host needs %d: rebuild it",
			excerpt(parts[0]), plugin.CoreProtocolVersion)
	case parts[1] != strconv.Itoa(wire.ProtocolVersion):
		return "", fmt.Errorf("it is incompatible: it has version %s of the plugin protocol, this host needs %d: "+
			"rebuild it with a matching SDK", excerpt(parts[1]), wire.ProtocolVersion)
	case protocol != string(plugin.ProtocolGRPC):
		return "", fmt.Errorf("it is incompatible: it has the transport %s, this host needs grpc: rebuild it with the SDK", excerpt(protocol))
	}
	if err := sockets.check(parts[2], parts[3]); err != nil {
		return "", err
	}
	if sockets.private() {
		return parts[3], checkNoCertificate(certificate)
	}
	return parts[3], checkCertificate(certificate)
}

// checkCertificate is because go-plugin takes a plugin without a certificate for
// one that needs none. It tells them apart by this length.
func checkCertificate(certificate string) error {
	if len(certificate) <= 50 {
		return errors.New("it announced no certificate: both sides authenticate, so its SDK must support AutoMTLS")
	}
	if _, err := base64.RawStdEncoding.DecodeString(certificate); err != nil {
		return errors.New("it announced a certificate that cannot be read")
	}
	return nil
}

// checkNoCertificate is because go-plugin panics where it was given none of the host's and
// is announced one of the plugin's.
func checkNoCertificate(certificate string) error {
	if certificate != "" {
		return errors.New("it announced a certificate, and the host of a confined plugin has none: its SDK must not insist on TLS")
	}
	return nil
}

// excerpt is a short quoted piece of what a plugin said.
func excerpt(text string) string {
	text = strings.TrimRight(text, "\r\n")
	const most = 120
	if len(text) > most {
		return fmt.Sprintf("%q and %d bytes more", text[:most], len(text)-most)
	}
	return strconv.Quote(text)
}
