package registry

import (
	"slices"

	"github.com/toolhost/toolhost/tool"
)

// A Set is the registrations of one incarnation of an owner: they appear in one act
// and vanish in one act, each with one notification. It is held until it is given to
// [Registry.Swap]; what is registered in it until then is prepared and checked, and can
// neither be seen nor called. All methods may be called concurrently.
type Set struct {
	registry *Registry
	owner    Owner
	budget   budget // of its own: what replaces another stands beside it for a while

	// Under the registry's mu:
	active    []*Registration // oldest first
	published bool
	over      bool

	retired error // under the mu of the registry's suspensions: how its calls that wait for a person end; nil until then
}

// NewSet makes a set of an owner, which is held.
func (r *Registry) NewSet(by Owner) *Set {
	by.Override = slices.Clone(by.Override)
	by.Builtin = by.Builtin || by.Host
	return &Set{registry: r, owner: by}
}

// Register adds tools to the set, as [Registry.Register] does. As long as the set is
// held the report says what would be if it was published now. Once the set is over
// nothing is registered: what is returned is closed.
func (s *Set) Register(tools map[string]tool.Tool) (*Registration, Report) {
	r := s.registry
	registration := &Registration{registry: r, owner: s.owner, budget: &s.budget, set: s}
	r.fill(registration, tools)

	r.mu.Lock()
	var collisions []Refusal
	report := Report{Doubts: slices.Clone(registration.doubts)}
	switch {
	case s.over:
		registration.release()
		registration.lost = true
		registration.closed.Store(true)
	case s.published:
		s.active = append(s.active, registration)
		r.publish(registration)
		report.Refused, collisions = r.refusals(registration), r.newCollisions(registration)
		r.changed()
	default:
		s.active = append(s.active, registration)
		report.Refused = r.prospects(registration)
	}
	r.mu.Unlock()

	r.logRefused(slices.Concat(registration.refused, collisions))
	return registration, report
}

// Lost closes every registration of the set because what runs its tools is gone, and
// ends the set; see [Registration.Lost].
func (s *Set) Lost() {
	r := s.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	r.act(func() { s.close(true) })
}

// close ends the set. r.mu is held.
func (s *Set) close(lost bool) {
	s.over = true
	for _, registration := range slices.Clone(s.active) {
		registration.closeLocked(lost)
	}
}

// Swap publishes the sets that come, and closes those that go, in one act: no capture
// has a tool of both or of neither, and subscribers are told once. Whoever captured a
// tool of a set that went still runs it for [PinFor], as long as what runs it is there
// (law 7). Of the owners to forget the claims are dropped that nothing active holds; see
// [Registry.Forget]. A set that is over, or was published before, stays as it is.
func (r *Registry) Swap(come, leave []*Set, forget ...string) {
	var refused []Refusal
	r.mu.Lock()
	r.act(func() {
		for _, s := range leave {
			s.close(false)
		}
		for _, name := range forget {
			r.forget(name)
		}
		for _, s := range come {
			refused = append(refused, s.publish()...)
		}
		for _, s := range come {
			for _, registration := range s.active {
				refused = append(refused, r.newCollisions(registration)...)
			}
		}
	})
	r.mu.Unlock()
	r.logRefused(refused)
}

// publish makes effective what is in the set, and says what was refused only now. r.mu
// is held.
func (s *Set) publish() (refused []Refusal) {
	if s.over || s.published {
		return nil
	}
	s.published = true
	for _, registration := range s.active {
		had := len(registration.refused)
		s.registry.publish(registration)
		refused = append(refused, registration.refused[had:]...)
	}
	return refused
}

// publish makes a prepared registration effective. r.mu is held.
func (r *Registry) publish(registration *Registration) {
	o := r.owner(registration.owner.Name)
	registration.limit(o)
	registration.published = true
	o.active = append(o.active, registration)
	for name := range registration.entries {
		r.claim(name, o)
	}
}

// prospects are the tools of a registration that is held which could not be called if
// it was published now, in place of what its owner has. r.mu is held.
func (r *Registry) prospects(registration *Registration) []Refusal {
	all := slices.Clone(registration.refused)
	stand := newOwner(registration.owner.Name)
	stand.active = []*Registration{registration}
	for name, e := range registration.entries {
		claimants := slices.DeleteFunc(slices.Clone(r.claims[name]), func(o *owner) bool { return o.name == stand.name })
		if reason := collides(name, stand, append(claimants, stand)); reason != "" {
			all = append(all, e.refusal(reason))
		}
	}
	slices.SortFunc(all, byName)
	return all
}

// Owner gives the settings of an owner that has tools now.
func (r *Registry) Owner(name string) (Owner, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, ok := r.owners[name]
	if !ok || len(o.active) == 0 {
		return Owner{}, false
	}
	by := o.settings()
	by.Override = slices.Clone(by.Override)
	return by, true
}
