package filesystem

import (
	"context"

	"github.com/toolhost/toolhost/plugin/sdk"
)

const moveDescription = `Give a file, a directory or a symbolic link another name or place, within the project. Directories on the way to the new name are made. Nothing is replaced: if there is something with the new name already, or it is a directory, it is an error; name the new path in full. A link is moved itself, not what it points to.`

type moveInput struct {
	From string `json:"from" jsonschema:"What is moved, relative to the project's root."`
	To   string `json:"to" jsonschema:"Its new path in full, relative to the project's root."`
}

func (t tools) move(ctx context.Context, _ sdk.Call, in moveInput) (sdk.Preparation[changeOutput], error) {
	return t.prepare(ctx, sdk.MoveFile{From: in.From, To: in.To}, false)
}

const removeDescription = `Remove a file, a symbolic link, or an empty directory; with recursive a directory with all that is in it. There is no way back: what is removed is gone. A file that this session read and that changed since is not removed. A link is removed itself, not what it points to. The root is never removed.`

type removeInput struct {
	Path      string `json:"path" jsonschema:"What is removed, relative to the project's root."`
	Recursive bool   `json:"recursive,omitempty" jsonschema:"true: remove a directory with all files and directories in it."`
}

func (t tools) remove(ctx context.Context, _ sdk.Call, in removeInput) (sdk.Preparation[changeOutput], error) {
	return t.prepare(ctx, sdk.RemoveFile{Path: in.Path, Recursive: in.Recursive}, false)
}

const mkdirDescription = `Make a directory, and the directories on the way to it. If it is there already nothing is done, and that is no error; if there is a file with that name it is one. Writing a file makes the directories on the way to it by itself, so this is needed for empty ones only.`

type mkdirInput struct {
	Path string `json:"path" jsonschema:"The directory, relative to the project's root."`
}

func (t tools) mkdir(ctx context.Context, _ sdk.Call, in mkdirInput) (sdk.Preparation[changeOutput], error) {
	return t.prepare(ctx, sdk.MakeDirectory{Path: in.Path}, false)
}
