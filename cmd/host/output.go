package main

import (
	"cmp"
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"syscall"
	"unicode"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/toolhost/toolhost/service/permission/shown"
)

// output is one of the command's two outputs. A terminal gets no control
// characters, whatever a plugin or a repository wrote; a pipe gets the text as it
// is. Writing never fails for the writer: the first error is kept, and a reader
// who went away is none. It may be used concurrently.
type output struct {
	to       io.Writer
	terminal bool

	mu   sync.Mutex
	err  error // under mu: the first that counts
	left bool  // under mu: the reader went away
}

func newOutput(to io.Writer) *output {
	file, ok := to.(*os.File)
	return &output{to: to, terminal: ok && term.IsTerminal(int(file.Fd()))}
}

// Write takes whole texts: what it is given ends where a character ends.
func (o *output) Write(p []byte) (int, error) {
	text := string(p)
	if o.terminal {
		text = plain(text)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch _, err := io.WriteString(o.to, text); {
	case errors.Is(err, syscall.EPIPE):
		o.left = true
	case err != nil && o.err == nil:
		o.err = err
	}
	return len(p), nil
}

// width is how many columns the terminal has, or 0 if it is none.
func (o *output) width() int {
	file, ok := o.to.(*os.File)
	if !ok || !o.terminal {
		return 0
	}
	return widthOf(file)
}

// columns is within how many columns what is long is broken: those of the terminal. What
// is read by a program is not broken at all.
func (o *output) columns() int {
	if width := o.width(); width > 0 {
		return width
	}
	return math.MaxInt
}

// widthOf is how many columns a terminal has, or those that are assumed where it does
// not say.
func widthOf(terminal *os.File) int {
	columns := 0
	if raw, err := terminal.SyscallConn(); err == nil { // Fd would make it block
		_ = raw.Control(func(fd uintptr) {
			if size, err := unix.IoctlGetWinsize(int(fd), unix.TIOCGWINSZ); err == nil {
				columns = int(size.Col)
			}
		})
	}
	return cmp.Or(columns, shown.Columns)
}

// gone says whether the reader went away, so that there is no use in writing more.
func (o *output) gone() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.left
}

// failed is the first error of writing.
func (o *output) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// plain replaces control characters, except the ends of lines and tabs.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
