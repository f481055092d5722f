package service

// Bounds of what changes files.
const (
	// MaxContent is the most bytes that a file may have to be changed, and may get.
	MaxContent = 64 << 20
	// MaxChangeBytes is the most bytes of one change as it is asked for: its content,
	// its replacements together, its patch.
	MaxChangeBytes = 12 << 20
	// MaxReplacements is how many replacements one edit may have.
	MaxReplacements = 100
	// MaxChangedFiles is how many files one change may be about. A directory counts as
	// one; so many of the files in it are asked for by their names, where they must be.
	MaxChangedFiles = 256
	// MaxDiff is where the diff of a change is cut, in bytes.
	MaxDiff = 256 << 10
)

// A Change is what is to be done to files, at once or not at all. It is one of
// [WriteFile], [EditFile], [ApplyPatch], [MoveFile], [RemoveFile] and
// [MakeDirectory]. Paths are relative to the root, or absolute and below it.
type Change interface{ change() }

// WriteFile makes Content all that a file holds. The file is created if it is not
// there, with the directories on the way. One that is there must have been read in
// the session (law 28).
type WriteFile struct {
	Path    string
	Content []byte
	// CreateOnly refuses a file that is there already.
	CreateOnly bool
}

// EditFile replaces texts in a file: one after the other, each in what the ones
// before it made, and all of them or none. Every byte that is not replaced stays as
// it was.
type EditFile struct {
	Path         string
	Replacements []Replacement
}

// A Replacement replaces a text by another one, literally.
type Replacement struct {
	// Old is the text that is there, with "\n" for the end of a line, whichever the
	// file has. It must not be blank, and must be there once unless All says so.
	Old string
	// New is what takes its place.
	New string
	// All replaces every occurrence.
	All bool
}

// ApplyPatch changes the files that a patch names: a unified diff, or the form that
// begins with "*** Begin Patch".
type ApplyPatch struct{ Text string }

// MoveFile gives a file or directory another name. Nothing that is there is replaced.
type MoveFile struct{ From, To string }

// RemoveFile removes a file, a link itself, or an empty directory; any directory if
// it is Recursive.
type RemoveFile struct {
	Path      string
	Recursive bool
}

// MakeDirectory makes a directory, and those on the way to it. One that is there is no
// error.
type MakeDirectory struct{ Path string }

func (WriteFile) change()     {}
func (EditFile) change()      {}
func (ApplyPatch) change()    {}
func (MoveFile) change()      {}
func (RemoveFile) change()    {}
func (MakeDirectory) change() {}

// ChangeKind is what happens to a file.
type ChangeKind string

// The kinds of changes.
const (
	FileCreated      ChangeKind = "created"
	FileChanged      ChangeKind = "changed"
	FileMoved        ChangeKind = "moved"
	FileRemoved      ChangeKind = "removed"
	DirectoryMade    ChangeKind = "directory_made"
	DirectoryMoved   ChangeKind = "directory_moved"
	DirectoryRemoved ChangeKind = "directory_removed"
)

// Staged is a change that is worked out, and not yet made.
type Staged struct {
	// Resources is what permission to edit is asked for: each path as it was spelled
	// and, where a link makes it another one, as it was resolved (law 39).
	Resources []string
	// Files is what will happen, in the order in which it is done.
	Files []FileChange
	// Diff shows the bytes that will be written beside those that are there, as a
	// unified diff with notes. It is cut at MaxDiff, which it says. After the lines of
	// a file stands an empty one, which no line of a diff is, if anything follows.
	Diff string
	// Irreversible says that what will be lost is not all in the diff: something is
	// removed, or the diff is cut, leaves out parts of lines, or is of bytes that are no
	// text.
	Irreversible bool
}

// FileChange is what happens to one file.
type FileChange struct {
	Kind ChangeKind
	// Path is the path as it was spelled, cleaned; Resolved has every link resolved, and
	// is what is changed. Of a move they are where it leads.
	Path, Resolved string
	// From is where a moved file was.
	From string
	// Added and Removed count lines; they are 0 for what is no text.
	Added, Removed int
	// Size is how many bytes the file has afterwards.
	Size int64
	// Names is how many other names the file has, as hard links: they keep the old
	// content.
	Names int
	// Notes are what whoever is asked is told of the file in words and the counts above do
	// not say, a line each: ends of lines that change, a mark, that the file is read-only.
	// Where the diff is withheld there are none.
	Notes []string
}
