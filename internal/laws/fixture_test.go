package laws

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/tool"
)

// A spec describes a tool of the suite. It crosses the line to the process that runs the tool as JSON, and so schemas are
// text here, which may be no JSON at all.
type spec struct {
	Says                      string // tells tools apart: it is the output of a call that commands nothing
	Does                      string // what such a call commands all the same, with the rest of its input
	Title, Description        string
	Input, Output, Structured string
	Effects                   uint16 // tool.Effects
	Irreversible              bool
	Requests                  []tool.PermissionRequest
	Targets                   []string
	Unavailable               string
	Prepares                  bool
	Result                    *answer // what a call gives that commands nothing, in place of Says
}

// An answer is a result that crosses as JSON.
type answer struct {
	Output     string         `json:"output,omitempty"` // JSON
	Structured string         `json:"structured,omitempty"`
	Content    []tool.Content `json:"content,omitempty"`
	Lost       int64          `json:"lost,omitempty"`
}

func (a answer) result() tool.Result {
	return tool.Result{
		Output: json.RawMessage(a.Output), Structured: json.RawMessage(a.Structured), Content: a.Content, Lost: a.Lost,
	}
}

// An order is what the input of a call commands.
type order struct {
	Do      string       `json:"do,omitempty"`
	Text    string       `json:"text,omitempty"`
	Action  string       `json:"action,omitempty"` // of an assertion; the tool's own id without it
	Size    int          `json:"size,omitempty"`
	Times   int          `json:"times,omitempty"`
	Result  *answer      `json:"result,omitempty"`
	Pieces  []piece      `json:"pieces,omitempty"`
	Prepare *preparation `json:"prepare,omitempty"`
	Path    string       `json:"path,omitempty"`
	Paths   []string     `json:"paths,omitempty"`

	Command   string `json:"command,omitempty"`
	Directory string `json:"directory,omitempty"`

	Requests []tool.PermissionRequest `json:"requests,omitempty"`
}

// A piece is a text, so many times.
type piece struct {
	Text  string `json:"text"`
	Times int    `json:"times"`
}

// built is the text that the pieces make.
func (o order) built() string {
	var text strings.Builder
	for _, p := range o.Pieces {
		for range p.Times {
			text.WriteString(p.Text)
		}
	}
	return text.String()
}

// A preparation is what a tool that prepares is to answer.
type preparation struct {
	Do           string                   `json:"do,omitempty"` // as in an order, before it answers
	Text         string                   `json:"text,omitempty"`
	Effects      uint16                   `json:"effects,omitempty"`
	Irreversible bool                     `json:"irreversible,omitempty"`
	Requests     []tool.PermissionRequest `json:"requests,omitempty"`
	Targets      []string                 `json:"targets,omitempty"`
	Action       bool                     `json:"action,omitempty"`
	Review       string                   `json:"review,omitempty"`
}

func (o order) String() string {
	b, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// ordered is what the input commands, which is nothing where it is no order.
func ordered(call tool.Call) order {
	var o order
	if json.Unmarshal(call.Input, &o) != nil {
		return order{}
	}
	return o
}

// A deed is what a tool did, as it recorded it.
type deed struct {
	What  string `json:"what"` // execute, prepare, commit, discard, cancelled, ended
	Tool  string `json:"tool"`
	Says  string `json:"says"`
	Call  string `json:"call"`
	Input string `json:"input,omitempty"`
	Text  string `json:"text,omitempty"`
	Pid   int    `json:"pid"`
}

// A body is where the tools of the suite run: where they record, and the services that were captured for them.
type body struct {
	dir    string
	assert func(context.Context, tool.Call, tool.PermissionRequest) error
	open   func(ctx context.Context, call tool.Call, path string) (handle, error)
}

// A handle is a file or a directory that the service opened. It is closed by whoever owns the call.
type handle interface {
	Resources() []string
	Read(ctx context.Context, q service.ReadQuery) (service.Page, error)
	Grep(ctx context.Context, q service.GrepQuery) (service.GrepResult, error)
	Glob(ctx context.Context, q service.GlobQuery) (service.GlobResult, error)
	List(ctx context.Context, q service.ListQuery) (service.Listing, error)
}

// deedsFile is in the directory of a body, and so is overFile once every tool is to let go.
const (
	deedsFile = "deeds"
	overFile  = "over"
)

// record appends to the file of deeds, a line in one write.
func (b body) record(what string, s spec, call tool.Call, text string) {
	line, err := json.Marshal(deed{what, call.Tool, s.Says, call.Identity.Call, shortened(call.Input), text, os.Getpid()})
	if err != nil {
		panic(err)
	}
	f, err := os.OpenFile(filepath.Join(b.dir, deedsFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.Write(append(line, '\n')); err != nil {
		panic(err)
	}
}

func shortened(raw []byte) string { return string(raw[:min(len(raw), 1<<10)]) }

// tool makes the tool that the spec describes.
func (b body) tool(s spec) tool.Tool {
	t := tool.Tool{
		Title: s.Title, Description: s.Description,
		Input: json.RawMessage(s.Input), Output: json.RawMessage(s.Output), Structured: json.RawMessage(s.Structured),
		Effects: tool.Effects(s.Effects), Irreversible: s.Irreversible, Requests: s.Requests, Targets: s.Targets,
		Unavailable: s.Unavailable,
		Execute: func(ctx context.Context, call tool.Call) (tool.Result, error) {
			b.record("execute", s, call, "")
			return b.obey(ctx, s, call)
		},
	}
	if s.Prepares {
		t.Prepare = func(ctx context.Context, call tool.Call) (tool.Preparation, error) { return b.prepare(ctx, s, call) }
	}
	return t
}

func (b body) prepare(ctx context.Context, s spec, call tool.Call) (tool.Preparation, error) {
	b.record("prepare", s, call, "")
	p := ordered(call).Prepare
	if p == nil {
		return tool.Preparation{}, nil
	}
	if p.Do != "" {
		if _, err := b.do(ctx, s, call, order{Do: p.Do, Text: p.Text}); err != nil {
			return tool.Preparation{}, err
		}
	}
	out := tool.Preparation{
		Effects: tool.Effects(p.Effects), Irreversible: p.Irreversible, Requests: p.Requests, Targets: p.Targets,
	}
	if p.Action {
		out.Action = &tool.Action{
			Review: p.Review,
			Commit: func(ctx context.Context, call tool.Call) (tool.Result, error) {
				b.record("commit", s, call, "")
				return b.obey(ctx, s, call)
			},
			Discard: func(context.Context) { b.record("discard", s, call, "") },
		}
	}
	return out, nil
}

// obey does what the input of the call commands.
func (b body) obey(ctx context.Context, s spec, call tool.Call) (tool.Result, error) {
	o := ordered(call)
	o.Do = cmp.Or(o.Do, s.Does)
	if o.Do == "" {
		if s.Result != nil {
			return s.Result.result(), nil
		}
		return said(s.Says), nil
	}
	return b.do(ctx, s, call, o)
}

func said(text string) tool.Result { return tool.Result{Output: quoted(text)} }

func quoted(v any) json.RawMessage {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return out
}

func (b body) do(ctx context.Context, s spec, call tool.Call, o order) (tool.Result, error) {
	switch o.Do {
	case "echo": // the very bytes
		return tool.Result{Output: call.Input}, nil
	case "show": // the very bytes, as text
		return said(string(call.Input)), nil
	case "result":
		return o.Result.result(), nil
	case "text":
		return said(strings.Repeat(o.Text, o.Size)), nil
	case "build":
		return tool.Result{Output: json.RawMessage("{}"), Content: []tool.Content{tool.Text(o.built())}}, nil
	case "write":
		_, err := call.Output.Write([]byte(o.built()))
		return tool.Result{}, err
	case "fail with it":
		return tool.Result{}, &tool.Failure{Message: o.built()}
	case "object":
		return tool.Result{Output: quoted(map[string]string{"value": strings.Repeat("v", o.Size)})}, nil
	case "object beside text":
		return tool.Result{
			Output:  quoted(map[string]string{"value": strings.Repeat("v", o.Size)}),
			Content: []tool.Content{tool.Text(o.Text)},
		}, nil
	case "blocks":
		var r tool.Result
		for range o.Times {
			r.Content = append(r.Content, tool.Text(strings.Repeat("b", o.Size)))
		}
		return r, nil
	case "stream":
		return b.stream(call, o)
	case "stream and wait":
		if _, err := b.stream(call, o); err != nil {
			return tool.Result{}, err
		}
		b.record("streamed", s, call, "")
		return b.wait(ctx, s, call, o)
	case "who":
		return tool.Result{Output: quoted(call.Identity)}, nil
	case "fail":
		return tool.Result{}, &tool.Failure{Message: o.Text}
	case "error":
		return tool.Result{}, errors.New(o.Text)
	case "panic":
		panic(o.Text)
	case "exit":
		os.Exit(3)
	case "progress":
		for n := range o.Times {
			call.Progress(tool.Progress{Done: float64(n + 1), Total: float64(o.Times), Message: o.Text})
		}
		return said("done"), nil
	case "assert", "assert and go on":
		action := o.Action
		if action == "" {
			action = call.Tool
		}
		err := b.assert(ctx, call, tool.PermissionRequest{Action: action, Resources: []string{o.Text}})
		b.record("asserted", s, call, fmt.Sprint(err))
		if err != nil && o.Do == "assert" {
			return tool.Result{}, err
		}
		return said("went on"), nil
	case "assert when cancelled":
		<-ctx.Done()
		err := b.assert(context.WithoutCancel(ctx), call, tool.PermissionRequest{Action: call.Tool, Resources: []string{o.Text}})
		b.record("asserted", s, call, fmt.Sprint(err))
		return tool.Result{}, ctx.Err()
	case "read", "look", "search", "run", "edit", "ask":
		return b.use(ctx, s, call, o)
	default:
		return b.wait(ctx, s, call, o)
	}
	return tool.Result{}, nil
}

// stream writes lines of 64 bytes, Size bytes in all: a line first, and then many at once.
func (b body) stream(call tool.Call, o order) (tool.Result, error) {
	line := strings.Repeat("s", 63) + "\n"
	piece := []byte(line)
	for left := o.Size; left > 0; left -= len(piece) {
		if left < o.Size {
			piece = []byte(strings.Repeat(line, 1<<10))
		}
		piece = piece[:min(left, len(piece))]
		if _, err := call.Output.Write(piece); err != nil {
			return tool.Result{}, err
		}
	}
	if o.Result != nil {
		return o.Result.result(), nil
	}
	return tool.Result{}, nil
}

// wait waits until the call is over, or longer, or until the test lets go; see [world.release].
func (b body) wait(ctx context.Context, s spec, call tool.Call, o order) (tool.Result, error) {
	done := ctx.Done()
	if o.Do == "ignore cancel" {
		done = nil
	}
	for !exists(filepath.Join(b.dir, overFile)) && !exists(filepath.Join(b.dir, "release "+call.Identity.Call)) {
		select {
		case <-done:
			b.record("cancelled", s, call, fmt.Sprint(context.Cause(ctx)))
			switch o.Do {
			case "fail on cancel":
				return tool.Result{}, &tool.Failure{Message: "the executor was cancelled, and says so to the model"}
			case "answer on cancel":
				return said("too late"), nil
			}
			return tool.Result{}, ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
	b.record("released", s, call, "")
	return said(s.Says), nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
