package control

import (
	"net/http"
	"time"
)

// watch writes a line with the whole list at once and after each change, and an
// empty one when nothing has changed for a while. It goes on until the client is
// gone or takes nothing, or the server is closed. The queue does not wait for it.
func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	select {
	case s.watchers <- struct{}{}:
		defer func() { <-s.watchers }()
	default:
		send(w, http.StatusServiceUnavailable, &Error{
			Code: CodeBusy, Message: "too many watch this host already: end one of them, or list from time to time",
		})
		return
	}
	changes, stop := s.queue.Watch() // before the first list, so that no change is missed
	defer stop()
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "application/x-ndjson")
	write := func(line []byte) bool {
		if err := control.SetWriteDeadline(time.Now().Add(s.pace.patience)); err != nil {
			return false
		}
		_, err := w.Write(line)
		return err == nil && control.Flush() == nil
	}
	beat := time.NewTicker(s.pace.heartbeat)
	defer beat.Stop()
	for {
		line, err := s.contained(s.list, r)
		if err != nil {
			return
		}
		encoded, err := encode(line)
		if err != nil || !write(encoded) {
			return
		}
		select { // a burst of changes is one
		case <-time.After(s.pace.pause):
		case <-r.Context().Done():
			return
		}
		for changed := false; !changed; {
			select {
			case <-changes:
				changed = true
			case <-beat.C:
				if !write([]byte("\n")) {
					return
				}
			case <-r.Context().Done():
				return
			}
		}
	}
}
