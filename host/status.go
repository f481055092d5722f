package host

import (
	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/service/process"
)

// Status is what a host is at one moment. Its parts are looked at one after another.
type Status struct {
	// Stale is why what is configured is not in effect; see [Host.Stale].
	Stale string
	// Locations are those that are active, by name.
	Locations []LocationStatus
}

// LocationStatus is an active Location.
type LocationStatus struct {
	Name, Root string
	// Stale is why it is not what is configured; see [location.Location.Stale].
	Stale   string
	Plugins []location.PluginStatus
	// Calls are those that run, Suspended those of them that wait for a person and for
	// nobody else.
	Calls, Suspended int
	// Processes are those beside calls, of every session; see [location.Location.Processes].
	Processes []process.Info
}

// Status says what the host does now. It activates nothing and waits for nobody.
func (h *Host) Status() Status {
	s := Status{Stale: h.Stale()}
	for _, l := range h.Active() {
		s.Locations = append(s.Locations, LocationStatus{
			Name: l.Name(), Root: l.Root(), Stale: l.Stale(), Plugins: l.Plugins(), Calls: l.Use().Calls, Suspended: len(l.Suspended()),
			Processes: l.Processes(),
		})
	}
	return s
}

// Tree is what the host owns now, for a person to read; see [scope.Scope.Tree].
func (h *Host) Tree() scope.Tree { return h.life.Tree() }
