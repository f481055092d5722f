package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/toolhost/toolhost/plugin/broker"
	"github.com/toolhost/toolhost/plugin/internal/wire"
	"github.com/toolhost/toolhost/tool"
)

// prepare asks the plugin what a call would do. Meanwhile it only reads, and asks
// nobody (law 25).
func (i *Incarnation) prepare(ctx context.Context, executor uint64, call tool.Call) (tool.Preparation, error) {
	if len(call.Input) > wire.MaxInput {
		return tool.Preparation{}, tool.Errorf(tool.KindInvalidInput, "the input has %d bytes; at most %d", len(call.Input), wire.MaxInput)
	}
	a := &action{incarnation: i, executor: executor, number: i.lastAction.Add(1), call: call}
	lease, err := i.letIn(call, (*broker.Broker).BeginPreparing)
	if err != nil {
		return tool.Preparation{}, err
	}
	var p wire.Preparation
	err = i.run(ctx, call, lease, func(ctx context.Context, e wire.Execution) (err error) {
		e.Executor, e.Action = executor, a.number
		p, err = i.plugin.Prepare(ctx, e)
		if err == nil && p.Prepared {
			a.stages = lease.TakeStages() // or else they end with the lease
		}
		if err != nil && !wire.Ended(err) {
			a.abandon()
		}
		return err
	})
	if err != nil {
		return tool.Preparation{}, err
	}
	out := tool.Preparation{
		Effects: p.Effects, Irreversible: p.Irreversible || a.stages.Irreversible(), Requests: p.Requests, Targets: p.Targets,
	}
	if p.Prepared {
		out.Action = &tool.Action{Review: p.Review, Diff: a.stages.Diff(), Waiting: a.stages.Yield, Commit: a.commit, Discard: a.discard}
	}
	return out, nil
}

// action is a prepared action that the plugin keeps under a number. It belongs to
// this one incarnation, and to one call (law 26).
type action struct {
	incarnation *Incarnation
	executor    uint64
	number      uint64
	call        tool.Call
	stages      *broker.Stages // the changes of files that it will make; nil is none
	used        atomic.Bool    // it was committed or discarded
}

// commit runs the action, with the changes that it staged, at most once, for the call that was prepared.
func (a *action) commit(ctx context.Context, call tool.Call) (tool.Result, error) {
	defer a.stages.Discard() // what was not made
	if a.used.Swap(true) {
		return tool.Result{}, a.incarnation.operational(tool.KindInternal, call, errors.New("its prepared action was committed or discarded before"))
	}
	if call.Identity != a.call.Identity || call.Tool != a.call.Tool || !bytes.Equal(call.Input, a.call.Input) {
		a.abandon()
		return tool.Result{}, a.incarnation.operational(tool.KindInternal, call, errors.New("its prepared action was made for another call"))
	}
	return a.incarnation.execute(ctx, a.executor, a.number, call, a.stages)
}

// gone says why an action cannot be committed: it is never prepared again behind
// the user's back.
func gone(call tool.Call, err error) error {
	if story := errors.Unwrap(err); story != nil {
		err = story
	}
	return &tool.Error{
		Kind: tool.KindUnavailable, Cause: err,
		Message: fmt.Sprintf("the call of %s was prepared in a process that is gone: make the call again", call.Tool),
	}
}

// discard tells the plugin that the action will not be committed, if it still can
// be told. ctx bounds it.
func (a *action) discard(ctx context.Context) {
	if a.used.Swap(true) {
		return
	}
	a.release(ctx)
}

// abandon discards, in the background, what nobody else will: an action of which
// it is not even known whether there is one.
func (a *action) abandon() {
	// When the scope is closed the plugin ends with all that it keeps.
	_ = a.incarnation.life.Go("discard", func(life context.Context) error {
		ctx, cancel := context.WithTimeout(life, discardGrace)
		defer cancel()
		a.release(ctx)
		return nil
	})
}

// discardGrace is how long a plugin may take over what nobody waits for.
const discardGrace = 5 * time.Second

// release lets the plugin release what it prepared. It is no error that the plugin
// is gone: so is what it kept.
func (a *action) release(ctx context.Context) {
	a.stages.Discard()
	i := a.incarnation
	if i.beginCall() != nil {
		return
	}
	defer i.endCall()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(i.life.Context(), cancel)
	defer stop()
	if err := i.plugin.Discard(ctx, a.number); err != nil && i.life.Context().Err() == nil {
		i.logs.warn("the plugin did not discard what it prepared", "tool", a.call.Tool, "error", said(err).Error())
	}
}
