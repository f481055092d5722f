package instructions

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/tool"
)

// maxPath is the longest path that there can be, in bytes.
const maxPath = 4095

// A directory is one to look into.
type directory struct {
	path  string // relative to the root; "." for the root
	depth int
}

// directories are those from the root down to each target, each once, from the
// root down.
func (f *Finder) directories(targets []string) []directory {
	known := map[string]bool{}
	var all []directory
	add := func(path string, depth int) {
		if !known[path] && len(all) < MaxDirectories {
			known[path] = true
			all = append(all, directory{path, depth})
		}
	}
	for _, target := range targets {
		if len(all) == MaxDirectories {
			break
		}
		rel, ok := f.relative(target)
		if !ok {
			continue
		}
		add(".", 0)
		if rel == "." {
			continue
		}
		depth := 0
		for i := range len(rel) + 1 {
			if i < len(rel) && rel[i] != '/' {
				continue
			}
			if depth++; depth > MaxDepth {
				break
			}
			add(rel[:i], depth)
		}
	}
	slices.SortFunc(all, byDepth)
	return all
}

// relative is a target as a clean path below the root.
func (f *Finder) relative(target string) (rel string, ok bool) {
	if target == "" || len(target) > maxPath || strings.ContainsRune(target, 0) {
		return "", false
	}
	rel = path.Clean(target)
	if strings.HasPrefix(rel, "/") {
		if rel, ok = f.inside(rel); !ok {
			return "", false
		}
	}
	return rel, rel != ".." && !strings.HasPrefix(rel, "../")
}

// inside makes an absolute path relative to the root, in either of its spellings.
func (f *Finder) inside(absolute string) (rel string, ok bool) {
	for _, root := range []string{f.options.Files.Path(), f.options.Root} {
		if root == "" {
			continue
		}
		root = path.Clean(root)
		if absolute == root {
			return ".", true
		}
		if rest, ok := strings.CutPrefix(absolute, strings.TrimSuffix(root, "/")+"/"); ok {
			return rest, true
		}
	}
	return "", false
}

// present are the paths of the files in the directories that the rules allow to
// be read and that may be there. It only looks for the names, which costs little
// where there are none; what they lead to is found out when they are opened.
func (f *Finder) present(gate tool.Gate, directories []directory) ([]string, error) {
	if len(directories) == 0 {
		return nil, nil
	}
	root, err := unix.Open(f.options.Files.Path(), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil // the directory was removed meanwhile
	}
	if err != nil {
		return nil, fmt.Errorf("instructions in %s are not looked for: %w", f.options.Files.Path(), err)
	}
	defer func() { _ = unix.Close(root) }() // nothing was written
	var found []string
	for _, d := range directories {
		for _, name := range f.options.Names {
			file := path.Join(d.path, name)
			if gate.Allows(service.ActionRead, file) && !isMissing(root, file) {
				found = append(found, file)
			}
		}
	}
	return found, nil
}

// isMissing says that there is no such name. It does not leave the root; what
// cannot be told so, such as a name behind an absolute link, is not said to be
// missing.
func isMissing(root int, file string) bool {
	fd, err := unix.Openat2(root, file, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err == nil {
		_ = unix.Close(fd) // nothing was written
	}
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENAMETOOLONG)
}

// quiet is the gate of a call as the filesystem asks it here: nobody is asked
// anything, and what is not allowed leaves no refusal in the call.
type quiet struct{ gate tool.Gate }

// Permit implements [filesystem.Gate].
func (q quiet) Permit(_ context.Context, action string, resources ...string) error {
	for _, resource := range resources {
		if !q.gate.Allows(action, resource) {
			return &tool.Refusal{Kind: tool.KindDenied, Action: action, Resource: resource}
		}
	}
	return nil
}

// Allows implements [filesystem.Gate].
func (q quiet) Allows(action, resource string) bool { return q.gate.Allows(action, resource) }

// Denies implements [filesystem.Gate].
func (q quiet) Denies(action, resource string) bool { return !q.gate.Allows(action, resource) }
