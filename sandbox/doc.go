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
// is a lifeline, unless it is to have another one ([Stdin]), and it is killed when the reaper ends.
//
// Reaper and program are in a session of their own, without the host's terminal. A process can only join a group of its own
// session, so every group that a descendant is in consists of descendants, and can be killed whole.
//
// Nothing of the host reaches the program but what [Spec] says: the environment travels down the lifeline, so that it
// is exactly the one given and does not steer the reaper, and of the descriptors only 0, 1 and 2 are passed on. With a
// terminal of its own (Spec.Terminal) the program leads a session, which that terminal controls; the host holds the other side.
//
// [Process.Terminate] has whoever is above the program ask all that is below it to end: the host cannot know who that is.
// [Process.Kill] is what ends them.
//
// # Confinement
//
// With a [Policy] a process gets nothing but what that says (law 46), by several layers, of which none is enough alone:
// namespaces of its own (user, pid, mount, ipc, uts, cgroup, and net where the network is not granted), a read-only root of
// what was granted, limits, no capability and no way to one, Landlock, and a filter of system calls. [Probe] finds out
// whether a machine lets this user have all of them ([Strict]) by trying what must be refused; there is nothing between that and
// [Off], and nobody is moved from one to the other without being told.
//
//	host ── launcher, which becomes the program ([Plugin])
//	host ── launcher, as the first process ── program ── descendants ([Command], or with Exec)
//
// The launcher is [Main] again, with a word of its own: started by the host in new namespaces, with a plan in memory. On one
// locked thread it builds the root, moves there, gives up every right, has Landlock and the filter enforced, and runs the
// program. Any failure ends it with a reason, which is a [JailError]. A program that may run no others is opened by the host, or is a
// copy of it that was verified and sealed in memory ([Programs]), and is run from there; the descriptor is beyond any that
// it could make itself. Otherwise it is run by its path, below the launcher, which stays as the first process.
//
// A terminal of a [Command] is made by the launcher in the jail, on a /dev/pts that nothing else has, and handed to the host,
// so that its name means the same to the program as to the kernel. The machine's cannot be named there.
//
// The tree ends with its first process, which is the kernel's doing ([MethodNamespace]); a control group ends it at one
// stroke where there is one. What of its bounds a machine cannot set is in [Process.Lacks].
//
// It is no defence against mistakes in the kernel, and a path that was granted is granted with all that is below it, sockets
// included.
package sandbox
