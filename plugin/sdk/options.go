package sdk

import (
	"maps"
	"slices"

	"github.com/toolhost/toolhost/tool"
)

// An Option is a further property of a tool.
type Option interface{ apply(*tool.Tool) }

// An Effect is something that a call may do beyond computing its answer. The
// effects of a tool are the most that any of its calls may do; a tool that declares
// none may do everything, as far as the host can tell, and is treated so. The
// host's services refuse a call what goes beyond its effects.
type Effect tool.Effects

// The effects.
const (
	// Read looks at files or other state of the Location.
	Read = Effect(tool.Read)
	// Write changes files or other state of the Location.
	Write = Effect(tool.Write)
	// Process runs programs.
	Process = Effect(tool.Process)
	// Network talks to other machines.
	Network = Effect(tool.Network)
	// UserInteraction asks the person something.
	UserInteraction = Effect(tool.UserInteraction)
	// Delegation hands work to another agent.
	Delegation = Effect(tool.Delegation)
	// NoEffect declares that a call only computes its answer.
	NoEffect = Effect(tool.None)
)

func (e Effect) apply(t *tool.Tool) { t.Effects |= tool.Effects(e) }

// Title is a short name of a tool, for people.
type Title string

func (title Title) apply(t *tool.Tool) { t.Title = string(title) }

// Irreversible declares that a call may do what cannot be undone.
const Irreversible irreversible = true

type irreversible bool

func (i irreversible) apply(t *tool.Tool) { t.Irreversible = bool(i) }

// Unavailable says why a tool cannot be called now. It is not listed then, and the
// reason is what a model reads that calls it all the same. The tool becomes available
// by being registered again without it.
type Unavailable string

func (reason Unavailable) apply(t *tool.Tool) { t.Unavailable = string(reason) }

// Targets names the properties of the input that hold a path, or a list of paths,
// that a call is about, so that the model gets the instructions that stand near
// them; 256 properties at most. A call that has none of them is about the root. A
// tool that prepares says it in its [Preparation] instead.
func Targets(properties ...string) Option { return targets(properties) }

type targets []string

func (names targets) apply(t *tool.Tool) { t.Targets = append(t.Targets, names...) }

// Requires declares the permissions that every call needs, which the host asks for
// before it calls the handler; 64 at most, of 256 KiB each. An empty Action stands for the tool's own id. A tool
// whose needs depend on the arguments says them in its [Preparation] instead.
func Requires(requests ...PermissionRequest) Option {
	own := make(requires, 0, len(requests))
	for _, r := range requests {
		r.Resources, r.Save, r.Metadata = slices.Clone(r.Resources), slices.Clone(r.Save), maps.Clone(r.Metadata)
		own = append(own, r)
	}
	return own
}

type requires []PermissionRequest

func (r requires) apply(t *tool.Tool) { t.Requests = append(t.Requests, r...) }

// named gives the requests that name no action that of the tool itself.
func named(requests []PermissionRequest, id string) []PermissionRequest {
	out := slices.Clone(requests)
	for i := range out {
		if out[i].Action == "" {
			out[i].Action = id
		}
	}
	return out
}
