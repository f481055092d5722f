package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/plugin/sdk"
	"github.com/toolhost/toolhost/sandbox"
	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/service/permission"
)

// noisy is a plugin that says what it is, and, if it is to, writes as fast as it can.
func noisy(floods bool) sdk.Plugin {
	return sdk.Plugin{Name: "noisy", Version: "1", Activate: func(context.Context, sdk.Location) error {
		fmt.Fprintf(os.Stderr, "first\nsecond\x1b[31m\nthird\n")
		if floods {
			go func() {
				for i := 0; ; i++ {
					fmt.Fprintf(os.Stderr, "%d %s\n", i, strings.Repeat("\x07", 200))
				}
			}()
		}
		return nil
	}}
}

// serveNoisy serves a host with one Location in which the plugins are.
func serveNoisy(t *testing.T, reload func(context.Context, *host.Host) (host.Report, error), kinds ...string) (*Server, *host.Host, *config.Config) {
	t.Helper()
	builtins := map[string][]string{}
	l := config.Location{Name: "here", Root: t.TempDir(), Policy: &permission.Policy{}}
	for _, kind := range kinds {
		builtins[kind] = []string{"/proc/self/exe", "__plugin", kind}
		l.Plugins = append(l.Plugins, config.Plugin{Name: kind, Builtin: kind})
	}
	cfg := &config.Config{Locations: []config.Location{l}}
	h, err := host.Open(context.Background(), cfg, host.Options{
		Launcher: sandbox.Launcher{Path: "/proc/self/exe", Args: []string{"__launch"}}, Builtins: builtins,
	})
	if err != nil {
		t.Fatal(err)
	}
	life := scope.New(context.Background(), "test")
	options := Options{Dir: socketDir(t), Host: h}
	if reload != nil {
		options.Reload = func(ctx context.Context) (host.Report, error) { return reload(ctx, h) }
	}
	s, err := listen(life, options, quick())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		begin := time.Now()
		if err := errors.Join(life.Close(context.Background()), h.Close(context.Background())); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("closing took %v", took)
		}
	})
	if _, err := h.Location(t.Context(), "here"); err != nil {
		t.Fatal(err)
	}
	return s, h, cfg
}

func newTestClient(t *testing.T, s *Server) *Client {
	t.Helper()
	c := newClient(s.Path())
	t.Cleanup(c.Close)
	return c
}

// TestLog: the end of what a plugin wrote, cleaned, in as many lines as are asked for; a
// plugin that there is not is answered with those that there are. Seen to fail with a text
// that is not cleaned.
func TestLog(t *testing.T) {
	s, _, _ := serveNoisy(t, nil, "quiet")
	c := newTestClient(t, s)
	for n, want := range map[int]string{-1: "first\nsecond\ufffd[31m\nthird\n", 0: "", 1: "third\n", 2: "second\ufffd[31m\nthird\n", 100: "first\nsecond\ufffd[31m\nthird\n"} {
		log, err := c.Log(t.Context(), "", "quiet", n)
		if err != nil || log.Text != want || log.Location != "here" || log.Lost != 0 {
			t.Errorf("%d lines: got %+v, %v, want %q", n, log, err, want)
		}
	}
	var e *Error
	if _, err := c.Log(t.Context(), "", "other", -1); !errors.As(err, &e) || e.Code != CodeUnknown || !strings.Contains(e.Message, "there are: quiet") {
		t.Errorf("another plugin: %v", err)
	}
	if _, err := c.Log(t.Context(), "there", "quiet", -1); !errors.As(err, &e) || e.Code != CodeUnknown {
		t.Errorf("another Location: %v", err)
	}
	if _, err := c.Reload(t.Context()); !errors.As(err, &e) || e.Code != CodeUnknown {
		t.Errorf("a host that does not reload: %v", err)
	}
	for _, query := range []string{"plugin=quiet&lines=-1", "plugin=quiet&lines=x", "plugin=quiet&lines=99999999999999999999"} {
		for _, path := range []string{"/v1/logs?", "/v1/logs/follow?"} {
			if got := said(t, s.Path(), "GET "+path+query+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); !strings.Contains(got, CodeInvalid) {
				t.Errorf("%s%s: got %.200q", path, query, got)
			}
		}
	}
}

// TestFollowersAreBounded: whoever follows a plugin that floods is told what they missed, one
// who reads nothing is given up, and neither the plugin nor anybody else waits for them. Seen
// to fail without the deadline of a write.
func TestFollowersAreBounded(t *testing.T) {
	s, h, _ := serveNoisy(t, nil, "flood")
	c := newTestClient(t, s)
	for range maxWatchers {
		if _, err := io.WriteString(raw(t, s.Path()), "GET /v1/logs/follow?plugin=flood HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	full := false
	for deadline := time.Now().Add(5 * time.Second); !full && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		full = len(s.watchers) == maxWatchers
	}
	for _, err := range c.FollowLog(t.Context(), "", "flood", 0) {
		if e := new(Error); full && (!errors.As(err, &e) || e.Code != CodeBusy) {
			t.Errorf("one more: %v, want %s", err, CodeBusy)
		}
		break
	}
	for deadline := time.Now().Add(10 * time.Second); len(s.watchers) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d who read nothing keep their places", len(s.watchers))
		}
	}
	parts, lost := 0, int64(0)
	for log, err := range c.FollowLog(t.Context(), "here", "flood", 1) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsRune(log.Text, '\x07') || len(log.Text) > 4*64<<10 || log.Text != "" && !strings.HasSuffix(log.Text, "\n") {
			t.Fatalf("a part of %d bytes: %.100q", len(log.Text), log.Text)
		}
		lost += log.Lost
		if parts++; parts >= 10 && lost > 0 || parts > 1000 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if lost == 0 {
		t.Error("nothing was missed, and it was not said")
	}
	if l := h.Active(); len(l) != 1 || l[0].Plugins()[0].Restarts != 0 {
		t.Errorf("the plugin did not go on: %+v", l[0].Plugins())
	}
}

// TestFollowEnds when the plugin is removed, and with the host. Seen to fail without looking
// for the plugin.
func TestFollowEnds(t *testing.T) {
	s, h, cfg := serveNoisy(t, nil, "quiet", "other")
	c := newTestClient(t, s)
	first := true
	var last Log
	for log, err := range c.FollowLog(t.Context(), "", "quiet", -1) {
		if err != nil {
			t.Fatal(err)
		}
		if first {
			first = false
			next := *cfg
			next.Locations = append([]config.Location{}, cfg.Locations...)
			next.Locations[0].Plugins = cfg.Locations[0].Plugins[1:]
			if _, err := h.Reload(t.Context(), &next); err != nil {
				t.Fatal(err)
			}
		}
		last = log
	}
	if last.Ended == "" {
		t.Errorf("the last is %+v", last)
	}
	for _, err := range c.FollowLog(t.Context(), "", "other", -1) {
		if err == nil {
			go func() { _ = s.Close(context.Background()) }()
			continue
		}
		if !errors.Is(err, ErrClosed) {
			t.Errorf("ended with %v", err)
		}
	}
}

// TestReload: what became of it is told however long it takes, one whose client is gone goes
// on, and so many at a time are taken. Seen to fail without the empty lines meanwhile, and
// with the context of the request.
func TestReload(t *testing.T) {
	began, release := make(chan struct{}, 10), make(chan struct{})
	s, _, _ := serveNoisy(t, func(ctx context.Context, h *host.Host) (host.Report, error) {
		began <- struct{}{}
		select {
		case <-release:
		case <-ctx.Done():
			return host.Report{}, context.Cause(ctx)
		}
		return h.ReloadFrom(ctx, func(context.Context) (*config.Config, error) { return nil, errors.New("line 7 is wrong") })
	}, "quiet")
	c := newTestClient(t, s)
	c.silence = 10 * quick().heartbeat
	impatient, cancel := context.WithCancel(t.Context())
	type outcome struct {
		reload Reload
		err    error
	}
	ask := func(ctx context.Context) <-chan outcome {
		out := make(chan outcome, 1)
		go func() {
			reload, err := c.Reload(ctx)
			out <- outcome{reload, err}
		}()
		receive(t, began)
		return out
	}
	gone := ask(impatient)
	others := []<-chan outcome{ask(t.Context()), ask(t.Context()), ask(t.Context())}
	cancel()
	if got := receive(t, gone); !errors.Is(got.err, context.Canceled) {
		t.Errorf("one who left: %v", got.err)
	}
	time.Sleep(3 * max(quick().patience, c.silence)) // nothing but empty lines
	var e *Error
	if _, err := c.Reload(t.Context()); !errors.As(err, &e) || e.Code != CodeBusy {
		t.Errorf("one more: %v, want %s: whose client is gone goes on", err, CodeBusy)
	}
	close(release)
	for _, other := range others {
		if got := receive(t, other); got.err != nil || got.reload.Error != "line 7 is wrong" {
			t.Errorf("got %+v", got)
		}
	}
	status, err := c.StatusTree(t.Context())
	if err != nil || status.Stale != "line 7 is wrong" || !status.Reloads || status.Locations[0].Stale != status.Stale || status.Tree == nil || status.Tree.Name != "host" {
		t.Errorf("status is %+v, %v", status, err)
	}
}

// TestTreeIsBounded: a tree of any size has so many names, and says what is missing.
// Seen to fail with all names.
func TestTreeIsBounded(t *testing.T) {
	big := scope.Tree{Name: "host"}
	for i := range 100 {
		fork := scope.Tree{Name: strings.Repeat("é", 1000)}
		for range 100 * i {
			fork.Owned = append(fork.Owned, "something")
		}
		big.Forks = append(big.Forks, fork)
	}
	room := maxTree
	tree := treeOf(big, &room)
	encoded, err := encode(tree)
	if err != nil || room != 0 || tree.More == 0 || len(encoded) > maxTree*(maxName+50) {
		t.Errorf("%d bytes, room for %d, %d more, %v", len(encoded), room, tree.More, err)
	}
}
