package host_test

import (
	"context"
	"fmt"

	"github.com/toolhost/toolhost/config"
	"github.com/toolhost/toolhost/host"
	"github.com/toolhost/toolhost/sandbox"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// A program that embeds the host. Its main calls sandbox.Main when it is run with
// "__launch", and sdk.Serve when it is run with "__plugin"; see TestMain.
func Example() {
	if err := embed(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// wait is probe/wait
	// where is probe/where
	// completed
}

func embed(ctx context.Context) error {
	// Usually from config.Load.
	cfg := &config.Config{Locations: []config.Location{{
		Name: "project", Root: "/", Policy: &permission.Policy{},
		Plugins: []config.Plugin{{Name: "probe", Builtin: "probe"}},
	}}}
	h, err := host.Open(ctx, cfg, host.Options{
		Launcher: sandbox.Launcher{Path: "/proc/self/exe", Args: []string{"__launch"}},
		Builtins: map[string][]string{"probe": {"/proc/self/exe", "__plugin", "probe"}},
	})
	if err != nil {
		return err
	}
	defer func() { _ = h.Close(ctx) }()

	location, err := h.Location(ctx, "project") // starts its plugins
	if err != nil {
		return err
	}
	capture := location.Capture() // the tools of one request of a model
	for _, definition := range capture.Definitions()[5:] {
		fmt.Println(definition.Name, "is", definition.ID)
	}
	settlement, err := capture.Call(ctx, registry.Request{
		Identity: tool.Identity{Session: "s1", Agent: "main", Message: "m1", Call: "c1"},
		Name:     "where",
	})
	if err != nil {
		return err // the call was interrupted
	}
	fmt.Println(settlement.Status)
	return nil
}
