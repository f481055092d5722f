package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/toolhost/toolhost/config/internal/document"
)

// list repeats a format, with the number as its argument.
func list(format string, n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, format, i)
	}
	return text.String()
}

// TestLaw40UntrustedFileIsBounded: each list of a file has a bound, up to which it
// is taken. Seen to fail without the bounds.
func TestLaw40UntrustedFileIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		format, each string
		most         int
		mistake      string
	}{
		"instructions": {"instructions: [%s]", "N%d, ", 16, "1:15: instructions has 17 entries; it may have 16"},
		"permissions":  {"permissions: [%s]", "{action: read, resource: f%d, effect: deny}, ", 1024, "1:14: permissions has 1025 entries; it may have 1024"},
		"plugins":      {"plugins: {%s}", "p%d: {command: [./p]}, ", 256, "1:10: plugins has 257 entries; it may have 256"},
		"plugins of Locations": {
			"locations: {a: {root: ., plugins: {p: {command: [./p]}}}, b: {root: b, plugins: {%s}}}", "p%d: {command: [./p]}, ", 255,
			"1:1: file has 257 plugins; it may have 256",
		},
		"locations":          {"locations: {%s}", "l%d: {root: r}, ", 64, "1:12: locations has 65 entries; it may have 64"},
		"limits of tools":    {"output: {tools: {%s}}", "filesystem/t%d: {max_lines: 1}, ", 256, "1:17: output.tools has 257 entries; it may have 256"},
		"arguments":          {"plugins: {p: {command: [./p, %s]}}", "a%d, ", 255, "1:24: plugins.p.command has 257 entries; it may have 256"},
		"variables":          {"plugins: {p: {command: [./p], env: [%s]}}", "V%d, ", 256, "1:36: plugins.p.env has 257 entries; it may have 256"},
		"paths of a sandbox": {"plugins: {p: {command: [./p], sandbox: {fs: {write: [%s]}}}}", "/p%d, ", 64, "1:53: plugins.p.sandbox.fs.write has 65 entries; it may have 64"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for extra, want := range []string{"", FileName + ":" + c.mistake} {
				w.write(FileName, fmt.Sprintf(c.format, list(c.each, c.most+extra))+"\n")
				if _, err := w.load(); (err == nil) != (want == "") || err != nil && err.Error() != want {
					t.Errorf("%d more: got %v, want %q", extra, err, want)
				}
			}
		})
	}
}

// TestLaw40UntrustedFileTakesNoTime: the largest files that seemed to spin. Each
// was seen to take more than a minute: without the bounds of lists and paths, with
// hints for every mistake, with every action held against every plugin, and with
// whole names in the paths of messages.
func TestLaw40UntrustedFileTakesNoTime(t *testing.T) {
	locations := func(each string) string {
		return list("l%d: {root: r, permissions: ["+strings.Repeat(each, 90)+"]}, ", 60)
	}
	plugins := "plugins: {" + list(strings.Repeat("p", 55)+"%d: {}, ", 256) + "}"
	for name, text := range map[string]string{
		"names of instructions":  "instructions: [" + list("N%d, ", 49_000) + "]",
		"rules of many plugins":  plugins + "\nlocations: {" + locations(`{action: "*zz/x", resource: x, effect: deny}, `) + "}",
		"rules with wildcards":   plugins + "\nlocations: {" + locations("{action: \"?*"+strings.Repeat("q", 45)+"*/x\", resource: x, effect: deny}, ") + "}",
		"rules of no plugin":     plugins + "\nlocations: {" + locations("{action: "+strings.Repeat("q", 55)+"/x, resource: x, effect: deny}, ") + "}",
		"many unknown plugins":   "plugins: {" + list("p%d: {}, ", 10_000) + "}\npermissions: [" + list("{action: q%d/x, resource: x, effect: deny}, ", 2_500) + "]",
		"unknown keys":           "plugins: {p: {" + list(strings.Repeat("k", 55)+"%d: 1, ", 15_000) + "}}",
		"deep root":              "locations: {l: {root: " + strings.Repeat("a/", 250_000) + "a}}",
		"long name of something": "locations: {" + strings.Repeat("l", 500_000) + ": {root: r, permissions: [" + strings.Repeat("{action: read, resource: x, effect: deny}, ", 1000) + "]}}",
		"Locations with rules":   "permissions: [" + list("{action: read, resource: f%d, effect: deny}, ", 1024) + "]\nlocations: {" + locations("{action: read, resource: x, effect: deny}, ") + "}",
	} {
		t.Run(name, func(t *testing.T) {
			if len(text) > document.MaxBytes {
				t.Fatalf("%d bytes", len(text))
			}
			w := newWorld(t)
			w.write(FileName, text+"\n")
			began := time.Now()
			_, err := w.load()
			took := time.Since(began)
			t.Logf("%d bytes took %v: %.80v", len(text), took, err)
			if took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}
