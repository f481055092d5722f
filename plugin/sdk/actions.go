package sdk

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/toolhost/toolhost/plugin/internal/wire"
)

const (
	// maxActions is how many prepared actions a plugin keeps at once.
	maxActions = 1024
	// actionLife is how long one is kept. It is longer than a call may wait for a
	// person, so that it only ends what a host has forgotten.
	actionLife = 24 * time.Hour
)

// actions are the prepared actions that are neither committed nor discarded, by the
// number that the host gave (law 26). discarded is told of a Discard that broke.
type actions struct {
	discarded func(error)

	mu  sync.Mutex
	all map[uint64]*action // under mu
}

// action is one of them. It is for one call.
type action struct {
	call        wire.Execution // the one that was prepared, without its input
	preparation Preparation[Result]
	expiry      *time.Timer
}

// keep takes an action, or discards it.
func (a *actions) keep(call wire.Execution, p Preparation[Result]) error {
	call.Input = nil
	kept := &action{call: call, preparation: p}
	err := a.add(call.Action, kept)
	if err != nil {
		return errors.Join(err, kept.discard())
	}
	return nil
}

func (a *actions) add(number uint64, kept *action) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, twice := a.all[number]; twice || number == 0 {
		return fmt.Errorf("the host gave the number %d to a second action", number)
	}
	if len(a.all) >= maxActions {
		return fmt.Errorf("%d prepared actions wait to be committed or discarded, which is the most", maxActions)
	}
	kept.expiry = time.AfterFunc(actionLife, func() { a.drop(number) })
	a.all[number] = kept
	return nil
}

// take gives the action for the call, which is used up by it.
func (a *actions) take(call wire.Execution) (*action, error) {
	kept := a.remove(call.Action)
	if kept == nil {
		return nil, fmt.Errorf("%s: its prepared action was committed or discarded before, or has expired", call.Tool)
	}
	if kept.call.Executor != call.Executor || kept.call.Tool != call.Tool || kept.call.Identity != call.Identity {
		return nil, errors.Join(fmt.Errorf("%s: its prepared action was made for another call", call.Tool), kept.discard())
	}
	return kept, nil
}

func (a *actions) remove(number uint64) *action {
	a.mu.Lock()
	defer a.mu.Unlock()
	kept, ok := a.all[number]
	if !ok {
		return nil
	}
	delete(a.all, number)
	kept.expiry.Stop()
	return kept
}

// drop discards the action of the number, if there is one, and tells whether that
// broke.
func (a *actions) drop(number uint64) {
	if kept := a.remove(number); kept != nil {
		if err := kept.discard(); err != nil {
			a.discarded(err)
		}
	}
}

// dropAll discards all that is left when the plugin ends.
func (a *actions) dropAll() {
	a.mu.Lock()
	numbers := make([]uint64, 0, len(a.all))
	for number := range a.all {
		numbers = append(numbers, number)
	}
	a.mu.Unlock()
	for _, number := range numbers {
		a.drop(number)
	}
}

// discard releases what the action holds. A panic in it is an error.
func (a *action) discard() (err error) {
	if a.preparation.Discard == nil {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: panic in Discard: %v", a.call.Tool, p)
		}
	}()
	a.preparation.Discard()
	return nil
}
