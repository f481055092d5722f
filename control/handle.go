package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/service/permission/shown"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/schema"
)

// maxAnswer is how many bytes a list weighs at most, unless its first request alone
// weighs more.
const maxAnswer = 1 << 20

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", s.answering(s.status))
	mux.HandleFunc("POST /v1/reload", s.reload)
	mux.HandleFunc("GET /v1/logs", s.answering(s.log))
	mux.HandleFunc("GET /v1/logs/follow", s.follow)
	mux.HandleFunc("GET /v1/approvals", s.answering(s.list))
	mux.HandleFunc("GET /v1/approvals/watch", s.watch)
	mux.HandleFunc("POST /v1/approvals/{id}", s.answering(s.reply))
	mux.HandleFunc("POST /v1/sessions/reject", s.answering(s.rejectSession))
	mux.HandleFunc("/", s.answering(func(r *http.Request) (any, error) {
		return nil, &Error{Code: CodeUnknown, Message: fmt.Sprintf("%.8q %.64q is nothing that this host answers", r.Method, r.URL.Path)}
	}))
	return mux
}

// answering makes a handler of a function that gives the answer or an error.
func (s *Server) answering(answer func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		value, err := s.contained(answer, r)
		status := http.StatusOK
		if err != nil {
			status, value = failure(err)
		}
		send(w, status, value)
	}
}

// contained turns a panic into an error.
func (s *Server) contained(answer func(*http.Request) (any, error), r *http.Request) (value any, err error) {
	defer func() {
		if v := recover(); v != nil {
			s.options.Log.Error("control socket: panic", slog.Any("value", v), slog.String("stack", string(debug.Stack())))
			value, err = nil, errors.New("the host is at fault; its log says more")
		}
	}()
	return answer(r)
}

// send writes one value. That the client is gone is nobody's concern.
func send(w http.ResponseWriter, status int, value any) {
	line, err := encode(value)
	if err != nil {
		status, line = http.StatusInternalServerError, []byte(`{"code":"internal","message":"the answer has no JSON"}`+"\n")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(line)
}

// encode makes a line of JSON.
func encode(value any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(value)
	return b.Bytes(), err
}

func (s *Server) list(*http.Request) (any, error) {
	return listed(s.queue.Pending())
}

// A wireList is a [List] of requests that are encoded already.
type wireList struct {
	Approvals []json.RawMessage `json:"approvals"`
	More      int               `json:"more"`
}

// listed takes requests until the list is full.
func listed(pending []permission.Pending) (wireList, error) {
	list, weight := wireList{Approvals: []json.RawMessage{}}, 0
	for i, p := range pending {
		one, err := encode(shown.Of(p))
		if err != nil {
			return wireList{}, fmt.Errorf("request %s: %w", p.ID, err)
		}
		if weight += len(one); weight > maxAnswer && i > 0 {
			list.More = len(pending) - i
			break
		}
		list.Approvals = append(list.Approvals, one)
	}
	return list, nil
}

// watch writes a line with the whole list at once and after each change, and an
// empty one when nothing has changed for a while. It goes on until the client is
// gone or takes nothing, or the server is closed. The queue does not wait for it.
func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	leave, err := s.enter()
	if err != nil {
		status, e := failure(err)
		send(w, status, e)
		return
	}
	defer leave()
	changes, stop := s.queue.Watch() // before the first list, so that no change is missed
	defer stop()
	to := s.stream(w)
	beat := time.NewTicker(s.pace.heartbeat)
	defer beat.Stop()
	for {
		line, err := s.contained(s.list, r)
		if err != nil {
			return
		}
		if !to.send(line) || !s.rest(r) { // a burst of changes is one
			return
		}
		for changed := false; !changed; {
			select {
			case <-changes:
				changed = true
			case <-beat.C:
				if !to.alive() {
					return
				}
			case <-r.Context().Done():
				return
			}
		}
	}
}

// replyBody is what a request is answered with.
type replyBody struct {
	Answer   permission.AnswerKind `json:"answer"`
	Feedback string                `json:"feedback"`
	Expires  string                `json:"expires"`
}

// answer makes the queue's answer of it, in the name of who gave it. The queue
// checks the rest.
func (b replyBody) answer(by string) (permission.Answer, error) {
	a := permission.Answer{Kind: b.Answer, Feedback: b.Feedback, By: by}
	if !slices.Contains([]permission.AnswerKind{permission.Once, permission.Always, permission.Reject}, a.Kind) {
		return a, invalid("answer %.32q is unknown: answer with %s, %s or %s", a.Kind, permission.Once, permission.Always, permission.Reject)
	}
	if len(a.Feedback) > permission.MaxFeedback {
		return a, invalid("feedback has %d bytes: at most %d", len(a.Feedback), permission.MaxFeedback)
	}
	if b.Expires == "" {
		return a, nil
	}
	d, err := time.ParseDuration(b.Expires)
	switch {
	case err != nil || d <= 0:
		return a, invalid("expires %.32q is no time to come: give a duration such as 24h", b.Expires)
	case a.Kind != permission.Always:
		return a, invalid("answer %s saves nothing that could expire", a.Kind)
	}
	a.Expires = d
	return a, nil
}

func invalid(format string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Message: fmt.Sprintf(format, args...)}
}

// released is the answer to an answer.
type released struct {
	Released []string `json:"released"`
}

func (s *Server) reply(r *http.Request) (any, error) {
	var body replyBody
	if err := decode(r.Body, &body, "answer", "feedback", "expires"); err != nil {
		return nil, err
	}
	answer, err := body.answer(s.by)
	if err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	if err := s.mayAnswer(id, answer.Kind); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.pace.patience/2) // what came of it has to be answered
	defer cancel()
	others, err := s.queue.Reply(ctx, id, answer)
	if err == nil {
		return released{append([]string{}, others...)}, nil
	}
	_, e := failure(err)
	if e.Code == CodeInternal {
		e.Code = CodeNotSaved // the answer was checked
	}
	return nil, &Error{Code: e.Code, Message: e.Message, Released: others}
}

// mayAnswer refuses what would grant, or save, more than the request that is shown
// here says.
func (s *Server) mayAnswer(id string, kind permission.AnswerKind) error {
	if kind == permission.Reject {
		return nil
	}
	p, ok := s.queue.Find(id)
	if !ok {
		return permission.ErrNotPending
	}
	switch r := shown.Of(p); {
	case !r.Whole():
		return ErrNotShown
	case kind == permission.Always && len(r.Save) == 0:
		return permission.ErrNotSavable
	}
	return nil
}

// sessionBody names a session to reject all requests of.
type sessionBody struct {
	Session  string `json:"session"`
	Feedback string `json:"feedback"`
}

// rejected is how many those were.
type rejected struct {
	Rejected int `json:"rejected"`
}

func (s *Server) rejectSession(r *http.Request) (any, error) {
	var body sessionBody
	if err := decode(r.Body, &body, "session", "feedback"); err != nil {
		return nil, err
	}
	switch {
	case body.Session == "" || len(body.Session) > tool.MaxID:
		return nil, invalid("session has %d bytes: 1 to %d", len(body.Session), tool.MaxID)
	case len(body.Feedback) > permission.MaxFeedback:
		return nil, invalid("feedback has %d bytes: at most %d", len(body.Feedback), permission.MaxFeedback)
	}
	return rejected{s.queue.RejectSession(body.Session, body.Feedback, s.by)}, nil
}

// decode reads a body: one object with no other keys than these, each at most once.
func decode(body io.Reader, into any, keys ...string) error {
	raw, err := io.ReadAll(body)
	if err != nil {
		if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return &Error{Code: CodeTooLarge, Message: fmt.Sprintf("body has more than %d bytes", large.Limit)}
		}
		return invalid("body: %v", err)
	}
	if !utf8.Valid(raw) {
		return invalid("body is not UTF-8")
	}
	value, err := schema.Decode(raw)
	if err != nil {
		return invalid("body: %.200v", err)
	}
	object, ok := value.(map[string]any)
	if !ok {
		return invalid("body is not a JSON object")
	}
	for key := range object {
		if !slices.Contains(keys, key) {
			return invalid("body has the unknown key %.32q: it has %q", key, keys)
		}
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return invalid("body: %.200v", err)
	}
	return nil
}
