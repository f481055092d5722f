package main

import (
	"testing"

	"github.com/toolhost/toolhost/plugin/sdk/sdktest"
)

func TestOutline(t *testing.T) {
	p := sdktest.Start(t, plugin(), sdktest.Options{
		Files: map[string]string{"notes.md": "# One\ntext\n## Two\n"},
	})
	const want = `[{"line":1,"text":"# One"},{"line":3,"text":"## Two"}]`
	if outcome := p.Call("outline", `{"path": "notes.md"}`); string(outcome.Structured) != want {
		t.Errorf("got %s, want %s", outcome, want)
	}
	if outcome := p.Call("outline", `{"path": "missing.md"}`); outcome.Status != "failed" {
		t.Errorf("got %s, want a failure", outcome)
	}
}
