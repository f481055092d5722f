package registry

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolhost/toolhost/tool"
)

// An owner is everything that was registered under one name.
type owner struct {
	name    string
	active  []*Registration     // oldest first
	claimed map[string]struct{} // effective names of all registrations since Forget
	last    Owner               // the settings when the last active one was closed
	pending int                 // registrations that are being prepared
	budget  budget              // of the active ones that are in no set, and those
}

func newOwner(name string) *owner {
	return &owner{name: name, claimed: make(map[string]struct{})}
}

// settings are those of the newest active registration, or else of the last one
// that was active.
func (o *owner) settings() Owner {
	if len(o.active) == 0 {
		return o.last
	}
	return o.active[len(o.active)-1].owner
}

// top is what the owner has under the effective name: of the latest active
// registration that holds it, or nil.
func (o *owner) top(name string) *entry {
	for _, registration := range slices.Backward(o.active) {
		if e, ok := registration.entries[name]; ok {
			return e
		}
	}
	return nil
}

// claims reports whether the owner claims the effective name.
func (o *owner) claims(name string) bool {
	_, ok := o.claimed[name]
	return ok
}

// close takes the registration away. Its names stay claimed.
func (o *owner) close(registration *Registration) {
	if len(o.active) == 1 {
		o.last = registration.owner
	}
	o.active = slices.DeleteFunc(o.active, func(other *Registration) bool { return other == registration })
}

// overrides reports whether config lets the owner take the effective name.
func (o *owner) overrides(name string) bool {
	return slices.ContainsFunc(o.settings().Override, func(override string) bool {
		return tool.EffectiveName(override) == name
	})
}

func (o *owner) builtin() bool { return o.settings().Builtin }

func (o *owner) application() bool { return o.settings().Application }

// winner is who has the effective name among those who claim it, or nil (laws 3,
// 6). It depends on nothing but what they are: not on the order in which they
// came, nor on who is running.
func winner(name string, claimants []*owner) *owner {
	claimants = foremost(claimants)
	// Several overrides cancel each other: the name goes to whoever has it without.
	if overriding := overriding(name, claimants); len(overriding) == 1 {
		return overriding[0]
	}
	builtins := filter(claimants, (*owner).builtin)
	switch {
	case len(builtins) == 1:
		return builtins[0]
	case len(builtins) == 0 && len(claimants) == 1:
		return claimants[0]
	}
	return nil
}

// foremost are the claimants of the Location, or where there are none those of the
// embedding program (law 6).
func foremost(claimants []*owner) []*owner {
	if located := filter(claimants, func(o *owner) bool { return !o.application() }); len(located) > 0 {
		return located
	}
	return claimants
}

func overriding(name string, claimants []*owner) []*owner {
	return filter(claimants, func(o *owner) bool { return o.overrides(name) })
}

// collides says why o does not get a name that it claims; it is empty when it does.
func collides(name string, o *owner, claimants []*owner) string {
	w := winner(name, claimants)
	ahead := foremost(claimants)
	switch {
	case w == o:
		return ""
	case o.application() && !ahead[0].application():
		return fmt.Sprintf("the Location's plugin %q has the name %q, and comes before the tools of the program", ahead[0].name, name)
	case w == nil:
		return fmt.Sprintf("the name %q is claimed by the plugins %s, so that none of them has it: say override: [%s] in the config of exactly one", name, list(names(ahead)), name)
	case o.overrides(name):
		return fmt.Sprintf("the plugins %s all say override for the name %q, so that it stays with plugin %q: keep one", list(names(overriding(name, claimants))), name, w.name)
	case w.overrides(name):
		return fmt.Sprintf("the name %q went to plugin %q, whose config says override", name, w.name)
	default:
		return fmt.Sprintf("the name %q belongs to the built-in plugin %q: say override: [%s] in the config of plugin %q to take it over", name, w.name, name, o.name)
	}
}

func names(owners []*owner) []string {
	all := make([]string, len(owners))
	for i, o := range owners {
		all[i] = o.name
	}
	slices.Sort(all)
	return all
}

// list is two names or more in a sentence, and of many the first.
func list(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = fmt.Sprintf("%q", name)
	}
	const most = 5
	if len(quoted) > most {
		quoted = append(quoted[:most], fmt.Sprintf("%d more", len(names)-most))
	}
	last := len(quoted) - 1
	return strings.Join(quoted[:last], ", ") + " and " + quoted[last]
}

func filter(owners []*owner, keep func(*owner) bool) []*owner {
	var kept []*owner
	for _, o := range owners {
		if keep(o) {
			kept = append(kept, o)
		}
	}
	return kept
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
