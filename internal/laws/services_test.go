package laws

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/permission"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// The tools of the suite that go through the services and ask for what they do, as the built-ins do. Nothing is ever run
// or written: what was permitted is recorded, and that is what a test looks for.

// What is recorded when it was permitted.
const (
	didRun  = "ran"
	didEdit = "wrote"
)

// process is the built-in that runs command lines.
func (w *world) process() *peer {
	p := w.peerOf(registry.Owner{Name: "process", Builtin: true})
	p.register(map[string]spec{"run": {Does: "run", Says: "run"}})
	return p
}

// filesystem is the built-in that reads and writes.
func (w *world) filesystem() *peer {
	p := w.peerOf(registry.Owner{Name: "filesystem", Builtin: true})
	p.register(map[string]spec{
		"write": {Does: "edit"}, "look": {Does: "look", Effects: uint16(tool.Read)},
		"raw": {Does: "read", Effects: uint16(tool.Read)}, "search": {Does: "search", Effects: uint16(tool.Read)},
	})
	return p
}

// line is the input of a call that runs it.
func line(command string) string { return order{Command: command}.String() }

// at is the input of a call about the paths.
func at(paths ...string) string { return order{Paths: paths}.String() }

// ran are the command lines that were run so far, and wrote the paths that were written, in order.
func (w *world) ran() []string   { return w.texts(didRun) }
func (w *world) wrote() []string { return w.texts(didEdit) }

func (w *world) texts(what string) []string {
	w.t.Helper()
	var all []string
	for _, d := range w.deeds("") {
		if d.What == what {
			all = append(all, d.Text)
		}
	}
	return all
}

// found is the output of a search.
type found struct {
	Grep, Glob, List   []string
	Denied, GlobDenied int
	ListDenied         int
}

// use does what a call commands through the services.
func (b body) use(ctx context.Context, s spec, call tool.Call, o order) (tool.Result, error) {
	switch o.Do {
	case "run":
		r := tool.PermissionRequest{Action: service.ActionShell, Resources: []string{o.Command}}
		if o.Directory != "" {
			r.Metadata = map[string]string{service.MetadataDirectory: o.Directory}
		}
		if err := b.assert(ctx, call, r); err != nil {
			return tool.Result{}, err
		}
		b.record(didRun, s, call, o.Command)
		return said("ran"), nil
	case "ask": // whatever it says
		for _, r := range o.Requests {
			if err := b.assert(ctx, call, r); err != nil {
				return tool.Result{}, err
			}
		}
		b.record("went on", s, call, "")
		return said("went on"), nil
	case "edit":
		var resources []string
		for _, path := range o.Paths {
			names, err := b.names(ctx, call, path)
			if err != nil {
				return tool.Result{}, err
			}
			resources = append(resources, names...)
		}
		r := tool.PermissionRequest{Action: service.ActionEdit, Resources: resources, Save: o.save()}
		if err := b.assert(ctx, call, r); err != nil {
			return tool.Result{}, err
		}
		for _, path := range o.Paths {
			b.record(didEdit, s, call, path)
		}
		return said("wrote"), nil
	case "search":
		return b.search(ctx, call, o)
	}
	path := o.Text
	if len(o.Paths) > 0 {
		path = o.Paths[0]
	}
	text, err := b.text(ctx, call, path, o.Do == "look")
	b.record("read", s, call, fmt.Sprint(text, " ", err))
	return said(text), failed(err)
}

// save are the patterns that "always" saves for the paths of an edit.
func (o order) save() []string {
	var save []string
	for _, path := range o.Paths {
		save = append(save, permission.Escape(path))
	}
	return save
}

// names are what a path is called, as it is spelled and as it is resolved. One that does not exist has its spelling.
func (b body) names(ctx context.Context, call tool.Call, path string) ([]string, error) {
	h, err := b.open(ctx, call, path)
	if e, ok := errors.AsType[*service.FileError](err); ok && e.Kind == service.FileNotFound {
		return []string{path}, nil
	}
	if err != nil {
		return nil, failed(err)
	}
	return h.Resources(), nil
}

// text is that of a file, for which permission is asked first or not.
func (b body) text(ctx context.Context, call tool.Call, path string, asks bool) (string, error) {
	h, err := b.open(ctx, call, path)
	if err != nil {
		return "", err
	}
	if asks {
		if err := b.assert(ctx, call, tool.PermissionRequest{Action: service.ActionRead, Resources: h.Resources()}); err != nil {
			return "", err
		}
	}
	page, err := h.Read(ctx, service.ReadQuery{})
	return page.Text, err
}

// search looks for the text everywhere below a path, in all the ways that there are.
func (b body) search(ctx context.Context, call tool.Call, o order) (tool.Result, error) {
	h, err := b.open(ctx, call, ".")
	if err != nil {
		return tool.Result{}, failed(err)
	}
	var f found
	grep, err := h.Grep(ctx, service.GrepQuery{Pattern: o.Text, Literal: true})
	if err != nil {
		return tool.Result{}, failed(err)
	}
	for _, m := range grep.Matches {
		f.Grep = append(f.Grep, m.Path)
	}
	glob, err := h.Glob(ctx, service.GlobQuery{Pattern: "**"})
	if err != nil {
		return tool.Result{}, failed(err)
	}
	listing, err := h.List(ctx, service.ListQuery{Depth: service.MaxDepth})
	if err != nil {
		return tool.Result{}, failed(err)
	}
	for _, e := range listing.Entries {
		f.List = append(f.List, e.Path)
	}
	slices.Sort(f.List)
	f.Glob, f.Denied, f.GlobDenied, f.ListDenied = glob.Paths, grep.Skipped.Denied, glob.Skipped.Denied, listing.Skipped.Denied
	return tool.Result{Output: quoted(f)}, nil
}

// failed makes a failure of what a tool may show.
func failed(err error) error {
	if e, ok := errors.AsType[*service.FileError](err); ok {
		return &tool.Failure{Message: e.Error()}
	}
	return err
}
