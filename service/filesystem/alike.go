package filesystem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/internal/beneath"
	"github.com/toolhost/toolhost/service/filesystem/internal/similar"
)

const (
	// maxSuggestions is how many names an error offers; more would be no help.
	maxSuggestions = 3
	// lookAtNames is among how many names of a directory those are looked for, so that a
	// mistake costs no more than it is worth.
	lookAtNames = 100_000
)

// suggest adds to an error of a missing name those beside it that differ from it
// in little (case A07). They are never opened instead. What list does not allow
// is not named.
func (f *FileSystem) suggest(ctx context.Context, gate Gate, spelled string, err error) error {
	m, ok := errors.AsType[*missing](err)
	if !ok || !errors.Is(err, unix.ENOENT) {
		return err
	}
	found, listed := f.nearby(ctx, gate, m)
	if listed != nil || len(found) == 0 {
		return err // the name is missing, whatever is beside it
	}
	var names []string
	for _, n := range found {
		names = append(names, fmt.Sprintf("%+q", n.path))
	}
	detail := fmt.Sprintf("%s; did you mean %s?", notFound(spelled, err), strings.Join(names, " or "))
	if found[0].kinship == similar.Twin {
		detail += " It differs in spaces, accents or case"
	}
	return &service.FileError{Kind: service.FileNotFound, Detail: detail}
}

// A neighbour is a name that could have been meant.
type neighbour struct {
	path     string
	kinship  similar.Kinship
	distance int
}

// nearby gives the names beside a missing one that could have been meant, the best
// first: its twins, or else its other relatives. Where something was to be below the
// missing one, those are directories, and what was to be there is named if it is.
func (f *FileSystem) nearby(ctx context.Context, gate Gate, m *missing) ([]neighbour, error) {
	fd, err := beneath.Open(int(f.dir.Fd()), m.parent, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer beneath.Close(fd)
	entries, err := beneath.ReadDirSome(ctx, fd, lookAtNames)
	if err != nil {
		return nil, err
	}
	var found []neighbour
	wanted := similar.NewSpelling(m.name)
	for _, e := range entries {
		k, distance := wanted.Kinship(e.Name)
		leads := m.rest == "" || e.Kind == service.Directory || e.Kind == service.Symlink
		if k == similar.Stranger || e.Name == m.name || !leads && k != similar.Twin {
			continue
		}
		if path := path.Join(m.parent, e.Name); gate.Allows(service.ActionList, path) {
			found = append(found, neighbour{path, k, distance})
		}
	}
	slices.SortFunc(found, func(a, b neighbour) int {
		return cmp.Or(cmp.Compare(a.kinship, b.kinship), cmp.Compare(a.distance, b.distance), cmp.Compare(a.path, b.path))
	})
	if len(found) > 0 && found[0].kinship == similar.Twin {
		found = slices.DeleteFunc(found, func(n neighbour) bool { return n.kinship != similar.Twin })
	}
	found = found[:min(len(found), maxSuggestions)]
	for i, n := range found {
		if deeper := path.Join(n.path, m.rest); m.rest != "" && gate.Allows(service.ActionList, deeper) {
			if _, err := beneath.Lstat(int(f.dir.Fd()), deeper); err == nil {
				found[i].path = deeper
			}
		}
	}
	return found, nil
}

func (f *FileSystem) names(ctx context.Context, dir string) ([]string, error) {
	fd, err := beneath.Open(int(f.dir.Fd()), dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer beneath.Close(fd)
	entries, err := beneath.ReadDir(ctx, fd)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name
	}
	return names, nil
}

// asStored gives a path without links as the directories spell it: where a
// filesystem folds case or accents, a name leads to a file that is called
// otherwise, and rules speak of what it is called (case C19). Elsewhere it is the
// path itself, at the price of looking once for each name in the other case.
func (f *FileSystem) asStored(ctx context.Context, h handle) (string, error) {
	root := int(f.dir.Fd())
	names := strings.Split(h.resolved, "/")
	for i, name := range names {
		parent := path.Join(append([]string{"."}, names[:i]...)...)
		swapped := swapCase(name)
		if swapped == name {
			continue
		}
		other, err := beneath.Lstat(root, path.Join(parent, swapped))
		if err != nil {
			continue
		}
		here, err := beneath.Lstat(root, path.Join(parent, name))
		if err != nil {
			return "", err
		}
		if !here.Same(other) {
			continue
		}
		if names[i], err = f.storedName(ctx, parent, name, here); err != nil {
			return "", err
		}
	}
	stored := strings.Join(names, "/")
	if stored == h.resolved {
		return stored, nil
	}
	now, err := beneath.Lstat(root, stored)
	if err == nil && !now.Same(h.info) {
		err = errReplaced
	}
	return stored, err
}

// storedName gives the name that a directory has for a file: name itself if it is
// there, as with two links to one file, else the one that is alike.
func (f *FileSystem) storedName(ctx context.Context, parent, name string, file beneath.Info) (string, error) {
	names, err := f.names(ctx, parent)
	if err != nil || slices.Contains(names, name) {
		return name, err
	}
	wanted := similar.Fold(name)
	for _, stored := range names {
		if similar.Fold(stored) != wanted {
			continue
		}
		if info, err := beneath.Lstat(int(f.dir.Fd()), path.Join(parent, stored)); err == nil && info.Same(file) {
			return stored, nil
		}
	}
	return name, nil
}

// swapCase changes the case of every letter.
func swapCase(name string) string {
	return strings.Map(func(r rune) rune {
		if lower := unicode.ToLower(r); lower != r {
			return lower
		}
		return unicode.ToUpper(r)
	}, name)
}
