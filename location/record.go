package location

import (
	"strconv"
	"time"

	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/state"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// record puts what happens in this Location into the words of the audit log, and
// hands it to the host. It is what registry and permission tell.
type record struct {
	root string
	take func(state.AuditEntry)
}

var (
	_ registry.Recorder   = (*record)(nil)
	_ permission.Recorder = (*record)(nil)
)

// recorder is the record of this Location, or nil where nothing is recorded.
func (l *Location) recorder() *record {
	if l.options.Record == nil {
		return nil
	}
	return &record{root: l.files.Path(), take: l.options.Record}
}

// Started implements [registry.Recorder].
func (r *record) Started(call registry.Record) {
	r.take(r.call(state.AuditStart, call))
}

// Ended implements [registry.Recorder].
func (r *record) Ended(call registry.Record) {
	entry := r.call(state.AuditSettlement, call)
	entry.Status = call.Status
	entry.Extra = map[string]string{"ran": strconv.FormatBool(call.Ran), "took": call.Took.Round(time.Microsecond).String()}
	if call.Tool == "" {
		entry.Extra["name"] = call.Name
	}
	if call.Error != nil {
		entry.ErrorKind, entry.Reason = call.Error.Kind, call.Error.Message
		if call.Error.Kind.Status() == tool.Errored && call.Error.Cause != nil {
			entry.Reason = call.Error.Cause.Error() // the operator reads this, and no model
		}
	}
	r.take(entry)
}

func (r *record) call(kind state.AuditKind, call registry.Record) state.AuditEntry {
	entry := r.identified(kind, call.Identity)
	entry.Tool, entry.Plugin, entry.Input = call.Tool, call.Plugin, call.Input
	if call.Effects != 0 {
		entry.Effects = call.Effects.Names()
	}
	return entry
}

func (r *record) identified(kind state.AuditKind, by tool.Identity) state.AuditEntry {
	return state.AuditEntry{Kind: kind, Root: r.root, Session: by.Session, Agent: by.Agent, Message: by.Message, Call: by.Call}
}

func (r *record) caller(kind state.AuditKind, caller permission.Caller, action string, resources ...string) state.AuditEntry {
	entry := r.identified(kind, caller.Identity)
	entry.Tool, entry.Plugin, entry.Action, entry.Resources = caller.Tool, caller.Plugin, action, resources
	return entry
}

// Asked implements [permission.Recorder].
func (r *record) Asked(request permission.Request) {
	entry := r.caller(state.AuditRequest, request.Caller, request.Action, request.Resources...)
	entry.Request, entry.Effect, entry.Reason, entry.Input = request.ID, permission.Ask.String(), request.Why, request.Caller.Input
	entry.Effects = request.Caller.Effects.Names()
	if request.Directory != "" {
		entry.Extra = map[string]string{"directory": request.Directory}
	}
	r.take(entry)
}

// Answered implements [permission.Recorder].
func (r *record) Answered(request permission.Request, reply permission.Reply) {
	entry := r.caller(state.AuditReply, request.Caller, request.Action, request.Resources...)
	entry.Request, entry.Answer, entry.By = request.ID, string(reply.Answer), reply.By
	entry.Effect, entry.ErrorKind, entry.Reason = permission.Allow.String(), reply.Kind, reply.Reason
	if !reply.Granted {
		entry.Effect = permission.Deny.String()
	}
	if reply.Answer == permission.Always {
		entry.Patterns = request.Save
	}
	r.take(entry)
}

// Approved implements [permission.Recorder].
func (r *record) Approved(caller permission.Caller, action, resource string, by permission.SavedPattern) {
	entry := r.caller(state.AuditReply, caller, action, resource)
	entry.Effect, entry.Answer, entry.Patterns = permission.Allow.String(), "saved", []string{by.Pattern}
	entry.Extra = map[string]string{"approval": strconv.FormatInt(by.ID, 10)}
	r.take(entry)
}

// Denied implements [permission.Recorder].
func (r *record) Denied(caller permission.Caller, action, resource string, verdict permission.Verdict) {
	entry := r.caller(state.AuditDenial, caller, action, resource)
	entry.Effect, entry.Reason = permission.Deny.String(), verdict.String()
	if verdict.Rule != nil {
		entry.Rule = verdict.Rule.Source
	}
	r.take(entry)
}

// contradicted tells what a tool would have done beyond its effects.
func (r *record) contradicted(c tool.Contradiction) {
	entry := r.identified(state.AuditContradiction, c.Identity)
	entry.Tool, entry.Effects = c.Tool, c.Wanted.Names()
	entry.Reason = "during " + c.During + " it would have had the effects " + c.Wanted.String() + ", and may have " + c.Allowed.String()
	r.take(entry)
}
