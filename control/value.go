package control

import (
	"encoding/json"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/service/permission"
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
	Approvals []Pending `json:"approvals"`
	// More is how many follow that the list has no room for. They come into it when
	// those before them are answered.
	More int `json:"more"`
}

// A Pending is a request as a person sees it; see [permission.Pending] and
// [permission.Request].
type Pending struct {
	ID      string    `json:"id"`
	Asked   time.Time `json:"asked"`
	Expires time.Time `json:"expires"`
	// Behind is how many identical requests wait behind it.
	Behind   int    `json:"behind"`
	Root     string `json:"root"`
	Session  string `json:"session"`
	Agent    string `json:"agent"`
	Message  string `json:"message"`
	Call     string `json:"call"`
	HostMade bool   `json:"host_made,omitempty"` // some of the four ids above
	// Tool is the canonical id, Plugin the key in config.
	Tool      string   `json:"tool"`
	Plugin    string   `json:"plugin"`
	Builtin   bool     `json:"builtin"`
	Action    string   `json:"action"`
	Resources []string `json:"resources"`
	// Save is what "always" saves, exactly. Without it the request cannot be answered so.
	Save     []string          `json:"save"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Review   string            `json:"review,omitempty"`
	// Effects are the names of what the call may do.
	Effects      []string `json:"effects"`
	Irreversible bool     `json:"irreversible"`
	Why          string   `json:"why,omitempty"`
	// Input is the call's arguments. If InputCut says so, they were too long, and it is
	// a JSON string that holds how their text begins.
	Input    json.RawMessage `json:"input,omitempty"`
	InputCut bool            `json:"input_cut,omitempty"`
	// Cut names the other fields that do not hold all there is: review, metadata, why,
	// resources. With the last the request can only be rejected, see [ErrNotShown].
	Cut []string `json:"cut,omitempty"`
}

// How many bytes a field of a [Pending] has at most, before it is encoded.
const (
	maxInput  = 16 << 10
	maxReview = 32 << 10
	maxList   = 32 << 10 // of resources, of patterns, and of metadata, each
	maxWhy    = 4 << 10
)

// Show is a request as it is sent: what a person must see of it, within the bounds of
// a list.
func Show(p permission.Pending) Pending {
	c := &p.Request.Caller
	shown := Pending{
		ID: p.ID, Asked: p.Asked, Expires: p.Expires, Behind: p.Behind,
		Root: c.Root, Session: c.Identity.Session, Agent: c.Identity.Agent, Message: c.Identity.Message, Call: c.Identity.Call,
		HostMade: c.Identity.HostMade, Tool: c.Tool, Plugin: c.Plugin, Builtin: c.Builtin,
		Action: p.Request.Action, Effects: c.Effects.Names(), Irreversible: c.Irreversible,
	}
	shown.Review = shown.text("review", c.Review, maxReview)
	shown.Why = shown.text("why", p.Request.Why, maxWhy)
	var cut bool
	if shown.Resources, cut = fitting(p.Request.Resources); cut {
		shown.Cut = append(shown.Cut, "resources")
	}
	if shown.Save, cut = fitting(p.Request.Save); cut {
		shown.Save = []string{} // what is saved was shown, exactly (law 34)
	}
	shown.metadata(p.Request.Metadata)
	shown.input(c.Input)
	return shown
}

// text is as much of a field's text as there is room for.
func (p *Pending) text(field, text string, limit int) string {
	start, cut := beginning(text, limit)
	if cut {
		p.Cut = append(p.Cut, field)
	}
	return start
}

// fitting is as many of the texts as there is room for, and never nil.
func fitting(texts []string) (fit []string, cut bool) {
	room := maxList
	for i, text := range texts {
		if room -= len(text) + len(`"",`); room < 0 {
			return append([]string{}, texts[:i]...), true
		}
	}
	return append([]string{}, texts...), false
}

// metadata takes what there is room for, in the order of the keys.
func (p *Pending) metadata(metadata map[string]string) {
	keys := make([]string, 0, len(metadata))
	for key := range metadata {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	room := maxList
	for _, key := range keys {
		if room -= len(key) + len(metadata[key]) + len(`"":"",`); room < 0 {
			p.Cut = append(p.Cut, "metadata")
			return
		}
		if p.Metadata == nil {
			p.Metadata = make(map[string]string, len(metadata))
		}
		p.Metadata[key] = metadata[key]
	}
}

// input takes the arguments, or how they begin.
func (p *Pending) input(input json.RawMessage) {
	switch {
	case len(input) == 0:
	case len(input) <= maxInput && json.Valid(input):
		p.Input = input
	default:
		var start string
		start, p.InputCut = beginning(string(input), maxInput)
		p.Input, _ = json.Marshal(start) // of a string there is no error
	}
}

// beginning is how a text begins, cut between characters.
func beginning(text string, limit int) (start string, cut bool) {
	if len(text) <= limit {
		return text, false
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit], true
}
