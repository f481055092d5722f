package mcpserver

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"
)

// A message that is too long is answered, to whom it was asked by as far as that can be told, and
// what follows it is read (case B07). Seen to fail: with the line forgotten.
func TestLongMessagesAreAnswered(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	for begin, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":"`:            `"id":7`,
		`{"method":"tools/call","id":"a\"b","params":{"a":[1,{"id":1}],"b":"`: `"id":"a\"b"`,
		`{"params":{"id":3,"a":"`:   `"id":null`,
		`{"id":{"id":4},"params":"`: `"id":null`,
		`["id",5,"`:                 `"id":null`,
		`{"id":`:                    `"id":null`,
	} {
		var answer bytes.Buffer
		next := `{"jsonrpc":"2.0","id":8,"method":"ping"}` + "\n"
		l := &lines{from: bufio.NewReader(strings.NewReader(begin + long + "\"}\n" + next)), answer: &answer}
		got := make([]byte, len(next))
		if _, err := io.ReadFull(l, got); err != nil || string(got) != next {
			t.Errorf("%s: behind it came %q, %v", begin, got, err)
		}
		if !strings.Contains(answer.String(), want) || !strings.Contains(answer.String(), "longer than 16 MiB") {
			t.Errorf("%s: answered %q, want %s", begin, answer.String(), want)
		}
	}
}
