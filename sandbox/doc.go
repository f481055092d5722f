// Package sandbox owns operating system processes: it starts one, holds its whole tree, and ends the tree (laws 41 and 42).
// It is for Linux.
//
// [Start] runs a program behind a reaper, a small process between host and program that adopts every descendant of the
// program (it is a child subreaper), so that even one that was forked twice and made its own session is found and ended.
// [Main] is the reaper; a host binary calls it when it is run with the hidden arguments of [Launcher].
//
//	host ── reaper (session, child subreaper) ── program (group) ── descendants
//
// The reaper ends well when it has no child left, which only the kernel can say, so its exit status is the proof that the tree
// is gone. What it reports is none: a program with the rights of root could report in its place.
// It ends the tree when the program ends, when the host asks, and when the host is gone, which it is told in two ways that
// do not depend on each other: the lifeline, a pipe that only the host holds open, and the parent-death signal. That
// signal is SIGCONT, so that a reaper that was stopped hears of it as well. The program has both too: its standard input
// is a lifeline, and it is killed when the reaper ends.
//
// Reaper and program are in a session of their own, without the host's terminal. A process can only join a group of its own
// session, so every group that a descendant is in consists of descendants, and can be killed whole.
//
// Nothing of the host reaches the program but what [Spec] says: the environment travels down the lifeline, so that it
// is exactly the one given and does not steer the reaper, and of the descriptors only 0, 1 and 2 are passed on.
//
// Confinement by namespaces and system call filters belongs here too; the reaper is where it will be applied. Today a
// process runs with the rights of its user.
package sandbox
