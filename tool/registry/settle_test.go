package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/schema"
)

// Seen to fail: with the result of Validate ignored; without each of the checks of
// output, structured value and content.
func TestLaw11InvalidValues(t *testing.T) {
	b := newBench(t)
	var got []string
	strict := executes(func(_ context.Context, call tool.Call) (tool.Result, error) {
		got = append(got, string(call.Input))
		return tool.Result{Output: call.Input}, nil
	})
	strict.Input = json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"id":{"type":"integer"}}}`)
	output := func(schema, structured string, result tool.Result) tool.Tool {
		x := returns(result, nil)
		x.Output, x.Structured = json.RawMessage(schema), json.RawMessage(structured)
		return x
	}
	text := func(s string) json.RawMessage { return json.RawMessage(s) }
	b.register(builtin, map[string]tool.Tool{
		"strict": strict, "none": returns(tool.Result{}, nil),
		"type":         output(`{"type":"object"}`, ``, tool.Result{Output: text(`"secret"`)}),
		"nothing":      output(`{"type":"object"}`, ``, tool.Result{Content: []tool.Content{tool.Text("x")}}),
		"nothing2":     output(``, `{"type":"object"}`, tool.Result{Content: []tool.Content{tool.Text("x")}}),
		"twice":        output(``, ``, tool.Result{Output: text(`{"a":1,"a":2}`)}),
		"case":         output(`{"properties":{"a":{}}}`, ``, tool.Result{Output: text(`{"a":1,"A":2}`)}),
		"not json":     output(``, ``, tool.Result{Output: text(`{`)}),
		"structured":   output(`{"type":"string"}`, `{"type":"integer"}`, tool.Result{Output: text(`"a"`), Structured: text(`"b"`)}),
		"structured2":  output(`{"type":"string"}`, `{"type":"integer"}`, tool.Result{Output: text(`"a"`)}),
		"structured3":  output(`{"type":"string"}`, ``, tool.Result{Output: text(`"a"`), Structured: text(`5`)}),
		"structured4":  output(``, ``, tool.Result{Output: text(`"a"`), Structured: text(`{`)}),
		"content":      returns(tool.Result{Content: []tool.Content{{Type: "video"}}}, nil),
		"image":        returns(tool.Result{Content: []tool.Content{{Type: tool.ImageContent, Data: []byte{1}}}}, nil),
		"audio":        returns(tool.Result{Content: []tool.Content{{Type: tool.AudioContent, MIMEType: "audio/wav"}}}, nil),
		"link":         returns(tool.Result{Content: []tool.Content{tool.Text("x"), tool.Link("", "name")}}, nil),
		"resource":     returns(tool.Result{Content: []tool.Content{tool.TextResource("", "text/plain", "x")}}, nil),
		"resource2":    returns(tool.Result{Content: []tool.Content{tool.TextResource("file:///x", "text/plain", "")}}, nil),
		"resource3":    returns(tool.Result{Content: []tool.Content{{Type: tool.EmbeddedResource, URI: "file:///x", Text: "x", Data: []byte{1}}}}, nil),
		"smaller":      output(`{"type":"string"}`, `{"type":"integer"}`, tool.Result{Output: text(`"a"`), Structured: text(`5`)}),
		"same":         output(`{"type":"integer"}`, `{"minimum":4}`, tool.Result{Output: text(`5`)}),
		"unvalidated":  output(``, ``, tool.Result{Output: text(`"a"`), Structured: text(`5`)}),
		"content only": output(``, ``, tool.Result{Content: []tool.Content{tool.Text("x")}}),
	})
	inputs := []struct{ input, want string }{
		{`{"path":"ok.txt"}`, `{"path":"ok.txt"}`},
		{` {"id" : 9007199254740993} `, ` {"id" : 9007199254740993} `},
		{``, `{}`}, {`null`, `{}`}, {" \n", `{}`}, {`{}`, `{}`}, // case D07
		{`{"path":"ok.txt","PATH":"secret"}`, `rejected, invalid_input, ran false: input of "strict" is invalid: /PATH: differs from the declared "path" in case only`},
		{`{"path":"a","path":"b"}`, `rejected, invalid_input, ran false: input of "strict" is invalid: /path: is there twice`},
		{`{"path":5}`, `rejected, invalid_input, ran false: input of "strict" is invalid: /path: expected string, got number 5`},
		{`{"id":"10"}`, `rejected, invalid_input, ran false: input of "strict" is invalid: /id: expected integer, got string "10"`}, // case D08
		{`[]`, `rejected, invalid_input, ran false: input of "strict" is invalid: value: expected object, got array of 0`},
		{`{`, `rejected, invalid_input, ran false: input of "strict" is invalid: value: expected a key, got the end of the text (at byte 1)`},
		{`{"path":"` + "\xff" + `"}`, `rejected, invalid_input, ran false: input of "strict" is invalid: /path: has a string that is not valid UTF-8 (at byte 10)`},
		{strings.Repeat(`{"a":`, 100_000), `is nested deeper than 512 levels`}, // case D13
	}
	valid := 0
	for _, tt := range inputs {
		outcome := b.call("strict", tt.input)
		if !strings.HasSuffix(outcome, tt.want) {
			t.Errorf("%.40q\n got %.300s\nwant %s", tt.input, outcome, tt.want)
		}
		if !strings.Contains(tt.want, "invalid") && !strings.Contains(tt.want, "nested") {
			valid++
		}
	}
	if len(got) != valid {
		t.Errorf("the executor saw %q", got)
	}

	const unavailable = "error, invalid_output, ran true: the tool is unavailable"
	outputs := []struct{ name, want, cause string }{
		{"type", unavailable, `output of filesystem/type is invalid: value: expected object, got string "secret"`},
		{"nothing", unavailable, `output of filesystem/nothing is invalid: there is none, and the tool declares a schema for it`}, // case E19
		{"nothing2", unavailable, `structured value of filesystem/nothing2 is invalid: there is none, and the tool declares a schema for it`},
		{"twice", unavailable, `output of filesystem/twice is invalid: /a: is there twice`},
		{"case", unavailable, `output of filesystem/case is invalid: /A: differs from the declared "a" in case only`},
		{"not json", unavailable, `output of filesystem/not json is invalid: value: expected a key, got the end of the text (at byte 1)`},
		{"structured", unavailable, `structured value of filesystem/structured is invalid: value: expected integer, got string "b"`},
		{"structured2", unavailable, `structured value of filesystem/structured2 is invalid: value: expected integer, got string "a"`},
		{"structured3", unavailable, `structured value of filesystem/structured3 is invalid: value: expected string, got number 5`},
		{"structured4", unavailable, `structured value of filesystem/structured4 is invalid: value: expected a key, got the end of the text (at byte 1)`},
		{"content", unavailable, `content of filesystem/content is invalid: block 0 has the unknown type "video"`},
		{"image", unavailable, `content of filesystem/image is invalid: block 0 is image without data or media type`},
		{"audio", unavailable, `content of filesystem/audio is invalid: block 0 is audio without data or media type`},
		{"link", unavailable, `content of filesystem/link is invalid: block 1 is a resource link without URI`},
		{"resource", unavailable, `content of filesystem/resource is invalid: block 0 is a resource without URI`},
		{"resource2", unavailable, `content of filesystem/resource2 is invalid: block 0 is a resource without exactly one of text and data`},
		{"resource3", unavailable, `content of filesystem/resource3 is invalid: block 0 is a resource without exactly one of text and data`},
		{"smaller", `5 [text a]`, ""},
		{"same", `5`, ""},
		{"unvalidated", `5 [text a]`, ""},
		{"content only", ` [text x]`, ""},
		{"none", ``, ""},
	}
	for _, tt := range outputs {
		s, err := b.Capture().Call(t.Context(), b.request(tool.EffectiveName(tt.name), ""))
		if got := inWords(s, err); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
		if tt.cause != "" && (s.Error == nil || s.Error.Cause.Error() != tt.cause || s.Structured != nil || s.Content != nil) {
			t.Errorf("%s: got %+v, caused by %v\nwant %s", tt.name, s, s.Error.Cause, tt.cause)
		}
	}
}

// Seen to fail: with the output re-encoded from encoding/json's float64.
func TestCaseD01NumbersThroughACall(t *testing.T) {
	b := newBench(t)
	b.register(weather, map[string]tool.Tool{"echo": echoes(`{"type":"object","properties":{"id":{"type":"integer"},"u":{"type":"integer","minimum":0}}}`)})
	const input = `{"id":9007199254740993,"n":-9223372036854775808,"u":18446744073709551615,"d":0.10,"e":1e400}`
	if got := b.call("echo", input); got != input {
		t.Errorf("got %s, want %s", got, input)
	}
}

// Without content, an output that is a string is also given as text; content is
// copied and made fit to be shown.
//
// Seen to fail: without the string's case in contentOf, and without clean.
func TestLaw16Projection(t *testing.T) {
	b := newBench(t)
	blocks := []tool.Content{
		tool.Text("a\xffb"), tool.Image([]byte{1}, "image/png"), tool.Audio([]byte{2}, "audio/wav"),
		{Type: tool.ResourceLink, URI: "file:///x", Name: "x", Text: "not its own"},
		{Type: tool.EmbeddedResource, URI: "file:///\xff", MIMEType: "text/\xff", Text: "c\xff", Name: "not its own"},
		tool.DataResource("file:///y", "", []byte{3, 0xff}),
	}
	result := func(output string, content ...tool.Content) tool.Tool {
		return returns(tool.Result{Output: json.RawMessage(output), Content: content}, nil)
	}
	b.register(builtin, map[string]tool.Tool{
		"string":  result(`"line\nline"`),
		"object":  result(`{"a":1}`),
		"number":  result(`1`),
		"content": result(`"text"`, blocks...),
	})
	tests := []struct{ name, want string }{
		{"string", "\"line\\nline\" [text line\nline]"},
		{"object", `{"a":1}`},
		{"number", `1`},
		{"content", "\"text\" [text a\uFFFDb] [image image/png] [audio audio/wav] [resource_link file:///x]" +
			" [resource c\uFFFDtext/\uFFFDfile:///\uFFFD] [resource file:///y]"},
	}
	for _, tt := range tests {
		if got := b.call(tt.name, ""); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
	s, _ := b.Capture().Call(t.Context(), b.request("content", ""))
	if got := s.Content[4]; got.Name != "" || s.Content[5].Text != "" || !bytes.Equal(s.Content[5].Data, []byte{3, 0xff}) {
		t.Errorf("resources became %+v", s.Content[4:])
	}
	s.Content[1].MIMEType = "changed"
	if blocks[1].MIMEType != "image/png" {
		t.Error("the settlement shares the tool's content")
	}
}

// What is too large to be given at all is no mistake of the output's form (law 17).
func TestLaw17TooLargeToBeGiven(t *testing.T) {
	b := newBench(t)
	huge := append(append([]byte{'"'}, bytes.Repeat([]byte("x"), schema.MaxValueBytes)...), '"')
	b.register(builtin, map[string]tool.Tool{"x": returns(tool.Result{Output: huge}, nil), "y": returns(tool.Result{Structured: huge}, nil)})
	for _, name := range []string{"x", "y"} {
		if got, want := b.call(name, ""), "error, too_large, ran true: the tool's output is too large to be given"; got != want {
			t.Errorf("%s: got %.200s, want %s", name, got, want)
		}
	}
}

// What is doubtful in a schema is reported with the registration, for as long as it
// stands, and the tool is callable (case D15).
func TestCaseD15DoubtfulSchemas(t *testing.T) {
	b := newBench(t)
	x := says("hi")
	x.Input = json.RawMessage(`{"type":"object","properties":{"tags":{"type":"array","enum":["a"]}}}`)
	registration, report := b.Register(weather, map[string]tool.Tool{"x": x, "y": says("y")})
	want := "x: input schema at /properties/tags: no value of enum has the type array"
	if got := reasons(report.Doubts); got != want || reasons(b.Doubts("weather")) != want || len(report.Refused) > 0 {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := b.call("x", ""); got != `"hi" [text hi]` {
		t.Errorf("got %s", got)
	}
	registration.Close()
	if got := reasons(b.Doubts("weather")); got != "" {
		t.Errorf("afterwards: got %s", got)
	}
}
