package tool

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// A PermissionRequest is what is asked before a tool acts. It carries no
// identity: the host knows whose call the request belongs to (law 12).
type PermissionRequest struct {
	// Action is what is to be done: an action of the built-ins, such as "read", or
	// the canonical id of the tool.
	Action string
	// Resources is what it is done to. Each is judged by itself and the strictest
	// answer holds; an empty list is refused (law 33).
	Resources []string
	// Save holds the patterns that "always" would save, exactly (law 34). Empty
	// means that the answer cannot be saved.
	Save []string
	// Metadata is shown to whoever is asked.
	Metadata map[string]string
}

// CloneRequests copies requests with all that they hold.
func CloneRequests(requests []PermissionRequest) []PermissionRequest {
	requests = slices.Clone(requests)
	for i, request := range requests {
		requests[i].Resources, requests[i].Save = slices.Clone(request.Resources), slices.Clone(request.Save)
		requests[i].Metadata = maps.Clone(request.Metadata)
	}
	return requests
}

// A Refusal is a permission request that was answered with no. It ends the call
// as rejected, whatever the tool then returns (law 36).
type Refusal struct {
	// Kind is one of the five reasons: denied, declined, timed_out, nobody_to_ask, cancelled.
	Kind Kind
	// Action and Resource say what was refused; Resource is the one that decided.
	Action, Resource string
	// Reason is the rule's reason or the person's feedback; it may be empty.
	Reason string
}

// Error is the line that the model reads.
func (r *Refusal) Error() string {
	text := fmt.Sprintf("%s of %q ", r.Action, r.Resource)
	switch r.Kind {
	case KindDenied:
		text += "is denied"
	case KindDeclined:
		text += "was declined"
	case KindTimedOut:
		text += "needs approval, and nobody answered in time"
	case KindNobodyToAsk:
		text += "needs approval, and there is nobody to ask"
	default:
		text += "needs approval, and the request was withdrawn"
	}
	if r.Reason != "" {
		text += ": " + r.Reason
	}
	if r.Kind == KindTimedOut {
		text += "; call the tool again when somebody can answer"
	}
	return text
}

// A CommandLine is one that a service is about to run, or to hand to a process.
type CommandLine struct {
	Line string
	// Directory is where it runs, relative to the Location's root and below it; "." is the
	// root, and empty as well. The files that redirections of the line write are those of it.
	Directory string
	// Process is the process that it is typed to, as a person knows it. It is judged as a line
	// then, since the process may be a shell. Empty is a line that is run.
	Process string
	// Stdin is how the standard input begins that the line is run with; empty is none.
	//
	// What is typed, or is run with an input, is another thing than the line alone: nothing of
	// it is approved for good, and what was does not count.
	Stdin string
}

// A Gate answers the permission questions of one call, and remembers the
// answers for that call. It is made for the call by the registry and safe for
// concurrent use. Every error is a [*Refusal], or the context's cause; a gate for
// the preparation of a call, which asks nobody, has an error of its own for what
// is asserted there.
type Gate interface {
	// Assert asks for what a tool says that it is about to do. ctx bounds the
	// waiting for a person.
	Assert(ctx context.Context, request PermissionRequest) error
	// Permit is asked by a service itself before it acts on the resources: the
	// spellings of one thing, or of all that one change is about. For a built-in's call only configured denies
	// refuse, since the tool asserts by itself (law 32); for anybody else's call it
	// is judged in full under the built-ins' action (law 33).
	Permit(ctx context.Context, action string, resources ...string) error
	// PermitCommand is Permit of one command line. A directory that is not below the root is
	// refused.
	PermitCommand(ctx context.Context, line CommandLine) error
	// Allows says, without asking anybody, whether a search or listing may show the
	// resource (law 39).
	Allows(action, resource string) bool
	// Denies says, without asking anybody and without refusing the call, whether Permit
	// would refuse the resource whatever a person says.
	Denies(action, resource string) bool
	// Refused is the first refusal of the call, or nil.
	Refused() *Refusal
}
