package mcpserver

import (
	"bufio"
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/toolhost/toolhost/tool"
)

// A session is its principal's at its Location, whatever else knows its id. Breakage
// seen: without the comparing of Locations; without that of principals the SDK's own
// remains.
func TestSessionOfAnother(t *testing.T) {
	s := serve(t, Deny, nil)
	l := s.listen(t, HTTPOptions{Tokens: tokens(t)})
	h := l.session(ofAnn)
	for name, tt := range map[string]struct {
		method, path string
		with         headers
		status       int
	}{
		"its own":          {http.MethodPost, pathA, h, 200},
		"another's":        {http.MethodPost, pathA, h.with("Authorization", ofBob["Authorization"]), 403},
		"another's stream": {http.MethodGet, pathA, h.with("Authorization", ofBob["Authorization"]), 403},
		"another's end":    {http.MethodDelete, pathA, h.with("Authorization", ofBob["Authorization"]), 403},
		"no one's":         {http.MethodPost, pathA, h.with("Authorization", ""), 401},
		"elsewhere":        {http.MethodPost, "/locations/b/mcp", h, 404},
		"elsewhere's end":  {http.MethodDelete, "/locations/b/mcp", h, 404},
	} {
		t.Run(name, func(t *testing.T) {
			body := ping
			if tt.method != http.MethodPost {
				body = ""
			}
			if a := l.ask(tt.method, tt.path, body, tt.with); a.status != tt.status {
				t.Errorf("got %d %s, want %d", a.status, a.body, tt.status)
			}
		})
	}
	if a := l.ask(http.MethodDelete, pathA, "", h); a.status != http.StatusNoContent {
		t.Errorf("its end: %d", a.status)
	}
	if a := l.ask(http.MethodPost, pathA, ping, h); a.status != http.StatusNotFound {
		t.Errorf("after its end: %d", a.status)
	}
	l.door.mu.Lock()
	defer l.door.mu.Unlock()
	if len(l.door.sessions) != 0 || len(l.door.sessionsByID) != 0 || l.door.guests["ann"].sessions != 0 {
		t.Errorf("%d sessions are kept", len(l.door.sessions))
	}
}

// alive says whether a session is there, and uses it.
func (l *listening) alive(h headers) bool {
	return l.ask(http.MethodPost, pathA, ping, h).status == http.StatusOK
}

// For one more session the one that was used least recently makes way, of the principal
// or of all, unless it is in use. Breakage seen: the newest makes way; one in use does.
func TestSessionsAreBounded(t *testing.T) {
	s := serve(t, Deny, nil)
	l := s.listen(t, HTTPOptions{Tokens: tokens(t), Limits: Limits{Sessions: 3, SessionsEach: 2}})
	first, second := l.session(ofAnn), l.session(ofAnn)
	if !l.alive(first) {
		t.Fatal("the first is gone")
	}
	third := l.session(ofAnn)
	if l.alive(second) || !l.alive(first) || !l.alive(third) {
		t.Error("the one that was used least recently is there, or another one gone")
	}
	bobs := l.session(ofBob)
	bobsSecond := l.session(ofBob) // a fourth in all
	if l.alive(first) || !l.alive(third) || !l.alive(bobs) {
		t.Error("of all, the one that was used least recently is there, or another one gone")
	}
	l.stream(third)
	l.stream(bobs)
	l.stream(bobsSecond)
	for _, h := range []headers{ofAnn, ofBob} {
		a := l.ask(http.MethodPost, pathA, initially, h)
		if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || !strings.Contains(a.body, "too many sessions") {
			t.Errorf("all in use: %d %s", a.status, a.body)
		}
	}
	// What begins no session takes no place.
	for range 5 {
		_ = l.ask(http.MethodPost, pathA, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, ofAnn)
	}
	if !l.alive(third) || !l.alive(bobs) || !l.alive(bobsSecond) {
		t.Error("a session in use is gone")
	}
}

// A session that nobody uses ends, and one with a stream does not. Breakage seen: with
// the SDK's timeout, which knows nothing of streams.
func TestIdleSession(t *testing.T) {
	s := serve(t, Deny, nil)
	l := s.listen(t, HTTPOptions{Limits: Limits{Idle: 100 * time.Millisecond}})
	idle, used := l.session(nil), l.session(nil)
	l.stream(used)
	comesToHold(t, "the end of an idle session", func() bool {
		l.door.mu.Lock()
		defer l.door.mu.Unlock()
		return len(l.door.sessions) == 1
	})
	if l.alive(idle) || !l.alive(used) {
		t.Error("the wrong one ended")
	}
}

// Cancelling reaches the executor: when the client of a request without a session is
// gone, by a notification in a session, and when its session ends. Breakage seen: without
// the propagation; without the ending of a session's calls.
func TestLaw14CancelOverHTTP(t *testing.T) {
	for name, cancel := range map[string]func(l *listening, h headers, leave func()){
		"gone without a session": func(_ *listening, _ headers, leave func()) { leave() },
		"a notification": func(l *listening, h headers, _ func()) {
			l.ask(http.MethodPost, pathA, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`, h)
		},
		"the end of the session": func(l *listening, h headers, _ func()) {
			if a := l.ask(http.MethodDelete, pathA, "", h); a.status != http.StatusNoContent {
				l.t.Errorf("its end: %d", a.status)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newBlocking()
			s := serve(t, Wait, map[string]tool.Tool{"wait": w.tool()})
			s.approve(t)
			l := s.listen(t, HTTPOptions{})
			ctx, leave := context.WithCancel(context.Background())
			defer leave()
			body, h := sessionlessRequest(5, "tools/call", `"name":"wait","arguments":{}`)
			if name != "gone without a session" {
				body, h = callOf(5, "wait"), l.session(nil)
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				response, err := l.client.Do(l.request(ctx, http.MethodPost, pathA, strings.NewReader(body), h))
				if err == nil {
					_ = response.Body.Close()
				}
			}()
			soon(t, "the call", w.began)
			cancel(l, h, leave)
			soon(t, "the cancelling", w.cancelled)
			leave()
			soon(t, "the end of the request", ended)
		})
	}
}

// A call of a session goes on when the connection of its request breaks, as the protocol
// wants, and is counted and keeps its session as long as it runs. Breakage seen: counted
// by the request; only where its method is read before the SDK does.
func TestCallOutlivesItsRequest(t *testing.T) {
	w := newBlocking()
	s := serve(t, Wait, map[string]tool.Tool{"wait": w.tool()})
	s.approve(t)
	l := s.listen(t, HTTPOptions{Limits: Limits{Calls: 1, SessionsEach: 1}})
	h := l.session(nil)
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	response := make(chan error, 1)
	go func() {
		r, err := l.client.Do(l.request(ctx, http.MethodPost, pathA, strings.NewReader(callOf(5, "wait")), h))
		if err == nil {
			_ = r.Body.Close()
		}
		response <- err
	}()
	soon(t, "the call", w.began)
	leave()
	<-response
	modern, hm := sessionlessRequest(5, "tools/call", `"name":"wait","arguments":{}`)
	comesToHold(t, "the release of the request", func() bool {
		l.door.mu.Lock()
		defer l.door.mu.Unlock()
		return l.door.requests == 0
	})
	for name, a := range map[string]answer{"in its session": l.ask(http.MethodPost, pathA, callOf(6, "wait"), h), "without one": l.ask(http.MethodPost, pathA, modern, hm)} {
		if a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") == "" || !strings.Contains(a.body, "too many calls") {
			t.Errorf("a second call %s: %d %s", name, a.status, a.body)
		}
	}
	// One that is told apart by nobody but the SDK is refused there.
	if a := l.ask(http.MethodPost, pathA, strings.Replace(callOf(6, "wait"), "}}}", `}},"Method":"ping"}`, 1), h); !strings.Contains(a.body, "too many calls") {
		t.Errorf("a call in disguise: %d %s", a.status, a.body)
	}
	if a := l.ask(http.MethodPost, pathA, initially); a.status != http.StatusServiceUnavailable {
		t.Errorf("the session of a call made way: %d", a.status)
	}
	close(w.release)
	comesToHold(t, "a place for a call", func() bool {
		return strings.Contains(l.ask(http.MethodPost, pathA, callOf(7, "wait"), h).body, "released")
	})
}

// An answer to a question gets in when as many calls run as may: they wait for it.
// Breakage seen: with a bound on requests in place of one on calls.
func TestAnswersAreNotBounded(t *testing.T) {
	s := serve(t, Deny, map[string]tool.Tool{"hello": says("hello")})
	l := s.listen(t, HTTPOptions{Limits: Limits{Calls: 1}})
	a := l.ask(http.MethodPost, pathA, strings.Replace(initially, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1))
	h := headers{headerSession: a.header.Get(headerSession), headerVersion: withSessions}
	l.ask(http.MethodPost, pathA, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, h)
	response, err := l.client.Do(l.request(t.Context(), http.MethodPost, pathA, strings.NewReader(callOf(5, "hello")), h))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() && !strings.Contains(lines.Text(), "elicitation/create") {
	}
	_, rest, _ := strings.Cut(lines.Text(), `"id":`)
	id, _, _ := strings.Cut(rest, ",")
	yes := `{"jsonrpc":"2.0","id":` + id + `,"result":{"action":"accept","content":{"answer":"once"}}}`
	if a := l.ask(http.MethodPost, pathA, yes, h); a.status != http.StatusAccepted {
		t.Fatalf("the answer: %d %s, to %s", a.status, a.body, lines.Text())
	}
	said := ""
	for lines.Scan() {
		said += lines.Text()
	}
	if !strings.Contains(said, "hello") {
		t.Errorf("got %s", said)
	}
}

// A principal that sends too much waits, and no other one does. Breakage seen: one rate
// for all.
func TestRateOfEachPrincipal(t *testing.T) {
	s := serve(t, Deny, nil)
	l := s.listen(t, HTTPOptions{Tokens: tokens(t), Limits: Limits{Rate: 0.01, Burst: 3}})
	list, modern := sessionlessRequest(1, "tools/list", "")
	for i, want := range []int{200, 200, 200, 429, 429} {
		a := l.ask(http.MethodPost, pathA, list, modern, ofAnn)
		if a.status != want {
			t.Errorf("request %d: got %d, want %d", i, a.status, want)
		}
		if after, err := strconv.Atoi(a.header.Get("Retry-After")); want == 429 && (err != nil || after < 90 || after > 100) {
			t.Errorf("Retry-After: %s", a.header.Get("Retry-After"))
		}
	}
	if a := l.ask(http.MethodPost, pathA, list, modern, ofBob); a.status != 200 {
		t.Errorf("another one: %d", a.status)
	}
	if a := l.ask(http.MethodGet, "/healthz", ""); a.status != 200 {
		t.Errorf("health: %d", a.status)
	}
}

// Streams are bounded in both eras. Breakage seen: those of listeners are not counted.
func TestStreamsAreBounded(t *testing.T) {
	s := serve(t, Deny, nil)
	l := s.listen(t, HTTPOptions{Limits: Limits{Streams: 1}})
	h := l.session(nil)
	body, modern := sessionlessRequest(9, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`)
	first := l.stream(h)
	for name, a := range map[string]answer{"a listener": l.ask(http.MethodPost, pathA, body, modern), "a stream": l.ask(http.MethodGet, pathA, "", h)} {
		if a.status != http.StatusTooManyRequests {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	_ = first.Body.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	comesToHold(t, "a place for a listener", func() bool {
		response, err := l.client.Do(l.request(ctx, http.MethodPost, pathA, strings.NewReader(body), modern))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		return response.StatusCode == http.StatusOK
	})
}
