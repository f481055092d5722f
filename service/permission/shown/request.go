// Package shown is how a request for permission is shown to a person, by whatever asks
// them: as a value that can be sent, within bounds, and in words.
//
// Nobody approves what they were not shown (law 34): what is too long to be shown is
// said to be cut, and what could be taken for something else is quoted.
package shown

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toolhost/toolhost/service/permission"
)

// A Request is a request for permission as a person sees it; see [permission.Pending]
// and [permission.Request].
type Request struct {
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
	// Directory is where command lines run, relative to the root; "." is the root. It is
	// empty for other actions.
	Directory string `json:"directory,omitempty"`
	// Judged is what the parts of command lines were judged to be, and Unlisted how many
	// parts more there are.
	Judged   []Judged `json:"judged,omitempty"`
	Unlisted int      `json:"judged_unlisted,omitempty"`
	// Save is what "always" saves, exactly. Without it the request cannot be answered so.
	Save     []string          `json:"save"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Review   string            `json:"review,omitempty"`
	// Diff is what the call will change in files, as the host worked it out.
	Diff string `json:"diff,omitempty"`
	// Effects are the names of what the call may do.
	Effects      []string `json:"effects"`
	Irreversible bool     `json:"irreversible"`
	Why          string   `json:"why,omitempty"`
	// Input is the call's arguments. If InputCut says so, they were too long, and it is
	// a JSON string that holds how their text begins.
	Input    json.RawMessage `json:"input,omitempty"`
	InputCut bool            `json:"input_cut,omitempty"`
	// Cut names the other fields that do not hold all there is: review, diff, metadata, why,
	// judged, directory, resources. With one of the last two the request can only be
	// rejected, see [Request.Whole].
	Cut []string `json:"cut,omitempty"`
}

// Judged is one part of a command line; see [permission.Judged].
type Judged struct {
	Kind   string `json:"kind"`
	Action string `json:"action"`
	Text   string `json:"text,omitempty"` // without it, it is the line as a whole
	Effect string `json:"effect"`
	Why    string `json:"why"`
	Cut    bool   `json:"cut,omitempty"` // text or why is only the beginning
}

// How many bytes the fields of a [Request] have at most, before it is encoded: the
// input, the review, the diff (without the line that says how much of it is left out), each of resources, patterns and metadata, the reason, and the directory. What command lines were judged to be is bounded already.
const (
	MaxInput  = 16 << 10
	MaxReview = 32 << 10
	MaxDiff   = 64 << 10
	maxList   = 32 << 10 // of resources, of patterns, and of metadata, each
	maxWhy    = 4 << 10
	maxPlace  = 4 << 10 // of a directory, which no system lets be longer
)

// Of is what is shown of a request that waits.
func Of(p permission.Pending) Request {
	c := &p.Request.Caller
	shown := Request{
		ID: p.ID, Asked: p.Asked, Expires: p.Expires, Behind: p.Behind,
		Root: c.Root, Session: c.Identity.Session, Agent: c.Identity.Agent, Message: c.Identity.Message, Call: c.Identity.Call,
		HostMade: c.Identity.HostMade, Tool: c.Tool, Plugin: c.Plugin, Builtin: c.Builtin,
		Action: p.Request.Action, Effects: c.Effects.Names(), Irreversible: c.Irreversible,
	}
	shown.Review = shown.text("review", c.Review, MaxReview)
	shown.changes(c.Diff)
	shown.Why = shown.text("why", p.Request.Why, maxWhy)
	var cut bool
	if shown.Resources, cut = fitting(p.Request.Resources); cut {
		shown.Cut = append(shown.Cut, "resources")
	}
	shown.Directory = shown.text("directory", p.Request.Directory, maxPlace)
	shown.judged(p.Request.Judged, p.Request.Unlisted)
	if shown.Save, cut = fitting(p.Request.Save); cut {
		shown.Save = []string{} // what is saved was shown, exactly (law 34)
	}
	shown.metadata(p.Request.Metadata)
	shown.input(c.Input)
	return shown
}

// judged takes what the parts of command lines were judged to be, which is bounded.
func (p *Request) judged(judged []permission.Judged, unlisted int) {
	cut := unlisted > 0
	for _, j := range judged {
		p.Judged = append(p.Judged, Judged{Kind: string(j.Kind), Action: j.Action, Text: j.Text, Effect: j.Effect.String(), Why: j.Why, Cut: j.Cut})
		cut = cut || j.Cut
	}
	if p.Unlisted = unlisted; cut {
		p.Cut = append(p.Cut, "judged")
	}
}

// text is as much of a field's text as there is room for.
func (p *Request) text(field, text string, limit int) string {
	start, cut := beginning(text, limit)
	if cut {
		p.Cut = append(p.Cut, field)
	}
	return start
}

// changes takes the diff, or how it begins and how much more there is of it.
func (p *Request) changes(diff string) {
	p.Diff = p.text("diff", diff, MaxDiff)
	if p.Diff == diff {
		return
	}
	if end := strings.LastIndexByte(p.Diff, '\n') + 1; end > 0 {
		p.Diff = p.Diff[:end]
	}
	// Nothing that is in a file makes a line that begins like this one.
	left := fmt.Sprintf("[%d bytes of the changes are not shown]\n", len(diff)-len(p.Diff))
	p.Diff = strings.TrimSuffix(p.Diff, "\n") + "\n" + left
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
func (p *Request) metadata(metadata map[string]string) {
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
func (p *Request) input(input json.RawMessage) {
	switch {
	case len(input) == 0:
	case len(input) <= MaxInput && json.Valid(input):
		p.Input = input
	default:
		var start string
		start, p.InputCut = beginning(string(input), MaxInput)
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

// Whole reports whether all that the request is about is shown, so that a yes to what
// is shown is a yes to the request.
func (p *Request) Whole() bool {
	return !slices.Contains(p.Cut, "resources") && !slices.Contains(p.Cut, "directory")
}
