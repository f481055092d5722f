package permission

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolhost/toolhost/service"
)

// An ApprovalKey says whose requests a saved approval is for (law 34). An approval
// that was saved under one key says nothing about any other.
type ApprovalKey struct {
	// Root is the Location's root, absolute, clean and without links.
	Root string
	// Plugin is the plugin's key in config. A built-in is known by it alone, any other
	// one by its digest as well.
	Plugin  string
	Builtin bool
	Digest  string
	// Definition is the digest of a dynamic tool's definition, else empty.
	Definition string
	// Action is what is approved.
	Action string
}

// key is where approvals of an action of the caller are saved.
func (c *Caller) key(action string) ApprovalKey {
	key := ApprovalKey{Root: c.Root, Plugin: c.Plugin, Builtin: c.Builtin, Digest: c.Digest, Definition: c.Definition, Action: action}
	if c.Builtin {
		key.Digest = ""
	}
	return key
}

// complete reports whether the key says for whom an approval would be.
func (k *ApprovalKey) complete() bool {
	return k.Root != "" && k.Plugin != "" && k.Action != "" && (k.Builtin || k.Digest != "")
}

// savedApprovals are those of one action of a call, which are looked up when the
// first resource needs one. The holder of the call's turn owns it.
type savedApprovals struct {
	approvals Approvals // nil: none
	key       ApprovalKey

	known    bool
	patterns []SavedPattern
	err      error
}

// savedFor are those that the engine looks at for an action of the caller.
func (e *Engine) savedFor(caller *Caller, action string) savedApprovals {
	return savedApprovals{approvals: e.approvals, key: caller.key(action)}
}

// find is the pattern that approves the resource whose extent is given, or nil; also
// when that cannot be told.
func (s *savedApprovals) find(ctx context.Context, extent string) *SavedPattern {
	if s.approvals != nil && !s.known {
		s.known = true
		if s.key.complete() {
			s.patterns, s.err = s.approvals.Saved(ctx, s.key)
		}
	}
	if s.err != nil {
		return nil
	}
	i := slices.IndexFunc(s.patterns, func(saved SavedPattern) bool { return saved.matches(s.key.Action, extent) })
	if i < 0 {
		return nil
	}
	return &s.patterns[i]
}

// An Approval is an answer that lasts: what "always" saved.
type Approval struct {
	// ID names it; it is the store's to give.
	ID int64
	ApprovalKey
	// Patterns are those that were shown to who approved, exactly. A resource is
	// approved when one of them matches it; a command line only by a pattern without
	// wildcards, since no command is allowed for its beginning (laws 34, 38).
	Patterns []string
	// Tool is the canonical id of the tool that asked, for showing. It says nothing
	// about what is approved.
	Tool string
	// By and Why say who approved and what for; either may be empty. Why is of at most
	// [MaxFeedback] bytes.
	By, Why string
	// At is when.
	At time.Time
	// Expires is when it ceases to count; zero for never.
	Expires time.Time
}

// A SavedPattern is one pattern of a saved approval.
type SavedPattern struct {
	// ID is that of the approval.
	ID      int64
	Pattern string
}

// matches reports whether the pattern approves a resource of the action.
func (s SavedPattern) matches(action, resource string) bool {
	pattern, err := ParsePattern(s.Pattern)
	return err == nil && (action != service.ActionShell || pattern.wild == "") && pattern.Match(resource)
}

// Approvals keeps what was approved for good. It knows nothing of what patterns
// mean. It must be safe for concurrent use.
type Approvals interface {
	// Save records an approval, of which it keeps no part that the caller could change.
	// It counts from when Save has returned nil; an error means that nothing was saved.
	Save(ctx context.Context, approval Approval) error
	// Saved gives the patterns that are saved under exactly that key and count now: that
	// were neither revoked nor have expired. The caller does not change them. An error
	// means that nothing is known, so that a person is asked.
	Saved(ctx context.Context, key ApprovalKey) ([]SavedPattern, error)
}

// approvesAll reports whether each of the resources of the request is approved. None
// are not.
func approvesAll(saved []SavedPattern, r *Request) bool {
	return len(r.Resources) > 0 && !hasInput(r.Action, r.Metadata) && !slices.ContainsFunc(r.Resources, func(resource string) bool {
		extent := extent(r.Action, resource, r.Directory)
		return !slices.ContainsFunc(saved, func(s SavedPattern) bool { return s.matches(r.Action, extent) })
	})
}

// maxSaved is how many patterns an approval may have, and maxSavedBytes how long they
// may be together: what is saved was shown, all of it (law 34).
const (
	maxSaved      = 64
	maxSavedBytes = 16 << 10
)

// savable are those of the patterns that can be saved for the action: a pattern
// that no resource can match, or that an approval would not heed, is not offered.
// Of too many none can: what is left out would be a matter of chance.
func savable(action string, patterns []string) []string {
	actions, err := ParsePattern(action)
	if err != nil || len(patterns) > maxSaved || len(strings.Join(patterns, "")) > maxSavedBytes {
		return nil
	}
	var can []string
	for _, text := range patterns {
		pattern, err := ParseResource(text, actions)
		if err == nil && (action != service.ActionShell || pattern.wild == "") && strings.IndexByte(text, 0) < 0 {
			can = append(can, text)
		}
	}
	return can
}

// Memory keeps approvals for as long as the program runs, for programs without a
// state. The zero value is empty and ready; it must not be copied.
type Memory struct {
	mu    sync.Mutex // guards what follows
	last  int64      // the newest id
	saved []Approval // oldest first; their patterns are never changed
}

var _ Approvals = (*Memory)(nil)

// Save implements [Approvals]; it never fails. The same patterns for the same key
// are saved once: what was saved of them before is replaced. What has expired is
// forgotten.
func (m *Memory) Save(_ context.Context, approval Approval) error {
	approval.Patterns = slices.Clone(approval.Patterns)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(func(other Approval) bool {
		return other.ApprovalKey == approval.ApprovalKey && slices.Equal(other.Patterns, approval.Patterns)
	})
	m.last++
	approval.ID = m.last
	m.saved = append(m.saved, approval)
	return nil
}

// forget forgets what has expired and what which holds for. m.mu is held.
func (m *Memory) forget(which func(Approval) bool) {
	now := time.Now()
	m.saved = slices.DeleteFunc(m.saved, func(a Approval) bool {
		return !a.Expires.IsZero() && !now.Before(a.Expires) || which(a)
	})
}

// Saved implements [Approvals]; it never fails.
func (m *Memory) Saved(_ context.Context, key ApprovalKey) ([]SavedPattern, error) {
	var patterns []SavedPattern
	for _, approval := range m.All() {
		if approval.ApprovalKey == key {
			for _, pattern := range approval.Patterns {
				patterns = append(patterns, SavedPattern{approval.ID, pattern})
			}
		}
	}
	return patterns, nil
}

// All lists what is saved, oldest first. The caller must not change the patterns.
func (m *Memory) All() []Approval {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(func(Approval) bool { return false })
	return slices.Clone(m.saved)
}

// Revoke forgets the approval with that id, and says whether there was one.
func (m *Memory) Revoke(id int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := false
	m.forget(func(a Approval) bool {
		found = found || a.ID == id
		return a.ID == id
	})
	return found
}
