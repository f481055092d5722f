package mcpserver

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/auth"
)

const (
	maxTokenFile  = 64 << 10
	minToken      = 16
	maxToken      = 512
	maxTokenName  = 64
	tokenFileMode = 0o077 // what the mode of a file of tokens must not have
)

// Tokens are the bearer tokens of those who may come in over HTTP, each with the name of
// the principal that it stands for. The zero value has none. What is kept is the hash of
// each token, never the token. It is immutable, and safe for concurrent use.
type Tokens struct {
	all []holder
}

// A holder is a principal by the hash of its token.
type holder struct {
	name string
	hash [sha256.Size]byte
}

// Empty says whether there are no tokens, so that nobody is told from anybody.
func (t Tokens) Empty() bool { return len(t.all) == 0 }

// ReadTokens reads a file of tokens in the form of [ParseTokens]. It must be a regular
// file of 64 KiB at most, that is the user's or root's, and that nobody else may read or
// write: an error says what to do about it.
func ReadTokens(path string) (Tokens, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // or a pipe would be waited for
	if err != nil {
		return Tokens{}, fmt.Errorf("tokens: %w", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return Tokens{}, fmt.Errorf("tokens: %w", err)
	}
	if !info.Mode().IsRegular() {
		return Tokens{}, fmt.Errorf("tokens: %s is not a regular file", path)
	}
	if info.Mode().Perm()&tokenFileMode != 0 {
		return Tokens{}, fmt.Errorf("tokens: %s may be read or written by others (mode %#o): run chmod 600 %s", path, info.Mode().Perm(), path)
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Uid != 0 && int(s.Uid) != os.Geteuid() {
		return Tokens{}, fmt.Errorf("tokens: %s belongs to another user (%d), who knows them: make one of your own", path, s.Uid)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	if err != nil {
		return Tokens{}, fmt.Errorf("tokens: %w", err)
	}
	if len(text) > maxTokenFile {
		return Tokens{}, fmt.Errorf("tokens: %s has more than %d bytes", path, maxTokenFile)
	}
	t, err := ParseTokens(string(text))
	if err != nil {
		return Tokens{}, fmt.Errorf("%w, in %s", err, path)
	}
	return t, nil
}

// ParseTokens reads tokens from a text, such as the value of an environment variable.
// Each line is TOKEN or NAME TOKEN; empty lines and those that begin with # say nothing.
//
// A token has 16 to 512 letters, digits and -._~+/=; a name, 64 at most of letters,
// digits and -._, and begins with a letter or digit. A principal may have several tokens,
// so that they can be replaced one after the other. A token without a name stands for a
// principal that is named after its hash. A text without a token is an error, which never
// shows a token.
func ParseTokens(text string) (Tokens, error) {
	var t Tokens
	for i, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		wrong := func(why string) (Tokens, error) { return Tokens{}, fmt.Errorf("tokens: line %d: %s", i+1, why) }
		token := fields[len(fields)-1]
		hash := sha256.Sum256([]byte(token))
		name := "token-" + hex.EncodeToString(hash[:4])
		switch {
		case len(fields) > 2:
			return wrong("it has more than a name and a token")
		case len(token) < minToken || len(token) > maxToken:
			return wrong(fmt.Sprintf("a token has %d to %d characters; make one with openssl rand -hex 32", minToken, maxToken))
		case strings.Trim(token, letters+"-._~+/=") != "":
			return wrong("a token has letters, digits and -._~+/= only; make one with openssl rand -hex 32")
		}
		if len(fields) == 2 {
			name = fields[0]
			if len(name) > maxTokenName || strings.Trim(name, letters+"-._") != "" || strings.Trim(name[:1], letters) != "" {
				return wrong(fmt.Sprintf("a name has letters, digits and -._ only, begins with a letter or digit, and has %d at most", maxTokenName))
			}
			if name == local {
				return wrong("the name " + local + " is of those who need no token")
			}
		}
		for _, other := range t.all {
			if other.hash == hash {
				return wrong("its token is there already")
			}
		}
		t.all = append(t.all, holder{name: name, hash: hash})
	}
	if t.Empty() {
		return Tokens{}, errors.New("tokens: there are none: write a line NAME TOKEN for each principal")
	}
	return t, nil
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// principal is whose token it is. How long it takes says nothing of the tokens.
func (t Tokens) principal(token string) (name string, ok bool) {
	hash := sha256.Sum256([]byte(token))
	for _, h := range t.all {
		if subtle.ConstantTimeCompare(hash[:], h.hash[:]) == 1 {
			name, ok = h.name, true
		}
	}
	return name, ok
}

// verify is an [auth.TokenVerifier].
func (t Tokens) verify(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	name, ok := t.principal(token)
	if !ok {
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{UserID: name}, nil
}
