package process

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolhost/toolhost/plugin/sdk"
)

// settings are those of the configuration. What has a default may be left out.
type settings struct {
	Shell       string `json:"shell,omitempty" jsonschema:"The shell that runs command lines, as an absolute path or as the name of a program: sh, bash, dash, ash, ksh, mksh or busybox. Left out: bash where there is one, otherwise sh."`
	Timeout     string `json:"timeout,omitempty" jsonschema:"As a text such as 90s: how long a command of the tool shell may take that does not say. Left out: 2m, or max_timeout if that is less."`
	MaxTimeout  string `json:"max_timeout,omitempty" jsonschema:"As a text such as 1h: the longest time that may be asked for; at most 24h. Left out: 30m, or timeout if that is more."`
	IdleTimeout string `json:"idle_timeout,omitempty" jsonschema:"As a text such as 30s: how long a command of the tool shell may write nothing before it is ended. Left out: as long as it likes."`
}

// Bounds of the settings, and what they are if they are not said.
const (
	defaultTimeout = 2 * time.Minute
	defaultMax     = 30 * time.Minute
	longest        = 24 * time.Hour
	shortest       = time.Millisecond
)

// shells are those that command lines are judged for.
const shells = "sh, bash, dash, ash, ksh, mksh, busybox"

// running is how commands are run.
type running struct {
	shell              string
	timeout, max, idle time.Duration
}

// parse reads the settings, and says which of them cannot be.
func (s settings) parse() (running, error) {
	r := running{shell: s.Shell, timeout: defaultTimeout, max: defaultMax}
	if err := checkShell(s.Shell); err != nil {
		return running{}, err
	}
	for _, d := range []struct {
		name, text string
		to         *time.Duration
	}{{"timeout", s.Timeout, &r.timeout}, {"max_timeout", s.MaxTimeout, &r.max}, {"idle_timeout", s.IdleTimeout, &r.idle}} {
		if d.text == "" {
			continue
		}
		parsed, err := time.ParseDuration(d.text)
		if err != nil {
			return running{}, fmt.Errorf("setting %s is %q, which is no duration: write one such as 90s, 2m or 1h30m", d.name, d.text)
		}
		if parsed < shortest || parsed > longest {
			return running{}, fmt.Errorf("setting %s is %s: it can be 1ms to 24h; leave it out for its default", d.name, d.text)
		}
		*d.to = parsed
	}
	switch {
	case r.timeout <= r.max:
	case s.Timeout == "":
		r.timeout = r.max
	case s.MaxTimeout == "":
		r.max = r.timeout
	default:
		return running{}, fmt.Errorf("setting timeout is %s and max_timeout is %s: the default cannot be more than the most", s.Timeout, s.MaxTimeout)
	}
	return r, nil
}

// checkShell refuses a shell whose lines would be judged as if it were another one, and a
// path that depends on where it is looked from. Whether it is there the host finds out.
func checkShell(shell string) error {
	known := slices.Contains(strings.Split(shells, ", "), filepath.Base(shell))
	if shell == "" || known && (filepath.IsAbs(shell) || !strings.Contains(shell, "/")) {
		return nil
	}
	return fmt.Errorf("setting shell is %q: give the name of one of %s, or an absolute path of one", shell, shells)
}

// terminal is the terminal that is asked for, or nil. The error is a failure.
func terminal(pty bool, columns, rows int) (*sdk.TerminalSize, error) {
	if !pty {
		if columns != 0 || rows != 0 {
			return nil, sdk.Failure("columns and rows are the size of a terminal: give pty too, or leave them out")
		}
		return nil, nil
	}
	size := sdk.TerminalSize{Columns: 80, Rows: 24}
	for _, n := range []struct {
		name  string
		given int
		to    *int
	}{{"columns", columns, &size.Columns}, {"rows", rows, &size.Rows}} {
		if n.given < 0 || n.given > maxSide {
			return nil, sdk.Failuref("%s is %d: give 1 to %d, or leave it out", n.name, n.given, maxSide)
		}
		if n.given > 0 {
			*n.to = n.given
		}
	}
	return &size, nil
}

// Bounds of the input, which are those of the service. A text for a process is bounded as a
// line is, since it is judged like one.
const (
	maxLine  = 64 << 10 // bytes of a command line, or of a text for a process
	maxStdin = 8 << 20  // bytes
	maxName  = 64       // bytes
	maxSide  = 1000     // columns, rows
	maxWait  = 60_000   // ms
)

// checkLine refuses a line before anything is planned.
func checkLine(line string) error {
	switch {
	case strings.TrimSpace(line) == "":
		return sdk.Failure("command is empty: give the command line")
	case len(line) > maxLine:
		return sdk.Failuref("command has %d bytes: at most %d; write what is longer to a file and run that, or give it as stdin", len(line), maxLine)
	default:
		return nil
	}
}
