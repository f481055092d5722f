package main

import (
	"context"
	"errors"

	"github.com/toolhost/toolhost/tool"
)

// The exit statuses. They are documented in README.md.
const (
	exitCompleted   = 0
	exitFailed      = 1
	exitUsage       = 2
	exitRejected    = 3
	exitOperational = 4
	exitInterrupted = 130
)

// exitError ends the command with a status. Its error, if there is one, is what
// stands on standard error.
type exitError struct {
	status int
	err    error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func operational(err error) error { return &exitError{exitOperational, err} }

// exitStatus is the status that an error ends the command with. What nothing
// else is known of is a mistake in the command line or the configuration.
func exitStatus(ctx context.Context, err error) int {
	var exit *exitError
	switch {
	case err == nil:
		return exitCompleted
	case errors.As(err, &exit):
		return exit.status
	case ctx.Err() != nil:
		return exitInterrupted
	default:
		return exitUsage
	}
}

// settled is the status that a settlement ends the command with.
func settled(s tool.Settlement) int {
	switch s.Status {
	case tool.Completed:
		return exitCompleted
	case tool.Failed:
		return exitFailed
	case tool.Rejected:
		return exitRejected
	default:
		return exitOperational
	}
}
