package permission

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/toolhost/toolhost/tool"
)

const (
	// DefaultTimeout is how long a request waits when nothing else is said.
	DefaultTimeout = 10 * time.Minute

	// MaxPending is how many requests of a queue wait at most. Beyond it the answer is
	// no, with nobody to ask.
	MaxPending = 1000
)

// ErrNotPending says that no request can be answered under an id: it was answered,
// was withdrawn or timed out, or there never was one.
var ErrNotPending = errors.New("no request is pending under this id: it was answered, withdrawn or not answered in time; list those that are")

// QueueOptions are the options of a [Queue].
type QueueOptions struct {
	// Approvals is where "always" saves, and where is looked before anybody is asked.
	// It must be the one of the engines that ask. Nil is a new [Memory].
	Approvals Approvals
	// Timeout is how long a request waits for its answer; 0 is [DefaultTimeout]. A
	// request that waited behind an identical one, and is shown because that was
	// answered, has as long from then.
	Timeout time.Duration
}

// A Queue is the approver of programs in which people answer when they come to it:
// it keeps the requests, which can be listed, watched and answered from anywhere
// (laws 35 to 37). Each is answered exactly once: by a reply, by an approval that
// was saved for another, by its timeout, or by the end of its call.
//
// Requests in which a person would see no difference but the message and the call
// that they come from are identical. Those are shown one at a time, the first
// first; a reply settles the one that was shown and the next one is shown then
// (case C13). So an answer never grants what was not shown to who gave it.
//
// A Queue holds nothing that must be released and is safe for concurrent use. One
// may serve any number of engines.
type Queue struct {
	approvals Approvals
	timeout   time.Duration

	mu       sync.Mutex // guards what follows; never held while approvals is called
	requests map[string]*asked
	lines    map[[sha256.Size]byte][]*asked // identical requests, oldest first; the first is shown
	watchers map[chan struct{}]struct{}
	order    uint64 // of the newest request
	saves    uint64 // how often an approval was saved
}

var _ Approver = (*Queue)(nil)

// asked is a request on its way. What does not change is set before others see it;
// the rest is guarded by the queue's mu.
type asked struct {
	id       string
	order    uint64
	at       time.Time
	request  Request // a copy; without Asking
	key      ApprovalKey
	identity [sha256.Size]byte
	over     func() error  // the error of the call's context
	denied   func() string // why a newer rule forbids it; empty when none does
	reply    chan Reply    // has room for the one

	expires time.Time
	timer   *time.Timer
	saving  *Answer // it was answered with always, which is being saved; nil if not
	alone   bool    // it is shown although an identical one stands before it
}

// NewQueue makes a queue.
func NewQueue(options QueueOptions) *Queue {
	if options.Approvals == nil {
		options.Approvals = new(Memory)
	}
	return &Queue{
		approvals: options.Approvals, timeout: cmp.Or(max(options.Timeout, 0), DefaultTimeout),
		requests: make(map[string]*asked), lines: make(map[[sha256.Size]byte][]*asked), watchers: make(map[chan struct{}]struct{}),
	}
}

// A Pending is a request as a person sees it.
type Pending struct {
	// ID is that of the request, or one that the queue made for it.
	ID string
	// Asked is when it was asked, Expires when it times out.
	Asked, Expires time.Time
	// Request is what is asked. Its Save holds those of the tool's patterns that can be
	// saved; its caller's Asking is nil, and its caller's Input is shared.
	Request Request
	// Behind is how many identical requests wait behind it.
	Behind int
}

// Pending lists what is to be answered, oldest first. It belongs to the caller.
func (q *Queue) Pending() []Pending {
	q.mu.Lock()
	defer q.mu.Unlock()
	shown := make([]*asked, 0, len(q.lines))
	for _, line := range q.lines {
		for i, r := range line {
			if i == 0 || r.alone {
				shown = append(shown, r)
			}
		}
	}
	slices.SortFunc(shown, inOrder)
	all := make([]Pending, len(shown))
	for i, r := range shown {
		all[i] = q.view(r)
	}
	return all
}

// Show shows a request that waits behind an identical one, and says whether it is
// pending. It is for whoever asks a person beside the queue and cannot wait: the one
// before it may never be answered, because nobody looks at it any more.
func (q *Queue) Show(id string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.requests[id]
	if r == nil || r.over() != nil {
		return false
	}
	if q.lines[r.identity][0] != r && !r.alone {
		r.alone = true
		q.changed()
	}
	return true
}

// Find is the request that is to be answered under the id, and whether there is one.
func (q *Queue) Find(id string) (Pending, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r, err := q.shown(id)
	if err != nil {
		return Pending{}, false
	}
	return q.view(r), true
}

// view is what a person sees of a request. q.mu is held.
func (q *Queue) view(r *asked) Pending {
	return Pending{ID: r.id, Asked: r.at, Expires: r.expires, Request: clone(r.request), Behind: len(q.lines[r.identity]) - 1}
}

func inOrder(a, b *asked) int { return cmp.Compare(a.order, b.order) }

// Watch gives a channel that receives when the list may have changed: once for any
// number of changes since it was last read. stop ends that; the channel is never
// closed.
func (q *Queue) Watch() (changes <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.watchers[c] = struct{}{}
	return c, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.watchers, c)
	}
}

// changed tells the watchers. q.mu is held.
func (q *Queue) changed() {
	for c := range q.watchers {
		select {
		case c <- struct{}{}:
		default: // it has not read the last one yet
		}
	}
}

// Ask implements [Approver]. What is approved already is granted at once. A no is
// KindDeclined, KindTimedOut, KindNobodyToAsk when [MaxPending] requests wait, or
// KindCancelled when ctx is over, whatever was answered at the same time (case
// C16). There is no error: where the approvals cannot be read, a person is asked.
func (q *Queue) Ask(ctx context.Context, request Request) (Reply, error) {
	r, reply := q.admit(ctx, request)
	if r == nil {
		return reply, nil
	}
	select {
	case reply = <-r.reply:
	case <-ctx.Done():
		q.withdraw(r)
	}
	if isOver(ctx) {
		return q.cancelled(r), nil
	}
	return reply, nil
}

// cancelled is the reply to a request whose call is over. If it is being approved for
// good meanwhile, which stands, that is in the reply, for the record.
func (q *Queue) cancelled(r *asked) Reply {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.saving == nil {
		return Reply{Kind: tool.KindCancelled}
	}
	return Reply{Kind: tool.KindCancelled, Reason: "its call ended while it was approved for good", By: r.saving.By, Answer: Always}
}

func isOver(ctx context.Context) bool { return ctx.Err() != nil }

// admit puts the request into the queue, or gives the reply.
func (q *Queue) admit(ctx context.Context, request Request) (*asked, Reply) {
	denied := request.denied
	if denied == nil {
		denied = func() string { return "" }
	}
	request = clone(request)
	r := &asked{key: request.Caller.key(request.Action), over: ctx.Err, denied: denied, reply: make(chan Reply, 1)}
	if request.Save = savable(request.Action, request.Save); !r.key.complete() {
		request.Save = nil // an approval could not say whose it is
	}
	r.request, r.identity = request, request.identity()
	for {
		saves, approved := q.saved(), q.approved(ctx, r)
		if isOver(ctx) {
			return nil, Reply{Kind: tool.KindCancelled}
		}
		if approved {
			return nil, Reply{Granted: true}
		}
		if full, ok := q.enqueue(r, saves); full {
			return nil, Reply{Kind: tool.KindNobodyToAsk, Reason: fmt.Sprintf("%d requests wait for an answer already", MaxPending)}
		} else if ok {
			return r, Reply{}
		}
	}
}

// approved reports whether all that the request is about is approved already.
func (q *Queue) approved(ctx context.Context, r *asked) bool {
	if !r.key.complete() {
		return false
	}
	saved, err := q.approvals.Saved(ctx, r.key)
	return err == nil && approvesAll(saved, &r.request)
}

func (q *Queue) saved() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.saves
}

// enqueue lets the request wait, unless the queue is full, or something was saved
// since the approvals were looked at.
func (q *Queue) enqueue(r *asked, saves uint64) (full, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.saves != saves:
		return false, false
	case len(q.requests) >= MaxPending:
		return true, false
	}
	r.id = r.request.ID
	for r.id == "" || q.requests[r.id] != nil {
		r.id = rand.Text()[:idLength]
	}
	r.request.ID = r.id
	q.order++
	r.order, r.at = q.order, time.Now()
	r.expires = r.at.Add(q.timeout)
	r.timer = time.AfterFunc(q.timeout, func() { q.expire(r) })
	q.requests[r.id] = r
	q.lines[r.identity] = append(q.lines[r.identity], r)
	q.changed()
	return false, true
}

// idLength is the length of an id: 60 random bits, in letters that a person can
// copy.
const idLength = 12

// expire answers a request that nobody has answered in time.
func (q *Queue) expire(r *asked) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.requests[r.id] == r && r.saving == nil && !time.Now().Before(r.expires) {
		q.settle(r, Reply{Kind: tool.KindTimedOut})
	}
}

// withdraw takes away a request whose call is over.
func (q *Queue) withdraw(r *asked) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.requests[r.id] == r {
		q.settle(r, Reply{Kind: tool.KindCancelled})
	}
}

// settle answers a request that is pending and forgets it; an identical one that
// waited behind it is shown. q.mu is held.
func (q *Queue) settle(r *asked, reply Reply) {
	delete(q.requests, r.id)
	r.timer.Stop()
	r.reply <- reply
	line := slices.DeleteFunc(q.lines[r.identity], func(other *asked) bool { return other == r })
	if q.lines[r.identity] = line; len(line) == 0 {
		delete(q.lines, r.identity)
	}
	q.changed()
}

// refresh gives the request that is shown now, in the place of one that a person
// answered, its whole time. q.mu is held.
func (q *Queue) refresh(identity [sha256.Size]byte) {
	if line := q.lines[identity]; len(line) > 0 {
		line[0].expires = time.Now().Add(q.timeout)
		line[0].timer.Reset(q.timeout)
	}
}

// identity is equal for requests that are identical to a person: all that is shown
// takes part, but not the message and the call.
func (r *Request) identity() (sum [sha256.Size]byte) {
	h := sha256.New()
	c := &r.Caller
	// Quoting keeps the fields apart, whatever is in them; maps are printed in order.
	fmt.Fprintf(h, "%q %q %t %q %t %q %d %t %q %q", c.Identity.Session, c.Identity.Agent, c.Identity.HostMade,
		c.Plugin, c.Builtin, c.Tool, c.Effects, c.Irreversible, c.Review, c.Diff)
	fmt.Fprintf(h, "%q %q %q %d ", c.Root, c.Digest, c.Definition, len(c.Input))
	h.Write(c.Input) // as it is, since it may be large
	fmt.Fprintf(h, "%q %q %q %q %q ", r.Action, r.Resources, r.Save, r.Metadata, r.Why)
	fmt.Fprintf(h, "%q %d %d ", r.Directory, len(r.Judged), r.Unlisted)
	for _, j := range r.Judged {
		fmt.Fprintf(h, "%q %q %q %d %q %t ", j.Kind, j.Action, j.Text, j.Effect, j.Why, j.Cut)
	}
	h.Sum(sum[:0])
	return sum
}

// clone copies a request with all that it holds but the input, which nobody changes, for
// a person.
func clone(r Request) Request {
	r.Resources, r.Save, r.Metadata = slices.Clone(r.Resources), slices.Clone(r.Save), maps.Clone(r.Metadata)
	r.Judged = slices.Clone(r.Judged)
	r.Caller.Asking, r.denied = nil, nil
	return r
}
