package filesystem

import (
	"context"
	"fmt"

	"github.com/toolhost/toolhost/plugin/sdk"
)

const globDescription = `Find files by name. Gives the paths of the files below a directory that match a pattern, one a line, sorted by path or, the newest first, by time, relative to the project's root, so that they can be given to the other tools as they stand; one in double quotes is a JSON string. Directories are not among them.
In a pattern * and ? match within a name, ** any number of directories, {a,b} one of several, [a-z] one character. A pattern without a slash matches names at any depth ("*.go"), one with a slash the path below the directory ("cmd/**/*.go").
Left out are files that ignore rules such as .gitignore hide, names that begin with a dot unless that part of the pattern does (".github/**"), symbolic links, and .git. A note in square brackets counts them, so a file that is not found may still exist: list shows every name, and a hidden directory named in path is searched. At most 1,000 paths: for more, narrow the pattern or the path.`

type globInput struct {
	Pattern string `json:"pattern" jsonschema:"What the path must look like, such as *.go or src/**/*.{ts,tsx}. At most 4096 bytes."`
	Path    string `json:"path,omitempty" jsonschema:"The directory to look below, relative to the project's root. Left out: the root."`
	Sort    string `json:"sort,omitempty" jsonschema:"path, or time for the files that were changed last. Left out: path."`
}

type globOutput struct {
	Path      string   `json:"path" jsonschema:"the directory that was searched, relative to the root; . is the root"`
	Paths     []string `json:"paths" jsonschema:"the files that match, in the order that was asked for, relative to the root"`
	Truncated bool     `json:"truncated" jsonschema:"true when there are more files than these"`
	Skipped   skipped  `json:"skipped,omitzero" jsonschema:"how many names that match were left out, by reason; a directory that was not entered counts as one"`

	Notes []string `json:"notes,omitempty" jsonschema:"what is missing, and how to get it"`
}

func (t tools) glob(ctx context.Context, _ sdk.Call, in globInput) (globOutput, error) {
	if err := checkPattern("pattern", in.Pattern); err != nil {
		return globOutput{}, err
	}
	root, err := t.open(ctx, in.Path, search("glob", in.Pattern))
	if err != nil {
		return globOutput{}, err
	}
	found, err := root.Glob(ctx, sdk.GlobQuery{Pattern: in.Pattern, Sort: sdk.GlobSort(in.Sort)})
	if err != nil {
		return globOutput{}, sdk.ToFailure(err)
	}
	return globOutput{
		Path: root.Resource(), Paths: append([]string{}, found.Paths...),
		Truncated: found.Truncated, Skipped: skipped(found.Skipped),
	}, nil
}

func projectGlob(in globInput, out globOutput) (globOutput, []sdk.Content) {
	var text sheet
	shown := 0
	for shown < len(out.Paths) && text.add(text.name(out.Paths[shown])) {
		shown++
	}
	var notes []string
	if len(out.Paths) == 0 {
		note := fmt.Sprintf("no file matches %s in %s", pattern(in.Pattern), short(out.Path))
		if out.Skipped != (skipped{}) {
			note += "; not everything was looked at"
		}
		notes = append(notes, note)
	}
	notes = append(notes,
		cutNote("paths", shown, len(out.Paths), out.Truncated, "narrow the pattern or the path"),
		out.Skipped.note(), text.oddNote())
	out.Truncated = out.Truncated || shown < len(out.Paths)
	out.Paths, out.Notes = out.Paths[:shown], said(notes...)
	return out, blocks(text.text.String(), out.Notes)
}
