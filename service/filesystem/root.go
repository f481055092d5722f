package filesystem

import (
	"context"
	"os"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/internal/beneath"
	"github.com/toolhost/toolhost/service/filesystem/internal/walk"
)

// A Gate answers the permission questions of one call, as tool.Gate does. It is
// asked by several goroutines at once.
type Gate interface {
	// Permit refuses what must not be done, whatever a plugin asserted (law 32). Each
	// resource is judged by itself, and the strictest answer holds.
	Permit(ctx context.Context, action string, resources ...string) error
	// Allows says whether a search or listing may show the resource (law 39). It is
	// called for each file and has to be cheap.
	Allows(action, resource string) bool
	// Denies says whether Permit would refuse the resource whatever a person says. It is
	// cheap as well, and refuses nothing.
	Denies(action, resource string) bool
}

// A Caller is on whose behalf the service acts.
type Caller struct {
	// Gate answers the permission questions of the call; it must not be nil.
	Gate Gate
	// WriteOnly says that the caller was not granted to read: it is not told what is in
	// files.
	WriteOnly bool
	// Session is the session of the call: what is read is evidence for it (law 28). Empty
	// is none: then nothing is evidence.
	Session string
	// Preparing says that nothing may change (law 25): what is read is no evidence then,
	// since nobody is shown it.
	Preparing bool
}

// A Root is an open handle on a file or directory: what is done with it is done
// to what was resolved, whatever its name refers to later. It is safe for
// concurrent use.
type Root struct {
	system *FileSystem
	caller Caller
	info   service.RootInfo
	found  beneath.Info
	file   *os.File
	lease  lease
}

// ResolveRoot opens the file or directory at path, which is relative to the root,
// or absolute and below it. Links are followed as long as they stay below the
// root; nothing leaves it by "..", by a link, or by a directory that is replaced
// in the meantime. Devices, pipes and sockets are refused without being opened.
//
// Everything that is done with the handle asks the caller's gate first; the caller owns it
// and closes it. ctx bounds the resolving. Errors are [*service.FileError]s, or
// the context's cause.
func (f *FileSystem) ResolveRoot(ctx context.Context, caller Caller, spelled string) (*Root, error) {
	ctx, done, err := f.lease.begin(ctx)
	if err != nil {
		return nil, describe(spelled, err)
	}
	defer done()
	rel, directory, err := f.relative(spelled)
	if err != nil {
		return nil, err
	}
	h, err := f.openStored(ctx, rel)
	if err != nil {
		return nil, describe(spelled, f.suggest(ctx, caller.Gate, spelled, err))
	}
	if directory && h.info.Kind != service.Directory {
		beneath.Close(h.fd)
		return nil, &service.FileError{Kind: service.FileNotDirectory, Path: spelled, Detail: "ends in a slash, and is a file"}
	}
	r := &Root{
		system: f,
		caller: caller,
		info:   service.RootInfo{Resource: rel, Resolved: h.resolved, Kind: h.info.Kind},
		found:  h.info,
		file:   os.NewFile(uintptr(h.fd), h.resolved),
	}
	f.add(r)
	return r, nil
}

// openStored opens a handle whose resolved path is spelled as the directories
// spell it.
func (f *FileSystem) openStored(ctx context.Context, rel string) (handle, error) {
	for range attempts {
		h, err := f.openHandle(ctx, rel)
		if err != nil {
			return handle{}, err
		}
		stored, err := f.asStored(ctx, h)
		if err == nil {
			h.resolved = stored
			return h, nil
		}
		beneath.Close(h.fd)
		if !changing(err) {
			return handle{}, err
		}
	}
	return handle{}, errUnsteady()
}

// Info describes what was opened. It is valid after Close too.
func (r *Root) Info() service.RootInfo { return r.info }

// ID is what was opened, whatever its name refers to later: the device, and its number
// there. It is valid after Close too, but may be another file's when this one was removed.
func (r *Root) ID() (device, inode uint64) { return r.found.ID() }

// Close ends what is going on with the handle, waits for it and closes the file.
// Closing again does nothing.
func (r *Root) Close() error {
	if !r.lease.end() {
		return nil
	}
	r.system.forget(r)
	return r.file.Close()
}

// begin starts an operation on the handle: it asks the gate, then lends out the
// descriptor until done is called.
func (r *Root) begin(ctx context.Context, action string, resources ...string) (inner context.Context, done func(), err error) {
	inner, done, err = r.lease.begin(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := r.caller.Gate.Permit(inner, action, resources...); err != nil {
		done()
		return nil, nil, err
	}
	return inner, done, nil
}

// spellings are the paths under which the handle is judged (law 39).
func (r *Root) spellings() []string {
	if r.info.Resource == r.info.Resolved {
		return []string{r.info.Resource}
	}
	return []string{r.info.Resource, r.info.Resolved}
}

// allows judges what lies at a path below the handle, in both of its spellings.
func (r *Root) allows(action, below string) bool {
	if !r.caller.Gate.Allows(action, under(r.info.Resource, below)) {
		return false
	}
	return r.info.Resource == r.info.Resolved || r.caller.Gate.Allows(action, under(r.info.Resolved, below))
}

// under is a clean path below a clean path; it is path.Join, which would clean
// both again for each file.
func under(dir, below string) string {
	switch {
	case dir == ".":
		return below
	case below == ".":
		return dir
	}
	return dir + "/" + below
}

// mustBe refuses a handle of the other kind.
func (r *Root) mustBe(kind service.FileKind) error {
	switch {
	case r.info.Kind == kind:
		return nil
	case kind == service.Directory:
		return &service.FileError{Kind: service.FileNotDirectory, Detail: "is a file, and this needs a directory"}
	default:
		return &service.FileError{Kind: service.FileIsDirectory, Detail: "is a directory; list it, or name a file in it"}
	}
}

// place is the handle's directory as the walk and the ignore rules name it: "" or
// ending in a slash.
func (r *Root) place() string {
	if r.info.Resolved == "." {
		return ""
	}
	return r.info.Resolved + "/"
}

func limitOf(limit, otherwise int) (int, error) {
	switch {
	case limit == 0:
		return otherwise, nil
	case limit < 0 || limit > service.MaxEntries:
		return 0, badQuery("limit %d is not between 1 and %d", limit, service.MaxEntries)
	}
	return limit, nil
}

// versionControl says whether the handle lies within .git or its like, so that
// what is there was asked for.
func (r *Root) versionControl() bool { return walk.InVersionControl(r.info.Resolved) }
