package client_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Lines that would panic go-plugin, or fill or forge the host's log. The plugin
// serves, and what the host's log gets is bounded and clean.
func TestStderr(t *testing.T) {
	t.Parallel()
	tests := []struct {
		noise string
		want  string // in the log
		most  int    // bytes of the log
	}{
		{"level", "[1 map[a:<nil>]]", 8 << 10},
		{"mebibyte", "xxx", 40 << 10},
		{"nul", "\uFFFD\uFFFD", 60 << 10},
		{"controls", "over", 8 << 10},
		{"latin", "caf\uFFFD", 8 << 10},
		{"endless", "log lines dropped: the plugin writes too many", 4 << 20},
	}
	for _, tt := range tests {
		t.Run(tt.noise, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			i := b.start("noisy", tt.noise)
			if got := value[string](b, "echo", `{"text":"I serve"}`); got != "I serve" {
				t.Errorf("echo = %q", got)
			}
			if tt.noise == "endless" {
				time.Sleep(300 * time.Millisecond)
			}
			b.close(i)
			log := b.logged()
			wantIn(t, log, tt.want)
			if len(log) > tt.most {
				t.Errorf("the log has %d bytes, at most %d", len(log), tt.most)
			}
			if strings.ContainsAny(log, "\x1b\x07\x00\u202e") {
				t.Errorf("the log has control characters: %.500q", log)
			}
		})
	}
}

// The log service is bounded in the same way, and the plugin's words cannot be
// taken for the host's.
func TestLogService(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	i := b.start("many")
	value[bool](b, "say", `{"where":"log","text":"plugin=other\u001b[2J"}`)
	eventually(t, "the record", func() bool { return strings.Contains(b.logged(), "plugin=other") })
	wantIn(t, b.logged(), `plugin=many said.key="plugin=other`)
	value[bool](b, "say", `{"where":"log","times":5000,"text":"`+strings.Repeat("x", 1000)+`"}`)
	value[bool](b, "say", `{"where":"log","text":"`+strings.Repeat("y", 1<<20)+`"}`)
	if got := value[string](b, "echo", `{"text":"I serve"}`); got != "I serve" {
		t.Errorf("echo = %q", got)
	}
	b.close(i)
	log := b.logged()
	if n := strings.Count(log, "msg=xxx"); n > 2000 {
		t.Errorf("%d records were passed on", n)
	}
	if len(log) > 8<<20 || strings.Contains(log, "\x1b") {
		t.Errorf("the log has %d bytes", len(log))
	}
	for line := range strings.Lines(log) {
		if len(line) > 40<<10 {
			t.Errorf("a line has %d bytes", len(line))
		}
	}
}

// 1 MiB on the raw standard output after the handshake, with and without ends of
// lines, stops nothing. go-plugin stops reading at 64 KiB, and the plugin hangs.
func TestStdoutAfterHandshake(t *testing.T) {
	t.Parallel()
	for _, text := range []string{strings.Repeat("x", 1<<10), strings.Repeat("x", 1023) + `\n`} {
		b := newBench(t)
		b.start("raw-stdout")
		if got := value[string](b, "raw", fmt.Sprintf(`"print %s"`, text)); got != "done" {
			t.Errorf("the call = %q", got)
		}
	}
}
