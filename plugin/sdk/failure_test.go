package sdk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/tool"
)

// What may become a failure, and what must not, however it is wrapped (law 22).
// Breakage seen: looking at the argument itself and not into it; leaving out one
// kind of error.
func TestLaw22DeliberateFailures(t *testing.T) {
	file := &FileError{Kind: service.FileNotFound, Path: "a", Detail: "does not exist"}
	tests := []struct {
		name    string
		err     error
		allowed bool
	}{
		{"of one's own", errors.New("no such place"), true},
		{"of the system", &fs.PathError{Op: "open", Path: "/x", Err: fs.ErrNotExist}, true},
		{"of the filesystem", file, true},
		{"cancelled", context.Canceled, false},
		{"deadline", context.DeadlineExceeded, false},
		{"refused", &Refusal{Kind: tool.KindDeclined, Action: "a", Resource: "r"}, false},
		{"broken service", &ServiceError{Service: FileSystemRead, Err: errors.New("gone")}, false},
		{"missing grant", &NotGrantedError{Plugin: "p", Service: Permissions}, false},
	}
	wraps := map[string]func(error) error{
		"itself":  func(err error) error { return err },
		"wrapped": func(err error) error { return fmt.Errorf("look: %w", err) },
		"joined":  func(err error) error { return errors.Join(errors.New("other"), err) },
		"beside":  func(err error) error { return fmt.Errorf("%w: %w", file, err) },
	}
	for _, tt := range tests {
		for how, wrap := range wraps {
			err := wrap(tt.err)
			for _, verb := range []string{"%v", "%w"} {
				made := Failuref("cannot look %d times: "+verb, 3, err)
				if _, failure := errors.AsType[*tool.Failure](made); failure != tt.allowed {
					t.Errorf("Failuref of an error that is %s, %s: a failure: %t, want %t", tt.name, how, failure, tt.allowed)
				}
				if want := "cannot look 3 times: " + err.Error(); made.Error() != want {
					t.Errorf("Failuref of an error that is %s, %s: %q, want %q", tt.name, how, made, want)
				}
				if !tt.allowed && !errors.Is(made, tt.err) {
					t.Errorf("Failuref of an error that is %s, %s, does not wrap it", tt.name, how)
				}
			}
			_, isFile := errors.AsType[*FileError](err)
			made := ToFailure(err)
			if _, failure := errors.AsType[*tool.Failure](made); failure != (isFile && tt.allowed) {
				t.Errorf("ToFailure of an error that is %s, %s: a failure: %t", tt.name, how, failure)
			} else if !failure && !errors.Is(made, tt.err) {
				t.Errorf("ToFailure of an error that is %s, %s: %v", tt.name, how, made)
			}
		}
	}
	if err := ToFailure(nil); err != nil {
		t.Errorf("ToFailure(nil) = %v", err)
	}
	if err := Failuref("at %s", "noon"); err.Error() != "at noon" {
		t.Errorf("Failuref without an error = %q", err)
	}
}

// A service's error is told from a broken service, and both from a call that is
// over.
func TestErrorsOfServices(t *testing.T) {
	over, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the call is over")
	cancel(gone)
	file, refusal, broken := &FileError{Detail: "x"}, &Refusal{Reason: "y"}, errors.New("transport")
	tests := []struct {
		ctx       context.Context
		err, want error
	}{
		{t.Context(), nil, nil},
		{t.Context(), file, file},
		{over, refusal, refusal},
		{over, broken, gone},
	}
	for _, tt := range tests {
		if got := fromService(tt.ctx, Permissions, tt.err); got != tt.want {
			t.Errorf("fromService(%v) = %v, want %v", tt.err, got, tt.want)
		}
	}
	got := fromService(t.Context(), Permissions, broken)
	if lost, ok := errors.AsType[*ServiceError](got); !ok || !errors.Is(lost, broken) || lost.Error() != "service permission: transport" {
		t.Errorf("fromService = %v", got)
	}
}
