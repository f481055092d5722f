// Package filesystem is the built-in plugin for files: its tools read, list, glob and
// grep look at them, and write, edit, patch, move, remove and mkdir change them. It is
// an ordinary plugin, which imports what the plugin of a stranger imports, and asks what
// that would ask.
//
// A call that looks has three steps. It resolves its path to a handle, asserts the
// permission for what it is about to do, and works on the handle; so what was
// permitted is what is used (law 39), whatever the path refers to by then:
//
//	tool  action  resources    what "always" would save (law 34)
//	read  read    the path     the path
//	list  list    the path     the path, and all that is below it
//	glob  glob    the pattern  *
//	grep  grep    the pattern  *
//
// A call that changes is prepared: the host works the change out and keeps it, the call
// requests "edit" for the paths that are changed, which "always" would save by their
// names, and its action commits what was worked out, whatever has changed in the meantime
// being an error (laws 25 to 28). Whoever is asked sees the host's diff. What is changed
// already as it should be needs no permission.
//
// A path that leads through a link is asked for in both spellings: a link to a
// file is no way around a rule about that file.
//
// A file that is saved is saved by its name alone. Since a list is judged entry
// by entry, an approval that did not reach below the directory would show
// nothing of it. An approval of a pattern would never be met again, so those
// save everything; where a search looks is in the metadata, under "root", and
// what it may show is judged file by file by the rules of read. Wildcards in a
// name are saved with a backslash, which takes their meaning.
//
// What a model can do something about becomes a failure: a range that is left, a
// path that is not there (law 22). A refusal is returned as it is (law 36), and
// so is what is broken.
//
// # Answers
//
// An answer has a text for a model and a structured value for a program. The
// text has two blocks: what was asked for, exactly, and notes in square brackets
// about what is missing from it and how to get it. Nothing is left out without a
// note. A path that would not survive being copied from a line of text is
// written as a JSON string. A text has at most 50 KiB and 2,000 lines with its
// notes, the bounds that a host begins with (law 17).
//
// The structured value holds the same: what the text shows and no more of it, and the
// notes. So whoever is given only one of them misses nothing; a model that was given both
// would read everything twice.
package filesystem

import (
	"context"
	"fmt"
	"strings"

	"github.com/toolhost/toolhost/plugin/sdk"
)

// Bounds of the input, which are those of the service.
const (
	maxPage    = 2000    // lines of a page of read
	maxDepth   = 16      // of list
	maxMatches = 10_000  // of grep
	maxContext = 20      // lines on each side of a match of grep
	maxPattern = 4 << 10 // bytes
)

// New makes the plugin.
func New() sdk.Plugin {
	return sdk.Plugin{
		Name:     "filesystem",
		Version:  "0.1.0",
		Needs:    []sdk.Service{sdk.FileSystemRead, sdk.FileSystemWrite, sdk.Permissions},
		Activate: activate,
	}
}

func activate(ctx context.Context, loc sdk.Location) error {
	files, err := loc.FileSystem()
	if err != nil {
		return err
	}
	writer, err := loc.FileSystemWrite()
	if err != nil {
		return err
	}
	permission, err := loc.Permission()
	if err != nil {
		return err
	}
	t := tools{files, writer, permission}
	near := sdk.Targets("path")
	const changes = sdk.Read | sdk.Write
	_, err = loc.Tools.Register(ctx, sdk.Tools{
		"read": sdk.NewProjected(readDescription, t.read, projectRead, sdk.Read, near, sdk.Title("Read a file")),
		"list": sdk.NewProjected(listDescription, t.list, projectList, sdk.Read, near, sdk.Title("List a directory")),
		"glob": sdk.NewProjected(globDescription, t.glob, projectGlob, sdk.Read, near, sdk.Title("Find files by name")),
		"grep": sdk.NewProjected(grepDescription, t.grep, projectGrep, sdk.Read, near, sdk.Title("Search in files")),

		"write":  sdk.NewPreparedProjected(writeDescription, t.write, unchanged, projectChange, changes, sdk.Irreversible, sdk.Title("Write a file")),
		"edit":   sdk.NewPreparedProjected(editDescription, t.edit, unchanged, projectChange, changes, sdk.Irreversible, sdk.Title("Edit a file")),
		"patch":  sdk.NewPreparedProjected(patchDescription, t.patch, unchanged, projectChange, changes, sdk.Irreversible, sdk.Title("Apply a patch")),
		"move":   sdk.NewPreparedProjected(moveDescription, t.move, unchanged, projectChange, changes, sdk.Title("Move a file")),
		"remove": sdk.NewPreparedProjected(removeDescription, t.remove, unchanged, projectChange, changes, sdk.Irreversible, sdk.Title("Remove a file")),
		"mkdir":  sdk.NewPreparedProjected(mkdirDescription, t.mkdir, unchanged, projectChange, changes, sdk.Title("Make a directory")),
	})
	return err
}

// tools are the handlers and what they captured.
type tools struct {
	files      *sdk.FileSystem
	writer     *sdk.FileSystemWriter
	permission *sdk.Permission
}

// open resolves a path and asserts what request makes of it. The error is ready
// to be returned.
func (t tools) open(
	ctx context.Context, path string, request func(*sdk.Root) sdk.PermissionRequest,
) (*sdk.Root, error) {
	if path == "" {
		path = "."
	}
	root, err := t.files.ResolveRoot(ctx, path)
	if err != nil {
		return nil, sdk.ToFailure(err)
	}
	if err := t.permission.Assert(ctx, request(root)); err != nil {
		return nil, err
	}
	return root, nil
}

// search is the request of a search for a pattern.
func search(action, pattern string) func(*sdk.Root) sdk.PermissionRequest {
	return func(root *sdk.Root) sdk.PermissionRequest {
		return sdk.PermissionRequest{
			Action:    action,
			Resources: []string{pattern},
			Save:      []string{"*"},
			Metadata:  map[string]string{"root": root.Resource()},
		}
	}
}

// themselves are the patterns of rules that match paths, and nothing else.
func themselves(paths []string) []string {
	literal := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`)
	patterns := make([]string, len(paths))
	for i, path := range paths {
		patterns[i] = literal.Replace(path)
	}
	return patterns
}

// checkPattern refuses a pattern before anybody is asked about it.
func checkPattern(name, pattern string) error {
	switch {
	case pattern == "":
		return sdk.Failuref("%s is empty: say what to look for", name)
	case len(pattern) > maxPattern:
		return sdk.Failuref("%s has %d bytes: at most %d", name, len(pattern), maxPattern)
	default:
		return nil
	}
}

// checkRange refuses a number that is neither left out nor in its range.
func checkRange(name string, n integer, highest int) error {
	if n < 0 || int(n) > highest {
		return sdk.Failure(fmt.Sprintf("%s is %d: give 1 to %d, or leave it out", name, n, highest))
	}
	return nil
}
