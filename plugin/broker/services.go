package broker

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolhost/toolhost/plugin/internal/wire"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem"
	"github.com/toolhost/toolhost/tool"
)

var (
	_ wire.FileSystem = (*files)(nil)
	_ wire.Bytes      = (*pieces)(nil)
	_ wire.Permission = (*permission)(nil)
)

// permission answers with the gate of the call.
type permission struct{ broker *Broker }

func (p *permission) Assert(ctx context.Context, r tool.PermissionRequest) error {
	l, ctx, done, err := p.broker.use(ctx, assert)
	if err != nil {
		return err
	}
	defer done()
	if l.silent != "" {
		return status.Error(codes.FailedPrecondition, l.silent)
	}
	if err := wire.CheckRequest(r); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return l.gate.Assert(ctx, r)
}

// closedGate is the gate of what may ask for nothing.
type closedGate struct{}

var _ tool.Gate = closedGate{}

func (closedGate) Assert(_ context.Context, r tool.PermissionRequest) error {
	return closed(r.Action, r.Resources)
}

func (closedGate) Permit(_ context.Context, action string, resources ...string) error {
	return closed(action, resources)
}

func (closedGate) PermitCommand(_ context.Context, line tool.CommandLine) error {
	return closed(service.ActionShell, []string{line.Line})
}

func (closedGate) Allows(string, string) bool { return false }
func (closedGate) Denies(string, string) bool { return true }
func (closedGate) Refused() *tool.Refusal     { return nil }

func closed(action string, resources []string) error {
	refusal := &tool.Refusal{Kind: tool.KindDenied, Action: action, Reason: "nothing is permitted here"}
	if len(resources) > 0 {
		refusal.Resource = resources[0]
	}
	return refusal
}

// files answers from the engine. A handle is looked up in the call that opened
// it, so one call cannot use another's.
type files struct{ broker *Broker }

func (f *files) ResolveRoot(ctx context.Context, path string) (uint64, service.RootInfo, error) {
	l, ctx, done, err := f.broker.use(ctx, resolveRoot)
	if err != nil {
		return 0, service.RootInfo{}, err
	}
	defer done()
	root, err := f.broker.options.FileSystem.ResolveRoot(ctx, l.caller(), path)
	if err != nil {
		return 0, service.RootInfo{}, err
	}
	handle, err := l.keep(root)
	if err != nil {
		_ = root.Close()
		return 0, service.RootInfo{}, err
	}
	return handle, root.Info(), nil
}

func (f *files) Release(ctx context.Context, handle uint64) error {
	l, _, done, err := f.broker.use(ctx, release)
	if err != nil {
		return err
	}
	defer done()
	if root := l.drop(handle); root != nil {
		return root.Close()
	}
	return nil
}

func (f *files) Read(ctx context.Context, handle uint64, q service.ReadQuery) (service.Page, error) {
	return onRoot(ctx, f.broker, read, handle, q, (*filesystem.Root).Read)
}

// ReadBytes asks, and each piece is a callback of its own: a plugin that takes none
// keeps nothing open, and after the end of its call there is none to be had.
func (f *files) ReadBytes(ctx context.Context, handle uint64, q service.BytesQuery) (wire.Bytes, error) {
	from, err := onRoot(ctx, f.broker, readBytes, handle, q, (*filesystem.Root).Bytes)
	if err != nil {
		return nil, err
	}
	return &pieces{f.broker, from}, nil
}

type pieces struct {
	broker *Broker
	from   *filesystem.Bytes
}

func (p *pieces) Next(ctx context.Context) ([]byte, error) {
	_, ctx, done, err := p.broker.use(ctx, readBytes)
	if err != nil {
		return nil, err
	}
	defer done()
	return p.from.Next(ctx)
}

func (f *files) List(ctx context.Context, handle uint64, q service.ListQuery) (service.Listing, error) {
	return onRoot(ctx, f.broker, list, handle, q, (*filesystem.Root).List)
}

func (f *files) Glob(ctx context.Context, handle uint64, q service.GlobQuery) (service.GlobResult, error) {
	return onRoot(ctx, f.broker, glob, handle, q, (*filesystem.Root).Glob)
}

func (f *files) Grep(ctx context.Context, handle uint64, q service.GrepQuery) (service.GrepResult, error) {
	return onRoot(ctx, f.broker, grep, handle, q, (*filesystem.Root).Grep)
}

// onRoot runs one method of a handle of the call that the callback belongs to.
func onRoot[Query, Answer any](
	ctx context.Context, b *Broker, m method, handle uint64, q Query,
	answer func(*filesystem.Root, context.Context, Query) (Answer, error),
) (Answer, error) {
	var none Answer
	l, ctx, done, err := b.use(ctx, m)
	if err != nil {
		return none, err
	}
	defer done()
	root, err := l.root(handle)
	if err != nil {
		return none, err
	}
	return answer(root, ctx, q)
}
