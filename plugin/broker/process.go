package broker

import (
	"context"

	"github.com/toolhost/toolhost/plugin/internal/wire"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/process"
)

var _ wire.Process = (*processes)(nil)

// processes answers from the engine.
type processes struct{ broker *Broker }

func (p *processes) Plan(ctx context.Context, command service.Command) (service.CommandPlan, error) {
	return onProcess(ctx, p.broker, plan, command, (*process.Service).Plan)
}

// Run runs a command for as long as the call lasts. Without output what it writes goes into
// the output of the call, of which the plugin sees nothing; what was dropped of it is the
// host's to say (law 19).
func (p *processes) Run(ctx context.Context, command service.Command, output wire.TakeChunk) (service.CommandResult, error) {
	l, ctx, done, err := p.broker.use(ctx, run)
	if err != nil {
		return service.CommandResult{}, err
	}
	defer done()
	if output == nil {
		result, err := p.broker.options.Process.Run(ctx, l.runner(), command, nil)
		l.events.lose(result.Lost)
		return result, err
	}
	return p.broker.options.Process.Run(ctx, l.runner(), command, func(chunk service.Chunk) error { return output(ctx, chunk) })
}

func (p *processes) Start(ctx context.Context, command service.Command) (service.ProcessInfo, error) {
	return onProcess(ctx, p.broker, start, command, (*process.Service).Start)
}

func (p *processes) Output(ctx context.Context, query service.OutputQuery) (service.ProcessOutput, error) {
	return onProcess(ctx, p.broker, output, query, (*process.Service).Output)
}

func (p *processes) Input(ctx context.Context, in service.ProcessInput) error {
	l, ctx, done, err := p.broker.use(ctx, input)
	if err != nil {
		return err
	}
	defer done()
	return p.broker.options.Process.Input(ctx, l.runner(), in)
}

func (p *processes) Stop(ctx context.Context, id string) (service.ProcessInfo, error) {
	return onProcess(ctx, p.broker, stop, id, (*process.Service).Stop)
}

func (p *processes) List(ctx context.Context) ([]service.ProcessInfo, error) {
	l, ctx, done, err := p.broker.use(ctx, listProcesses)
	if err != nil {
		return nil, err
	}
	defer done()
	return p.broker.options.Process.List(ctx, l.runner())
}

// onProcess runs one method of the engine for the call that the callback belongs to.
func onProcess[Query, Answer any](
	ctx context.Context, b *Broker, m method, q Query,
	answer func(*process.Service, context.Context, process.Caller, Query) (Answer, error),
) (Answer, error) {
	l, ctx, done, err := b.use(ctx, m)
	if err != nil {
		var none Answer
		return none, err
	}
	defer done()
	return answer(b.options.Process, ctx, l.runner(), q)
}

// runner is on whose behalf the engine runs commands.
func (l *Lease) runner() process.Caller {
	c := process.Caller{
		Gate: l.gate, Session: l.whose.Session, Plugin: l.broker.options.Plugin, Profile: l.broker.options.Profile,
		Left: l.left,
	}
	if l.events.output != nil {
		c.Output = (*commandOutput)(&l.events)
	}
	if l.events.progress != nil {
		c.Progress = l.events.report
	}
	return c
}
