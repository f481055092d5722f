// Package state keeps what outlives a host, in one SQLite database of the
// user's: the record of which config files the user trusts, with their content, and
// of what the programs of plugins are (law 40), of the calls that were started (law 15), of the instructions that a session has been given
// (law 30) and of the files that it saw (law 28), and of what a person approved for good (law 34). Beside it is the audit
// log, in files of its own.
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
//
// # Saved approvals
//
// An [Approval] holds exactly the patterns that were shown. It is on the disk when
// [Store.SaveApproval] returns. A permission check asks an [ApprovalView], which
// remembers what it read and asks SQLite each time whether anything was committed
// since (PRAGMA data_version): that takes microseconds, and sees what any process
// wrote. Since every recorded call is a commit too, triggers count the changes of
// approvals by themselves.
//
// # The audit log
//
// An [Audit] appends lines of JSON, one write each, under the lock (flock) of the file
// that is appended to. Who finds the file full renames it under the same lock, so
// who waited for the lock sees that the file has lost its name and opens the next
// one. What is secret is replaced before a line is made. An [AuditReader] takes no
// lock, and skips what is no entry: the last line of a process that was killed, say.
package state
