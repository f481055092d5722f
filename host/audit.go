package host

import (
	"log/slog"
	"sync"

	"github.com/toolhost/toolhost/state"
)

// audit appends to the audit log and says when that fails: the first time, and how
// much is missing when it works again. A call goes on meanwhile; what may do more than
// read is recorded in the state's database besides, or it does not run (law 15).
type audit struct {
	log  *state.Audit
	says *slog.Logger

	mu      sync.Mutex
	missing int // under mu: entries in a row that were not written
}

func (a *audit) take(entry state.AuditEntry) {
	err := a.log.Append(entry)
	a.mu.Lock()
	missing := a.missing
	if a.missing++; err == nil {
		a.missing = 0
	}
	a.mu.Unlock()
	switch {
	case err != nil && missing == 0:
		a.says.Error("the audit log has gaps from now on, and calls go on", slog.Any("error", err))
	case err == nil && missing > 0:
		a.says.Error("the audit log is written again", slog.Int("missing", missing))
	}
}
