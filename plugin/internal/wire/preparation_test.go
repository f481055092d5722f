package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pluginv1 "github.com/toolhost/toolhost/plugin/proto/toolhost/plugin/v1"
	"github.com/toolhost/toolhost/tool"
)

func anyRequests(t *rapid.T) []tool.PermissionRequest {
	var out []tool.PermissionRequest
	for range rapid.IntRange(0, 3).Draw(t, "requests") {
		r := tool.PermissionRequest{Action: anyText(t, "action"), Resources: anyTexts(t, "resources"), Save: anyTexts(t, "save")}
		if rapid.Bool().Draw(t, "metadata") {
			r.Metadata = map[string]string{anyText(t, "key"): anyText(t, "value")}
		}
		out = append(out, r)
	}
	return out
}

func arrivedRequests(list []tool.PermissionRequest) []tool.PermissionRequest {
	var out []tool.PermissionRequest
	for _, r := range list {
		out = append(out, tool.PermissionRequest{
			Action: arrives(r.Action), Resources: arriveAll(r.Resources), Save: arriveAll(r.Save), Metadata: metadataToWire(r.Metadata),
		})
	}
	return out
}

// A preparation arrives as it was said; so does the call that is prepared, and what
// is discarded and awaited.
func TestPreparationCrossesTheLine(t *testing.T) {
	fake, client := newFakePlugin(t)
	rapid.Check(t, func(t *rapid.T) {
		p := Preparation{
			Effects:      tool.Effects(rapid.Uint16().Draw(t, "effects")) & (tool.AllEffects | tool.None),
			Irreversible: rapid.Bool().Draw(t, "irreversible"), Requests: anyRequests(t), Targets: anyTexts(t, "targets"),
			Prepared: rapid.Bool().Draw(t, "prepared"),
		}
		if p.Prepared {
			p.Review = anyText(t, "review")
		}
		fake.preparation = p
		e := Execution{Executor: 3, Action: rapid.Uint64().Draw(t, "action"), Tool: "p/t", Token: "token", Input: anyBytes(t, "input")}
		got, err := client.Prepare(context.Background(), e)
		p.Requests, p.Review = arrivedRequests(p.Requests), arrives(p.Review) // targets are bytes and arrive as they are
		if diff := cmp.Diff(p, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("Prepare: %v (-want +got):\n%s", err, diff)
		}
		if diff := cmp.Diff(e, fake.execution, cmpopts.EquateEmpty()); diff != "" || !fake.token {
			t.Fatalf("the plugin got, with a token: %t (-want +got):\n%s", fake.token, diff)
		}
	})
	if err := errors.Join(client.Discard(t.Context(), 7), client.Await(t.Context(), "x")); err != nil || fake.discarded != 7 || fake.awaited != "x" {
		t.Errorf("discarded %d, awaited %q: %v", fake.discarded, fake.awaited, err)
	}
	for name, tt := range map[string]struct {
		err     error
		prepare func()
		want    func(error) bool
	}{
		"failure": {&tool.Failure{Message: "no such file"}, nil, func(err error) bool {
			failure, ok := errors.AsType[*tool.Failure](err)
			return ok && failure.Message == "no such file"
		}},
		"error": {errors.New("out of paper"), nil, func(err error) bool {
			remote, ok := errors.AsType[*RemoteError](err)
			return ok && remote.Message == "out of paper"
		}},
		"panic": {nil, func() { panic("boom") }, func(err error) bool {
			remote, ok := errors.AsType[*RemoteError](err)
			return ok && remote.Panicked
		}},
	} {
		fake.err, fake.prepare = tt.err, tt.prepare
		if _, err := client.Prepare(t.Context(), Execution{}); !tt.want(err) {
			t.Errorf("%s: %T %v", name, err, err)
		}
	}
	fake.err, fake.prepare = nil, nil
	fake.preparation = Preparation{Targets: make([]string, MaxTargets+1)}
	if _, err := client.Prepare(t.Context(), Execution{}); err == nil || !strings.Contains(err.Error(), "at most 64 and 256") {
		t.Errorf("too many targets: %v", err)
	}
}

// What comes from a plugin is bounded, whatever its own side did.
func TestPreparationIsBounded(t *testing.T) {
	long := strings.Repeat("x", maxRequestBytes)
	for name, p := range map[string]*pluginv1.Preparation{
		"requests":     {Requests: make([]*pluginv1.PermissionRequest, MaxRequests+1)},
		"targets":      {Targets: make([][]byte, MaxTargets+1)},
		"a target":     {Targets: [][]byte{make([]byte, MaxTarget+1)}},
		"a request":    {Requests: []*pluginv1.PermissionRequest{{Resources: make([]string, maxResources+1)}}},
		"all requests": {Requests: []*pluginv1.PermissionRequest{{Action: long}, {Action: "x"}}},
	} {
		_, err := preparationFromWire(&pluginv1.PrepareResponse{Outcome: &pluginv1.PrepareResponse_Preparation{Preparation: p}})
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	got, err := preparationFromWire(&pluginv1.PrepareResponse{Outcome: &pluginv1.PrepareResponse_Preparation{Preparation: &pluginv1.Preparation{
		Effects: []pluginv1.Effect{pluginv1.Effect_EFFECT_READ, 99}, Action: &pluginv1.PreparedAction{Review: strings.Repeat("r", 2*MaxReview)},
	}}})
	if err != nil || got.Effects != tool.AllEffects || len(got.Review) > MaxReview || !got.Prepared {
		t.Errorf("got %v, a review of %d bytes, %v", got.Effects, len(got.Review), err)
	}
	if _, err := preparationFromWire(&pluginv1.PrepareResponse{}); err == nil {
		t.Error("an answer without an outcome is no error")
	}
}

func TestRequestsAreBounded(t *testing.T) {
	long := strings.Repeat("x", maxRequestBytes)
	metadata := map[string]string{}
	for n := range maxMetadata + 1 {
		metadata[fmt.Sprint(n)] = ""
	}
	for name, r := range map[string]tool.PermissionRequest{
		"resources": {Resources: make([]string, maxResources+1)},
		"save":      {Save: make([]string, maxResources+1)},
		"metadata":  {Metadata: metadata},
		"action":    {Action: long + "x"},
		"bytes":     {Resources: []string{long}, Save: []string{"x"}},
		"values":    {Metadata: map[string]string{"k": long}},
	} {
		if err := CheckRequest(r); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := CheckRequest(tool.PermissionRequest{Action: "a", Resources: make([]string, maxResources)}); err != nil {
		t.Error(err)
	}
}

// Output of any size comes in pieces and in order, before the outcome; an error of
// the one who takes it ends the call and is told to the one who writes it.
func TestOutputCrossesTheLine(t *testing.T) { bothWays(t, testOutputCrossesTheLine) }

func testOutputCrossesTheLine(t *testing.T, fake *fakePlugin, client Plugin) {
	want := strings.Repeat("all work and no play\n", 10_000) + "\xff"
	fake.output = func(w io.Writer) error {
		if n, err := w.Write(nil); n != 0 || err != nil {
			t.Errorf("writing nothing: %d, %v", n, err)
		}
		n, err := io.WriteString(w, want)
		if n != len(want) {
			t.Errorf("wrote %d of %d bytes", n, len(want))
		}
		return err
	}
	fake.execute = func(context.Context, func(tool.Progress)) (tool.Result, error) {
		return tool.Result{Output: []byte("1")}, nil
	}
	var got strings.Builder
	if r, err := client.Execute(t.Context(), Execution{}, nil, &got); err != nil || string(r.Output) != "1" || got.String() != want {
		t.Errorf("got %d bytes, want %d; %s, %v", got.Len(), len(want), r.Output, err)
	}

	full := errors.New("disk full")
	wrote := make(chan error, 1)
	fake.output = func(w io.Writer) error {
		for {
			if _, err := io.WriteString(w, want); err != nil {
				wrote <- err
				return err
			}
		}
	}
	_, err := client.Execute(t.Context(), Execution{}, nil, writerFunc(func([]byte) (int, error) { return 0, full }))
	if output, ok := errors.AsType[*OutputError](err); !ok || !errors.Is(output, full) {
		t.Errorf("error = %v, want that of the writer", err)
	}
	if <-wrote == nil {
		t.Error("the handler does not learn that nobody takes its output")
	}
	_, err = client.Execute(t.Context(), Execution{}, nil, writerFunc(func(p []byte) (int, error) { return len(p) - 1, nil }))
	if !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("error = %v, want that it was short", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// No bytes that a plugin can send as a preparation break the host, or get more into
// it than the bounds allow.
func FuzzPreparation(f *testing.F) {
	for _, r := range []*pluginv1.PrepareResponse{
		{},
		{Outcome: &pluginv1.PrepareResponse_Failed{Failed: &pluginv1.Failed{Message: "m"}}},
		{Outcome: &pluginv1.PrepareResponse_Errored{Errored: &pluginv1.Errored{Message: "m", Panicked: true}}},
		{Outcome: &pluginv1.PrepareResponse_Preparation{Preparation: &pluginv1.Preparation{
			Effects: []pluginv1.Effect{1, 7, 99}, Irreversible: true, Targets: [][]byte{[]byte("a\xff"), nil},
			Requests: []*pluginv1.PermissionRequest{{Action: "a", Resources: []string{"r"}, Metadata: map[string]string{"k": "v"}}, nil},
			Action:   &pluginv1.PreparedAction{Review: "r"},
		}}},
	} {
		data, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var r pluginv1.PrepareResponse
		if proto.Unmarshal(in, &r) != nil {
			return
		}
		p, err := preparationFromWire(&r)
		if err != nil {
			if p.Prepared || p.Requests != nil || p.Effects != 0 {
				t.Fatalf("a preparation with the error %v", err)
			}
			return
		}
		if r.GetPreparation() == nil {
			t.Fatal("a preparation of nothing")
		}
		if _, err := CheckNeeds(p.Requests, p.Targets); err != nil || len(p.Review) > MaxReview || p.Effects&^(tool.AllEffects|tool.None) != 0 {
			t.Fatalf("over a bound: %v, a review of %d bytes, effects %b", err, len(p.Review), p.Effects)
		}
		again, err := preparationToWire(p)
		if err != nil {
			t.Fatalf("it cannot be sent again: %v", err)
		}
		second, err := preparationFromWire(&pluginv1.PrepareResponse{Outcome: &pluginv1.PrepareResponse_Preparation{Preparation: again}})
		if diff := cmp.Diff(p, second, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("sent again: %v (-want +got):\n%s", err, diff)
		}
	})
}
