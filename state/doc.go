// Package state keeps what outlives a host, in one SQLite database of the
// user's: the record of which config files the user trusts (law 40), of the calls
// that were started (law 15), and of the instructions that a session has been
// given (law 30).
//
// A [Store] opens its database when it is first needed and not before, since most
// runs never need it. Several processes may use the same database at the same
// time: it is in WAL mode, writes wait for each other, and a newer schema is
// introduced in one transaction. The package knows nothing of what the records
// mean.
//
// # Started calls
//
// [Calls] is the journal of one host. As long as the host lives it holds the lock
// (flock) of a file in the directory "runs" beside the database, and the records
// of its open calls name that file. The kernel releases the lock when the host
// dies, however it dies, so [Store.Abandoned] knows without asking anybody whose
// calls nobody will end any more. Process ids would not do: they are reused, and
// mean something else in each container.
//
// The journal's writes survive the death of the process as soon as they return,
// and not a failure of the machine: waiting for the disk twice in each call would
// cost more than the call. What the machine loses are the last records, never the
// database.
package state
