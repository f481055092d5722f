package state

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/toolhost/toolhost/tool"
)

// The bounds of the audit log.
const (
	// MaxAuditLine is how many bytes a line has at most, with its end. Of an entry
	// that is longer the long texts are cut, and say so.
	MaxAuditLine = 64 << 10
	// MaxAuditFile is how many bytes a file has at most before the next one begins.
	// Where it cannot begin, since another process keeps the lock or something is in
	// the way, the file grows to four times as much, and then nothing is appended.
	MaxAuditFile = 10 << 20
	// MaxAuditFiles is how many files there are at most, the one that is written
	// included. The oldest is removed.
	MaxAuditFiles = 5
)

// An AuditKind says what an entry of the audit log tells.
type AuditKind string

// The kinds of entries.
const (
	AuditRequest       AuditKind = "request"       // somebody was asked for permission
	AuditReply         AuditKind = "reply"         // and answered
	AuditDenial        AuditKind = "denial"        // a rule said no
	AuditStart         AuditKind = "start"         // a call that does more than read began
	AuditSettlement    AuditKind = "settlement"    // a call ended
	AuditContradiction AuditKind = "contradiction" // a tool would have done more than it declared
	AuditTrust         AuditKind = "trust"         // a file or a program is trusted from now on
	AuditRevoke        AuditKind = "revoke"        // what was trusted or approved is so no more
)

// AuditKinds lists all kinds.
func AuditKinds() []AuditKind {
	return []AuditKind{
		AuditRequest, AuditReply, AuditDenial, AuditStart, AuditSettlement, AuditContradiction, AuditTrust, AuditRevoke,
	}
}

// An AuditEntry is one line of the audit log. What does not apply is empty.
type AuditEntry struct {
	// At is when it happened; zero is now, for who appends it.
	At      time.Time `json:"at"`
	Kind    AuditKind `json:"kind"`
	Root    string    `json:"root,omitempty"`
	Session string    `json:"session,omitempty"`
	Agent   string    `json:"agent,omitempty"`
	Message string    `json:"message,omitempty"`
	Call    string    `json:"call,omitempty"`
	// Tool is the canonical id.
	Tool      string   `json:"tool,omitempty"`
	Plugin    string   `json:"plugin,omitempty"`
	Action    string   `json:"action,omitempty"`
	Resources []string `json:"resources,omitempty"`
	// Effects are the names of what the call may do.
	Effects []string `json:"effects,omitempty"`
	// Effect is what the rules said: allow, ask or deny.
	Effect string `json:"effect,omitempty"`
	// Request is the id of the request that was asked, and that a reply is to.
	Request string `json:"request,omitempty"`
	// Answer is what was replied: once, always or reject; saved where nobody was asked
	// because of a saved approval, and empty where nobody answered.
	Answer string `json:"answer,omitempty"`
	// Patterns are those that "always" saved, or the saved one that matched.
	Patterns []string `json:"patterns,omitempty"`
	// By is who answered, trusted or revoked.
	By        string      `json:"by,omitempty"`
	Status    tool.Status `json:"status,omitempty"`
	ErrorKind tool.Kind   `json:"error_kind,omitempty"`
	// Rule is the rule that decided, and where it is written.
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Input is the call's arguments, without what is secret. What is not JSON, or too
	// long, is kept as a JSON string that holds its text.
	Input json.RawMessage `json:"input,omitempty"`
	// Extra is whatever else there is to say.
	Extra map[string]string `json:"extra,omitempty"`
}

// AuditOptions says where the audit log is, and what never comes into it.
type AuditOptions struct {
	// Dir is the state directory; empty for [DefaultDir]. It is created with mode 0700
	// by the first entry.
	Dir string
	// Redact are patterns of secrets, beside those that are always looked for: what
	// one matches is replaced by [Redacted], or if it has groups, what those match.
	Redact []*regexp.Regexp
}

// An Audit is the log of what was asked, allowed, refused and done: lines of JSON, in
// the file audit.jsonl and older ones beside it, which nobody but the user can read.
// It is append-only, and several processes may append at the same time. It is safe
// for concurrent use, and its owner closes it.
type Audit struct {
	dir    string // empty if it is not known
	redact redactor

	mu   sync.Mutex // guards file
	file auditFile

	failed   sync.Mutex // guards what follows: who counts a failure waits for no file
	failures int64
	failure  error // the last one
}

// NewAudit makes a log. It touches nothing on disk.
func NewAudit(options AuditOptions) *Audit {
	return &Audit{dir: options.Dir, redact: newRedactor(options.Redact)}
}

// Path is the file that is appended to, which need not exist yet.
func (a *Audit) Path() (string, error) {
	dir := a.dir
	if dir == "" {
		var err error
		if dir, err = DefaultDir(); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, auditName(0)), nil
}

// Append writes an entry, after what is secret in its input, resources, patterns,
// reason and extras was replaced. It is one write, without waiting for the disk: the line
// survives the death of the process as soon as Append returns, and not a failure of
// the machine. It takes no context, since what happened is recorded also when nobody
// waits any more; for others that append it waits 100 ms at most, and where another
// process kept the lock, for 5 s not at all. An error means that there is no line, or a
// torn one, or, once for each such thing, that something which is no file of the log
// takes the place of one: it is counted as well, see [Audit.Failures]. The next Append
// tries anew.
func (a *Audit) Append(entry AuditEntry) error {
	err := a.append(entry)
	if err == nil {
		return nil
	}
	a.failed.Lock()
	defer a.failed.Unlock()
	a.failures++
	a.failure = fmt.Errorf("audit log: %w%s", err, auditAdvice(err))
	return a.failure
}

func (a *Audit) append(entry AuditEntry) error {
	if !slices.Contains(AuditKinds(), entry.Kind) {
		return fmt.Errorf("entry has the unknown kind %q", entry.Kind)
	}
	path, err := a.Path()
	if err != nil {
		return err
	}
	if entry.At.IsZero() {
		entry.At = time.Now()
	}
	entry.At = entry.At.UTC().Round(0)
	line, err := encodeAudit(a.redact.entry(entry))
	if err != nil {
		return err
	}
	deadline := time.Now().Add(auditPatience)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file.file == nil {
		a.file.path = path
	}
	return a.file.append(line, deadline)
}

// Failures says how many entries could not be written, or only with an error, and why
// the last of them.
func (a *Audit) Failures() (int64, error) {
	a.failed.Lock()
	defer a.failed.Unlock()
	return a.failures, a.failure
}

// Close releases the file, if it was ever opened. A log that is used again opens it
// again.
func (a *Audit) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.file.close()
}
