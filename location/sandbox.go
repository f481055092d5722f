package location

import (
	"context"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/tool"
)

// effectsOf is what a sandbox lets a plugin do past the services, where the host does not
// see it (law 24). A plugin from outside that is not confined may do all that a program
// can. A built-in is part of the host: what its tools declare is what they do, and that it
// is not confined adds nothing to it.
func effectsOf(s config.Sandbox, builtin bool) tool.Effects {
	if s.Mode == config.Off {
		if builtin {
			return 0
		}
		return tool.Read | tool.Write | tool.Process | tool.Network
	}
	var unseen tool.Effects
	if len(s.Read) > 0 {
		unseen |= tool.Read
	}
	if len(s.Write) > 0 {
		unseen |= tool.Read | tool.Write
	}
	if s.Network {
		unseen |= tool.Network
	}
	if s.Exec {
		unseen |= tool.Process
	}
	return unseen
}

// withUnseen are the tools with what their plugin may do unseen added to the effects that
// they declare, and to those that they say a call would have: a plugin that can do it
// in one call can do it in any.
func withUnseen(tools map[string]tool.Tool, unseen tool.Effects) map[string]tool.Tool {
	if unseen == 0 {
		return tools
	}
	widened := make(map[string]tool.Tool, len(tools))
	for name, t := range tools {
		t.Effects = union(t.Effects, unseen)
		if prepare := t.Prepare; prepare != nil {
			t.Prepare = func(ctx context.Context, call tool.Call) (tool.Preparation, error) {
				p, err := prepare(ctx, call) // what it prepared is handed on with an error, too
				p.Effects = union(p.Effects, unseen)
				return p, err
			}
		}
		widened[name] = t
	}
	return widened
}

// union adds to effects that may not be declared, which stands for more than any.
func union(declared, unseen tool.Effects) tool.Effects {
	if declared == 0 {
		return 0
	}
	return declared&^tool.None | unseen
}
