package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"time"
)

// A Tool is everything a caller of it needs: what it says of itself and its one
// executor (law 1). It has no name of its own; the key under which it is
// registered is its name (law 2), so one value may be registered twice.
//
// Schemas are JSON Schema documents that refer to nothing outside themselves.
type Tool struct {
	// Title is a short name for people; it may be empty.
	Title string
	// Description tells the model what the tool does and when to use it.
	Description string
	// Input describes what the model sends. Empty means an object without properties.
	Input json.RawMessage
	// Output describes the complete output of the executor. Empty means any value.
	Output json.RawMessage
	// Structured describes the structured value of the settlement where that is
	// smaller than the output, or has content beside it that is for the model (law 16).
	// Empty means that it is the output.
	Structured json.RawMessage
	// Effects is the most that a call may do (law 23).
	Effects Effects
	// Irreversible says that a call may do what cannot be undone.
	Irreversible bool
	// Requests are the permissions that every call needs, in order, for a tool whose
	// answer never varies; 64 at most. With Prepare they are not looked at (law 33).
	Requests []PermissionRequest
	// Targets names the properties of the input, 256 at most, that hold a path, or a list
	// of them, that a call is about, which is the root where the input has none of them; with
	// Prepare they are not looked at (law 30).
	Targets []string
	// Unavailable, if it is not empty, says why the tool cannot be called now. That
	// hides it from lists, and grants nothing (law 10).
	Unavailable string
	// Prepare says what one call would do. It is optional: without it Effects,
	// Irreversible, Requests and Targets hold for every call. It changes nothing and
	// asks nobody (law 25); its input and ctx are those of Execute, and an error ends
	// the call as one of Execute does. It must be safe for concurrent calls.
	Prepare func(ctx context.Context, call Call) (Preparation, error)
	// Execute runs one call. Its input was validated against Input and has exactly
	// the bytes that were validated. ctx is bounded by the caller, the deadline of
	// the call, and the life of whatever provides the tool. It must be safe for
	// concurrent calls.
	//
	// An error decides how the call ends: see [SettleError].
	Execute func(ctx context.Context, call Call) (Result, error)
}

// Clone is the tool with schemas, requests and targets of its own (law 4).
func (t Tool) Clone() Tool {
	t.Input, t.Output, t.Structured = bytes.Clone(t.Input), bytes.Clone(t.Output), bytes.Clone(t.Structured)
	t.Requests, t.Targets = CloneRequests(t.Requests), slices.Clone(t.Targets)
	return t
}

// A Call is one invocation as an executor sees it.
type Call struct {
	// Identity is whose call it is. It is complete (law 12).
	Identity Identity
	// Tool is the canonical id of the tool, plugin/authored.
	Tool string
	// Input is the validated input.
	Input json.RawMessage
	// Effects is what this call may do; a service refuses what goes beyond (law 24).
	Effects Effects
	// Gate answers permission questions about this call. It is nil for a tool that
	// was given no service (law 6).
	Gate Gate
	// Left is how long the call may still take, of a call that runs: for who can end in time
	// what would be lost otherwise. It stands still while a person is asked. Nil is not known.
	Left func() time.Duration
	// Progress receives what the executor reports while it runs. It may be nil and
	// must not block; it is not called after Execute returned.
	Progress func(Progress)
	// Output receives text that the executor produces while it runs, of any size: it
	// is bounded and kept as it comes, and becomes a block of text before the
	// Result's own content. Its errors say that no more can be kept; the call then
	// ends as failed retention. It may be nil, during Prepare for one, and is not for
	// concurrent use.
	Output io.Writer
}

// Progress is one report of a running call.
type Progress struct {
	// Done is how much is done, in units of the tool's choice.
	Done float64 `json:"done"`
	// Total is how much there is in all, or 0 when that is not known.
	Total float64 `json:"total,omitempty"`
	// Message is a line for people; it may be empty.
	Message string `json:"message,omitempty"`
}

// A Result is what an executor gives back when it succeeds.
type Result struct {
	// Output is the complete output. It is validated against the tool's Output.
	Output json.RawMessage
	// Structured is the value that callers see, validated against the tool's
	// Structured. Empty means that it is Output.
	Structured json.RawMessage
	// Content is what the model reads. Empty means that the structured value is
	// all there is; an output that is a string is then also given as text (law 16).
	Content []Content
	// Lost is how many bytes the executor dropped before it returned, which nobody
	// has any more (law 19).
	Lost int64
}

// A Definition is what one tool says of itself to be listed: the part of a
// [Tool] that is shown to a model, with its names.
type Definition struct {
	// Name is the effective name, unique within a capture (law 2).
	Name string `json:"name"`
	// ID is the canonical id, plugin/authored: what rules and the audit speak of.
	ID string `json:"id"`
	// Title is a short name for people; it may be empty.
	Title string `json:"title,omitempty"`
	// Description is for the model.
	Description string `json:"description"`
	// Input is the schema of the input; always an object schema.
	Input json.RawMessage `json:"input_schema"`
	// Output is the schema of the structured value, if there is one.
	Output json.RawMessage `json:"output_schema,omitempty"`
	// Effects is the most that a call may do.
	Effects Effects `json:"effects"`
	// Irreversible says that a call may do what cannot be undone.
	Irreversible bool `json:"irreversible,omitempty"`
	// Projected says that calls give content of their own: it is what a model reads, and
	// the structured value, which Output then describes, is for programs (law 16).
	Projected bool `json:"projected,omitempty"`
}

// An Advertisement is what one tool says of itself to be listed (law 10).
type Advertisement struct {
	Definition
	// Unavailable says why the tool cannot be called now; it is empty when it can.
	Unavailable string `json:"unavailable,omitempty"`
}
