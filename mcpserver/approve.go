package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/service/permission/shown"
	"github.com/toolhost/toolhost/tool"
)

// Fallback is what becomes of a question when the client cannot be asked.
type Fallback string

// The fallbacks.
const (
	// Deny says no at once, and how to allow it.
	Deny Fallback = "deny"
	// Wait leaves the question to whoever answers at the control socket.
	Wait Fallback = "wait"
)

// An Approver is who answers the questions of a host whose calls come from clients: the
// person at the client where it can be asked, and anybody at the queue. It is safe for
// concurrent use.
type Approver struct {
	queue    *permission.Queue
	fallback Fallback
	life     *scope.Scope
	log      *slog.Logger
	patience time.Duration // see [face.untilShown]

	mu    sync.Mutex
	calls map[tool.Identity][]*conversation // under mu: those that run, newest last
}

var _ permission.Approver = (*Approver)(nil)

// NewApprover makes the approver of a host. Its questions wait in the queue. What it
// does for a question belongs to life.
func NewApprover(life *scope.Scope, queue *permission.Queue, fallback Fallback, log *slog.Logger) *Approver {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Approver{
		queue: queue, fallback: fallback, life: life, log: log, patience: patience, calls: map[tool.Identity][]*conversation{},
	}
}

// how a client is asked.
type how int

const (
	askNot   how = iota // it cannot be
	askNow              // by a request of its own, while the call waits
	askLater            // with the result of its request, when the call is suspended
)

// asking is how the client of a call is asked.
type asking struct {
	gone   context.Context //nolint:containedctx // it ends when the client does not wait any more
	how    how
	by     string                                                                         // who answers, for the record
	elicit func(ctx context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) // for askNow
}

// conversation is a call on its way, and its client.
type conversation struct {
	approver *Approver
	identity tool.Identity
	asking   asking

	mu      sync.Mutex
	handle  string              // under mu: of the call, once it was suspended
	pending map[string]struct{} // under mu: the requests that were asked and not answered
	left    bool                // under mu: there was room to leave the call alone
	timer   *time.Timer         // under mu: ends a conversation whose call was left alone; nil while it is not

	telling  sync.Mutex          // held while the client is told, so that nothing is sent after its request has ended
	progress func(tool.Progress) // under telling: tells the client that waits now; nil is nobody
}

// report tells the client that waits now how far the call is.
func (c *conversation) report(p tool.Progress) {
	c.telling.Lock()
	defer c.telling.Unlock()
	if c.progress != nil {
		c.progress(p)
	}
}

// tell says who is told from now on. Who was told before is told no more when it returns.
func (c *conversation) tell(progress func(tool.Progress)) {
	c.telling.Lock()
	defer c.telling.Unlock()
	c.progress = progress
}

// conversing is under which the context of a call has its conversation.
type conversing struct{}

// begin notes that a call runs, until its conversation ends. The call must run in the
// context.
func (a *Approver) begin(ctx context.Context, identity tool.Identity, by asking) (context.Context, *conversation) {
	c := &conversation{approver: a, identity: identity, asking: by, pending: map[string]struct{}{}}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls[identity] = append(a.calls[identity], c)
	return context.WithValue(ctx, conversing{}, c), c
}

func (c *conversation) end() {
	c.attend()
	a := c.approver
	a.mu.Lock()
	defer a.mu.Unlock()
	rest := slices.DeleteFunc(a.calls[c.identity], func(other *conversation) bool { return other == c })
	if a.calls[c.identity] = rest; len(rest) == 0 {
		delete(a.calls, c.identity)
	}
}

// suspend notes that the call was left alone, and ends the conversation then unless it
// is taken up before.
func (c *conversation) suspend(handle string, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handle = handle
	var timer *time.Timer
	timer = time.AfterFunc(time.Until(until), func() {
		c.mu.Lock()
		alone := c.timer == timer
		c.mu.Unlock()
		if alone {
			c.end()
		}
	})
	c.timer = timer
}

// attend notes that the call is not left alone any more.
func (c *conversation) attend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}

// of is the conversation of a call, or nil. A question that a plugin asks by itself comes
// without the call's context: of calls with the same ids it is then taken for one of the
// newest.
func (a *Approver) of(ctx context.Context, identity tool.Identity) *conversation {
	if c, ok := ctx.Value(conversing{}).(*conversation); ok {
		return c
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if calls := a.calls[identity]; len(calls) > 0 {
		return calls[len(calls)-1]
	}
	return nil
}

// resumed is the conversation of a suspended call, which is not left alone any more; or
// nil if it was for too long.
func (a *Approver) resumed(identity tool.Identity, handle string) *conversation {
	a.mu.Lock()
	calls := slices.Clone(a.calls[identity])
	a.mu.Unlock()
	for _, c := range calls {
		c.mu.Lock()
		same := c.handle == handle
		c.mu.Unlock()
		if same {
			c.attend()
			return c
		}
	}
	return nil
}

// Ask implements [permission.Approver].
func (a *Approver) Ask(ctx context.Context, request permission.Request) (permission.Reply, error) {
	c := a.of(ctx, request.Caller.Identity)
	if (c == nil || c.asking.how == askNot) && a.fallback != Wait {
		return permission.Reply{Kind: tool.KindNobodyToAsk, Reason: nobodyToAsk}, nil
	}
	if c == nil || c.asking.how == askLater {
		return a.wait(ctx, c, request)
	}
	// The protocol lets a call go on without its client, but nothing is begun for one that
	// is gone (case C16).
	here, over := context.WithCancel(ctx)
	defer over()
	defer context.AfterFunc(c.asking.gone, over)()
	reply, err := a.wait(here, c, request)
	if err == nil && !reply.Granted && here.Err() != nil && ctx.Err() == nil {
		return permission.Reply{Kind: tool.KindCancelled, Reason: "the client closed its request"}, nil
	}
	return reply, err
}

// wait waits for an answer, from the client if it is asked now, or from the queue.
func (a *Approver) wait(ctx context.Context, c *conversation, request permission.Request) (permission.Reply, error) {
	if c == nil || c.asking.how == askNot {
		return a.queue.Ask(ctx, request)
	}
	c.mu.Lock()
	c.pending[request.ID] = struct{}{}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.pending, request.ID)
		c.mu.Unlock()
	}()
	if c.asking.how == askNow {
		return a.askNow(ctx, c, request)
	}
	return a.askLater(ctx, c, request)
}

// The reasons for which nobody was asked, with what to do about it.
const (
	nobodyToAsk = "this client cannot ask its user (it offers no elicitation); " + askElsewhere
	notAsked    = "this client offers to ask its user, and could not; " + askElsewhere

	askElsewhere = "allow it by a rule, or start toolhost serve with --approve wait and answer with toolhost approvals"
)

// asked is what became of an elicitation.
type asked int

const (
	askedOver      asked = iota // it was answered, or is not wanted any more
	askedDismissed              // the person gave no answer
	askedInVain                 // the client could not ask
)

// askNow asks the client beside the queue: whoever answers first is heard.
func (a *Approver) askNow(ctx context.Context, c *conversation, request permission.Request) (permission.Reply, error) {
	waiting, over := context.WithCancel(ctx)
	defer over()
	ended := make(chan struct{})
	var became asked // read when ended is closed
	err := a.life.Go("elicitation of "+request.Action, func(context.Context) error {
		defer close(ended)
		became = a.elicit(waiting, c, request.ID)
		if became == askedDismissed || became == askedInVain && a.fallback != Wait {
			over()
		}
		return nil
	})
	if err != nil {
		return permission.Reply{}, err
	}
	reply, err := a.queue.Ask(waiting, request)
	over()
	<-ended
	switch {
	case err != nil || reply.Granted || reply.Kind != tool.KindCancelled || ctx.Err() != nil:
		return reply, err
	case became == askedDismissed:
		return permission.Reply{Kind: tool.KindCancelled, Reason: "the question was dismissed"}, nil
	case became == askedInVain:
		return permission.Reply{Kind: tool.KindNobodyToAsk, Reason: notAsked}, nil
	default:
		return reply, nil
	}
}

// elicit asks the client when the request is shown, and answers it with what the person
// says. A request that the client fails to ask about is left to the [Fallback].
func (a *Approver) elicit(ctx context.Context, c *conversation, id string) asked {
	changes, stop := a.queue.Watch()
	defer stop()
	for {
		p, shown := a.queue.Find(id)
		if shown {
			result, err := c.asking.elicit(ctx, question(p))
			if err != nil {
				if ctx.Err() != nil {
					return askedOver
				}
				// The SDK quotes the client's whole answer in the error.
				a.log.Warn("the client could not ask its user", slog.String("request", id), slog.String("error", cut(err.Error(), tool.MaxID)))
				return askedInVain
			}
			answer, said := answerOf(result, p, c.asking.by)
			if !said {
				return askedDismissed
			}
			if _, err := a.queue.Reply(ctx, id, answer); err != nil && !errors.Is(err, permission.ErrNotPending) {
				a.log.Warn("the client's answer was not taken", slog.String("request", id), slog.Any("error", err))
				return askedInVain
			}
			return askedOver
		}
		select {
		case <-changes:
		case <-ctx.Done():
			return askedOver
		}
	}
}

// The properties of the form, and the values of the first.
const (
	formAnswer = "answer"
	formReason = "reason"
)

// question is the form in which a client asks its user.
func question(p permission.Pending) *mcp.ElicitParams {
	r := shown.Of(p)
	answers, titles := []string{}, []string{}
	offer := func(kind permission.AnswerKind, title string) {
		answers, titles = append(answers, string(kind)), append(titles, title)
	}
	if r.Whole() {
		offer(permission.Once, "Allow once")
	}
	if r.Whole() && len(r.Save) > 0 {
		offer(permission.Always, "Always allow exactly what is shown as always")
	}
	offer(permission.Reject, "Reject")
	return &mcp.ElicitParams{
		Mode:    "form",
		Message: "toolhost asks for approval:\n" + r.Text(shown.Columns),
		RequestedSchema: map[string]any{
			"type": "object",
			"properties": map[string]any{
				formAnswer: map[string]any{"type": "string", "title": "Answer", "enum": answers, "enumNames": titles},
				formReason: map[string]any{"type": "string", "title": "Reason", "description": "Why; the model is told when the answer is no", "maxLength": permission.MaxFeedback / 4},
			},
			"required": []string{formAnswer},
		},
	}
}

// answerOf is what a person answered, or that they dismissed the question.
func answerOf(result *mcp.ElicitResult, p permission.Pending, by string) (answer permission.Answer, said bool) {
	answer = permission.Answer{Kind: permission.Reject, By: by}
	switch result.Action {
	case "accept":
		kind, _ := result.Content[formAnswer].(string)
		r := shown.Of(p)
		switch permission.AnswerKind(kind) {
		case permission.Once:
			if r.Whole() {
				answer.Kind = permission.Once
			}
		case permission.Always:
			if r.Whole() && len(r.Save) > 0 {
				answer.Kind = permission.Always
			}
		}
		if reason, ok := result.Content[formReason].(string); ok {
			answer.Feedback = cut(reason, permission.MaxFeedback)
		}
		if kind == "" && answer.Feedback == "" {
			answer.Feedback = "the form was accepted without an answer in it, which is no yes"
		}
		return answer, true
	case "decline":
		return answer, true
	default:
		return answer, false
	}
}

// canElicit says whether a client can show its user a form.
func canElicit(c *mcp.ClientCapabilities) bool {
	return c != nil && c.Elicitation != nil && (c.Elicitation.Form != nil || c.Elicitation.URL == nil)
}

// asks is how the client of a call is asked, later or now.
func (f *face) asks(req *mcp.CallToolRequest, how how) asking {
	gone := f.posts.of(req.Extra)
	if !canElicit(req.ClientCapabilities()) {
		return asking{how: askNot, gone: gone}
	}
	by := principal(req.Extra)
	if info := req.ClientInfo(); info != nil && info.Name != "" {
		by += " at " + info.Name
	}
	return asking{how: how, gone: gone, by: cut(by, tool.MaxID), elicit: req.Session.Elicit}
}

// waiting are the requests of the call that are not answered yet, sorted.
func (c *conversation) waiting() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.pending))
}

// shown are the requests of the call that a person can answer now. One that waits behind
// an identical one cannot.
func (c *conversation) shown() []permission.Pending {
	var all []permission.Pending
	for _, id := range c.waiting() {
		if p, ok := c.approver.queue.Find(id); ok {
			all = append(all, p)
		}
	}
	return all
}

// patience is how long a call waits for an identical one that is asked about first.
const patience = 3 * time.Second

// turn is how often a call that waits for an identical one looks whether it may ask.
const turn = 50 * time.Millisecond

// untilShown goes on waiting for a suspended call while an identical one is asked before
// it, and then asks all the same: nobody knows whether the other one's client is there.
func (f *face) untilShown(ctx context.Context, l *location.Location, c *conversation, s tool.Settlement, err error) (tool.Settlement, error) {
	for deadline := time.Now().Add(c.approver.patience); ; {
		suspended, ok := errors.AsType[*tool.Suspension](err)
		if !ok || len(c.shown()) > 0 {
			break
		}
		if !time.Now().Before(deadline) {
			for _, id := range c.waiting() {
				c.approver.queue.Show(id)
			}
			break
		}
		s, err = l.Resume(ctx, suspended.Identity.Session, suspended.Handle, turn)
	}
	return s, err
}

// inputRequired is the result that gives a client the questions of a suspended call,
// with the state that resumes it.
func (f *face) inputRequired(req *mcp.CallToolRequest, name, definition string, c *conversation, suspended *tool.Suspension) (*mcp.CallToolResult, error) {
	c.suspend(suspended.Handle, suspended.Expires)
	result := &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{}}
	asked := []string{}
	for _, p := range c.shown() {
		result.InputRequests[p.ID] = question(p)
		asked = append(asked, p.ID)
	}
	var err error
	result.RequestState, err = f.server.seal.close(carried{
		Handle: suspended.Handle, Identity: suspended.Identity, Asked: asked, Ran: suspended.Ran,
		Expires: suspended.Expires, Definition: definition,
	}, f.binding(req, name))
	if err != nil {
		return nil, fmt.Errorf("seal the state of a call: %w", err)
	}
	return result, nil
}
