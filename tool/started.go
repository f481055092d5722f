package tool

import "time"

// A Start is the record of a call that may do more than read, made before it runs
// (law 15). What became of it is recorded when it ended; of a host that died
// nobody knows, and nothing is run again.
type Start struct {
	Identity Identity
	// Tool is the canonical id.
	Tool string
	// Effects is what the call may do.
	Effects Effects
	// At is when it started.
	At time.Time
}
