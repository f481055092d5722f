package mcpserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhost/toolhost/tool"
)

// The keys of _meta that are this server's. A client that runs an agent says with the
// first four for whom a call runs (law 12).
const (
	metaSession = "toolhost/session"
	metaAgent   = "toolhost/agent"
	metaMessage = "toolhost/message"
	metaCall    = "toolhost/call"
	// metaID is the canonical id of a tool; metaKind, metaRan and metaLost say of a result
	// why the call did not complete, whether it had begun, and how many bytes the tool
	// dropped; metaInstructions is the path of the project's instructions in a block.
	metaID           = "toolhost/id"
	metaKind         = "toolhost/kind"
	metaRan          = "toolhost/ran"
	metaLost         = "toolhost/lost"
	metaInstructions = "toolhost/instructions"
	// metaStructured, if it is true, asks for the structured value of a call that has
	// content beside it.
	metaStructured = "toolhost/structured"
)

// local is the principal of whoever needs no token.
const local = "local"

// principal is on whose behalf a request comes.
func principal(extra *mcp.RequestExtra) string {
	if extra == nil || extra.TokenInfo == nil || extra.TokenInfo.UserID == "" {
		return local
	}
	return extra.TokenInfo.UserID
}

// sessionless says whether a request is of the era without sessions.
func sessionless[P mcp.Params](req *mcp.ServerRequest[P]) bool {
	return req.ProtocolVersion() >= eraWithoutSessions
}

// eraWithoutSessions is the revision of the protocol that has no sessions any more.
const eraWithoutSessions = "2026-07-28"

// identity is for whom a call runs: what the client says, and what is made here where
// it says nothing, which is marked so.
func (f *face) identity(req *mcp.CallToolRequest) (tool.Identity, error) {
	var wrong error
	said := func(key string) string {
		value, ok := req.Params.Meta[key]
		text, isText := value.(string)
		if ok && !isText {
			wrong = fmt.Errorf("_meta of the call: %s is no string", key)
		}
		return text
	}
	agent := said(metaAgent)
	if info := req.ClientInfo(); agent == "" && info != nil {
		agent = cut(info.Name, tool.MaxID)
	}
	id := tool.Identity{
		Session: said(metaSession), Agent: cmp.Or(agent, "mcp"), Message: said(metaMessage), Call: said(metaCall),
	}
	if wrong != nil { // an id that is said is never replaced by another one
		return id, wrong
	}
	id.HostMade = id.Session == "" || said(metaAgent) == "" || id.Message == "" || id.Call == ""
	id.Session = f.session(req, id.Session)
	id.Call = cmp.Or(id.Call, "mcp-"+rand.Text())
	id.Message = cmp.Or(id.Message, id.Call)
	if err := id.Check(); err != nil {
		return id, fmt.Errorf("_meta of the call: %w", err)
	}
	return id, nil
}

// session is the session of a request. It is never another principal's, whatever the
// client says.
func (f *face) session(req *mcp.CallToolRequest, said string) string {
	return f.sessionOf(principal(req.Extra), req.Session.ID(), said)
}

// sessionOf makes a session of the principal: the one that the client named; that of
// the connection; or where there is none, the principal's in this process.
func (f *face) sessionOf(principal, connection, said string) string {
	whose := principal + "/"
	if principal == local && !strings.Contains(said, "/") {
		whose = "" // exactly as it was said, where that is no other principal's
	}
	switch {
	case said != "":
		return whose + said
	case connection != "":
		return whose + "mcp-" + connection
	}
	sum := sha256.Sum256([]byte(f.server.secret + "\x00" + principal))
	return whose + "mcp-" + hex.EncodeToString(sum[:10])
}

// over ends the processes of a session of this server's own making, that of a connection
// which is over and runs no call any more. One that a client named is not ended: it may go
// on over another connection, and the Location has its processes until it is closed. ctx may
// have ended.
func (f *face) over(ctx context.Context, principal, connection string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sessionGrace)
	defer cancel()
	session := f.sessionOf(principal, connection, "")
	if err := f.location().EndSession(ctx, session); err != nil {
		f.log.Warn("processes of a session that is over", slog.String("session", session), slog.Any("error", err))
	}
}

// sessionGrace is how long the processes of a session may take to end before they are ended
// without any.
const sessionGrace = 2 * time.Second

// cut is the beginning of a text, of so many bytes at most, in UTF-8.
func cut(text string, most int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
