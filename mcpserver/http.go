package mcpserver

import (
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// sessionTimeout is how long a session of the first era lasts without a request.
const sessionTimeout = time.Hour

// locations serves the Locations at /locations/NAME/mcp, both eras at the same address.
func (s *Server) locations() http.Handler {
	options := mcp.StreamableHTTPOptions{
		Logger: s.options.Log, SessionTimeout: sessionTimeout, MaxRequestBodyBytes: maxMessage,
		PropagateRequestCancellation: true, // or a client that goes away leaves its call running
	}
	of := func(r *http.Request) *mcp.Server {
		f, err := s.face(r.Context(), r.PathValue("name"))
		if err != nil {
			return nil
		}
		return f.sdk
	}
	sessions := mcp.NewStreamableHTTPHandler(of, &options)
	options.Stateless = true
	sessionless := mcp.NewStreamableHTTPHandler(of, &options)
	mux := http.NewServeMux()
	mux.HandleFunc("/locations/{name}/mcp", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("MCP-Protocol-Version") >= eraWithoutSessions {
			sessionless.ServeHTTP(w, r)
			return
		}
		sessions.ServeHTTP(w, r)
	})
	return mux
}
