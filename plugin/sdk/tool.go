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
// registered under several. [New], [NewProjected] and [Dynamic] make one.
type Tool struct {
	value tool.Tool
	run   func(ctx context.Context, call Call, input json.RawMessage) (Result, error)
	err   error // of making it; Register returns it
}

// An Option is a further property of a tool.
type Option interface{ apply(*tool.Tool) }

// An Effect is something that a call may do beyond computing its answer. A tool
// that declares none may do everything, as far as the host can tell, and is
// treated so.
type Effect tool.Effects

// The effects.
const (
	// Read looks at files or other state of the Location.
	Read = Effect(tool.Read)
	// Write changes files or other state of the Location.
	Write = Effect(tool.Write)
	// Process runs programs.
	Process = Effect(tool.Process)
	// Network talks to other machines.
	Network = Effect(tool.Network)
	// UserInteraction asks the person something.
	UserInteraction = Effect(tool.UserInteraction)
	// Delegation hands work to another agent.
	Delegation = Effect(tool.Delegation)
	// NoEffect declares that a call only computes its answer.
	NoEffect = Effect(tool.None)
)

func (e Effect) apply(t *tool.Tool) { t.Effects |= tool.Effects(e) }

// Title is a short name of a tool, for people.
type Title string

func (title Title) apply(t *tool.Tool) { t.Title = string(title) }

// New makes a tool of a handler. Its schemas are derived from In, which must be
// a struct or a map, and Out; a `jsonschema:"…"` tag of a field is its
// description. The output is what the model gets.
func New[In, Out any](description string, handler func(ctx context.Context, call Call, in In) (Out, error), options ...Option) Tool {
	if handler == nil {
		return Tool{err: errors.New("the handler is nil")}
	}
	return typed(description, func(ctx context.Context, call Call, in In) (Result, error) {
		out, err := handler(ctx, call, in)
		if err != nil {
			return Result{}, err
		}
		output, err := encode(out)
		return Result{Output: output}, err
	}, schemaFor[Out], nil, options)
}

// NewProjected makes a tool whose model reads something else than the output.
// project is pure: it depends on nothing but its arguments and cannot fail. What
// it returns is the structured value, which may be smaller than the output, and
// the content that the model reads; without content the structured value is all
// there is.
func NewProjected[In, Out, Structured any](
	description string,
	handler func(ctx context.Context, call Call, in In) (Out, error),
	project func(in In, out Out) (Structured, []Content),
	options ...Option,
) Tool {
	if handler == nil || project == nil {
		return Tool{err: errors.New("the handler or the projection is nil")}
	}
	return typed(description, func(ctx context.Context, call Call, in In) (Result, error) {
		out, err := handler(ctx, call, in)
		if err != nil {
			return Result{}, err
		}
		var result Result
		if result.Output, err = encode(out); err != nil {
			return Result{}, err
		}
		structured, content := project(in, out)
		result.Content = content
		result.Structured, err = encode(structured)
		return result, err
	}, schemaFor[Out], schemaFor[Structured], options)
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
	t := Tool{run: handler, value: tool.Tool{
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
	exact := holdsInterface(reflect.TypeFor[In](), map[reflect.Type]bool{})
	return Dynamic(d, func(ctx context.Context, call Call, input json.RawMessage) (Result, error) {
		in, err := decodeInput[In](input, exact)
		if err != nil {
			return Result{}, fmt.Errorf("decode input: %w", err)
		}
		return run(ctx, call, in)
	}, options...)
}

func schemaFor[T any]() (json.RawMessage, error) {
	schema, err := jsonschema.For[T](nil)
	if err != nil {
		return nil, fmt.Errorf("no schema can be derived: %w", err)
	}
	return json.Marshal(schema)
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

// Call says for whom a handler runs. The ids are the runner's; a plugin cannot
// change what the host knows of its call.
type Call struct {
	// SessionID, Agent, MessageID and CallID identify the call.
	SessionID, Agent, MessageID, CallID string
	// HostMade is true when some of the ids were made by the host.
	HostMade bool
	// Tool is the canonical id of the tool: the plugin's key, a slash, the name.
	Tool string

	progress func(tool.Progress)
}

// Progress reports how far the call has come: done of total, in units of the
// tool's choice, total being 0 when it is not known. It may block while the host
// is busy, and does nothing after the handler returned.
func (c Call) Progress(done, total float64, message string) {
	if c.progress != nil {
		c.progress(tool.Progress{Done: done, Total: total, Message: message})
	}
}
