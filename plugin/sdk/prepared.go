package sdk

import (
	"context"
	"encoding/json"
	"errors"
)

// Preparation is what one call would do, said before anything is done. All of it
// describes what will run: the prepared action where there is one.
type Preparation[Out any] struct {
	// Effects is what this call may do, within what the tool declared. None stand for
	// all that the tool declared.
	Effects Effect
	// Irreversible says that what the call does cannot be undone.
	Irreversible bool
	// Requests are the permissions that the call needs, in the order in which they are
	// asked for; 64 at most, of 256 KiB each. An empty Action stands for the tool's own
	// id.
	Requests []PermissionRequest
	// Targets are the paths that the call is about, relative to the Location's root; 256
	// at most, of 4 KiB each.
	Targets []string
	// Review describes the action to whoever approves it, as the plugin's own words. It
	// is cut at 64 KiB.
	Review string
	// Commit runs, once, in place of the handler when everything was permitted. Nil
	// means that the handler itself runs then. It gets a context and a call of its own,
	// for the same call; those of the preparation are over. It must be what was
	// described, whatever has changed in the meantime: check before acting, and fail.
	Commit func(ctx context.Context, call Call) (Out, error)
	// Discard, if it is not nil, releases what the action holds when it is not
	// committed: permission was refused, the call was cancelled, the plugin ends, or a
	// day has passed. Of a preparation that was returned without an error exactly one
	// of Commit and Discard is called, unless the process ends before. A plugin keeps
	// 1,024 actions at most; a further preparation is an error.
	Discard func()
}

// NewPrepared makes a tool that says of each call what it would do: its effects, the
// permissions it needs and the paths it is about, where these depend on the
// arguments, and, with Commit, the action itself, for review. While it prepares a
// call it changes nothing: the services only read, and ask nobody.
//
// A preparation without Commit is direct: the handler runs when what it requests is
// granted. A failure that prepare returns is read by the model like one of the
// handler.
func NewPrepared[In, Out any](
	description string,
	prepare func(ctx context.Context, call Call, in In) (Preparation[Out], error),
	handler func(ctx context.Context, call Call, in In) (Out, error),
	options ...Option,
) Tool {
	if prepare == nil || handler == nil {
		return Tool{err: errors.New("the handler or its preparation is nil")}
	}
	return typed(description, prepared(prepare, plain[In, Out]), finished(handler, plain[In, Out]), schemaFor[Out], nil, options)
}

// NewPreparedProjected is [NewPrepared] for a tool whose model reads something else than
// the output; project is as in [NewProjected].
func NewPreparedProjected[In, Out, Structured any](
	description string,
	prepare func(ctx context.Context, call Call, in In) (Preparation[Out], error),
	handler func(ctx context.Context, call Call, in In) (Out, error),
	project func(in In, out Out) (Structured, []Content),
	options ...Option,
) Tool {
	if prepare == nil || handler == nil || project == nil {
		return Tool{err: errors.New("the handler, its preparation or the projection is nil")}
	}
	finish := projected(project)
	return typed(description, prepared(prepare, finish), finished(handler, finish), schemaFor[Out], schemaFor[Structured], options)
}

// DynamicPrepared is [NewPrepared] for a tool whose schemas are known only at run
// time.
func DynamicPrepared(
	d Declaration,
	prepare func(ctx context.Context, call Call, input json.RawMessage) (Preparation[Result], error),
	handler func(ctx context.Context, call Call, input json.RawMessage) (Result, error),
	options ...Option,
) Tool {
	if prepare == nil || handler == nil {
		return Tool{err: errors.New("the handler or its preparation is nil")}
	}
	return dynamic(d, prepare, handler, options)
}

// prepared is a preparation whose action gives a result.
func prepared[In, Out any](
	prepare func(context.Context, Call, In) (Preparation[Out], error), finish func(In, Out) (Result, error),
) func(context.Context, Call, In) (Preparation[Result], error) {
	return func(ctx context.Context, call Call, in In) (Preparation[Result], error) {
		p, err := prepare(ctx, call, in)
		out := Preparation[Result]{
			Effects: p.Effects, Irreversible: p.Irreversible, Requests: p.Requests, Targets: p.Targets,
			Review: p.Review, Discard: p.Discard,
		}
		if p.Commit == nil {
			return out, err
		}
		commit := finished(func(ctx context.Context, call Call, _ In) (Out, error) { return p.Commit(ctx, call) }, finish)
		out.Commit = func(ctx context.Context, call Call) (Result, error) { return commit(ctx, call, in) }
		return out, err
	}
}
