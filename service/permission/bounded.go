package permission

import (
	"context"
	"errors"
	"fmt"

	"github.com/toolhost/toolhost/scope"
)

// Bounded asks the approver in a goroutine of life, so that a question is over when
// its ctx is, whatever the approver does. An approver that does not heed its ctx is
// life's to report. Nil, and [Nobody], are returned as they are.
func Bounded(approver Approver, life *scope.Scope) Approver {
	if _, nobody := approver.(Nobody); approver == nil || nobody {
		return approver
	}
	return &bounded{approver, life}
}

type bounded struct {
	approver Approver
	life     *scope.Scope
}

var _ Approver = (*bounded)(nil)

func (b *bounded) Ask(ctx context.Context, request Request) (Reply, error) {
	type answer struct {
		reply Reply
		err   error
	}
	answers := make(chan answer, 1)
	err := b.life.Go("question about "+request.Action, func(context.Context) error {
		a := answer{err: errors.New("the approver ended its goroutine instead of answering")}
		defer func() { answers <- a }()
		a.reply, a.err = contained(ctx, b.approver, request)
		return nil
	})
	if err != nil {
		return Reply{}, err
	}
	select {
	case a := <-answers:
		return a.reply, a.err
	case <-ctx.Done():
		return Reply{}, context.Cause(ctx)
	}
}

// contained asks the approver. One that panics failed, which is a no (law 37).
func contained(ctx context.Context, approver Approver, request Request) (reply Reply, err error) {
	defer func() {
		if v := recover(); v != nil {
			reply, err = Reply{}, fmt.Errorf("the approver panicked: %v", v)
		}
	}()
	return approver.Ask(ctx, request)
}
