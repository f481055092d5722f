package registry

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/toolhost/toolhost/tool"
)

// maxSuspended is how many calls of a Location may be suspended at once. Beyond it
// a call is waited for instead.
const maxSuspended = 256

// ErrRunning says that a suspended call got its answer and runs: it can be resumed,
// and cannot be withdrawn any more.
var ErrRunning = errors.New("the call was approved and runs: it cannot be withdrawn; resume it for its outcome")

// ErrNotSuspended says that a handle stands for no suspended call of the session:
// the call lapsed, was withdrawn or was resumed, or there never was one.
var ErrNotSuspended = errors.New("no call is suspended under this handle: it lapsed, was withdrawn, or was resumed before")

// suspensions are the calls of a registry that wait for a person, and those of them that
// are waited for by nobody.
type suspensions struct {
	mu    sync.Mutex
	all   map[string]*suspension           // under mu: by handle
	asked map[*tool.PermissionRequest]*run // under mu: by what a person is asked now
}

// ask notes that a call waits for a person until answered is called. One whose set is
// retired does not wait: it ends.
func (all *suspensions) ask(r *run, request *tool.PermissionRequest) (answered func()) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if s := r.entry.registration.set; s != nil && s.retired != nil {
		r.cancel(s.retired)
	}
	if all.asked == nil {
		all.asked = make(map[*tool.PermissionRequest]*run)
	}
	all.asked[request] = r
	return func() {
		all.mu.Lock()
		defer all.mu.Unlock()
		delete(all.asked, request)
	}
}

// Retire ends the calls of the set's tools that wait for a person, suspended or not, since
// nothing can carry them out any more: rejected as cancelled, with the reason as their
// message (law 37). So do those that come to wait later. What runs goes on. It is for a set
// that is replaced or withdrawn for good, before what runs its tools is ended; doing it twice
// is doing it once.
func (s *Set) Retire(reason string) {
	all := &s.registry.waiting
	all.mu.Lock()
	defer all.mu.Unlock()
	if s.retired != nil {
		return
	}
	s.retired = &tool.Error{Kind: tool.KindCancelled, Message: reason}
	for _, r := range all.asked {
		if r.entry.registration.set == s {
			r.cancel(s.retired)
		}
	}
}

// A suspension is a call that may be left waiting for a person, and taken up
// again. It is owned by the Location, whose scope its goroutine runs in.
type suspension struct {
	registry *Registry
	identity tool.Identity
	handle   string
	unwanted context.CancelCauseFunc // ends the call as one that the caller gave up

	waiting chan struct{} // receives when the call begins to wait for a person; room for one
	done    chan struct{} // closed when the call has ended
	// set before done is closed
	settlement tool.Settlement
	err        error

	mu       sync.Mutex                // guards what follows
	tool     string                    // canonical id; empty before it was resolved
	cancel   context.CancelCauseFunc   // of the work; nil before it began
	asked    []*tool.PermissionRequest // of a person, now
	ran      bool                      // the executor had begun
	expires  time.Time                 // when it lapses
	lapsing  *time.Timer               // nil before it was first suspended
	attended int                       // how many wait for it
	ended    bool                      // done is closed, or about to be
	taken    bool                      // its outcome was given to somebody
}

// suspendable runs a call in a goroutine of the scope, so that it can outlive the
// waiting for it.
func (c *Capture) suspendable(ctx context.Context, request Request) (tool.Settlement, error) {
	// The caller's values hold for as long as the call lives, its end only for as long
	// as somebody waits.
	wanted, unwanted := context.WithCancelCause(context.WithoutCancel(ctx))
	s := &suspension{
		registry: c.registry, identity: request.Identity, handle: rand.Text(), unwanted: unwanted,
		waiting: make(chan struct{}, 1), done: make(chan struct{}),
	}
	err := c.registry.options.Scope.Go("suspendable call", func(context.Context) error {
		defer unwanted(nil)
		defer s.finish()
		s.settlement = settledBy(errors.New("the call broke off"), false) // unless it returns
		s.settlement, s.err = c.run(wanted, request, s)
		return nil
	})
	if err != nil {
		unwanted(nil)
		return end(ctx, closing(), false)
	}
	return s.attend(ctx, request.SuspendAfter)
}

// Resume takes up a call that was suspended: it waits for it as [Capture.Call]
// does, up to its end, or until it has waited for a person longer than after, which
// may be 0, when the error is a [*tool.Suspension] with the same handle. When ctx is
// over, so is the call, whoever else has resumed it. The outcome of a call is given once; after that, and for a handle that
// belongs to another session, the error is [ErrNotSuspended].
func (r *Registry) Resume(ctx context.Context, session, handle string, after time.Duration) (tool.Settlement, error) {
	s, err := r.suspended(session, handle)
	if err != nil {
		return tool.Settlement{}, err
	}
	return s.attend(ctx, after)
}

// Withdraw ends a call that waits for a person without an answer, and gives its
// outcome: rejected as cancelled, or what it had come to by itself. The error is
// [ErrNotSuspended]; or [ErrRunning] for a call that got its answer and runs, which
// goes on; or the cause of ctx, which bounds the waiting: the call ends in any case.
func (r *Registry) Withdraw(ctx context.Context, session, handle string) (tool.Settlement, error) {
	s, err := r.suspended(session, handle)
	if err != nil {
		return tool.Settlement{}, err
	}
	if s.running() && !s.endWaiting(&tool.Error{Kind: tool.KindCancelled, Message: "the call was withdrawn while it waited for approval"}) {
		return tool.Settlement{}, ErrRunning
	}
	select {
	case <-s.done:
		return s.take()
	case <-ctx.Done():
		return tool.Settlement{}, context.Cause(ctx)
	}
}

// Suspended lists the calls that wait for a person and for which nobody waits, by
// the time at which they lapse.
func (r *Registry) Suspended() []*tool.Suspension {
	r.waiting.mu.Lock()
	all := slices.Collect(maps.Values(r.waiting.all))
	r.waiting.mu.Unlock()
	var views []*tool.Suspension
	for _, s := range all {
		s.mu.Lock()
		if len(s.asked) > 0 && s.attended == 0 {
			views = append(views, s.view())
		}
		s.mu.Unlock()
	}
	slices.SortFunc(views, func(a, b *tool.Suspension) int { return a.Expires.Compare(b.Expires) })
	return views
}

func (r *Registry) suspended(session, handle string) (*suspension, error) {
	r.waiting.mu.Lock()
	defer r.waiting.mu.Unlock()
	if s, ok := r.waiting.all[handle]; ok && s.identity.Session == session {
		return s, nil
	}
	return nil, ErrNotSuspended
}

// attend waits for the call until it has ended, or has waited for a person longer
// than after. When ctx is over the call is.
func (s *suspension) attend(ctx context.Context, after time.Duration) (tool.Settlement, error) {
	interest := func() (lost func() bool) {
		return context.AfterFunc(ctx, func() { s.unwanted(context.Cause(ctx)) })
	}
	lose := interest()
	defer func() { lose() }()
	s.count(1)
	defer s.count(-1)
	patience := time.NewTimer(after)
	defer patience.Stop()
	if !s.waits() {
		patience.Stop()
	}
	for {
		select {
		case <-s.done:
			return s.take()
		case <-s.waiting:
			patience.Reset(after)
		case <-patience.C:
			if !lose() {
				continue // ctx is over, and so will the call be
			}
			if suspended := s.suspend(); suspended != nil {
				return tool.Settlement{}, suspended
			}
			lose = interest()
			patience.Reset(max(after, time.Second)) // there was no room, or it waits no more
		}
	}
}

// suspend leaves the call to the Location, if it still waits for a person and there
// is room for it; otherwise it gives nil.
func (s *suspension) suspend() error {
	all := &s.registry.waiting
	all.mu.Lock()
	defer all.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := all.all[s.handle]; len(s.asked) == 0 || !known && len(all.all) >= maxSuspended {
		return nil
	}
	if all.all == nil {
		all.all = make(map[string]*suspension)
	}
	all.all[s.handle] = s
	if s.lapsing == nil {
		s.lapsing = time.AfterFunc(s.registry.options.Suspension, s.lapse)
		s.expires = time.Now().Add(s.registry.options.Suspension)
	}
	return s.view()
}

// again gives a call that was suspended once another while: to wait for the answer
// to a new question, or for its outcome to be asked for. s.mu is held.
func (s *suspension) again() {
	if s.lapsing != nil {
		s.lapsing.Reset(s.registry.options.Suspension)
		s.expires = time.Now().Add(s.registry.options.Suspension)
	}
}

// lapse ends a call that has waited for a person for too long, and forgets one
// whose outcome nobody asked for. One that runs gets another while.
func (s *suspension) lapse() {
	if s.endWaiting(&tool.Error{Kind: tool.KindTimedOut, Message: "the call needs approval, and nobody answered in time; call the tool again when somebody can answer"}) {
		s.forget()
		return
	}
	s.mu.Lock()
	over := s.ended
	if !over {
		s.again()
	}
	s.mu.Unlock()
	if over {
		s.forget()
	}
}

// endWaiting ends the work with that outcome if it waits for a person, and reports
// whether it did. An answer that comes at the same time is either before or after.
func (s *suspension) endWaiting(outcome *tool.Error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.asked) == 0 || s.cancel == nil {
		return false
	}
	s.cancel(outcome)
	return true
}

// finish gives the outcome to whoever waits.
func (s *suspension) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.again()
	close(s.done)
}

// running reports whether the call has not ended.
func (s *suspension) running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ended
}

// count counts those who wait for the call.
func (s *suspension) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attended += n
}

// take gives the outcome to the first who asks for it.
func (s *suspension) take() (tool.Settlement, error) {
	s.mu.Lock()
	taken := s.taken
	s.taken = true
	if s.lapsing != nil {
		s.lapsing.Stop()
	}
	s.mu.Unlock()
	if taken {
		return tool.Settlement{}, ErrNotSuspended
	}
	s.forget()
	return s.settlement, s.err
}

func (s *suspension) forget() {
	s.registry.waiting.mu.Lock()
	defer s.registry.waiting.mu.Unlock()
	delete(s.registry.waiting.all, s.handle)
}

// view says what is known of the suspension. s.mu is held.
func (s *suspension) view() *tool.Suspension {
	v := &tool.Suspension{Handle: s.handle, Identity: s.identity, Tool: s.tool, Expires: s.expires, Ran: s.ran}
	for _, request := range s.asked {
		v.Requests = append(v.Requests, *request)
	}
	return v
}

// began tells how the work is ended.
func (s *suspension) began(cancel context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel = cancel
}

// executes tells that the executor begins.
func (s *suspension) executes() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ran = true
}

// asking tells that a person is asked about the tool, until answered is called.
func (s *suspension) asking(id string, request tool.PermissionRequest) (answered func()) {
	s.mu.Lock()
	s.tool = id
	if s.asked = append(s.asked, &request); len(s.asked) == 1 {
		s.again()
	}
	s.mu.Unlock()
	select {
	case s.waiting <- struct{}{}:
	default: // it was told already
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked = slices.DeleteFunc(s.asked, func(other *tool.PermissionRequest) bool { return other == &request })
	}
}

// waits reports whether the call waits for a person.
func (s *suspension) waits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked) > 0
}
