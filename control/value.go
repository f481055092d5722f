package control

import (
	"time"

	"github.com/toolhost/toolhost/host"
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
	// Reloads says whether the host can be told to load its configuration anew, and Stale
	// why what is configured is not in effect.
	Reloads bool   `json:"reloads"`
	Stale   string `json:"stale,omitempty"`
	// Locations are those that are active, by name.
	Locations []Location `json:"locations"`
	// Pending is how many requests are shown to be answered.
	Pending int `json:"pending"`
	// Approvals says whether requests can be answered through this host.
	Approvals bool  `json:"approvals"`
	Audit     Audit `json:"audit"`
	// Tree is what the host owns, where that was asked for.
	Tree *Tree `json:"tree,omitempty"`
}

// Location is an active Location.
type Location struct {
	Name    string                  `json:"name"`
	Root    string                  `json:"root"`
	Plugins []location.PluginStatus `json:"plugins"`
	// Stale is why it is not what is configured.
	Stale string `json:"stale,omitempty"`
	// Calls is how many run, the suspended ones included.
	Calls int `json:"calls"`
	// Suspended is how many of its calls wait for a person and for nobody else.
	Suspended int `json:"suspended"`
	// Running is how many processes go on beside calls, and Processes are those, the oldest
	// first, where the tree was asked for.
	Running   int       `json:"running"`
	Processes []Process `json:"processes,omitempty"`
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

// A Process is one that a plugin started beside its call.
type Process struct {
	ID      string    `json:"id"`
	Session string    `json:"session"`
	Plugin  string    `json:"plugin"`
	Started time.Time `json:"started"`
	// Line is what it runs, or the beginning of that.
	Line string `json:"line"`
}

// A Tree is what a scope and those below it own.
type Tree struct {
	Name  string   `json:"name"`
	Owned []string `json:"owned,omitempty"`
	Forks []Tree   `json:"forks,omitempty"`
	// More is how many owned things and scopes there was no room for here.
	More int `json:"more,omitempty"`
}

// A Reload is what became of one.
type Reload struct {
	host.Report
	// Error is why not all of it could be done; empty when it was.
	Error string `json:"error,omitempty"`
}

// A Log is a part of what a plugin wrote.
type Log struct {
	Location string `json:"location"`
	Plugin   string `json:"plugin"`
	// Text is whole lines, cleaned; Lost is how many bytes before it are not kept any more.
	Text string `json:"text"`
	Lost int64  `json:"lost,omitempty"`
	// Ended is why nothing follows, where the log is followed.
	Ended string `json:"ended,omitempty"`
}
