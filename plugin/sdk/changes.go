package sdk

import (
	"context"

	"github.com/toolhost/toolhost/plugin/internal/wire"
	"github.com/toolhost/toolhost/service"
)

// The changes of files. Package service documents the fields and their bounds.
type (
	// Change is one of the changes below.
	Change = service.Change
	// WriteFile makes Content all that a file holds.
	WriteFile = service.WriteFile
	// EditFile replaces texts in a file.
	EditFile = service.EditFile
	// Replacement replaces a text by another one.
	Replacement = service.Replacement
	// ApplyPatch changes the files that a patch names.
	ApplyPatch = service.ApplyPatch
	// MoveFile gives a file or directory another name.
	MoveFile = service.MoveFile
	// RemoveFile removes a file, a link, or a directory.
	RemoveFile = service.RemoveFile
	// MakeDirectory makes a directory.
	MakeDirectory = service.MakeDirectory

	// Staged is a change that is worked out, and not yet made.
	Staged = service.Staged
	// FileChange is what happens to one file.
	FileChange = service.FileChange
	// ChangeKind is what happens to a file.
	ChangeKind = service.ChangeKind
)

// The kinds of changes.
const (
	FileCreated      = service.FileCreated
	FileChanged      = service.FileChanged
	FileMoved        = service.FileMoved
	FileRemoved      = service.FileRemoved
	DirectoryMade    = service.DirectoryMade
	DirectoryMoved   = service.DirectoryMoved
	DirectoryRemoved = service.DirectoryRemoved
)

// FileSystemWriter changes the files of the Location, in two steps: [FileSystemWriter.Stage]
// works a change out and changes nothing, and [Stage.Commit] makes it. It may be used
// concurrently, with the context of a handler or a preparation.
//
// A tool that changes files is best made by [NewPrepared]: it stages in its preparation,
// requests the permission "edit" for what is staged if it is built in, and commits in its
// action. Then whoever is asked sees the diff that the host made, and what is committed is
// what they saw. The host asks for "edit" itself, when it is committed, about a plugin
// that is not built in.
type FileSystemWriter struct{ client wire.FileSystemWrite }

// Stage works out what a change would do. The error is a [*FileError], a [*Refusal], or
// a [*ServiceError]; a FileError is meant to be shown to a model ([ToFailure]).
//
// What a preparation stages is kept until its action is committed or discarded, if it
// has one; what a handler stages is kept until it returns. A call may have 64 changes
// staged.
func (w *FileSystemWriter) Stage(ctx context.Context, change Change) (*Stage, error) {
	if err := needsCall(ctx, FileSystemWrite); err != nil {
		return nil, err
	}
	number, staged, err := w.client.Stage(ctx, change)
	if err != nil {
		return nil, fromService(ctx, FileSystemWrite, err)
	}
	return &Stage{client: w.client, number: number, staged: staged}, nil
}

// A Stage is a change that the host keeps, ready to be made once.
type Stage struct {
	client wire.FileSystemWrite
	number uint64
	staged Staged
}

// Staged is what the change would do. Its Diff is empty if the call may not read what it
// shows.
func (s *Stage) Staged() Staged { return s.staged }

// Commit makes the change: all of it, which is on the disk then, or nothing. Whatever
// was changed since it was staged is an error that says so. ctx is that of the handler
// or of the action. The errors are those of Stage.
func (s *Stage) Commit(ctx context.Context) error {
	if err := needsCall(ctx, FileSystemWrite); err != nil {
		return err
	}
	return fromService(ctx, FileSystemWrite, s.client.Commit(ctx, s.number))
}

// Discard gives the change up before its call ends.
func (s *Stage) Discard(ctx context.Context) error {
	return fromService(ctx, FileSystemWrite, s.client.Unstage(ctx, s.number))
}
