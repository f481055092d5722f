package sdk

import (
	"context"
	"errors"
	"fmt"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/tool"
)

// Failure makes the one kind of error that the model is meant to read: what went
// wrong, and what to try instead. Everything else that a handler returns is for
// the operator.
func Failure(text string) error { return &tool.Failure{Message: text} }

// Failuref makes a failure as fmt.Errorf makes a text. It refuses to make one of
// a cancellation, a refusal, or an operational error (law 22): when an argument is
// such an error, the result is an ordinary error that wraps it. A [*FileError] and a
// [*ProcessError] are meant to be read and are no such errors.
func Failuref(format string, args ...any) error {
	text := fmt.Errorf(format, args...).Error()
	for _, arg := range args {
		if err, ok := arg.(error); ok && !forModel(err) {
			return &withheld{text, err}
		}
	}
	return Failure(text)
}

// withheld is what was meant to be a failure and must not be one.
type withheld struct {
	text string
	err  error
}

func (e *withheld) Error() string { return e.text }
func (e *withheld) Unwrap() error { return e.err }

// ToFailure turns an error of a service into a failure if it is one that a model
// can do something about, which is a [*FileError] or a [*ProcessError]. Any other error,
// nil included, stays what it is.
func ToFailure(err error) error {
	_, file := errors.AsType[*FileError](err)
	_, process := errors.AsType[*ProcessError](err)
	if (file || process) && forModel(err) {
		return Failure(err.Error())
	}
	return err
}

// forModel reports whether an error may be shown to a model. Errors of the
// handler's own making may: their author named them on purpose. What comes from
// the host, or says that the call is over, may not.
func forModel(err error) bool {
	_, refused := errors.AsType[*Refusal](err)
	_, broken := errors.AsType[*ServiceError](err)
	_, missing := errors.AsType[*NotGrantedError](err)
	return !refused && !broken && !missing &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// FileError is an error of the filesystem, with a kind.
type FileError = service.FileError

// Refusal is a permission that was refused. A handler returns it as it is: the
// host ends the call as rejected whatever the handler returns.
type Refusal = tool.Refusal

// ServiceError says that a service could not be reached or broke. It is
// operational.
type ServiceError struct {
	// Service is the service's name, and Err what happened.
	Service Service
	Err     error
}

func (e *ServiceError) Error() string { return fmt.Sprintf("service %s: %v", e.Service, e.Err) }

// Unwrap gives Err.
func (e *ServiceError) Unwrap() error { return e.Err }
