package control

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/service/permission/shown"
)

// said sends bytes and gives what comes back until the host closes the connection.
func said(t *testing.T, path, text string) string {
	t.Helper()
	conn := raw(t, path)
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, text) // the host may have had enough of it
	answer, err := io.ReadAll(conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%.40q: the connection is kept", text)
	}
	return string(answer)
}

// TestHostileRequests: each is answered with an error or not at all, within its
// time, and the host goes on. Seen to fail without the bound of the body, and
// without the timeouts.
func TestHostileRequests(t *testing.T) {
	s := serve(t, "", quick())
	c := client(t, s.dir)
	s.ask(t, caller("s", "1"), "moon")
	id := waiting(t, c, 1)[0].ID
	post := func(path, body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
	}
	noise := make([]byte, 100_000)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	tests := map[string]struct{ text, want string }{
		"nothing":          {"", ""},
		"half a header":    {"GET /v1/status HTTP/1.1\r\nHo", ""},
		"half a body":      {"POST /v1/sessions/reject HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", "invalid"},
		"noise":            {string(noise), ""},
		"endless header":   {"GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n", "431"},
		"endless body":     {post("/v1/approvals/"+id, `{"answer":"once","feedback":"`+strings.Repeat("x", 1<<20)+`"}`), CodeTooLarge},
		"unknown path":     {"GET /v1/approve HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", CodeUnknown},
		"unknown method":   {"DELETE /v1/approvals HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", CodeUnknown},
		"unknown key":      {post("/v1/approvals/"+id, `{"answer":"once","by":"root"}`), CodeInvalid},
		"key in capitals":  {post("/v1/approvals/"+id, `{"Answer":"once"}`), CodeInvalid},
		"key twice":        {post("/v1/approvals/"+id, `{"answer":"reject","answer":"once"}`), CodeInvalid},
		"two values":       {post("/v1/approvals/"+id, `{"answer":"once"}{}`), CodeInvalid},
		"no object":        {post("/v1/approvals/"+id, `["once"]`), CodeInvalid},
		"null":             {post("/v1/approvals/"+id, `null`), CodeInvalid},
		"no answer":        {post("/v1/approvals/"+id, `{}`), CodeInvalid},
		"wrong type":       {post("/v1/approvals/"+id, `{"answer":1}`), CodeInvalid},
		"not UTF-8":        {post("/v1/approvals/"+id, "{\"answer\":\"once\",\"feedback\":\"\xff\"}"), CodeInvalid},
		"wrong duration":   {post("/v1/approvals/"+id, `{"answer":"always","expires":"soon"}`), CodeInvalid},
		"deep":             {post("/v1/approvals/"+id, strings.Repeat("[", 60_000)), CodeInvalid},
		"no such approval": {post("/v1/approvals/x", `{"answer":"once"}`), CodeNotPending},
	}
	var hostile sync.WaitGroup
	for name, test := range tests {
		hostile.Go(func() {
			if got := said(t, s.Path(), test.text); !strings.Contains(got, test.want) || strings.Contains(got, "200 OK") {
				t.Errorf("%s: got %.300q, want %s", name, got, test.want)
			}
		})
	}
	hostile.Wait()
	if got := waiting(t, c, 1); got[0].ID != id {
		t.Errorf("pending is %+v, want the same request", got)
	}
}

// TestManyConnections: of 200 that say nothing the host keeps its 64 for as long as
// a client may take, and then serves who waited; of 200 that ask at once all are
// answered. Seen to fail with places that are not given back.
func TestManyConnections(t *testing.T) {
	s := serve(t, "", quick())
	for range 200 {
		raw(t, s.Path())
	}
	if c := client(t, s.dir); c.Pid() != os.Getpid() {
		t.Errorf("host is %d", c.Pid())
	}
	var asking sync.WaitGroup
	for range 200 {
		asking.Go(func() {
			c := newClient(s.Path())
			defer c.Close()
			if _, err := c.Pending(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	asking.Wait()
}

// TestConnectionsAreBounded counts those that are served at a time. Seen to fail with
// no bound.
func TestConnectionsAreBounded(t *testing.T) {
	p := quick()
	p.patience = time.Minute
	s := serve(t, "", p)
	before := descriptors(t)
	for range 200 {
		raw(t, s.Path())
	}
	want := before + 200 + maxConnections
	for deadline := time.Now().Add(5 * time.Second); descriptors(t) < want && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond) // for one more
	if got := descriptors(t); got != want {
		t.Errorf("%d sockets are open, want %d", got, want)
	}
}

// TestListIsBounded: a queue that is full of large requests is shown in part, says so,
// and what is not shown comes when that was answered. Seen to fail with a list that
// takes all, and with a yes to what was not shown whole.
func TestListIsBounded(t *testing.T) {
	s := serve(t, "", quick())
	c := client(t, s.dir)
	big := caller("s", "1")
	big.Review = strings.Repeat("\x01", 2*shown.MaxReview) // each is six bytes in JSON
	big.Input = json.RawMessage(`{"text":"` + strings.Repeat("é", 2*shown.MaxInput) + `"}`)
	resources := make([]string, 0, 20_000)
	for i := range 20_000 {
		resources = append(resources, fmt.Sprintf("moon/%d", i))
	}
	const n = 40
	for i := range n {
		big.Identity.Session = fmt.Sprint(i)
		s.ask(t, big, fmt.Sprint(i))
	}
	waiting(t, c, n)
	list, err := c.Pending(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if list.More == 0 || len(list.Approvals) == 0 || len(list.Approvals)+list.More != n {
		t.Fatalf("%d are shown and %d more", len(list.Approvals), list.More)
	}
	encoded, err := encode(list)
	if err != nil || len(encoded) > maxAnswer+1000 {
		t.Errorf("the list has %d bytes, %v", len(encoded), err)
	}
	p := list.Approvals[0]
	var input string
	if err := json.Unmarshal(p.Input, &input); err != nil || !p.InputCut || !strings.HasPrefix(input, `{"text":"éé`) ||
		strings.ContainsRune(input, '\uFFFD') || len(input) > shown.MaxInput {
		t.Errorf("input is %.40s…, cut %t, %v", p.Input, p.InputCut, err)
	}
	if !slices.Equal(p.Cut, []string{"review"}) || len(p.Review) != shown.MaxReview {
		t.Errorf("cut are %v", p.Cut)
	}
	for range n {
		one, err := c.Pending(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Reply(t.Context(), one.Approvals[0].ID, permission.Answer{Kind: permission.Once}); err != nil {
			t.Fatal(err)
		}
	}
	waiting(t, c, 0)

	// More resources than can be shown: nobody says yes to them here.
	outcome := s.ask(t, big, resources...)
	p = waiting(t, c, 1)[0]
	if !slices.Contains(p.Cut, "resources") || len(p.Save) != 0 {
		t.Errorf("cut are %v, and %d patterns are shown", p.Cut, len(p.Save))
	}
	for _, kind := range []permission.AnswerKind{permission.Once, permission.Always} {
		if _, err := c.Reply(t.Context(), p.ID, permission.Answer{Kind: kind}); !errors.Is(err, ErrNotShown) {
			t.Errorf("%s: %v, want ErrNotShown", kind, err)
		}
	}
	if _, err := c.Reply(t.Context(), p.ID, permission.Answer{Kind: permission.Reject}); err != nil {
		t.Error(err)
	}
	receive(t, outcome)
}

// FuzzReplyBody: whatever is sent, it is an answer that the queue can take, or an
// error that is the client's.
func FuzzReplyBody(f *testing.F) {
	for _, seed := range []string{
		`{"answer":"once"}`, `{"answer":"always","feedback":"é","expires":"1h"}`, `{"answer":"reject","feedback":"\ud800"}`, `{}`, `[]`,
		`{"answer":"always","expires":"-1h"}`, `{"answer":"once","expires":"1h"}`, `{"answer":"once","answer":"always"}`, "\xff",
	} {
		f.Add(seed)
	}
	q := permission.NewQueue(permission.QueueOptions{})
	f.Fuzz(func(t *testing.T, raw string) {
		var body replyBody
		err := decode(strings.NewReader(raw), &body, "answer", "feedback", "expires")
		var answer permission.Answer
		if err == nil {
			answer, err = body.answer("ann")
		}
		if err != nil {
			if status, _ := failure(err); status != http.StatusBadRequest {
				t.Errorf("%q: %v has status %d", raw, err, status)
			}
			return
		}
		if answer.By != "ann" {
			t.Errorf("%q: by %q", raw, answer.By)
		}
		if _, err := q.Reply(t.Context(), "nothing", answer); !errors.Is(err, permission.ErrNotPending) {
			t.Errorf("%q: the queue does not take %+v: %v", raw, answer, err)
		}
	})
}

// FuzzRequests: a connection that says anything gets an answer or is closed, and
// changes nothing.
func FuzzRequests(f *testing.F) {
	s := serve(f, "", pace{patience: 20 * time.Millisecond, idle: 20 * time.Millisecond, heartbeat: time.Millisecond, pause: time.Millisecond})
	s.ask(f, caller("s", "1"), "moon")
	for _, seed := range []string{
		request, "GET /v1/approvals/watch HTTP/1.1\r\nHost: x\r\n\r\n", "POST /v1/approvals/x HTTP/1.1\r\nHost: x\r\nContent-Length: 17\r\n\r\n{\"answer\":\"once\"}",
		"POST /v1/sessions/reject HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n0\r\n\r\n", "\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		conn := raw(t, s.Path())
		_ = conn.SetDeadline(time.Now().Add(50 * time.Millisecond))
		_, _ = conn.Write(text)
		if response, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1000))
			_ = response.Body.Close()
		}
		_ = conn.Close()
		if len(s.queue.Pending()) != 1 {
			t.Errorf("%q changed the queue", text)
		}
	})
}
