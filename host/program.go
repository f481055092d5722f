package host

import (
	"fmt"
	"slices"

	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// Registration is tools of the embedding program, in every Location of the host.
type Registration struct {
	host  *Host
	name  string
	tools map[string]tool.Tool
	in    map[*location.Location]*registry.Registration // under the host's mu
}

// Register adds tools of the program itself to every Location, to those that are
// active and to those that will be. They run in this process, come after the tools
// of plugins where names collide, and get none of the Location's services (law 6);
// rules speak of them as name/tool. What the caller does later to the map or the
// tools changes nothing (law 4). A tool that is invalid, or whose name is taken, is
// in [location.Location.Refusals] and logged; in a Location with a plugin of that
// name none of them is registered, which is logged as well.
//
// The tools stand until the Registration is closed, or the host.
func (h *Host) Register(name string, tools map[string]tool.Tool) (*Registration, error) {
	if err := tool.CheckPluginName(name); err != nil {
		return nil, fmt.Errorf("register tools of the program: %w", err)
	}
	r := &Registration{host: h, name: name, tools: make(map[string]tool.Tool, len(tools)), in: map[*location.Location]*registry.Registration{}}
	for authored, t := range tools {
		r.tools[authored] = t.Clone()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errClosed
	}
	h.programs = append(h.programs, r)
	for _, a := range h.locations {
		if a.registered {
			r.addTo(a.location)
		}
	}
	return r, nil
}

// Close removes exactly these tools, everywhere. Closing twice is closing once.
func (r *Registration) Close() {
	r.host.mu.Lock()
	defer r.host.mu.Unlock()
	for _, registration := range r.in {
		registration.Close()
	}
	r.in = nil
	r.host.programs = slices.DeleteFunc(r.host.programs, func(other *Registration) bool { return other == r })
}

// registerIn adds the program's tools to a Location that has just been opened.
func (h *Host) registerIn(a *activation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a.registered = true
	for _, r := range h.programs {
		r.addTo(a.location)
	}
}

// addTo adds the tools to one Location. The host's mu is held.
func (r *Registration) addTo(l *location.Location) {
	registration, _, err := l.Register(r.name, r.tools) // what was refused, the registry logs
	if err != nil {
		r.host.options.Log.Warn("tools of the program are not registered", "error", err)
		return
	}
	for other := range r.in {
		if other.Closed() {
			delete(r.in, other)
		}
	}
	r.in[l] = registration
}
