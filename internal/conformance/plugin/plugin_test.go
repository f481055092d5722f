package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolhost/toolhost/plugin/sdk"
	"github.com/toolhost/toolhost/plugin/sdk/sdktest"
)

// The host takes every fixture under the very name by which a judge calls it.
func TestNames(t *testing.T) {
	p := sdktest.Start(t, fixtures(), sdktest.Options{})
	if refused := p.Refused(); len(refused) > 0 {
		t.Errorf("got %q refused, want none", refused)
	}
	var got []string
	for _, d := range p.Tools() {
		if strings.HasPrefix(d.ID, "conformance/") {
			got = append(got, d.Name)
		}
	}
	want := []string{
		"json_schema_2020_12_tool", "test_audio_content", "test_cancelled", "test_elicitation", "test_embedded_resource",
		"test_error_handling", "test_image_content", "test_input_required_result_capabilities",
		"test_input_required_result_elicitation", "test_input_required_result_multi_round",
		"test_input_required_result_request_state", "test_input_required_result_tampered_state", "test_large_output",
		"test_logging_tool", "test_multiple_content_types", "test_projected_output", "test_simple_text", "test_slow", "test_streaming_elicitation",
		"test_structured_output", "test_tool_with_progress", "test_trigger_tool_change", "test_x_mcp_header",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAnswers(t *testing.T) {
	p := sdktest.Start(t, fixtures(), sdktest.Options{})
	for _, c := range []struct {
		name, input      string
		status           string
		text, structured string
		types            []string
	}{
		{"test_simple_text", `{}`, "completed", "This is a simple text response for testing.", `"This is a simple text response for testing."`, []string{"text"}},
		{"test_image_content", `{}`, "completed", "", "", []string{"image"}},
		{"test_audio_content", `{}`, "completed", "", "", []string{"audio"}},
		{"test_embedded_resource", `{}`, "completed", "", "", []string{"resource"}},
		{"test_multiple_content_types", `{}`, "completed", "Multiple content types test:", "", []string{"text", "image", "resource"}},
		{"test_error_handling", `{}`, "failed", "", "", nil},
		{"test_structured_output", `{"a": 2, "b": 3}`, "completed", "", `{"sum":5}`, nil},
		{"test_projected_output", `{"a": 2, "b": 3}`, "completed", "2 and 3 are 5", `{"sum":5}`, []string{"text"}},
		{"json_schema_2020_12_tool", `{"contactMethod":"phone","phone":"1"}`, "completed", `{"contactMethod":"phone","phone":"1"}`, "", []string{"text"}},
		{"json_schema_2020_12_tool", `{"contactMethod":"phone","email":"a@b"}`, "rejected", "", "", nil},
		{"test_x_mcp_header", `{"region":"eu"}`, "completed", `{"region":"eu"}`, "", []string{"text"}},
		{"test_logging_tool", `{}`, "completed", "logged", `"logged"`, []string{"text"}},
		{"test_elicitation", `{"message":"go"}`, "completed", "done as it was shown: go", `"done as it was shown: go"`, []string{"text"}},
		{"test_input_required_result_request_state", `{}`, "completed", "state-ok", `"state-ok"`, []string{"text"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := p.Call(c.name, c.input)
			var types []string
			for _, block := range got.Content {
				types = append(types, string(block.Type))
			}
			if string(got.Status) != c.status || got.Text != c.text || string(got.Structured) != c.structured || !slices.Equal(types, c.types) {
				t.Errorf("got %s with %q, want %s: %s with %q and %q", got, types, c.status, c.structured, c.types, c.text)
			}
		})
	}
}

// A judge wants all three reports, so they are slow enough for a host that passes on what a person can follow.
func TestProgress(t *testing.T) {
	p := sdktest.Start(t, fixtures(), sdktest.Options{})
	for _, name := range []string{"test_tool_with_progress", "test_streaming_elicitation"} {
		var got []float64
		if _, err := p.CallProgress(t.Context(), name, `{}`, func(r sdktest.Progress) { got = append(got, r.Done) }); err != nil {
			t.Fatal(err)
		}
		if want := []float64{0, 50, 100}; !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

func TestSlowCallsAreCounted(t *testing.T) {
	p := sdktest.Start(t, fixtures(), sdktest.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := p.CallProgress(ctx, "test_slow", `{}`, func(sdktest.Progress) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cancelled", err)
	}
	const want = `{"cancelled":1}`
	got := p.Call("test_cancelled", `{}`)
	for until := time.Now().Add(10 * time.Second); string(got.Structured) != want && time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		got = p.Call("test_cancelled", `{}`) // the plugin may hear of it after the caller did
	}
	if string(got.Structured) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAnotherToolComesAndGoes(t *testing.T) {
	p := sdktest.Start(t, fixtures(), sdktest.Options{})
	for _, want := range []bool{true, false, true} {
		p.Call("test_trigger_tool_change", `{}`)
		got := slices.ContainsFunc(p.Tools(), func(d sdktest.Tool) bool { return d.Name == transient })
		if got != want {
			t.Fatalf("after a call: got %t, want %t", got, want)
		}
	}
}

// The tools that need an approval ask for it, one after the other where they need two, and do nothing without.
func TestApprovals(t *testing.T) {
	var asked []string
	p := sdktest.Start(t, fixtures(), sdktest.Options{Permission: func(r sdk.PermissionRequest) error {
		asked = append(asked, r.Action+" "+strings.Join(r.Resources, ","))
		if strings.HasSuffix(r.Action, "_elicitation") {
			return errors.New("no")
		}
		return nil
	}})
	if got := p.Call("test_elicitation", `{"message":"go"}`); got.Status != "rejected" {
		t.Errorf("got %s, want that it was rejected", got)
	}
	if got := p.Call("test_input_required_result_multi_round", `{}`); got.Text != "done, after two questions" {
		t.Errorf("got %s, want that it is done", got)
	}
	want := []string{
		"conformance/test_elicitation person",
		"conformance/test_input_required_result_multi_round step one",
		"conformance/test_input_required_result_multi_round step two",
	}
	if !slices.Equal(asked, want) {
		t.Errorf("asked for %q, want %q", asked, want)
	}
}

func TestLargeOutputIsKept(t *testing.T) {
	p := sdktest.Start(t, fixtures(), sdktest.Options{})
	got := p.Call("test_large_output", `{}`)
	if len(got.Retained) != 1 || got.Retained[0].Lines != 10_000 || string(got.Structured) != `{"lines":10000}` {
		t.Errorf("got %d kept and %s, want one of 10,000 lines", len(got.Retained), got.Structured)
	}
}
