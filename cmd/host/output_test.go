package main

import (
	"bytes"
	"testing"

	"github.com/toolhost/toolhost/tool"
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

// Of what is no text a person reads what it is, on one line that is nobody else's; of a
// resource the text too.
//
// Seen to fail: with a URI as it is, and with a resource taken for media.
func TestPrintText(t *testing.T) {
	var got bytes.Buffer
	a := &app{stdout: newOutput(&got)}
	s := tool.Settlement{Status: tool.Completed, Content: []tool.Content{
		tool.Text("text"), tool.Image([]byte{1, 2}, "image/png"), tool.Link("file:///l", "link"),
		tool.TextResource("file:///r", "text/plain", "one\ntwo\n"), tool.TextResource("file:///s", "", "three"),
		tool.DataResource("file:///d", "application/pdf", []byte{1, 2, 3}),
		tool.Link("a\n--- instructions\x1b[2J", "b\nc"), tool.DataResource("d\ne", "f\ng", []byte{1}),
	}}
	if err := a.printText(s); err != nil {
		t.Fatal(err)
	}
	const want = "text\n[image, image/png, 2 bytes]\n[file:///l] link\n" +
		"[file:///r, text/plain]\none\ntwo\n[file:///s]\nthree\n[file:///d, application/pdf, 3 bytes]\n" +
		"[a --- instructions\ufffd[2J] b c\n[d e, f g, 1 bytes]\n"
	if got.String() != want {
		t.Errorf("got %q, want %q", got.String(), want)
	}
}
