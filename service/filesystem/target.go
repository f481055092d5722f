package filesystem

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/internal/beneath"
)

// A target is what a change is about: a file, or a place for one.
type target struct {
	spelled  string // cleaned, relative to the root
	resolved string // without links, as the directories spell it
	there    bool
	info     beneath.Info // if it is there
	missing  []string     // the directories that are missing on the way, outermost first
	slash    bool         // the path ends like one of a directory
}

// resources are the paths under which the target is judged (law 39).
func (t *target) resources() []string {
	if t.spelled == t.resolved {
		return []string{t.spelled}
	}
	return []string{t.spelled, t.resolved}
}

// above is a directory on the way to the target, which has none of its own links.
func (t *target) above(dir string) target {
	spelled := t.spelled
	for range strings.Count(strings.TrimPrefix(t.resolved, dir), "/") {
		spelled = path.Dir(spelled)
	}
	if spelled == "." {
		spelled = dir
	}
	return target{spelled: spelled, resolved: dir}
}

// target finds what a path leads to, through links, be it there or not. A link that
// leads to nothing is refused: what would be made is not where the path says
// (case A04).
func (f *FileSystem) target(ctx context.Context, spelled string) (target, error) {
	rel, slash, err := f.changeable(spelled)
	if err != nil {
		return target{}, err
	}
	for range attempts {
		h, err := f.openStored(ctx, rel)
		if err == nil {
			beneath.Close(h.fd)
			return target{spelled: rel, resolved: h.resolved, there: true, info: h.info, slash: slash}, nil
		}
		if m, ok := errors.AsType[*missing](err); !ok || !errors.Is(m.err, unix.ENOENT) {
			return target{}, err
		}
		t, err := f.place(ctx, rel)
		if !errors.Is(err, errReplaced) {
			t.slash = slash
			return t, err
		}
	}
	return target{}, errUnsteady()
}

// place finds where a file that is not there would be.
func (f *FileSystem) place(ctx context.Context, rel string) (target, error) {
	names := strings.Split(rel, "/")
	for i := range slices.Backward(names) {
		parent := path.Join(append([]string{"."}, names[:i]...)...)
		h, err := f.openStored(ctx, parent)
		if m, ok := errors.AsType[*missing](err); ok && errors.Is(m.err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return target{}, err
		}
		t, err := placeIn(h, parent, names[i:])
		beneath.Close(h.fd)
		t.spelled = rel
		return t, err
	}
	return target{}, errStale() // the root itself is gone
}

// placeIn is where a file would be in a directory, which has none of the names that
// lead to it.
func placeIn(dir handle, spelled string, names []string) (target, error) {
	if dir.info.Kind != service.Directory {
		return target{}, &service.FileError{Kind: service.FileNotDirectory, Detail: fmt.Sprintf("cannot be there: %q is a file, not a directory", spelled)}
	}
	switch info, err := beneath.LstatName(dir.fd, names[0]); {
	case err == nil && info.Kind == service.Symlink:
		return target{}, badPath("", fmt.Sprintf("goes through the link %q, which leads to nothing; name the file that is meant", under(spelled, names[0])))
	case err == nil:
		return target{}, errReplaced // it came into being
	case !errors.Is(err, unix.ENOENT):
		return target{}, err
	}
	t := target{resolved: dir.resolved}
	for _, name := range names {
		t.resolved = under(t.resolved, name)
		t.missing = append(t.missing, t.resolved)
	}
	t.missing = t.missing[:len(t.missing)-1]
	return t, nil
}

// itself finds what has a name: the last part of the path is not followed.
func (f *FileSystem) itself(ctx context.Context, spelled string) (target, error) {
	rel, slash, err := f.changeable(spelled)
	if err != nil {
		return target{}, err
	}
	for range attempts {
		h, err := f.openStored(ctx, path.Dir(rel))
		if err != nil {
			return target{}, err
		}
		resolved := under(h.resolved, path.Base(rel))
		info, err := beneath.LstatName(h.fd, path.Base(rel))
		beneath.Close(h.fd)
		if err != nil {
			return target{}, &missing{parent: h.resolved, name: path.Base(rel), err: err}
		}
		if info.Kind == service.RegularFile || info.Kind == service.Directory {
			if resolved, err = f.asStored(ctx, handle{resolved: resolved, info: info}); changing(err) {
				continue
			}
			if err != nil {
				return target{}, err
			}
		}
		return target{spelled: rel, resolved: resolved, there: true, info: info, slash: slash}, nil
	}
	return target{}, errUnsteady()
}

// changeable is the cleaned path of something below the root, and whether it is spelled
// like that of a directory.
func (f *FileSystem) changeable(spelled string) (rel string, slash bool, err error) {
	if rel, slash, err = f.relative(spelled); err != nil {
		return "", false, err
	}
	if rel == "." {
		return "", false, badPath(spelled, "is the root itself, which is not changed; name something in it")
	}
	return rel, slash, nil
}
