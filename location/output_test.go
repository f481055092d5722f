package location_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/plugin/client"
	"github.com/toolhost/toolhost/scope"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/output"
	"github.com/toolhost/toolhost/tool/registry"
)

// A kept output is read by the session and in the Location that made it, although the
// Locations keep theirs below the same directory.
//
// Seen to fail: with the Location's root left out of the Keeper's options, and with
// another directory than the one that outputs are kept in.
func TestOutputOfItsOwnLocationOnly(t *testing.T) {
	life := scope.New(context.Background(), "test")
	t.Cleanup(func() {
		if err := life.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	runDir, err := client.OpenRunDir(life)
	if err != nil {
		t.Fatal(err)
	}
	outputs := filepath.Join(t.TempDir(), "outputs")
	everything := permission.List{Rules: []permission.Rule{{Action: parse(t, "*"), Resource: parse(t, "*"), Effect: permission.Allow}}}
	open := func(name, outputs string) *location.Location {
		l, err := location.Open(t.Context(), life, config.Location{
			Name: name, Root: t.TempDir(), Policy: &permission.Policy{Lists: []permission.List{everything}},
		}, location.Options{
			Launcher: launcher, Tier: tier(life), RunDir: runDir, Outputs: outputs, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	here, there, nowhere := open("here", outputs), open("there", outputs), open("nowhere", "")
	text := strings.Repeat("line\n", 10_000)
	_, _, err = here.Register("program", map[string]tool.Tool{"log": {Description: "for a test", Execute: func(_ context.Context, call tool.Call) (tool.Result, error) {
		_, err := io.WriteString(call.Output, text)
		return tool.Result{}, err
	}}})
	if err != nil {
		t.Fatal(err)
	}
	settlement, err := here.Capture().Call(t.Context(), registry.Request{
		Identity: tool.Identity{Session: "mine", Agent: "main", Message: "m", Call: "c"}, Name: "log", Input: []byte(`{}`),
	})
	if err != nil || len(settlement.Retained) != 1 {
		t.Fatalf("%+v, %v", settlement, err)
	}
	handle := settlement.Retained[0].Handle
	part, err := here.Output(t.Context(), "mine", handle, 5, 10)
	if err != nil || string(part.Data) != "line\nline\n" || part.Meta.Bytes != int64(len(text)) {
		t.Errorf("got %q of %+v, %v", part.Data, part.Meta, err)
	}
	for _, tt := range []struct {
		what    string
		from    *location.Location
		session string
	}{{"another session", here, "other"}, {"another Location", there, "mine"}, {"a Location that keeps nothing", nowhere, "mine"}} {
		if part, err := tt.from.Output(t.Context(), tt.session, handle, 0, 0); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: got %q, %v", tt.what, part.Data, err)
		}
	}
	if _, err := here.Output(t.Context(), "mine", handle, part.Meta.Bytes, 0); !errors.Is(err, output.ErrRange) {
		t.Errorf("behind the end: %v", err)
	}
}
