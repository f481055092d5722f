package main

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/toolhost/toolhost/plugin/sdk"
)

// pause is what the suite wants to lie between two reports of progress.
const pause = 50 * time.Millisecond

// longest is when a slow call ends by itself, so that one that nobody cancels ends too.
const longest = 20 * time.Second

// running are the tools that are about what happens while they run.
func running(log *slog.Logger) sdk.Tools {
	var cancelled atomic.Int64 // slow calls that were cancelled
	return sdk.Tools{
		"test_tool_with_progress":    sdk.New("Progress from 0 to 100", progress, sdk.NoEffect),
		"test_streaming_elicitation": sdk.New("Progress while a call runs, and nothing else", progress, sdk.NoEffect),
		"test_logging_tool": sdk.New("A line for the log of the host, which is nothing for a client",
			func(context.Context, sdk.Call, struct{}) (string, error) {
				log.Info("the logging tool was called")
				return "logged", nil
			}, sdk.NoEffect),
		"test_slow": sdk.New("A call that lasts until it is cancelled, 20 seconds at most",
			func(ctx context.Context, call sdk.Call, _ struct{}) (string, error) {
				call.Progress(0, 1, "started")
				select {
				case <-ctx.Done():
					cancelled.Add(1)
					return "", ctx.Err()
				case <-time.After(longest):
					return "nobody cancelled it", nil
				}
			}, sdk.NoEffect),
		"test_cancelled": sdk.New("How many slow calls were cancelled", func(context.Context, sdk.Call, struct{}) (count, error) {
			return count{cancelled.Load()}, nil
		}, sdk.NoEffect),
	}
}

type count struct {
	Cancelled int64 `json:"cancelled"`
}

func progress(ctx context.Context, call sdk.Call, _ struct{}) (string, error) {
	for done := range 3 {
		if done > 0 {
			select {
			case <-ctx.Done():
				return "", ctx.Err()
			case <-time.After(pause):
			}
		}
		call.Progress(float64(50*done), 100, "")
	}
	return "done", nil
}
