package permission

// A Recorder is told what an engine asks and refuses, as it happens, by the
// goroutine of the call. It must not block, must keep no part of what it is given
// that is not its own, and must be safe for concurrent use. One that panics misses what it was told. What is allowed by a rule,
// or was answered in the same call already, is not told.
type Recorder interface {
	// Asked is told before the approver is asked.
	Asked(request Request)
	// Answered is told how a request ended: with the reply of the approver, or with one
	// of KindCancelled or KindNobodyToAsk for it, or of KindDenied, which comes with who
	// answered and how, when what was asked for was denied meanwhile (law 32).
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
	g.tell(!g.caller.Preparing, func(r Recorder) { r.Asked(request) })
}

// answered tells how it ended.
func (g *gate) answered(request Request, reply Reply) {
	g.tell(!g.caller.Preparing, func(r Recorder) { r.Answered(request, reply) })
}

// approved tells that a resource is approved by what is saved.
func (g *gate) approved(action, resource string, by SavedPattern) {
	g.tell(!g.caller.Preparing, func(r Recorder) { r.Approved(g.caller, action, resource, by) })
}

// denied tells that a resource is denied, also to a call that is being prepared, which
// ends by it.
func (g *gate) denied(action, resource string, v Verdict) {
	g.tell(true, func(r Recorder) { r.Denied(g.caller, action, resource, v) })
}

// tell tells the recorder, if there is one and the gate tells at all. One that panics
// misses what it was told, which is no call's trouble.
func (g *gate) tell(tells bool, what func(Recorder)) {
	if g.engine.recorder == nil || !tells {
		return
	}
	defer func() { _ = recover() }()
	what(g.engine.recorder)
}
