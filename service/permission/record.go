package permission

// A Recorder is told what an engine asks and refuses, as it happens, by the
// goroutine of the call. It must not block, must keep no part of what it is given
// that is not its own, and must be safe for concurrent use. What is allowed by a rule,
// or was answered in the same call already, is not told.
type Recorder interface {
	// Asked is told before the approver is asked.
	Asked(request Request)
	// Answered is told how a request ended: with the reply of the approver, or with one
	// of KindCancelled or KindNobodyToAsk for it.
	Answered(request Request, reply Reply)
	// Approved is told that a resource was not asked for, because of what is saved.
	Approved(caller Caller, action, resource string, by SavedPattern)
	// Denied is told that a rule, or what a plugin may assert at all, refused a
	// resource.
	Denied(caller Caller, action, resource string, verdict Verdict)
}

// WithRecorder returns an engine that tells the recorder of what it asks and
// refuses, other than for calls that are being prepared.
func (e *Engine) WithRecorder(recorder Recorder) *Engine {
	with := *e
	with.recorder = recorder
	return &with
}

// asked tells of a request before it is put to the approver.
func (g *gate) asked(request Request) {
	if r := g.engine.recorder; r != nil && !g.caller.Preparing {
		r.Asked(request)
	}
}

// answered tells how it ended.
func (g *gate) answered(request Request, reply Reply) {
	if r := g.engine.recorder; r != nil && !g.caller.Preparing {
		r.Answered(request, reply)
	}
}

// approved tells that a resource is approved by what is saved.
func (g *gate) approved(action, resource string, by SavedPattern) {
	if r := g.engine.recorder; r != nil && !g.caller.Preparing {
		r.Approved(g.caller, action, resource, by)
	}
}

// denied tells that a resource is denied, also to a call that is being prepared, which
// ends by it.
func (g *gate) denied(action, resource string, v Verdict) {
	if r := g.engine.recorder; r != nil {
		r.Denied(g.caller, action, resource, v)
	}
}
