package service

// The actions of the built-in tools and services. The action of any other tool
// is its canonical id.
const (
	ActionRead = "read"
	ActionList = "list"
	ActionGlob = "glob"
	ActionGrep = "grep"
	ActionEdit = "edit"
	// ActionShell is the action of every command line, and of every input to a running
	// one. Its resource is the line, whole and as it will be run.
	ActionShell = "shell"
)

// MetadataDirectory is the key in the metadata of a request for [ActionShell] that says in
// which directory the command line runs: a path below the root, relative to it. Without it
// the line runs in the root. It is judged, shown and saved with the line.
const MetadataDirectory = "directory"
