package mcpserver

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/tool"
)

// call sends a call and gives its answer once it is there.
func (l *listening) call(body string, h headers) <-chan answer {
	ended := make(chan answer, 1)
	go func() {
		response, err := l.client.Do(l.request(context.Background(), http.MethodPost, pathA, strings.NewReader(body), h))
		if err != nil {
			ended <- answer{body: err.Error()}
			return
		}
		defer func() { _ = response.Body.Close() }()
		said, err := io.ReadAll(response.Body)
		if err != nil {
			said = append(said, err.Error()...)
		}
		ended <- answer{response.StatusCode, response.Header, string(said)}
	}()
	return ended
}

// When the server closes, what runs may end, and is then cancelled; streams end at once,
// and nobody else comes in. Breakage seen: without the grace; without the cancelling of
// calls in a session, which a request's end does not reach.
func TestLaw42StopOverHTTP(t *testing.T) {
	for _, released := range []bool{true, false} {
		for _, era := range []string{withSessions, withoutSessions} {
			name := era + "/cancelled"
			if released {
				name = era + "/released"
			}
			t.Run(name, func(t *testing.T) {
				w := newBlocking()
				s := serve(t, Wait, map[string]tool.Tool{"wait": w.tool()})
				s.approve(t)
				l := s.listen(t, HTTPOptions{})
				legacy := l.session(nil)
				body, h := sessionlessRequest(5, "tools/call", `"name":"wait","arguments":{}`)
				if era == withSessions {
					body, h = callOf(5, "wait"), legacy
				}
				kept := l.dial() // an idle connection
				reader := bufio.NewReader(kept)
				health := func(path string) (status int) {
					_, _ = io.WriteString(kept, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
					response, err := http.ReadResponse(reader, nil)
					if err != nil {
						return 0
					}
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
					return response.StatusCode
				}
				if got := health("/readyz"); got != http.StatusOK {
					t.Errorf("ready: %d", got)
				}
				call := l.call(body, h)
				soon(t, "the call", w.began)
				stream := l.stream(legacy)
				listen, hl := sessionlessRequest(9, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`)
				listener, err := l.client.Do(l.request(t.Context(), http.MethodPost, pathA, strings.NewReader(listen), hl))
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = listener.Body.Close() }()
				begin := time.Now()
				took := make(chan time.Duration, 1)
				go func() { took <- l.stop() }()
				for name, r := range map[string]*http.Response{"stream": stream, "listener": listener} {
					if _, err := io.Copy(io.Discard, r.Body); err != nil {
						t.Errorf("the %s ended: %v", name, err)
					}
				}
				if streams := time.Since(begin); streams > time.Second {
					t.Errorf("the streams ended after %v", streams)
				}
				if ready, alive := health("/readyz"), health("/healthz"); ready != http.StatusServiceUnavailable || alive != http.StatusOK {
					t.Errorf("while it closes: ready %d, alive %d", ready, alive)
				}
				if got := health(pathA); got != http.StatusServiceUnavailable {
					t.Errorf("a request while it closes: %d", got)
				}
				if released {
					close(w.release)
				}
				a := <-call
				if released != strings.Contains(a.body, "released") {
					t.Errorf("got %d %s", a.status, a.body)
				}
				if !released {
					soon(t, "the cancelling", w.cancelled)
					if !strings.Contains(a.body, errClosing.Error()) {
						t.Errorf("got %d %s, want that the server closes", a.status, a.body)
					}
				}
				limit := 5 * time.Second
				if released {
					limit = 2 * time.Second
				}
				if got := <-took; got > limit {
					t.Errorf("it took %v", got)
				}
				if got := health("/healthz"); got != 0 {
					t.Errorf("a connection is kept: %d", got)
				}
				if err := l.Serve(t.Context()); err == nil {
					t.Error("it is served again")
				}
			})
		}
	}
}

// A handler in a program's own server ends with the scope, and so do its sessions.
// Breakage seen: sessions are not closed, and their goroutines stay.
func TestHandlerEndsWithItsScope(t *testing.T) {
	s := serve(t, Deny, nil)
	handler, err := s.Handler(HTTPOptions{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	d := handler.(*door)
	ask := func(body string, h headers) answer {
		return send(t, server.Client(), requestOf(t.Context(), t, http.MethodPost, server.URL+pathA, strings.NewReader(body), h))
	}
	h := headers{headerVersion: withSessions, headerSession: ask(initially, nil).header.Get(headerSession)}
	if a := ask(ping, h); a.status != http.StatusOK {
		t.Errorf("got %d %s", a.status, a.body)
	}
	if err := s.life.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if a := ask(ping, h); a.status != http.StatusServiceUnavailable {
		t.Errorf("got %d %s", a.status, a.body)
	}
	if len(d.sessions) != 0 {
		t.Errorf("%d sessions are left", len(d.sessions))
	}
	if _, err := s.Handler(HTTPOptions{}); err == nil {
		t.Error("a closed server has a handler")
	}
	if _, err := s.ListenHTTP("127.0.0.1:0", HTTPOptions{}); err == nil {
		t.Error("a closed server listens")
	}
}

// A Location that cannot be activated is told of by its name alone, with the reason in
// the log, and makes the server unready until it can be. Breakage seen: the reason is
// sent to the client.
func TestLocationThatIsNotThere(t *testing.T) {
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	root := filepath.Join(t.TempDir(), "later")
	life := scope.New(t.Context(), "test")
	approver := NewApprover(life, permission.NewQueue(permission.QueueOptions{}), Deny, nil)
	h, err := host.Open(context.Background(), &config.Config{Locations: []config.Location{{
		Name: "a", Root: root, Policy: &permission.Policy{Defaults: permission.Defaults()},
	}}}, host.Options{Approver: approver})
	if err != nil {
		t.Fatal(err)
	}
	server, err := New(life, Options{Host: h, Approver: approver, Version: "test", Log: logger})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := life.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	l := (&served{Server: server}).listen(t, HTTPOptions{})
	ready := func() int { return l.ask(http.MethodGet, "/readyz", "").status }
	if got := ready(); got != http.StatusOK {
		t.Errorf("before it was asked for: %d", got)
	}
	list, modern := sessionlessRequest(1, "tools/list", "")
	a := l.ask(http.MethodPost, pathA, list, modern)
	if a.status != http.StatusServiceUnavailable || strings.Contains(a.body, root) || a.header.Get("Retry-After") == "" {
		t.Errorf("got %d %s", a.status, a.body)
	}
	if got := ready(); got != http.StatusServiceUnavailable {
		t.Errorf("after that: %d", got)
	}
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	if a := l.ask(http.MethodPost, pathA, list, modern); a.status != http.StatusOK {
		t.Errorf("got %d %s", a.status, a.body)
	}
	if got := ready(); got != http.StatusOK {
		t.Errorf("once it is there: %d", got)
	}
	l.stop()
	if !strings.Contains(log.String(), root) {
		t.Errorf("the log does not say why: %s", log.String())
	}
}
