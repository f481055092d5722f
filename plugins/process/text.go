package process

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/toolhost/toolhost/plugin/sdk"
)

// An ending is how a command ended, as a program reads it.
type ending struct {
	Ending      string   `json:"ending" jsonschema:"exited when it ended by itself or by a signal from elsewhere; timeout, idle, call or stopped when it was ended"`
	ExitCode    *int     `json:"exit_code" jsonschema:"the exit status; null when a signal ended it"`
	Signal      string   `json:"signal,omitempty" jsonschema:"the signal that ended it, such as SIGKILL"`
	DurationMS  int64    `json:"duration_ms" jsonschema:"from the start to the end of all that it started"`
	OutputBytes int64    `json:"output_bytes" jsonschema:"how many bytes it wrote"`
	LostBytes   int64    `json:"lost_bytes,omitempty" jsonschema:"how many of these bytes were dropped, which nobody has"`
	LeftRunning bool     `json:"left_running,omitempty" jsonschema:"true when it left processes running, which were ended with it"`
	Survivors   string   `json:"survivors,omitempty" jsonschema:"what could not be ended"`
	CPUMS       int64    `json:"cpu_ms,omitempty" jsonschema:"the processor time that it took, where the system says so"`
	MemoryBytes int64    `json:"max_memory_bytes,omitempty" jsonschema:"the most memory of one of its processes, where the system says so"`
	Lacks       []string `json:"lacks,omitempty" jsonschema:"bounds of its confinement that this machine could not set"`
}

func endingOf(r sdk.CommandResult) ending {
	e := ending{
		Ending: string(r.Ending), Signal: r.Signal, DurationMS: r.Duration.Milliseconds(), OutputBytes: r.Stdout + r.Stderr,
		LostBytes: r.Lost, LeftRunning: r.LeftRunning, Survivors: r.Survivors, CPUMS: r.CPU.Milliseconds(), MemoryBytes: r.Memory,
		Lacks: r.Lacks,
	}
	if r.Signal == "" && r.Code >= 0 {
		e.ExitCode = new(r.Code)
	}
	return e
}

// words say how it ended.
func (e ending) words() string {
	switch {
	case e.Ending == string(sdk.EndedByTimeout):
		return "timed out"
	case e.Ending == string(sdk.EndedByCall):
		return "ended with the time of its call"
	case e.Ending == string(sdk.EndedByIdle):
		return "wrote nothing for too long, and was ended"
	case e.Ending == string(sdk.EndedByStop):
		return "stopped"
	case e.Signal != "":
		if n := unix.SignalNum(e.Signal); n > 0 {
			return fmt.Sprintf("ended by %s, which a shell calls status %d", e.Signal, 128+int(n))
		}
		return "ended by " + e.Signal
	case e.ExitCode == nil:
		return "ended"
	default:
		status := "exit status " + strconv.Itoa(*e.ExitCode)
		if name := unix.SignalName(syscall.Signal(*e.ExitCode - 128)); *e.ExitCode > 128 && name != "" {
			status += ", which a shell gives when " + name + " ended a command"
		}
		return status
	}
}

// left are the notes on what it left behind.
func (e ending) left() []string {
	var notes []string
	if e.LeftRunning {
		notes = append(notes, "processes that it left running were ended with it")
	}
	if e.Survivors != "" {
		notes = append(notes, "not all could be ended: "+e.Survivors)
	}
	return notes
}

// A process is what is known of one that runs beside the calls.
type process struct {
	ID         string  `json:"id" jsonschema:"what the other tools call it"`
	Name       string  `json:"name,omitempty" jsonschema:"what people call it"`
	Command    string  `json:"command" jsonschema:"its command line; of a long one the beginning"`
	Directory  string  `json:"directory" jsonschema:"where it was started, relative to the root and without links; . is the root"`
	Pty        bool    `json:"pty,omitempty" jsonschema:"true when it has a terminal"`
	Running    bool    `json:"running" jsonschema:"whether it runs"`
	DurationMS int64   `json:"duration_ms" jsonschema:"how long it has been running, or ran"`
	Written    int64   `json:"written_bytes" jsonschema:"how many bytes it has written"`
	Result     *ending `json:"result,omitempty" jsonschema:"how it ended"`
}

// commandBytes is how much of a command line is told of a process, so that a list of all of
// them is no more than a caller may be given.
const commandBytes = 4 << 10

func processOf(info sdk.ProcessInfo) process {
	p := process{
		ID: info.ID, Name: info.Name, Command: beginning(strings.ToValidUTF8(info.Line, "\ufffd"), commandBytes), Directory: info.Directory,
		Pty: info.Terminal != nil, Running: info.Result == nil, Written: info.Written,
		DurationMS: max(0, time.Since(info.Started).Milliseconds()),
	}
	if info.Result != nil {
		p.Result = new(endingOf(*info.Result))
		p.DurationMS = p.Result.DurationMS
	}
	return p
}

// label is what a note calls it.
func (p process) label() string {
	if p.Name == "" {
		return "process " + p.ID
	}
	return "process " + p.ID + " " + quoted(p.Name)
}

// state says whether it runs, and for how long, or how it ended.
func (p process) state() string {
	duration := seconds(time.Duration(p.DurationMS) * time.Millisecond)
	if p.Result == nil {
		return "running for " + duration
	}
	return p.Result.words() + " after " + duration
}

// seconds is a duration as people say it.
func seconds(d time.Duration) string {
	switch whole := int64(d.Round(time.Second) / time.Second); {
	case d < 9950*time.Millisecond && d%time.Second == 0:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < 100*time.Millisecond:
		return strconv.FormatFloat(float64(d.Microseconds())/1e6, 'f', 3, 64) + " s"
	case d < 9950*time.Millisecond: // which would be rounded to 10.0
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case whole < 120:
		return fmt.Sprintf("%d s", whole)
	case whole < 7200:
		return fmt.Sprintf("%d m", whole/60) + rest(whole%60, "s")
	default:
		return fmt.Sprintf("%d h", whole/3600) + rest(whole%3600/60, "m")
	}
}

func rest(n int64, unit string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" %d %s", n, unit)
}

// bracketed is a block of notes.
func bracketed(notes []string) string { return "[" + strings.Join(notes, "]\n[") + "]" }

// plural chooses between one and many.
func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// quoted is a text in quotes, in which nothing controls how it is shown.
func quoted(text string) string { return strconv.Quote(beginning(text, shortBytes)) }

// shortBytes is how much of a text there is in a line of another one.
const shortBytes = 150

// short is a text as a line of another one shows it: its beginning, and quoted if it could
// be misread.
func short(text string) string {
	begin := beginning(text, shortBytes)
	if q := strconv.Quote(begin); begin == "" || strings.TrimSpace(begin) != begin || q != `"`+strings.ReplaceAll(strings.ReplaceAll(begin, `\`, `\\`), `"`, `\"`)+`"` {
		return q
	}
	return begin
}

// beginning is the text, or as much of it as fits and a mark.
func beginning(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	for !utf8.RuneStart(text[bytes]) {
		bytes--
	}
	return text[:bytes] + "…"
}
