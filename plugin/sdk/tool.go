package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolhost/toolhost/tool"
)

// Tools are tools by their authored names. The host replaces what a name may not
// have; see the documentation of the configuration.
type Tools map[string]Tool

// A Tool is a description, schemas, and one handler. It has no name and may be
// registered under several. [New], [NewProjected], [NewPrepared],
// [NewPreparedProjected], [Dynamic] and [DynamicPrepared] make one.
type Tool struct {
	value   tool.Tool
	prepare dynamicPrepare // nil for a tool of which every call is declared
	run     dynamicHandler
	err     error // of making it; Register returns it
}

type (
	dynamicHandler = func(ctx context.Context, call Call, input json.RawMessage) (Result, error)
	dynamicPrepare = func(ctx context.Context, call Call, input json.RawMessage) (Preparation[Result], error)
)

// New makes a tool of a handler. Its schemas are derived from In, which must be
// a struct or a map, and Out; a `jsonschema:"…"` tag of a field is its
// description. The output is what the model gets.
func New[In, Out any](description string, handler func(ctx context.Context, call Call, in In) (Out, error), options ...Option) Tool {
	if handler == nil {
		return Tool{err: errors.New("the handler is nil")}
	}
	return typed(description, nil, finished(handler, plain[In, Out]), schemaFor[Out], nil, options)
}

// NewProjected makes a tool whose model reads something else than the output.
// project is pure: it depends on nothing but its arguments and cannot fail. What
// it returns is the structured value, which may be smaller than the output, and
// the content that the model reads; without content the structured value is all
// there is. A model is given one of the two, so the content holds all that it needs.
func NewProjected[In, Out, Structured any](
	description string,
	handler func(ctx context.Context, call Call, in In) (Out, error),
	project func(in In, out Out) (Structured, []Content),
	options ...Option,
) Tool {
	if handler == nil || project == nil {
		return Tool{err: errors.New("the handler or the projection is nil")}
	}
	return typed(description, nil, finished(handler, projected(project)), schemaFor[Out], schemaFor[Structured], options)
}

// Declaration is what a dynamic tool says of itself. The schemas are JSON Schema
// and refer to nothing outside themselves; see [tool.Tool] for what an empty one
// means.
type Declaration struct {
	Description string
	Input       json.RawMessage
	Output      json.RawMessage
	// Structured is for a structured value that is not the output.
	Structured json.RawMessage
}

// Result is what the handler of a dynamic tool gives back.
type Result = tool.Result

// Dynamic makes a tool whose schemas are known only at run time. The handler
// gets the very bytes that were validated.
func Dynamic(d Declaration, handler func(ctx context.Context, call Call, input json.RawMessage) (Result, error), options ...Option) Tool {
	if handler == nil {
		return Tool{err: errors.New("the handler is nil")}
	}
	return dynamic(d, nil, handler, options)
}

func dynamic(d Declaration, prepare dynamicPrepare, handler dynamicHandler, options []Option) Tool {
	t := Tool{prepare: prepare, run: handler, value: tool.Tool{
		Description: d.Description,
		Input:       bytes.Clone(d.Input), Output: bytes.Clone(d.Output), Structured: bytes.Clone(d.Structured),
	}}
	for _, option := range options {
		option.apply(&t.value)
	}
	return t
}

// typed is the one way from types to a dynamic tool.
func typed[In any](
	description string,
	prepare func(context.Context, Call, In) (Preparation[Result], error),
	run func(context.Context, Call, In) (Result, error),
	output, structured func() (json.RawMessage, error),
	options []Option,
) Tool {
	d := Declaration{Description: description}
	var err error
	if d.Input, err = schemaFor[In](); err == nil {
		err = checkObject[In]()
	}
	if err == nil {
		d.Output, err = output()
	}
	if err == nil && structured != nil {
		d.Structured, err = structured()
	}
	if err != nil {
		return Tool{err: err}
	}
	if prepare == nil {
		return dynamic(d, nil, decoded(run), options)
	}
	return dynamic(d, decoded(prepare), decoded(run), options)
}

// decoded makes a handler of types one of JSON.
func decoded[In, Answer any](handler func(context.Context, Call, In) (Answer, error)) func(context.Context, Call, json.RawMessage) (Answer, error) {
	exact := holdsInterface(reflect.TypeFor[In](), map[reflect.Type]bool{})
	return func(ctx context.Context, call Call, input json.RawMessage) (Answer, error) {
		in, err := decodeInput[In](input, exact)
		if err != nil {
			var none Answer
			return none, fmt.Errorf("decode input: %w", err)
		}
		return handler(ctx, call, in)
	}
}

// finished is a handler whose output is made a result.
func finished[In, Out any](
	handler func(context.Context, Call, In) (Out, error), finish func(In, Out) (Result, error),
) func(context.Context, Call, In) (Result, error) {
	return func(ctx context.Context, call Call, in In) (Result, error) {
		out, err := handler(ctx, call, in)
		if err != nil {
			return Result{}, err
		}
		return finish(in, out)
	}
}

// plain makes an output the result.
func plain[In, Out any](_ In, out Out) (Result, error) {
	output, err := encode(out)
	return Result{Output: output}, err
}

// projected makes a result of what an output is projected to.
func projected[In, Out, Structured any](project func(In, Out) (Structured, []Content)) func(In, Out) (Result, error) {
	return func(in In, out Out) (result Result, err error) {
		if result.Output, err = encode(out); err != nil {
			return Result{}, err
		}
		structured, content := project(in, out)
		result.Content = content
		result.Structured, err = encode(structured)
		return result, err
	}
}

func schemaFor[T any]() (json.RawMessage, error) {
	schema, err := jsonschema.For[T](encodings())
	if err != nil {
		return nil, fmt.Errorf("no schema can be derived: %w", err)
	}
	return json.Marshal(schema)
}

// encodings are the types whose JSON is not that of their kind.
func encodings() *jsonschema.ForOptions {
	return &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[[]byte]():          {Types: []string{"null", "string"}, ContentEncoding: "base64"},
		reflect.TypeFor[json.RawMessage](): {},
		reflect.TypeFor[json.Number]():     {Type: "number"},
	}}
}

func checkObject[In any]() error {
	t := reflect.TypeFor[In]()
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct && t.Kind() != reflect.Map {
		return fmt.Errorf("the input type %s is neither a struct nor a map: a model sends an object", t)
	}
	return nil
}

// encode writes JSON as it is, without the escapes that are for web pages.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode output: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Content is one block of what a model reads.
type Content = tool.Content

// Text is a block of text.
func Text(text string) Content { return tool.Text(text) }

// Image is a picture of the given media type, such as "image/png".
func Image(data []byte, mimeType string) Content { return tool.Image(data, mimeType) }

// Audio is a sound of the given media type, such as "audio/wav".
func Audio(data []byte, mimeType string) Content { return tool.Audio(data, mimeType) }

// Link refers to something that can be read elsewhere.
func Link(uri, name string) Content { return tool.Link(uri, name) }

// TextResource is what stands at the URI, as text that is not empty. The media type,
// such as "text/markdown", may be empty. A model sees no more of the text than of any
// other.
func TextResource(uri, mimeType, text string) Content { return tool.TextResource(uri, mimeType, text) }

// DataResource is what stands at the URI, as bytes, of which there is at least one. The
// media type, such as "application/pdf", may be empty.
func DataResource(uri, mimeType string, data []byte) Content {
	return tool.DataResource(uri, mimeType, data)
}
