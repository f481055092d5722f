package permission

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/tool"
)

type approverFunc func(context.Context, Request) (Reply, error)

func (f approverFunc) Ask(ctx context.Context, r Request) (Reply, error) { return f(ctx, r) }

// An approver that panics, or ends its goroutine, is a no; one that does not heed its
// ctx holds nobody (law 37).
//
// Seen to fail: without the recover; with the approver asked by the call itself.
func TestLaw37FailingApprovers(t *testing.T) {
	for _, tt := range []struct {
		name string
		ask  approverFunc
		want string
	}{
		{"panics", func(context.Context, Request) (Reply, error) { panic("oops") }, "the approver panicked: oops"},
		{"ends its goroutine", func(context.Context, Request) (Reply, error) { runtime.Goexit(); return Reply{Granted: true}, nil }, "ended its goroutine"},
		{"does not heed its ctx", func(context.Context, Request) (Reply, error) {
			time.Sleep(time.Hour)
			return Reply{Granted: true}, nil
		}, "out of patience"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				life := scope.New(context.WithoutCancel(t.Context()), "test")
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(errors.New("out of patience")) })
				begin := time.Now()
				err := New(&Policy{}, Bounded(tt.ask, life)).Gate(builtin()).Assert(ctx, request("edit", "x"))
				if err == nil || !strings.Contains(err.Error(), tt.want) || time.Since(begin) > time.Second {
					t.Errorf("got %v after %v", err, time.Since(begin))
				}
				time.Sleep(2 * time.Hour)
				if err := life.Close(context.Background()); err != nil && !strings.Contains(err.Error(), "runtime.Goexit") {
					t.Error(err)
				}
			})
		})
	}
	// Without a scope of its own too.
	err := New(&Policy{}, approverFunc(func(context.Context, Request) (Reply, error) { panic("oops") })).Gate(builtin()).Assert(t.Context(), request("edit", "x"))
	wantRefusal(t, err, tool.KindNobodyToAsk,
		`edit of "x" needs approval, and there is nobody to ask: the question could not be asked: the approver panicked: oops`)
}
