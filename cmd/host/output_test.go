package main

import (
	"bytes"
	"testing"
)

// A terminal gets no control characters, a pipe gets the text as it is.
func TestOutput(t *testing.T) {
	const text = "a\x1b[31mb\u009bc\u202ed\te\n"
	for terminal, want := range map[bool]string{false: text, true: "a\ufffd[31mb\ufffdc\ufffdd\te\n"} {
		var got bytes.Buffer
		o := &output{to: &got, terminal: terminal}
		if n, err := o.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("wrote %d, %v", n, err)
		}
		if got.String() != want {
			t.Errorf("terminal %t: got %q, want %q", terminal, got.String(), want)
		}
	}
}
