// Package sandbox owns operating system processes: it starts one, holds its
// whole tree, and ends the tree.
//
// [Start] runs a program behind a reaper, a small process between host and
// program that adopts every descendant of the program (it is a child
// subreaper), so that even one that was forked twice and made its own session
// can be found and ended. [Main] is the reaper; a host binary calls it when it
// is run with the hidden arguments of [Launcher].
//
// The life of a tree is tied to the host in three ways that do not depend on
// each other: a lifeline pipe that only the host holds open for the reaper, one
// for the program (its standard input), and the parent-death signal of both.
//
// Confinement by namespaces and system call filters belongs here too; the
// reaper is where it will be applied. Today a process runs with the rights of
// its user.
package sandbox
