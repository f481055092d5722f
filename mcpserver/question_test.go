package mcpserver

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/service/permission/shown"
)

// What a client shows its user has lines that fit, so that a long one in a file is not
// broken where it looks like a change, or like what "always" saves (law 34).
//
// Seen to fail: without a width; without the mark of what goes on.
func TestLaw34QuestionsAreWrapped(t *testing.T) {
	forged := strings.Repeat(" ", 300) + "+rm -rf /"
	var p permission.Pending
	p.Request.Caller.Diff = "@@ -1 +1 @@\n+" + forged + "\n"
	p.Request.Caller.Input = []byte(`"` + forged + `"`)
	for line := range strings.Lines(question(p).Message) {
		line = strings.TrimSuffix(line, "\n")
		if utf8.RuneCountInString(line) > shown.Columns || strings.HasPrefix(strings.TrimSpace(line), "+rm") {
			t.Errorf("%q", line)
		}
	}
}
