package filesystem

import (
	"context"
	"crypto/sha256"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/internal/commit"
)

// What a caller may know of a file bounds what it may do to it: whether a change is
// possible tells what is there, and a file that is moved is judged by its new name.

// access is how a caller comes to read a file. A stricter one is greater.
type access uint8

const (
	freely access = iota
	byAsking
	never
)

// reading is how the caller comes to read what is at a target.
func (d *draft) reading(t target) access {
	a := freely
	for _, spelling := range t.resources() {
		switch {
		case d.caller.Gate.Denies(service.ActionRead, spelling):
			return never
		case !d.caller.Gate.Allows(service.ActionRead, spelling):
			a = byAsking
		}
	}
	return a
}

// readable says whether the caller may be told what is in a file.
func (d *draft) readable(t target) bool { return !d.caller.WriteOnly && d.reading(t) == freely }

// listed says whether the caller may be told what is in a directory.
func (d *draft) listed(t target) bool {
	for _, spelling := range t.resources() {
		if !d.caller.Gate.Allows(service.ActionList, spelling) {
			return false
		}
	}
	return !d.caller.WriteOnly
}

// permit refuses what a rule denies. Nobody is asked.
func (d *draft) permit(ctx context.Context, action string, t target) error {
	for _, spelling := range t.resources() {
		if d.caller.Gate.Denies(action, spelling) {
			return d.caller.Gate.Permit(ctx, action, spelling)
		}
	}
	return nil
}

// compared sees that the caller may be told whether a file holds what it says: that it
// may read it, or did so in this session because somebody said yes.
func (d *draft) compared(ctx context.Context, t target) error {
	if d.reading(t) == freely {
		return nil
	}
	if err := d.permit(ctx, service.ActionRead, t); err != nil {
		return err
	}
	if _, ok, err := d.system.seen(ctx, d.caller.Session, t.resolved); err == nil && ok {
		return nil
	}
	return &service.FileError{Kind: service.FileUnread, Detail: "is changed by what is in it, for which reading it must be asked for, and this session has not read it; read it first"}
}

// comparable is the content of a file, for a change whose outcome tells what that is. If
// the session may know it since somebody said yes, that was of what it held then.
func (d *draft) comparable(ctx context.Context, t target) ([]byte, [sha256.Size]byte, error) {
	if err := d.compared(ctx, t); err != nil {
		return nil, [sha256.Size]byte{}, err
	}
	content, digest, err := d.content(ctx, t)
	if err == nil && d.reading(t) != freely {
		err = d.known(ctx, t, digest, true)
	}
	return content, digest, err
}

// uncovered refuses to give a file another name under which more may read it.
func (d *draft) uncovered(ctx context.Context, t, to target) error {
	now := d.reading(t)
	if now <= d.reading(to) {
		return nil
	}
	if err := d.permit(ctx, service.ActionRead, t); err != nil {
		return err
	}
	if _, ok, err := d.system.seen(ctx, d.caller.Session, t.resolved); err == nil && ok {
		return nil
	}
	return &service.FileError{Kind: service.FileUnread, Detail: "would be read under its new name without asking, and must not be under the one it has, and this session has not read it; read it first, so that somebody is asked"}
}

// known refuses to change what this session has seen otherwise than it is now, and,
// if it must have been seen, what it has not (law 28).
func (d *draft) known(ctx context.Context, t target, digest [sha256.Size]byte, must bool) error {
	saw, ok, err := d.system.seen(ctx, d.caller.Session, t.resolved)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil && ok && saw != digest:
		return &service.FileError{Kind: service.FileStale, Detail: "changed since this session read it; read it again, then decide"}
	case (err != nil || !ok) && must: // what cannot be looked up is not known
		detail := "is there, and this session has not read it; read it first"
		if d.reading(t) == freely { // else an edit would have to be read for as well
			detail += ", or use edit"
		}
		return &service.FileError{Kind: service.FileUnread, Detail: detail}
	}
	return nil
}

// knownTree is known for every file in a directory that is removed.
func (d *draft) knownTree(ctx context.Context, t target, tree []commit.Entry) error {
	for _, e := range tree {
		if e.Info.Kind != service.RegularFile || e.Info.Size > service.MaxContent {
			continue
		}
		inside := below(t, e)
		if _, ok, err := d.system.seen(ctx, d.caller.Session, inside.resolved); err != nil || !ok {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			continue
		}
		digest, err := d.digest(ctx, inside)
		if err == nil {
			err = d.known(ctx, inside, digest, false)
		}
		if err != nil {
			return describe(inside.spelled, err)
		}
	}
	return nil
}

// below is what is in a directory, as a target.
func below(t target, e commit.Entry) target {
	return target{spelled: under(t.spelled, e.Path), resolved: under(t.resolved, e.Path), there: true, info: e.Info}
}
