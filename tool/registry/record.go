package registry

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/toolhost/toolhost/tool"
)

// A Recorder is told what becomes of calls, by the goroutine of each: for a log that
// a person reads, where [Journal] is for what must not run unrecorded. It must not
// block, must keep no part of the input, and must be safe for concurrent use. One that
// panics is logged.
type Recorder interface {
	// Started is told that a call that may do more than read is about to run.
	Started(call Record)
	// Ended is told how each call ended that was begun: after the hooks, with what its
	// caller gets.
	Ended(call Record)
}

// A Record is what is told of a call.
type Record struct {
	Identity tool.Identity
	// Name is the name that was called. Tool is the canonical id and Plugin the owner;
	// they are empty if there is no such tool.
	Name, Tool, Plugin string
	// Input is what was validated, or what came if that did not get so far.
	Input json.RawMessage
	// Effects is what the call may do, 0 if it was not prepared.
	Effects tool.Effects
	// At is when it came, Took how long it has taken since.
	At   time.Time
	Took time.Duration
	// Status is how it ended, Interrupted included; empty when it starts. Error says why,
	// nil for a completed call; its cause is the operator's.
	Status tool.Status
	Error  *tool.Error
	// Ran says whether the executor had begun.
	Ran bool
}

// told is the record of the call as it is now.
func (r *run) told() Record {
	record := Record{
		Identity: r.request.Identity, Name: r.request.Name, Input: r.request.Input, At: r.at, Took: time.Since(r.at), Ran: r.ran,
	}
	if r.entry != nil {
		record.Tool, record.Plugin = r.call.Tool, r.entry.registration.owner.Name
	}
	if r.gate != nil {
		record.Effects = cmp.Or(r.effects().Effective(), tool.None)
	}
	if r.shown != nil {
		record.Input = r.shown
	}
	return record
}

// tellBegan tells that there is such a call.
func (r *run) tellBegan() {
	if began := r.registry.options.Began; began != nil && !r.explaining {
		r.tell(began, r.told())
	}
}

// tellStart tells that the call starts.
func (r *run) tellStart() {
	if recorder := r.registry.options.Recorder; recorder != nil {
		r.tell(recorder.Started, r.told())
	}
}

// tellEnd tells how the call ended.
func (r *run) tellEnd(settlement tool.Settlement, err error) {
	recorder := r.registry.options.Recorder
	if recorder == nil {
		return
	}
	record := r.told()
	record.Status, record.Error = cmp.Or(settlement.Status, tool.Interrupted), settlement.Error
	if i, ok := errors.AsType[*tool.Interruption](err); ok {
		record.Ran, record.Error = i.Ran, &tool.Error{Kind: tool.KindCancelled, Message: "interrupted", Cause: i.Cause}
	}
	r.tell(recorder.Ended, record)
}

// tell tells a recorder, whose panic is no call's trouble.
func (r *run) tell(tell func(Record), record Record) {
	defer func() {
		if v := recover(); v != nil {
			r.registry.log.Error("the recorder of calls panicked", slog.String("tool", record.Tool), slog.Any("panic", v))
		}
	}()
	tell(record)
}

// definitionDigest stands for what a tool says of itself: for one that is not built in
// it is a part of what an approval is for (law 34), since a plugin may make up its
// tools as it runs.
func definitionDigest(d tool.Definition) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q %q %d %t", d.ID, d.Title, d.Description, d.Input, d.Output, d.Effects, d.Irreversible)
	return hex.EncodeToString(h.Sum(nil))
}
