package shown

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/tool"
)

// TestOf: what is cut, and that it is said.
func TestOf(t *testing.T) {
	long := strings.Repeat("é", 20<<10)
	p := permission.Pending{Request: permission.Request{
		Caller: permission.Caller{Input: json.RawMessage("not JSON"), Effects: tool.None, Diff: long + long}, Why: long,
		Resources: []string{"a"}, Save: []string{long}, Metadata: map[string]string{"a": "b", "c": long, "d": "e"},
	}}
	got := Of(p)
	if string(got.Input) != `"not JSON"` || got.InputCut || !slices.Equal(got.Cut, []string{"diff", "why", "metadata"}) ||
		len(got.Metadata) != 1 || got.Save == nil || len(got.Save) != 0 || len(got.Why) != maxWhy || got.Diff != (long + long)[:MaxDiff]+"\n[16384 bytes of the changes are not shown]\n" || got.Effects == nil {
		t.Errorf("got %+v", got)
	}
	lines := strings.Repeat("+x\n", MaxDiff/3+1)
	p.Request.Caller.Diff = lines
	if got, want := Of(p).Diff, lines[:MaxDiff-1]+"[3 bytes of the changes are not shown]\n"; got != want {
		t.Errorf("of lines: it ends with %q", got[len(got)-100:])
	}
	if got := Of(permission.Pending{}); got.Input != nil || got.Cut != nil || got.Resources == nil {
		t.Errorf("of nothing: %+v", got)
	}
}
