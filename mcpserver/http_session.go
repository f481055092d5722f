package mcpserver

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A session is one of the era with sessions, from the request on that begins it.
type session struct {
	guest *guest
	face  *face
	over  context.Context //nolint:containedctx // of its calls
	end   context.CancelCauseFunc
	order order

	// Under the door's mu:
	sdk  *mcp.ServerSession // nil until it is begun
	busy int                // requests and calls that run
	used time.Time          // when the last of them ended
	gone bool
}

// serveSession serves a request of the era with sessions.
func (d *door) serveSession(w http.ResponseWriter, r *http.Request, v *visit, said said) {
	id := r.Header.Get(headerSession)
	if id == "" {
		if r.Method != http.MethodPost {
			d.withSessions.ServeHTTP(w, visiting(r, v)) // says what it lacks
			return
		}
		d.beginSession(w, r, v, said)
		return
	}
	s, status := d.useSession(v, id)
	if s == nil {
		refuse(w, status, "there is no such session here: begin one")
		return
	}
	v.session = s
	defer d.unuse(s)
	switch {
	case r.Method == http.MethodGet:
		d.serveStream(w, r, v, d.withSessions)
	case r.Method == http.MethodDelete:
		s.end(errEnded) // its calls would be waited for
		d.withSessions.ServeHTTP(w, visiting(r, v))
	case said.method == methodCall && v.guest.busy():
		tooMany(w, time.Second, manyCalls)
	case said.batch && d.revision(s) >= revisionStructured:
		refuseFaulty(w, &faulty{code: jsonrpc.CodeInvalidRequest, what: noBatches})
	default:
		d.serveInOrder(w, r, v, said)
	}
}

// revision is what a session was begun in.
func (d *door) revision(s *session) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := s.sdk.InitializeParams(); p != nil {
		return p.ProtocolVersion
	}
	return ""
}

var (
	errEnded  = errors.New("the client ended its session")
	errUnused = errors.New("the session was not used for long, or made way for another one")
)

// beginSession serves a request without a session, which may begin one.
func (d *door) beginSession(w http.ResponseWriter, r *http.Request, v *visit, said said) {
	s, evicted := d.reserve(v)
	d.closeSession(evicted)
	if s == nil {
		unavailable(w, "there are too many sessions, and all are in use")
		return
	}
	v.session = s
	defer d.unuse(s) // and if it was not begun, there is none
	d.serveInOrder(w, r, v, said)
}

// reserve makes place for a session, of whoever used theirs least recently.
func (d *door) reserve(v *visit) (s, evicted *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.options.Limits
	if own := v.guest.sessions >= l.SessionsEach; own || len(d.sessions) >= l.Sessions {
		for other := range d.sessions {
			if other.busy == 0 && (!own || other.guest == v.guest) && (evicted == nil || other.used.Before(evicted.used)) {
				evicted = other
			}
		}
		if evicted == nil {
			return nil, nil
		}
		d.forget(evicted)
	}
	s = &session{guest: v.guest, face: v.face, busy: 1}
	s.over, s.end = context.WithCancelCause(d.calls)
	d.sessions[s] = struct{}{}
	v.guest.sessions++
	return s, evicted
}

// forget takes a session out of what is counted and found. d.mu is held.
func (d *door) forget(s *session) {
	if s.gone {
		return
	}
	s.gone = true
	delete(d.sessions, s)
	s.guest.sessions--
	if s.sdk != nil {
		delete(d.sessionsByID, s.sdk.ID())
	}
}

// begun is called when the SDK begins the session of a visit, and follows it to its end.
func (d *door) begun(s *session, sdk *mcp.ServerSession) error {
	d.mu.Lock()
	if s.gone || d.closing {
		d.mu.Unlock()
		return errClosing
	}
	again := s.sdk != nil
	s.sdk = sdk
	d.sessionsByID[sdk.ID()] = s
	d.mu.Unlock()
	if again {
		return nil // the SDK refuses it
	}
	return d.life.Go("session", func(ctx context.Context) error {
		_ = sdk.Wait() // how a session ended is nothing to report
		s.end(errEnded)
		s.face.captures.forget(sdk)
		d.mu.Lock()
		d.forget(s)
		d.mu.Unlock()
		s.face.over(ctx, s.guest.name, sdk.ID())
		return nil
	})
}

// forget forgets the capture of a session that ended.
func (c *captures) forget(session *mcp.ServerSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, session)
}

// useSession is the session of a request, which it is in use by, or the status that says
// why it is not: it is none of this Location (404), or another principal's.
func (d *door) useSession(v *visit, id string) (s *session, status int) {
	d.mu.Lock()
	s = d.sessionsByID[id]
	switch {
	case s == nil || s.face != v.face:
		d.mu.Unlock()
		return nil, http.StatusNotFound
	case s.guest != v.guest:
		d.mu.Unlock()
		return nil, http.StatusForbidden
	}
	s.busy++
	d.mu.Unlock()
	return s, 0
}

// unuse notes that a request or call of a session ended.
func (d *door) unuse(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.busy--
	s.used = time.Now()
	if s.sdk == nil {
		d.forget(s)
	}
}

// closeSession closes a session that is forgotten. It does not wait for that.
func (d *door) closeSession(s *session) {
	if s == nil || s.sdk == nil {
		return
	}
	s.end(errUnused)
	err := d.life.Go("close session", func(context.Context) error { return s.sdk.Close() })
	if err != nil {
		d.log.Debug("session ends with the server", slog.Any("error", err))
	}
}

// endIdle closes the sessions that nobody uses.
func (d *door) endIdle(ctx context.Context) error {
	idle := d.options.Limits.Idle
	ticker := time.NewTicker(min(idle, time.Minute))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			d.mu.Lock()
			var unused []*session
			for s := range d.sessions {
				if s.busy == 0 && now.Sub(s.used) >= idle {
					d.forget(s)
					unused = append(unused, s)
				}
			}
			d.mu.Unlock()
			for _, s := range unused {
				d.closeSession(s)
			}
		}
	}
}

// closeSessions closes all of them, whose calls were cancelled. Each ends when its calls
// have.
func (d *door) closeSessions() {
	d.mu.Lock()
	all := make([]*mcp.ServerSession, 0, len(d.sessions))
	for s := range d.sessions {
		if s.sdk != nil {
			all = append(all, s.sdk)
		}
	}
	d.mu.Unlock()
	for _, s := range all {
		_ = s.Close() // of sessions that end with the server there is nothing to report
	}
}

// visits is what the door has to do with requests that came in there, when the SDK has
// read them: to know the sessions that begin, and to count and end the calls.
func visits(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		v, ok := ctx.Value(visitKey{}).(*visit)
		if !ok { // it came in elsewhere
			return next(ctx, method, req)
		}
		if v.session != nil && !strings.HasPrefix(method, "notifications/") {
			defer v.session.order.began(postOf(req.GetExtra()))()
		}
		switch method {
		case methodInitialize:
			sdk, ok := req.GetSession().(*mcp.ServerSession)
			if ok && v.session != nil {
				if err := v.door.begun(v.session, sdk); err != nil {
					return nil, err
				}
			}
			return next(ctx, method, req)
		case methodCall:
			return v.call(ctx, method, req, next)
		default:
			return next(ctx, method, req)
		}
	}
}

// call runs a call unless too many run, until the server closes or its session ends.
func (v *visit) call(ctx context.Context, method string, req mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
	if !v.guest.beginCall() {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: manyCalls}
	}
	defer v.guest.endCall()
	over := v.door.calls
	if s := v.session; s != nil {
		over = s.over
		v.door.mu.Lock()
		s.busy++
		v.door.mu.Unlock()
		defer v.door.unuse(s)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(over, func() { cancel(context.Cause(over)) })()
	return next(ctx, method, req)
}

// lastWithSessions is the last revision of the protocol that has sessions.
const lastWithSessions = "2025-11-25"

// negotiated begins a session in the revision that the SDK answers with. Without this a
// session whose client asked for a later one would be taken for what has no sessions.
func negotiated(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		r, ok := req.(*mcp.ServerRequest[*mcp.InitializeParams])
		if !ok || r.Params == nil {
			return next(ctx, method, req)
		}
		params := *r.Params
		if v := params.ProtocolVersion; v > lastWithSessions || !slices.Contains(mcp.SupportedProtocolVersions(), v) {
			params.ProtocolVersion = lastWithSessions
		}
		return next(ctx, method, &mcp.ServerRequest[*mcp.InitializeParams]{Session: r.Session, Params: &params, Extra: r.Extra})
	}
}
