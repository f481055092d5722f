package service

import (
	"fmt"
	"time"
)

// Bounds of what runs commands.
const (
	// MaxCommandLine is the most bytes of a command line, which is what is read of one to
	// judge it.
	MaxCommandLine = 64 << 10
	// MaxStdin is the most bytes of the standard input that a command is given when it starts.
	MaxStdin = 8 << 20
	// MaxInput is the most bytes of one input to a process that runs.
	MaxInput = 1 << 20
	// MaxTypedLine is the most bytes of a line that is typed at a terminal: the system drops what
	// is beyond it.
	MaxTypedLine = 4095
	// MaxProcesses is how many processes of one session may run beside its calls, and as many
	// more may have ended and be remembered.
	MaxProcesses = 16
	// MaxLocationProcesses is the same for all sessions of a Location.
	MaxLocationProcesses = 64
	// MaxProcessName is the most bytes of the name of a process.
	MaxProcessName = 64
	// StreamedOutput is how many bytes of the output of one command are passed on as they
	// come. Of what follows the last TailOutput are, once it has ended, and the rest is
	// dropped, with a count (law 19).
	StreamedOutput = 128 << 20
	// TailOutput is how much of the end of an output is kept.
	TailOutput = 256 << 10
	// HeadOutput is how much of the beginning of the output of a process that runs beside its
	// call is kept, beside TailOutput of its end.
	HeadOutput = 64 << 10
	// MaxOutputPart is the most bytes of one [ProcessOutput].
	MaxOutputPart = 64 << 10
	// MaxWait is how long [OutputQuery] may wait.
	MaxWait = time.Minute
	// MaxTimeout is the longest time that may be set for a command.
	MaxTimeout = 24 * time.Hour
)

// A Command is a command line, and how it is to be run. It is run by a shell that is not
// interactive, reads no files of its own at the start, and is given no options but the one
// for the line; in a directory of the Location; confined as the Location's configuration
// says; without a controlling terminal, unless it is to have one.
type Command struct {
	// Line is the whole command line, of one byte to MaxCommandLine.
	Line string
	// Directory is where it runs, relative to the root, or absolute and below it. Empty is
	// the root.
	Directory string
	// Shell is the program that runs the line: an absolute path, or the name of a program to
	// be found. Empty is bash where there is one, otherwise sh. It is one of the shells that
	// command lines are judged for.
	Shell string
	// Stdin is what the command reads from its standard input; then that is at its end.
	// A process that is started reads its further input, too.
	Stdin []byte
	// Timeout ends the command so long after it started, and Idle so long after it last
	// wrote anything. 0 is never.
	Timeout, Idle time.Duration
	// Terminal gives it a terminal of that size, which is its standard input, output and
	// error; nil is none. Lines that are typed at it have at most MaxTypedLine bytes.
	Terminal *TerminalSize
	// Name is what a person calls a process that is started; it may be empty.
	Name string
	// Place is that of a [CommandPlan]: the command starts only if the directory is still the
	// one that the plan found. Empty starts it in whatever Directory is.
	Place string
}

// A TerminalSize is the size of a terminal in characters: 1 to 1,000 columns, and rows.
type TerminalSize struct{ Columns, Rows int }

// A CommandPlan is what is found out of a command before it is run, and before anybody is
// asked. It changes nothing.
type CommandPlan struct {
	// Directory is where it will run, relative to the root and with every link resolved; "."
	// is the root.
	Directory string
	// Place stands for that directory itself, whatever its name refers to later.
	Place string
	// Shell is the absolute path of the shell.
	Shell string
	// Confined says in a few words what the command can reach, for whoever is asked.
	Confined string
	// CannotStart says why no process can be started that goes on when its call has ended, and
	// what to do; empty is that it can.
	CannotStart string
}

// A Stream is where a command wrote to.
type Stream uint8

// The streams. What is written to a terminal is [Stdout].
const (
	Stdout Stream = 1
	Stderr Stream = 2
)

// A Chunk is a piece of the output of a command.
type Chunk struct {
	Stream Stream
	// Data is 64 KiB at most, and cut anywhere.
	Data []byte
	// Dropped is how many bytes were dropped between the last chunk and this one (law 19).
	Dropped int64
}

// An Ending says by whose doing a command ended.
type Ending string

// The endings.
const (
	// EndedItself: it exited, or a signal that it or somebody else sent ended it.
	EndedItself Ending = "exited"
	// EndedByTimeout, EndedByIdle: its Timeout, its Idle.
	EndedByTimeout Ending = "timeout"
	EndedByIdle    Ending = "idle"
	// EndedByCall: its call has hardly any time left, so that it can still be told.
	EndedByCall Ending = "call"
	// EndedByStop: it was stopped by a request, or with its session or its Location.
	EndedByStop Ending = "stopped"
)

// A CommandResult is how a command ended. When it is told nothing of the command runs any
// more: neither itself, nor what it started.
type CommandResult struct {
	// Ending is by whose doing, Code the exit status or -1, and Signal the name of the signal
	// that ended the shell, such as "SIGKILL".
	Ending Ending
	Code   int
	Signal string
	// LeftRunning says that the shell ended by itself while processes that it had started
	// were still running; they were ended with it.
	LeftRunning bool
	// Survivors says in words what could not be ended, which is nothing unless the system
	// holds a process.
	Survivors string
	// Duration is from the start to the end of the whole.
	Duration time.Duration
	// Stdout and Stderr are how many bytes it wrote, which is all in Stdout where both were one
	// stream, and Lost how many of them were dropped (law 19).
	Stdout, Stderr int64
	Lost           int64
	// CPU is the processor time, and Memory the most bytes of one process, of all that ended
	// in good time to be counted; 0 where the system does not say.
	CPU    time.Duration
	Memory int64
	// Lacks are the bounds of its confinement that the machine could not set, in words.
	Lacks []string
}

// ProcessInfo is what is known of a process that runs beside the call that started it.
type ProcessInfo struct {
	// ID names it among those of its session.
	ID string
	// Name, Line and Directory are those of its command; the last is resolved.
	Name, Line, Directory string
	// Terminal is the size of its terminal, or nil.
	Terminal *TerminalSize
	// Started is when it started.
	Started time.Time
	// Written is how many bytes it has written, which is where its output goes on.
	Written int64
	// Unfinished is what was typed to it since the last end of a line, which what is typed next
	// goes on with; of a long one the end. At stands for all that was typed to it.
	Unfinished, At string
	// Result is how it ended; nil while it runs.
	Result *CommandResult
}

// A ProcessInput is what is typed to a process, or written to its standard input.
type ProcessInput struct {
	ID string
	// Data is at most MaxInput bytes. What goes on an unfinished line is judged together with
	// that.
	Data []byte
	// Last ends the input behind Data. At a terminal that is typed, and the program may read on.
	Last bool
	// At is the one of a [ProcessInfo]: nothing is written if something else was typed since.
	// Empty is whatever was.
	At string
}

// An OutputQuery asks for the output of a process.
type OutputQuery struct {
	ID string
	// Since is the byte from which on it is wanted, such as the Next of the last answer; 0
	// is the beginning. One below 0 asks for so many bytes of the end.
	Since int64
	// Wait is how long to wait for more than there is at Since, or for the end; at most
	// MaxWait.
	Wait time.Duration
}

// ProcessOutput is a part of the output of a process: standard output and standard error, in
// the order of their arrival.
type ProcessOutput struct {
	Process ProcessInfo
	// From is where Data begins, and Next where what follows it does.
	From, Next int64
	// Data is at most MaxOutputPart bytes, as they were written.
	Data []byte
	// Dropped is how many bytes between Since and From are not kept any more.
	Dropped int64
}

// ProcessErrorKind says what is wrong with a command, or a request about a process.
type ProcessErrorKind string

// The kinds of process errors.
const (
	ProcessBadDirectory ProcessErrorKind = "bad_directory" // it is not there, is no directory, or not below the root
	ProcessMoved        ProcessErrorKind = "moved"         // the directory is another one than was approved
	ProcessBadCommand   ProcessErrorKind = "bad_command"
	ProcessNoShell      ProcessErrorKind = "no_shell"
	ProcessUnconfined   ProcessErrorKind = "unconfined" // commands cannot be confined here
	ProcessOneShot      ProcessErrorKind = "one_shot"   // the host ends with this call
	ProcessTooMany      ProcessErrorKind = "too_many"
	ProcessUnknown      ProcessErrorKind = "unknown_process"
	ProcessOver         ProcessErrorKind = "process_over"    // it has ended, or reads no input
	ProcessBusy         ProcessErrorKind = "input_not_taken" // it does not read its input
	ProcessNotStarted   ProcessErrorKind = "not_started"     // the system could not start it
)

// A ProcessError is an error of the process service that a tool may show to its model. It
// survives the process line.
type ProcessError struct {
	Kind ProcessErrorKind
	// Subject is what it is about, such as a directory or the id of a process; it may be empty.
	Subject string
	// Detail says what is wrong and what to do next.
	Detail string
}

func (e *ProcessError) Error() string {
	if e.Subject == "" {
		return e.Detail
	}
	return fmt.Sprintf("%s: %s", e.Subject, e.Detail)
}
