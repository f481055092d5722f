package main

import (
	"context"
	"sync"

	"github.com/toolhost/toolhost/plugin/sdk"
)

// transient is the tool that comes and goes.
const transient = "test_transient"

// changing is the tool that changes the list of tools: each call adds another tool, or takes it away again.
func changing(registrar sdk.Registrar) sdk.Tools {
	var (
		mu   sync.Mutex
		made *sdk.Registration // under mu; nil while the other tool is not there
	)
	return sdk.Tools{
		"test_trigger_tool_change": sdk.New("Another tool comes, or goes", func(ctx context.Context, _ sdk.Call, _ struct{}) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			if made != nil {
				if err := made.Close(ctx); err != nil {
					return "", err
				}
				made = nil
				return transient + " is gone", nil
			}
			var err error
			made, err = registrar.Register(ctx, sdk.Tools{
				transient: sdk.New("A tool that comes and goes", func(context.Context, sdk.Call, struct{}) (string, error) {
					return "still there", nil
				}, sdk.NoEffect),
			})
			if err != nil {
				return "", err
			}
			return transient + " is there", nil
		}, sdk.NoEffect),
	}
}
