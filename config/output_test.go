package config

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

func limits(lines, bytes int) OutputLimits { return OutputLimits{MaxLines: lines, MaxBytes: bytes} }

func wantOutput(t *testing.T, got, want Output) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestLaw17OutputDefaults: what no file speaks of is 2,000 lines, 50 KiB and seven days.
func TestLaw17OutputDefaults(t *testing.T) {
	for _, text := range []string{"", "output: {}\n", "output: null\ninstructions: null\n", "output: {max_lines: null, max_bytes: null, quota: null, tools: null}\n"} {
		w := newWorld(t)
		w.file = w.write(FileName, text)
		l := w.mustLoad().Locations[0]
		wantOutput(t, l.Output, Output{OutputLimits: limits(2000, 51200), Retention: 168 * time.Hour, Quota: 1 << 30})
		if want := []string{"AGENTS.md"}; !slices.Equal(l.Instructions, want) {
			t.Errorf("%q: instructions: got %q, want %q", text, l.Instructions, want)
		}
	}
}

// TestOutputLayers: key by key, the user's file, the top of the project's, the
// Location's entry. Seen to fail with the layers in the other order.
func TestOutputLayers(t *testing.T) {
	w := newWorld(t)
	w.writeUser(`
output: {max_lines: 10, max_bytes: 2000, retention: 48h, quota: 2GiB, tools: {weather/now: {max_lines: 5}, other/x: {max_lines: 1}, gone/x: {}}}
instructions: [USER.md]
`)
	c := w.loadProject(`
plugins: {filesystem: {}, weather: {command: [./w]}, other: {command: [./o]}}
output: {max_lines: 20, retention: 24h, quota: 100MB, tools: {weather/now: {max_bytes: 3000}, filesystem/read: {max_lines: 7}}}
instructions: [B.md, A.md]
locations:
  plain: {root: .}
  own:
    root: sub
    output: {max_bytes: 4000, retention: 36h, tools: {filesystem/read: {max_lines: null}, other/x: null, toolhost/output_read: {max_lines: 9}}}
    instructions: []
  reset: {root: up, output: null, instructions: null}
  nulls: {root: down, output: {max_lines: null, quota: null, tools: null}}
`)
	for i, want := range []struct {
		output       Output
		instructions []string
	}{
		{Output{limits(20, 2000), map[string]OutputLimits{
			"weather/now": limits(5, 3000), "filesystem/read": limits(7, 2000), "other/x": limits(1, 2000), "gone/x": limits(20, 2000),
		}, 24 * time.Hour, 100_000_000}, []string{"B.md", "A.md"}},
		{Output{limits(20, 4000), map[string]OutputLimits{
			"weather/now": limits(5, 3000), "filesystem/read": limits(20, 4000), "toolhost/output_read": limits(9, 4000), "gone/x": limits(20, 4000),
		}, 36 * time.Hour, 100_000_000}, []string{}},
		{Output{limits(2000, 51200), nil, 48 * time.Hour, 1 << 30}, []string{"AGENTS.md"}},
		{Output{limits(2000, 2000), nil, 24 * time.Hour, 1 << 30}, []string{"B.md", "A.md"}},
	} {
		l := c.Locations[i]
		wantOutput(t, l.Output, want.output)
		if !slices.Equal(l.Instructions, want.instructions) {
			t.Errorf("%s: instructions: got %q, want %q", l.Name, l.Instructions, want.instructions)
		}
	}
	own := c.Locations[1].Output
	for id, want := range map[string]OutputLimits{"weather/now": limits(5, 3000), "weather/later": limits(20, 4000)} {
		if got := own.Limits(id); got != want {
			t.Errorf("limits of %s: got %+v, want %+v", id, got, want)
		}
	}
}

// TestLaw40ProjectKeepsNoMoreThanTheUser: a project's file cannot take more of the
// user's storage, nor for longer, whether the user said anything or not, and
// neither can one that is named. Seen to fail without the two minima.
func TestLaw40ProjectKeepsNoMoreThanTheUser(t *testing.T) {
	for _, c := range []struct {
		user, project string
		retention     time.Duration
		quota         int64
	}{
		{"", "output: {retention: 1000h, quota: 1TiB}\n", 168 * time.Hour, 1 << 30},
		{"output: {retention: 1h, quota: 10MB}\n", "output: {retention: 2h, quota: 20MB}\n", time.Hour, 10_000_000},
		{"output: {retention: 1h, quota: 10MB}\n", "output: {retention: 30m, quota: 5MB}\n", 30 * time.Minute, 5_000_000},
		{"output: {retention: 1h, quota: 10MB}\n", "output: null\n", time.Hour, 10_000_000},
		{"output: {retention: 1000h, quota: 8GiB}\n", "", 1000 * time.Hour, 8 << 30},
		{"output: {retention: 1000h, quota: 8GiB}\n", "output: {retention: 500h, quota: 4GB}\n", 500 * time.Hour, 4_000_000_000},
	} {
		for _, named := range []bool{false, true} {
			w := newWorld(t)
			if c.user != "" {
				w.writeUser(c.user)
			}
			path := w.write(FileName, c.project)
			if named {
				w.file = path
			} else {
				w.trust(path)
			}
			got := w.mustLoad().Locations[0].Output
			if got.Retention != c.retention || got.Quota != c.quota {
				t.Errorf("user %q, project %q: got %v, %d, want %v, %d", c.user, c.project, got.Retention, got.Quota, c.retention, c.quota)
			}
		}
	}
}

// TestLaw40UntrustedFileHasNoSayInOutputs: as if it were absent.
func TestLaw40UntrustedFileHasNoSayInOutputs(t *testing.T) {
	w := newWorld(t)
	w.writeUser("output: {max_lines: 10}\ninstructions: [USER.md]\n")
	w.write(FileName, "output: {max_lines: 9, max_bytes: 1024, retention: 1m, quota: 1MiB, tools: {filesystem/read: {max_lines: 1}}}\ninstructions: [EVIL.md]\n")
	l := w.mustLoad().Locations[0]
	wantOutput(t, l.Output, Output{OutputLimits: limits(10, 51200), Retention: 168 * time.Hour, Quota: 1 << 30})
	if want := []string{"USER.md"}; !slices.Equal(l.Instructions, want) {
		t.Errorf("got %q, want %q", l.Instructions, want)
	}
}

// TestSizes: a number, or a text with a unit of thousands or of 1024.
func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"1048576": 1 << 20, "2e6": 2_000_000, "2000000.0": 2_000_000, `"5000000 B"`: 5_000_000, "1024KiB": 1 << 20, "3000kB": 3_000_000,
		"3000KB": 3_000_000, "5 MB": 5_000_000, "5MiB": 5 << 20, "1GB": 1_000_000_000, "1GiB": 1 << 30, "0x200000": 2 << 20,
	} {
		w := newWorld(t)
		w.writeUser("output: {quota: " + text + "}\n")
		if got := w.mustLoad().Locations[0].Output.Quota; got != want {
			t.Errorf("%s: got %d, want %d", text, got, want)
		}
	}
}
