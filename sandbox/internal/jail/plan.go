package jail

// A Plan is what a jail is built from, as the host sends it to the launcher. Paths are
// absolute, clean and without links.
type Plan struct {
	// Init keeps the launcher as the first process, which starts the program, ends with it
	// and takes everything along. Otherwise it becomes the program.
	Init bool
	// Probe has the launcher try what a program must not be able to do, and run none.
	Probe bool
	// Path is the program, where it is run by its path. Args are its arguments, its name
	// first; Env is its whole environment.
	Path      string
	Args, Env []string
	// Dir is where it begins, or the root if that is not there.
	Dir string
	// DirIs has it begin only in the directory of these numbers.
	DirIs               bool
	DirDevice, DirInode uint64
	// NoInput gives it a standard input that is at its end.
	NoInput bool
	// Columns and Rows are those of its terminal; 0 is that it has none.
	Columns, Rows int
	// Read are directories and files of the host that can be read; Write those that
	// can be written as well, and Protect what in them cannot.
	Read, Write, Protect []string
	// Run are files that can be run although Exec is not set: the program and its loader.
	Run []string
	// Private are directories that are empty, writable, and gone with the jail.
	Private []string
	// PrivateBytes bounds each of them.
	PrivateBytes int64
	// System adds the programs and libraries of the machine.
	System bool
	// Network keeps the machine's, for which the files that name it are added.
	Network bool
	// Exec lets the program run programs.
	Exec bool
	// Command is the profile of commands, rather than the one of plugins.
	Command bool
	// Memory is in bytes of each process, Processes are those of the jail with their
	// threads, Files are open files of each process.
	Memory    int64
	Processes int
	Files     int
	// UID and GID are what the program has inside.
	UID, GID int
}

// Lacks are the bounds that could not be set, as bits.
type Lacks uint

// The bounds that may be lacking.
const (
	// NoProcessBound is that nothing bounds the number of processes.
	NoProcessBound Lacks = 1 << iota
	// NoProc is that there is no /proc in the jail.
	NoProc
)
