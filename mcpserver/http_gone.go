package mcpserver

import (
	"context"
	"crypto/rand"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// headerPost names the HTTP request of a call to what runs the call, which the SDK does
// in the context of its session. What a client sends in it is replaced.
const headerPost = "Toolhost-Request"

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
	p.all[name] = r.Context() //nolint:fatcontext // each request has its own
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.all, name)
	}
}

// of is the context of the HTTP request that a call came in; without one it never ends.
func (p *posts) of(extra *mcp.RequestExtra) context.Context {
	name := postOf(extra)
	if name == "" {
		return context.Background()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if post := p.all[name]; post != nil {
		return post
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	return ended
}

// postOf is the name of the HTTP request that a message came in; without one it is empty.
func postOf(extra *mcp.RequestExtra) string {
	if extra == nil || extra.Header == nil {
		return ""
	}
	return extra.Header.Get(headerPost)
}
