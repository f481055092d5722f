package filesystem

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"github.com/toolhost/toolhost/plugin/sdk"
)

// shownDiff is how much of the diff an answer holds, in bytes.
const shownDiff = 8 << 10

// changeOutput is what became of a change.
type changeOutput struct {
	Changes []fileChange `json:"changes" jsonschema:"what was done, in order; empty when everything was so already"`
	Diff    string       `json:"diff,omitempty" jsonschema:"of edit and patch, the beginning of the diff"`
	Notes   []string     `json:"notes,omitempty" jsonschema:"what is missing, and how to get it"`

	diff string // as much as the model may see, before it is shortened
}

type fileChange struct {
	Kind       string `json:"kind" jsonschema:"created, changed, moved, removed, directory_made, directory_moved or directory_removed"`
	Path       string `json:"path" jsonschema:"relative to the root; of a move, where it leads"`
	From       string `json:"from,omitempty" jsonschema:"where a moved file was"`
	Added      int    `json:"added,omitempty" jsonschema:"lines that were added"`
	Removed    int    `json:"removed,omitempty" jsonschema:"lines that were removed"`
	Size       int64  `json:"size" jsonschema:"size of the file afterwards in bytes"`
	OtherNames int    `json:"other_names,omitempty" jsonschema:"how many hard links to the file still have the old content"`

	Notes []string `json:"notes,omitempty" jsonschema:"what else is to be known of the file, such as line ends that changed"`
}

// prepare stages a change, and says what permission and review it needs. A change that
// changes nothing is direct: the handler says so.
func (t tools) prepare(ctx context.Context, change sdk.Change, withDiff bool) (sdk.Preparation[changeOutput], error) {
	stage, err := t.writer.Stage(ctx, change)
	if err != nil {
		return sdk.Preparation[changeOutput]{}, sdk.ToFailure(err)
	}
	staged := stage.Staged()
	if len(staged.Files) == 0 {
		return sdk.Preparation[changeOutput]{Effects: sdk.Read}, nil
	}
	out := changeOutput{Changes: make([]fileChange, 0, len(staged.Files))}
	var targets []string
	for _, f := range staged.Files {
		out.Changes = append(out.Changes, fileChange{
			Kind: string(f.Kind), Path: f.Path, From: f.From, Added: f.Added, Removed: f.Removed, Size: f.Size, OtherNames: f.Names,
			Notes: f.Notes,
		})
		targets = append(targets, f.Path)
	}
	if withDiff {
		out.diff = staged.Diff
	}
	return sdk.Preparation[changeOutput]{
		Irreversible: staged.Irreversible,
		Requests:     []sdk.PermissionRequest{{Action: "edit", Resources: staged.Resources, Save: themselves(staged.Resources)}},
		Targets:      targets[:min(len(targets), maxTargets)],
		Commit: func(ctx context.Context, _ sdk.Call) (changeOutput, error) {
			return out, sdk.ToFailure(stage.Commit(ctx))
		},
	}, nil
}

// maxTargets is how many paths a call may say that it is about.
const maxTargets = 256

// unchanged is the handler of a change that changes nothing.
func unchanged[In any](context.Context, sdk.Call, In) (changeOutput, error) {
	return changeOutput{Changes: []fileChange{}}, nil
}

// projectChange says what was done, a line for each file, and shows the diff if it is
// short. What is to be known of a file stands below its line, unless a diff begins with it.
func projectChange[In any](_ In, out changeOutput) (changeOutput, []sdk.Content) {
	var text sheet
	var notes []string
	diff := escaped(out.diff)
	if diff != out.diff {
		notes = append(notes, `control characters in the diff are written as \u and four digits`)
	}
	whole := diff != "" && beginning(diff, shownDiff, textLines) == diff
	shown := 0
	for shown < len(out.Changes) && text.add(out.Changes[shown].lines(&text, !whole)...) {
		shown++
	}
	if len(out.Changes) == 0 {
		notes = append(notes, "nothing was to be done: everything is so already")
	}
	notes = append(notes, cutNote("changes", shown, len(out.Changes), false, "all of them were made"))
	out.Changes = out.Changes[:shown]
	out.Diff = beginning(diff, min(shownDiff, textBytes-text.text.Len()-1), textLines-text.lines-1)
	if out.Diff != diff {
		notes = append(notes, "the diff is longer than this; read the file to see all of it")
	}
	content := text.text.String()
	if out.Diff != "" {
		content += "\n" + out.Diff
	}
	out.Notes = said(append(notes, text.oddNote())...)
	return out, blocks(content, out.Notes)
}

// beginning is as many whole lines of a text as there is room for.
func beginning(text string, bytes, lines int) string {
	end := 0
	for line := range strings.Lines(text) {
		if lines--; end+len(line) > bytes || lines < 0 {
			break
		}
		end += len(line)
	}
	return text[:end]
}

// escaped is a diff in which nothing controls how it is shown: what a carriage return
// or an escape sequence would overwrite stays. Tabs, and the ends of lines, are as they
// are.
func escaped(diff string) string {
	var out strings.Builder
	for _, r := range diff {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp)) {
			fmt.Fprintf(&out, `\u%04x`, r)
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
}

var verbs = map[string]string{
	"created": "created", "changed": "changed", "moved": "moved", "removed": "removed",
	"directory_made": "made directory", "directory_moved": "moved directory", "directory_removed": "removed directory",
}

// lines are what was done to a file and, if that is wanted, what else is to be known of it.
func (c fileChange) lines(text *sheet, notes bool) []string {
	lines := []string{c.line(text)}
	if notes {
		for _, note := range c.Notes {
			lines = append(lines, "  "+note)
		}
	}
	return lines
}

// line is what was done to a file.
func (c fileChange) line(text *sheet) string {
	line := verbs[c.Kind] + " "
	if c.From != "" {
		line += text.name(c.From) + " -> "
	}
	line += text.name(c.Path)
	switch {
	case c.Added+c.Removed > 0:
		line += fmt.Sprintf(" (+%d -%d lines)", c.Added, c.Removed)
	case c.Kind == "created" || c.Kind == "changed":
		line += fmt.Sprintf(" (%d bytes)", c.Size)
	}
	if c.OtherNames > 0 {
		line += fmt.Sprintf("; %d other %s of it (hard links) %s the old content",
			c.OtherNames, plural(c.OtherNames, "name", "names"), plural(c.OtherNames, "keeps", "keep"))
	}
	return line
}
