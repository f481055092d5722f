package mcpserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"

	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/output"
)

// prints is a tool that prints the bytes while it runs.
func prints(raw string) tool.Tool {
	return tool.Tool{Description: "for a test", Execute: func(_ context.Context, call tool.Call) (tool.Result, error) {
		_, err := io.WriteString(call.Output, raw)
		return tool.Result{}, err
	}}
}

// gives is a tool with the value as its result.
func gives(value json.RawMessage) tool.Tool {
	return tool.Tool{Description: "for a test", Execute: func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Output: value}, nil
	}}
}

// agrees are the options of a client whose user allows everything.
func agrees() *mcp.ClientOptions {
	return &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "once"}}, nil
	}}
}

// linked calls a tool, whose output is cut, and gives the link to the whole.
func linked(t *testing.T, client *mcp.ClientSession, name string, meta mcp.Meta) *mcp.ResourceLink {
	t.Helper()
	link, _ := cutResult(t, client, name, meta)
	return link
}

// cutResult is linked, with the result itself.
func cutResult(t *testing.T, client *mcp.ClientSession, name string, meta mcp.Meta) (*mcp.ResourceLink, *mcp.CallToolResult) {
	t.Helper()
	result, err := client.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: map[string]any{}, Meta: meta})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range result.Content {
		if link, ok := c.(*mcp.ResourceLink); ok {
			return link, result
		}
	}
	t.Fatalf("%s: no link in %+v", name, result)
	return nil, nil
}

// named is the _meta of a client that names its session.
func named(session string) mcp.Meta { return mcp.Meta{metaSession: session} }

// part reads one part.
func part(ctx context.Context, client *mcp.ClientSession, uri string, meta mcp.Meta) (*mcp.ResourceContents, error) {
	result, err := client.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri, Meta: meta})
	if err != nil {
		return nil, err
	}
	if len(result.Contents) != 1 {
		return nil, fmt.Errorf("%s: %d contents", uri, len(result.Contents))
	}
	return result.Contents[0], nil
}

// follow reads the whole of an output from its link on, by parts of so many bytes or of
// as many as there are, and says which of them were text.
func follow(ctx context.Context, client *mcp.ClientSession, link *mcp.ResourceLink, meta mcp.Meta, limit int) (whole []byte, text []bool, err error) {
	for uri := link.URI; ; {
		if limit > 0 && len(text) == 0 {
			uri += fmt.Sprintf("?limit=%d", limit)
		}
		p, err := part(ctx, client, uri, meta)
		if err != nil {
			return nil, nil, err
		}
		data := cmp.Or(p.Text, string(p.Blob))
		number := func(key string) int {
			n, _ := p.Meta[key].(float64)
			return int(n)
		}
		want := fmt.Sprintf("%s?offset=%d&limit=%d", link.URI, len(whole), len(data))
		switch {
		case p.Text != "" && p.Blob != nil || data == "" || len(data) > output.MaxPart || limit > 0 && len(data) > limit:
			return nil, nil, fmt.Errorf("%s: %d bytes, text %t, blob %t", uri, len(data), p.Text != "", p.Blob != nil)
		case p.URI != want || number(metaOffset) != len(whole) || number(metaBytes) != len(data) || number(metaSize) != int(*link.Size):
			return nil, nil, fmt.Errorf("%s: got %s %v, want %s", uri, p.URI, p.Meta, want)
		}
		whole, text = append(whole, data...), append(text, p.Blob == nil)
		if _, more := p.Meta[metaNext]; !more {
			return whole, text, nil
		}
		if number(metaNext) != len(whole) {
			return nil, nil, fmt.Errorf("%s: %v, want next %d", uri, p.Meta, len(whole))
		}
		uri = fmt.Sprintf("%s?offset=%d", link.URI, number(metaNext))
		if limit > 0 {
			uri = fmt.Sprintf("%s?limit=%d&offset=%d", link.URI, limit, number(metaNext))
		}
	}
}

// An output that was cut is read back whole, byte for byte, from the link in the result.
//
// Seen to fail: without the next offset.
func TestOutputIsReadWhole(t *testing.T) {
	log := strings.Repeat("0123 é 🟡 \u2028 <&> \x00\x1b[31m\ufffd\r\n", load(9_000, 4_000))
	value, err := json.Marshal(map[string]string{"log": log})
	if err != nil {
		t.Fatal(err)
	}
	everywhere(t, func(t *testing.T, over, era string) {
		s := serve(t, Deny, map[string]tool.Tool{"log": prints(log), "string": says(log), "value": gives(value)})
		client := s.connect(t, over, era, agrees())
		for name, want := range map[string]string{"log": log, "string": log, "value": string(value)} {
			link := linked(t, client, name, nil)
			for _, limit := range []int{0, 100_001} {
				whole, text, err := follow(t.Context(), client, link, nil, limit)
				if err != nil || string(whole) != want || *link.Size != int64(len(want)) {
					t.Errorf("%s by %d: %d bytes of %d, %v", name, limit, len(whole), len(want), err)
				}
				for i := range text {
					if !text[i] {
						t.Errorf("%s by %d: part %d is no text", name, limit, i)
					}
				}
			}
		}
	})
}

// The parts of a value say that they are JSON only where they are.
func TestTypesOfParts(t *testing.T) {
	value := `["` + strings.Repeat("é", 100) + `"]`
	of := func(kind output.Kind, data string, offset, size int64) output.Part {
		return output.Part{Meta: output.Meta{Kind: kind, Bytes: size}, Offset: offset, Data: []byte(data)}
	}
	for _, tt := range []struct {
		part output.Part
		want string
	}{
		{of(output.KindJSON, value, 0, int64(len(value))), "application/json"},
		{of(output.KindJSON, value[:8], 0, int64(len(value))), "text/plain; charset=utf-8"},
		{of(output.KindText, value, 0, int64(len(value))), "text/plain; charset=utf-8"},
		{of(output.KindText, "\xff", 0, 1), "application/octet-stream"},
	} {
		if got := contents(tt.part); got.MIMEType != tt.want {
			t.Errorf("%s %q: got %s, want %s", tt.part.Meta.Kind, tt.part.Data, got.MIMEType, tt.want)
		}
	}
}

// What is not UTF-8 is shown as such in the result, and read back as it was.
//
// Seen to fail: with every part given as text.
func TestCaseB16RawBytes(t *testing.T) {
	noise := make([]byte, 300_000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	raw := "\xff\xfe\x00\xe9 ok\n" + strings.Repeat("plain é\n", 40_000) + string(noise)
	everywhere(t, func(t *testing.T, over, era string) {
		s := serve(t, Deny, map[string]tool.Tool{"raw": prints(raw)})
		client := s.connect(t, over, era, agrees())
		link, result := cutResult(t, client, "raw", nil)
		if got := text(result); !utf8.ValidString(got) || !strings.Contains(got, " ok") {
			t.Errorf("the result is %.100q", got)
		}
		for _, limit := range []int{0, 100_000} {
			whole, text, err := follow(t.Context(), client, link, nil, limit)
			if err != nil || string(whole) != raw {
				t.Errorf("by %d: %d bytes of %d, %v", limit, len(whole), len(raw), err)
			}
			if limit > 0 && (len(text) < 3 || text[0] || !text[1] || text[len(text)-1]) {
				t.Errorf("by %d: text is %t", limit, text)
			}
		}
	})
}

// refused reports a read that is not refused as an error of the protocol with the code.
func refused(t *testing.T, what string, code int64, p *mcp.ResourceContents, err error) *jsonrpc.Error {
	t.Helper()
	refusal, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || refusal.Code != code {
		t.Errorf("%s: got %+v, %v, want an error with code %d", what, p, err, code)
		return &jsonrpc.Error{}
	}
	return refusal
}

// notFoundIn is the code of what is not found in an era.
func notFoundIn(era string) int64 {
	if era == withSessions {
		return -32002
	}
	return jsonrpc.CodeInvalidParams
}

// An output is that of the session and the Location that made it, and of anything else
// the answer is the same.
//
// Seen to fail: with the session that the client names left out of a read.
func TestOutputOfItsOwnSessionOnly(t *testing.T) {
	everywhere(t, func(t *testing.T, over, era string) {
		s := serve(t, Deny, map[string]tool.Tool{"log": prints(strings.Repeat("x", 100_000))})
		client := s.connect(t, over, era, agrees())
		mine := linked(t, client, "log", named("mine"))
		unnamed := linked(t, client, "log", nil)
		there := s.connectTo(t, "b", over, era, nil)
		unknown := outputScheme + strings.Repeat("a", 26)
		same := ""
		for _, tt := range []struct {
			what         string
			client       *mcp.ClientSession
			uri, session string
		}{
			{"another session", client, mine.URI, "other"}, {"no session named", client, mine.URI, ""},
			{"another named", client, unnamed.URI, "mine"}, {"another Location", there, mine.URI, "mine"},
			{"unknown", client, unknown, "mine"}, {"behind the end", client, mine.URI + "?offset=100000", "other"},
		} {
			p, err := part(t.Context(), tt.client, tt.uri, named(tt.session))
			refusal := refused(t, tt.what, notFoundIn(era), p, err)
			if same = cmp.Or(same, refusal.Message); refusal.Message != same {
				t.Errorf("%s: got %q, want %q", tt.what, refusal.Message, same)
			}
			if got, want := string(refusal.Data), `{"uri":"`+tt.uri+`"}`; got != want {
				t.Errorf("%s: data are %s, want %s", tt.what, got, want)
			}
		}
		if over == "http" && era == withSessions {
			p, err := part(t.Context(), s.connect(t, over, era, nil), unnamed.URI, nil)
			refused(t, "another connection", notFoundIn(era), p, err)
		}
		for link, session := range map[*mcp.ResourceLink]string{mine: "mine", unnamed: ""} {
			if _, err := part(t.Context(), client, link.URI, named(session)); err != nil {
				t.Errorf("its own: %v", err)
			}
		}
		if _, err := part(t.Context(), s.connect(t, over, era, nil), mine.URI, named("mine")); err != nil {
			t.Errorf("its own, over another connection: %v", err)
		}
	})
}

// authorized sends a token with every request.
type authorized string

func (a authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(a))
	return http.DefaultTransport.RoundTrip(r)
}

// A principal that names another one's session does not have it.
//
// Seen to fail: with a principal of local for every call and read.
func TestOutputOfItsOwnPrincipalOnly(t *testing.T) {
	tokens, err := ParseTokens("alice alice-0123456789abcdef\nbob bob-0123456789abcdef\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, era := range []string{withSessions, withoutSessions} {
		t.Run(era, func(t *testing.T) {
			s := serve(t, Deny, map[string]tool.Tool{"log": prints(strings.Repeat("x", 100_000))})
			handler, err := s.Handler(HTTPOptions{Tokens: tokens})
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(handler)
			t.Cleanup(server.Close)
			as := func(who string) *mcp.ClientSession {
				transport := &mcp.StreamableClientTransport{
					Endpoint: server.URL + "/locations/a/mcp", HTTPClient: &http.Client{Transport: authorized(who + "-0123456789abcdef")},
				}
				client, err := mcp.NewClient(&mcp.Implementation{Name: "tester", Version: "1"}, agrees()).Connect(
					t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: era})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = client.Close() })
				return client
			}
			alice, bob := as("alice"), as("bob")
			for _, session := range []string{"same", ""} {
				link := linked(t, alice, "log", named(session))
				for _, said := range []string{session, "alice/" + session, "../alice/" + session} {
					p, err := part(t.Context(), bob, link.URI, named(said))
					refused(t, "bob in "+said, notFoundIn(era), p, err)
				}
				if _, err := part(t.Context(), alice, link.URI, named(session)); err != nil {
					t.Errorf("alice in %q: %v", session, err)
				}
			}
		})
	}
}

// Whatever the uri is, the answer is an error of the protocol, and the connection lives.
//
// Seen to fail: with the SDK's own error for what is not found.
func TestHostileAddresses(t *testing.T) {
	everywhere(t, func(t *testing.T, over, era string) {
		s := serve(t, Deny, map[string]tool.Tool{"log": prints(strings.Repeat("é", 50_000))})
		client := s.connect(t, over, era, agrees())
		link := linked(t, client, "log", nil)
		handle := strings.TrimPrefix(link.URI, outputScheme)
		for _, uri := range []string{
			"", "x", handle, "toolhost://outputs", "toolhost://outputs/", "file:///etc/passwd", "TOOLHOST://outputs/" + handle,
			"toolhost://outputs/../" + handle, "toolhost://outputs/%00", link.URI + "%00", link.URI + "\x00", link.URI + "\n", "\x00\x7f\u009b\ufffd",
			"toolhost://outputs/../../etc/passwd", "toolhost://outputs/" + handle + "/", "toolhost://outputs//" + handle, "toolhost://evil@outputs/" + handle,
			"http://outputs/" + handle, "toolhost://outputs/" + strings.ToUpper(handle), link.URI + "#x", " " + link.URI, "🟡", `"\`,
			link.URI + strings.Repeat("a", 10_000), link.URI + "?offset=0" + strings.Repeat("0", 10_000), strings.Repeat("🟡", 1_000),
		} {
			p, err := part(t.Context(), client, uri, nil)
			if over == "http" && era == withoutSessions && (uri == "" || strings.TrimSpace(uri) != uri || strings.ContainsAny(uri, "\x00\x7f")) && err != nil {
				continue // a header has it too, which cannot be the same
			}
			refusal := refused(t, fmt.Sprintf("%.60q", uri), notFoundIn(era), p, err)
			var data struct{ URI string }
			if err := json.Unmarshal(refusal.Data, &data); err != nil || !strings.HasPrefix(uri, data.URI) || len(data.URI) > maxAddress {
				t.Errorf("%.60q: data are %.60s, %v", uri, refusal.Data, err)
			}
		}
		for query, want := range map[string]string{
			"?": "no part", "?offset": "decimal digits", "?offset=": "decimal digits", "?offset=-1": "decimal digits", "?offset=%2B1": "decimal digits",
			"?offset=+1": "decimal digits", "?offset=1.0": "decimal digits", "?offset=1e3": "decimal digits", "?offset=0x1": "decimal digits", "?offset=1_0": "decimal digits",
			"?offset=9223372036854775808": "decimal digits", "?offset=18446744073709551617": "decimal digits", "?limit=0": "1 or more",
			"?limit=-5": "1 or more", "?limit=99999999999999999999": "1 or more", "?offset=1&offset=2": "twice", "?limit=1&limit=1": "twice",
			"?offset=1&": "no part", "?&offset=1": "no part", "?offset=1?limit=2": "decimal digits", "?Offset=1": "no part", "?x=1": "no part", "?offset=%00": "decimal digits",
			"?offset=100000": "100000 bytes", "?offset=9223372036854775807&limit=9223372036854775807": "100000 bytes",
		} {
			p, err := part(t.Context(), client, link.URI+query, nil)
			if refusal := refused(t, query, jsonrpc.CodeInvalidParams, p, err); !strings.Contains(refusal.Message, want) {
				t.Errorf("%s: got %q, want %q in it", query, refusal.Message, want)
			}
		}
		for query, want := range map[string]string{
			"?offset=99998&limit=9223372036854775807": "é", "?limit=00003": "é", "?limit=1": "\xc3", "?offset=1&limit=1": "\xa9", "?limit=4&offset=2": "éé",
		} {
			p, err := part(t.Context(), client, link.URI+query, nil)
			if err != nil || cmp.Or(p.Text, string(p.Blob)) != want {
				t.Errorf("%s: got %+v, %v, want %q", query, p, err, want)
			}
		}
	})
}

// Several clients and many of their requests at once read what each asked for.
func TestConcurrentReads(t *testing.T) {
	raw := strings.Repeat("0123456789 é\n", 28_000)
	everywhere(t, func(t *testing.T, over, era string) {
		s := serve(t, Deny, map[string]tool.Tool{"log": prints(raw)})
		clients := []*mcp.ClientSession{s.connect(t, over, era, agrees()), s.connect(t, over, era, agrees())}
		var reading errgroup.Group
		for i, client := range clients {
			session := fmt.Sprint("reader ", i)
			link := linked(t, client, "log", named(session))
			for limit := range load(5, 2) {
				reading.Go(func() error {
					whole, _, err := follow(t.Context(), client, link, named(session), 150_000+limit)
					if err == nil && !bytes.Equal(whole, []byte(raw)) {
						err = fmt.Errorf("by %d: %d bytes of %d, and not the same", limit, len(whole), len(raw))
					}
					return err
				})
			}
		}
		if err := reading.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// Outputs are not listed; how their addresses look is.
func TestResourcesAreNotListed(t *testing.T) {
	everywhere(t, func(t *testing.T, over, era string) {
		s := serve(t, Deny, map[string]tool.Tool{"log": prints(strings.Repeat("x", 100_000))})
		client := s.connect(t, over, era, agrees())
		linked(t, client, "log", nil)
		list, err := client.ListResources(t.Context(), nil)
		if err != nil || list.Resources == nil || len(list.Resources) != 0 {
			t.Errorf("resources: %+v, %v", list, err)
		}
		templates, err := client.ListResourceTemplates(t.Context(), nil)
		if err != nil || len(templates.ResourceTemplates) != 1 {
			t.Fatalf("templates: %+v, %v", templates, err)
		}
		if got, want := templates.ResourceTemplates[0].URITemplate, "toolhost://outputs/{handle}{?offset,limit}"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if info := client.InitializeResult(); info == nil || info.Capabilities.Resources == nil {
			t.Errorf("capabilities: %+v", info)
		}
	})
}

// What is read from an address is within its bounds, and reads the same again.
func FuzzAddress(f *testing.F) {
	handle := outputScheme + strings.Repeat("a2", 13)
	for _, seed := range []string{handle, handle + "?offset=1", handle + "?limit=5&offset=7", handle + "?offset=-1", handle + "?offset=9223372036854775807", "", "%00", "toolhost://outputs/..?limit=1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		a, err := parseAddress(uri)
		if err != nil {
			if a != (address{}) || len(err.Error()) > 400 {
				t.Errorf("%+v with an error of %d bytes", a, len(err.Error()))
			}
			return
		}
		if a.offset < 0 || a.limit < 0 || a.handle == "" || strings.ContainsAny(a.handle, "/.%?&= ") || len(a.handle) > maxAddress {
			t.Errorf("%q is %+v", uri, a)
		}
		a.limit = max(a.limit, 1)
		if again, err := parseAddress(a.String()); len(a.String()) <= maxAddress && (err != nil || again != a) {
			t.Errorf("%s is %+v, %v, want %+v", a, again, err, a)
		}
	})
}
