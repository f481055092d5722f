package host

import (
	"context"
	"log/slog"
	"time"

	"github.com/toolhost/toolhost/location"
)

// closeIdle closes Locations that nobody uses, until ctx is over.
func (h *Host) closeIdle(ctx context.Context, idle time.Duration) error {
	ticker := time.NewTicker(min(max(idle/4, time.Millisecond), time.Minute))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		for _, l := range h.takeIdle(idle) {
			h.options.Log.Info("a Location that nobody uses is closed", slog.String("location", l.Name()))
			h.retire(l, 0)
		}
	}
}

// takeIdle takes out the Locations that nobody used for that long, so that whoever asks
// for one from now on gets another.
func (h *Host) takeIdle(idle time.Duration) (taken []*location.Location) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, a := range h.locations {
		if !a.ready() || a.location == nil || a.asking > 0 || time.Since(a.asked) < idle {
			continue
		}
		if use := a.location.Use(); use.Calls+use.Subscribers+use.Processes == 0 && time.Since(use.Last) >= idle {
			delete(h.locations, name)
			taken = append(taken, a.location)
		}
	}
	return taken
}

// retire closes a Location that nobody gets any more, once its calls have ended, and
// after patience at the latest.
func (h *Host) retire(l *location.Location, patience time.Duration) {
	err := h.life.Go("closing of "+l.Name(), func(ctx context.Context) error {
		deadline := time.After(patience)
		for waits := patience > 0; waits && l.Use().Calls > 0; {
			select {
			case <-deadline:
				waits = false
			case <-ctx.Done():
				waits = false
			case <-time.After(retireTick):
			}
		}
		if err := l.Close(context.WithoutCancel(ctx)); err != nil {
			h.options.Log.Error("a Location left something behind", slog.String("location", l.Name()), slog.Any("error", err))
		}
		return nil
	})
	if err != nil {
		h.options.Log.Debug("the host closes", slog.Any("error", err))
	}
}

// retireTick is how often a Location that is retired is looked at.
const retireTick = 20 * time.Millisecond
