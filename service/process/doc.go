// Package process is the engine of a Location's process service: it runs command lines, each
// in the command profile of package sandbox, and ends them with all that they started. Its
// values are those of package service; it knows nothing of plugins and of how they are reached.
//
// # How a command runs
//
// A line is run by a shell, as its only option's argument: a shell that is not interactive and
// reads no files of its own. The shell is the one that is asked for, or found, and one of those
// that lines are judged for. It leads a session of its own, without a terminal unless it is to
// have one, and its standard input holds what it was given and then ends. Its environment is what
// the plugin's profile says, and TERM.
//
// The directory is found when a plan is made, which is what somebody approves, and looked up
// again when the command starts: if it is another one by then, in place or in identity, the
// command does not start (law 27). Last the launcher compares it, from inside.
//
// Before a command starts the caller's gate is asked under the action shell, whoever calls: a
// built-in's call is refused what is denied, anybody else's is judged in full (laws 32, 33).
//
// # How a command ends
//
// With the end of its shell, with its time, with the call of [Service.Run] or shortly before the time
// of that is over, with its session, or with the Location: everything that it started ends with it. What ends it from outside asks the
// whole tree first (SIGTERM), and kills it [grace] later. Nobody is told that it ended before the
// tree is gone, or is told what could not be ended (law 41). A process that keeps the pipes open
// holds nobody: once the tree is gone what was written is read, and no more is waited for.
//
// # What becomes of its output
//
// Standard output and standard error are read as they come, each in its order, and both in the
// order of their arrival here; two pieces that a command writes to both within a moment may
// change places. Where nobody wants them apart they are one stream, which keeps the order. A command waits for who takes its output (backpressure), up to
// [service.StreamedOutput]; of what is beyond that its last part is kept, and the rest is
// dropped and counted (law 19). Of a process that goes on beside its call, which waits for
// nobody, a beginning and an end are kept.
package process
