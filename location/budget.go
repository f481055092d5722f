package location

import (
	"cmp"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Supervision is how plugins that crash or hang are dealt with. The zero value is what
// law 44 says.
type Supervision struct {
	// Restarts is how often a plugin is started again within Window before it is given
	// up: 3 if it is 0, and never if it is negative. Window is ten minutes if it is 0.
	Restarts int
	Window   time.Duration
	// First is how long the first restart waits, half a second if it is 0; each further
	// one waits twice as long, with jitter, and Most at most: thirty seconds.
	First, Most time.Duration
	// Health is how often a plugin without calls is asked whether it answers: every
	// thirty seconds if it is 0, never if it is negative. One that does not within Answer,
	// ten seconds, is replaced as if it had crashed.
	Health, Answer time.Duration
	// Drain is how long a plugin that was replaced or removed serves what was captured
	// before, and ends what runs: thirty seconds if it is 0, not at all if it is negative.
	Drain time.Duration
}

// DefaultDrain is how long what was replaced is drained.
const DefaultDrain = 30 * time.Second

func (s Supervision) withDefaults() Supervision {
	return Supervision{
		Restarts: cmp.Or(s.Restarts, 3), Window: cmp.Or(max(s.Window, 0), 10*time.Minute),
		First: cmp.Or(max(s.First, 0), 500*time.Millisecond), Most: cmp.Or(max(s.Most, 0), 30*time.Second),
		Health: cmp.Or(s.Health, 30*time.Second), Answer: cmp.Or(max(s.Answer, 0), 10*time.Second),
		Drain: cmp.Or(s.Drain, DefaultDrain),
	}
}

// jitter is by which part a wait may be shorter or longer, so that plugins that failed
// together do not start together.
const jitter = 0.2

// budget is how often, and after how long, one plugin is started again. One goroutine
// has it.
type budget struct {
	rules  Supervision // with its defaults
	waits  backoff.ExponentialBackOff
	recent []time.Time // of the restarts within the window
}

func newBudget(rules Supervision) *budget {
	b := &budget{rules: rules}
	b.renew()
	return b
}

// renew forgets what was spent.
func (b *budget) renew() {
	b.recent = nil
	b.waits = backoff.ExponentialBackOff{
		InitialInterval: b.rules.First, MaxInterval: b.rules.Most, Multiplier: 2, RandomizationFactor: jitter,
	}
	b.waits.Reset()
}

// spend gives how long to wait before the next restart, or false if there is none. Whoever
// held out for a whole window begins anew.
func (b *budget) spend(now time.Time) (wait time.Duration, ok bool) {
	if b.rules.Restarts < 0 {
		return 0, false
	}
	b.recent = slices.DeleteFunc(b.recent, func(at time.Time) bool { return now.Sub(at) >= b.rules.Window })
	if len(b.recent) == 0 {
		b.renew()
	}
	if len(b.recent) >= b.rules.Restarts {
		return 0, false
	}
	b.recent = append(b.recent, now)
	return min(b.waits.NextBackOff(), b.rules.Most), true
}
