package process

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toolhost/toolhost/service"
	"github.com/toolhost/toolhost/tool"
)

// A command is one that is ready to be started.
type command struct {
	service.Command
	profile *Profile
	place   Place
	shell   string               // absolute
	left    func() time.Duration // how long its call may take yet; nil is not known
	least   time.Duration        // what is left of it at the end; set when the command runs
}

// directory is the absolute path of where it runs.
func (c *command) directory(root string) string {
	return filepath.Join(root, filepath.FromSlash(c.place.Path))
}

// prepare checks a command, and finds its shell and its directory.
func (s *Service) prepare(ctx context.Context, caller Caller, asked service.Command) (*command, error) {
	if err := check(&asked); err != nil {
		return nil, err
	}
	if caller.Profile.Refused != "" {
		return nil, &service.ProcessError{Kind: service.ProcessUnconfined, Detail: caller.Profile.Refused}
	}
	shell, err := findShell(asked.Shell, caller.Profile.Env)
	if err != nil {
		return nil, err
	}
	directory := asked.Directory
	if directory == "" {
		directory = "."
	}
	place, err := s.options.Find(ctx, caller.Gate, directory)
	if err != nil {
		return nil, err
	}
	return &command{Command: asked, profile: caller.Profile, place: place, shell: shell, left: caller.Left}, nil
}

// permitted prepares a command that is about to start, and asks for what the service itself
// has to ask for. What was planned must be what is there still, also once somebody has answered.
func (s *Service) permitted(ctx context.Context, caller Caller, asked service.Command) (*command, error) {
	c, err := s.prepare(ctx, caller, asked)
	if err != nil {
		return nil, err
	}
	if asked.Place != "" && c.place.id() != asked.Place {
		return nil, moved(asked.Directory)
	}
	if err := caller.Gate.PermitCommand(ctx, tool.CommandLine{
		Line: c.Line, Directory: c.place.Path, Stdin: shownInput(c.Stdin),
	}); err != nil {
		return nil, err
	}
	again, err := s.options.Find(ctx, caller.Gate, c.place.Path)
	if err != nil {
		return nil, err
	}
	if again != c.place {
		return nil, moved(asked.Directory)
	}
	return c, nil
}

func moved(directory string) error {
	return &service.ProcessError{Kind: service.ProcessMoved, Subject: directory,
		Detail: "the directory is another one than when the command was looked at, and so the command was not run: call again"}
}

// check finds what is wrong with a command in itself.
func check(c *service.Command) error {
	wrong := func(format string, args ...any) error {
		return &service.ProcessError{Kind: service.ProcessBadCommand, Detail: fmt.Sprintf(format, args...)}
	}
	switch {
	case strings.TrimSpace(c.Line) == "":
		return wrong("the command is empty: give the command line to run")
	case len(c.Line) > service.MaxCommandLine:
		return wrong("the command has %d bytes, and at most %d are run: put it into a script file", len(c.Line), service.MaxCommandLine)
	case strings.IndexByte(c.Line, 0) >= 0:
		return wrong("the command has a NUL in it, which no shell reads")
	case !utf8.ValidString(c.Line):
		return wrong("the command is not UTF-8: put it into a script file")
	case len(c.Stdin) > service.MaxStdin:
		return wrong("the standard input has %d bytes, and may have %d: put it into a file, and read that with <", len(c.Stdin), service.MaxStdin)
	case c.Timeout < 0 || c.Idle < 0 || c.Timeout > service.MaxTimeout || c.Idle > service.MaxTimeout:
		return wrong("a timeout is from 0 to %v", service.MaxTimeout)
	case len(c.Name) > service.MaxProcessName || !printable(c.Name):
		return wrong("the name of a process has at most %d bytes, and no control characters", service.MaxProcessName)
	}
	if t := c.Terminal; t != nil && (t.Columns < 1 || t.Columns > 1000 || t.Rows < 1 || t.Rows > 1000) {
		return wrong("a terminal has 1 to 1,000 columns and rows, not %d and %d", t.Columns, t.Rows)
	}
	if c.Terminal != nil {
		return checkTyped(c.Stdin)
	}
	return nil
}

// checkTyped finds lines that a terminal would cut without a word.
func checkTyped(data []byte) error {
	for line := range bytes.Lines(data) {
		if len(line) > service.MaxTypedLine {
			return &service.ProcessError{Kind: service.ProcessBadCommand, Detail: fmt.Sprintf(
				"a line of the input has %d bytes, and a terminal takes %d: put it into a file, or do without a terminal", len(line), service.MaxTypedLine)}
		}
	}
	return nil
}

// shownInput is how a standard input begins, for whoever is asked; empty if there is none.
func shownInput(stdin []byte) string {
	const most = 1 << 10
	if len(stdin) == 0 {
		return ""
	}
	begin := strconv.QuoteToGraphic(string(stdin[:min(len(stdin), most)]))
	if len(stdin) > most {
		begin += fmt.Sprintf(" and %d bytes more", len(stdin)-most)
	}
	return begin
}

func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || 0x80 <= r && r < 0xa0 })
}
