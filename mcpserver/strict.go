package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// strict is a transport over lines that answers itself what is no message, which the
// SDK takes for the end of the connection, and sends no response to a request that was
// cancelled (cases E10, E25, E26).
type strict struct {
	in  io.ReadCloser
	out io.WriteCloser
}

// Connect implements [mcp.Transport].
func (s strict) Connect(ctx context.Context) (mcp.Connection, error) {
	out := &locked{WriteCloser: s.out}
	lines := &lines{closer: s.in, from: bufio.NewReader(s.in), answer: impatient{out}}
	connection, err := (&mcp.IOTransport{Reader: lines, Writer: out, MaxLineLength: maxLine}).Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &discreet{Connection: connection, lines: lines, running: map[jsonrpc.ID]bool{}}, nil
}

// locked is an output whose writes, a line each, take turns.
type locked struct {
	io.WriteCloser
	mu sync.Mutex
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.WriteCloser.Write(p)
}

// impatient is an output for what is answered where it is read: a client that takes none
// of it is not heard meanwhile, and is given up.
type impatient struct{ *locked }

// refusal is how long a client may leave a refusal unread.
const refusal = 3 * time.Second

func (i impatient) Write(p []byte) (int, error) {
	timer := time.AfterFunc(refusal, func() { _ = i.Close() }) // the write says so
	defer timer.Stop()
	return i.locked.Write(p)
}

// lines is an input that leaves out the lines that are no messages, and answers them. It
// is read by one goroutine.
type lines struct {
	closer  io.Closer
	from    *bufio.Reader
	answer  io.Writer
	rest    []byte      // of a good line
	batches atomic.Bool // the client's revision of the protocol has batches
}

func (l *lines) Close() error { return l.closer.Close() }

func (l *lines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		line, long, err := l.line()
		if len(bytes.TrimSpace(line)) > 0 || long {
			var wrong *faulty
			if long {
				wrong = &faulty{id: idIn(line), code: jsonrpc.CodeInvalidRequest, what: fmt.Sprintf("the message is longer than %d MiB", maxLine>>20)}
			} else {
				wrong = l.check(line)
			}
			if wrong == nil {
				line = append(line, '\n')
				l.rest = line
				break // an error comes again with the next read
			}
			if _, err := l.answer.Write(wrong.line()); err != nil {
				return 0, err
			}
		}
		if err != nil {
			return 0, err
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// line is the next line. Of one that is too long it is the beginning.
func (l *lines) line() (line []byte, long bool, err error) {
	for {
		part, err := l.from.ReadSlice('\n')
		if !long {
			line = append(line, part...)
		}
		if len(line) > maxLine {
			line, long = bytes.Clone(line[:longBeginning]), true
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, long, err
		}
	}
}

// longBeginning is how much is kept of a message that is too long.
const longBeginning = 64 << 10

// idIn is the id of a request of which only the beginning is there, so that whoever waits for the
// answer gets one; nil if it does not stand in it.
func idIn(begin []byte) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(begin))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	for {
		key, err := d.Token()
		if err != nil {
			return nil
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil
		}
		if key == "id" {
			if c := value[0]; c == '"' || c == '-' || '0' <= c && c <= '9' {
				return value
			}
			return nil
		}
	}
}

// faulty is what is wrong with a message.
type faulty struct {
	id   json.RawMessage // nil if it cannot be told
	code int
	what string
}

// line is the answer, as a line.
func (f *faulty) line() []byte {
	id := f.id
	if id == nil {
		id = json.RawMessage("null")
	}
	encoded, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": f.code, "message": f.what},
	})
	if err != nil { // of a text, a number and a valid id there is none
		return nil
	}
	return append(encoded, '\n')
}

// check says what is wrong with a line, or nil.
func (l *lines) check(line []byte) *faulty {
	all, _, wrong := inspect(line, l.batches.Load())
	for _, m := range all {
		if m.method == methodInitialize {
			var params struct {
				ProtocolVersion string `json:"protocolVersion"`
			}
			// What is wrong with it is the SDK's to say.
			known := json.Unmarshal(m.params, &params) == nil && params.ProtocolVersion != ""
			l.batches.Store(known && params.ProtocolVersion < revisionStructured)
		}
	}
	return wrong
}

// An envelope is what is looked at of a message before the SDK reads it.
type envelope struct {
	id     json.RawMessage // nil if there is none
	method string          // empty of a response
	params json.RawMessage // nil if there are none
}

// isRequest says whether a message wants an answer.
func (e envelope) isRequest() bool { return e.id != nil && e.method != "" }

const noBatches = "batches are not served in this revision of the protocol, and empty ones in none"

// inspect gives the messages of a text and whether they are a batch, or what is wrong with
// it. What it lets through, the SDK can read and answer.
func inspect(text []byte, batches bool) (all []envelope, batch bool, wrong *faulty) {
	if !json.Valid(text) {
		return nil, false, &faulty{code: jsonrpc.CodeParseError, what: "the message is not JSON"}
	}
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
		m, wrong := inspectMessage(text)
		if wrong != nil {
			return nil, false, wrong
		}
		return []envelope{m}, false, nil
	}
	var parts []json.RawMessage
	if json.Unmarshal(text, &parts) != nil || len(parts) == 0 || !batches {
		return nil, true, &faulty{code: jsonrpc.CodeInvalidRequest, what: noBatches}
	}
	ids := map[string]bool{}
	for _, part := range parts {
		m, wrong := inspectMessage(part)
		if wrong != nil {
			return nil, true, wrong
		}
		if m.id != nil && ids[string(m.id)] {
			return nil, true, &faulty{code: jsonrpc.CodeInvalidRequest, what: "an id is there twice in the batch"}
		}
		ids[string(m.id)] = true
		all = append(all, m)
	}
	return all, true, nil
}

func inspectMessage(text []byte) (envelope, *faulty) {
	var members map[string]json.RawMessage // nil of a member is absent; keys differ by case
	if json.Unmarshal(text, &members) != nil || members == nil {
		return envelope{}, &faulty{code: jsonrpc.CodeInvalidRequest, what: "a message is an object"}
	}
	id, hasID := members["id"]
	if hasID && !exactID(id) {
		return envelope{}, &faulty{code: jsonrpc.CodeInvalidRequest, what: "an id is a string, or a whole number of at most 53 bits"}
	}
	invalid := func(what string) (envelope, *faulty) {
		return envelope{}, &faulty{id: id, code: jsonrpc.CodeInvalidRequest, what: what}
	}
	var version, method string
	if json.Unmarshal(members["jsonrpc"], &version) != nil || version != "2.0" {
		return invalid(`jsonrpc is not "2.0"`)
	}
	if deeperThan(text, maxDepth) {
		return invalid("it is nested too deep")
	}
	_, failed := members["error"]
	if name, ok := members["method"]; ok {
		if failed {
			return invalid("a request has no error")
		}
		if name[0] != '"' || json.Unmarshal(name, &method) != nil || method == "" {
			return invalid("method is no string, or empty")
		}
		return envelope{id: id, method: method, params: members["params"]}, nil
	}
	_, result := members["result"]
	if !hasID || result == failed {
		return invalid("a message has a method, or is a response with a result or an error")
	}
	var reason struct {
		Code    int64  `json:"code"`
		Message string `json:"message"`
	}
	if failed && json.Unmarshal(members["error"], &reason) != nil {
		return invalid("an error has a whole number as its code and a text as its message")
	}
	return envelope{id: id}, nil
}

// maxDepth is how deep a message may be nested: the SDK takes 1,000 levels.
const maxDepth = 500

// deeperThan reports whether a text of JSON, which is valid, is nested deeper.
func deeperThan(text []byte, most int) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted:
			if c == '\\' {
				i++
			} else if c == '"' {
				quoted = false
			}
		case c == '"':
			quoted = true
		case c == '{', c == '[':
			if depth++; depth > most {
				return true
			}
		case c == '}', c == ']':
			depth--
		}
	}
	return false
}

// exactID says whether an id comes back as it is.
func exactID(id json.RawMessage) bool {
	if id[0] == '"' {
		return true
	}
	n, ok := new(big.Int).SetString(string(id), 10)
	return ok && n.IsInt64() && n.CmpAbs(big.NewInt(1<<53)) <= 0 && n.String() == string(id)
}

// discreet is a connection that sends no response to a request that was cancelled.
type discreet struct {
	mcp.Connection
	lines *lines

	mu      sync.Mutex
	running map[jsonrpc.ID]bool // under mu: the requests that are not answered yet; true for those that were cancelled
	writing int                 // under mu: the answers that the client has not taken yet
}

// maxRunning is how many requests of a client on streams run at a time.
const maxRunning = 256

// Read gives the next message that is to be served. A request for which there is no
// place is answered here: a client that does not read that is not read from either.
func (d *discreet) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := d.Connection.Read(ctx)
		r, ok := m.(*jsonrpc.Request)
		if err != nil || !ok {
			return m, err
		}
		wrong := d.note(r)
		if wrong == nil {
			return m, nil
		}
		if _, err := d.lines.answer.Write(wrong.line()); err != nil {
			return nil, err
		}
	}
}

// note takes down a request, or says why it is not served.
func (d *discreet) note(r *jsonrpc.Request) *faulty {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case r.IsCall() && !d.lines.batches.Load(): // a batch is answered whole
		if _, twice := d.running[r.ID]; twice { // an answer with the id would be the first one's
			return &faulty{code: jsonrpc.CodeInvalidRequest, what: "the id is that of a request which is not answered yet"}
		}
		if len(d.running)+d.writing >= maxRunning {
			id, err := json.Marshal(r.ID.Raw())
			if err != nil {
				id = nil
			}
			return &faulty{id: id, code: codeBusy, what: fmt.Sprintf("%d requests run already: wait for some of them to end", maxRunning)}
		}
		d.running[r.ID] = false
	case r.IsCall():
		if _, twice := d.running[r.ID]; !twice {
			d.running[r.ID] = false
		}
	case r.Method == methodCancelled:
		var params struct {
			RequestID any `json:"requestId"`
		}
		if json.Unmarshal(r.Params, &params) != nil {
			break
		}
		id, err := jsonrpc.MakeID(params.RequestID)
		if _, runs := d.running[id]; err == nil && runs {
			d.running[id] = true
		}
	}
	return nil
}

// codeBusy is the code of an error that says to try again later.
const codeBusy = -32000

func (d *discreet) Write(ctx context.Context, m jsonrpc.Message) error {
	if r, ok := m.(*jsonrpc.Response); ok {
		d.mu.Lock()
		cancelled := d.running[r.ID]
		delete(d.running, r.ID) // before it is written: the client may use the id again then
		d.writing++
		d.mu.Unlock()
		defer func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.writing--
		}()
		if cancelled && r.Error != nil && !d.lines.batches.Load() { // a batch is answered whole
			return nil
		}
	}
	return d.Connection.Write(ctx, m)
}
