package control

import (
	"time"

	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/service/permission/shown"
)

// Status is what a host says of itself.
type Status struct {
	Pid     int    `json:"pid"`
	Version string `json:"version"` // of the program that embeds it
	// Started is since when it can be controlled.
	Started time.Time `json:"started"`
	Socket  string    `json:"socket"`
	// Locations are those that are active, by name.
	Locations []Location `json:"locations"`
	// Pending is how many requests are shown to be answered.
	Pending int `json:"pending"`
	// Approvals says whether requests can be answered through this host.
	Approvals bool  `json:"approvals"`
	Audit     Audit `json:"audit"`
}

// Location is an active Location.
type Location struct {
	Name    string                  `json:"name"`
	Root    string                  `json:"root"`
	Plugins []location.PluginStatus `json:"plugins"`
	// Suspended is how many of its calls wait for a person and for nobody else.
	Suspended int `json:"suspended"`
}

// Audit is the state of the audit log.
type Audit struct {
	// Failures is how many entries could not be written, LastFailure why the last
	// could not; both are empty without a log.
	Failures    int64  `json:"failures"`
	LastFailure string `json:"last_failure,omitempty"`
}

// A List is the requests that are to be answered, oldest first.
type List struct {
	Approvals []shown.Request `json:"approvals"`
	// More is how many follow that the list has no room for. They come into it when
	// those before them are answered.
	More int `json:"more"`
}
