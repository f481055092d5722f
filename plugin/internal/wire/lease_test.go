package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pluginv1 "github.com/toolhost/toolhost/plugin/proto/toolhost/plugin/v1"
	"github.com/toolhost/toolhost/tool"
)

func newLeasing(t testing.TB) (*fakePlugin, *Leasing) {
	t.Helper()
	fake := &fakePlugin{}
	client := NewLeasing(connect(t, func(r grpc.ServiceRegistrar) { ServePlugin(r, fake) }))
	t.Cleanup(client.Close)
	return fake, client
}

func (l *Leasing) kept() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.idle)
}

// Streams are opened when they are needed, as many as there are calls at once; 64
// stay, and none after the end. A call that runs when the pool is closed goes on.
//
// Seen to fail: with no bound in give; with closed left out of it.
func TestStreamsArePooled(t *testing.T) {
	echo, client := &echoPlugin{began: make(chan struct{}, 100), release: make(chan struct{})}, (*Leasing)(nil)
	client = NewLeasing(connect(t, func(r grpc.ServiceRegistrar) { ServePlugin(r, echo) }))
	if n := client.kept(); n != 0 {
		t.Errorf("%d streams before the first call", n)
	}
	var calls sync.WaitGroup
	call := func(n int) {
		calls.Go(func() {
			input := fmt.Sprint(n)
			if r, err := client.Execute(t.Context(), Execution{Input: []byte(input)}, nil, io.Discard); err != nil || string(r.Output) != input {
				t.Errorf("call %d = %s, %v", n, r.Output, err)
			}
		})
	}
	for n := range maxIdle + 20 {
		call(n)
		<-echo.began // all of them run at once
	}
	close(echo.release)
	calls.Wait()
	if n := client.kept(); n != maxIdle {
		t.Errorf("%d streams are kept, want %d", n, maxIdle)
	}
	for n := range 200 {
		call(n)
		<-echo.began
	}
	calls.Wait()
	if n := client.kept(); n > maxIdle {
		t.Errorf("%d streams are kept, at most %d", n, maxIdle)
	}
	echo.release = make(chan struct{})
	call(1)
	<-echo.began
	client.Close()
	close(echo.release)
	calls.Wait()
	if n := client.kept(); n != 0 {
		t.Errorf("%d streams after the end", n)
	}
}

// echoPlugin answers with the input, once it may.
type echoPlugin struct {
	fakePlugin
	began   chan struct{}
	release chan struct{}
}

func (p *echoPlugin) Execute(_ context.Context, e Execution, _ func(tool.Progress), _ io.Writer) (tool.Result, error) {
	release := p.release
	p.began <- struct{}{}
	<-release
	return tool.Result{Output: e.Input}, nil
}

// A stream is kept after an outcome, whatever it is, and not after anything else.
// The context of a handler ends with its call, and with its deadline.
//
// Seen to fail: with a stream kept after any error; with the handler given the
// context of the stream.
func TestWhichStreamsAreKept(t *testing.T) {
	fake, client := newLeasing(t)
	var ended <-chan struct{}
	for _, tt := range []struct {
		name string
		err  error
		kept int
	}{
		{"completed", nil, 1},
		{"failed", &tool.Failure{Message: "m"}, 1},
		{"errored", errors.New("e"), 1},
		{"cancelled", context.Canceled, 0},
		{"late", context.DeadlineExceeded, 0},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		e := Execution{}
		fake.execute = func(ctx context.Context, _ func(tool.Progress)) (tool.Result, error) {
			ended = ctx.Done()
			switch {
			case errors.Is(tt.err, context.Canceled):
				cancel()
				<-ctx.Done()
			case errors.Is(tt.err, context.DeadlineExceeded):
				<-ctx.Done() // the plugin keeps it: the host's context has none
			}
			return tool.Result{Output: []byte("1")}, tt.err
		}
		if errors.Is(tt.err, context.DeadlineExceeded) {
			e.Deadline = 1e6
		}
		_, err := client.Execute(ctx, e, nil, io.Discard)
		if (err == nil) != (tt.err == nil) || Ended(err) != (tt.kept == 1 && tt.err != nil) {
			t.Errorf("%s: error = %v", tt.name, err)
		}
		if n := client.kept(); n != tt.kept {
			t.Errorf("%s: %d streams are kept, want %d", tt.name, n, tt.kept)
		}
		if err == nil || Ended(err) {
			<-ended
		}
		cancel()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.Execute(ctx, Execution{}, nil, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that is over before it began: %v", err)
	}
}

// scripted is a stream on which a plugin sends what a test says.
type scripted struct {
	grpc.BidiStreamingClient[pluginv1.LeaseRequest, pluginv1.LeaseResponse]
	sent   []*pluginv1.LeaseRequest
	events []*pluginv1.LeaseResponse
}

func (s *scripted) Send(r *pluginv1.LeaseRequest) error {
	s.sent = append(s.sent, r)
	return nil
}

func (s *scripted) Recv() (*pluginv1.LeaseResponse, error) {
	if len(s.events) == 0 {
		return nil, io.EOF
	}
	event := s.events[0]
	s.events = s.events[1:]
	return event, nil
}

// Whatever the plugin sends and whenever, a call has its own events and no others,
// and a stream that brought anything else carries no further call.
//
// Seen to fail: with the numbers not compared; with clean left alone by a late event.
func TestModelOfLeasedStreams(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plugin := &scripted{}
		s := &leased{stream: plugin, clean: true}
		clean := true
		for number := uint64(1); number <= 8 && clean; number++ {
			own := fmt.Appendf(nil, "%d", number)
			broken, output := false, ""
			plugin.events = nil
			for over := false; !over; {
				response := &pluginv1.LeaseResponse{Number: number}
				kind := rapid.SampledFrom([]string{"output", "outcome", "outcome", "late", "ahead", "none", "last"}).Draw(t, "event")
				switch kind {
				case "output":
					response.Event, output = outputEvent(string(own)), output+string(own)
				case "late":
					response.Number = rapid.Uint64Range(0, number-1).Draw(t, "late")
					response.Event = rapid.SampledFrom([]*pluginv1.ExecuteResponse{completedEvent([]byte("late")), outputEvent("late"), nil}).Draw(t, "what")
					clean, broken = false, broken || response.GetNumber() == 0
				case "ahead":
					response.Number, response.Event = number+1, completedEvent([]byte("ahead"))
					clean, broken = false, true
				case "none":
					clean, broken = false, true
				case "outcome", "last":
					response.Event, response.Last = completedEvent(own), kind == "last"
					clean = clean && kind != "last"
					over = true
				}
				plugin.events = append(plugin.events, response)
				over = over || broken
			}
			var written bytes.Buffer
			r, err := s.execute(Execution{}, answer{output: &written})
			if (err != nil) != broken || err == nil && !bytes.Equal(r.Output, own) || written.String() != output {
				t.Fatalf("call %d: %s, %q, %v; want %q, broken: %t", number, r.Output, written.String(), err, output, broken)
			}
			if kept := s.clean && err == nil; kept != clean {
				t.Fatalf("call %d: kept: %t, want %t", number, kept, clean)
			}
		}
	})
}

func outputEvent(text string) *pluginv1.ExecuteResponse {
	return &pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_Output{Output: []byte(text)}}
}

func completedEvent(output []byte) *pluginv1.ExecuteResponse {
	return &pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_Completed{Completed: &pluginv1.Completed{Output: output}}}
}

// No bytes that a plugin can send on a leased stream break the host, or pass for an
// outcome of a call that has another number.
func FuzzLeasedEvents(f *testing.F) {
	for _, r := range []*pluginv1.LeaseResponse{
		{},
		{Number: 1, Event: completedEvent([]byte("1"))},
		{Number: 2, Event: completedEvent([]byte("1")), Last: true},
		{Number: 3, Event: outputEvent("x")},
		{Number: 2, Event: &pluginv1.ExecuteResponse{Event: &pluginv1.ExecuteResponse_Failed{Failed: &pluginv1.Failed{Message: "m"}}}},
	} {
		data, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, data)
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		plugin, own := &scripted{}, false
		for _, data := range [][]byte{first, second} {
			r := &pluginv1.LeaseResponse{}
			if proto.Unmarshal(data, r) != nil {
				return
			}
			plugin.events = append(plugin.events, r)
			own = own || r.GetNumber() == 2
		}
		s := &leased{stream: plugin, clean: true, number: 1}
		_, err := s.execute(Execution{}, answer{output: io.Discard})
		if (err == nil || Ended(err)) && !own {
			t.Fatalf("an outcome that nobody sent: %v", err)
		}
	})
}
