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

// The keys in the metadata of a request for [ActionShell] that say to which process a text is
// typed, rather than run, and with which standard input a line is run: how that begins. What was
// approved for good does not count for these, and nothing is saved of them: the input may be
// commands too.
const (
	MetadataProcess = "process"
	MetadataStdin   = "stdin"
)

// MetadataDirectory is the key in the metadata of a request for [ActionShell] that says in
// which directory the command line runs: a path below the root, relative to it. Without it
// the line runs in the root. It is judged, shown and saved with the line.
const MetadataDirectory = "directory"
