package permission

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/toolhost/toolhost/service"
)

// An ApprovalKey says whose requests a saved approval is for (law 34). An approval
// that was saved under one key says nothing about any other.
type ApprovalKey struct {
	// Plugin is the plugin's key in config. A built-in is known by it alone.
	Plugin  string
	Builtin bool
	// Action is what is approved.
	Action string
}

// An Approval is an answer that lasts: what "always" saved.
type Approval struct {
	ApprovalKey
	// Patterns are those that were shown to who approved, exactly. A resource is
	// approved when one of them matches it; a command line only by a pattern without
	// wildcards, since no command is allowed for its beginning (laws 34, 38).
	Patterns []string
	// Tool is the canonical id of the tool that asked, for whoever reads the list; the
	// approval holds for the plugin's other tools as well, unless the key has a
	// definition.
	Tool string
	// By and Why say who approved and what for; either may be empty.
	By, Why string
	// At is when.
	At time.Time
	// Expires is when it ceases to hold; zero for never.
	Expires time.Time
}

// holds reports whether the approval has not expired.
func (a *Approval) holds(now time.Time) bool { return a.Expires.IsZero() || now.Before(a.Expires) }

// Approvals keeps what was approved for good. It must be safe for concurrent use.
type Approvals interface {
	// Save records an approval, which it must not keep a part of. The approval holds
	// from when Save has returned nil; an error means that nothing was saved.
	Save(ctx context.Context, approval Approval) error
	// Saved gives what is saved under exactly that key and was not revoked; what has
	// expired may be among it. The caller does not change it. An error means that
	// nothing is known, so that a person is asked.
	Saved(ctx context.Context, key ApprovalKey) ([]Approval, error)
}

// approves is the approval of a resource among those saved for an action, or nil.
func approves(saved []Approval, action, resource string, now time.Time) *Approval {
	for i := range saved {
		if saved[i].holds(now) && slices.ContainsFunc(saved[i].Patterns, func(text string) bool {
			pattern, err := ParsePattern(text)
			return err == nil && (action != service.ActionShell || pattern.wild == "") && pattern.Match(resource)
		}) {
			return &saved[i]
		}
	}
	return nil
}

// approvesAll reports whether each of the resources is approved. None are not.
func approvesAll(saved []Approval, action string, resources []string, now time.Time) bool {
	return len(resources) > 0 && !slices.ContainsFunc(resources, func(resource string) bool {
		return approves(saved, action, resource, now) == nil
	})
}

// savable are those of the patterns that can be saved for the action: a pattern
// that no resource can match, or that an approval would not heed, is not offered.
func savable(action string, patterns []string) []string {
	actions, err := ParsePattern(action)
	if err != nil {
		return nil
	}
	var can []string
	for _, text := range patterns {
		pattern, err := ParseResource(text, actions)
		if err == nil && (action != service.ActionShell || pattern.wild == "") {
			can = append(can, text)
		}
	}
	return can
}

// Memory keeps approvals for as long as the program runs, for programs without a
// state. The zero value is empty and ready; it must not be copied.
type Memory struct {
	mu    sync.Mutex
	saved map[ApprovalKey][]Approval // under mu; the slices are never changed in place
}

var _ Approvals = (*Memory)(nil)

// Save implements [Approvals]; it never fails. What was approved in the same words
// before is replaced, and what has expired under the key is forgotten.
func (m *Memory) Save(_ context.Context, approval Approval) error {
	approval.Patterns = slices.Clone(approval.Patterns)
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := []Approval{approval}
	for _, other := range m.saved[approval.ApprovalKey] {
		if other.holds(approval.At) && !slices.Equal(other.Patterns, approval.Patterns) {
			kept = append(kept, other)
		}
	}
	if m.saved == nil {
		m.saved = make(map[ApprovalKey][]Approval)
	}
	m.saved[approval.ApprovalKey] = kept
	return nil
}

// Saved implements [Approvals]; it never fails.
func (m *Memory) Saved(_ context.Context, key ApprovalKey) ([]Approval, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.saved[key], nil
}

// All lists what is saved, by the time at which it was.
func (m *Memory) All() []Approval {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Approval
	for _, saved := range m.saved {
		all = append(all, saved...)
	}
	slices.SortStableFunc(all, func(a, b Approval) int { return a.At.Compare(b.At) })
	return all
}

// Revoke forgets every approval that which holds for, and says how many those were.
// It must not call back.
func (m *Memory) Revoke(which func(Approval) bool) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	revoked := 0
	for key, saved := range m.saved {
		kept := slices.DeleteFunc(slices.Clone(saved), which)
		revoked += len(saved) - len(kept)
		if m.saved[key] = kept; len(kept) == 0 {
			delete(m.saved, key)
		}
	}
	return revoked
}
