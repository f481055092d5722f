package location

import (
	"testing"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/state"
)

// TestLaw38RecordedWhereItRuns: the record of a question about a command line says where
// that was to run, and of another question nothing. Seen to fail without it.
func TestLaw38RecordedWhereItRuns(t *testing.T) {
	var got []state.AuditEntry
	r := &record{root: "/r", take: func(e state.AuditEntry) { got = append(got, e) }}
	r.Asked(permission.Request{Action: service.ActionShell, Resources: []string{"make"}, Directory: "sub"})
	r.Asked(permission.Request{Action: service.ActionEdit, Resources: []string{"a"}})
	if len(got) != 2 || got[0].Extra["directory"] != "sub" || got[1].Extra != nil {
		t.Errorf("got %+v", got)
	}
}
