package mcpserver

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Which era a request is of, at one address, and what it is told when it says two things.
// Breakage seen: routing by the header alone.
func TestErasAtOneAddress(t *testing.T) {
	s := serve(t, Deny, nil)
	l := s.listen(t, HTTPOptions{})
	listing, modern := sessionlessRequest(1, "tools/list", "")
	discover, discovering := sessionlessRequest(1, "server/discover", "")
	future := strings.ReplaceAll(discover, "2026-07-28", "2099-01-01")
	legacy := l.session(nil)
	initialize := func(version string) string { return strings.Replace(initially, withSessions, version, 1) }
	for name, tt := range map[string]struct {
		method, body string
		with         headers
		status       int
		want         string
	}{
		"of the new era":                  {http.MethodPost, listing, modern, 200, `"resultType":"complete"`},
		"discovers":                       {http.MethodPost, discover, discovering, 200, `"supportedVersions":["2026-07-28"`},
		"discovers an old one":            {http.MethodPost, discover, discovering, 200, `"2025-11-25"`},
		"discovers the future":            {http.MethodPost, future, discovering.with(headerVersion, "2099-01-01"), 400, "-32022"},
		"the new era without its header":  {http.MethodPost, listing, headers{}, 400, "header is required"},
		"discovers without its header":    {http.MethodPost, discover, headers{}, 400, "header is required"},
		"the new era, an old header":      {http.MethodPost, listing, headers{headerVersion: withSessions}, 400, "does not match"},
		"the same, in a session":          {http.MethodPost, listing, legacy, 400, "does not match"},
		"the new header, no version":      {http.MethodPost, ping, newEra.with("Mcp-Method", "ping"), 400, "_meta"},
		"the new header, another method":  {http.MethodPost, listing, modern.with("Mcp-Method", "tools/call"), 400, "Mcp-Method"},
		"initializes, the new header":     {http.MethodPost, initially, newEra.with("Mcp-Method", "initialize"), 400, "_meta"},
		"a stream of the new era":         {http.MethodGet, "", newEra, 405, ""},
		"an end in the new era":           {http.MethodDelete, "", newEra.with(headerSession, legacy[headerSession]), 405, ""},
		"of the old era":                  {http.MethodPost, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, legacy, 200, `"tools":[`},
		"the old era without a session":   {http.MethodPost, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, headers{headerVersion: withSessions}, 200, "invalid during session initialization"},
		"initializes":                     {http.MethodPost, initially, headers{}, 200, `"protocolVersion":"2025-11-25"`},
		"initializes, an old header":      {http.MethodPost, initially, headers{headerVersion: withSessions}, 200, `"protocolVersion":"2025-11-25"`},
		"initializes, an older one":       {http.MethodPost, initialize("2025-03-26"), headers{}, 200, `"protocolVersion":"2025-03-26"`},
		"initializes, the new one":        {http.MethodPost, initialize("2026-07-28"), headers{}, 200, `"protocolVersion":"2025-11-25"`},
		"initializes, one of the future":  {http.MethodPost, initialize("2099-01-01"), headers{}, 200, `"protocolVersion":"2025-11-25"`},
		"initializes, one of the past":    {http.MethodPost, initialize("2020-01-01"), headers{}, 200, `"protocolVersion":"2025-11-25"`},
		"an old header that never was":    {http.MethodPost, initially, headers{headerVersion: "2020-01-01"}, 400, "nsupported protocol version"},
		"what is no message":              {http.MethodPost, "{", legacy, 400, "not JSON"},
		"a batch, which is no more":       {http.MethodPost, "[" + ping + "]", legacy, 400, "batches"},
		"what is no JSON by its type":     {http.MethodPost, ping, legacy.with("Content-Type", "text/plain"), 415, "application/json"},
		"what wants no stream":            {http.MethodPost, ping, legacy.with("Accept", "application/json"), 400, "text/event-stream"},
		"another method":                  {http.MethodPut, ping, legacy, 405, ""},
		"a stream without a session":      {http.MethodGet, "", headers{}, 400, "Mcp-Session-Id"},
		"a session that is none":          {http.MethodPost, ping, legacy.with(headerSession, "none"), 404, "no such session"},
		"a stream of none":                {http.MethodGet, "", legacy.with(headerSession, "none"), 404, "no such session"},
		"a stream that begins in between": {http.MethodGet, "", legacy.with("Last-Event-ID", "x_1"), 400, "unsupported"},
	} {
		t.Run(name, func(t *testing.T) {
			a := l.ask(tt.method, pathA, tt.body, tt.with)
			if a.status != tt.status || !strings.Contains(a.body, tt.want) {
				t.Errorf("got %d %s, want %d %s", a.status, a.body, tt.status, tt.want)
			}
		})
	}
}

// A session is of the revision that its client was answered, and not of a later one that
// it asked for, whose requests have no session. Breakage seen: without the middleware,
// when the SDK keeps what was asked for.
func TestNegotiatedRevisionHolds(t *testing.T) {
	s := serve(t, Deny, nil)
	l := s.listen(t, HTTPOptions{})
	for asked, want := range map[string]string{
		withSessions: withSessions, "2025-03-26": "2025-03-26", withoutSessions: withSessions, "2099-01-01": withSessions, "2020-01-01": withSessions,
	} {
		a := l.ask(http.MethodPost, pathA, strings.Replace(initially, withSessions, asked, 1))
		l.door.mu.Lock()
		session := l.door.sessionsByID[a.header.Get(headerSession)]
		l.door.mu.Unlock()
		if session == nil {
			t.Fatalf("%s: %d %s", asked, a.status, a.body)
		}
		if got := session.sdk.InitializeParams().ProtocolVersion; got != want || !strings.Contains(a.body, want) {
			t.Errorf("%s: the session is of %s, want %s: %s", asked, got, want, a.body)
		}
	}
}

// Clients of both eras at the same time, with the SDK's own probing in between.
func TestBothErasAtOnce(t *testing.T) {
	s := serve(t, Deny, nil)
	l := s.listen(t, HTTPOptions{Tokens: tokens(t)})
	ended := make(chan error)
	eras := []string{withSessions, withoutSessions, "", "2025-06-18"}
	for i := range 2 * len(eras) {
		go func() {
			ended <- func() error {
				client := mcp.NewClient(&mcp.Implementation{Name: "tester", Version: "1"}, nil)
				session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
					Endpoint: l.URL("a"), HTTPClient: &http.Client{Transport: bearer{l.client.Transport, tokenOfAnn}},
				}, &mcp.ClientSessionOptions{ProtocolVersion: eras[i%len(eras)]})
				if err != nil {
					return err
				}
				defer func() { _ = session.Close() }()
				for range 5 {
					result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "list", Arguments: map[string]any{"path": "."}})
					if err != nil {
						return err
					}
					if _, err := json.Marshal(result.StructuredContent); err != nil || result.IsError {
						t.Errorf("got %+v", result)
					}
				}
				return nil
			}()
		}()
	}
	for range 2 * len(eras) {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// bearer sends a token with each request.
type bearer struct {
	http.RoundTripper
	token string
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.RoundTripper.RoundTrip(r)
}
