package mcpserver

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// A seal makes the states that clients carry between the requests of one call, and
// opens them. A state is encrypted with a key of this process, bound to what it is for,
// expires, and is opened once. It is safe for concurrent use.
type seal struct {
	aead cipher.AEAD
	now  func() time.Time

	mu    sync.Mutex
	spent map[string]time.Time // under mu: the nonces of states that were opened, until they expire
	prune int                  // under mu: at how many of them those that have expired are forgotten
}

// carried is what is sealed.
type carried struct {
	Nonce  string   `json:"n"`
	Handle string   `json:"h"` // of the suspended call
	Asked  []string `json:"a"` // the requests whose answers are wanted
	Ran    bool     `json:"r"` // the executor had begun
	// Definition stands for what was shown of the tool.
	Definition string    `json:"d"`
	Expires    time.Time `json:"e"`
	// Identity is whose call it is.
	Identity tool.Identity `json:"i"`
}

// binding is what a state is good for: nothing else can be done with it.
type binding struct {
	principal, location, tool string
	arguments                 [sha256.Size]byte
}

func (b binding) bytes() []byte {
	return fmt.Appendf(nil, "toolhost 1 %q %q %q %x", b.principal, b.location, b.tool, b.arguments)
}

// The errors of opening a state.
var (
	errForeignState = errors.New("requestState is not of this call: it belongs to another server process, principal, Location, tool or arguments, or was changed; call the tool again without it")
	errExpiredState = errors.New("requestState has expired, and its answers ran nothing: unless the call was approved elsewhere, call the tool again without it")
	errSpentState   = errors.New("requestState was used already: an answer counts once, and the call may have run; " +
		"look at what it did before you call the tool again without it")
)

func newSeal() *seal {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the key has the right size
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // the block has the right size
	}
	return &seal{aead: aead, now: time.Now, spent: map[string]time.Time{}}
}

// close seals a state.
func (s *seal) close(st carried, to binding) (string, error) {
	st.Nonce = rand.Text()
	text, err := json.Marshal(st)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, text, to.bytes())), nil
}

// open opens a state, once. The error is one of errForeignState, errExpiredState and
// errSpentState.
func (s *seal) open(sealed string, from binding) (carried, error) {
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return carried{}, errForeignState
	}
	text, err := s.aead.Open(nil, nil, raw, from.bytes())
	if err != nil {
		return carried{}, errForeignState
	}
	var st carried
	if json.Unmarshal(text, &st) != nil {
		return carried{}, errForeignState
	}
	now := s.now()
	if !now.Before(st.Expires) {
		return carried{}, errExpiredState
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.spent) >= s.prune {
		maps.DeleteFunc(s.spent, func(_ string, expires time.Time) bool { return !now.Before(expires) })
		s.prune = 2*len(s.spent) + 64 // so that it costs each state no more than a few looks
	}
	if _, spent := s.spent[st.Nonce]; spent {
		return carried{}, errSpentState
	}
	s.spent[st.Nonce] = st.Expires
	return st, nil
}

// digestOf stands for what a capture shows of a tool; it is empty if there is none.
func digestOf(capture *registry.Capture, name string) string {
	for _, d := range capture.Definitions() {
		if d.Name == name {
			sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %d %t", d.ID, d.Description, d.Input, d.Output, d.Effects, d.Irreversible))
			return base64.RawURLEncoding.EncodeToString(sum[:])
		}
	}
	return ""
}
