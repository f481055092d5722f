package filesystem

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"
	"golang.org/x/text/unicode/norm"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/internal/beneath"
)

// maxSuggestions is how many names an error offers; more would be no help.
const maxSuggestions = 3

// alike is a name without what is easily lost when it is copied: which kind of
// space it has, whether accents are composed, and case.
func alike(name string) string {
	spaced := strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Zs, r) {
			return ' '
		}
		return r
	}, norm.NFC.String(name))
	return strings.ToLower(spaced)
}

// suggest adds to an error of a missing name those beside it that differ from it
// in little (case A07). They are never opened instead. What list does not allow
// is not named.
func (f *FileSystem) suggest(ctx context.Context, gate Gate, err error) error {
	m, ok := errors.AsType[*missing](err)
	if !ok || !errors.Is(err, unix.ENOENT) {
		return err
	}
	similar, listed := f.similar(ctx, m.parent, m.name)
	if listed != nil {
		return err // the name is missing, whatever is beside it
	}
	var names []string
	for _, name := range similar {
		if found := path.Join(m.parent, name); gate.Allows(service.ActionList, found) {
			names = append(names, fmt.Sprintf("%+q", found))
		}
	}
	if len(names) == 0 || len(names) > maxSuggestions {
		return err
	}
	return &service.FileError{
		Kind:   service.FileNotFound,
		Detail: fmt.Sprintf("does not exist; did you mean %s? It differs in spaces, accents or case", strings.Join(names, " or ")),
	}
}

// similar gives the other names in a directory that are alike, sorted.
func (f *FileSystem) similar(ctx context.Context, dir, name string) ([]string, error) {
	names, err := f.names(ctx, dir)
	if err != nil {
		return nil, err
	}
	wanted := alike(name)
	names = slices.DeleteFunc(names, func(other string) bool { return other == name || alike(other) != wanted })
	slices.Sort(names)
	return names, nil
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
	wanted := alike(name)
	for _, stored := range names {
		if alike(stored) != wanted {
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
