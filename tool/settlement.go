package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Status is how a call ended.
type Status string

// The ways a call can end. Each call ends exactly once (law 15).
const (
	// Completed: the tool ran and its output is valid.
	Completed Status = "completed"
	// Failed: the tool ran and says, on purpose, what went wrong (law 22).
	Failed Status = "failed"
	// Rejected: the model asked for what is unknown, invalid or not permitted.
	Rejected Status = "rejected"
	// Errored: something broke that the operator must look at.
	Errored Status = "error"
	// Interrupted: the caller no longer wants the answer. Nothing is said to the model (law 14).
	Interrupted Status = "interrupted"
)

// Kind says why a call did not complete.
type Kind string

// The kinds, each with the status it leads to.
const (
	KindFailure       Kind = "failure"        // failed
	KindUnknownTool   Kind = "unknown_tool"   // rejected
	KindUnavailable   Kind = "unavailable"    // rejected
	KindInvalidInput  Kind = "invalid_input"  // rejected
	KindDenied        Kind = "denied"         // rejected: a rule says no
	KindDeclined      Kind = "declined"       // rejected: a person said no
	KindTimedOut      Kind = "timed_out"      // rejected: nobody answered in time
	KindNobodyToAsk   Kind = "nobody_to_ask"  // rejected: there is nobody who could answer
	KindCancelled     Kind = "cancelled"      // rejected: the request was withdrawn; interrupted: the caller went away
	KindBlocked       Kind = "blocked"        // rejected: a hook of the embedding program said no
	KindCrashed       Kind = "crashed"        // error: the plugin's process ended
	KindDeadline      Kind = "deadline"       // error: the call took longer than it may
	KindInvalidOutput Kind = "invalid_output" // error: the output does not fit its schema
	KindRetention     Kind = "retention"      // error: the whole output could not be kept
	KindTooLarge      Kind = "too_large"      // error: the output is beyond what may be given at all
	KindContradiction Kind = "contradiction"  // error: the tool would have done more than it declared
	KindInternal      Kind = "internal"       // error: anything else that broke
)

// Kinds lists all kinds.
func Kinds() []Kind {
	return []Kind{
		KindFailure, KindUnknownTool, KindUnavailable, KindInvalidInput, KindDenied, KindDeclined, KindTimedOut, KindNobodyToAsk,
		KindCancelled, KindBlocked, KindCrashed, KindDeadline, KindInvalidOutput, KindRetention, KindTooLarge, KindContradiction, KindInternal,
	}
}

// Status is the status that a call of this kind ends with.
func (k Kind) Status() Status {
	switch k {
	case KindFailure:
		return Failed
	case KindUnknownTool, KindUnavailable, KindInvalidInput,
		KindDenied, KindDeclined, KindTimedOut, KindNobodyToAsk, KindCancelled, KindBlocked:
		return Rejected
	default:
		return Errored
	}
}

// A Settlement is the one terminal outcome of a call.
type Settlement struct {
	// Status is how the call ended; never Interrupted, which has no settlement.
	Status Status `json:"status"`
	// Structured is the structured value of a completed call. It is whole or absent:
	// absent where there was no content and it was too large for the model, who then
	// reads a preview of it as Content (law 17).
	Structured json.RawMessage `json:"structured,omitempty"`
	// Content is what the model reads of a completed call.
	Content []Content `json:"content,omitempty"`
	// Error says why the call did not complete; nil when it did.
	Error *Error `json:"error,omitempty"`
	// Ran says whether the executor had begun.
	Ran bool `json:"ran"`
	// Retained is where the whole of what was cut can be read (law 18).
	Retained []Retained `json:"retained,omitempty"`
	// Lost is how many bytes the tool itself dropped, as it says; they are in no
	// retained output (law 19).
	Lost int64 `json:"lost,omitempty"`
	// Instructions are those of the project near what the call was about (law 30).
	Instructions []Instruction `json:"instructions,omitempty"`
}

// Clone is the settlement with content and values of its own. The cause of an error
// is shared.
func (s Settlement) Clone() Settlement {
	s.Structured, s.Content = bytes.Clone(s.Structured), slices.Clone(s.Content)
	for i := range s.Content {
		s.Content[i].Data = bytes.Clone(s.Content[i].Data)
	}
	if s.Error != nil {
		s.Error = new(*s.Error)
	}
	s.Retained, s.Instructions = slices.Clone(s.Retained), slices.Clone(s.Instructions)
	return s
}

// Retained is the whole of an output that was cut, kept in managed storage.
type Retained struct {
	// Handle names it, for output_read, output_search and toolhost outputs.
	Handle string `json:"handle"`
	// Bytes and Lines are its size. A last line without its end counts.
	Bytes int64 `json:"bytes"`
	Lines int64 `json:"lines"`
}

// Instruction is a file of instructions to agents that stands in the project. It
// is the repository's text, neither the tool's nor the host's.
type Instruction struct {
	// Path is relative to the Location's root, with slashes.
	Path string `json:"path"`
	// Text is the file's, cut to a bound.
	Text string `json:"text"`
}

// Error is why a call did not complete. Message may be shown to a model: for an
// operational kind it says no more than that the tool is unavailable, and the
// detail stays in Cause.
type Error struct {
	Kind    Kind   `json:"kind"`
	Message string `json:"message"`
	// Cause is the whole story, for the log and the operator. It never reaches a model.
	Cause error `json:"-"`
}

// Errorf makes an error of the given kind. The arguments are those of
// fmt.Errorf; a wrapped error is kept as the cause.
func Errorf(kind Kind, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: kind, Message: err.Error(), Cause: errors.Unwrap(err)}
}

func (e *Error) Error() string { return e.Message }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// A Failure is an error that a tool made on purpose for the model to read (law
// 22). It is the only kind of error whose text a model sees as the tool's own.
type Failure struct {
	Message string
	// Lost is how many bytes were dropped, of the message or of what the call gave
	// before (law 19).
	Lost int64
}

func (f *Failure) Error() string { return f.Message }

// SettleError turns what an executor returned as an error into a settlement, by
// who must act: a [Failure] is the model's; a [Refusal] rejects; an [Error] keeps
// its kind; anything else is internal, and of its text the model sees nothing: the
// cause keeps it for the operator. An interruption has no settlement and must be
// recognised before (see [Interruption]).
func SettleError(err error, ran bool) Settlement {
	if failure, ok := errors.AsType[*Failure](err); ok {
		return Settlement{
			Status: Failed, Error: &Error{Kind: KindFailure, Message: failure.Message}, Ran: ran, Lost: max(0, failure.Lost),
		}
	}
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		return Settlement{Status: Rejected, Error: &Error{Kind: refusal.Kind, Message: refusal.Error(), Cause: err}, Ran: ran}
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
		e = &Error{Kind: KindInternal, Cause: err}
	}
	if e.Kind.Status() == Errored {
		cause, told := err, operational(e.Kind)
		if (e.Message == told || e.Message == "") && e.Cause != nil {
			cause = e.Cause // it has no more than the model's words; the story is behind it
		}
		e = &Error{Kind: e.Kind, Message: told, Cause: cause}
	}
	return Settlement{Status: e.Kind.Status(), Error: e, Ran: ran}
}

// operational is all that a model is told of an operational error.
func operational(kind Kind) string {
	switch kind {
	case KindDeadline:
		return "the tool did not finish within its deadline"
	case KindRetention:
		return "the tool's output could not be kept"
	case KindTooLarge:
		return "the tool's output is too large to be given"
	default:
		return "the tool is unavailable"
	}
}

// Interruption is the error of a call that the caller gave up (law 14). It
// wraps context.Cause of the caller's context.
type Interruption struct {
	Cause error
	// Ran says whether the executor had begun.
	Ran bool
}

func (i *Interruption) Error() string { return fmt.Sprintf("call interrupted: %v", i.Cause) }

// Unwrap gives the cause.
func (i *Interruption) Unwrap() error { return i.Cause }

// InterruptedBy reports whether ctx is over, with the interruption to return.
func InterruptedBy(ctx context.Context, ran bool) (*Interruption, bool) {
	if ctx.Err() == nil {
		return nil, false
	}
	return &Interruption{Cause: context.Cause(ctx), Ran: ran}, true
}

// Suspension is the error of a call that waits for a person and was not waited
// for (law 37). The call goes on waiting, owned by the Location, until it is
// resumed, withdrawn, or lapses.
type Suspension struct {
	// Handle resumes or withdraws the call. It cannot be guessed.
	Handle string
	// Identity is whose call it is, and Tool the canonical id of what was called.
	Identity Identity
	Tool     string
	// Requests are what the person is being asked, as far as it is known.
	Requests []PermissionRequest
	// Expires is when it lapses.
	Expires time.Time
	// Ran says whether the executor had begun.
	Ran bool
}

func (s *Suspension) Error() string {
	return fmt.Sprintf("call suspended until %s: it waits for approval", s.Expires.Format(time.RFC3339))
}
