package client_test

import (
	"testing"

	"github.com/toolhost/toolhost/sandbox"
)

// A confined plugin works as any other, and sees nothing of the machine.
func TestConfined(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	spec := b.spec("many")
	spec.Policy = &sandbox.Policy{}
	i := b.startSpec(spec)
	if got := value[string](b, "echo", `{"text":"still here"}`); got != "still here" {
		t.Errorf("echo = %q", got)
	}
	t.Log(value[[]string](b, "environ", `{}`), i.Status())
	b.close(i)
}
