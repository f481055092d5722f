package filesystem

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/service"
)

func badPath(spelled, detail string) error {
	return &service.FileError{Kind: service.FileBadPath, Path: spelled, Detail: detail}
}

func badQuery(format string, args ...any) error {
	return &service.FileError{Kind: service.FileBadQuery, Detail: fmt.Sprintf(format, args...)}
}

func outside(spelled string) error {
	return &service.FileError{
		Kind:   service.FileOutside,
		Path:   spelled,
		Detail: "leads out of the root; only what is below it can be reached",
	}
}

// errReplaced says that a name refers to another file than a moment ago.
var errReplaced = errors.New("replaced while it was opened")

func errUnsteady() error {
	return &service.FileError{Kind: service.FileIO, Detail: "changed again and again while it was opened; try again"}
}

func errStale() error {
	return &service.FileError{Kind: service.FileStaleHandle, Detail: "the handle is closed; resolve the path again"}
}

// describe makes an error that names the path as it was asked for. Errors that
// are no FileError, those of the gate and the context, stay as they are, except
// the system's.
func describe(spelled string, err error) error {
	if known, ok := errors.AsType[*service.FileError](err); ok {
		if known.Path != "" {
			return err
		}
		named := *known
		named.Path = spelled
		return &named
	}
	errno, ok := errors.AsType[unix.Errno](err)
	if !ok {
		return err
	}
	e := &service.FileError{Kind: service.FileIO, Path: spelled, Detail: "cannot be read: " + errno.Error()}
	switch errno {
	case unix.ENOENT:
		e.Kind, e.Detail = service.FileNotFound, notFound(spelled, err)
		if m, ok := errors.AsType[*missing](err); ok {
			e.Detail += fmt.Sprintf("; list %q shows what is there", m.parent)
		}
	case unix.ENOTDIR:
		e.Kind, e.Detail = service.FileNotDirectory, notDirectory(err)
	case unix.EACCES, unix.EPERM:
		e.Kind, e.Detail = service.FileDenied, "the operating system does not let this user read it"
	case unix.EXDEV:
		return outside(spelled)
	case unix.ENAMETOOLONG:
		e.Kind, e.Detail = service.FileBadPath, "is too long once its links are followed"
	}
	return e
}

// notFound says which part of the path is missing, when it is not the last.
func notFound(spelled string, err error) string {
	m, ok := errors.AsType[*missing](err)
	if !ok || strings.HasSuffix(path.Clean(spelled), m.name) {
		return "does not exist"
	}
	return fmt.Sprintf("does not exist: there is no %q in %q", m.name, m.parent)
}

func notDirectory(err error) string {
	m, ok := errors.AsType[*missing](err)
	if !ok {
		return "is a file, not a directory"
	}
	return fmt.Sprintf("is not there: %q is a file, not a directory", m.parent)
}
