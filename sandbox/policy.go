package sandbox

// A Policy is what a confined process may do beyond computing, allocating memory, and
// speaking over the descriptors and the directory that it was given. The zero value
// allows nothing else (law 46).
type Policy struct {
	// Profile is what kind of program it is.
	Profile Profile
	// Dir is the private directory of the process: writable, with room for its sockets and
	// temporary files.
	Dir string
	// Read and Write are the absolute paths of files and directories that can be read, and
	// those that can be written as well, with all that is below. They have no links in them
	// and are seen at the same place.
	Read, Write []string
	// Network is the network of the machine. Without it there is none, not even a loopback
	// interface that is up.
	Network bool
	// Exec allows it to run programs: those of the system, and those in Read and Write.
	Exec bool
	// Limits bound what it uses.
	Limits Limits
}

// Profile is what kind of program is confined.
type Profile uint8

// The profiles.
const (
	// Plugin may make the system calls that a plugin needs, and no others.
	Plugin Profile = iota
	// Command may make all system calls but those that reach out of a sandbox. It is
	// ended with all of its descendants when it ends.
	Command
)

// Limits bound what a confined tree uses. 0 is the default of its field.
type Limits struct {
	// Memory is in bytes, of the whole tree where a control group says so, otherwise of
	// each process.
	Memory int64
	// Processes are processes and threads together.
	Processes int
	// Files are open files of one process.
	Files int
	// CPU is in processors, such as 1.5; it needs a control group.
	CPU float64
}

// The defaults of [Limits].
const (
	DefaultMemory    = 1 << 30
	DefaultProcesses = 512
	DefaultFiles     = 1024
)

// A Tier is how strongly processes are confined.
type Tier string

// The tiers.
const (
	// Strict has every layer: namespaces, private mounts, limits, Landlock and a filter of
	// system calls.
	Strict Tier = "strict"
	// Off is none of them: a process has the rights of its user.
	Off Tier = "off"
)
