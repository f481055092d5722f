package filesystem

import (
	"context"
	"fmt"

	"github.com/toolhost/toolhost/plugin/sdk"
)

const writeDescription = `Write a whole file: content becomes all that it holds. The file is created if it is not there, with the directories on the way to it. A file that is there must have been read in this session, and must not have changed since. Reading a page of it is enough, so lines that you did not read are replaced too: to change a part of a file use edit, which needs less. With create_only a file that is there is an error.
The content is written as it is given, with its line ends. A file that begins with a byte order mark keeps it, and stays UTF-16 if it is; read shows neither.`

type writeInput struct {
	Path       string `json:"path" jsonschema:"The file, relative to the project's root."`
	Content    string `json:"content" jsonschema:"All that the file is to hold, to the last line end."`
	CreateOnly bool   `json:"create_only,omitempty" jsonschema:"true: fail if there is a file already, rather than replace it."`
}

func (t tools) write(ctx context.Context, _ sdk.Call, in writeInput) (sdk.Preparation[changeOutput], error) {
	return t.prepare(ctx, sdk.WriteFile{Path: in.Path, Content: []byte(in.Content), CreateOnly: in.CreateOnly}, false)
}

const editDescription = `Change a part of a file: replace the text old by new, or make several replacements with edits, one after the other, all of them or none. old is looked for exactly as it is given, white space and letter case included, and must be in the file once; more of the lines around it make it unique, or replace_all replaces every occurrence. "\n" in old stands for the end of a line whichever the file has, and the lines of new get the ends that the file has there. new is put in as it is: nothing in it is special.
What is not replaced keeps its bytes: line ends, byte order mark, characters of other encodings, the end of the file. The answer shows the diff. An old that is not there is an error that says what is near it.`

type editInput struct {
	Path       string    `json:"path" jsonschema:"The file, relative to the project's root."`
	Old        string    `json:"old,omitempty" jsonschema:"The text to be replaced, as read shows it. Not with edits."`
	New        string    `json:"new,omitempty" jsonschema:"What takes its place; empty removes it. Not with edits."`
	ReplaceAll bool      `json:"replace_all,omitempty" jsonschema:"true: replace every occurrence of old. Left out: old must be there once."`
	Edits      []oneEdit `json:"edits,omitempty" jsonschema:"Several replacements, each in what those before it made; instead of old and new. At most 100."`
}

type oneEdit struct {
	Old        string `json:"old" jsonschema:"The text to be replaced, as read shows it."`
	New        string `json:"new" jsonschema:"What takes its place; empty removes it."`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema:"true: replace every occurrence of old. Left out: old must be there once."`
}

func (t tools) edit(ctx context.Context, _ sdk.Call, in editInput) (sdk.Preparation[changeOutput], error) {
	edits := in.Edits
	switch {
	case len(edits) > 0 && (in.Old != "" || in.New != "" || in.ReplaceAll):
		return sdk.Preparation[changeOutput]{}, sdk.Failure("give old and new, or edits, and not both")
	case in.Edits != nil && len(edits) == 0 && in.Old == "":
		return sdk.Preparation[changeOutput]{}, sdk.Failure("edits is empty: give at least one replacement in it, or old and new in place of it")
	case len(edits) == 0:
		edits = []oneEdit{{Old: in.Old, New: in.New, ReplaceAll: in.ReplaceAll}}
	}
	change := sdk.EditFile{Path: in.Path, Replacements: make([]sdk.Replacement, len(edits))}
	for i, e := range edits {
		if e.Old == "" {
			return sdk.Preparation[changeOutput]{}, sdk.Failure(which(i, len(edits)) + "old is empty: give the text to be replaced; write makes a new file")
		}
		change.Replacements[i] = sdk.Replacement{Old: e.Old, New: e.New, All: e.ReplaceAll}
	}
	return t.prepare(ctx, change, true)
}

// which names one of several edits.
func which(i, all int) string {
	if all == 1 {
		return ""
	}
	return fmt.Sprintf("edit %d of %d: ", i+1, all)
}

const patchDescription = `Change several files at once with a patch: all that it says, or nothing. Two forms are taken: a unified diff, as diff -u and git diff write it, and the form

*** Begin Patch
*** Update File: path
@@ a line that stands before the place, optional
 a line that stays
-a line that goes
+a line that comes
*** Add File: path
+its lines
*** Delete File: path
*** End Patch

in which "*** Move to: path" below an "*** Update File" moves the file. Paths are relative to the project's root. The lines that stay and go must stand in the file exactly, in one place; line numbers are only a hint. Line ends, the byte order mark and the end of the file stay as they are; "\ No newline at end of file" below a line says that it is the last one and has no end. The answer shows the diff.`

type patchInput struct {
	Patch string `json:"patch" jsonschema:"The whole patch, to its last line end."`
}

func (t tools) patch(ctx context.Context, _ sdk.Call, in patchInput) (sdk.Preparation[changeOutput], error) {
	return t.prepare(ctx, sdk.ApplyPatch{Text: in.Patch}, true)
}
