package laws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// ended is how a call ended: exactly one of both.
type ended struct {
	tool.Settlement
	err  error
	call string // its id
}

// call calls what is effective now, to its end.
func (w *world) call(name string, o order) ended { return w.callRaw(name, o.String()) }

func (w *world) callRaw(name, input string) ended {
	return w.callIn(context.Background(), w.Capture(), w.request(name, input))
}

func (w *world) callIn(ctx context.Context, c *registry.Capture, r registry.Request) ended {
	s, err := c.Call(ctx, r)
	return ended{s, err, r.Identity.Call}
}

// A running call.
type running struct {
	call   string
	cancel context.CancelCauseFunc
	ended  <-chan ended
}

// begin begins a call of what is effective now.
func (w *world) begin(r registry.Request) running {
	return w.beginIn(w.Capture(), r)
}

func (w *world) beginIn(c *registry.Capture, r registry.Request) running {
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan ended, 1)
	go func() {
		defer cancel(nil)
		done <- w.callIn(ctx, c, r)
	}()
	return running{r.Identity.Call, cancel, done}
}

// wait waits for the end.
func (r running) wait(t tester) ended {
	t.Helper()
	select {
	case e := <-r.ended:
		return e
	case <-time.After(patience):
		t.Fatalf("call %s does not end", r.call)
		return ended{}
	}
}

// String is the outcome in words: "completed: {…} [text …]", "rejected, denied, ran false: …", "interrupted, ran true: …".
func (e ended) String() string {
	if e.err != nil {
		if i, ok := errors.AsType[*tool.Interruption](e.err); ok {
			return fmt.Sprintf("interrupted, ran %t: %v", i.Ran, i.Cause)
		}
		if s, ok := errors.AsType[*tool.Suspension](e.err); ok {
			return fmt.Sprintf("suspended, ran %t", s.Ran)
		}
		return "error: " + e.err.Error()
	}
	if e.Error != nil {
		return fmt.Sprintf("%s, %s, ran %t: %s", e.Status, e.Error.Kind, e.Ran, e.Error.Message)
	}
	text := fmt.Sprintf("%s: %s", e.Status, e.Structured)
	for _, c := range e.Content {
		text += fmt.Sprintf(" [%s %s]", c.Type, cmp.Or(c.Text, c.URI, c.MIMEType))
	}
	return text
}

// cause is the whole story of an operational error.
func (e ended) cause() string {
	if e.Error == nil || e.Error.Cause == nil {
		return ""
	}
	return e.Error.Cause.Error()
}

// text is all text of the content.
func (e ended) text() string {
	var all strings.Builder
	for _, c := range e.Content {
		all.WriteString(c.Text)
	}
	return all.String()
}

// want compares the outcome in words with what is wanted, which "…" ends early.
func (w *world) want(got ended, want string) {
	w.t.Helper()
	text := got.String()
	if stem, open := strings.CutSuffix(want, "…"); open && strings.HasPrefix(text, stem) || text == want {
		return
	}
	w.t.Errorf("%s\n got %.600s\nwant %s\n(%.600s)", got.call, text, want, got.cause())
}
