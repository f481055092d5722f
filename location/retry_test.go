package location_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/plugin/client"
)

// A reload that tries plugins again waits for what becomes of them, and says of each that
// does not serve its state and the reason; only what serves is kept (laws 43, 44).
//
// Seen to fail: without the settling of the report.
func TestLaw44ReloadSaysWhatDoesNotServe(t *testing.T) {
	rules := hasty
	rules.Restarts, rules.First, rules.Most = 1, time.Hour, time.Hour
	s := newStage(t, rules, func(s *stage) []config.Plugin {
		s.put("fail")
		good, pinned := s.moodyPlugin("good", "1"), s.moodyPlugin("pinned", "1")
		good.Command[2] = t.TempDir()
		pinned.SHA256 = strings.Repeat("0", 64)
		return []config.Plugin{s.moodyPlugin("m", "1"), good, pinned}
	})
	s.reaches("m", location.Restarting)
	report := s.reload(func(*config.Location) {})
	states := map[string]client.State{}
	for _, f := range report.Failures {
		states[f.Plugin] = f.State
		if want := map[string]string{"m": "exit status 3", "pinned": "sha256"}[f.Plugin]; !strings.Contains(f.Reason, want) {
			t.Errorf("%s: %q, want %q in it", f.Plugin, f.Reason, want)
		}
	}
	if report.Stale != "" || !slices.Equal(report.Kept, []string{"good"}) || len(states) != 2 || states["m"] != location.Restarting || states["pinned"] != location.Refused {
		t.Errorf("got %+v", report)
	}
}

// What is tried again and serves when the reload is over is kept.
//
// Seen to fail: without the waiting.
func TestLaw44ReloadWaitsForWhatIsTriedAgain(t *testing.T) {
	s := newStage(t, hasty, func(s *stage) []config.Plugin {
		s.put("fail")
		return []config.Plugin{s.moodyPlugin("m", "1")}
	})
	got := s.reaches("m", client.Failed)
	if !strings.Contains(got.Reason, "toolhost reload tries it again") {
		t.Errorf("the reason is %q", got.Reason)
	}
	s.take("fail")
	if report := s.reload(func(*config.Location) {}); !slices.Equal(report.Kept, []string{"m"}) || len(report.Failures) != 0 {
		t.Errorf("got %+v", report)
	}
	if got := s.status("m"); got.State != client.Ready {
		t.Errorf("got %+v", got)
	}
}

// What a program spent of the restarts is not what the next build of it has spent (law 44).
//
// Seen to fail: with the budget of the one before.
func TestLaw44RebuiltProgramBeginsAnew(t *testing.T) {
	program := t.TempDir() + "/plugin"
	copyProgram(t, program)
	rules := hasty
	rules.Restarts, rules.First, rules.Most = 1, time.Hour, time.Hour
	s := newStage(t, rules, func(s *stage) []config.Plugin {
		s.put("fail")
		return []config.Plugin{s.moodyProgram("m", program, "1")}
	})
	s.reaches("m", location.Restarting)
	s.take("fail")
	copyProgram(t, program)
	if report := s.reload(func(*config.Location) {}); len(report.Failures) != 0 || s.status("m").State != client.Ready {
		t.Fatalf("got %+v of %+v", report, s.status("m"))
	}
	_, _ = s.call(s.Capture(), "crash")
	s.eventually("the end of it", func() bool { return s.status("m").State != client.Ready })
	if got := s.status("m"); got.State != location.Restarting {
		t.Errorf("got %+v", got)
	}
}
