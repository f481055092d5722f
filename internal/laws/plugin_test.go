package laws

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	"github.com/toolhost/toolhost/plugin/sdk"
	"github.com/toolhost/toolhost/tool"
)

// controlName is the tool by which the suite commands a plugin. The host of the suite keeps it for itself.
const controlName = "control"

// A command is the input of the control tool.
type command struct {
	Register string          `json:"register,omitempty"` // the name of a registration to make
	Tools    map[string]spec `json:"tools,omitempty"`    // of it
	Many     int             `json:"many,omitempty"`     // so many more, t0000 and on
	Typed    bool            `json:"typed,omitempty"`    // and those of typed
	Close    string          `json:"close,omitempty"`    // the name of one to close
}

// all are the tools of the registration.
func (c command) all() map[string]spec {
	all := map[string]spec{}
	maps.Copy(all, c.Tools)
	for n := range c.Many {
		all[fmt.Sprintf("t%04d", n)] = spec{Says: fmt.Sprintf("t%04d", n), Effects: uint16(tool.None)}
	}
	return all
}

// suitePlugin is the plugin of the suite: it registers what it is told to. Its settings are the directory in which its
// tools record. One that is built in has the services that it says it needs, and any other one what it was granted.
func suitePlugin(builtin bool) sdk.Plugin {
	var needs []sdk.Service
	if builtin {
		needs = []sdk.Service{sdk.FileSystemRead, sdk.Permissions}
	}
	return sdk.Plugin{
		Name: "suite", Version: "1", Settings: recording{}, Needs: needs,
		Activate: func(ctx context.Context, loc sdk.Location) error {
			var where recording
			if err := loc.Settings(&where); err != nil {
				return err
			}
			c := &controlled{loc: loc, body: bodyOf(loc, where.Dir), made: map[string]*sdk.Registration{}}
			_, err := loc.Tools.Register(ctx, sdk.Tools{controlName: sdk.New("Control", c.control, sdk.NoEffect)})
			return err
		},
	}
}

// recording is the settings of the suite's plugin.
type recording struct {
	Dir string `json:"dir"` // in which its tools record
}

// bodyOf gives the tools of a plugin the services that it was granted.
func bodyOf(loc sdk.Location, dir string) body {
	return body{
		dir: dir,
		assert: func(ctx context.Context, _ tool.Call, r tool.PermissionRequest) error {
			p, err := loc.Permission()
			if err != nil {
				return err
			}
			return p.Assert(ctx, r)
		},
		open: func(ctx context.Context, _ tool.Call, path string) (handle, error) {
			files, err := loc.FileSystem()
			if err != nil {
				return nil, err
			}
			return files.ResolveRoot(ctx, path) // the host closes it with the call
		},
	}
}

type controlled struct {
	loc  sdk.Location
	body body

	mu   sync.Mutex
	made map[string]*sdk.Registration // under mu
}

// control obeys a command, and gives the tools that the host refused.
func (c *controlled) control(ctx context.Context, _ sdk.Call, in command) ([]sdk.Refused, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if in.Close != "" {
		return nil, c.made[in.Close].Close(ctx)
	}
	tools := sdk.Tools{}
	for name, s := range in.all() {
		tools[name] = adapted(c.body.tool(s))
	}
	if in.Typed {
		maps.Copy(tools, typed())
	}
	made, err := c.loc.Tools.Register(ctx, tools)
	if err != nil {
		return nil, err
	}
	c.made[in.Register] = made
	return made.Refused(), nil
}

// measured is the output of the typed tools.
type measured struct {
	Place string `json:"place"`
	All   []int  `json:"all"`
}

// typed are tools that are made of types, with projections.
func typed() sdk.Tools {
	type in struct {
		Place string `json:"place"`
	}
	type mean struct {
		Mean int `json:"mean"`
	}
	measure := func(_ context.Context, _ sdk.Call, in in) (measured, error) {
		return measured{in.Place, []int{1, 2, 3}}, nil
	}
	return sdk.Tools{
		"projected": sdk.NewProjected("A projection", measure, func(in in, out measured) (mean, []sdk.Content) {
			return mean{2}, []sdk.Content{sdk.Text(in.Place), sdk.Image([]byte{1}, "image/png")}
		}),
		"breaks": sdk.NewProjected("A projection that panics", measure, func(in, measured) (mean, []sdk.Content) { panic("in a projection") }),
		"whole":  sdk.New("No projection", measure),
	}
}

// adapted makes a tool of the SDK of a plain one.
func adapted(t tool.Tool) sdk.Tool {
	options := []sdk.Option{sdk.Effect(t.Effects), sdk.Title(t.Title), sdk.Requires(t.Requests...), sdk.Targets(t.Targets...)}
	if t.Irreversible {
		options = append(options, sdk.Irreversible)
	}
	if t.Unavailable != "" {
		options = append(options, sdk.Unavailable(t.Unavailable))
	}
	declared := sdk.Declaration{Description: t.Description, Input: t.Input, Output: t.Output, Structured: t.Structured}
	execute := func(ctx context.Context, call sdk.Call, input json.RawMessage) (sdk.Result, error) {
		return t.Execute(ctx, plain(call, input))
	}
	if t.Prepare == nil {
		return sdk.Dynamic(declared, execute, options...)
	}
	return sdk.DynamicPrepared(declared, func(ctx context.Context, call sdk.Call, input json.RawMessage) (sdk.Preparation[sdk.Result], error) {
		p, err := t.Prepare(ctx, plain(call, input))
		if err != nil {
			return sdk.Preparation[sdk.Result]{}, err
		}
		out := sdk.Preparation[sdk.Result]{
			Effects: sdk.Effect(p.Effects), Irreversible: p.Irreversible, Requests: p.Requests, Targets: p.Targets,
		}
		if a := p.Action; a != nil {
			out.Review = a.Review
			out.Commit = func(ctx context.Context, call sdk.Call) (sdk.Result, error) { return a.Commit(ctx, plain(call, input)) }
			out.Discard = func() { a.Discard(ctx) }
		}
		return out, nil
	}, execute, options...)
}

// plain is a call as a plain tool sees it.
func plain(call sdk.Call, input json.RawMessage) tool.Call {
	return tool.Call{
		Identity: tool.Identity{
			Session: call.SessionID, Agent: call.Agent, Message: call.MessageID, Call: call.CallID, HostMade: call.HostMade,
		},
		Tool: call.Tool, Input: input, Output: call.Output(),
		Progress: func(p tool.Progress) { call.Progress(p.Done, p.Total, p.Message) },
	}
}
