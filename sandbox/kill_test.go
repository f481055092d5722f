package sandbox

import (
	"context"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// Whatever the tree does, Kill returns within two seconds, and nothing is left. Seen to fail with awaitGone waiting without
// a timer, with killByHand leaving the tree or the reaper alone, and with Kill sending no SIGCONT (the stopped reaper has to
// be killed by hand, and the exit is lost).
func TestLaw42BoundedKill(t *testing.T) {
	t.Parallel()
	killed := Exit{Code: -1, Signal: "killed"}
	lost := Exit{Code: -1, Lost: true}
	tests := []struct {
		name, role, script string
		stop               func(*tree) []int
		want               Exit
	}{
		{"ignores signals", reaperRole, "trap '' TERM HUP INT CONT; echo ready; while :; do sleep 0.1; done", nil, killed},
		{"busy", reaperRole, "echo ready; while :; do :; done", nil, killed},
		{"stopped program", reaperRole, daemons, func(p *tree) []int { return []int{p.Pid()} }, killed},
		{"stopped tree", reaperRole, daemons, func(p *tree) []int { return marked(p.mark) }, killed},
		{"stopped reaper", reaperRole, daemons, func(p *tree) []int { return []int{p.Top()} }, killed},
		{"all stopped", reaperRole, daemons, func(p *tree) []int { return append(marked(p.mark), p.Top()) }, killed},
		{"deaf reaper, all stopped", deafRole, daemons, func(p *tree) []int { return append(marked(p.mark), p.Top()) }, lost},
		{"deaf reaper, forking", deafRole, "echo ready; while :; do sleep 0.1 & sleep 0.01; done", nil, lost},
		{"group, ignores signals", groupRole, "trap '' TERM HUP INT CONT; echo ready; while :; do sleep 0.1; done", nil, killed},
		{"group, stopped", groupRole, "sleep 1000 & echo ready; exec sleep 1000", func(p *tree) []int { return marked(p.mark) }, killed},
		{"group, storm", groupRole, "echo ready; while :; do sleep 0.05 & done", nil, killed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			tries := 1
			if test.role == deafRole {
				tries = 5
			}
			for ; ; tries-- {
				p := plant(t, test.role, test.script)
				p.wantLine("ready")
				if test.stop != nil {
					for _, pid := range test.stop(p) {
						stop(t, pid)
					}
				}
				begin := time.Now()
				err := p.Kill(t.Context())
				wantBounded(t, begin)
				if err != nil && tries > 1 {
					// The time that a machine under load has for the work by hand was too short. That it says so is right; try again.
					t.Logf("Kill = %v", err)
					continue
				}
				if err != nil {
					t.Errorf("Kill = %v", err)
				}
				p.wantNone()
				if got := p.Exit(); got != test.want {
					t.Errorf("Exit = %+v, want %+v", got, test.want)
				}
				return
			}
		})
	}
}

// wantKilled reports whether Kill had no error. It may have one where the reaper is deaf: on a machine under load, the time
// for the work by hand may be too short to see that all have ended. They end all the same.
func (tr *tree) wantKilled(role string, err error) bool {
	tr.t.Helper()
	if err == nil {
		return true
	}
	if role != deafRole {
		tr.t.Errorf("Kill = %v", err)
		return false
	}
	tr.t.Logf("Kill = %v", err)
	eventually(tr.t, patience, "no process of the tree is left", func() bool { return len(marked(tr.mark)) == 0 })
	return false
}

// wantBounded allows for a slow machine.
func wantBounded(t *testing.T, begin time.Time) {
	t.Helper()
	if took := time.Since(begin); took > 4*time.Second {
		t.Errorf("it took %v, want two seconds at most", took)
	}
}

// Seen to fail with awaitGone not looking at the context.
func TestLaw42Patience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const after = reaperPatience - hurriedReaper/2
		tests := []struct {
			name            string
			cancelled, gone time.Duration // when that happens, if it does
			want            time.Duration
			wantGone        bool
		}{
			{"nothing happens", 0, 0, reaperPatience, false},
			{"gone", 0, after, after, true},
			{"cancelled first", 1, 0, 1 + hurriedReaper, false},
			{"cancelled late", after, 0, reaperPatience, false},
			{"cancelled, gone", 1, 1 + hurriedReaper/2, 1 + hurriedReaper/2, true},
			{"cancelled, gone too late", 1, after, 1 + hurriedReaper, false},
		}
		for _, test := range tests {
			p := &Process{gone: make(chan struct{})}
			ctx, cancel := context.WithCancel(t.Context())
			if test.cancelled > 0 {
				time.AfterFunc(test.cancelled, cancel)
			}
			if test.gone > 0 {
				time.AfterFunc(test.gone, func() { close(p.gone) })
			}
			begin := time.Now()
			gone := p.awaitGone(ctx, reaperPatience)
			if took := time.Since(begin); took != test.want || gone != test.wantGone {
				t.Errorf("%s: %v after %v, want %v after %v", test.name, gone, took, test.wantGone, test.want)
			}
			cancel()
		}
	})
}

// When the context is over there is less patience with the reaper, but the tree is ended all the same.
func TestLaw42KillInAHurry(t *testing.T) {
	t.Parallel()
	for _, role := range []string{reaperRole, groupRole, deafRole} {
		t.Run(strings.TrimPrefix(role, "__"), func(t *testing.T) {
			t.Parallel()
			p := plant(t, role, "sleep 1000 & echo ready; exec sleep 1000")
			p.wantLine("ready")
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			begin := time.Now()
			err := p.Kill(ctx)
			wantBounded(t, begin)
			if p.wantKilled(role, err) {
				p.wantNone()
			}
		})
	}
}

func TestKillConcurrentlyAndAgain(t *testing.T) {
	t.Parallel()
	for _, role := range []string{reaperRole, groupRole, deafRole} {
		for _, when := range []string{"before the exit", "at the exit", "after the exit"} {
			if role == deafRole && when != "before the exit" {
				continue // it does not notice
			}
			t.Run(strings.TrimPrefix(role, "__")+" "+when, func(t *testing.T) {
				t.Parallel()
				p := plant(t, role, "sleep 1000 & echo ready; exec sleep 1000")
				p.wantLine("ready")
				if when != "before the exit" {
					if err := syscall.Kill(p.Pid(), syscall.SIGTERM); err != nil {
						t.Fatal(err)
					}
				}
				if when == "after the exit" {
					await(t, "the exit", p.Exited())
				}
				begin := time.Now()
				var killers sync.WaitGroup
				for range 10 {
					killers.Go(func() { p.wantKilled(role, p.Kill(t.Context())) })
				}
				killers.Wait()
				err := p.Kill(t.Context())
				wantBounded(t, begin)
				if p.wantKilled(role, err) {
					p.wantNone()
				}
			})
		}
	}
}
