// Package chaos does to hosts over real processes what weeks beside an editor do: plugins that crash, hang, flood, fork and are
// rebuilt, configurations that change, Locations that come and go. It holds nothing but tests: a short form of each is in the
// plain run, make chaos runs them for minutes.
//
// The test binary is host, reaper and plugin at once. What is left after a host is closed is found from outside: the processes
// below this one and those with a mark in their environment, the directory that run directories are made in, the table of
// sockets, the descriptors by kind, the goroutines.
package chaos
