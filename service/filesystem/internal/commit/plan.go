package commit

import (
	"crypto/sha256"
	"path"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/service/filesystem/internal/beneath"
)

// A Plan is a list of steps, and what they rely on.
type Plan struct {
	// Directories are those that the steps change, as they were when the plan was made, by
	// path. Those that a step makes are not among them.
	Directories map[string]beneath.Info
	// Steps are done in order, except that directories are made first.
	Steps []Step
	// Records is where it is recorded while it is carried out.
	Records Records
}

// Kind is what a step does.
type Kind uint8

// The kinds of steps.
const (
	// Create makes a file that is not there.
	Create Kind = iota
	// Replace gives a file other content.
	Replace
	// Remove takes away a file, a link, or a directory with all that is in it.
	Remove
	// Move gives a file, link or directory another name, which is not taken.
	Move
	// MakeDirectory makes a directory, if there is none.
	MakeDirectory
)

// A Step is one change. Paths are relative to the root, clean, and without links.
type Step struct {
	Kind Kind
	Path string
	// To is where a move leads.
	To string
	// Content is what a file gets.
	Content []byte
	// Like names a file whose mode, owner and attributes a created file gets.
	Like string
	// Executable makes a created file one that can be run.
	Executable bool
	// Before is what must be there: for Replace, Remove and Move.
	Before Before
}

// Before is what a step expects to find.
type Before struct {
	Info beneath.Info
	// Digest is the SHA-256 of a file that is replaced or removed.
	Digest [sha256.Size]byte
	// Unread says that there is no digest of a file that is removed, as it is too large:
	// its size and time are compared.
	Unread bool
	// Target is what a link says.
	Target string
	// Tree is what is in a directory that is removed or moved, sorted by path relative to
	// it.
	Tree []Entry
}

func dirOf(p string) string { return path.Dir(p) }

func changed(p, detail string) error {
	return &service.FileError{Kind: service.FileStale, Path: p, Detail: detail}
}

// The words for what is not as it was.
const (
	otherFile = "changed since the change was prepared"
	otherDir  = "its directory is another one than when the change was prepared"
	nowThere  = "is there now, and was not when the change was prepared"
	movedAway = "its directory was moved while it was being changed"
	otherTree = "what is in it changed since the change was prepared"

	nothing = "; nothing was changed"
	again   = nothing + ": look at it as it is now, and make the call again"
)
