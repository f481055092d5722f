// Package state keeps what outlives a host, in one SQLite database of the
// user's: so far the record of which config files the user trusts (law 40).
//
// A [Store] opens its database when it is first needed and not before, since most
// runs never need it. Several processes may use the same database at the same
// time: it is in WAL mode, writes wait for each other, and a newer schema is
// introduced in one transaction. The package knows nothing of what the records
// mean.
package state
