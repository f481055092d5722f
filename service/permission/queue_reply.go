package permission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toolhost/toolhost/tool"
)

// An AnswerKind is how a person answers a request.
type AnswerKind string

// The answers (law 35).
const (
	Once   AnswerKind = "once"   // yes, to this request alone
	Always AnswerKind = "always" // yes, and to what the shown patterns match from now on
	Reject AnswerKind = "reject" // no, to this request alone
)

// An Answer is a person's answer to a request.
type Answer struct {
	Kind AnswerKind
	// Feedback is told to the model with a rejection, and kept as the reason of what is
	// saved; it may be empty. At most [MaxFeedback] bytes.
	Feedback string
	// By says who answers; it may be empty. At most [tool.MaxID] bytes.
	By string
	// Expires is for how long an approval is saved; 0 until it is revoked. It is for
	// Always alone.
	Expires time.Duration
}

// MaxFeedback is the most bytes that a feedback may have.
const MaxFeedback = 4096

var (
	// ErrNotSavable says that a request cannot be answered with Always.
	ErrNotSavable = errors.New("the request has no pattern that could be saved: approve it once, or reject it")
	// ErrSaving says that a request was answered with Always, which is being saved: no
	// other answer counts meanwhile.
	ErrSaving = errors.New("the request was answered with always, which is being saved: wait a moment")
)

func (a *Answer) check() error {
	switch {
	case a.Kind != Once && a.Kind != Always && a.Kind != Reject:
		return fmt.Errorf("answer %q is unknown: answer with %s, %s or %s", a.Kind, Once, Always, Reject)
	case a.Expires < 0:
		return fmt.Errorf("the approval would have expired %s ago: give a time to come", -a.Expires)
	case a.Expires > 0 && a.Kind != Always:
		return fmt.Errorf("answer %s saves nothing that could expire", a.Kind)
	case len(a.Feedback) > MaxFeedback || !utf8.ValidString(a.Feedback):
		return fmt.Errorf("feedback has %d bytes: give text in UTF-8 of at most %d", len(a.Feedback), MaxFeedback)
	case len(a.By) > tool.MaxID || !utf8.ValidString(a.By):
		return fmt.Errorf("name of who answers has %d bytes: give text in UTF-8 of at most %d", len(a.By), tool.MaxID)
	}
	return nil
}

// Reply answers the request that is shown under the id (law 35). Once and Reject
// settle it alone. Always first saves the request's patterns, exactly; when that
// fails the error says so and the request stays pending. Then it settles the
// request and the others, of whatever session, that are approved now; those are
// released, oldest first.
//
// A yes to what a rule forbids that came into effect since it was asked is none: nothing is
// saved, the request is settled as denied, and the error, an [ErrNotPending], says by what
// (law 32).
//
// The error is [ErrNotPending], [ErrNotSavable], [ErrSaving], the store's, or
// about the answer itself. With an [ErrNotPending] that comes after the saving,
// since the request ended meanwhile, the approval stands, and others may have been
// released. ctx bounds the saving.
func (q *Queue) Reply(ctx context.Context, id string, answer Answer) (released []string, err error) {
	if err := answer.check(); err != nil {
		return nil, err
	}
	if answer.Kind == Always {
		return q.always(ctx, id, answer)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	r, err := q.shown(id)
	switch {
	case err != nil:
		return nil, err
	case r.saving != nil:
		return nil, ErrSaving // what is saved stands: it can be revoked, and not be answered with no
	case answer.Kind == Reject:
		q.settle(r, Reply{Kind: tool.KindDeclined, Reason: answer.Feedback, By: answer.By, Answer: Reject})
	default:
		if err := q.forbid(r, answer); err != nil {
			return nil, err
		}
		q.settle(r, Reply{Granted: true, Reason: answer.Feedback, By: answer.By, Answer: answer.Kind})
	}
	q.refresh(r.identity)
	return nil, nil
}

// RejectSession rejects every request of the session, also those that wait behind
// an identical one, and says how many those were.
func (q *Queue) RejectSession(session, feedback, by string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	rejected := 0
	for _, r := range q.requests {
		if r.request.Caller.Identity.Session == session && r.over() == nil && r.saving == nil {
			q.settle(r, Reply{Kind: tool.KindDeclined, Reason: feedback, By: by, Answer: Reject})
			rejected++
		}
	}
	return rejected
}

// shown is the request that can be answered under the id. One whose call is over
// cannot, though it was not withdrawn yet (case C16). q.mu is held.
func (q *Queue) shown(id string) (*asked, error) {
	r := q.requests[id]
	if r == nil || q.lines[r.identity][0] != r && !r.alone || r.over() != nil {
		return nil, ErrNotPending
	}
	return r, nil
}

func (q *Queue) always(ctx context.Context, id string, answer Answer) (released []string, err error) {
	r, err := q.beginSaving(id, answer)
	if err != nil {
		return nil, err
	}
	saved := false
	defer func() {
		if !saved {
			q.notSaved(r)
		}
	}()
	now := time.Now()
	approval := Approval{
		ApprovalKey: r.key, Patterns: slices.Clone(r.request.Save), Tool: r.request.Caller.Tool,
		By: answer.By, Why: cmp.Or(answer.Feedback, cut(r.request.Why)), At: now,
	}
	if answer.Expires > 0 {
		approval.Expires = now.Add(answer.Expires)
	}
	if err := q.approvals.Save(ctx, approval); err != nil {
		return nil, fmt.Errorf("the approval was not saved, and the request still waits: %w", err)
	}
	saved = true
	all, err := q.approvals.Saved(ctx, r.key)
	if err != nil { // what was just saved counts all the same
		all = nil
		for _, pattern := range approval.Patterns {
			all = append(all, SavedPattern{Pattern: pattern})
		}
	}
	return q.release(r, answer, all)
}

// cut is as much of the text as an approval may say.
func cut(text string) string {
	if len(text) <= MaxFeedback {
		return text
	}
	return strings.ToValidUTF8(text[:MaxFeedback], "")
}

// beginSaving marks the request, so that nothing but a rejection or the end of its
// call answers it while it is being saved.
func (q *Queue) beginSaving(id string, answer Answer) (*asked, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r, err := q.shown(id)
	switch {
	case err != nil:
		return nil, err
	case r.saving != nil:
		return nil, ErrSaving
	case len(r.request.Save) == 0:
		return nil, ErrNotSavable
	}
	if err := q.forbid(r, answer); err != nil {
		return nil, err
	}
	r.saving = &answer
	return r, nil
}

// forbid settles a request that is answered with yes, with an error that says so, if a rule
// forbids it by now. q.mu is held.
func (q *Queue) forbid(r *asked, answer Answer) error {
	reason := r.denied()
	if reason == "" {
		return nil
	}
	q.settle(r, Reply{Kind: tool.KindDenied, Reason: reason, By: answer.By, Answer: answer.Kind})
	q.refresh(r.identity)
	return fmt.Errorf("what is configured now denies what was asked for, %s; it was refused, and nothing was saved: %w", reason, ErrNotPending)
}

// notSaved lets the request wait on, if its time is not up.
func (q *Queue) notSaved(r *asked) {
	q.mu.Lock()
	r.saving = nil
	q.mu.Unlock()
	q.expire(r)
}

// release settles the request, for which an approval was saved, and those that are
// approved now.
func (q *Queue) release(r *asked, answer Answer, saved []SavedPattern) (released []string, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.saves++
	if q.requests[r.id] == r && r.over() == nil {
		q.settle(r, Reply{Granted: true, Reason: answer.Feedback, By: answer.By, Answer: answer.Kind})
	} else {
		err = fmt.Errorf("the approval was saved and stands, but the request ended meanwhile: %w", ErrNotPending)
	}
	pending := make([]*asked, 0, len(q.requests))
	for _, other := range q.requests {
		pending = append(pending, other)
	}
	slices.SortFunc(pending, inOrder)
	for _, other := range pending {
		if other.key == r.key && other.saving == nil && other.over() == nil &&
			approvesAll(saved, &other.request) {
			q.settle(other, Reply{Granted: true, Reason: "by what was approved for request " + r.id, By: answer.By})
			released = append(released, other.id)
		}
	}
	q.refresh(r.identity)
	return released, err
}
