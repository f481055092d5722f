package wire

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	pluginv1 "github.com/toolhost/toolhost/plugin/proto/toolhost/plugin/v1"
	"github.com/toolhost/toolhost/service"
)

// Bounds of what names things, in bytes. What is longer names nothing.
const (
	maxDirectory = 4096
	maxShell     = 4096
	maxPlace     = 1 << 10
	maxProcessID = 64
	maxTerminal  = 1000 // columns or rows
)

// commandToWire refuses a line that is no text: what would arrive is another command.
func commandToWire(c service.Command) (*pluginv1.Command, error) {
	if !utf8.ValidString(c.Line) {
		return nil, badCommand("the command line is not valid UTF-8: write other bytes as escapes, such as with printf")
	}
	out := &pluginv1.Command{
		Line: c.Line, Directory: []byte(c.Directory), Shell: []byte(c.Shell), Stdin: c.Stdin,
		TimeoutNs: int64(c.Timeout), IdleNs: int64(c.Idle), Name: text(c.Name), Place: text(c.Place),
	}
	if c.Terminal != nil {
		out.Terminal = &pluginv1.TerminalSize{Columns: int64(c.Terminal.Columns), Rows: int64(c.Terminal.Rows)}
	}
	return out, nil
}

// commandFromWire bounds what a plugin may ask for. Whether there is such a directory,
// shell or place is for the engine to say.
func commandFromWire(c *pluginv1.Command) (service.Command, error) {
	if err := checkCommand(c); err != nil {
		return service.Command{}, err
	}
	out := service.Command{
		Line: c.GetLine(), Directory: string(c.GetDirectory()), Shell: string(c.GetShell()), Stdin: c.GetStdin(),
		Timeout: time.Duration(c.GetTimeoutNs()), Idle: time.Duration(c.GetIdleNs()), Name: c.GetName(), Place: c.GetPlace(),
	}
	if t := c.GetTerminal(); t != nil {
		if min(t.GetColumns(), t.GetRows()) < 1 || max(t.GetColumns(), t.GetRows()) > maxTerminal {
			return service.Command{}, badCommand("a terminal has 1 to %d columns and as many rows; %d columns and %d rows were asked for",
				maxTerminal, t.GetColumns(), t.GetRows())
		}
		out.Terminal = &service.TerminalSize{Columns: int(t.GetColumns()), Rows: int(t.GetRows())}
	}
	return out, nil
}

func checkCommand(c *pluginv1.Command) error {
	switch {
	case c.GetLine() == "":
		return badCommand("the command line is empty")
	case len(c.GetLine()) > service.MaxCommandLine:
		return badCommand("the command line has %d bytes; at most %d: put it into a file and run that", len(c.GetLine()), service.MaxCommandLine)
	case strings.ContainsRune(c.GetLine(), 0):
		return badCommand("the command line has a zero byte, which no command line can have")
	case len(c.GetDirectory()) > maxDirectory:
		return &service.ProcessError{
			Kind: service.ProcessBadDirectory, Subject: cutAt(string(c.GetDirectory()[:maxDirectory]), maxProcessID),
			Detail: fmt.Sprintf("the directory's path has %d bytes; at most %d", len(c.GetDirectory()), maxDirectory),
		}
	case len(c.GetShell()) > maxShell:
		return badCommand("the shell's name has %d bytes; at most %d", len(c.GetShell()), maxShell)
	case len(c.GetStdin()) > service.MaxStdin:
		return badCommand("the standard input has %d bytes; at most %d: put it into a file and read that", len(c.GetStdin()), service.MaxStdin)
	case c.GetTimeoutNs() < 0 || c.GetIdleNs() < 0:
		return badCommand("a time out is below 0; 0 is none")
	case max(c.GetTimeoutNs(), c.GetIdleNs()) > int64(service.MaxTimeout):
		return badCommand("a time out is %s; at most %s", time.Duration(max(c.GetTimeoutNs(), c.GetIdleNs())), service.MaxTimeout)
	case len(c.GetName()) > service.MaxProcessName:
		return badCommand("the name has %d bytes; at most %d", len(c.GetName()), service.MaxProcessName)
	case strings.ContainsFunc(c.GetName(), unseen):
		return badCommand("the name has control characters: use letters, digits and marks")
	case len(c.GetPlace()) > maxPlace:
		return badCommand("the place is none that a plan gave")
	default:
		return nil
	}
}

// unseen are the characters that a person who reads a list of processes does not see, or that
// change how the rest of the line is shown.
func unseen(r rune) bool { return !unicode.IsGraphic(r) }

func outputQueryFromWire(r *pluginv1.OutputRequest) (service.OutputQuery, error) {
	if err := checkProcessID(r.GetId()); err != nil {
		return service.OutputQuery{}, err
	}
	if r.GetWaitNs() < 0 || r.GetWaitNs() > int64(service.MaxWait) {
		return service.OutputQuery{}, badCommand("output may be waited for between 0 and %s, and it was to be %s", service.MaxWait, time.Duration(r.GetWaitNs()))
	}
	return service.OutputQuery{
		ID: r.GetId(), Wait: time.Duration(r.GetWaitNs()),
		Since: max(r.GetSince(), -math.MaxInt64), // which can be negated
	}, nil
}

func checkInput(r *pluginv1.InputRequest) error {
	if len(r.GetData()) > service.MaxInput {
		return badCommand("the input has %d bytes; at most %d at once", len(r.GetData()), service.MaxInput)
	}
	if len(r.GetAt()) > maxPlace {
		return badCommand("what was typed to the process before is none that the host told")
	}
	return checkProcessID(r.GetId())
}

func checkProcessID(id string) error {
	if len(id) <= maxProcessID {
		return nil
	}
	return &service.ProcessError{
		Kind: service.ProcessUnknown, Subject: cutAt(id, maxProcessID), Detail: "there is no such process; list those that there are",
	}
}

func badCommand(format string, args ...any) error {
	return &service.ProcessError{Kind: service.ProcessBadCommand, Detail: fmt.Sprintf(format, args...)}
}

func resultOfCommandToWire(r *service.CommandResult) *pluginv1.CommandResult {
	if r == nil {
		return nil
	}
	return &pluginv1.CommandResult{
		Ending: text(string(r.Ending)), Code: int64(r.Code), Signal: text(r.Signal), LeftRunning: r.LeftRunning, Survivors: text(r.Survivors),
		DurationNs: int64(r.Duration), Stdout: r.Stdout, Stderr: r.Stderr, Lost: r.Lost, CpuNs: int64(r.CPU), Memory: r.Memory, Lacks: texts(r.Lacks),
	}
}

func resultOfCommandFromWire(r *pluginv1.CommandResult) service.CommandResult {
	return service.CommandResult{
		Ending: service.Ending(r.GetEnding()), Code: int(r.GetCode()), Signal: r.GetSignal(), LeftRunning: r.GetLeftRunning(), Survivors: r.GetSurvivors(),
		Duration: time.Duration(r.GetDurationNs()), Stdout: r.GetStdout(), Stderr: r.GetStderr(), Lost: r.GetLost(),
		CPU: time.Duration(r.GetCpuNs()), Memory: r.GetMemory(), Lacks: r.GetLacks(),
	}
}

func processToWire(p service.ProcessInfo) *pluginv1.ProcessInfo {
	out := &pluginv1.ProcessInfo{
		Id: text(p.ID), Name: text(p.Name), Line: text(p.Line), Directory: []byte(p.Directory), Written: p.Written, Result: resultOfCommandToWire(p.Result),
		Unfinished: []byte(p.Unfinished), At: text(p.At),
	}
	if p.Terminal != nil {
		out.Terminal = &pluginv1.TerminalSize{Columns: int64(p.Terminal.Columns), Rows: int64(p.Terminal.Rows)}
	}
	if !p.Started.IsZero() {
		out.StartedNs = p.Started.UnixNano()
	}
	return out
}

func processFromWire(p *pluginv1.ProcessInfo) service.ProcessInfo {
	out := service.ProcessInfo{
		ID: p.GetId(), Name: p.GetName(), Line: p.GetLine(), Directory: string(p.GetDirectory()), Written: p.GetWritten(),
		Unfinished: string(p.GetUnfinished()), At: p.GetAt(),
	}
	if t := p.GetTerminal(); t != nil {
		out.Terminal = &service.TerminalSize{Columns: int(t.GetColumns()), Rows: int(t.GetRows())}
	}
	if p.GetStartedNs() != 0 {
		out.Started = time.Unix(0, p.GetStartedNs())
	}
	if p.GetResult() != nil {
		result := resultOfCommandFromWire(p.GetResult())
		out.Result = &result
	}
	return out
}
