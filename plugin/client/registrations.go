package client

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolhost/toolhost/plugin/client/internal/lines"
	"github.com/toolhost/toolhost/plugin/internal/wire"
	"github.com/toolhost/toolhost/tool"
)

// Bounds of what one plugin may have registered at once.
const (
	maxTools     = 10000    // tools, and registrations
	maxToolBytes = 16 << 20 // of their names, descriptions and schemas
)

// registrations is how a plugin registers its tools, and how they reach it.
type registrations Incarnation

var _ wire.Tools = (*registrations)(nil)

// registration is one act of registering.
type registration struct {
	tools, bytes int        // what it counts for
	made         Registered // nil while it is being made
	refused      []Refused
}

// closedFor is how long the tools of a closed registration can be called, at most.
const closedFor = 15 * time.Minute

// closedRegistration is one whose tools may still be called.
type closedRegistration struct {
	made  Registered
	since time.Time
}

func (c closedRegistration) isOver() bool { return time.Since(c.since) > closedFor }

// Register registers the tools. When ctx is over before it returns, nothing is
// registered; a schema that is being compiled is not interrupted, which is bounded
// (see package schema).
func (r *registrations) Register(ctx context.Context, remote []wire.RemoteTool) (uint64, []wire.Refused, error) {
	i := (*Incarnation)(r)
	if err := ctx.Err(); err != nil {
		return 0, nil, status.FromContextError(err).Err()
	}
	number, err := i.reserve(remote)
	if err != nil {
		return 0, nil, err
	}
	tools := make(map[string]tool.Tool, len(remote))
	remote, refused := distinct(remote)
	for _, t := range remote {
		if _, err := wire.CheckNeeds(t.Tool.Requests, t.Tool.Targets); err != nil {
			refused = append(refused, Refused{t.Name, err.Error()})
			continue
		}
		value := t.Tool
		value.Unavailable = lines.CleanShort(value.Unavailable, 1<<10)
		if t.Prepares {
			value.Prepare = func(ctx context.Context, call tool.Call) (tool.Preparation, error) {
				return i.prepare(ctx, t.Executor, call)
			}
		}
		value.Execute = func(ctx context.Context, call tool.Call) (tool.Result, error) {
			return i.execute(ctx, t.Executor, 0, call, nil)
		}
		tools[t.Name] = value
	}
	made, more := i.host.Register(tools)
	out := make([]wire.Refused, 0, len(refused)+len(more))
	for _, x := range slices.Concat(refused, more) {
		x = Refused{lines.CleanShort(x.Name, tool.MaxAuthoredName), lines.CleanShort(x.Reason, 1<<10)}
		i.logs.warn("tool refused", "tool", x.Name, "reason", x.Reason)
		out = append(out, wire.Refused(x))
	}
	if !i.keep(number, made, out) {
		made.Lost()
		return 0, nil, errNoMore
	}
	if err := ctx.Err(); err != nil { // nobody learns the number, and so nobody could close it
		_ = r.Unregister(ctx, number) // it returns no error
		return 0, nil, status.FromContextError(err).Err()
	}
	return number, out, nil
}

// distinct takes the repeats out of a registration: of tools that are the same but
// for their executor the first counts, and of those that share a name and differ
// none does (case D11).
func distinct(remote []wire.RemoteTool) (tools []wire.RemoteTool, refused []Refused) {
	first := make(map[string]int, len(remote)) // by name, where it stands in tools
	differ := map[string]bool{}
	for _, t := range remote {
		at, again := first[t.Name]
		if !again {
			first[t.Name] = len(tools)
			tools = append(tools, t)
			continue
		}
		t.Executor = tools[at].Executor
		if !differ[t.Name] && !reflect.DeepEqual(t, tools[at]) {
			differ[t.Name] = true
			refused = append(refused, Refused{t.Name, "the name stands for different tools in one registration, so that none of them has it: rename all but one"})
		}
	}
	return slices.DeleteFunc(tools, func(t wire.RemoteTool) bool { return differ[t.Name] }), refused
}

var errNoMore = status.Error(codes.FailedPrecondition, "the plugin is closing: nothing can be registered any more")

// reserve counts a registration before it is made, so that many at once stay
// within the bounds as well.
func (i *Incarnation) reserve(remote []wire.RemoteTool) (number uint64, err error) {
	own := registration{tools: max(1, len(remote))}
	for _, t := range remote {
		own.bytes += len(t.Name) + len(t.Tool.Title) + len(t.Tool.Description) +
			len(t.Tool.Input) + len(t.Tool.Output) + len(t.Tool.Structured) + len(t.Tool.Unavailable)
		// Needs that are too large are refused when the tools are looked at one by one.
		needs, _ := wire.CheckNeeds(t.Tool.Requests, t.Tool.Targets)
		own.bytes += needs
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	tools, bytes := i.toolCount+own.tools, i.toolBytes+own.bytes
	switch {
	case i.state != Activating && i.state != Ready:
		return 0, errNoMore
	case tools > maxTools:
		return 0, status.Errorf(codes.ResourceExhausted, "the plugin has registered %d tools with these; at most %d: close a registration first", tools, maxTools)
	case bytes > maxToolBytes:
		return 0, status.Errorf(codes.ResourceExhausted, "the plugin's tools have %d bytes of schemas and descriptions with these; at most %d", bytes, maxToolBytes)
	}
	i.lastNumber++
	i.registered[i.lastNumber] = own
	i.toolCount, i.toolBytes = tools, bytes
	return i.lastNumber, nil
}

// keep completes what was reserved. It reports false when it was removed
// meanwhile.
func (i *Incarnation) keep(number uint64, made Registered, refused []wire.Refused) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	own, ok := i.registered[number]
	if !ok {
		return false
	}
	own.made = made
	for _, x := range refused {
		own.refused = append(own.refused, Refused(x))
	}
	i.registered[number] = own
	return true
}

func (r *registrations) Unregister(_ context.Context, number uint64) error {
	i := (*Incarnation)(r)
	i.mu.Lock()
	own := i.registered[number]
	if own.made != nil { // a number that was only reserved is not known to anybody
		delete(i.registered, number)
		i.closed = append(slices.DeleteFunc(i.closed, closedRegistration.isOver), closedRegistration{own.made, time.Now()})
		i.toolCount, i.toolBytes = i.toolCount-own.tools, i.toolBytes-own.bytes
	}
	i.mu.Unlock()
	if own.made != nil {
		own.made.Close()
	}
	return nil
}

// removeTools removes everything that this incarnation registered, and nothing
// else.
func (i *Incarnation) removeTools() {
	i.mu.Lock()
	all, closed := i.registered, i.closed
	i.closed = nil
	i.registered, i.toolCount, i.toolBytes = map[uint64]registration{}, 0, 0
	for _, own := range all {
		i.wasRefused = append(i.wasRefused, own.refused...)
	}
	i.mu.Unlock()
	for _, own := range all {
		if own.made != nil {
			own.made.Lost()
		}
	}
	for _, c := range closed {
		c.made.Lost()
	}
}

// refusedLocked lists the tools of the present registrations that were refused,
// by name.
func (i *Incarnation) refusedLocked() []Refused {
	out := slices.Clone(i.wasRefused)
	for _, own := range i.registered {
		out = append(out, own.refused...)
	}
	slices.SortFunc(out, func(a, b Refused) int { return strings.Compare(a.Name, b.Name) })
	return out
}
