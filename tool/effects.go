package tool

import (
	"encoding/json"
	"strings"
)

// Effects is the set of what a call may do beyond computing its answer (law
// 23). The zero value says that nothing was declared; undeclared means
// everything, which [Effects.Effective] spells out.
type Effects uint16

// The members of the set. None declares that a call has no effect at all; it is
// different from declaring nothing.
const (
	// Read looks at files or other state of the Location.
	Read Effects = 1 << iota
	// Write changes files or other state of the Location.
	Write
	// Process runs programs.
	Process
	// Network talks to other machines.
	Network
	// UserInteraction asks the person something.
	UserInteraction
	// Delegation hands work to another agent.
	Delegation
	// None declares that there is no effect.
	None

	// AllEffects is what an undeclared tool may do.
	AllEffects = Read | Write | Process | Network | UserInteraction | Delegation
)

var effectNames = [...]struct {
	effect Effects
	name   string
}{
	{Read, "read"},
	{Write, "write"},
	{Process, "process"},
	{Network, "network"},
	{UserInteraction, "user_interaction"},
	{Delegation, "delegation"},
	{None, "none"},
}

// Effective is e without None, or [AllEffects] when nothing was declared.
func (e Effects) Effective() Effects {
	if e == 0 {
		return AllEffects
	}
	return e & AllEffects
}

// Has reports whether every effect in want is in the effective set.
func (e Effects) Has(want Effects) bool {
	want &= AllEffects
	return e.Effective()&want == want
}

// Beyond is what e may do that declared may not: the contradiction of law 23.
// It is 0 when e stays within declared.
func (e Effects) Beyond(declared Effects) Effects {
	return e.Effective() &^ declared.Effective()
}

// A Contradiction is what a tool did or wanted to do beyond what its call may do
// (laws 23, 24). It was refused; this is the record of it.
type Contradiction struct {
	// Identity is whose call it was, Tool the canonical id of what was called.
	Identity Identity
	Tool     string
	// During says what the tool was at: "prepare", or the service that it used, such
	// as "filesystem.read".
	During string
	// Allowed is what the call may do, Wanted what it would have taken.
	Allowed, Wanted Effects
}

// Names lists the effective effects by name, in a fixed order.
func (e Effects) Names() []string {
	names := make([]string, 0, len(effectNames))
	for _, n := range effectNames {
		if e.Effective()&n.effect != 0 {
			names = append(names, n.name)
		}
	}
	return names
}

// String is the effective effects joined by commas, or "none".
func (e Effects) String() string {
	if names := e.Names(); len(names) > 0 {
		return strings.Join(names, ",")
	}
	return "none"
}

// MarshalJSON encodes the effective set as a list of names.
func (e Effects) MarshalJSON() ([]byte, error) { return json.Marshal(e.Names()) }
