package client

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A StartError is why a plugin did not start.
type StartError struct {
	// Lasting says that it would not start another time either, as it is and as it is
	// configured: it speaks another protocol, is not what was pinned, or its settings or
	// grants are wrong.
	Lasting bool
	// Exit is how its process ended by itself; empty if it did not.
	Exit string
	// Log is the last of what it wrote, cleaned and bounded.
	Log string
	// Err says it in words.
	Err error
}

func (e *StartError) Error() string { return e.Err.Error() }
func (e *StartError) Unwrap() error { return e.Err }

// lasting marks what would fail in the same way another time.
func lasting(err error) error { return &lastingError{err} }

type lastingError struct{ error }

func (e *lastingError) Unwrap() error { return e.error }

// startError says what is known of a start that failed.
func (i *Incarnation) startError(err error) *StartError {
	_, lasts := errors.AsType[*lastingError](err)
	e := &StartError{Lasting: lasts || errors.Is(err, ErrDigest), Exit: i.Exit(), Log: i.logs.lastWords(), Err: err}
	if i.proc != nil && i.proc.handshakeProblem() != nil {
		e.Exit = "" // it was ended for that
	}
	return e
}

// Exit is how the process ended by itself; empty while it runs, and if the host ended
// it.
func (i *Incarnation) Exit() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.exit
}

// noteExit notes how the process ended, as long as that is the plugin's doing.
func (i *Incarnation) noteExit(exit string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.exit == "" && i.life.Context().Err() == nil {
		i.exit = exit
	}
}

// LastWords is the end of what the plugin wrote: from the start of a panic if there was
// one, otherwise the last lines, up to 4 KiB.
func (i *Incarnation) LastWords() string { return i.logs.lastWords() }

// Check asks the plugin something that every plugin answers. One that does not within
// patience is lost, as if it had crashed (law 44). It returns when there is an answer, the
// incarnation is gone, or ctx is over, which says nothing of the plugin. It is for a
// plugin without calls: one that is busy may be slow for a reason.
func (i *Incarnation) Check(ctx context.Context, patience time.Duration) {
	asking, cancel := context.WithTimeoutCause(ctx, patience, errDeaf)
	defer cancel()
	stop := context.AfterFunc(i.life.Context(), cancel)
	defer stop()
	_, err := i.plugin.Describe(asking, i.host.features()) // any answer is one
	if err != nil && errors.Is(context.Cause(asking), errDeaf) {
		i.lost(fmt.Errorf("it does not answer: it was asked while it had nothing to do, and given %s", patience))
	}
}

// errDeaf is the cause of a question that was not answered in time.
var errDeaf = errors.New("no answer in time")
