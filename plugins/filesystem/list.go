package filesystem

import (
	"context"
	"fmt"

	"github.com/toolhost/toolhost/plugin/sdk"
)

const listDescription = `List what is in a directory, one path a line, sorted, each directory before what is in it. A directory ends in a slash, a file is followed by its size, a symbolic link by " -> " and where it points. Every path is relative to the project's root and can be given to the other tools as it stands; one in double quotes is a JSON string.
Names that begin with a dot and ignored names are listed too. With depth, ignored directories and those of version control (.git) are listed but not entered; name one in path to see what is in it. At most 1,000 entries: for more, list a directory further down, or use glob.`

type listInput struct {
	Path  string  `json:"path,omitempty" jsonschema:"The directory, relative to the project's root. Left out: the root."`
	Depth integer `json:"depth,omitempty" jsonschema:"How many levels to go down, 1 to 16. Left out: 1, the directory alone."`
}

type listOutput struct {
	Path      string  `json:"path" jsonschema:"the directory, relative to the root; . is the root"`
	Entries   []entry `json:"entries" jsonschema:"sorted, each directory before what is in it"`
	Truncated bool    `json:"truncated" jsonschema:"true when there are more entries than these"`
	Skipped   skipped `json:"skipped,omitzero" jsonschema:"how many names were left out or not entered, by reason"`

	Notes []string `json:"notes,omitempty" jsonschema:"what is missing, and how to get it"`
}

type entry struct {
	Path   string `json:"path" jsonschema:"relative to the root"`
	Kind   string `json:"kind" jsonschema:"file, directory, symlink or special"`
	Size   int64  `json:"size,omitempty" jsonschema:"size of a file in bytes"`
	Target string `json:"target,omitempty" jsonschema:"where a symbolic link points, as it is written in the link"`
}

func (t tools) list(ctx context.Context, _ sdk.Call, in listInput) (listOutput, error) {
	if err := checkRange("depth", in.Depth, maxDepth); err != nil {
		return listOutput{}, err
	}
	root, err := t.open(ctx, in.Path, func(root *sdk.Root) sdk.PermissionRequest {
		return sdk.PermissionRequest{Action: "list", Resources: root.Resources(), Save: andBelow(root.Resources())}
	})
	if err != nil {
		return listOutput{}, err
	}
	listing, err := root.List(ctx, sdk.ListQuery{Depth: int(in.Depth)})
	if err != nil {
		return listOutput{}, sdk.ToFailure(err)
	}
	out := listOutput{
		Path: root.Resource(), Entries: make([]entry, 0, len(listing.Entries)),
		Truncated: listing.Truncated, Skipped: skipped(listing.Skipped),
	}
	for _, e := range listing.Entries {
		out.Entries = append(out.Entries, entry{Path: e.Path, Kind: string(e.Kind), Size: e.Size, Target: e.Target})
	}
	return out, nil
}

// andBelow are the patterns that match directories and all that is below them.
func andBelow(directories []string) []string {
	var patterns []string
	for _, pattern := range themselves(directories) {
		if pattern == "." {
			return []string{"*"}
		}
		patterns = append(patterns, pattern, pattern+"/*")
	}
	return patterns
}

func projectList(_ listInput, out listOutput) (listOutput, []sdk.Content) {
	var text sheet
	shown := 0
	for shown < len(out.Entries) && text.add(out.Entries[shown].line(&text)) {
		shown++
	}
	var notes []string
	if len(out.Entries) == 0 {
		notes = append(notes, short(out.Path)+" has no entries")
	}
	notes = append(notes, cutNote("entries", shown, len(out.Entries), out.Truncated,
		"list a directory further down, or use glob"))
	// What is ignored was not left out.
	if n := out.Skipped.Ignored; n > 0 {
		notes = append(notes, fmt.Sprintf("%d %s listed but not entered: name one in path to see what is in it",
			n, plural(n, "ignored directory is", "ignored directories are")))
	}
	left := out.Skipped
	left.Ignored = 0
	out.Truncated = out.Truncated || shown < len(out.Entries)
	out.Entries = out.Entries[:shown]
	out.Notes = said(append(notes, left.note(), text.oddNote())...)
	return out, blocks(text.text.String(), out.Notes)
}

func (e entry) line(text *sheet) string {
	switch sdk.FileKind(e.Kind) {
	case sdk.Directory:
		return text.name(e.Path + "/")
	case sdk.Symlink:
		return text.name(e.Path) + " -> " + text.name(e.Target)
	case sdk.SpecialFile:
		return text.name(e.Path) + "  special file"
	default:
		return text.name(e.Path) + "  " + size(e.Size)
	}
}

// size is a number of bytes as people say it.
func size(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	value, units := float64(n)/(1<<10), []string{"KiB", "MiB", "GiB", "TiB"}
	for value >= 1023.95 && len(units) > 1 { // which would be rounded to 1024.0
		value, units = value/(1<<10), units[1:]
	}
	return fmt.Sprintf("%.1f %s", value, units[0])
}
