package location

import (
	"context"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/tool"
)

// unseen is what a sandbox lets a plugin do past the services, where the host does not see
// it (law 24).
type unseen struct {
	any      tool.Effects // in every call
	commands tool.Effects // in one that may run a command
}

// anything is what a program may do that is not confined.
const anything = tool.Read | tool.Write | tool.Process | tool.Network

// effectsOf is what the sandbox of an entry lets its plugin do. A plugin from outside that
// is not confined may do all that a program can. A built-in is part of the host: what its
// tools declare is what they do, and that it is not confined adds nothing to it. But the
// commands that it runs are anybody's, and so what one may do that is not confined is added
// to the tools that run them.
//
// That a confined command reads and writes in the root is what the effect process says.
func effectsOf(s config.Sandbox, builtin bool) unseen {
	if s.Mode == config.Off {
		if builtin {
			return unseen{commands: anything}
		}
		return unseen{any: anything}
	}
	var u unseen
	if len(s.Read) > 0 {
		u.any |= tool.Read
	}
	if len(s.Write) > 0 {
		u.any |= tool.Read | tool.Write
	}
	if s.Network {
		u.any |= tool.Network
	}
	if s.Exec {
		u.any |= tool.Process
	}
	return u
}

// withUnseen are the tools with what their plugin may do unseen added to the effects that
// they declare, and to those that they say a call would have: a plugin that can do it
// in one call can do it in any.
func withUnseen(tools map[string]tool.Tool, also unseen) map[string]tool.Tool {
	if also == (unseen{}) {
		return tools
	}
	widened := make(map[string]tool.Tool, len(tools))
	for name, t := range tools {
		t.Effects = also.and(t.Effects)
		if prepare := t.Prepare; prepare != nil {
			t.Prepare = func(ctx context.Context, call tool.Call) (tool.Preparation, error) {
				p, err := prepare(ctx, call) // what it prepared is handed on with an error, too
				p.Effects = also.and(p.Effects)
				return p, err
			}
		}
		widened[name] = t
	}
	return widened
}

// and adds it to effects that may not be declared, which stands for more than any.
func (u unseen) and(declared tool.Effects) tool.Effects {
	if declared == 0 {
		return 0
	}
	added := u.any
	if declared.Has(tool.Process) {
		added |= u.commands
	}
	if added == 0 {
		return declared
	}
	return declared&^tool.None | added
}
