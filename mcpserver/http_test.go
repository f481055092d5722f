package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/tool"
)

// listening is a server at an address of loopback.
type listening struct {
	*HTTPServer
	t      testing.TB
	client *http.Client
	end    context.CancelFunc
	ended  chan error // what Serve returned
}

// listen serves over a socket until the test ends, or stop is called.
func (s *served) listen(t testing.TB, options HTTPOptions) *listening {
	t.Helper()
	server, err := s.ListenHTTP("127.0.0.1:0", options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	l := &listening{HTTPServer: server, t: t, client: &http.Client{Transport: &http.Transport{}}, end: end, ended: make(chan error, 1)}
	go func() { l.ended <- server.Serve(ctx) }()
	t.Cleanup(func() {
		l.stop()
		l.client.CloseIdleConnections()
	})
	return l
}

// stop ends the server, and says how long it took.
func (l *listening) stop() time.Duration {
	begin := time.Now()
	l.end()
	if err := <-l.ended; err != nil {
		l.t.Error(err)
	}
	l.ended <- nil
	return time.Since(begin)
}

// Headers of requests.
type headers map[string]string

func (h headers) with(name, value string) headers {
	other := headers{name: value}
	for n, v := range h {
		if n != name {
			other[n] = v
		}
	}
	return other
}

var (
	ofAnn     = headers{"Authorization": "Bearer " + tokenOfAnn}
	ofBob     = headers{"Authorization": "Bearer " + tokenOfBob}
	ofNobody  = headers{}
	newEra    = headers{headerVersion: withoutSessions}
	initially = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`
)

// sessionless is a request of the era without sessions, and its headers.
func sessionlessRequest(id int, method, params string) (string, headers) {
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	if params != "" {
		meta += "," + params
	}
	h := headers{headerVersion: withoutSessions, "Mcp-Method": method}
	var named struct{ Name string }
	if json.Unmarshal([]byte("{"+params+"}"), &named) == nil && named.Name != "" {
		h["Mcp-Name"] = named.Name
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`, id, method, meta), h
}

// request is a request for a path, with what the protocol wants of its headers.
func (l *listening) request(ctx context.Context, method, path string, body io.Reader, hs ...headers) *http.Request {
	l.t.Helper()
	return requestOf(ctx, l.t, method, "http://"+l.Addr().String()+path, body, hs...)
}

func requestOf(ctx context.Context, t testing.TB, method, url string, body io.Reader, hs ...headers) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, h := range hs {
		for name, value := range h {
			if name == "Host" {
				r.Host = value
				continue
			}
			r.Header.Set(name, value)
		}
	}
	return r
}

// An answer is what came back, whole.
type answer struct {
	status int
	header http.Header
	body   string
}

func (l *listening) ask(method, path, body string, hs ...headers) answer {
	l.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	return l.send(l.request(context.Background(), method, path, reader, hs...))
}

func (l *listening) send(r *http.Request) answer {
	l.t.Helper()
	return send(l.t, l.client, r)
}

func send(t testing.TB, client *http.Client, r *http.Request) answer {
	t.Helper()
	response, err := client.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	return answer{response.StatusCode, response.Header, string(body)}
}

// session begins a session and gives the headers of its requests.
func (l *listening) session(hs headers) headers {
	l.t.Helper()
	a := l.ask(http.MethodPost, pathA, initially, hs)
	id := a.header.Get(headerSession)
	if a.status != http.StatusOK || id == "" {
		l.t.Fatalf("initialize: %d %s", a.status, a.body)
	}
	h := hs.with(headerSession, id).with(headerVersion, withSessions)
	if a := l.ask(http.MethodPost, pathA, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, h); a.status != http.StatusAccepted {
		l.t.Fatalf("initialized: %d %s", a.status, a.body)
	}
	return h
}

// stream opens a stream of notifications of a session, which ends with the test.
func (l *listening) stream(h headers) *http.Response {
	l.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	response, err := l.client.Do(l.request(ctx, http.MethodGet, pathA, nil, h))
	if err != nil {
		cancel()
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { cancel(); _ = response.Body.Close() })
	return response
}

const (
	pathA = "/locations/a/mcp"
	ping  = `{"jsonrpc":"2.0","id":7,"method":"ping"}`
)

// approve allows everything that is asked, once.
func (s *served) approve(t testing.TB) {
	changes, stop := s.queue.Watch()
	over, ended := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(over); <-ended; stop() })
	go func() {
		defer close(ended)
		for {
			for _, p := range s.queue.Pending() {
				_, _ = s.queue.Reply(context.Background(), p.ID, permission.Answer{Kind: permission.Once})
			}
			select {
			case <-changes:
			case <-over:
				return
			}
		}
	}()
}

// A blocking tool runs until it is released or cancelled.
type blocking struct {
	began, cancelled chan struct{}
	release          chan struct{}
}

func newBlocking() *blocking {
	return &blocking{began: make(chan struct{}, 256), cancelled: make(chan struct{}, 256), release: make(chan struct{})}
}

func (w *blocking) tool() tool.Tool {
	return tool.Tool{Description: "for a test", Execute: func(ctx context.Context, _ tool.Call) (tool.Result, error) {
		w.began <- struct{}{}
		select {
		case <-w.release:
			return tool.Result{Output: json.RawMessage(`"released"`)}, nil
		case <-ctx.Done():
			w.cancelled <- struct{}{}
			return tool.Result{}, context.Cause(ctx)
		}
	}}
}

// soon waits for something that must happen.
func soon(t testing.TB, what string, happened <-chan struct{}) {
	t.Helper()
	select {
	case <-happened:
	case <-time.After(10 * time.Second):
		t.Fatal(what + " did not happen")
	}
}

// comesToHold waits until something holds.
func comesToHold(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what + " did not come to hold")
		}
	}
}

func callOf(id int, name string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{}}}`, id, name)
}

// Who may come in, and what the others are told. Breakage seen: without the check of
// Host; with http.CrossOriginProtection, which lets a foreign GET in.
func TestWhoMayComeIn(t *testing.T) {
	s := serve(t, Deny, nil)
	l := s.listen(t, HTTPOptions{Tokens: tokens(t), Hosts: []string{"Tools.Example.com"}})
	_, port, _ := net.SplitHostPort(l.Addr().String())
	list, modern := sessionlessRequest(1, "tools/list", "")
	for name, tt := range map[string]struct {
		path   string
		with   headers
		status int // of a list
		want   string
	}{
		"a token":                {pathA, ofAnn, 200, "output_read"},
		"its scheme":             {pathA, headers{"Authorization": "bearer " + tokenOfAnn}, 200, "output_read"},
		"no token":               {pathA, ofNobody, 401, "no bearer token"},
		"a wrong token":          {pathA, headers{"Authorization": "Bearer " + tokenOfAnn + "0"}, 401, "invalid token"},
		"another scheme":         {pathA, headers{"Authorization": "Basic " + tokenOfAnn}, 401, "no bearer token"},
		"a token in the query":   {pathA + "?access_token=" + tokenOfAnn, ofNobody, 401, "no bearer token"},
		"localhost":              {pathA, ofAnn.with("Host", "localhost:"+port), 200, "output_read"},
		"IPv6 loopback":          {pathA, ofAnn.with("Host", "[::1]:"+port), 200, "output_read"},
		"a name of the options":  {pathA, ofAnn.with("Host", "tools.example.com."), 200, "output_read"},
		"a rebound name":         {pathA, ofAnn.with("Host", "evil.example.com:"+port), 403, "Host"},
		"a name like localhost":  {pathA, ofAnn.with("Host", "localhost.example.com"), 403, "Host"},
		"a name like ours":       {pathA, ofAnn.with("Host", "tools.example.com.evil.com"), 403, "Host"},
		"another address":        {pathA, ofAnn.with("Host", "192.0.2.1"), 403, "Host"},
		"the same origin":        {pathA, ofAnn.with("Origin", "http://"+l.Addr().String()), 200, "output_read"},
		"another port":           {pathA, ofAnn.with("Origin", "http://127.0.0.1:1"), 403, "origin"},
		"a foreign origin":       {pathA, ofAnn.with("Origin", "https://evil.example.com"), 403, "origin"},
		"no origin to speak of":  {pathA, ofAnn.with("Origin", "null"), 403, "origin"},
		"an empty origin":        {pathA, ofAnn.with("Origin", ""), 403, "origin"},
		"a foreign site":         {pathA, ofAnn.with("Sec-Fetch-Site", "cross-site"), 403, "origin"},
		"a neighbouring site":    {pathA, ofAnn.with("Sec-Fetch-Site", "same-site"), 403, "origin"},
		"an unknown Location":    {"/locations/c/mcp", ofAnn, 404, "there are: a, b"},
		"the same, to strangers": {"/locations/c/mcp", ofNobody, 401, "no bearer token"},
		"another path":           {"/locations/a", ofAnn, 404, "not found"},
		"health to strangers":    {"/healthz", ofNobody, 405, "Method"},
	} {
		t.Run(name, func(t *testing.T) {
			a := l.ask(http.MethodPost, tt.path, list, modern, tt.with)
			if a.status != tt.status || !strings.Contains(a.body, tt.want) {
				t.Errorf("got %d %.200s, want %d %s", a.status, a.body, tt.status, tt.want)
			}
			if tt.status == 401 && !strings.HasPrefix(a.header.Get("WWW-Authenticate"), `Bearer realm="toolhost"`) {
				t.Errorf("WWW-Authenticate: %q", a.header.Get("WWW-Authenticate"))
			}
			if tt.status != 401 && a.header.Get("WWW-Authenticate") != "" {
				t.Error("it is challenged")
			}
			if tt.status == 401 && strings.Contains(a.body, "there are") {
				t.Errorf("a stranger is told of the Locations: %s", a.body)
			}
		})
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodOptions, http.MethodHead} {
		if a := l.ask(method, pathA, "", ofAnn.with("Origin", "https://evil.example.com")); a.status != http.StatusForbidden {
			t.Errorf("%s of a foreign origin: %d", method, a.status)
		}
		if a := l.ask(method, pathA, "", ofAnn.with("Host", "evil.example.com")); a.status != http.StatusForbidden {
			t.Errorf("%s for another host: %d", method, a.status)
		}
	}
	for _, name := range single {
		r := l.request(t.Context(), http.MethodPost, pathA, strings.NewReader(list), modern, ofAnn)
		r.Header.Add(name, "x")
		r.Header.Add(name, "x")
		if a := l.send(r); a.status != http.StatusBadRequest || !strings.Contains(a.body, "more than once") {
			t.Errorf("%s twice: %d %s", name, a.status, a.body)
		}
	}
	for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ready\n"} {
		if a := l.ask(http.MethodGet, path, "", headers{"Host": "10.0.0.1"}); a.status != 200 || a.body != want {
			t.Errorf("%s: %d %q", path, a.status, a.body)
		}
	}
}

// Where it listens, and what is said where it does not. Breakage seen: the check of
// tokens taken away.
func TestListenHTTP(t *testing.T) {
	s := serve(t, Deny, nil)
	for addr, tt := range map[string]struct {
		with HTTPOptions
		err  string
	}{
		":0":              {HTTPOptions{}, ""},
		"localhost:0":     {HTTPOptions{}, ""},
		"127.0.0.2:0":     {HTTPOptions{}, ""},
		"0.0.0.0:0":       {HTTPOptions{}, "give tokens to those who may come in, or listen at 127.0.0.1:0"},
		"[::]:0":          {HTTPOptions{}, "give tokens"},
		"8080":            {HTTPOptions{}, "not HOST:PORT"},
		"127.0.0.1:x":     {HTTPOptions{}, "x"},
		"0.0.0.0:00":      {HTTPOptions{Tokens: tokens(t)}, ""},
		"127.0.0.1:65536": {HTTPOptions{}, "port"},
	} {
		l, err := s.ListenHTTP(addr, tt.with)
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s: got %v, want %q", addr, err, tt.err)
		}
		if err != nil {
			continue
		}
		ip := l.Addr().(*net.TCPAddr).IP
		if tt.with.Tokens.Empty() && !ip.IsLoopback() {
			t.Errorf("%s: listens at %s", addr, ip)
		}
		if url := l.URL("a"); !strings.HasSuffix(url, fmt.Sprintf(":%d/locations/a/mcp", l.Addr().(*net.TCPAddr).Port)) {
			t.Errorf("%s: %s", addr, url)
		}
		if err := l.Close(t.Context()); err != nil { // it was never served
			t.Errorf("%s: %v", addr, err)
		}
		if err := l.Serve(t.Context()); err == nil {
			t.Errorf("%s: served when it was closed", addr)
		}
	}
}

// What is too large is refused before it is held. Breakage seen: without the bound on
// what a principal has in hand.
func TestTooLarge(t *testing.T) {
	s := serve(t, Deny, nil)
	l := s.listen(t, HTTPOptions{Limits: Limits{Bodies: maxMessage}})
	h := l.session(nil)
	large := bytes.Repeat([]byte(" "), maxMessage+1)
	for name, r := range map[string]*http.Request{
		"known":   l.request(t.Context(), http.MethodPost, pathA, bytes.NewReader(large), h),
		"chunked": l.request(t.Context(), http.MethodPost, pathA, io.MultiReader(bytes.NewReader(large)), h),
	} {
		if a := l.send(r); a.status != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	whole := ping + strings.Repeat(" ", maxMessage-len(ping))
	if a := l.ask(http.MethodPost, pathA, whole, h); a.status != 200 {
		t.Errorf("as large as may be: %d %s", a.status, a.body)
	}
	if a := l.ask(http.MethodPost, pathA, ping, h.with("X-Large", strings.Repeat("x", 2*maxHeader))); a.status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("header: %d", a.status)
	}
	in, out := io.Pipe() // of unknown size, so that all is held for it
	began := make(chan answer, 1)
	go func() { began <- l.send(l.request(context.Background(), http.MethodPost, pathA, in, h)) }()
	_, _ = out.Write([]byte(ping))
	comesToHold(t, "the refusal of what is too much together", func() bool {
		a := l.ask(http.MethodPost, pathA, ping, h)
		return a.status == http.StatusTooManyRequests && a.header.Get("Retry-After") != ""
	})
	_ = out.Close()
	if a := <-began; a.status != 200 {
		t.Errorf("the first: %d %s", a.status, a.body)
	}
	if a := l.ask(http.MethodPost, pathA, ping, h); a.status != 200 {
		t.Errorf("after it: %d %s", a.status, a.body)
	}
}
