package mcpserver

import (
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// single are the headers that decide something, of which a second one could be read by
// somebody on the way, and the first one here.
var single = [...]string{"Authorization", "Origin", headerVersion, headerSession, "Mcp-Method", "Mcp-Name", "Content-Type"}

const (
	headerVersion = "Mcp-Protocol-Version"
	headerSession = "Mcp-Session-Id"
)

// guarded lets in who may come in: a request for a host that this is, from no foreign
// page, and with a token if there are any.
func (d *door) guarded(next http.Handler) http.Handler {
	if !d.options.Tokens.Empty() {
		next = d.withToken(next)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		for _, name := range single {
			if len(r.Header.Values(name)) > 1 {
				refuse(w, http.StatusBadRequest, "the header "+name+" is there more than once")
				return
			}
		}
		if !d.isHost(r) {
			refuse(w, http.StatusForbidden, "the Host is none of this server's: use the address that it listens at, or name the host in its options")
			return
		}
		if foreign(r) {
			refuse(w, http.StatusForbidden, "the request is from a page of another origin")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isHost says whether a request is for this server: for loopback, for the address that it
// came in at, or for a name that the options give.
func (d *door) isHost(r *http.Request) bool {
	host := hostname(r.Host)
	ip := net.ParseIP(host)
	if host == "localhost" || ip != nil && ip.IsLoopback() {
		return true
	}
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && ip != nil && ip.Equal(at.IP) {
		return true
	}
	for _, name := range d.options.Hosts {
		if host != "" && host == hostname(name) {
			return true
		}
	}
	return false
}

// hostname is the host of an address with or without a port, as it is compared.
func hostname(address string) string {
	host := address
	if h, _, err := net.SplitHostPort(address); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// foreign says whether a browser sends a request for a page of another origin, with any
// method: [http.CrossOriginProtection] lets a foreign GET through, and here it is a
// stream.
func foreign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default:
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return len(r.Header.Values("Origin")) > 0
	}
	u, err := url.Parse(origin)
	return err != nil || u.Scheme != "http" && u.Scheme != "https" || !strings.EqualFold(u.Host, r.Host)
}

// withToken lets in who has a token.
func (d *door) withToken(next http.Handler) http.Handler {
	verified := auth.RequireBearerToken(d.options.Tokens.verify, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Del("WWW-Authenticate")
			next.ServeHTTP(w, r)
		}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		challenge := `Bearer realm="toolhost"`
		if r.Header.Get("Authorization") != "" {
			challenge += `, error="invalid_token"`
		}
		w.Header().Set("WWW-Authenticate", challenge) // unless it is verified
		verified.ServeHTTP(w, r)
	})
}

// refuse answers a request with an error that is nothing's of the protocol, in its form.
func refuse(w http.ResponseWriter, status int, why string) {
	code := int64(jsonrpc.CodeInvalidRequest)
	if status >= http.StatusInternalServerError {
		code = jsonrpc.CodeInternalError
	}
	body, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": code, "message": why},
	})
	if err != nil {
		panic(err) // it is made of strings and a number
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}

// unavailable answers that a request may be tried again.
func unavailable(w http.ResponseWriter, why string) {
	w.Header().Set("Retry-After", "5")
	refuse(w, http.StatusServiceUnavailable, why)
}
