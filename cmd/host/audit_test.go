package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/toolhost/toolhost/state"
)

// Following the log ends when the reader goes away, as with head, and is no error.
//
// Seen to fail: without looking whether anybody reads.
func TestAuditEndsWithItsReader(t *testing.T) {
	isolate(t)
	log := state.NewAudit(state.AuditOptions{})
	defer func() { _ = log.Close() }()
	if err := log.Append(state.AuditEntry{Kind: state.AuditDenial, Tool: "weather/forecast"}); err != nil {
		t.Fatal(err)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = writer.Close() }()
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var stderr bytes.Buffer
	if status := run(ctx, []string{"audit", "-f"}, nil, writer, &stderr); status != exitCompleted || ctx.Err() != nil {
		t.Errorf("status %d, %v: %s", status, ctx.Err(), &stderr)
	}
}

// What comes is printed as it comes, until the command is interrupted.
//
// Seen to fail: with what is there printed alone.
func TestAuditFollows(t *testing.T) {
	isolate(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var out screen
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, []string{"audit", "-f", "--json"}, nil, &out, &bytes.Buffer{}) }()
	log := state.NewAudit(state.AuditOptions{})
	defer func() { _ = log.Close() }()
	for _, tool := range []string{"weather/first", "weather/second"} {
		if err := log.Append(state.AuditEntry{Kind: state.AuditDenial, Tool: tool}); err != nil {
			t.Fatal(err)
		}
		eventually(t, tool+" to be printed", func() bool { return strings.Contains(out.String(), tool) })
	}
	cancel()
	if status := <-ended; status != exitCompleted {
		t.Errorf("status %d", status)
	}
}
