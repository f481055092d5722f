package control

import (
	"errors"
	"net/http"

	"github.com/toolhost/toolhost/service/permission"
)

// The codes of errors.
const (
	CodeInvalid    = "invalid"     // what was sent is not what was expected
	CodeUnknown    = "unknown"     // there is no such thing to ask for
	CodeTooLarge   = "too_large"   // what was sent has too many bytes
	CodeBusy       = "busy"        // too many watch already
	CodeNotPending = "not_pending" // [permission.ErrNotPending]
	CodeNotSavable = "not_savable" // [permission.ErrNotSavable]
	CodeSaving     = "saving"      // [permission.ErrSaving]
	CodeNotShown   = "not_shown"   // [ErrNotShown]
	CodeNotSaved   = "not_saved"   // the approval could not be saved, and the request still waits
	CodeInternal   = "internal"    // the host is at fault
)

// ErrNotShown says that a request has more resources than a [Pending] can hold, so
// that nobody who sees only that can say yes to it.
var ErrNotShown = errors.New("the request names more than can be shown here: reject it, or approve it where the host itself asks")

// An Error is what a host answered instead of doing what it was asked. Those of the
// queue, and [ErrNotShown], are found in it by errors.Is.
type Error struct {
	// Code is one of the codes of this package; hosts of a later version may have others.
	Code string `json:"code"`
	// Message is for a person.
	Message string `json:"message"`
	// Released are the requests that were settled all the same; see
	// [permission.Queue.Reply].
	Released []string `json:"released,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// Unwrap gives the error that the code stands for, or nil.
func (e *Error) Unwrap() error {
	for _, known := range knownErrors() {
		if known.code == e.Code {
			return known.err
		}
	}
	return nil
}

type knownError struct {
	code   string
	status int
	err    error
}

func knownErrors() []knownError {
	return []knownError{
		{CodeNotPending, http.StatusNotFound, permission.ErrNotPending},
		{CodeNotSavable, http.StatusConflict, permission.ErrNotSavable},
		{CodeSaving, http.StatusConflict, permission.ErrSaving},
		{CodeNotShown, http.StatusConflict, ErrNotShown},
	}
}

// failure is an error on its way to the client.
func failure(err error) (status int, e *Error) {
	for _, known := range knownErrors() {
		if errors.Is(err, known.err) {
			return known.status, &Error{Code: known.code, Message: err.Error()}
		}
	}
	e = new(Error)
	if !errors.As(err, &e) {
		return http.StatusInternalServerError, &Error{Code: CodeInternal, Message: err.Error()}
	}
	switch e.Code {
	case CodeInvalid:
		return http.StatusBadRequest, e
	case CodeUnknown:
		return http.StatusNotFound, e
	case CodeTooLarge:
		return http.StatusRequestEntityTooLarge, e
	case CodeBusy:
		return http.StatusServiceUnavailable, e
	}
	return http.StatusInternalServerError, e
}
