package output

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/toolhost/toolhost/tool"
)

// What a call streamed could not be kept, and then it was refused: it was refused.
//
// Seen to fail: with the problem looked at before the status.
func TestLaw36RefusalIsNotMasked(t *testing.T) {
	none := NewKeeper(KeeperOptions{Location: testRoot, Limits: DefaultLimits()})
	for _, kind := range tool.Kinds() {
		b := none.Begin(testOrigin())
		if _, err := b.Write(make([]byte, 100<<10)); kindOf(err) != tool.KindRetention {
			t.Fatalf("nothing was kept, and Write gives %v", err)
		}
		s := tool.Settlement{Status: kind.Status(), Error: &tool.Error{Kind: kind, Message: "words"}, Ran: true}
		err := b.Bound(t.Context(), &s)
		b.Discard()
		if masked := err != nil; masked != (kind == tool.KindFailure) {
			t.Errorf("%s: %v", kind, err)
		}
		if s.Error.Message != "words" || s.Retained != nil {
			t.Errorf("%s: changed to %+v", kind, s)
		}
	}
}

// polls is a context that ends when it is asked the nth time, and counts.
type polls struct {
	context.Context
	left int
}

func (p *polls) Err() error {
	if p.left--; p.left < 0 {
		return context.Canceled
	}
	return nil
}

// Bounding ends with its context: wherever that is in the work, nothing is published
// and nothing is left.
//
// Seen to fail: with text measured in one go, and with text kept in one go.
func TestLaw14BoundingIsInterrupted(t *testing.T) {
	k := newKeeper(t, DefaultLimits())
	raw := strings.Repeat("a\r"+strings.Repeat("\u0301", 200), 1250) // 512 KiB
	for name, whole := range map[string]tool.Settlement{
		"content":    texts(raw),
		"structured": {Status: tool.Completed, Structured: []byte(`["` + raw + `"]`)},
		"failure":    {Status: tool.Failed, Error: &tool.Error{Kind: tool.KindFailure, Message: raw}},
	} {
		asked := 0
		for {
			s := whole
			b := k.Begin(testOrigin())
			ctx := &polls{context.Background(), asked}
			err := b.Bound(ctx, &s)
			b.Discard()
			if err == nil {
				if err := k.options.Store.Remove(s.Retained[0].Handle); err != nil {
					t.Error(err)
				}
				break
			}
			if s.Retained != nil || kindOf(err) != "" {
				t.Fatalf("%s, ended at look %d: %v, %+v", name, asked, err, s.Retained)
			}
			if left := files(t, k.options.Store.dir); left != nil {
				t.Fatalf("%s, ended at look %d: left %v", name, asked, left)
			}
			asked++
		}
		if want := 2 * len(raw) / piece; asked < want {
			t.Errorf("%s: the context was looked at %d times for %d bytes, want %d", name, asked, len(raw), want)
		}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	gone := errors.New("gone")
	cancel(gone)
	s := texts(raw)
	if err := k.Begin(testOrigin()).Bound(ctx, &s); !errors.Is(err, gone) {
		t.Errorf("past its context: %v", err)
	}
}

// An executor that writes on when its call is over is stopped in the middle of what
// it writes, and holds nobody up.
//
// Seen to fail: with the lock held for all of what is written.
func TestLaw14WriteEndsWithItsCall(t *testing.T) {
	k := newKeeper(t, DefaultLimits())
	b := k.Begin(testOrigin())
	huge := []byte(strings.Repeat("\rx", 32<<20))
	written := make(chan int)
	go func() {
		n, err := b.Write(huge)
		if !errors.Is(err, errOver) {
			t.Errorf("Write: %v", err)
		}
		written <- n
	}()
	for len(files(t, k.options.Store.dir)) == 0 {
		time.Sleep(time.Millisecond)
	}
	b.Discard()
	if n := <-written; n == len(huge) || n%piece != 0 {
		t.Errorf("%d of %d bytes were written when the call was over", n, len(huge))
	}
}
