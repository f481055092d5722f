package search

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolhost/toolhost/service"
)

// A short pattern that makes a large program is refused before it is made. Broken
// by hand: without the bound, and with a repetition counted once.
func TestCaseH16LargePattern(t *testing.T) {
	for _, pattern := range []string{
		strings.Repeat("[^z]{0,999}", 300) + "[qr]",
		strings.Repeat("a{1000}", 11),
		"((a{10}){10}b{100}){10}" + strings.Repeat("(x{30}){30}", 9),
	} {
		_, err := Compile(pattern, Options{})
		e, ok := errors.AsType[*service.FileError](err)
		if !ok || e.Kind != service.FileBadQuery || !strings.Contains(e.Detail, "too large") || !strings.Contains(e.Detail, "shorten its repetitions") {
			t.Errorf("%.40s: got %v", pattern, err)
		}
	}
	for _, pattern := range []string{strings.Repeat("é", service.MaxPattern/2), strings.Repeat("a", service.MaxPattern), "[^z]{0,999}[^z]{0,999}x"} {
		if _, err := Compile(pattern, Options{IgnoreCase: true}); err != nil {
			t.Errorf("%.40s: %v", pattern, err)
		}
	}
}

// The largest program that is allowed stops soon, on a line of any length and on
// many lines. Broken by hand: with the fast way for every line under 64 KiB.
func TestLaw14SearchStopsSoon(t *testing.T) {
	const soon = 2 * time.Second // some 20 ms, with room for a busy machine; broken, it takes a minute
	pattern := strings.Repeat("[^z]{0,999}", 5) + "[qr]"
	for name, content := range map[string]string{
		"one line":    strings.Repeat("a", 60_000),
		"a long line": strings.Repeat("a", 1<<20),
		"short lines": strings.Repeat(strings.Repeat("a", 50)+"\n", 20_000),
	} {
		m := compile(t, pattern, false, false)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		start := time.Now()
		_, err := m.Lines(ctx, []byte(content), unlimited(0))
		took := time.Since(start)
		cancel()
		t.Logf("%s: %v", name, took)
		if !errors.Is(err, context.DeadlineExceeded) || took > soon {
			t.Errorf("%s: %v after %v", name, err, took)
		}
	}
}

// Both ways of matching find the same place.
func TestMatchRunesAgrees(t *testing.T) {
	for _, pattern := range []string{"b", "^b", "b$", "^$", `\bb`, "(a|ab)(c|bcd)", "[^a]+", "é", `\x{FFFD}`, "x*$"} {
		m := compile(t, pattern, false, false)
		for _, line := range []string{"", "b", "ab", "a b", "abcd", "éb", "a\xffb", "axx"} {
			if fast, slow := m.re.FindIndex([]byte(line)), m.findRunes(t.Context(), []byte(line)); !slices.Equal(fast, slow) {
				t.Errorf("%s in %q: %v and %v", pattern, line, fast, slow)
			}
		}
	}
}
