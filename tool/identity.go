package tool

import (
	"fmt"
	"unicode/utf8"
)

// Identity says for whom a call runs. The runner that drives the model supplies
// all four ids and the host passes them on exactly as they are (law 12). They
// are opaque: no rule may depend on their form.
type Identity struct {
	// Session is the conversation.
	Session string `json:"session"`
	// Agent is the name of the agent within the session.
	Agent string `json:"agent"`
	// Message is the durable id of the assistant message that holds the call.
	Message string `json:"message"`
	// Call is the id of the tool call within that message.
	Call string `json:"call"`
	// HostMade is true when a face without a runner made some of the ids.
	HostMade bool `json:"host_made,omitempty"`
}

// MaxID is the most bytes that one id may have.
const MaxID = 256

// Check reports an identity that is incomplete, or has an id that is over [MaxID]
// bytes or not UTF-8.
// Such a call is refused before anything else happens.
func (id Identity) Check() error {
	for _, part := range [...]struct{ name, value string }{
		{"session", id.Session},
		{"agent", id.Agent},
		{"message", id.Message},
		{"call", id.Call},
	} {
		if part.value == "" {
			return fmt.Errorf("identity has no %s id: a call needs session, agent, message and call", part.name)
		}
		if len(part.value) > MaxID {
			return fmt.Errorf("identity has a %s id of %d bytes: at most %d", part.name, len(part.value), MaxID)
		}
		if !utf8.ValidString(part.value) {
			return fmt.Errorf("identity has a %s id that is not text in UTF-8", part.name)
		}
	}
	return nil
}
