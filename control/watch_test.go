package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/service/permission/shown"
)

// watch follows a host; the lists come through the channel, then the error.
func watch(t *testing.T, c *Client) (lists <-chan List, ended <-chan error, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	all, end := make(chan List, 1000), make(chan error, 1)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for list, err := range c.Watch(ctx) {
			if err != nil {
				end <- err
				return
			}
			all <- list
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-gone
	})
	return all, end, cancel
}

// TestWatch: the whole list at once, and after each change; a watcher that goes
// gives its place back, and one that stays may stay for longer than a request may
// take. Seen to fail without heartbeats.
func TestWatch(t *testing.T) {
	s := serve(t, "", quick())
	c := client(t, s.dir)
	c.silence = 10 * quick().heartbeat
	lists, ended, stop := watch(t, c)
	until := func(want ...string) List {
		t.Helper()
		for {
			list, got := receive(t, lists), []string{}
			for _, p := range list.Approvals {
				got = append(got, p.Resources...)
			}
			if slices.Equal(got, want) {
				return list
			}
		}
	}
	until()
	s.ask(t, caller("s", "1"), "moon")
	until("moon")
	s.ask(t, caller("s", "2"), "mars")
	list := until("moon", "mars")
	time.Sleep(3 * max(quick().patience, c.silence)) // nothing but heartbeats
	if _, err := c.Reply(t.Context(), list.Approvals[0].ID, permission.Answer{Kind: permission.Once}); err != nil {
		t.Fatal(err)
	}
	until("mars")
	stop()
	if err := receive(t, ended); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v, want the cause", err)
	}
	for deadline := time.Now().Add(5 * time.Second); len(s.watchers) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the watcher that left keeps its place")
		}
	}
	for range c.Watch(t.Context()) {
		break // which leaves nothing behind
	}
}

// TestWatchersAreBounded, and those who are one too many are told so.
func TestWatchersAreBounded(t *testing.T) {
	s := serve(t, "", quick())
	c := client(t, s.dir)
	for range maxWatchers {
		lists, _, _ := watch(t, c)
		receive(t, lists)
	}
	_, ended, _ := watch(t, c)
	var e *Error
	if err := receive(t, ended); !errors.As(err, &e) || e.Code != CodeBusy {
		t.Errorf("error is %v, want %s", err, CodeBusy)
	}
}

// TestWatcherThatDoesNotRead: the queue goes on, and the watcher is dropped when it
// has taken nothing for a while. Seen to fail without the deadline of a line.
func TestWatcherThatDoesNotRead(t *testing.T) {
	s := serve(t, "", quick())
	lazy := raw(t, s.Path())
	if _, err := io.WriteString(lazy, "GET /v1/approvals/watch HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(5 * time.Second); len(s.watchers) == 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	c := client(t, s.dir)
	big := caller("s", "1")
	big.Review = strings.Repeat("x", shown.MaxReview)
	for i := range 100 {
		began := time.Now()
		outcome := s.ask(t, big, fmt.Sprint(i))
		id := waiting(t, c, 1)[0].ID
		if _, err := c.Reply(t.Context(), id, permission.Answer{Kind: permission.Reject}); err != nil {
			t.Fatal(err)
		}
		receive(t, outcome)
		if took := time.Since(began); took > 2*time.Second {
			t.Fatalf("a request took %v", took)
		}
	}
	for deadline := time.Now().Add(5 * time.Second); len(s.watchers) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a watcher that reads nothing is kept")
		}
	}
}

// TestSilentHost: who watches a host that says nothing is told. Seen to fail without
// the client's timer.
func TestSilentHost(t *testing.T) {
	p := quick()
	p.heartbeat = time.Minute
	s := serve(t, "", p)
	c := client(t, s.dir)
	c.silence = 100 * time.Millisecond
	_, ended, _ := watch(t, c)
	if err := receive(t, ended); !errors.Is(err, ErrSilent) {
		t.Errorf("ended with %v, want ErrSilent", err)
	}
}

// TestLaw41Close: closing ends who watches and who dawdles, soon, and leaves no
// socket, no descriptor, and (see TestMain) no goroutine. So does the closing, or the
// cancelling, of the scope. Seen to fail with a Close that waits for the connections
// to end by themselves.
func TestLaw41Close(t *testing.T) {
	end := map[string]func(s *served) error{
		"closed":         func(s *served) error { return s.Close(context.Background()) },
		"life closed":    func(s *served) error { return s.life.Close(context.Background()) },
		"life cancelled": func(s *served) error { s.life.Cancel(errors.New("enough")); return nil },
	}
	for name, end := range end {
		t.Run(name, func(t *testing.T) {
			p := quick()
			p.patience = time.Minute
			s := serve(t, "", p)
			c := client(t, s.dir)
			c.Close()
			before := descriptors(t)
			s.ask(t, caller("s", "1"), "moon")
			var ends []<-chan error
			for range 5 {
				lists, ended, _ := watch(t, c)
				receive(t, lists)
				ends = append(ends, ended)
			}
			slow := raw(t, s.Path())
			if _, err := io.WriteString(slow, "POST /v1/sessions/reject HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"); err != nil {
				t.Fatal(err)
			}
			raw(t, s.Path())
			began := time.Now()
			if err := end(s); err != nil {
				t.Error(err)
			}
			for _, ended := range ends {
				if err := receive(t, ended); !errors.Is(err, ErrClosed) {
					t.Errorf("a watcher ended with %v, want ErrClosed", err)
				}
			}
			for deadline := time.Now().Add(time.Second); len(files(t, s.dir)) > 0 && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond) // a cancelled life has not released it yet
			}
			if left := files(t, s.dir); len(left) > 0 {
				t.Errorf("left are %v", left)
			}
			if err := s.Close(context.Background()); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("closing took %v", took)
			}
			c.Close()
			want := before - 1 + 2 // the listener is gone, the two raw ones are ours
			for deadline := time.Now().Add(2 * time.Second); descriptors(t) > want && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond)
			}
			if got := descriptors(t); got > want {
				t.Errorf("%d sockets are open, want %d", got, want)
			}
			if clients, err := Hosts(t.Context(), s.dir); len(clients) != 0 || err != nil {
				t.Errorf("hosts are %v, %v, want none", clients, err)
			}
			if len(s.queue.Pending()) != 1 {
				t.Error("the request did not outlive the server")
			}
		})
	}
}

// stubborn saves slowly, whatever its context says.
type stubborn struct {
	permission.Memory
	begun chan struct{}
	ended atomic.Bool
}

func (s *stubborn) Save(ctx context.Context, a permission.Approval) error {
	close(s.begun)
	time.Sleep(2 * farewell)
	defer s.ended.Store(true)
	return s.Memory.Save(ctx, a)
}

// TestLaw41CloseJoins: what a request started has ended when Close returns, also one
// that takes longer than the farewell. Seen to fail with connections that are not
// waited for.
func TestLaw41CloseJoins(t *testing.T) {
	approvals := &stubborn{begun: make(chan struct{})}
	p := quick()
	p.patience = time.Minute
	s := serveSaving(t, "", p, approvals)
	c := client(t, s.dir)
	s.ask(t, caller("s", "1"), "moon")
	id := waiting(t, c, 1)[0].ID
	answered := make(chan error, 1)
	go func() {
		_, err := c.Reply(context.Background(), id, permission.Answer{Kind: permission.Always})
		answered <- err
	}()
	receive(t, approvals.begun)
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if !approvals.ended.Load() {
		t.Error("Close returned while a request was being served")
	}
	if err := receive(t, answered); err == nil {
		t.Error("a connection that was ended by force gave an answer")
	}
}
