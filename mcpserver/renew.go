package mcpserver

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/toolhost/toolhost/location"
	"github.com/toolhost/toolhost/tool"
	"github.com/toolhost/toolhost/tool/registry"
)

// now is the Location that a list or call is of: the one that the face has, or the one that
// took its place since, when that was closed or its root is not where it was. The host is
// asked each time, which costs a look at the root; one at a time, so that the face never goes
// back to an older one. ctx bounds the waiting. The error is a [*tool.Error] that says what to do, or the
// cause of ctx.
func (f *face) now(ctx context.Context) (*location.Location, error) {
	select {
	case f.renewing <- struct{}{}:
		defer func() { <-f.renewing }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	f.awaiting.Store(true)
	l, err := f.server.options.Host.Location(ctx, f.name)
	if err == nil && l != f.location() {
		f.log.Info("sessions go on with the Location that took the place of theirs")
		f.current.Store(l)
		f.forgetMirrored() // afterwards, so that the old one's are not told again
		select {
		case f.moved <- struct{}{}:
		default: // it has not moved to the last one yet
		}
	}
	f.awaiting.Store(false)
	switch {
	case err == nil:
		return l, nil
	case f.location().Closed():
		f.mirrorTools() // what was not told while others might have taken their place
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	f.log.Warn("a Location is not served", slog.Any("error", err))
	return nil, f.absent(err)
}

// unserved is an error of [face.now] as the protocol says it.
func unserved(err error) error {
	if why, ok := errors.AsType[*tool.Error](err); ok {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: why.Message}
	}
	return err
}

// absent says why there is no Location, and what to do.
func (f *face) absent(err error) *tool.Error {
	cfg, unknown := f.server.options.Host.Config().Location(f.name)
	switch {
	case unknown != nil:
		return tool.Errorf(tool.KindUnavailable, "the Location %s is not configured any more: configure it again, or end this session", f.name)
	case errors.Is(err, fs.ErrNotExist):
		return tool.Errorf(tool.KindUnavailable, "the project's directory %s is not there: create it again, or end this session", cfg.Root)
	}
	return tool.Errorf(tool.KindUnavailable, "the Location %s cannot be opened: %w", f.name, err)
}

// location is the one that the face has; it may be closed. Who begins something asks for
// [face.now].
func (f *face) location() *location.Location { return f.current.Load() }

// forgetMirrored has all tools told anew, so that clients hear of a Location that has the
// same ones.
func (f *face) forgetMirrored() {
	f.mirror.mu.Lock()
	defer f.mirror.mu.Unlock()
	for name := range f.mirror.known {
		f.mirror.known[name] = tool.Definition{}
	}
}

// captured is a capture of a Location, with the digests of its plugins.
type captured struct {
	*registry.Capture
	location *location.Location
	digests  map[string]string
}

// capture captures the tools of a Location. The digest of a plugin that is replaced
// meanwhile is not known.
func capture(l *location.Location) captured {
	before := digests(l)
	c := captured{l.Capture(), l, digests(l)}
	for name, digest := range c.digests {
		if before[name] != digest {
			c.digests[name] = ""
		}
	}
	return c
}

func digests(l *location.Location) map[string]string {
	all := map[string]string{}
	for _, p := range l.Plugins() {
		all[p.Name] = p.Digest
	}
	return all
}

// in is what runs a call of a captured tool in a Location that took the place of the
// captured one: the same tool, or nothing (law 7). What was not captured, and is not there
// now, is unknown as it is now.
func (c captured) in(l *location.Location, name string) (*registry.Capture, *tool.Error) {
	now := capture(l)
	was, listed := c.find(name)
	is, found := now.find(name)
	if !listed && !found || listed && found && sameDefinition(was, is) && c.sameOwner(now, was.ID) {
		return now.Capture, nil
	}
	return nil, tool.Errorf(tool.KindUnavailable,
		"tool %q is unavailable: the Location was opened again since the tools were listed, and it is not the same tool any more: list the tools again", name)
}

func (c captured) find(name string) (tool.Definition, bool) {
	for _, d := range c.Definitions() {
		if d.Name == name {
			return d, true
		}
	}
	return tool.Definition{}, false
}

// sameOwner reports whether the plugin whose tool has that id behaves as it did. The host,
// and the embedding program, have no digest and are the same as long as they run.
func (c captured) sameOwner(now captured, id string) bool {
	owner, _, _ := strings.Cut(id, "/")
	was, wasPlugin := c.digests[owner]
	is, isPlugin := now.digests[owner]
	return wasPlugin == isPlugin && was == is && (was != "" || !wasPlugin)
}
