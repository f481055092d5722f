package mcpserver

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/time/rate"
)

// A guest is what one principal takes of a server, by all its connections and sessions.
type guest struct {
	name   string
	limits Limits
	rate   *rate.Limiter

	mu      sync.Mutex
	calls   int   // under mu: that run
	streams int   // under mu: that are open
	bodies  int64 // under mu: bytes of requests in hand

	sessions int // under the door's mu
}

// guest is the principal of a request. There are as many as there are names of tokens.
func (d *door) guest(r *http.Request) *guest {
	name := principal(&mcp.RequestExtra{TokenInfo: auth.TokenInfoFromContext(r.Context())})
	d.mu.Lock()
	defer d.mu.Unlock()
	g := d.guests[name]
	if g == nil {
		l := d.options.Limits
		g = &guest{name: name, limits: l, rate: rate.NewLimiter(rate.Limit(l.Rate), l.Burst)}
		d.guests[name] = g
	}
	return g
}

// allow says whether the principal may send a request now, or how long to wait.
func (g *guest) allow() (wait time.Duration, ok bool) {
	reserved := g.rate.Reserve()
	wait = reserved.Delay()
	if wait > 0 {
		reserved.Cancel()
	}
	return wait, wait == 0
}

// busy says whether as many calls of the principal run as may.
func (g *guest) busy() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls >= g.limits.Calls
}

func (g *guest) beginCall() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return take(&g.calls, 1, g.limits.Calls)
}

func (g *guest) endCall() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls--
}

func (g *guest) beginStream() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return take(&g.streams, 1, g.limits.Streams)
}

func (g *guest) endStream() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.streams--
}

func (g *guest) hold(size int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return take(&g.bodies, size, g.limits.Bodies)
}

func (g *guest) letGo(size int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bodies -= size
}

// take takes some of what there is at most.
func take[N int | int64](taken *N, more, most N) bool {
	if *taken+more > most {
		return false
	}
	*taken += more
	return true
}

const manyCalls = "too many calls run: wait for one to end"

// tooMany answers that a principal has to wait.
func tooMany(w http.ResponseWriter, wait time.Duration, why string) {
	w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
	refuse(w, http.StatusTooManyRequests, why)
}

// The methods that are told apart before the SDK sees a message.
const (
	methodInitialize = "initialize"
	methodCall       = "tools/call"
	methodListen     = "subscriptions/listen"
	methodCancelled  = "notifications/cancelled"
)

// said is what a request says of itself that decides who serves it. It is a hint: what a
// message is in the end, the SDK decides.
type said struct {
	version  string     // of its header
	messages []envelope // of its body
	batch    bool       // they are a batch
	method   string     // of its message, unless it is a batch
	meta     bool       // its message names a version, as those without sessions do
}

// sessionless says whether a request is of the era without sessions: by its header, or
// when its message says so and the header is missing or says something else, which that
// era refuses in its own words. An initialize without a header is of the other one,
// whatever version it asks for.
func (s said) sessionless() bool { return s.version >= eraWithoutSessions || s.meta }

// take reads the body of a request, so that a client which is slow holds nothing of the
// SDK, and says what it is. If it cannot, it answers; otherwise release must be called
// when the request has ended.
func (d *door) take(w http.ResponseWriter, r *http.Request, g *guest) (_ said, release func(), ok bool) {
	s := said{version: r.Header.Get(headerVersion)}
	if r.Method != http.MethodPost {
		return s, func() {}, true
	}
	size := r.ContentLength
	if size > maxMessage {
		tooLarge(w, r)
		return s, nil, false
	}
	if size < 0 {
		size = maxMessage
	}
	if !g.hold(size) {
		tooMany(w, time.Second, "the requests in hand are too large together")
		return s, nil, false
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxMessage+1))
	if err != nil || len(body) > maxMessage {
		g.letGo(size)
		if err == nil {
			tooLarge(w, r)
			return s, nil, false
		}
		w.Header().Set("Connection", "close")
		refuse(w, http.StatusRequestTimeout, "the request did not come whole, or in time")
		return s, nil, false
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // it is whole
	g.letGo(size - int64(len(body)))
	r.Body = io.NopCloser(bytes.NewReader(body))
	if wrong := s.read(body); wrong != nil {
		g.letGo(int64(len(body)))
		refuseFaulty(w, wrong)
		return s, nil, false
	}
	return s, func() { g.letGo(int64(len(body))) }, true
}

// tooLarge answers that a message is too large. Some of what is left of it is read, in
// time: a client that still writes would be cut off before it reads why.
func tooLarge(w http.ResponseWriter, r *http.Request) {
	_, _ = io.CopyN(io.Discard, r.Body, 2*maxMessage)
	w.Header().Set("Connection", "close")
	refuse(w, http.StatusRequestEntityTooLarge, "a message has "+strconv.Itoa(maxMessage)+" bytes at most")
}

// read looks at the body, or says what is wrong with it (cases E25, E26). A request that
// names no revision is of one that has batches, if its session is none of another.
func (s *said) read(body []byte) (wrong *faulty) {
	s.messages, s.batch, wrong = inspect(body, s.version < revisionStructured)
	if wrong != nil || s.batch {
		return wrong
	}
	m := s.messages[0]
	s.method = m.method
	var params struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	if m.params != nil && json.Unmarshal(m.params, &params) == nil {
		_, s.meta = params.Meta[mcp.MetaKeyProtocolVersion]
	}
	return nil
}

// refuseFaulty answers that a body is no message, to its id if it has one.
func refuseFaulty(w http.ResponseWriter, wrong *faulty) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write(wrong.line())
}

// A boundedWriter gives each write a deadline. A client that does not take it in time
// loses its connection, and net/http ends the request: one that never reads holds a
// buffer and a goroutine no longer.
type boundedWriter struct {
	http.ResponseWriter
	control  *http.ResponseController
	patience time.Duration
}

func newBoundedWriter(w http.ResponseWriter, patience time.Duration) *boundedWriter {
	b := &boundedWriter{ResponseWriter: w, control: http.NewResponseController(w), patience: patience}
	b.extend(patience) // it is what the last request on the connection left
	return b
}

// extend gives what is written next so long.
func (b *boundedWriter) extend(patience time.Duration) {
	_ = b.control.SetWriteDeadline(time.Now().Add(patience))
}

func (b *boundedWriter) Write(p []byte) (int, error) {
	b.extend(b.patience)
	return b.ResponseWriter.Write(p)
}

// FlushError is what [http.ResponseController.Flush] calls.
func (b *boundedWriter) FlushError() error {
	b.extend(b.patience)
	return b.control.Flush()
}

// Unwrap is for [http.ResponseController].
func (b *boundedWriter) Unwrap() http.ResponseWriter { return b.ResponseWriter }
