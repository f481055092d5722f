package mcpserver

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolhost/toolhost/scope"
)

// HTTPOptions say who may come in over HTTP, and how much there may be of everything. The
// zero value lets in who is on this machine.
type HTTPOptions struct {
	// Tokens are who may come in. Without any, everybody does who reaches the server, as
	// one principal; [Server.ListenHTTP] takes that at addresses of loopback only.
	Tokens Tokens
	// Hosts are names and addresses, without a port, under which clients reach the server,
	// beside those of loopback and the address that it listens at: a proxy's, for one.
	// A request for any other host is refused, since its sender may have been lured here
	// (DNS rebinding).
	Hosts []string
	// Limits bound what clients may take.
	Limits Limits
}

// Limits bound what clients may take of a server over HTTP. A field that is zero or less
// has the value in its comment.
type Limits struct {
	// Connections is how many there are at a time, 2048. Further ones wait.
	Connections int
	// Rate is how many requests a second a principal may send in the long run, 1000, and
	// Burst how many at once, 2000. Further ones get status 429 with Retry-After.
	Rate  float64
	Burst int
	// Calls is how many calls of a principal run at a time, 128; those that await an
	// approval in a session count. Further ones get status 429, or an error in a session.
	Calls int
	// Streams is how many streams of notifications a principal holds, 1024. Further ones
	// get status 429.
	Streams int
	// Sessions is how many sessions there are, 2048, and SessionsEach how many a principal
	// has, 1024. For one more, that which was used least recently ends, of the principal
	// or of all, if none of its requests and calls run; otherwise the new one gets status
	// 503. A client whose session ended is told so by status 404, and begins another.
	Sessions, SessionsEach int
	// Bodies is how many bytes a principal's requests have in hand, 64 MiB. Further ones
	// get status 429.
	Bodies int64
	// Idle is how long a session lasts without a request or a stream, one hour.
	Idle time.Duration
	// Patience is how long a client may take to send a request, and to take each thing
	// that is written to it, ten seconds.
	Patience time.Duration
}

func (l Limits) orDefault() Limits {
	return Limits{
		Connections: or(l.Connections, 2048),
		Rate:        or(l.Rate, 1000), Burst: or(l.Burst, 2000),
		Calls: or(l.Calls, 128), Streams: or(l.Streams, 1024),
		Sessions: or(l.Sessions, 2048), SessionsEach: or(l.SessionsEach, 1024),
		Bodies: or(l.Bodies, 64<<20),
		Idle:   or(l.Idle, time.Hour), Patience: or(l.Patience, 10*time.Second),
	}
}

func or[N int | int64 | float64 | time.Duration](value, instead N) N {
	if value > 0 {
		return value
	}
	return instead
}

const (
	// grace is how long what runs may go on when the server is closed, and farewell how
	// long each step after that may take. Together they stay below the five seconds of
	// law 42.
	grace    = 3 * time.Second
	farewell = 400 * time.Millisecond
)

// errClosing is why requests are refused and calls are cancelled when the server closes.
var errClosing = errors.New("the server is closing")

// A door is where clients come in over HTTP. All that they have here is in it: what they
// may take, their sessions, and what of theirs runs.
type door struct {
	server  *Server
	options HTTPOptions
	life    *scope.Scope
	log     *slog.Logger
	mux     *http.ServeMux

	withSessions, withoutSessions http.Handler // of the two eras

	streams      context.Context //nolint:containedctx // of what may be ended at any time
	endStreams   context.CancelCauseFunc
	calls        context.Context //nolint:containedctx // of what gets a grace
	endCalls     context.CancelCauseFunc
	quiet        chan struct{} // closed when the server closes and no request runs
	mu           sync.Mutex
	closing      bool                  // under mu
	requests     int                   // under mu: that run
	failed       map[string]bool       // under mu: the Locations whose last activation failed
	guests       map[string]*guest     // under mu: by principal
	sessions     map[*session]struct{} // under mu: those that are begun as well
	sessionsByID map[string]*session   // under mu
}

// Handler serves the Locations at /locations/NAME/mcp, in both eras, for a program that
// has its own server; see [Server.ListenHTTP] for one that is ready. The program's server
// must bound the time and size of a header, and connections. What the handler has belongs
// to the scope of the Server, and is closed with it. An error says that this is closed.
func (s *Server) Handler(options HTTPOptions) (http.Handler, error) {
	d, err := s.newDoor(options)
	if err != nil {
		return nil, err
	}
	err = d.life.Go("stop", func(ctx context.Context) error {
		<-ctx.Done()
		d.stop()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

func (s *Server) newDoor(options HTTPOptions) (*door, error) {
	life, err := s.life.Fork("http")
	if err != nil {
		return nil, err
	}
	options.Limits = options.Limits.orDefault()
	d := &door{
		server: s, options: options, life: life, log: s.options.Log, mux: http.NewServeMux(), quiet: make(chan struct{}), failed: map[string]bool{},
		guests: map[string]*guest{}, sessions: map[*session]struct{}{}, sessionsByID: map[string]*session{},
	}
	outlives := context.WithoutCancel(life.Context()) // it ends in steps
	d.streams, d.endStreams = context.WithCancelCause(outlives)
	d.calls, d.endCalls = context.WithCancelCause(outlives)
	streamable := mcp.StreamableHTTPOptions{
		Logger: slog.New(quiet{d.log.Handler()}), MaxRequestBodyBytes: maxMessage,
		PropagateRequestCancellation: true, // or a client that goes away leaves its call running
		DisableLocalhostProtection:   true, // the door checks more
	}
	d.withSessions = mcp.NewStreamableHTTPHandler(visited, &streamable)
	streamable.Stateless = true
	d.withoutSessions = mcp.NewStreamableHTTPHandler(visited, &streamable)
	d.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	d.mux.HandleFunc("GET /readyz", d.ready)
	d.mux.Handle("/locations/{name}/mcp", d.guarded(http.HandlerFunc(d.serve)))
	s.listening.Add(1)
	if err := life.Defer("door", func(context.Context) error { s.listening.Add(-1); return nil }); err != nil {
		return nil, err
	}
	if err := life.Go("idle sessions", d.endIdle); err != nil {
		return nil, err
	}
	return d, nil
}

// ServeHTTP implements [http.Handler].
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	bounded := newBoundedWriter(w, d.options.Limits.Patience)
	// The server itself writes at the end, after it read what is left of the body.
	defer bounded.extend(2 * d.options.Limits.Patience)
	if r.Body != nil && r.Body != http.NoBody {
		// It bounds what the server itself reads of a body as well, when the request is
		// refused. A program's own ResponseWriter may know no deadlines: the bounds on size
		// hold.
		_ = bounded.control.SetReadDeadline(time.Now().Add(d.options.Limits.Patience))
	}
	d.mux.ServeHTTP(bounded, r)
}

// say answers in a word.
func say(w http.ResponseWriter, status int, word string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(word + "\n"))
}

// ready says whether the Locations that were asked for are there.
func (d *door) ready(w http.ResponseWriter, _ *http.Request) {
	d.mu.Lock()
	closing, failed := d.closing, len(d.failed) > 0
	d.mu.Unlock()
	switch {
	case closing || d.life.Context().Err() != nil:
		say(w, http.StatusServiceUnavailable, "closing")
	case failed:
		say(w, http.StatusServiceUnavailable, "not ready")
	default:
		say(w, http.StatusOK, "ready")
	}
}

// A visit is what a request's context says of its way in. In a session it is the visit
// that began the session.
type visit struct {
	door    *door
	face    *face
	guest   *guest
	session *session // nil in the era without sessions
}

type visitKey struct{}

// visited is the SDK's server that a request is for.
func visited(r *http.Request) *mcp.Server {
	return r.Context().Value(visitKey{}).(*visit).face.sdk
}

// serve serves a request of a principal for a Location, in the era that it is of.
func (d *door) serve(w http.ResponseWriter, r *http.Request) {
	if !d.enter() {
		w.Header().Set("Connection", "close")
		unavailable(w, errClosing.Error())
		return
	}
	defer d.leave()
	g := d.guest(r)
	if wait, ok := g.allow(); !ok {
		tooMany(w, wait, "too many requests")
		return
	}
	f := d.face(w, r)
	if f == nil {
		return
	}
	said, release, ok := d.take(w, r, g)
	if !ok {
		return
	}
	defer release()
	defer f.posts.tie(r)()
	if said.sessionless() {
		d.serveSessionless(w, r, &visit{door: d, face: f, guest: g}, said)
		return
	}
	d.serveSession(w, r, &visit{door: d, face: f, guest: g}, said)
}

// enter notes that a request runs, unless the server is closing.
func (d *door) enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closing || d.life.Context().Err() != nil {
		return false
	}
	d.requests++
	return true
}

func (d *door) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.requests--; d.closing && d.requests == 0 {
		close(d.quiet)
	}
}

// face is the Location that a request is for, or nil if it was answered that there is
// none.
func (d *door) face(w http.ResponseWriter, r *http.Request) *face {
	name := r.PathValue("name")
	names := d.server.options.Host.Locations()
	if !slices.Contains(names, name) {
		refuse(w, http.StatusNotFound, "there is no such Location; there are: "+strings.Join(names, ", "))
		return nil
	}
	f, err := d.server.face(r.Context(), name)
	if err != nil && r.Context().Err() != nil {
		return nil // its client is gone
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		delete(d.failed, name)
		return f
	}
	d.failed[name] = true
	d.log.Error("Location is not served", slog.String("location", name), slog.Any("error", err))
	unavailable(w, "the Location "+name+" could not be activated: the operator's log says why")
	return nil
}

// serveSessionless serves a request of the era without sessions.
func (d *door) serveSessionless(w http.ResponseWriter, r *http.Request, v *visit, said said) {
	switch {
	case said.method == methodListen:
		d.serveStream(w, r, v, d.withoutSessions)
	case said.method == methodCall && v.guest.busy():
		tooMany(w, time.Second, manyCalls)
	default:
		d.withoutSessions.ServeHTTP(w, visiting(r, v))
	}
}

// serveStream serves a stream of notifications, which ends when the server closes.
func (d *door) serveStream(w http.ResponseWriter, r *http.Request, v *visit, era http.Handler) {
	if !v.guest.beginStream() {
		tooMany(w, time.Second, "too many streams of notifications are open")
		return
	}
	defer v.guest.endStream()
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer context.AfterFunc(d.streams, func() { cancel(errClosing) })()
	era.ServeHTTP(w, visiting(r.WithContext(ctx), v))
}

func visiting(r *http.Request, v *visit) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), visitKey{}, v))
}

// stop ends what clients have here, in steps: new requests are refused and streams end
// at once, what runs gets a grace, then calls are cancelled and sessions closed. It may
// be called once, takes less than four seconds, and longer only if a call goes on.
func (d *door) stop() {
	d.mu.Lock()
	d.closing = true
	if d.requests == 0 {
		close(d.quiet)
	}
	d.mu.Unlock()
	d.endStreams(errClosing)
	within(d.quiet, grace)
	d.endCalls(errClosing)
	within(d.quiet, farewell)
	d.closeSessions()
}

// within waits for something, so long at most.
func within(ended <-chan struct{}, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
}
