package location

import (
	"cmp"
	"context"
	"log/slog"
	"slices"

	"github.com/toolhost/toolhost/plugin/client"
)

// A Failure is one plugin that does not serve, or not as it is meant to now.
type Failure struct {
	Plugin string `json:"plugin"`
	// State is which state it is in where it does not serve: failed, refused, restarting or
	// starting. It is empty where it did not start as it is meant to now, and what served
	// before goes on.
	State  client.State `json:"state,omitempty"`
	Reason string       `json:"reason"`
}

// retry makes a plugin that waits, or was given up, start now. It gives the number of that
// restart, for await.
func (p *plugin) retry() int {
	p.mu.Lock()
	next := p.restarts + 1
	p.mu.Unlock()
	select {
	case p.kick <- struct{}{}:
	default:
	}
	return next
}

// await waits until it is known what became of the start of a plugin, and of its restart of
// that number. The timeout of a start bounds it, and ctx.
func (p *plugin) await(ctx context.Context, restart int) {
	for {
		p.mu.Lock()
		state, tried, turn := p.state, p.tried, p.turn
		p.mu.Unlock()
		if state == client.Ready || state != client.Starting && tried >= restart {
			return
		}
		select {
		case <-turn:
		case <-ctx.Done():
			return
		case <-p.wanted.Context().Done():
			return
		}
	}
}

// settle makes failures of the kept plugins that do not serve.
func (r *Report) settle(plugins []*plugin) {
	for _, p := range plugins {
		if !slices.Contains(r.Kept, p.config.Name) {
			continue
		}
		p.mu.Lock()
		state, reason := p.state, cmp.Or(p.reason, "it has not started yet")
		p.mu.Unlock()
		if state == client.Ready {
			continue
		}
		name := p.config.Name
		r.Kept = slices.DeleteFunc(r.Kept, func(kept string) bool { return kept == name })
		r.Failures = append(slices.DeleteFunc(r.Failures, func(f Failure) bool { return f.Plugin == name }), Failure{name, state, reason})
	}
}

// logState logs a state. That a plugin does not serve until somebody does something is a
// warning, except where nothing is started again: there whoever asked is told.
func (p *plugin) logState(s client.State, reason string) {
	log := p.location.log.With(slog.String("plugin", p.config.Name), slog.String("state", string(s)))
	if s != client.Failed && s != Refused || p.budget.rules.Restarts < 0 {
		log.Debug("plugin")
		return
	}
	log.Warn("a plugin does not serve: correct what is said, or have toolhost reload try it again", slog.String("reason", reason))
}

// madeOf reports whether the files that the plugin is made of look like that.
func (p *plugin) madeOf(program string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.program == program
}
