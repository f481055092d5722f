package client_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/toolhost/toolhost/plugin/sdk"
)

// prepares is a plugin whose tools say what they would do, and write down what they
// did in a file of the Location's root.
func prepares(ctx context.Context, loc sdk.Location) error {
	p := &preparer{loc: loc}
	_, err := loc.Tools.Register(ctx, sdk.Tools{
		"change": sdk.NewPrepared("Change", p.prepare, p.execute, sdk.Read, sdk.Write, sdk.Irreversible),
		"look":   sdk.New("Look", p.look, sdk.Network),
		"read":   sdk.New("Look", p.look, sdk.Read),
		"declared": sdk.New("Declared", echo, sdk.Write, sdk.Irreversible, sdk.Targets("text", "more"), sdk.Unavailable("not\x1b today"),
			sdk.Requires(sdk.PermissionRequest{Resources: []string{"*"}}, sdk.PermissionRequest{Action: "edit", Resources: []string{"a"}})),
		"hold": sdk.New("Hold", func(_ context.Context, call sdk.Call, in echoIn) (string, error) {
			call.Progress(0, 0, "holding")
			p.hold(in.Text)
			return "held", nil
		}),
		"write": sdk.New("Write", func(_ context.Context, call sdk.Call, in bigIn) (int64, error) {
			call.Lost(3)
			call.Lost(4)
			return io.Copy(call.Output(), io.LimitReader(strings.NewReader(strings.Repeat("0123456789", in.Bytes/10+1)), int64(in.Bytes)))
		}),
		"endless": sdk.New("Endless", func(_ context.Context, call sdk.Call, _ struct{}) (bool, error) {
			for more := strings.Repeat("more and more\n", 2000); ; {
				if _, err := io.WriteString(call.Output(), more); err != nil {
					p.note("stopped writing")
					return false, err
				}
			}
		}),
	})
	return err
}

type preparer struct{ loc sdk.Location }

type changeIn struct {
	How  string `json:"how"`
	Text string `json:"text"`
}

func (p *preparer) note(text string) {
	f, err := os.OpenFile(p.loc.Root+"/events", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(text + "\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) { // the test is over, and its directory gone
		panic(err)
	}
}

// hold waits for a file, whatever the context says.
func (p *preparer) hold(name string) {
	for {
		_, file := os.Stat(p.loc.Root + "/" + name)
		_, root := os.Stat(p.loc.Root)
		if file == nil || root != nil { // the test is over
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (p *preparer) execute(_ context.Context, _ sdk.Call, in changeIn) (string, error) {
	p.note("execute " + in.Text)
	return "executed", nil
}

func (p *preparer) prepare(ctx context.Context, call sdk.Call, in changeIn) (sdk.Preparation[string], error) {
	out := sdk.Preparation[string]{
		Effects: sdk.Write, Irreversible: true, Targets: []string{in.Text},
		Requests: []sdk.PermissionRequest{{Resources: []string{in.Text}, Save: []string{"*"}}, {Action: "edit", Resources: []string{"b"}}},
	}
	switch in.How {
	case "direct":
		return out, nil
	case "fail":
		return out, sdk.Failure("there is no " + in.Text)
	case "panic":
		panic("boom")
	case "hold":
		p.note("preparing")
		p.hold(in.Text)
	case "ask":
		permission, err := p.loc.Permission()
		if err != nil {
			return out, err
		}
		return out, permission.Assert(ctx, sdk.PermissionRequest{Action: call.Tool, Resources: []string{"x"}})
	case "read":
		text, err := p.look(ctx, call, echoIn{in.Text})
		if err != nil {
			return out, err
		}
		return out, sdk.Failure(text)
	case "write":
		_, err := io.WriteString(call.Output(), "x")
		return out, err
	}
	out.Review = "I write " + in.Text
	out.Commit = func(_ context.Context, call sdk.Call) (string, error) {
		p.note("commit " + in.Text)
		if in.How == "commit-panics" {
			panic("boom")
		}
		_, err := io.WriteString(call.Output(), "writing")
		return "committed by " + call.CallID, err
	}
	out.Discard = func() {
		p.note("discard " + in.Text)
		if in.How == "discard-panics" {
			panic("boom")
		}
	}
	return out, nil
}

func (p *preparer) look(ctx context.Context, _ sdk.Call, in echoIn) (string, error) {
	files, err := p.loc.FileSystem()
	if err != nil {
		return "", err
	}
	root, err := files.ResolveRoot(ctx, in.Text)
	if err != nil {
		return "", err
	}
	page, err := root.Read(ctx, sdk.ReadQuery{})
	return page.Text, err
}
