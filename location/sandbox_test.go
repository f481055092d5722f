package location

import (
	"context"
	"errors"
	"testing"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/tool"
)

// What a sandbox lets a plugin do past the services.
//
// Seen to fail: with a written path that is not read; with the keys beside mode off
// counted; with a built-in that is not confined taken for anybody's.
func TestLaw24EffectsOfASandbox(t *testing.T) {
	paths := []string{"/x"}
	all := config.Sandbox{Read: paths, Write: paths, Network: true, Exec: true}
	off := all
	off.Mode = config.Off
	for _, tt := range []struct {
		name    string
		sandbox config.Sandbox
		want    tool.Effects
		builtin tool.Effects
	}{
		{"nothing said", config.Sandbox{}, 0, 0},
		{"strict", config.Sandbox{Mode: config.Strict, Limits: config.SandboxLimits{Files: 64}}, 0, 0},
		{"reads", config.Sandbox{Read: paths}, tool.Read, tool.Read},
		{"writes", config.Sandbox{Write: paths}, tool.Read | tool.Write, tool.Read | tool.Write},
		{"network", config.Sandbox{Network: true}, tool.Network, tool.Network},
		{"programs", config.Sandbox{Exec: true}, tool.Process, tool.Process},
		{"everything", all, tool.Read | tool.Write | tool.Network | tool.Process, tool.Read | tool.Write | tool.Network | tool.Process},
		{"off", config.Sandbox{Mode: config.Off}, tool.Read | tool.Write | tool.Network | tool.Process, 0},
		{"off, and more", off, tool.Read | tool.Write | tool.Network | tool.Process, 0},
	} {
		if got := effectsOf(tt.sandbox, false); got != (unseen{any: tt.want}) {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
		commands := tool.Effects(0)
		if tt.sandbox.Mode == config.Off {
			commands = anything
		}
		if got := effectsOf(tt.sandbox, true); got != (unseen{any: tt.builtin, commands: commands}) {
			t.Errorf("%s, of a built-in: got %d, want %d and %d of commands", tt.name, got, tt.builtin, commands)
		}
	}
}

// What a plugin may do unseen is added to what its tools declare, and to what they say of
// one call. To declare nothing is to declare everything, and stays so.
//
// What its commands may do unseen is added to the tools that may run one, and to no other.
//
// Seen to fail: with nothing taken for none; without the preparation; with what commands may do added to any.
func TestLaw24UnseenEffectsAreAdded(t *testing.T) {
	refusal := errors.New("no")
	for _, tt := range []struct {
		declared tool.Effects
		unseen   unseen
		want     tool.Effects
	}{
		{0, unseen{any: tool.Network}, 0},
		{0, unseen{}, 0},
		{0, unseen{commands: anything}, 0},
		{tool.Read, unseen{}, tool.Read},
		{tool.None, unseen{}, tool.None},
		{tool.None, unseen{any: tool.Network}, tool.Network},
		{tool.Read, unseen{any: tool.Network | tool.Process}, tool.Read | tool.Network | tool.Process},
		{tool.Write, unseen{any: tool.Write}, tool.Write},
		{tool.None, unseen{commands: anything}, tool.None},
		{tool.Read, unseen{commands: anything}, tool.Read},
		{tool.Process, unseen{commands: anything}, anything},
		{tool.Process | tool.UserInteraction, unseen{any: tool.Network, commands: tool.Write}, tool.Process | tool.UserInteraction | tool.Network | tool.Write},
	} {
		action := new(tool.Action)
		tools := map[string]tool.Tool{
			"plain": {Effects: tt.declared},
			"prepared": {Effects: tt.declared, Prepare: func(_ context.Context, call tool.Call) (tool.Preparation, error) {
				if call.Tool != "p/prepared" {
					t.Errorf("got the call %+v", call)
				}
				return tool.Preparation{Effects: tt.declared, Action: action}, refusal
			}},
		}
		got := withUnseen(tools, tt.unseen)
		if len(got) != 2 || got["plain"].Effects != tt.want || got["prepared"].Effects != tt.want {
			t.Errorf("%d and %d: got %d and %d, want %d", tt.declared, tt.unseen, got["plain"].Effects, got["prepared"].Effects, tt.want)
		}
		if got["plain"].Prepare != nil {
			t.Error("a tool that prepares nothing does so now")
		}
		p, err := got["prepared"].Prepare(t.Context(), tool.Call{Tool: "p/prepared"})
		if p.Effects != tt.want || p.Action != action || !errors.Is(err, refusal) {
			t.Errorf("%d and %d, prepared: got %+v, %v, want %d", tt.declared, tt.unseen, p, err, tt.want)
		}
		if tools["plain"].Effects != tt.declared {
			t.Error("the tools that were given changed")
		}
	}
}
