package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"sync"
	"sync/atomic"

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
	lines := &lines{closer: s.in, from: bufio.NewReader(s.in), answer: out}
	connection, err := (&mcp.IOTransport{Reader: lines, Writer: out, MaxLineLength: maxMessage}).Connect(ctx)
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
			wrong := &faulty{code: jsonrpc.CodeInvalidRequest, what: "the message is longer than 4 MiB"}
			if !long {
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

// line is the next line, or that it was too long and is left out.
func (l *lines) line() (line []byte, long bool, err error) {
	for {
		part, err := l.from.ReadSlice('\n')
		if !long {
			line = append(line, part...)
		}
		if len(line) > maxMessage {
			line, long = nil, true
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, long, err
		}
	}
}

// faulty is what is wrong with a message.
type faulty struct {
	id   json.RawMessage // nil if it cannot be told
	code int
	what string
}

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
	if !json.Valid(line) {
		return &faulty{code: jsonrpc.CodeParseError, what: "the line is not JSON"}
	}
	if bytes.HasPrefix(bytes.TrimSpace(line), []byte("[")) {
		var batch []json.RawMessage
		if json.Unmarshal(line, &batch) != nil || len(batch) == 0 || !l.batches.Load() {
			return &faulty{code: jsonrpc.CodeInvalidRequest, what: "batches are not served in this revision of the protocol, and empty ones in none"}
		}
		for _, each := range batch {
			if wrong := l.checkMessage(each); wrong != nil {
				return wrong
			}
		}
		return nil
	}
	return l.checkMessage(line)
}

func (l *lines) checkMessage(text []byte) *faulty {
	var members map[string]json.RawMessage // nil of a member is absent; keys differ by case
	if json.Unmarshal(text, &members) != nil || members == nil {
		return &faulty{code: jsonrpc.CodeInvalidRequest, what: "a message is an object"}
	}
	id, hasID := members["id"]
	if hasID && !exactID(id) {
		return &faulty{code: jsonrpc.CodeInvalidRequest, what: "an id is a string, or a whole number of at most 53 bits"}
	}
	invalid := func(what string) *faulty { return &faulty{id: id, code: jsonrpc.CodeInvalidRequest, what: what} }
	var version, method string
	if json.Unmarshal(members["jsonrpc"], &version) != nil || version != "2.0" {
		return invalid(`jsonrpc is not "2.0"`)
	}
	if name, ok := members["method"]; ok {
		if name[0] != '"' || json.Unmarshal(name, &method) != nil {
			return invalid("method is no string")
		}
		if method == "initialize" {
			var params struct {
				ProtocolVersion string `json:"protocolVersion"`
			}
			// What is wrong with it is the SDK's to say.
			known := json.Unmarshal(members["params"], &params) == nil && params.ProtocolVersion != ""
			l.batches.Store(known && params.ProtocolVersion < revisionStructured)
		}
		return nil
	}
	_, result := members["result"]
	_, failed := members["error"]
	if !hasID || result == failed {
		return invalid("a message has a method, or is a response with a result or an error")
	}
	return nil
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
}

func (d *discreet) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := d.Connection.Read(ctx)
	r, ok := m.(*jsonrpc.Request)
	if err != nil || !ok {
		return m, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case r.IsCall():
		if _, twice := d.running[r.ID]; !twice { // that is refused, and the first one goes on
			d.running[r.ID] = false
		}
	case r.Method == "notifications/cancelled":
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
	return m, nil
}

func (d *discreet) Write(ctx context.Context, m jsonrpc.Message) error {
	if r, ok := m.(*jsonrpc.Response); ok {
		d.mu.Lock()
		cancelled := d.running[r.ID]
		delete(d.running, r.ID)
		d.mu.Unlock()
		if cancelled && r.Error != nil && !d.lines.batches.Load() { // a batch is answered whole
			return nil
		}
	}
	return d.Connection.Write(ctx, m)
}
