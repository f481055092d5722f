package mcpserver

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// headerPost names the HTTP request of a call to what runs the call, which the SDK does
// in the context of its session. What a client sends in it is replaced.
const headerPost = "Toolhost-Request"

// errGone is why a call ends whose client is gone.
var errGone = errors.New("the client closed its request")

// posts are the HTTP requests that are being answered. The zero value is empty and ready.
type posts struct {
	mu  sync.Mutex
	all map[string]context.Context // under mu
}

// tie notes a request until untie is called.
func (p *posts) tie(r *http.Request) (untie func()) {
	name := rand.Text()
	r.Header.Set(headerPost, name)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all = map[string]context.Context{}
	}
	p.all[name] = r.Context()
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.all, name)
	}
}

// until is a context that ends with the HTTP request as well, if there is one. No client
// can come back for the answer, since no stream is kept to be resumed; and its word that
// a call is cancelled may overtake the call, so that a request that was closed may be all
// that is heard of it.
func (p *posts) until(ctx context.Context, extra *mcp.RequestExtra) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	name := ""
	if extra != nil && extra.Header != nil {
		name = extra.Header.Get(headerPost)
	}
	if name == "" {
		return ctx, func() { cancel(nil) }
	}
	p.mu.Lock()
	post := p.all[name]
	p.mu.Unlock()
	if post == nil { // it has ended before its call began
		cancel(errGone)
		return ctx, func() {}
	}
	release := context.AfterFunc(post, func() { cancel(errGone) })
	return ctx, func() {
		release()
		cancel(nil)
	}
}
