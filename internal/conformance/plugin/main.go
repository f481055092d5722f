// Command plugin registers the tools that the judges of the Model Context Protocol face ask for by name: the fixtures of
// the official conformance suite, and a few of our own for what that suite does not look at. It is built for make
// conformance and for tests only, and imports what any plugin imports.
//
// What a fixture of the suite does on the wire, a plugin of toolhost does by its contract: it registers tools, and has
// neither prompts nor resources, no model to sample from, and no way to ask the person anything. A tool that the suite
// wants to ask something is here a tool that needs an approval, which the host asks for by its configuration. Fixtures that
// no plugin can stand in for are not registered, since a tool that only has the name would be judged as if it had tried.
package main

import (
	"context"

	"github.com/toolhost/toolhost/plugin/sdk"
)

func main() { sdk.Serve(fixtures()) }

func fixtures() sdk.Plugin {
	return sdk.Plugin{
		Name: "conformance", Version: "1.0.0",
		Activate: func(ctx context.Context, loc sdk.Location) error {
			for _, tools := range []sdk.Tools{contents(), schemas(), running(loc.Log), approved(), changing(loc.Tools)} {
				if _, err := loc.Tools.Register(ctx, tools); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
