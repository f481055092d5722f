package wire

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	pluginv1 "github.com/toolhost/toolhost/plugin/proto/toolhost/plugin/v1"
	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/tool"
)

// recordingProcess is a process service that answers what a test says, and notes what it was asked.
type recordingProcess struct {
	token   string
	asked   int
	command service.Command
	query   service.OutputQuery
	id      string
	data    []byte
	last    bool
	at      string
	piped   bool // the output of the run was wanted here

	plan   service.CommandPlan
	chunks []service.Chunk
	result service.CommandResult
	info   service.ProcessInfo
	output service.ProcessOutput
	list   []service.ProcessInfo
	err    error
}

func (p *recordingProcess) ask(ctx context.Context) { p.token, p.asked = IncomingToken(ctx), p.asked+1 }

func (p *recordingProcess) Plan(ctx context.Context, command service.Command) (service.CommandPlan, error) {
	p.ask(ctx)
	p.command = command
	return p.plan, p.err
}

func (p *recordingProcess) Run(ctx context.Context, command service.Command, output TakeChunk) (service.CommandResult, error) {
	p.ask(ctx)
	p.command, p.piped = command, output != nil
	if output != nil {
		for _, chunk := range p.chunks {
			if err := output(ctx, chunk); err != nil {
				return service.CommandResult{}, err
			}
		}
	}
	return p.result, p.err
}

func (p *recordingProcess) Start(ctx context.Context, command service.Command) (service.ProcessInfo, error) {
	p.ask(ctx)
	p.command = command
	return p.info, p.err
}

func (p *recordingProcess) Output(ctx context.Context, q service.OutputQuery) (service.ProcessOutput, error) {
	p.ask(ctx)
	p.query = q
	return p.output, p.err
}

func (p *recordingProcess) Input(ctx context.Context, in service.ProcessInput) error {
	p.ask(ctx)
	p.id, p.data, p.last, p.at = in.ID, in.Data, in.Last, in.At
	return p.err
}

func (p *recordingProcess) Stop(ctx context.Context, id string) (service.ProcessInfo, error) {
	p.ask(ctx)
	p.id = id
	return p.info, p.err
}

func (p *recordingProcess) List(ctx context.Context) ([]service.ProcessInfo, error) {
	p.ask(ctx)
	return p.list, p.err
}

func newProcess(t testing.TB) (*recordingProcess, Process) {
	p := &recordingProcess{}
	return p, NewProcess(connect(t, func(r grpc.ServiceRegistrar) { ServeProcess(r, p) }))
}

// within is a number between the two.
func within(t *rapid.T, label string, least, most int64) int64 {
	return rapid.Int64Range(least, most).Draw(t, label)
}

func anyTerminal(t *rapid.T) *service.TerminalSize {
	if rapid.Bool().Draw(t, "no terminal") {
		return nil
	}
	return &service.TerminalSize{Columns: int(within(t, "columns", 1, 1000)), Rows: int(within(t, "rows", 1, 1000))}
}

func anyCommand(t *rapid.T) service.Command {
	return service.Command{
		Line:      rapid.SampledFrom([]string{"ls", "echo 日本\n\ttrue", strings.Repeat("x", service.MaxCommandLine)}).Draw(t, "line"),
		Directory: anyText(t, "directory"), Shell: anyText(t, "shell"), Stdin: anyBytes(t, "stdin"),
		Timeout:  time.Duration(within(t, "timeout", 0, int64(service.MaxTimeout))),
		Idle:     time.Duration(within(t, "idle", 0, int64(service.MaxTimeout))),
		Terminal: anyTerminal(t),
		Name:     rapid.SampledFrom([]string{"", "dev server", "日本", strings.Repeat("n", service.MaxProcessName)}).Draw(t, "name"),
		Place:    anyText(t, "place"),
	}
}

func anyResult(t *rapid.T) service.CommandResult {
	return service.CommandResult{
		Ending: service.Ending(anyText(t, "ending")), Code: number(t, "code"), Signal: anyText(t, "signal"),
		LeftRunning: rapid.Bool().Draw(t, "left"), Survivors: anyText(t, "survivors"), Duration: time.Duration(number(t, "duration")),
		Stdout: rapid.Int64().Draw(t, "stdout"), Stderr: rapid.Int64().Draw(t, "stderr"), Lost: rapid.Int64().Draw(t, "lost"),
		CPU: time.Duration(number(t, "cpu")), Memory: rapid.Int64().Draw(t, "memory"), Lacks: anyTexts(t, "lacks"),
	}
}

func arrivedResult(r service.CommandResult) service.CommandResult {
	r.Ending, r.Signal, r.Survivors, r.Lacks = service.Ending(arrives(string(r.Ending))), arrives(r.Signal), arrives(r.Survivors), arriveAll(r.Lacks)
	return r
}

func anyInfo(t *rapid.T) service.ProcessInfo {
	info := service.ProcessInfo{
		ID: anyText(t, "id"), Name: anyText(t, "name"), Line: anyText(t, "line"), Directory: anyText(t, "directory"),
		Terminal: anyTerminal(t), Written: rapid.Int64().Draw(t, "written"),
		Unfinished: string(anyBytes(t, "unfinished")), At: anyText(t, "at"),
	}
	if rapid.Bool().Draw(t, "started") {
		info.Started = time.Unix(0, within(t, "when", 1, math.MaxInt64))
	}
	if rapid.Bool().Draw(t, "ended") {
		result := anyResult(t)
		info.Result = &result
	}
	return info
}

func arrivedInfo(p service.ProcessInfo) service.ProcessInfo {
	p.ID, p.Name, p.Line, p.At = arrives(p.ID), arrives(p.Name), arrives(p.Line), arrives(p.At)
	if p.Result != nil {
		result := arrivedResult(*p.Result)
		p.Result = &result
	}
	return p
}

// Every field of every message survives the line, in both directions, with the token of its
// call. What need not be text is bytes.
//
// Seen to fail: with each field of resultOfCommandToWire left out in turn.
func TestProcessesCrossTheLine(t *testing.T) {
	p, client := newProcess(t)
	ctx := WithToken(t.Context(), "token")
	rapid.Check(t, func(t *rapid.T) {
		same := func(what string, want, got any) {
			t.Helper()
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || p.token != "token" {
				t.Fatalf("%s, token %q (-want +got):\n%s", what, p.token, diff)
			}
		}
		asked := func(what string, want service.Command) {
			t.Helper()
			want.Place = arrives(want.Place)
			same("the command of "+what, want, p.command)
			p.command = service.Command{}
		}
		command := anyCommand(t)
		p.plan = service.CommandPlan{
			Directory: anyText(t, "directory"), Place: anyText(t, "place"), Shell: anyText(t, "shell"), Confined: anyText(t, "confined"),
		}
		plan, err := client.Plan(ctx, command)
		if err != nil {
			t.Fatal(err)
		}
		asked("Plan", command)
		want := p.plan
		want.Place, want.Confined = arrives(want.Place), arrives(want.Confined)
		same("Plan", want, plan)

		p.result, p.chunks = anyResult(t), nil
		for range rapid.IntRange(0, 3).Draw(t, "chunks") {
			p.chunks = append(p.chunks, service.Chunk{
				Stream: rapid.SampledFrom([]service.Stream{service.Stdout, service.Stderr}).Draw(t, "stream"),
				Data:   rapid.SliceOfN(rapid.Byte(), 1, 12).Draw(t, "data"),
			})
		}
		var chunks []service.Chunk
		result, err := client.Run(ctx, command, func(_ context.Context, chunk service.Chunk) error {
			chunks = append(chunks, chunk)
			return nil
		})
		if err != nil || !p.piped {
			t.Fatal(err)
		}
		asked("Run", command)
		same("Run", arrivedResult(p.result), result)
		same("the output of Run", p.chunks, chunks)
		result, err = client.Run(ctx, command, nil)
		if err != nil || p.piped {
			t.Fatalf("%v, or output that was not asked for", err)
		}
		asked("Run to the output", command)
		same("Run to the output", arrivedResult(p.result), result)

		p.info = anyInfo(t)
		info, err := client.Start(ctx, command)
		if err != nil {
			t.Fatal(err)
		}
		asked("Start", command)
		same("Start", arrivedInfo(p.info), info)

		query := service.OutputQuery{
			ID: rapid.SampledFrom([]string{"", "p1"}).Draw(t, "id"), Since: within(t, "since", -math.MaxInt64, math.MaxInt64),
			Wait: time.Duration(within(t, "wait", 0, int64(service.MaxWait))),
		}
		p.output = service.ProcessOutput{
			Process: anyInfo(t), From: rapid.Int64().Draw(t, "from"), Next: rapid.Int64().Draw(t, "next"),
			Data: anyBytes(t, "data"), Dropped: rapid.Int64().Draw(t, "dropped"),
		}
		output, err := client.Output(ctx, query)
		if err != nil {
			t.Fatal(err)
		}
		same("the query of Output", query, p.query)
		wantOutput := p.output
		wantOutput.Process = arrivedInfo(wantOutput.Process)
		same("Output", wantOutput, output)

		data, last := anyBytes(t, "input"), rapid.Bool().Draw(t, "last")
		if err := client.Input(ctx, service.ProcessInput{ID: "p2", Data: data, Last: last, At: "17"}); err != nil || p.id != "p2" || p.last != last || p.at != "17" {
			t.Fatalf("Input of %q, last %t: %v", p.id, p.last, err)
		}
		same("the data of Input", data, p.data)

		info, err = client.Stop(ctx, "p3")
		if err != nil || p.id != "p3" {
			t.Fatalf("Stop of %q: %v", p.id, err)
		}
		same("Stop", arrivedInfo(p.info), info)

		p.list = nil
		var wantList []service.ProcessInfo
		for range rapid.IntRange(0, 2).Draw(t, "processes") {
			p.list = append(p.list, anyInfo(t))
			wantList = append(wantList, arrivedInfo(p.list[len(p.list)-1]))
		}
		list, err := client.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		same("List", wantList, list)
	})
}

// each is every method of a process service, with a command and the id of a process.
func each(ctx context.Context, p Process, command service.Command, id string) map[string]error {
	out := map[string]error{}
	_, out["Plan"] = p.Plan(ctx, command)
	_, out["Run"] = p.Run(ctx, command, func(context.Context, service.Chunk) error { return nil })
	_, out["Run to the output"] = p.Run(ctx, command, nil)
	_, out["Start"] = p.Start(ctx, command)
	_, out["Output"] = p.Output(ctx, service.OutputQuery{ID: id})
	out["Input"] = p.Input(ctx, service.ProcessInput{ID: id, Last: true})
	_, out["Stop"] = p.Stop(ctx, id)
	_, out["List"] = p.List(ctx)
	return out
}

// The errors that a service makes on purpose arrive as what they are, and no others do.
func TestErrorsOfProcesses(t *testing.T) {
	p, client := newProcess(t)
	for _, want := range []error{
		&service.ProcessError{Kind: service.ProcessMoved, Subject: "caf\xe9", Detail: "is another directory"},
		&service.ProcessError{Kind: service.ProcessOneShot, Detail: "d"},
		&tool.Refusal{Kind: tool.KindDeclined, Action: "shell", Resource: "rm", Reason: "no"},
	} {
		p.err = want
		for name, got := range each(t.Context(), client, service.Command{Line: "x"}, "p1") {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
	p.err = errors.New("the engine broke")
	for name, got := range each(t.Context(), client, service.Command{Line: "x"}, "p1") {
		if status.Code(got) != codes.Unknown {
			t.Errorf("%s = %v", name, got)
		}
	}
}

// What a hostile plugin asks for beyond the bounds does not reach the engine: it is an error
// of the kind that it is, which is not as large itself.
//
// Seen to fail: with each case of checkCommand left out in turn.
func TestProcessesAreBounded(t *testing.T) {
	with := func(change func(*service.Command)) service.Command {
		c := service.Command{Line: "true"}
		change(&c)
		return c
	}
	long := strings.Repeat("x", 1<<20)
	p, client := newProcess(t)
	for name, tt := range map[string]struct {
		command service.Command
		kind    service.ProcessErrorKind // empty is none
	}{
		"no line":            {service.Command{}, service.ProcessBadCommand},
		"the longest line":   {with(func(c *service.Command) { c.Line = long[:service.MaxCommandLine] }), ""},
		"a longer line":      {with(func(c *service.Command) { c.Line = long[:service.MaxCommandLine+1] }), service.ProcessBadCommand},
		"a zero byte":        {with(func(c *service.Command) { c.Line = "a\x00b" }), service.ProcessBadCommand},
		"a line of bytes":    {with(func(c *service.Command) { c.Line = "caf\xe9" }), service.ProcessBadCommand},
		"a long directory":   {with(func(c *service.Command) { c.Directory = long }), service.ProcessBadDirectory},
		"a long shell":       {with(func(c *service.Command) { c.Shell = long }), service.ProcessBadCommand},
		"a long place":       {with(func(c *service.Command) { c.Place = long }), service.ProcessBadCommand},
		"much input":         {with(func(c *service.Command) { c.Stdin = make([]byte, service.MaxStdin) }), ""},
		"too much input":     {with(func(c *service.Command) { c.Stdin = make([]byte, service.MaxStdin+1) }), service.ProcessBadCommand},
		"time below 0":       {with(func(c *service.Command) { c.Timeout = -1 }), service.ProcessBadCommand},
		"idle below 0":       {with(func(c *service.Command) { c.Idle = math.MinInt64 }), service.ProcessBadCommand},
		"the longest time":   {with(func(c *service.Command) { c.Timeout, c.Idle = service.MaxTimeout, service.MaxTimeout }), ""},
		"a longer time":      {with(func(c *service.Command) { c.Timeout = service.MaxTimeout + 1 }), service.ProcessBadCommand},
		"longer idle":        {with(func(c *service.Command) { c.Idle = math.MaxInt64 }), service.ProcessBadCommand},
		"no columns":         {with(func(c *service.Command) { c.Terminal = &service.TerminalSize{Rows: 1} }), service.ProcessBadCommand},
		"rows below 0":       {with(func(c *service.Command) { c.Terminal = &service.TerminalSize{Columns: 1, Rows: -1} }), service.ProcessBadCommand},
		"the most columns":   {with(func(c *service.Command) { c.Terminal = &service.TerminalSize{Columns: 1000, Rows: 1000} }), ""},
		"more columns":       {with(func(c *service.Command) { c.Terminal = &service.TerminalSize{Columns: 1001, Rows: 1} }), service.ProcessBadCommand},
		"columns that wrap":  {with(func(c *service.Command) { c.Terminal = &service.TerminalSize{Columns: 1<<32 + 80, Rows: 24} }), service.ProcessBadCommand},
		"a long name":        {with(func(c *service.Command) { c.Name = long[:service.MaxProcessName+1] }), service.ProcessBadCommand},
		"a name that clears": {with(func(c *service.Command) { c.Name = "a\x1b[2J" }), service.ProcessBadCommand},
		"a name of lines":    {with(func(c *service.Command) { c.Name = "a\nb" }), service.ProcessBadCommand},
		"a name that turns":  {with(func(c *service.Command) { c.Name = "a\u202eb" }), service.ProcessBadCommand},
	} {
		p.asked = 0
		for _, method := range []string{"Plan", "Run", "Run to the output", "Start"} {
			err := each(t.Context(), client, tt.command, "p1")[method]
			wantProcessError(t, name+": "+method, err, tt.kind)
		}
		want := 4 * 4 // of each, Output, Input, Stop and List
		if tt.kind == "" {
			want *= 2
		}
		if p.asked != want {
			t.Errorf("%s: the engine was asked %d times, want %d", name, p.asked, want)
		}
	}
	errs := each(t.Context(), client, service.Command{Line: "true"}, long)
	for _, method := range []string{"Output", "Input", "Stop"} {
		wantProcessError(t, "a long id: "+method, errs[method], service.ProcessUnknown)
	}
	_, err := client.Output(t.Context(), service.OutputQuery{ID: "p1", Wait: -1})
	wantProcessError(t, "waiting below 0", err, service.ProcessBadCommand)
	_, err = client.Output(t.Context(), service.OutputQuery{ID: "p1", Wait: service.MaxWait + 1})
	wantProcessError(t, "waiting too long", err, service.ProcessBadCommand)
	wantProcessError(t, "much input", client.Input(t.Context(), service.ProcessInput{ID: "p1", Data: make([]byte, service.MaxInput)}), "")
	wantProcessError(t, "too much input", client.Input(t.Context(), service.ProcessInput{ID: "p1", Data: make([]byte, service.MaxInput+1)}), service.ProcessBadCommand)
	_, err = client.Output(t.Context(), service.OutputQuery{ID: "p1", Since: math.MinInt64})
	if err != nil || -p.query.Since <= 0 {
		t.Errorf("since %d, which cannot be negated: %v", p.query.Since, err)
	}
}

func wantProcessError(t *testing.T, what string, err error, want service.ProcessErrorKind) {
	t.Helper()
	got, ok := errors.AsType[*service.ProcessError](err)
	switch {
	case want == "":
		if err != nil {
			t.Errorf("%s = %v", what, err)
		}
	case !ok || got.Kind != want || got.Detail == "" || len(got.Error()) > 1<<10:
		t.Errorf("%s = %.200v, want %s", what, err, want)
	}
}

// A message without a command is one without a line.
func TestCommandThatIsMissing(t *testing.T) {
	p := &recordingProcess{}
	client := pluginv1.NewProcessServiceClient(connect(t, func(r grpc.ServiceRegistrar) { ServeProcess(r, p) }))
	r, err := client.Start(t.Context(), &pluginv1.StartRequest{})
	if err != nil || r.GetError().GetProcess().GetKind() != string(service.ProcessBadCommand) || p.asked != 0 {
		t.Errorf("got %v, %v", r, err)
	}
}
