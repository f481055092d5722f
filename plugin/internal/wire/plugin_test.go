package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pluginv1 "github.com/toolhost/toolhost/plugin/proto/toolhost/plugin/v1"
	"github.com/toolhost/toolhost/tool"
)

// fakePlugin answers what a test says, and notes what it was given.
type fakePlugin struct {
	description Description
	activation  Activation
	execution   Execution
	token       bool // the context had one
	err         error
	execute     func(ctx context.Context, progress func(tool.Progress)) (tool.Result, error)
	output      func(io.Writer) error // what is written before, if it is not nil
	preparation Preparation
	prepare     func() // runs while it prepares, if it is not nil
	discarded   uint64
	awaited     string
	drained     int
}

func (p *fakePlugin) Describe(context.Context, []string) (Description, error) {
	return p.description, p.err
}

func (p *fakePlugin) Activate(ctx context.Context, a Activation) error {
	p.activation, p.token = a, HasToken(ctx)
	return p.err
}

func (p *fakePlugin) Prepare(ctx context.Context, e Execution) (Preparation, error) {
	p.execution, p.token = e, HasToken(ctx)
	if p.prepare != nil {
		p.prepare()
	}
	return p.preparation, p.err
}

func (p *fakePlugin) Discard(_ context.Context, action uint64) error {
	p.discarded = action
	return p.err
}

func (p *fakePlugin) Await(_ context.Context, token string) error {
	p.awaited = token
	return p.err
}

func (p *fakePlugin) Execute(ctx context.Context, e Execution, progress func(tool.Progress), output io.Writer) (tool.Result, error) {
	p.execution, p.token = e, HasToken(ctx)
	if p.output != nil {
		if err := p.output(output); err != nil {
			return tool.Result{}, err
		}
	}
	return p.execute(ctx, progress)
}

func (p *fakePlugin) Drain(context.Context) error {
	p.drained++
	return p.err
}

func newFakePlugin(t testing.TB) (*fakePlugin, Plugin) {
	fake := &fakePlugin{}
	return fake, NewPlugin(connect(t, func(r grpc.ServiceRegistrar) { ServePlugin(r, fake) }))
}

// bothWays runs a test with a stream for every call, and with leased ones.
func bothWays(t *testing.T, test func(*testing.T, *fakePlugin, Plugin)) {
	t.Run("streamed", func(t *testing.T) {
		fake, client := newFakePlugin(t)
		test(t, fake, client)
	})
	t.Run("leased", func(t *testing.T) {
		fake, client := newLeasing(t)
		test(t, fake, client)
	})
}

// Whatever stands in a value, it arrives, with the invalid bytes of texts
// replaced; bytes arrive as they are.
func TestPluginCrossesTheLine(t *testing.T) {
	fake, client := newFakePlugin(t)
	empty := cmpopts.EquateEmpty()
	rapid.Check(t, func(t *rapid.T) {
		d := Description{
			Name: anyText(t, "name"), Version: anyText(t, "version"), SDK: anyText(t, "sdk"), Services: anyTexts(t, "services"),
			Settings: anyBytes(t, "settings"), Features: anyTexts(t, "features"),
		}
		fake.description = d
		d.Name, d.Version, d.SDK, d.Services, d.Features = arrives(d.Name), arrives(d.Version), arrives(d.SDK), arriveAll(d.Services), arriveAll(d.Features)
		got, err := client.Describe(context.Background(), []string{"a\xff"})
		if diff := cmp.Diff(d, got, empty); err != nil || diff != "" {
			t.Fatalf("Describe: %v (-want +got):\n%s", err, diff)
		}
		a := Activation{
			ServicesID: rapid.Uint32().Draw(t, "id"), Plugin: anyText(t, "plugin"), Location: anyText(t, "location"), Root: anyText(t, "root"),
			Settings: anyBytes(t, "settings"), Grants: anyTexts(t, "grants"), Token: "token", Features: anyTexts(t, "features"),
		}
		if err := client.Activate(context.Background(), a); err != nil || !fake.token {
			t.Fatalf("Activate: %v, with a token: %t", err, fake.token)
		}
		a.Plugin, a.Location, a.Root, a.Grants, a.Features = arrives(a.Plugin), arrives(a.Location), arrives(a.Root), arriveAll(a.Grants), arriveAll(a.Features)
		if diff := cmp.Diff(a, fake.activation, empty); diff != "" {
			t.Fatalf("Activate (-want +got):\n%s", diff)
		}
	})
	if err := client.Drain(t.Context()); err != nil || fake.drained != 1 {
		t.Errorf("Drain = %v, %d times", err, fake.drained)
	}
	fake.err = errors.New("caf\xe9 " + strings.Repeat("é", maxErrorText))
	err := client.Activate(t.Context(), Activation{})
	if remote, ok := errors.AsType[*RemoteError](err); !ok || !strings.HasPrefix(remote.Message, "caf\uFFFD é") || len(remote.Message) > maxErrorText {
		t.Errorf("Activate = %.100v", err)
	}
	if client.Drain(t.Context()) == nil {
		t.Error("an error of Drain did not arrive")
	}
	if _, err := client.Describe(t.Context(), nil); err == nil {
		t.Error("an error of Describe did not arrive")
	}
}

func anyContent(t *rapid.T) tool.Content {
	c := tool.Content{Type: rapid.SampledFrom([]tool.ContentType{tool.TextContent, tool.ImageContent, tool.AudioContent, tool.ResourceLink, tool.EmbeddedResource}).Draw(t, "type")}
	switch c.Type {
	case tool.TextContent:
		c.Text = anyText(t, "text")
	case tool.ResourceLink:
		c.URI, c.Name, c.Description, c.MIMEType = anyText(t, "uri"), anyText(t, "name"), anyText(t, "description"), anyText(t, "type")
	case tool.EmbeddedResource:
		c.URI, c.MIMEType = anyText(t, "uri"), anyText(t, "type")
		if rapid.Bool().Draw(t, "of text") {
			c.Text = anyText(t, "text")
		} else {
			c.Data = anyBytes(t, "data")
		}
	default:
		c.Data, c.MIMEType = anyBytes(t, "data"), anyText(t, "type")
	}
	return c
}

func arrivedContent(list []tool.Content) []tool.Content {
	var out []tool.Content
	for _, c := range list {
		c.Text, c.URI, c.Name, c.Description, c.MIMEType = arrives(c.Text), arrives(c.URI), arrives(c.Name), arrives(c.Description), arrives(c.MIMEType)
		out = append(out, c)
	}
	return out
}

func TestCallCrossesTheLine(t *testing.T) { bothWays(t, testCallCrossesTheLine) }

func testCallCrossesTheLine(t *testing.T, fake *fakePlugin, client Plugin) {
	rapid.Check(t, func(t *rapid.T) {
		e := Execution{
			Executor: rapid.Uint64().Draw(t, "executor"), Action: rapid.Uint64().Draw(t, "action"), Tool: anyText(t, "tool"), Token: "token", Input: anyBytes(t, "input"),
			Identity: tool.Identity{
				Session: anyText(t, "session"), Agent: anyText(t, "agent"), Message: anyText(t, "message"), Call: anyText(t, "call"),
				HostMade: rapid.Bool().Draw(t, "made"),
			},
			Deadline: time.Duration(rapid.IntRange(0, 1e6).Draw(t, "deadline")) * time.Millisecond,
		}
		want := tool.Result{Output: anyBytes(t, "output"), Structured: anyBytes(t, "structured"), Lost: rapid.Int64Range(0, math.MaxInt64).Draw(t, "lost")}
		for range rapid.IntRange(0, 3).Draw(t, "content") {
			want.Content = append(want.Content, anyContent(t))
		}
		steps := []tool.Progress{{Done: rapid.Float64().Draw(t, "done"), Total: 2, Message: anyText(t, "message")}, {Done: 2}}
		fake.execute = func(_ context.Context, progress func(tool.Progress)) (tool.Result, error) {
			for _, step := range steps {
				progress(step)
			}
			return want, nil
		}
		var reports []tool.Progress
		got, err := client.Execute(context.Background(), e, func(p tool.Progress) { reports = append(reports, p) }, io.Discard)
		result := want
		result.Content = arrivedContent(want.Content)
		if diff := cmp.Diff(result, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("Execute: %v (-want +got):\n%s", err, diff)
		}
		e.Tool = arrives(e.Tool)
		e.Identity.Session, e.Identity.Agent, e.Identity.Message, e.Identity.Call = arrives(e.Identity.Session), arrives(e.Identity.Agent), arrives(e.Identity.Message), arrives(e.Identity.Call)
		if diff := cmp.Diff(e, fake.execution, cmpopts.EquateEmpty()); diff != "" || !fake.token {
			t.Fatalf("the plugin got, with a token: %t (-want +got):\n%s", fake.token, diff)
		}
		steps[0].Message = arrives(steps[0].Message)
		if diff := cmp.Diff(steps, reports); diff != "" {
			t.Fatalf("progress (-want +got):\n%s", diff)
		}
	})
}

// However a handler ends, the call does.
func TestOutcomes(t *testing.T) { bothWays(t, testOutcomes) }

func testOutcomes(t *testing.T, fake *fakePlugin, client Plugin) {
	tests := []struct {
		name    string
		execute func(context.Context, func(tool.Progress)) (tool.Result, error)
		want    func(error) bool
	}{
		{"failure", func(context.Context, func(tool.Progress)) (tool.Result, error) {
			return tool.Result{}, fmt.Errorf("wrapped: %w", &tool.Failure{Message: "try\xff later"})
		}, func(err error) bool {
			failure, ok := errors.AsType[*tool.Failure](err)
			return ok && failure.Message == "try\uFFFD later"
		}},
		{"long failure", func(context.Context, func(tool.Progress)) (tool.Result, error) {
			return tool.Result{}, &tool.Failure{Message: "begin" + strings.Repeat("日", 1<<20) + "the end", Lost: 5}
		}, func(err error) bool {
			failure, ok := errors.AsType[*tool.Failure](err)
			const mark = "\n[… the middle was dropped …]\n"
			return ok && len(failure.Message) <= maxFailureText && strings.HasPrefix(failure.Message, "begin") &&
				strings.HasSuffix(failure.Message, "the end") && utf8.ValidString(failure.Message) &&
				failure.Lost == 5+int64(3<<20+len("beginthe end")-len(failure.Message)+len(mark))
		}},
		{"error", func(context.Context, func(tool.Progress)) (tool.Result, error) {
			return tool.Result{}, errors.New("out of paper")
		}, func(err error) bool {
			remote, ok := errors.AsType[*RemoteError](err)
			return ok && *remote == RemoteError{Message: "out of paper"}
		}},
		{"refusal", func(context.Context, func(tool.Progress)) (tool.Result, error) {
			return tool.Result{}, fmt.Errorf("x: %w", &tool.Refusal{Kind: tool.KindDenied, Action: "a", Resource: "r"})
		}, func(err error) bool {
			remote, ok := errors.AsType[*RemoteError](err)
			return ok && remote.Refused
		}},
		{"panic", func(context.Context, func(tool.Progress)) (tool.Result, error) { panic("boom") }, func(err error) bool {
			remote, ok := errors.AsType[*RemoteError](err)
			return ok && remote.Panicked && strings.HasPrefix(remote.Message, "panic: boom\n\ngoroutine")
		}},
		{"end of the goroutine", func(context.Context, func(tool.Progress)) (tool.Result, error) {
			runtime.Goexit()
			return tool.Result{}, nil
		}, func(err error) bool {
			remote, ok := errors.AsType[*RemoteError](err)
			return ok && strings.Contains(remote.Message, "Goexit")
		}},
		{"unknown content", func(context.Context, func(tool.Progress)) (tool.Result, error) {
			return tool.Result{Content: []tool.Content{{Type: "video"}}}, nil
		}, func(err error) bool {
			remote, ok := errors.AsType[*RemoteError](err)
			return ok && remote.Message == `content 0 has the unknown type "video"`
		}},
		{"too large", func(context.Context, func(tool.Progress)) (tool.Result, error) {
			return tool.Result{Output: make([]byte, MaxOutput)}, nil
		}, func(err error) bool {
			remote, ok := errors.AsType[*RemoteError](err)
			return ok && strings.Contains(remote.Message, "at most 67108864")
		}},
	}
	for _, tt := range tests {
		fake.execute = tt.execute
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		if _, err := client.Execute(ctx, Execution{}, nil, io.Discard); !tt.want(err) {
			t.Errorf("%s: %T %.200v", tt.name, err, err)
		}
		cancel()
	}
	fake.execute = func(ctx context.Context, _ func(tool.Progress)) (tool.Result, error) {
		<-ctx.Done()
		return tool.Result{}, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := client.Execute(ctx, Execution{}, nil, io.Discard); err == nil {
		t.Error("a cancelled call has no error")
	} else if _, remote := errors.AsType[*RemoteError](err); remote {
		t.Errorf("a cancelled call is an error of the plugin: %v", err)
	}
}

// sent collects what a server sends.
type sent struct {
	grpc.ServerStreamingServer[pluginv1.ExecuteResponse]
	events []*pluginv1.ExecuteResponse
}

func (s *sent) Send(r *pluginv1.ExecuteResponse) error {
	s.events = append(s.events, r)
	return nil
}

// An answer is the same whether it came whole or in pieces. One that is too large
// to come whole comes in messages no larger than a piece with its envelope.
func TestPieces(t *testing.T) {
	for _, n := range []int{0, 1, MaxChunk, MaxWhole - 12, MaxWhole - 11, MaxWhole - 5, MaxWhole, MaxWhole + MaxChunk - 12, 10 << 20} {
		want := tool.Result{Output: bytes.Repeat([]byte("x"), n), Content: []tool.Content{tool.Text("t")}}
		s := &sent{}
		if err := sendCompleted(s, want); err != nil {
			t.Fatal(err)
		}
		var a answer
		for k, event := range s.events {
			if size := proto.Size(event); size > MaxChunk+8 && len(s.events) > 1 || size > MaxWhole+8 {
				t.Errorf("%d bytes: a message of %d bytes", n, size)
			}
			got, over, err := a.take(event)
			if over != (k == len(s.events)-1) {
				t.Fatalf("%d bytes: over after event %d of %d", n, k, len(s.events))
			}
			if over && (err != nil || !bytes.Equal(got.Output, want.Output) || len(got.Content) != 1) {
				t.Errorf("%d bytes came as %d, %v", n, len(got.Output), err)
			}
		}
	}
}

// The pieces of an answer are bounded, each of them and all together.
func TestAnswerIsBounded(t *testing.T) {
	chunk := func(n int) *pluginv1.ExecuteResponse {
		return &pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_Chunk{Chunk: make([]byte, n)}}
	}
	a := answer{output: io.Discard}
	for n := range MaxOutput / MaxChunk {
		if _, over, err := a.take(chunk(MaxChunk)); over || err != nil {
			t.Fatalf("piece %d: over: %t, %v", n, over, err)
		}
	}
	if _, over, err := a.take(chunk(1)); !over || err == nil || !strings.Contains(err.Error(), "is over 67108864 bytes") {
		t.Errorf("one byte too many: over: %t, %v", over, err)
	}
}

// No sequence of events that a plugin can send breaks the host, makes it hold more
// than it may, or counts as success without being complete.
func FuzzAnswer(f *testing.F) {
	add := func(events ...*pluginv1.ExecuteResponse) {
		var seed []byte
		for _, e := range events {
			data, err := proto.Marshal(e)
			if err != nil {
				f.Fatal(err)
			}
			seed = append(append(seed, byte(len(data))), data...)
		}
		f.Add(seed)
	}
	data, _ := proto.Marshal(&pluginv1.Completed{Output: []byte("1"), Content: []*pluginv1.Content{{}}})
	chunk := &pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_Chunk{Chunk: data}}
	add(&pluginv1.ExecuteResponse{})
	add(chunk, &pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_CompletedInChunks{CompletedInChunks: &pluginv1.CompletedInChunks{Size: int64(len(data))}}})
	add(chunk, &pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_CompletedInChunks{CompletedInChunks: &pluginv1.CompletedInChunks{Size: int64(len(data)) + 1}}})
	add(&pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_Progress{Progress: &pluginv1.Progress{Done: 1, Message: "m"}}},
		&pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_Failed{Failed: &pluginv1.Failed{Message: "m"}}})
	add(&pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_Output{Output: []byte("o\xff")}},
		&pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_Completed{Completed: &pluginv1.Completed{Output: []byte("1"), Lost: -1}}})
	add(&pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_Output{}})
	add(&pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_Errored{Errored: &pluginv1.Errored{Message: "m", Panicked: true}}})
	f.Fuzz(func(t *testing.T, in []byte) {
		reports, received := 0, 0
		written := 0
		a := answer{progress: func(p tool.Progress) {
			if reports++; len(p.Message) > maxProgressText {
				t.Errorf("progress of %d bytes", len(p.Message))
			}
		}, output: writerFunc(func(p []byte) (int, error) {
			if written += len(p); len(p) == 0 || len(p) > MaxChunk {
				t.Errorf("output of %d bytes", len(p))
			}
			return len(p), nil
		})}
		for len(in) > 0 {
			n := min(int(in[0]), len(in)-1)
			event := &pluginv1.ExecuteResponse{}
			if proto.Unmarshal(in[1:1+n], event) != nil {
				return
			}
			in = in[1+n:]
			received += len(event.GetChunk())
			result, over, err := a.take(event)
			if result.Lost < 0 {
				t.Fatalf("%d bytes were lost", result.Lost)
			}
			if len(a.pieces) > received {
				t.Fatalf("%d bytes are held, %d were received", len(a.pieces), received)
			}
			if !over {
				if err != nil {
					t.Fatalf("an error that does not end the call: %v", err)
				}
				continue
			}
			if c := event.GetCompletedInChunks(); c != nil && err == nil && c.GetSize() != int64(received) {
				t.Fatalf("success with %d of %d bytes", received, c.GetSize())
			}
			if err != nil && (result.Output != nil || result.Content != nil) {
				t.Fatalf("a result with the error %v", err)
			}
			return
		}
	})
}

// What a plugin sends as content becomes something that can be sent again, and is
// then the same; or it has a type that nobody knows.
func FuzzContent(f *testing.F) {
	for _, c := range []*pluginv1.Completed{
		{},
		{Output: []byte("{}"), Structured: []byte("1"), Content: []*pluginv1.Content{{Block: &pluginv1.Content_Text{Text: &pluginv1.TextBlock{Text: "t"}}}}},
		{Content: []*pluginv1.Content{{Block: &pluginv1.Content_Image{Image: &pluginv1.MediaBlock{Data: []byte{1}, MimeType: "image/png"}}}, {}}},
		{Content: []*pluginv1.Content{
			{Block: &pluginv1.Content_Resource{Resource: &pluginv1.ResourceBlock{Uri: "u", MimeType: "text/plain", Contents: &pluginv1.ResourceBlock_Text{Text: "t"}}}},
			{Block: &pluginv1.Content_Resource{Resource: &pluginv1.ResourceBlock{Uri: "u", Contents: &pluginv1.ResourceBlock_Data{Data: []byte{1}}}}},
			{Block: &pluginv1.Content_Resource{Resource: &pluginv1.ResourceBlock{}}},
		}},
		{Content: []*pluginv1.Content{{Block: &pluginv1.Content_Audio{Audio: &pluginv1.MediaBlock{}}}, {Block: &pluginv1.Content_Link{Link: &pluginv1.LinkBlock{Uri: "u"}}}}},
	} {
		data, err := proto.Marshal(c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var c pluginv1.Completed
		if proto.Unmarshal(in, &c) != nil {
			return
		}
		result := resultFromWire(&c)
		again, err := resultToWire(result)
		if err != nil {
			for _, block := range c.GetContent() {
				if block.GetBlock() == nil {
					return
				}
			}
			t.Fatalf("known content cannot be sent: %v", err)
		}
		if diff := cmp.Diff(result, resultFromWire(again), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("sent again (-want +got):\n%s", diff)
		}
	})
}

// A message has text or data of a resource: one with both loses neither, it is not sent.
// One with neither arrives as that, for the registry to refuse.
//
// Seen to fail: with the data preferred in silence.
func TestResourceIsTextOrData(t *testing.T) {
	both := tool.DataResource("u", "", []byte{1})
	both.Text = "t"
	if _, err := resultToWire(tool.Result{Content: []tool.Content{tool.Text("t"), both}}); err == nil || !strings.Contains(err.Error(), "content 1 is a resource with both") {
		t.Errorf("both: %v", err)
	}
	var empty pluginv1.Content
	if err := proto.Unmarshal([]byte{5<<3 | 2, 0}, &empty); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]tool.Content{{Type: tool.EmbeddedResource}}, contentFromWire([]*pluginv1.Content{&empty})); diff != "" {
		t.Errorf("neither (-want +got):\n%s", diff)
	}
}
