package mcpserver

import (
	"strings"
	"testing"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/permission"
)

// TestLaw38QuestionOfACommand: a client shows its user the line, where it runs and what
// its parts were judged to be; a directory that cannot be shown can only be rejected.
// Seen to fail with such a request taken for whole.
func TestLaw38QuestionOfACommand(t *testing.T) {
	p := permission.Pending{ID: "X", Request: permission.Request{
		Action: service.ActionShell, Resources: []string{"git status && make"}, Directory: "sub", Why: "no rule speaks of it",
		Judged: []permission.Judged{
			{Kind: permission.PartCommand, Action: service.ActionShell, Text: "git status", Effect: permission.Allow, Why: "by toolhost.yaml:3"},
			{Kind: permission.PartCommand, Action: service.ActionShell, Text: "make\x1b[2J", Effect: permission.Ask, Why: "no rule speaks of it"},
		},
	}}
	const want = "\n  in       sub\n  judged   allow  git status  (by toolhost.yaml:3)\n           ask    \"make\\x1b[2J\"  (no rule speaks of it)\n"
	if got := question(p); !strings.Contains(got.Message, want) {
		t.Errorf("got %s", got.Message)
	}
	answers := func() int {
		properties := question(p).RequestedSchema.(map[string]any)["properties"].(map[string]any)
		return len(properties[formAnswer].(map[string]any)["enum"].([]string))
	}
	if got := answers(); got != 2 {
		t.Errorf("%d answers, want once and reject", got)
	}
	p.Request.Directory = strings.Repeat("d/", 4<<10)
	if got := answers(); got != 1 {
		t.Errorf("%d answers, want reject alone", got)
	}
}
